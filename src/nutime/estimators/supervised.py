"""What the classifier and the regressor share: the two strategies, the trees, weights and the saved state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nutime.checks import check_arrays
from nutime.data.series import Array, SeriesLike
from nutime.documents import message_of
from nutime.encoder import DEFAULT_WEIGHTS, SMALL_WEIGHTS, NuTime
from nutime.estimators.base import Arrays, EmbeddedSeries, Float64, SeriesEstimator, chunks_of, load_encoder
from nutime.finetune.ensemble import Ensemble
from nutime.finetune.forest import Forest
from nutime.finetune.linear import LinearProbe, feature_kinds
from nutime.finetune.train import FinetuneConfig
from nutime.model.reading import AUTO

#: The values of the parameter ``strategy``.
STRATEGIES = ("probe", "finetune")
_HISTORY, _FOREST = "history.", "forest."  # before the names of their arrays in a saved model


class SupervisedEstimator(SeriesEstimator):
    """An estimator with a probe or fine-tuned models, and trees; its parameters include those of fine-tuning."""

    strategy: str
    forest: bool
    model_: LinearProbe | Ensemble
    forest_: Forest | None
    history_: dict[str, Float64]
    n_epochs_: int
    stopped_early_: bool

    def _load_encoder(self, X: SeriesLike | EmbeddedSeries) -> NuTime:
        if self.encoder != AUTO:
            return super()._load_encoder(X)
        given = X.encoder if isinstance(X, EmbeddedSeries) else default_weights(self.strategy)
        return load_encoder(given, self.device)

    def _finetune_config(self) -> FinetuneConfig:
        """Check ``strategy`` and ``forest``; return the parameters of fine-tuning."""
        if self.strategy not in STRATEGIES:
            raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}; got {self.strategy!r}")
        if not isinstance(self.forest, bool | np.bool_):
            raise ValueError(f"forest must be True or False, got {self.forest!r}")
        names = {field.name for field in fields(FinetuneConfig)}
        params = self.get_params(deep=False)
        return FinetuneConfig(**{name: value for name, value in params.items() if name in names})

    def _feature_kinds(self, count: int) -> list[slice]:
        """Return the slices of the kinds of features; a probe averages over the kinds."""
        return feature_kinds(self.reading_, self.encoder_.config, self.n_channels_in_, count)

    def _probe_outputs(self, probe: LinearProbe, X: list[Array] | EmbeddedSeries) -> Float64:
        """Return ``(n, outputs)`` of a probe, computed for some series at a time."""
        count = probe.coef.shape[1]
        return np.concatenate([probe.logits(self._features(part, count)) for part in chunks_of(X)])

    def _probe_embedding(self, X: Any) -> NDArray[np.float32] | None:
        """Return the embedding that probes beside fine-tuned models read, if it is known."""
        return X.embedding if isinstance(X, EmbeddedSeries) else None

    def _set_history(self, history: Mapping[str, Float64], stopped_early: bool) -> None:
        self.history_, self.n_epochs_, self.stopped_early_ = dict(history), len(history["loss"]), stopped_early

    def _arrays(self) -> Arrays:
        parts: dict[str, dict[str, NDArray[Any]]] = {"": self.model_.arrays()}
        if isinstance(self.model_, Ensemble) and hasattr(self, "history_"):
            parts[_HISTORY] = {**self.history_, "stopped_early": np.array(self.stopped_early_)}
        if self.forest_ is not None:
            parts[_FOREST] = self.forest_.arrays()
        return {prefix + name: array for prefix, part in parts.items() for name, array in part.items()}

    def _restore(self, arrays: Arrays) -> None:
        model = {name: array for name, array in arrays.items() if not name.startswith((_HISTORY, _FOREST))}
        history, forest = _with_prefix(arrays, _HISTORY), _with_prefix(arrays, _FOREST)
        classes = getattr(self, "classes_", ())
        n_outputs = len(classes) or 1
        if self.strategy == "probe":
            check_arrays(model, {"mean": "d", "scale": "d", "coef": "cd", "intercept": "c"}, c=n_outputs)
            self.model_ = LinearProbe.from_arrays(model)
            self._check_width(self.model_.coef.shape[1])
        else:
            self.model_ = Ensemble.from_arrays(model, self.reading_)
            self.model_.check(self.encoder_.config.replace(channels=self.n_channels_in_), n_outputs)
            if history:  # models of format 1 have none
                stopped_early = bool(history.pop("stopped_early"))
                self._set_history(history, stopped_early)
        self.forest = bool(forest)  # classifiers before format 4 and regressors before format 5 have none
        self.forest_ = Forest.from_arrays(forest, len(classes), self.n_channels_in_) if forest else None


def _with_prefix(arrays: Arrays, prefix: str) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names have a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def default_weights(strategy: str) -> str:
    """Return the name of the encoder that ``auto`` is: a small one where it stays frozen."""
    return SMALL_WEIGHTS if strategy == "probe" else DEFAULT_WEIGHTS


def check_weights(sample_weight: Any, n_series: int) -> Float64:
    """Return the weight of each series, 1 unless given; they are finite, not negative and not all zero."""
    if sample_weight is None:
        return np.ones(n_series)
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold numbers ({message_of(error)})") from None
    if weights.shape != (n_series,):
        raise ValueError(f"sample_weight has shape {weights.shape} but X has {n_series} series")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError("sample_weight must hold finite numbers that are not negative")
    if not weights.any():
        raise ValueError("sample_weight is all zero; at least one weight must be positive")
    return weights
