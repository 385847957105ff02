"""A service in a process of its own, for tests."""

import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest

from nutime import NuTimeConfig

httpx = pytest.importorskip("httpx")
for module in ("uvicorn", "fastapi", "prometheus_client"):
    pytest.importorskip(module, reason="the service is an extra: pip install 'nutime[serve]'")

TINY = NuTimeConfig(window=4, length=32, dim=32, depth=1, heads=2, head_dim=16, mlp_dim=32, scalar_dim=8, scales=3)
# The command as `nutime serve` runs it, without the seconds the other commands take to import.
PROGRAM = "import typer; from nutime.cli.serve import serve; typer.run(serve)"


def walks(n=12, length=40, seed=0):
    return np.random.default_rng(seed).standard_normal((n, length)).cumsum(axis=1)


@contextmanager
def serving(*arguments):
    """Yield a client of a service, and its process; the arguments are models and options."""
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert line.startswith("http://127.0.0.1:"), process.stderr.read()
        address = httpx.URL(line.split()[0]).copy_with(path="/")
        with httpx.Client(base_url=address, timeout=60) as client:
            while True:
                try:
                    client.get("/health")
                    break
                except httpx.TransportError:
                    time.sleep(0.05)
            yield client, process
    finally:
        process.kill()
        process.communicate()


def stream_of(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())
