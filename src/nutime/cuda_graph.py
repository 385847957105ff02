"""Steps captured as a CUDA graph: replaying one is a single call, whatever the number of kernels."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

import torch

_WARMUP_STEPS = 3
_capturing = Lock()


class GraphedStep:
    """Call ``step`` on a device; on CUDA the fourth call captures a graph and all later calls replay it.

    ``step`` takes its inputs from tensors that stay at their addresses, and updates its outputs in place. Every
    call is one step: the first three run eagerly, which compiles kernels and allocates the state of optimizers.
    """

    def __init__(self, step: Callable[[], None], device: torch.device) -> None:
        self._step, self._on_cuda, self._calls = step, device.type == "cuda", 0
        if self._on_cuda:
            self._graph = torch.cuda.CUDAGraph()
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __call__(self) -> None:
        """Take a step."""
        if not self._on_cuda:
            self._step()
            return
        self._calls += 1
        if self._calls <= _WARMUP_STEPS:
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                self._step()
            torch.cuda.current_stream().wait_stream(self._stream)
            return
        if self._calls == _WARMUP_STEPS + 1:
            # Work of other threads is not captured, and does not make the capture fail.
            with _capturing, torch.cuda.graph(self._graph, stream=self._stream, capture_error_mode="thread_local"):
                self._step()
        self._graph.replay()
