"""Requests that arrive together are answered together: one thread owns the model, everyone else waits.

Unusual here: requests share a batch only if their series agree in channels and dtype. The encoder's digits do
not depend on what else is in a batch, but mixing float32 with float64 would change them.
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
    answer: asyncio.Future[Results]

    @property
    def kind(self) -> tuple[int, frozenset[str]]:
        return len(self.series[0]), frozenset(values.dtype.char for values in self.series)


class Batcher:
    """Collect requests for a moment, ask about all their series at once, and hand the answers back.

    Args:
        answer: what to ask of the model; it runs in a thread of its own, never twice at a time.
        most_series: a batch that has as many does not wait for more; one request may have more.
        wait: seconds the first request of a batch waits for others.
    """

    def __init__(self, answer: Callable[[list[Array]], Results], most_series: int, wait: float) -> None:
        self._answer = answer
        self._most_series = most_series
        self._wait = wait
        self._waiting: list[_Job] = []
        self._some, self._enough = asyncio.Event(), asyncio.Event()
        self._closing = False
        self._worker: asyncio.Task[None] | None = None

    @property
    def waiting_series(self) -> int:
        """How many series wait to be asked about."""
        return sum(len(job.series) for job in self._waiting)

    async def ask(self, series: list[Array]) -> Results:
        """Return the answers to series of one request; a caller who is cancelled costs no more work."""
        job = _Job(series, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._notice()
        return await job.answer

    def start(self) -> None:
        """Begin to answer."""
        self._worker = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Answer all that wait, then end."""
        self._closing = True
        self._notice()
        if self._worker:
            await self._worker

    def _notice(self) -> None:
        for event, happened in (
            (self._some, bool(self._waiting) or self._closing),
            (self._enough, self.waiting_series >= self._most_series or self._closing),
        ):
            event.set() if happened else event.clear()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, "model") as thread:
            while True:
                await self._some.wait()
                with suppress(TimeoutError):  # those who came by then will do
                    await asyncio.wait_for(self._enough.wait(), self._wait)
                batch = self._take()
                if batch:
                    series = [values for job in batch for values in job.series]
                    try:
                        _hand_out(batch, await loop.run_in_executor(thread, self._answer, series))
                    except Exception as error:  # whatever it is, it is these requests' and not the service's end
                        for job in batch:
                            if not job.answer.done():
                                job.answer.set_exception(error)
                elif self._closing:
                    return

    def _take(self) -> list[_Job]:
        """Remove and return the next batch: the oldest request, and those of its kind that fit beside it."""
        batch: list[_Job] = []
        rest: list[_Job] = []
        size = 0
        for job in self._waiting:
            if job.answer.done():  # its client has given up
                continue
            fits = size + len(job.series) <= self._most_series and job.kind == batch[0].kind if batch else True
            (batch if fits else rest).append(job)
            size += len(job.series) if fits else 0
        self._waiting = rest
        self._notice()
        return batch


def _hand_out(batch: list[_Job], results: Results) -> None:
    bounds = accumulate((len(job.series) for job in batch), initial=0)
    for job, (start, stop) in zip(batch, pairwise(bounds), strict=True):
        if not job.answer.done():
            job.answer.set_result({name: column[start:stop] for name, column in results.items()})
