"""Counters of a service, in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

#: Upper bounds, in seconds, of the classes requests are counted in.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """What has happened since the start."""

    def __init__(self) -> None:
        self.batches = 0
        self.series = 0
        self._statuses: Counter[int] = Counter()
        self._buckets: Counter[float] = Counter()
        self._seconds = 0.0

    def count(self, status: int, seconds: float) -> None:
        """Note a request that has ended."""
        self._statuses[status] += 1
        self._seconds += seconds
        self._buckets.update(bound for bound in BUCKETS if seconds <= bound)

    def text(self, **now: int) -> str:
        """Write all counters, and ``now`` as gauges."""
        return "\n".join([*self._counters(), *self._histogram(), *_gauges(now)]) + "\n"

    def _counters(self) -> Iterator[str]:
        yield from _heading("nutime_requests_total", "counter", "Requests ended, by status.")
        for status, count in sorted(self._statuses.items()):
            yield f'nutime_requests_total{{status="{status}"}} {count}'
        yield from _heading("nutime_batches_total", "counter", "Times the model was asked.")
        yield f"nutime_batches_total {self.batches}"
        yield from _heading("nutime_series_total", "counter", "Series answered.")
        yield f"nutime_series_total {self.series}"

    def _histogram(self) -> Iterator[str]:
        name = "nutime_request_seconds"
        yield from _heading(name, "histogram", "Time from request to answer.")
        for bound in BUCKETS:
            yield f'{name}_bucket{{le="{bound}"}} {self._buckets[bound]}'
        total = self._statuses.total()
        yield f'{name}_bucket{{le="+Inf"}} {total}'
        yield f"{name}_sum {self._seconds}"
        yield f"{name}_count {total}"


def _gauges(now: dict[str, int]) -> Iterator[str]:
    for name, value in now.items():
        yield from _heading(f"nutime_{name}", "gauge", f"{name.replace('_', ' ').capitalize()} now.")
        yield f"nutime_{name} {value}"


def _heading(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
