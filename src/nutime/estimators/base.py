"""What the four estimators share: reading ``X``, the frozen encoder, saving and loading.

Two kinds of ``X`` are told apart, because scikit-learn's contract and time series ask for opposite things:

* a **table** (2-D array, DataFrame of numbers, nested lists of one length): as everywhere in scikit-learn its
  number of columns is fixed by ``fit``, so that a forgotten label column is an error and not a longer series;
* **series** (a list of arrays, a 3-D array, a DataFrame whose cells are series): each carries its own length,
  which may change at every call.

Both may be mixed: fitted on a table, an estimator still takes series of any length as a list. The number of
channels is fixed by ``fit`` in either case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from nutime.data.series import EXPECTED, Array, as_array, as_series, holds_series, is_frame
from nutime.encoder import NuTime
from nutime.estimators import storage

Arrays: TypeAlias = Mapping[str, NDArray[Any]]
Float64: TypeAlias = NDArray[np.float64]


class SeriesEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator over a frozen encoder. Subclasses have the parameters ``encoder`` and ``pool``."""

    encoder: str | Path | NuTime
    pool: str
    encoder_: NuTime
    n_channels_in_: int
    n_features_in_: int

    #: The attributes, arrays or floats, that together with the encoder are the fitted state.
    _fitted: ClassVar[tuple[str, ...]] = ()

    def save(self, folder: str | Path) -> Path:
        """Write the fitted estimator and its encoder as :mod:`~nutime.estimators.storage` describes."""
        check_is_fitted(self, ("encoder_", *self._fitted))
        return storage.save(self, folder)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read what :meth:`save` wrote; the estimator predicts as it did before."""
        estimator = storage.load(folder)
        if not isinstance(estimator, cls):
            raise ValueError(f"{folder}: holds a {type(estimator).__name__}, not a {cls.__name__}")
        return estimator

    def arrays(self) -> Arrays:
        """Return the fitted state as arrays, for :mod:`~nutime.estimators.storage`."""
        return {name: np.asarray(getattr(self, name)) for name in self._fitted}

    def restore(self, arrays: Arrays) -> None:
        """Take up what :meth:`arrays` returned; a ``KeyError`` names what is missing."""
        for name in self._fitted:
            setattr(self, name, arrays[name] if arrays[name].ndim else arrays[name].item())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags

    def _read_first(self, X: Any) -> list[Array]:
        """Read the ``X`` of ``fit``: load the encoder, and remember what later calls must agree with."""
        series, columns = read_series(X)
        self.encoder_ = load_encoder(self.encoder)
        self.n_channels_in_ = len(series[0])
        if columns is not None:
            self.n_features_in_ = columns
        elif hasattr(self, "n_features_in_"):
            del self.n_features_in_
        return series

    def _read(self, X: Any) -> list[Array]:
        """Read the ``X`` of a fitted estimator."""
        check_is_fitted(self, ("encoder_", *self._fitted))
        series, columns = read_series(X)
        name = type(self).__name__
        expected = getattr(self, "n_features_in_", columns)
        if columns not in (None, expected):
            raise ValueError(
                f"X has {columns} features, but {name} is expecting {expected} features as input; "
                "give series of another length as a list of arrays or as an array (n, channels, length)"
            )
        if len(series[0]) != self.n_channels_in_:
            raise ValueError(
                f"X has {len(series[0])} channel(s), but {name} was fitted with {self.n_channels_in_}"
            )
        return series

    def _embed(self, series: list[Array]) -> Float64:
        return self.encoder_.embed(series, pool=self.pool).astype(np.float64)


class StandardisedEstimator(SeriesEstimator):
    """An estimator that works on embeddings brought to mean 0 and standard deviation 1 by ``fit``."""

    mean_: Float64
    scale_: Float64

    def _place_first(self, X: Any) -> Float64:
        embedding = self._embed(self._read_first(X))
        scaler = StandardScaler().fit(embedding)
        self.mean_, self.scale_ = scaler.mean_, scaler.scale_
        return self._standardise(embedding)

    def _place(self, X: Any) -> Float64:
        return self._standardise(self._embed(self._read(X)))

    def _standardise(self, embedding: Float64) -> Float64:
        return (embedding - self.mean_) / self.scale_


@dataclass(frozen=True)
class TrainingSet:
    """Labelled series as a strategy of :class:`~nutime.estimators.classifier.NuTimeClassifier` receives them.

    Attributes:
        series: finite series, all with a positive weight.
        codes: the class of each series, ``0 … n_classes − 1``; every class occurs.
        sample_weight: the weight of each series.
        class_weight: the weight of each class, on top of the series' own.
    """

    series: list[Array]
    codes: NDArray[np.intp]
    sample_weight: Float64
    class_weight: Float64


class Strategy(Protocol):
    """A way to learn from labelled series; ``params`` are those of the classifier."""

    @classmethod
    def fit(cls, encoder: NuTime, training_set: TrainingSet, params: Mapping[str, Any]) -> Self:
        """Learn; the encoder itself must stay as it is."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild from what :meth:`arrays` returned."""
        ...

    def arrays(self) -> Arrays:
        """Return all that was learned."""
        ...

    def logits(self, encoder: NuTime, series: list[Array], params: Mapping[str, Any]) -> Float64:
        """Return ``(n, classes)`` scores whose softmax are the probabilities."""
        ...


def load_encoder(encoder: Any) -> NuTime:
    """Return the encoder a user named: a shipped name, a folder, or the encoder itself."""
    if isinstance(encoder, NuTime):
        return encoder
    if not isinstance(encoder, str | Path):
        raise ValueError(f"encoder must be a shipped name, a folder or a NuTime, got {encoder!r}")
    return NuTime.from_pretrained(encoder)


def read_series(X: Any) -> tuple[list[Array], int | None]:
    """Return the series of ``X``, and its number of columns if it is a table."""
    table = _as_table(X)
    return (as_series(X), None) if table is None else (as_series(table), table.shape[1])


def _as_table(X: Any) -> Any:
    """Return ``X`` as a 2-D array or frame, or None where its series carry their own lengths."""
    if isinstance(X, list | tuple):
        if not X or not all(isinstance(row, list | tuple) for row in X):
            return None
        try:
            X = np.asarray(X)
        except ValueError:  # lists of unequal length
            return None
        if X.ndim != 2:
            return None
    if is_frame(X):
        return None if holds_series(X) else X
    if hasattr(X, "iloc"):  # a pandas Series
        return None
    dimensions = X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim
    if dimensions > 2:
        return None
    array = as_array(X)
    if holds_series(array):
        return None
    if dimensions < 2:
        raise ValueError(f"got {dimensions} dimension(s): {EXPECTED}. Reshape your data: X.reshape(1, -1)")
    try:
        return check_array(array if array.ndim else X, ensure_all_finite=False)  # a sparse matrix makes no array
    except ValueError as error:  # the lines after the first one repeat the data
        raise ValueError(str(error).partition("\n")[0]) from None
