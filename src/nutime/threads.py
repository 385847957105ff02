"""Chunks of work on several threads, each chunk on one.

The threads of a single operation wait for each other at its end, thousands of times for a chunk. Beside a busy
process, each wait may last a time slice of the scheduler. Threads with chunks of their own need not wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

_Chunk = TypeVar("_Chunk")
_Result = TypeVar("_Result")


def usable_threads(device: torch.device | None = None) -> int:
    """Return how many chunks are worked on at once: as many as torch has threads, one at a time on a GPU."""
    return torch.get_num_threads() if device is None or device.type == "cpu" else 1


def map_chunks(
    function: Callable[[_Chunk], _Result], chunks: Sequence[_Chunk], device: torch.device | None = None
) -> Iterator[_Result]:
    """Yield the result of every chunk, in order, computed without gradients."""

    def without_gradients(chunk: _Chunk) -> _Result:
        with torch.inference_mode():  # a setting of each thread
            return function(chunk)

    threads = min(usable_threads(device), len(chunks))
    if threads < 2:
        yield from map(without_gradients, chunks)
        return
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, "nutime-chunks", torch.set_num_threads, (1,)) as pool:
            yield from pool.map(without_gradients, chunks)
    finally:
        torch.set_num_threads(before)  # for threads that are started later
