"""``NuTimeClassifier``: labels, weights and probabilities around a probe or fine-tuned models, and a forest."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, logsumexp
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.extmath import softmax
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from nutime.checks import check_number
from nutime.data.series import SeriesLike, is_labelled, nullable_dtype, unmasked
from nutime.encoder import NuTime
from nutime.estimators.base import EmbeddedSeries, Float64, check_order, series_of, take
from nutime.estimators.explanation import explain
from nutime.estimators.supervised import SupervisedEstimator, check_weights
from nutime.finetune.forest import Forest, mean_logits
from nutime.finetune.linear import LinearProbe
from nutime.finetune.train import TrainingSet, finetune, seed_from
from nutime.model.reading import AUTO, Length

#: Fewer distinct numbers than this are classes.
_MIN_DISTINCT = 10
_log = logging.getLogger("nutime")


class NuTimeClassifier(ClassifierMixin, SupervisedEstimator):  # type: ignore[misc]
    """Classify series of any length, scale and number of channels.

    ``X`` is any form of :mod:`nutime.data.series`, or :class:`~nutime.EmbeddedSeries`; NaN is
    missing or padding.

    Args:
        strategy: ``probe``: a logistic regression on the standardised embedding of the frozen encoder (with
            ``+conv`` in the pool, another on the convolutions; their logits are averaged); seconds on a CPU.
            ``finetune``: the encoder is trained together with a linear head, and the probabilities are
            averaged with those of a probe; slower, and better with more labels.
        encoder: shipped weights by name, a folder written by :meth:`nutime.NuTime.save`, or an encoder; ``auto``
            is that of an ``EmbeddedSeries``, else ``nutime-small`` for ``probe`` and ``nutime-base`` for
            ``finetune``.
        pool: how tokens become the embedding that a probe reads, as in :meth:`nutime.NuTime.embed`.
        length: points every series is resized to for a probe; ``auto`` follows the series.
        C: for ``probe``: inverse strength of the logistic regression's penalty.
        trained: for ``finetune``: ``all`` of the network, the ``head`` alone, or all of it from ``scratch``.
        n_estimators: for ``finetune``: models trained together, whose probabilities are averaged.
        epochs: for ``finetune``: passes over the series (at least 300 steps); ``auto`` is 60, or fewer if the
            series are many (at most 1,500 steps).
        batch_size: for ``finetune``: series per step.
        learning_rate: for ``finetune``: peak learning rate of AdamW, with linear warm-up and cosine decay.
        validation_fraction: for ``finetune``: share of the series held out to select each model's best epoch
            and to stop early; 0 trains the whole schedule on all series and keeps the last state.
        n_iter_no_change: for ``finetune`` with ``validation_fraction``: epochs without improvement after which
            training stops.
        forest: whether the probabilities are averaged with those of decision trees on quantiles of intervals
            (:mod:`nutime.finetune.forest`).
        class_weight: None, ``balanced``, or a dict from labels to weights (1 for labels that are not in it).
        random_state: seed of ``finetune``; ``probe`` is deterministic.
        verbose: whether ``fit`` shows a progress bar; or a callable that receives (done, total).
        device: ``auto`` is CUDA if there is one, else the CPU, and an encoder object's own device.

    Attributes:
        classes_: the labels, sorted.
        model_: the fitted probe or ensemble.
        forest_: the fitted trees, or None.
        history_: for ``finetune``: arrays ``loss`` (training) and, with ``validation_fraction``,
            ``validation_score`` (accuracy), one value per epoch.
        n_epochs_: for ``finetune``: epochs trained.
        stopped_early_: for ``finetune``: whether training stopped before its last epoch.
        reading_: how series are read, chosen by the series seen by ``fit`` and used for all later ones.
        n_channels_in_: channels of the series seen by ``fit``.
        n_features_in_: columns of the table seen by ``fit``, if it was a table.
    """

    classes_: NDArray[Any]
    _fitted = ("model_", "classes_")

    def __init__(
        self,
        strategy: str = "probe",
        encoder: str | Path | NuTime = AUTO,
        *,
        pool: str = AUTO,
        length: Length = AUTO,
        C: float = 1.0,
        trained: str = "all",
        n_estimators: int = 1,
        epochs: int | Literal["auto"] = AUTO,
        batch_size: int = 64,
        learning_rate: float = 2e-4,
        validation_fraction: float = 0.0,
        n_iter_no_change: int = 20,
        forest: bool = True,
        class_weight: str | Mapping[Any, float] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
        device: str | torch.device = "auto",
    ) -> None:
        self.strategy = strategy
        self.encoder = encoder
        self.pool = pool
        self.length = length
        self.C = C
        self.trained = trained
        self.n_estimators = n_estimators
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.forest = forest
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    def fit(self, X: SeriesLike | EmbeddedSeries, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from labelled series; those of weight 0, or without a label, are left out.

        A label is missing if it is None, NaN, blank or ``?``.
        """
        check_number("C", self.C, "(0, inf)")
        config = self._finetune_config()
        given = self._start_fit(X, y=y, sample_weight=sample_weight)
        labels = _check_labels(y, len(given))
        weights = check_weights(sample_weight, len(given))
        labelled = is_labelled(labels)
        if not labelled.all():
            _log.warning("%d of %d series have no label and are left out", (~labelled).sum(), len(labels))
        used = np.flatnonzero(labelled & (weights > 0))
        given, weights = take(given, used), weights[used]
        classes, targets = _encode(labels[used].astype(nullable_dtype(y) or labels.dtype))
        unit = max(1.0, weights.max())  # sums and products of huge weights overflow
        weights = weights / unit
        class_weight = _class_weights(self.class_weight, classes, targets, weights, labels)
        class_unit = max(1.0, class_weight.max())
        class_weight = class_weight / class_unit
        if self.strategy == "probe":
            embedding = self._features(given, verbose=self.verbose)
            kinds = self._feature_kinds(embedding.shape[1])
            C = min(float(self.C) * float(unit) * float(class_unit), sys.float_info.max)
            self.model_ = LinearProbe.fit(embedding, targets, weights, class_weight, C, kinds)
        else:
            data = TrainingSet(series_of(given), targets, weights, class_weight, self._probe_embedding(given))
            seed = seed_from(self.random_state)
            result = finetune(self.encoder_, data, config, seed, reading=self.reading_, verbose=self.verbose)
            self.model_ = result.best or result.last
            self._set_history(result.history, result.stopped_early)
        self.forest_ = None
        if self.forest:
            forest_weight = weights * class_weight[targets]
            self.forest_ = Forest.fit(series_of(given), targets, forest_weight, len(classes))
        self.classes_ = classes
        return self

    def predict(self, X: SeriesLike | EmbeddedSeries) -> NDArray[Any]:
        """Return the most probable label of each series."""
        targets = self._logits(X).argmax(axis=1)
        return np.asarray(self.classes_[targets])

    def predict_proba(self, X: SeriesLike | EmbeddedSeries) -> Float64:
        """Return ``(n, classes)`` probabilities, in the order of ``classes_``."""
        return np.asarray(softmax(self._logits(X)))

    def decision_function(self, X: SeriesLike | EmbeddedSeries) -> Float64:
        """Return ``(n, classes)`` logits, or for two classes ``(n,)`` log-odds of the second."""
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def score(self, X: SeriesLike | EmbeddedSeries, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy. ``y`` is read as by :meth:`fit`: series without a label are left out."""
        given, ids = self._read_with_ids(X)
        check_order(ids, y=y, sample_weight=sample_weight)
        labels, weights = _as_labels(y, len(given)), check_weights(sample_weight, len(given))
        labelled = np.flatnonzero(is_labelled(labels))
        if not len(labelled):
            raise ValueError("y has no labels")
        both = labels[labelled], self.predict(take(given, labelled))
        # As lists, because the metric knows no arrays of objects but text.
        true, predicted = (each.tolist() if each.dtype == object else each for each in both)
        return float(accuracy_score(true, predicted, sample_weight=weights[labelled]))

    def explain(self, X: SeriesLike | EmbeddedSeries) -> list[Float64]:
        """Return what every point contributes to the predicted class of each series, ``(channels, length)`` each.

        A contribution is the decrease of the log-odds of the class when the stretch around the point becomes a
        straight line: positive where the series supports its class, negative elsewhere. Padding is not part of a
        series.
        """
        return explain(self, X, self._log_odds)

    def _log_odds(self, variants: EmbeddedSeries) -> Float64:
        """Return the log-odds of the class predicted for the first variant."""
        logits = self._logits(variants)
        target = logits[0].argmax()
        others = np.delete(logits, target, axis=1)
        return np.asarray(logits[:, target] - logsumexp(others, axis=1))

    def _logits(self, X: SeriesLike | EmbeddedSeries) -> Float64:
        given = self._read(X)
        if isinstance(self.model_, LinearProbe):
            logits = self._probe_outputs(self.model_, given)
        else:
            logits = self.model_.logits(self.encoder_, series_of(given), self._probe_embedding(given))
        if self.forest_ is None:
            return logits
        return mean_logits(log_softmax(logits, axis=1), self.forest_.probabilities(series_of(given)))


def _check_labels(y: Any, n_series: int) -> NDArray[Any]:
    if y is None:
        raise ValueError("a classifier requires y to be passed, but the target y is None")
    if isinstance(y, list | tuple):
        refuse_mixed("y", np.fromiter(y, object))
    labels = _as_labels(y, n_series)
    known = labels[is_labelled(labels)]
    if not len(known):
        raise ValueError("y has no labels; a classifier needs at least 2 classes")
    _check_discrete(known)
    if known.dtype != object:
        check_classification_targets(known)
    return labels


def refuse_mixed(name: str, labels: NDArray[np.object_]) -> None:
    """Refuse text beside labels of another type, of which numpy would make text."""
    given = labels[is_labelled(labels)]
    if len({isinstance(label, str) for label in given}) == 2:
        raise ValueError(f"{name} mixes text with {_type_names(given)}; expected labels of one type")


def _as_labels(y: Any, n_series: int) -> NDArray[Any]:
    given = np.asarray(unmasked(y))
    if given.dtype.kind == "S":
        raise ValueError("y holds bytes; expected text or numbers, as numpy.char.decode(y) returns")
    labels: NDArray[Any] = column_or_1d(given, warn=True)
    if len(labels) != n_series:
        raise ValueError(f"y has {len(labels)} labels but X has {n_series} series")
    return labels


def _check_discrete(labels: NDArray[Any]) -> None:
    """Refuse numbers that are measured rather than class codes, also as text.

    Fractions as floats are; as text, if more than half of them are distinct. Integers are if nearly all of them
    are distinct and, unlike the codes of classes with one series each, not consecutive.
    """
    try:
        distinct = np.unique(labels.astype(np.float64))
    except (TypeError, ValueError):  # not numbers
        return
    if not np.isfinite(distinct).all():
        return
    share, span = len(distinct) / len(labels), distinct[-1] - distinct[0]
    if (distinct % 1).any():
        continuous = labels.dtype.kind == "f" or (len(distinct) >= _MIN_DISTINCT and share > 0.5)
    else:
        continuous = len(distinct) >= _MIN_DISTINCT and share > 0.9 and span > 2 * len(distinct)
    if continuous:
        raise ValueError(
            f"Unknown label type: continuous, {len(distinct)} distinct numbers for {len(labels)} series; "
            "to predict numbers, use NuTimeRegressor or nutime fit --target"
        )


def _encode(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    try:
        classes, targets = np.unique(labels, return_inverse=True)
    except TypeError:  # objects without an order
        raise ValueError(f"y mixes {_type_names(labels)}; expected labels of one type") from None
    if len(classes) < 2:
        raise ValueError(f"y has one class, {classes.tolist()[0]!r}; a classifier needs at least 2 classes")
    return classes, targets


def _type_names(labels: Any) -> str:
    return " and ".join(sorted({type(label).__name__ for label in labels}))


def _class_weights(
    class_weight: Any,
    classes: NDArray[Any],
    targets: NDArray[np.intp],
    weights: Float64,
    labels: NDArray[Any],
) -> Float64:
    """Return the weight of each class; a dict may also name labels of series that are left out."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, Mapping):
        if unknown := [label for label in class_weight if label not in labels.tolist()]:
            raise ValueError(f"class_weight names {unknown[0]!r}, which is not a label in y")
        given = np.array([class_weight.get(label, 1) for label in classes.tolist()], dtype=np.float64)
        if not (np.isfinite(given) & (given >= 0)).all() or np.count_nonzero(given) < 2:
            raise ValueError("class_weight must be finite and not negative, and above 0 for at least 2 classes")
        return given
    if class_weight == "balanced":
        totals = np.bincount(targets, weights)
        return np.asarray(totals.sum() / (len(classes) * totals))
    raise ValueError(f"class_weight must be None, 'balanced' or a dict, got {class_weight!r}")
