"""Micro-batching: requests that arrive together share one call of the model, made in the model's own thread.

Requests share a batch only if their series have the same number of channels and the same dtypes. The embedding of
a series does not depend on the rest of its batch, but mixing float32 with float64 would change its rounding.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise

from nutime.batch.results import Results
from nutime.data.series import Array


@dataclass(eq=False)
class _Job:
    series: list[Array]
    result: asyncio.Future[Results]

    @property
    def kind(self) -> tuple[int, frozenset[str]]:
        return len(self.series[0]), frozenset(values.dtype.char for values in self.series)


class Batcher:
    """Collect requests for a short time, call the model once for all of them, and return each its own results.

    Args:
        predict: the call of the model; it runs in one thread, so calls never overlap.
        max_series: a batch of this many series does not wait for more; a single request may have more.
        wait: seconds the first request of a batch waits for others.
    """

    def __init__(self, predict: Callable[[list[Array]], Results], max_series: int, wait: float) -> None:
        self._predict = predict
        self._max_series = max_series
        self._wait = wait
        self._waiting: list[_Job] = []
        self._nonempty, self._full = asyncio.Event(), asyncio.Event()
        self._closing = False
        self._worker: asyncio.Task[None] | None = None

    @property
    def waiting_series(self) -> int:
        """Number of series that wait for the model."""
        return sum(len(job.series) for job in self._waiting)

    @property
    def is_open(self) -> bool:
        """Whether new requests are processed."""
        return self._worker is not None and not self._closing

    async def predict(self, series: list[Array]) -> Results:
        """Return the results for the series of one request; a cancelled request is not computed."""
        job = _Job(series, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._update_events()
        return await job.result

    def start(self) -> None:
        """Start processing."""
        self._worker = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Process all waiting requests, then stop."""
        self._closing = True
        self._update_events()
        if self._worker:
            await self._worker

    def _update_events(self) -> None:
        for event, is_set in (
            (self._nonempty, bool(self._waiting) or self._closing),
            (self._full, self.waiting_series >= self._max_series or self._closing),
        ):
            event.set() if is_set else event.clear()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, "model") as thread:
            while True:
                await self._nonempty.wait()
                with suppress(TimeoutError):  # the batch is computed as it is
                    await asyncio.wait_for(self._full.wait(), self._wait)
                batch = self._take()
                if batch:
                    series = [values for job in batch for values in job.series]
                    try:
                        _distribute(batch, await loop.run_in_executor(thread, self._predict, series))
                    except Exception as error:  # fails these requests only
                        for job in batch:
                            if not job.result.done():
                                job.result.set_exception(error)
                elif self._closing:
                    return

    def _take(self) -> list[_Job]:
        """Remove and return the next batch: the oldest request and those of the same kind that fit beside it."""
        batch: list[_Job] = []
        rest: list[_Job] = []
        size = 0
        for job in self._waiting:
            if job.result.done():  # cancelled
                continue
            fits = not batch or (size + len(job.series) <= self._max_series and job.kind == batch[0].kind)
            (batch if fits else rest).append(job)
            size += len(job.series) if fits else 0
        self._waiting = rest
        self._update_events()
        return batch


def _distribute(batch: list[_Job], results: Results) -> None:
    bounds = accumulate((len(job.series) for job in batch), initial=0)
    for job, (start, stop) in zip(batch, pairwise(bounds), strict=True):
        if not job.result.done():
            job.result.set_result({name: column[start:stop] for name, column in results.items()})
