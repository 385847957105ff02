"""What a service takes on: everything that comes in is bounded, so that no client can bring it down."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of a service.

    Attributes:
        body_bytes: of a request's body.
        series: of one request; a series of several channels counts as so many.
        length: points of a series.
        requests: in work or waiting at a time; one more is told to come back later.
        seconds: from a request to its answer.
        batch_series: series the model is asked about at a time.
        batch_seconds: how long the first request of a batch waits for company.
    """

    body_bytes: int = 8 << 20
    series: int = 1024
    length: int = 100_000
    requests: int = 64
    seconds: float = 30.0
    batch_series: int = 64
    batch_seconds: float = 0.003
