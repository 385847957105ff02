"""Estimates of the quality of a classifier or regressor on unseen series: cross-validation or a hold-out.

A class is never missing from training. Its series are distributed over the folds in turn, so that two of them
suffice for any number of folds; the only series of a class is always used for training and never scored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nutime.data.series import Array
from nutime.estimators.base import EmbeddedSeries, take
from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.regressor import NuTimeRegressor
from nutime.progress import Report, no_report

#: The fold of a series that is used for training in every round.
ALWAYS_TRAINED = -1


@dataclass(frozen=True)
class Validation:
    """Predictions for series that were not used for training.

    Attributes:
        classes: all labels, sorted.
        labels: the true label of each series that was scored.
        predicted: its predicted label.
    """

    classes: NDArray[Any]
    labels: NDArray[Any]
    predicted: NDArray[Any]

    @property
    def correct(self) -> int:
        """The number of correct predictions."""
        return int((self.labels == self.predicted).sum())

    @property
    def accuracy(self) -> float:
        """The share of correct predictions."""
        return self.correct / len(self.labels)

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the classes that were scored, each with the same weight."""
        from sklearn.metrics import f1_score

        scored = np.unique(self.labels)
        return float(f1_score(self.labels, self.predicted, labels=scored, average="macro", zero_division=0))

    @property
    def confusion(self) -> NDArray[np.intp]:
        """``(classes, classes)`` counts: one row per true label, one column per predicted label."""
        counts = np.zeros((len(self.classes),) * 2, np.intp)
        np.add.at(counts, tuple(np.searchsorted(self.classes, y) for y in (self.labels, self.predicted)), 1)
        return counts


def deal_folds(labels: NDArray[Any], folds: int, seed: int) -> NDArray[np.intp]:
    """Return the fold of each series; the series of every class are distributed evenly."""
    if folds < 2:
        raise ValueError(f"cross-validation takes at least 2 folds, got {folds}")
    parts = np.full(len(labels), ALWAYS_TRAINED)
    assigned = 0
    for members in _shuffled_classes(labels, seed):
        if len(members) > 1:
            parts[members] = (assigned + np.arange(len(members))) % folds
            assigned += len(members)  # the next class continues at the next fold: folds of equal size
    return parts


def hold_out(labels: NDArray[Any], share: float, seed: int) -> NDArray[np.intp]:
    """Return 0 for the series held out: the share of every class, but at least one series and never all."""
    if not 0 < share < 1:
        raise ValueError(f"the share held out must be between 0 and 1, got {share:g}")
    parts = np.full(len(labels), ALWAYS_TRAINED)
    for members in _shuffled_classes(labels, seed):
        held_out = min(max(1, round(share * len(members))), len(members) - 1)
        parts[members[:held_out]] = 0
    return parts


def validate(
    make: Callable[[], NuTimeClassifier | NuTimeRegressor],
    X: list[Array] | EmbeddedSeries,
    labels: NDArray[Any],
    parts: NDArray[np.intp],
    report: Report = no_report,
) -> Validation | None:
    """Train on all folds but one and predict that one, for each fold in turn.

    Args:
        make: returns an unfitted classifier or regressor.
        X: series as :func:`~nutime.data.series.as_series` returns them, or embedded once for all folds.
        labels: one per series; for a regressor, float64.
        parts: the fold of each series, from :func:`deal_folds` or :func:`hold_out`.
        report: called with (rounds done, rounds in total).

    Returns:
        None if nothing can be scored because every class has a single series.
    """
    predicted = labels.copy()
    rounds = np.unique(parts[parts != ALWAYS_TRAINED])
    for done, part in enumerate(rounds, 1):
        train, test = np.flatnonzero(parts != part), np.flatnonzero(parts == part)
        predicted[test] = make().fit(take(X, train), labels[train]).predict(take(X, test))
        report(done, len(rounds))
    scored = parts != ALWAYS_TRAINED
    return Validation(np.unique(labels), labels[scored], predicted[scored]) if scored.any() else None


def _shuffled_classes(labels: NDArray[Any], seed: int) -> list[NDArray[np.intp]]:
    """Return the indices of every class's series, in random order."""
    generator = np.random.default_rng(seed)
    return [generator.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]
