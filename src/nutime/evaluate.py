"""How well a classifier will do on series it has not seen: cross-validation or a hold-out.

Unusual here: a class is never missing from training. Its series are dealt to the folds in turn, so that two
of them suffice for any number of folds; a series that is the only one of its class is always trained on and
never scored. And a frozen encoder embeds every series once, however many folds it takes part in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nutime.data.series import Array, as_series
from nutime.encoder import NuTime
from nutime.estimators.classifier import NuTimeClassifier
from nutime.model.config import NuTimeConfig

#: Called with the number of things done and to do.
Report: TypeAlias = Callable[[int, int], None]
#: The part of a series that is trained on in every round.
ALWAYS_TRAINED = -1
_REPORTED_AT_A_TIME = 64


def no_report(done: int, total: int) -> None:
    """Take no notice."""


class RememberingEncoder(NuTime):
    """An encoder that embeds an array once, and tells how far it is.

    Arrays are told apart by identity: what :func:`~nutime.data.series.as_series` returned may be given to any
    number of estimators over this encoder, whole or in parts. It keeps all it has embedded.
    """

    def __init__(self, config: NuTimeConfig, report: Report = no_report) -> None:
        super().__init__(config)
        self._report = report
        self._embedded: dict[tuple[int, str, int | None], tuple[Array, NDArray[np.float32]]] = {}

    @classmethod
    def of(cls, encoder: NuTime, report: Report = no_report) -> RememberingEncoder:
        """Copy an encoder; ``report`` hears of series embedded and to embed."""
        copy = cls(encoder.config, report)
        copy.load_state_dict(encoder.state_dict())
        return copy.to(encoder.device)

    def embed(
        self, X: Any, *, pool: str = "cls+mean", length: int | None = None, batch_size: int = 64
    ) -> NDArray[np.float32]:
        """Return one vector a series, as :meth:`nutime.NuTime.embed` does."""
        series = as_series(X)
        known = self._embedded
        new = [values for values in series if (id(values), pool, length) not in known]
        for start in range(0, len(new), _REPORTED_AT_A_TIME):
            chunk = new[start : start + _REPORTED_AT_A_TIME]
            vectors = super().embed(chunk, pool=pool, length=length, batch_size=batch_size)
            for values, vector in zip(chunk, vectors, strict=True):
                known[id(values), pool, length] = values, vector  # an array kept alive keeps its identity
            self._report(start + len(chunk), len(new))
        return np.stack([known[id(values), pool, length][1] for values in series])


@dataclass(frozen=True)
class Validation:
    """What a classifier said of series it had not seen.

    Attributes:
        classes: all labels, sorted.
        labels: the true label of each series that was scored.
        predicted: the label the classifier gave it.
    """

    classes: NDArray[Any]
    labels: NDArray[Any]
    predicted: NDArray[Any]

    @property
    def correct(self) -> int:
        """How many series were given their label."""
        return int((self.labels == self.predicted).sum())

    @property
    def accuracy(self) -> float:
        """The share of series that were given their label."""
        return self.correct / len(self.labels)

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the classes that were scored: each counts alike, however few its series."""
        from sklearn.metrics import f1_score

        scored = np.unique(self.labels)
        return float(f1_score(self.labels, self.predicted, labels=scored, average="macro", zero_division=0))

    @property
    def confusion(self) -> NDArray[np.intp]:
        """``(classes, classes)`` counts: a row a true label, a column a predicted one."""
        counts = np.zeros((len(self.classes),) * 2, np.intp)
        np.add.at(counts, tuple(np.searchsorted(self.classes, y) for y in (self.labels, self.predicted)), 1)
        return counts


def deal_folds(labels: NDArray[Any], folds: int, seed: int) -> NDArray[np.intp]:
    """Return the fold of each series; the series of every class are dealt out evenly."""
    if folds < 2:
        raise ValueError(f"cross-validation takes at least 2 folds, got {folds}")
    parts = np.full(len(labels), ALWAYS_TRAINED)
    dealt = 0
    for members in _shuffled_classes(labels, seed):
        if len(members) > 1:
            parts[members] = (dealt + np.arange(len(members))) % folds
            dealt += len(members)  # the next class goes on where this one ended: folds of equal size
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
    make: Callable[[], NuTimeClassifier],
    series: list[Array],
    labels: NDArray[Any],
    parts: NDArray[np.intp],
    report: Report = no_report,
) -> Validation | None:
    """Train on all parts but one and predict that one, for each part in turn.

    Args:
        make: returns an unfitted classifier.
        series: as :func:`~nutime.data.series.as_series` returns them.
        labels: one a series.
        parts: one a series, from :func:`deal_folds` or :func:`hold_out`.
        report: hears of rounds done and to do.

    Returns:
        None where nothing can be scored, for every class has a single series.
    """
    predicted = labels.copy()
    rounds = np.unique(parts[parts != ALWAYS_TRAINED])
    for done, part in enumerate(rounds, 1):
        train, test = np.flatnonzero(parts != part), np.flatnonzero(parts == part)
        classifier = make().fit([series[index] for index in train], labels[train])
        predicted[test] = classifier.predict([series[index] for index in test])
        report(done, len(rounds))
    scored = parts != ALWAYS_TRAINED
    return Validation(np.unique(labels), labels[scored], predicted[scored]) if scored.any() else None


def _shuffled_classes(labels: NDArray[Any], seed: int) -> list[NDArray[np.intp]]:
    """Return the places of every class's series, in random order."""
    generator = np.random.default_rng(seed)
    return [generator.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]
