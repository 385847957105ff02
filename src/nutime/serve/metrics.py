"""Prometheus metrics of a service."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

#: Upper bounds of the histogram of response times, in seconds.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Counters since the start, and two gauges that are read when the metrics are."""

    def __init__(self, in_progress: Callable[[], float], waiting_series: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        self.batches = Counter("nutime_batches", "Calls of the model.", registry=self.registry)
        self.series = Counter("nutime_series", "Series answered.", registry=self.registry)
        self._requests = Counter("nutime_requests", "Finished requests.", ["status"], registry=self.registry)
        self._seconds = Histogram(
            "nutime_request_seconds", "Time from request to response.", buckets=BUCKETS, registry=self.registry
        )
        for name, text, value in (
            ("nutime_requests_in_progress", "Requests in progress.", in_progress),
            ("nutime_waiting_series", "Series that wait for the model.", waiting_series),
        ):
            Gauge(name, text, registry=self.registry).set_function(value)

    def count(self, status: int, seconds: float) -> None:
        """Count a finished request."""
        self._requests.labels(status).inc()
        self._seconds.observe(seconds)
