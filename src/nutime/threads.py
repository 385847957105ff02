"""Chunks of work on several threads, each chunk on one.

The threads of a single operation wait for each other at its end, thousands of times for a chunk. Beside a busy
process, each wait may last a time slice of the scheduler. Threads with chunks of their own need not wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_chunks(
    function: Callable[[Sequence[_Item]], _Result],
    items: Sequence[_Item],
    size: int,
    device: torch.device | None = None,
) -> Iterator[_Result]:
    """Yield a function of chunks of the items, in order, computed without gradients.

    On a CPU there are as many threads as torch has, and every thread has a chunk; on a GPU, one after the other.

    Args:
        function: computes a chunk.
        items: what is divided into chunks.
        size: most items of a chunk.
        device: where the function computes; a CPU unless given.
    """

    def without_gradients(chunk: Sequence[_Item]) -> _Result:
        with torch.inference_mode():  # a setting of each thread
            return function(chunk)

    available = torch.get_num_threads()
    threads = available if device is None or device.type == "cpu" else 1
    size = max(1, min(size, -(-len(items) // threads)))
    chunks = [items[start : start + size] for start in range(0, len(items), size)]
    if min(threads, len(chunks)) < 2:
        yield from map(without_gradients, chunks)
        return
    try:
        with ThreadPoolExecutor(threads, "nutime-chunks", torch.set_num_threads, (1,)) as pool:
            yield from pool.map(without_gradients, chunks)
    finally:
        torch.set_num_threads(available)  # for threads that are started later
