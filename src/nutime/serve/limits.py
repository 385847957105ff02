"""Limits of a service: everything a client sends is bounded, so that no client can take it down."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of a service.

    Attributes:
        body_bytes: size of a request body.
        series: series per request; every channel counts.
        length: points per series.
        points: values per request, over all series and channels.
        requests: requests in progress; one more is refused with status 429.
        seconds: time from the headers of a request to its response, and for each part of the response to be sent.
        batch_series: series per call of the model.
        batch_seconds: time the first request of a batch waits for others.
        connections: open connections; one more is refused with status 503.
        header_seconds: time for the headers of a request to arrive.
    """

    body_bytes: int = 8 << 20
    series: int = 1024
    length: int = 100_000
    points: int = 1_000_000
    requests: int = 64
    seconds: float = 30.0
    batch_series: int = 64
    batch_seconds: float = 0.003
    connections: int = 200
    header_seconds: float = 10.0
