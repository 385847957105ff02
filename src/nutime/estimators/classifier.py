"""``NuTimeClassifier``: labelled series in, labels and probabilities out.

How it learns is a *strategy*, a class of :data:`STRATEGIES` that meets :class:`~nutime.estimators.base.Strategy`.
The classifier itself knows labels, weights and probabilities, and nothing of learning.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.extmath import softmax
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from nutime.encoder import DEFAULT_WEIGHTS, NuTime
from nutime.estimators.base import Arrays, Float64, SeriesEstimator, Strategy, TrainingSet
from nutime.finetune.ensemble import PROBE_POOL
from nutime.finetune.finetuned import FineTuned
from nutime.finetune.probe import LinearProbe

#: Every way to learn, by the name it has as a parameter.
STRATEGIES: dict[str, type[Strategy]] = {"probe": LinearProbe, "finetune": FineTuned}


class NuTimeClassifier(ClassifierMixin, SeriesEstimator):  # type: ignore[misc]
    """Classify series of any length, scale and number of channels.

    ``X`` is any form of :mod:`nutime.data.series`; NaN is missing or padding.

    Args:
        strategy: ``probe``: the frozen embedding, standardised, and a logistic regression; seconds on a CPU.
            ``finetune``: the encoder is trained along with a linear head, and its answer is averaged with that
            of a probe; slower, and better with more labels.
        encoder: shipped weights by name, a folder written by :meth:`nutime.NuTime.save`, or an encoder.
        pool: for ``probe``: how tokens become an embedding, as in :meth:`nutime.NuTime.embed`.
        C: for ``probe``: inverse strength of the logistic regression's penalty.
        trained: for ``finetune``: ``all`` of the network, the ``head`` alone, or all of it from ``scratch``.
        n_models: for ``finetune``: models trained together, whose probabilities are averaged.
        epochs: for ``finetune``: passes over the series (and 300 steps at least).
        batch_size: for ``finetune``: series a step.
        learning_rate: for ``finetune``: peak rate of AdamW; it rises at first and falls to zero.
        validation: for ``finetune``: share of the series held back to choose each model's best epoch and to stop
            early; 0 trains the whole schedule on all series and keeps the last state.
        patience: for ``finetune`` with ``validation``: epochs without a better state after which it stops.
        class_weight: None, ``balanced``, or a dict from labels to weights (1 where a label is not named).
        random_state: seed of ``finetune``; ``probe`` draws no random numbers.
        verbose: whether ``finetune`` shows a progress bar.

    Attributes:
        classes_: the labels, sorted.
        model_: what the strategy learned.
        n_channels_in_: channels of the series seen by ``fit``.
        n_features_in_: columns of the table seen by ``fit``, if it was a table.
    """

    classes_: NDArray[Any]
    model_: Strategy
    _fitted = ("model_", "classes_")

    def __init__(
        self,
        strategy: str = "probe",
        encoder: str | Path | NuTime = DEFAULT_WEIGHTS,
        *,
        pool: str = PROBE_POOL,
        C: float = 1.0,
        trained: str = "all",
        n_models: int = 1,
        epochs: int = 100,
        batch_size: int = 64,
        learning_rate: float = 2e-4,
        validation: float = 0.0,
        patience: int = 20,
        class_weight: str | Mapping[Any, float] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.strategy = strategy
        self.encoder = encoder
        self.pool = pool
        self.C = C
        self.trained = trained
        self.n_models = n_models
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation = validation
        self.patience = patience
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from labelled series; one of weight 0 counts as if it were not there."""
        learn = _strategy(self.strategy).fit
        series = self._read_first(X)
        labels = _check_labels(y, len(series))
        weights = _check_weights(sample_weight, len(series))
        kept = np.flatnonzero(weights)
        self.classes_, codes = _encode(labels[kept])
        class_weight = _class_weights(self.class_weight, self.classes_, codes, weights[kept])
        training_set = TrainingSet([series[index] for index in kept], codes, weights[kept], class_weight)
        self.model_ = learn(self.encoder_, training_set, self.get_params(deep=False))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest label of each series."""
        codes = self._logits(X).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[codes]
        return labels

    def predict_proba(self, X: Any) -> Float64:
        """Return ``(n, classes)`` probabilities, in the order of ``classes_``."""
        probabilities: Float64 = softmax(self._logits(X))
        return probabilities

    def decision_function(self, X: Any) -> Float64:
        """Return ``(n, classes)`` scores, or for two classes ``(n,)``, positive where the second is likelier."""
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def arrays(self) -> Arrays:
        """Return what the strategy learned."""
        return self.model_.arrays()

    def restore(self, arrays: Arrays) -> None:
        """Take up what :meth:`arrays` returned."""
        self.model_ = _strategy(self.strategy).from_arrays(arrays)

    def _logits(self, X: Any) -> Float64:
        series = self._read(X)
        return self.model_.logits(self.encoder_, series, self.get_params(deep=False))


def _strategy(name: Any) -> type[Strategy]:
    if name not in STRATEGIES:
        raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}; got {name!r}")
    return STRATEGIES[name]


def _check_labels(y: Any, n_series: int) -> NDArray[Any]:
    if y is None:
        raise ValueError("a classifier requires y to be passed, but the target y is None")
    if isinstance(y, list | tuple) and len({isinstance(label, str) for label in y}) == 2:
        raise ValueError(f"y mixes text with {_type_names(y)}; expected labels of one type")
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    if len(labels) != n_series:
        raise ValueError(f"y has {len(labels)} labels but X has {n_series} series")
    for index, label in enumerate(labels):
        if label is None or label != label:  # noqa: PLR0124, only NaN differs from itself
            raise ValueError(f"y has no label at series {index} ({label}); leave unlabelled series out")
    if labels.dtype != object:
        check_classification_targets(labels)
    return labels


def _encode(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError:  # objects that have no order
        raise ValueError(f"y mixes {_type_names(labels)}; expected labels of one type") from None
    if len(classes) < 2:
        raise ValueError(f"y has one class, {classes.tolist()[0]!r}; a classifier needs at least 2 classes")
    return classes, codes


def _type_names(labels: Any) -> str:
    return " and ".join(sorted({type(label).__name__ for label in labels}))


def _check_weights(sample_weight: Any, n_series: int) -> Float64:
    if sample_weight is None:
        return np.ones(n_series)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n_series,):
        raise ValueError(f"sample_weight has shape {weights.shape} but X has {n_series} series")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError("sample_weight must hold finite numbers that are not negative")
    if not weights.any():
        raise ValueError("sample_weight is all zero; at least one weight must be positive")
    return weights


def _class_weights(class_weight: Any, classes: NDArray[Any], codes: NDArray[np.intp], weights: Float64) -> Float64:
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, Mapping):
        if unknown := [label for label in class_weight if label not in classes.tolist()]:
            raise ValueError(f"class_weight names {unknown[0]!r}, which is no label of y")
        return np.array([class_weight.get(label, 1) for label in classes.tolist()], dtype=np.float64)
    if class_weight == "balanced":
        totals = np.bincount(codes, weights)
        return np.asarray(totals.sum() / (len(classes) * totals))
    raise ValueError(f"class_weight must be None, 'balanced' or a dict, got {class_weight!r}")
