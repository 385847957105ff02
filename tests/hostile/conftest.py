"""A call that must be refused quickly, in one line and with little memory."""

import re
import resource
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

SECONDS = 10  # of processor time; the bombs take minutes, or never end
MEMORY = 400 * 2**20


@pytest.fixture
def refusal():
    """Return a function that returns the message of a refused call, and fails if the refusal is expensive."""

    def refuse(call, *arguments):
        start = time.process_time()
        with limited_memory(), pytest.raises(ValueError) as caught:  # noqa: PT011 (the caller checks the message)
            call(*arguments)
        assert time.process_time() - start < SECONDS
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return refuse


@contextmanager
def limited_memory():
    """Limit allocations: a bomb that is not refused raises MemoryError instead of ValueError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    status = Path("/proc/self/status")
    used = int(re.search(r"VmData:\s+(\d+)", status.read_text())[1]) if status.exists() else 2**30
    resource.setrlimit(resource.RLIMIT_DATA, (1024 * used + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@pytest.fixture
def little_memory():
    """Return a context manager in which allocations are limited."""
    return limited_memory
