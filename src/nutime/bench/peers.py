"""Peers run beside us in the same benchmark, through aeon: their published defaults, our splits, our scores.

They are held to the same input: unequal series are padded with zeros after their last value, for these methods
take rectangles only, and what is missing inside a series is interpolated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nutime.bench.methods import Answer, Name, scores
from nutime.data.archives import Dataset
from nutime.data.series import as_series


def _mini_rocket(seed: int) -> Any:
    from aeon.classification.convolution_based import MiniRocketClassifier

    return MiniRocketClassifier(random_state=seed, n_jobs=-1)


def _multi_rocket_hydra(seed: int) -> Any:
    from aeon.classification.convolution_based import MultiRocketHydraClassifier

    return MultiRocketHydraClassifier(random_state=seed, n_jobs=-1)


def _dtw(seed: int) -> Any:
    from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier

    return KNeighborsTimeSeriesClassifier(distance="dtw", distance_params={"window": 0.1}, n_jobs=-1)


PEERS: dict[str, Callable[[int], Any]] = {
    "MiniRocket": _mini_rocket,
    "MultiRocket-Hydra": _multi_rocket_hydra,
    "1NN-DTW": _dtw,
}


@dataclass(frozen=True)
class Peer:
    """One of :data:`PEERS` as a method."""

    method: str
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in PEERS:
            raise ValueError(f"{self.method!r} is not among the peers {', '.join(PEERS)}")

    def names(self) -> Sequence[Name]:
        """One result."""
        return [Name(self.method, "honest", self.seed)]

    def answer(self, dataset: Dataset) -> Iterator[Answer]:
        """Fit on the training split, score on the test split."""
        X_train, X_test = _rectangles(dataset.X_train, dataset.X_test)
        start = time.perf_counter()
        classifier = PEERS[self.method](self.seed).fit(X_train, dataset.y_train)
        said = classifier.predict(X_test)
        seconds = time.perf_counter() - start
        yield Answer(self.names()[0], scores(dataset.y_test, np.asarray(said)), seconds, {})


def _rectangles(*parts: Any) -> list[Any]:
    """Return ``(n, channels, length)`` arrays of one length, 9 points at least: Rocket's kernels are that long."""
    series = [as_series(part) for part in parts]
    longest = max(9, *(values.shape[-1] for part in series for values in part))
    return [
        np.stack([np.pad(values, ((0, 0), (0, longest - values.shape[-1]))) for values in part]) for part in series
    ]
