"""A labelling session, independent of the page: labels on disk, and a model that is fitted again after each.

The series are embedded once. One call of the solver fits all models of a refit: the one that predicts, one per
fold of the cross-validation that estimates its accuracy, and one without the latest labels, which shows whether
these still changed anything.
"""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.cluster import KMeans
from sklearn.utils.extmath import softmax

from nutime.atomic import replace_file
from nutime.estimators.base import EmbeddedSeries, Float64
from nutime.estimators.classifier import NuTimeClassifier
from nutime.evaluate import ALWAYS_TRAINED
from nutime.labelling.log import LabelLog
from nutime.labelling.selection import Space, margin_uncertainty, squared_distances

FOLDS = 5
SUGGESTIONS, MISTAKES = 8, 8
#: A label is a likely mistake if cross-validation predicts another class with this probability.
_CONFIDENT = 0.8
#: Labels are no longer needed if the last fifth of them changed less than this share of the predictions.
_STABLE_SHARE, _LATEST_SHARE, _MIN_LATEST = 0.01, 0.2, 10
_MEAN_CLUSTER_SIZE = 12
_CONFIDENCE = 0.9
_HISTORY_POINTS = 12  # estimates computed again when a session is reopened
_HEADERS = (b"series,label", b"series,id,label")  # of exported labels


class Estimate(NamedTuple):
    """An accuracy estimated by cross-validation, with the interval that contains the true one in 90 %."""

    accuracy: float
    low: float
    high: float


class Mistake(NamedTuple):
    """A labelled series that the model, trained without it, takes for another class."""

    series: int
    predicted: str
    probability: float


@dataclass(frozen=True)
class State:
    """What is known after a refit.

    Attributes:
        labels: labels by series, in the order in which they were given.
        classes: all labels; the order does not change while labels are added.
        predicted: predicted label of each series; None before there are two classes.
        confidence: its probability.
        estimate: the accuracy on series without a label; None before it can be estimated.
        history: the estimates by number of labels.
        suggestions: series to label next, best first.
        mistakes: labels to check, most suspicious first.
        stable: whether the latest labels changed almost no prediction, so that more would hardly help.
    """

    labels: dict[int, str]
    classes: list[str]
    suggestions: list[int]
    predicted: NDArray[np.str_] | None = None
    confidence: Float64 | None = None
    estimate: Estimate | None = None
    history: dict[int, Estimate] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)
    stable: bool = False


