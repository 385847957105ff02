"""``NuTimeRegressor``: numbers and prediction intervals from a probe or fine-tuned models, and a forest."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted, column_or_1d

from nutime.checks import check_number
from nutime.data.series import Array, SeriesLike, unmasked
from nutime.encoder import NuTime
from nutime.estimators.base import Arrays, EmbeddedSeries, Float64, check_order, series_of, take
from nutime.estimators.explanation import explain
from nutime.estimators.supervised import SupervisedEstimator, check_weights
from nutime.finetune.forest import Forest
from nutime.finetune.linear import LinearProbe
from nutime.finetune.train import FinetuneConfig, TrainingSet, finetune, seed_from
from nutime.model.reading import AUTO, Length

#: The fitted state beside the model.
_STATE = ("target_mean_", "target_scale_", "residuals_", "residual_weights_", "forest_weight_")


class NuTimeRegressor(RegressorMixin, SupervisedEstimator):  # type: ignore[misc]
    """Predict a number for series of any length, scale and number of channels.

    ``X`` is as for :class:`~nutime.NuTimeClassifier`. Targets may have any scale and offset: they are standardised
    in float64.

    Args:
        strategy: ``probe``: a ridge regression on the standardised embedding of the frozen encoder, with the
            penalty of the highest marginal likelihood; seconds on a CPU. ``finetune``: the encoder is trained
            together with a linear head, and the predictions are averaged with those of a probe; slower.
        encoder: shipped weights by name, a folder written by :meth:`nutime.NuTime.save`, or an encoder; ``auto``
            is that of an ``EmbeddedSeries``, else ``nutime-small`` for ``probe`` and ``nutime-base`` for
            ``finetune``.
        pool: how tokens become the embedding that a probe reads, as in :meth:`nutime.NuTime.embed`.
        length: points every series is resized to for a probe; ``auto`` follows the series.
        trained: for ``finetune``: ``all`` of the network, the ``head`` alone, or all of it from ``scratch``.
        n_estimators: for ``finetune``: models whose predictions are averaged. Each leaves out an equal part of the
            series, for prediction intervals; a single model is trained on all series and has no intervals.
        epochs: for ``finetune``: passes over the series (at least 300 steps); ``auto`` is 60, or fewer if the
            series are many (at most 1,500 steps).
        batch_size: for ``finetune``: series per step.
        learning_rate: for ``finetune``: peak learning rate of AdamW, with linear warm-up and cosine decay.
        forest: whether the predictions are averaged with those of decision trees on quantiles of intervals
            (:mod:`nutime.finetune.forest`), weighted such that the errors for series left out are smallest.
        random_state: seed of ``finetune``; ``probe`` is deterministic.
        verbose: whether ``fit`` shows a progress bar; or a callable that receives (done, total).
        device: ``auto`` is CUDA if there is one, else the CPU, and an encoder object's own device.

    Attributes:
        model_: the fitted probe or ensemble, for standardised targets.
        forest_: the fitted trees, for standardised targets, or None.
        forest_weight_: the weight of their predictions, 0 to 1. A single fine-tuned model leaves no series out;
            the errors of a probe decide then.
        target_mean_, target_scale_: mean and standard deviation of the targets.
        residuals_, residual_weights_: absolute errors for series that neither the model (of ``finetune``: one of
            its models) nor the trees were trained on, in ascending order, and the weights of these series.
        history_: for ``finetune``: the array ``loss`` (mean squared error of standardised targets), one value per
            epoch.
        n_epochs_: for ``finetune``: epochs trained.
        target_name_: the name of ``y``, if it has one.
        reading_: how series are read, chosen by the series seen by ``fit`` and used for all later ones.
        n_channels_in_: channels of the series seen by ``fit``.
        n_features_in_: columns of the table seen by ``fit``, if it was a table.
    """

    target_mean_: float
    target_scale_: float
    residuals_: Float64
    residual_weights_: Float64
    forest_weight_: float
    target_name_: str
    _fitted = ("model_", *_STATE)
    _shapes: ClassVar = dict.fromkeys(_STATE, "") | {"residuals_": "n", "residual_weights_": "n"}

    def __init__(
        self,
        strategy: str = "probe",
        encoder: str | Path | NuTime = AUTO,
        *,
        pool: str = AUTO,
        length: Length = AUTO,
        trained: str = "all",
        n_estimators: int = 5,
        epochs: int | Literal["auto"] = AUTO,
        batch_size: int = 64,
        learning_rate: float = 2e-4,
        forest: bool = True,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
        device: str | torch.device = "auto",
    ) -> None:
        self.strategy = strategy
        self.encoder = encoder
        self.pool = pool
        self.length = length
        self.trained = trained
        self.n_estimators = n_estimators
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.forest = forest
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    def fit(self, X: SeriesLike | EmbeddedSeries, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from series and their targets; those of weight 0 are ignored.

        Equal series with equal targets count as one series that has the sum of their weights.
        """
        config = self._finetune_config()
        given = self._start_fit(X, y=y, sample_weight=sample_weight)
        targets = _check_targets(y, len(given))
        weights = check_weights(sample_weight, len(given))
        weights = weights / weights.max()  # their scale has no effect, and sums and squares of huge ones overflow
        used, weights = _merge_equal(series_of(given), targets, weights)
        given, targets = take(given, used), targets[used]
        if len(targets) < 2:
            raise ValueError("a regressor needs at least 2 different series, got n_samples=1")
        self.target_mean_, self.target_scale_ = _mean_and_scale(targets, weights)
        targets = (targets - self.target_mean_) / self.target_scale_
        if self.strategy == "probe":
            self.model_, errors = self._fit_probe(given, targets, weights)
        else:
            errors = self._finetune(given, targets, weights, config)
        self.forest_, self.forest_weight_ = None, 0.0
        if self.forest:
            self.forest_, left_out = Forest.fit_regression(series_of(given), targets, weights)
            known = errors if len(errors) else self._fit_probe(given, targets, weights)[1]
            self.forest_weight_ = _best_weight(known, left_out, weights)
            errors = self._averaged(errors, left_out) if len(errors) else errors
        order = np.argsort(np.abs(errors))
        self.residuals_ = np.abs(errors)[order] * self.target_scale_
        self.residual_weights_ = weights[order]
        if (name := getattr(y, "name", None)) not in (None, ""):  # polars names a column without a name so
            self.target_name_ = str(name)
        return self

    def _fit_probe(
        self, given: list[Array] | EmbeddedSeries, targets: Float64, weights: Float64
    ) -> tuple[LinearProbe, Float64]:
        """Return a probe with its leave-one-out errors."""
        embedding = self._features(given, verbose=self.verbose)
        return LinearProbe.fit_regression(embedding, targets, weights, self._feature_kinds(embedding.shape[1]))

    def _finetune(
        self, given: list[Array] | EmbeddedSeries, targets: Float64, weights: Float64, config: FinetuneConfig
    ) -> Float64:
        """Train the models; return for each series the error of a model not trained on it, if there is one."""
        series = series_of(given)
        embedding = None if config.trained == "scratch" else self._features(given)  # once, for probes and errors
        data = TrainingSet(series, targets.astype(np.float32), weights, None, embedding)
        seed = seed_from(self.random_state)
        left_out = _left_out(len(targets), config.n_estimators, seed)
        members = np.stack([np.setdiff1d(np.arange(len(targets)), rows) for rows in left_out])
        result = finetune(
            self.encoder_, data, config, seed, reading=self.reading_, members=members, verbose=self.verbose
        )
        self.model_ = result.last
        self._set_history(result.history, result.stopped_early)
        if config.n_estimators == 1:
            return np.empty(0)
        errors = targets - self.model_.predictions(self.encoder_, series, embedding)
        model = np.empty(len(targets), np.intp)
        for index, rows in enumerate(left_out):
            model[rows] = index
        return np.asarray(errors[model, np.arange(len(targets))])

    def predict(self, X: SeriesLike | EmbeddedSeries) -> Float64:
        """Return the predicted number of each series."""
        given = self._read(X)
        if isinstance(self.model_, LinearProbe):
            predicted = self._probe_outputs(self.model_, given)[:, 0]
        else:
            embedding = self._probe_embedding(given)
            predicted = self.model_.predictions(self.encoder_, series_of(given), embedding).mean(0)
        if self.forest_ is not None and self.forest_weight_:
            predicted = self._averaged(predicted, self.forest_.predictions(series_of(given)))
        return np.asarray(self.target_mean_ + self.target_scale_ * predicted)

    def score(self, X: SeriesLike | EmbeddedSeries, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return R², the coefficient of determination."""
        given, ids = self._read_with_ids(X)
        check_order(ids, y=y, sample_weight=sample_weight)
        targets, predicted = _check_targets(y, len(given)), self.predict(given)
        weights = check_weights(sample_weight, len(given))
        weights = weights / weights.max()
        mean, scale = _mean_and_scale(targets, weights)  # squares of huge or tiny targets are out of range
        return float(r2_score((targets - mean) / scale, (predicted - mean) / scale, sample_weight=weights))

    def _averaged(self, model: Float64, forest: Float64) -> Float64:
        """Return the weighted mean of what the model and the trees predict, or of their errors."""
        return (1 - self.forest_weight_) * model + self.forest_weight_ * forest

    def explain(self, X: SeriesLike | EmbeddedSeries) -> list[Float64]:
        """Return what every point contributes to the predicted number of each series, ``(channels, length)`` each.

        A contribution is the decrease of the number when the stretch around the point becomes a straight line.
        Padding is not part of a series.
        """
        return explain(self, X, self.predict)

    def predict_interval(self, X: SeriesLike | EmbeddedSeries, coverage: float = 0.9) -> Float64:
        """Return ``(n, 2)``, lower and upper bounds that contain the number with a probability of ``coverage``.

        The intervals are conformal: they have the same width for all series, such that they would have contained
        that share of the training targets when predicted by a model not trained on them (the leave-one-out errors
        of ``probe``). Like the coverage, they hold for new series of the same kind as those seen by ``fit``.
        """
        width = self.interval_half_width(coverage)
        return np.asarray(self.predict(X)[:, None] + np.array([-width, width]))

    def interval_half_width(self, coverage: float = 0.9) -> float:
        """Return half of the width of the intervals of :meth:`predict_interval`."""
        check_is_fitted(self, self._fitted)
        check_number("coverage", coverage, "(0, 1)")
        if not len(self.residuals_):
            raise ValueError("a single fine-tuned model has no prediction intervals; use n_estimators >= 2")
        # A new series counts as one more, whose error may be larger than all others.
        total = self.residual_weights_.sum() + self.residual_weights_.mean()
        reached = np.cumsum(self.residual_weights_) / total >= coverage * (1 - 1e-12)
        if not reached.any():
            most = 1 - self.residual_weights_.mean() / total
            n_series = len(self.residuals_)
            raise ValueError(
                f"coverage {coverage:g} needs more series; the {n_series} of fit give at most {most:.2f}"
            )
        return float(self.residuals_[reached.argmax()])

    def _arrays(self) -> Arrays:
        return {**super()._arrays(), **{name: np.asarray(getattr(self, name)) for name in _STATE}}

    def _restore(self, arrays: Arrays) -> None:
        super()._restore({name: array for name, array in arrays.items() if name not in _STATE})
        arrays = {"forest_weight_": np.zeros(()), **arrays}  # regressors before format 5 have no trees
        self._set_state({name: arrays[name] for name in _STATE})


def _check_targets(y: Any, n_series: int) -> Float64:
    if y is None:
        raise ValueError("a regressor requires y to be passed, but the target y is None")
    shape = np.asarray(y).shape
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(f"y should be a 1d array, got the shape {shape}; fit one regressor per column")
    values = column_or_1d(unmasked(y), warn=True)
    if len(values) != n_series:
        raise ValueError(f"y has {len(values)} targets but X has {n_series} series")
    if values.dtype.kind == "m":  # their numbers depend on the unit they are stored in
        raise ValueError("y holds durations; give numbers, for instance y / numpy.timedelta64(1, 's')")
    targets = np.empty(n_series)
    for index, value in enumerate(values):
        try:
            if isinstance(value, np.datetime64 | np.timedelta64):  # float() counts nanoseconds
                raise TypeError
            targets[index] = float(value)
        except (TypeError, ValueError):
            raise ValueError(f"y must hold numbers; series {index} has {str(value)!r}") from None
    assert_all_finite(targets, input_name="y")
    return targets


def _merge_equal(series: list[Array], targets: Float64, weights: Float64) -> tuple[NDArray[np.intp], Float64]:
    """Return one index per group of equal series with equal targets and positive weight, and the total weights.

    Otherwise a model evaluated by leave-one-out would have been trained on a copy of the series left out.
    """
    totals: dict[Any, float] = {}
    first: dict[Any, int] = {}
    for index in np.flatnonzero(weights):
        key = series[index].shape, series[index].tobytes(), targets[index]
        first.setdefault(key, index)
        totals[key] = totals.get(key, 0.0) + weights[index]
    return np.array(list(first.values())), np.array(list(totals.values()))


def _mean_and_scale(targets: Float64, weights: Float64) -> tuple[float, float]:
    """Return mean and standard deviation; without overflow of the squares, and 1 for a constant target."""
    mean = np.average(targets, weights=weights)
    largest = np.abs(targets - mean).max()
    if not largest:
        return float(mean), 1.0
    return float(mean), float(largest * np.sqrt(np.average(((targets - mean) / largest) ** 2, weights=weights)))


def _best_weight(model: Float64, forest: Float64, weights: Float64) -> float:
    """Return the weight of the trees for which the mean of both errors has the smallest sum of squares."""
    difference = model - forest
    squares = weights @ difference**2
    return float(np.clip(weights @ (model * difference) / squares, 0, 1)) if squares else 0.0


def _left_out(n_series: int, n_models: int, seed: int) -> NDArray[np.intp]:
    """Return ``(models, k)``, the series that each model leaves out; several models together leave out all."""
    size = -(-n_series // n_models) if n_models > 1 else 0
    order = np.random.default_rng(seed).permutation(n_series)
    return np.take(order, np.arange(n_models * size), mode="wrap").reshape(n_models, size)