class Session:
    """Series, their labels and the model of them; all methods may be called from several threads.

    Attributes:
        embedded: the series with their embedding.
        log: the labels on disk.
        space: the points that are searched and learned from.
        clusters: small clusters of similar series, to be labelled together.
        state: what is known after the last label.
    """

    def __init__(self, embedded: EmbeddedSeries, log: LabelLog) -> None:
        if len(embedded) < 2:
            raise ValueError("labelling needs at least 2 series")
        self.embedded, self.log = embedded, log
        self._check_export()
        self.space = Space.of(embedded.embedding)
        n_clusters = max(1, len(embedded) // _MEAN_CLUSTER_SIZE)
        self.clusters: NDArray[np.intp] = KMeans(n_clusters, random_state=0).fit_predict(self.space.points)
        self._lock = threading.RLock()
        self._history: dict[int, Estimate] = {}
        self._fitted: tuple[Float64, Float64] | None = None
        for count in np.unique(np.linspace(0, len(log.labels), _HISTORY_POINTS).astype(int)):
            self._refit(dict(islice(log.labels.items(), count)))

    def label(self, series: Sequence[int], label: str | None) -> int:
        """Label series, or remove their labels, and refit; return the event for :meth:`undo`."""
        with self._lock:
            event = self.log.label(series, label)
            self._refit(dict(self.log.labels))
            return event

    def undo(self, event: int) -> list[int]:
        """Undo an event, refit, and return the series of the event; none if it was undone already."""
        with self._lock:
            series = self.log.undo(event)
            self._refit(dict(self.log.labels))
            return series

    def cluster_of(self, series: int) -> list[int]:
        """Return a series and the others of its cluster that have no label."""
        members = np.flatnonzero(self.clusters == self.clusters[series]).tolist()
        return [index for index in members if index == series or index not in self.state.labels]

    def classifier(self) -> NuTimeClassifier:
        """Return a classifier fitted to the labels, on the whole embedding.

        Raises:
            ValueError: there are fewer than two classes.
        """
        labels = self.state.labels
        if len(set(labels.values())) < 2:
            raise ValueError("a model needs labels of at least two classes")
        X, y = self.embedded[list(labels)], np.array(list(labels.values()))
        return NuTimeClassifier(encoder=self.embedded.encoder, pool=self.embedded.reading.name).fit(X, y)

    def export(self) -> tuple[Path, Path]:
        """Write the labels as CSV and the model as a folder, beside the file of labels; return both paths."""
        classifier, labels = self.classifier(), self.state.labels
        ids = self.embedded.source.ids
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(_HEADERS[bool(ids)].decode().split(","))
        writer.writerows([index, *([ids[index]] if ids else []), labels[index]] for index in sorted(labels))
        path, folder = self._check_export()
        with replace_file(path) as file:
            file.write(table.getvalue().encode())
        classifier.save(folder)
        return path, folder

    def _check_export(self) -> tuple[Path, Path]:
        """Return where labels and the model are exported to; refuse to replace anything else."""
        path, folder = self.log.path.with_suffix(".csv"), self.log.path.with_suffix(".model")
        if self.log.path in (path, folder):
            raise ValueError(f"{self.log.path}: the export has this name; name the file of labels .jsonl")
        other = folder if folder.is_file() else None
        if path.exists():
            with path.open("rb") as file:
                if file.readline(len(_HEADERS[-1]) + 2).strip() not in _HEADERS:
                    other = path
        if other:
            raise ValueError(
                f"{other}: the export would replace it, but it holds something else; "
                "give the file of labels another name"
            )
        return path, folder

    def _refit(self, labels: dict[int, str]) -> None:
        """Fit all models to the labels."""
        classes, labelled = list(self.log.classes), np.array(list(labels), np.intp)
        names = list(dict.fromkeys(labels.values()))  # a new class is the last
        if len(names) < 2:
            self._fitted = None
            suggestions = self.space.select(labelled, np.ones(len(self.embedded)), SUGGESTIONS)
            self.state = State(labels, classes, suggestions.tolist())
            return
        targets = np.array([names.index(label) for label in labels.values()], np.intp)
        folds = _folds(targets)
        n_latest = max(_MIN_LATEST, round(_LATEST_SHARE * len(labelled)))
        earlier = np.arange(len(labelled)) < max(len(labelled) - n_latest, 1)
        weights = [np.ones(len(labelled)), earlier, *(folds != fold for fold in range(FOLDS))]
        self._fitted = self.space.fit(labelled, targets, np.stack(weights).astype(np.float64), self._fitted)
        coef, intercept = self._fitted
        logits = self.space.points @ coef.mT + intercept[:, None]
        now, before = softmax(logits[0]), logits[1].argmax(1)
        predicted = now.argmax(1)
        validated = np.flatnonzero(folds != ALWAYS_TRAINED)
        held_out = softmax(logits[folds[validated] + 2, labelled[validated]])
        if estimate := self._estimate(labelled, validated, held_out.argmax(1) == targets[validated]):
            self._history[len(labelled)] = estimate
        self._history = {count: value for count, value in self._history.items() if count <= len(labelled)}
        self.state = State(
            labels,
            classes,
            self.space.select(labelled, margin_uncertainty(now), SUGGESTIONS).tolist(),
            np.array(names)[predicted],
            now.max(1),
            estimate,
            dict(self._history),
            _mistakes(labelled[validated], targets[validated], held_out, names),
            bool(earlier.sum() >= n_latest and (predicted != before).mean() < _STABLE_SHARE),
        )

    def _estimate(
        self, labelled: NDArray[np.intp], validated: NDArray[np.intp], correct: NDArray[np.bool_]
    ) -> Estimate | None:
        """Estimate the accuracy on all series from the labelled ones.

        Uncertain series are labelled more often than others. Each labelled one therefore counts as often as it is
        the nearest to a series of the pool.
        """
        if len(validated) < FOLDS:
            return None
        nearest = squared_distances(self.space.points, self.space.points[labelled[validated]]).argmin(1)
        weights = np.bincount(nearest, minlength=len(validated))
        share = float(np.average(correct, weights=weights))
        return _wilson(share, weights.sum() ** 2 / np.square(weights).sum())


def _folds(targets: NDArray[np.intp]) -> NDArray[np.intp]:
    """Distribute the series of each class over the folds in turn; a further label does not move the others.

    The only series of a class is used for training in every fold.
    """
    folds = np.full(len(targets), ALWAYS_TRAINED)
    for target in range(targets.max() + 1):
        members = np.flatnonzero(targets == target)
        if len(members) > 1:
            folds[members] = (target + np.arange(len(members))) % FOLDS
    return folds


def _wilson(share: float, count: float) -> Estimate:
    """Return a share of ``count`` observations with Wilson's interval."""
    z = norm.ppf((1 + _CONFIDENCE) / 2)
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return Estimate(share, float(centre - half), float(centre + half))


def _mistakes(
    labelled: NDArray[np.intp], targets: NDArray[np.intp], probabilities: Float64, names: list[str]
) -> list[Mistake]:
    predicted, confidence = probabilities.argmax(1), probabilities.max(1)
    suspicious = np.flatnonzero((predicted != targets) & (confidence >= _CONFIDENT))
    order = suspicious[np.argsort(-confidence[suspicious], kind="stable")][:MISTAKES]
    return [Mistake(int(labelled[i]), names[predicted[i]], float(confidence[i])) for i in order]
