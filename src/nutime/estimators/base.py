"""What all estimators share: reading ``X``, the encoder and its device, embeddings computed once, saving.

Two kinds of ``X`` are distinguished, because scikit-learn and time series have opposite conventions:

* a **table** (2-D array, DataFrame of numbers, nested lists of one length): as everywhere in scikit-learn its
  number of columns is fixed by ``fit``, so that a forgotten label column is an error and not a longer series;
* **series** (a list of arrays, a 3-D array, a DataFrame whose cells are series): each has its own length, which
  may differ in every call.

Both may be mixed: an estimator fitted on a table still accepts series of any length as a list. The number of
channels is fixed by ``fit`` in either case. Names of channels and columns are recorded by ``fit``; a later input
with the same names in another order is put in order, and one with other names is refused. So is one with times if
both its step and its duration are unlike those of ``fit``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from nutime.checks import check_arrays
from nutime.data.frames import as_ids
from nutime.data.names import ID_NAMES, quoted
from nutime.data.sampling import Sampling, check_sampling, sampling_of
from nutime.data.series import (
    EXPECTED,
    Array,
    SeriesLike,
    SeriesSet,
    as_array,
    holds_series,
    is_frame,
    is_groupby,
    is_xarray,
    read_input,
)
from nutime.devices import usable_device
from nutime.encoder import DEFAULT_WEIGHTS, NuTime
from nutime.estimators import storage
from nutime.finetune.linear import probe_features
from nutime.model.reading import AUTO, AUTO_POOLS, Length, Reading
from nutime.progress import Report

Arrays: TypeAlias = Mapping[str, NDArray[Any]]
Float64: TypeAlias = NDArray[np.float64]

# Equal series in different rows of a batch may differ by this much, relative to the embedding's magnitude.
_FLOAT32_ROUNDING = 1e-5
_CHUNK_SIZE = 1024  # series embedded together for a prediction


@dataclass(frozen=True)
class EmbeddedSeries:
    """Series with their embedding, computed once: ``X`` for any estimator with the same encoder and reading.

    Attributes:
        embedding: ``(n, d)``; with many channels a fixed part of the embedding, as
            :func:`~nutime.finetune.linear.probe_features` describes.
        encoder: the encoder that computed it.
        reading: how the series were read.
        source: the series with the names of the input.
    """

    source: SeriesSet
    embedding: NDArray[np.float32]
    encoder: NuTime
    reading: Reading

    @classmethod
    def embed(
        cls,
        X: SeriesLike,
        encoder: str | Path | NuTime = DEFAULT_WEIGHTS,
        pool: str = "cls+mean",
        *,
        length: Length = AUTO,
        device: str | torch.device = "auto",
        verbose: bool | Report = False,
    ) -> Self:
        """Embed series; the arguments are those of the estimators and of :meth:`nutime.NuTime.embed`."""
        source, encoder = _read_names(X), load_encoder(encoder, device)
        reading = Reading.choose(encoder.config, pool, length, source.series)
        return cls(source, probe_features(encoder, source.series, reading, verbose=verbose), encoder, reading)

    @property
    def series(self) -> list[Array]:
        """The series, finite."""
        return self.source.series

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the embedding; scikit-learn indexes what has a shape as it does arrays."""
        return self.embedding.shape

    def __len__(self) -> int:
        return len(self.series)

    def __getitem__(self, indices: Any) -> Self:
        """Return some of the series, with their embedding, as ``array[indices]`` returns rows."""
        rows = np.atleast_1d(np.arange(len(self))[indices])
        series, times = [self.series[row] for row in rows], self.source.times
        own_times = None if times is None else [times[row] for row in rows]
        source = replace(self.source, series=series, labels=None, ids=None, times=own_times)
        return replace(self, source=source, embedding=self.embedding[rows])


class SeriesEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator over a frozen encoder. Parameters: ``encoder``, ``pool``, ``length`` and ``device``."""

    encoder: str | Path | NuTime
    pool: str
    length: Length
    device: str | torch.device
    encoder_: NuTime
    reading_: Reading
    n_channels_in_: int
    n_features_in_: int
    channel_names_in_: NDArray[np.object_]
    feature_names_in_: NDArray[np.object_]
    _sampling: Sampling | None

    #: The attributes, arrays or floats, that together with the encoder are the fitted state.
    _fitted: ClassVar[tuple[str, ...]] = ()
    #: Shapes of the arrays and of the scalars that must be finite, for
    #: :func:`~nutime.checks.check_arrays`; others are scalars of any value.
    _shapes: ClassVar[Mapping[str, str]] = {}

    def save(self, folder: str | Path) -> Path:
        """Write the fitted estimator and its encoder as :mod:`~nutime.estimators.storage` describes."""
        check_is_fitted(self, ("encoder_", *self._fitted))
        return storage.save(self, folder)

    @classmethod
    def load(cls, folder: str | Path, device: str | torch.device = "auto") -> Self:
        """Read an estimator written by :meth:`save`; its predictions are those before saving."""
        estimator = storage.load(folder, device)
        if not isinstance(estimator, cls):
            raise ValueError(f"{folder}: holds a {type(estimator).__name__}, not a {cls.__name__}")
        return estimator

    def _arrays(self) -> Arrays:
        """Return the fitted state as arrays, for :mod:`~nutime.estimators.storage`."""
        return {name: np.asarray(getattr(self, name)) for name in self._fitted}

    def _restore(self, arrays: Arrays) -> None:
        """Set the fitted state from the result of :meth:`_arrays`; a ``KeyError`` names what is missing."""
        self._set_state({name: arrays[name] for name in self._fitted})

    def _set_state(self, arrays: Arrays) -> None:
        # In files, scalars are arrays of one value.
        state = {name: array if self._shapes.get(name) else array.reshape(()) for name, array in arrays.items()}
        check_arrays(state, self._shapes)
        for name, array in state.items():
            setattr(self, name, array if array.ndim else array.item())

    def _check_width(self, n_features: int) -> None:
        """Raise ValueError if a loaded model reads more features than the embedding has, or not all segments."""
        *_, segments = sizes = self.reading_.sizes(self.encoder_.config, self.n_channels_in_)
        if not segments <= n_features <= (size := sum(sizes)):
            raise ValueError(f"it reads {n_features} features of an embedding of {size}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags

    def _start_fit(self, X: SeriesLike | EmbeddedSeries, **of_series: Any) -> list[Array] | EmbeddedSeries:
        """Read the ``X`` of ``fit``: load the encoder and record what later calls must agree with.

        ``of_series`` are further arguments with one value per series, in the same order.

        The state of an earlier fit is deleted: a fit that fails or is interrupted leaves an unfitted estimator.
        """
        for name in [name for name in vars(self) if name.endswith("_") or name in self._fitted]:
            delattr(self, name)
        source = X.source if isinstance(X, EmbeddedSeries) else _read_names(X)
        check_order(source.ids, **of_series)
        self.encoder_ = self._load_encoder(X)
        self.n_channels_in_ = len(source.series[0])
        self._sampling = sampling_of(source.times)
        if source.n_features is not None:
            self.n_features_in_ = source.n_features
        for kind in ("channel_names", "feature_names"):
            if (names := getattr(source, kind)) is not None:
                setattr(self, f"{kind}_in_", np.array(names, dtype=object))
        if not isinstance(X, EmbeddedSeries):
            self.reading_ = Reading.choose(self.encoder_.config, self.pool, self.length, source.series)
            return source.series
        if X.reading.name not in (AUTO_POOLS if self.pool == AUTO else (self.pool,)):
            raise ValueError(
                f"X was embedded with pool {X.reading.name!r}, but the estimator has pool {self.pool!r}"
            )
        if self.length not in (AUTO, X.reading.points):
            raise ValueError(f"X was embedded with {X.reading}, but the estimator has length {self.length}")
        self.reading_ = X.reading
        return self._check_embedded(X)

    def _load_encoder(self, X: SeriesLike | EmbeddedSeries) -> NuTime:
        """Return the encoder that the ``X`` of ``fit`` is embedded with."""
        return load_encoder(self.encoder, self.device)

    def _read(self, X: SeriesLike | EmbeddedSeries) -> list[Array] | EmbeddedSeries:
        """Read the ``X`` of a fitted estimator."""
        return self._read_with_ids(X)[0]

    def _read_with_ids(
        self, X: SeriesLike | EmbeddedSeries
    ) -> tuple[list[Array] | EmbeddedSeries, list[str] | None]:
        """Read the ``X`` of a fitted estimator, and the ids of its series if it has any."""
        check_is_fitted(self, ("encoder_", *self._fitted))
        source = X.source if isinstance(X, EmbeddedSeries) else _read_names(X, self._names_in())
        name = type(self).__name__
        expected = getattr(self, "n_features_in_", source.n_features)
        if source.n_features not in (None, expected):
            raise ValueError(
                f"X has {source.n_features} features, but {name} is expecting {expected} features as input; "
                "give series of another length as a list of arrays or as an array (n, channels, length)"
            )
        n_channels = len(source.series[0])
        if n_channels != self.n_channels_in_:
            raise ValueError(f"X has {n_channels} channel(s), but {name} was fitted with {self.n_channels_in_}")
        check_sampling(source.times, self._sampling, source.ids)
        return self._check_embedded(X) if isinstance(X, EmbeddedSeries) else source.series, source.ids

    def _names_in(self) -> dict[str, list[str]]:
        """Return the names of channels and columns that ``fit`` recorded."""
        kinds = ("channel_names", "feature_names")
        return {kind: list(getattr(self, f"{kind}_in_")) for kind in kinds if hasattr(self, f"{kind}_in_")}

    def _check_embedded(self, X: EmbeddedSeries) -> EmbeddedSeries:
        if X.reading != self.reading_:
            raise ValueError(f"X was embedded with {X.reading}, but the estimator was fitted with {self.reading_}")
        if not _same_weights(X.encoder, self.encoder_):
            raise ValueError("X was embedded by another encoder than the estimator's; embed it again")
        for kind, names in self._names_in().items():
            if (own := getattr(X.source, kind)) is not None and list(own) != names:
                raise ValueError(
                    f"X was embedded with other {kind.replace('_', ' ')} than the estimator was fitted with, "
                    "or in another order; give the series as they are"
                )
        return X

    def _embedded(self, X: SeriesLike | EmbeddedSeries, *, verbose: bool | Report = False) -> EmbeddedSeries:
        """Return ``X`` embedded as this fitted estimator reads it."""
        given, ids = self._read_with_ids(X)
        if isinstance(given, EmbeddedSeries):
            return given
        features = self._features(given, verbose=verbose)
        return EmbeddedSeries(SeriesSet(given, ids=ids), features, self.encoder_, self.reading_)

    def _features(
        self, X: list[Array] | EmbeddedSeries, count: int | None = None, *, verbose: bool | Report = False
    ) -> NDArray[np.float32]:
        """Return ``(n, count)`` values of the embedding, see :func:`~nutime.finetune.linear.probe_features`."""
        if isinstance(X, EmbeddedSeries) and count in (None, X.embedding.shape[1]):
            return X.embedding
        return probe_features(self.encoder_, series_of(X), self.reading_, count, verbose=verbose)


class StandardisedEstimator(SeriesEstimator):
    """An estimator that works on embeddings brought to mean 0 and standard deviation 1 by ``fit``."""

    mean_: Float64
    scale_: Float64

    def _fit_points(self, X: SeriesLike | EmbeddedSeries) -> Float64:
        """Read the ``X`` of ``fit`` and return its standardised embedding."""
        embedding = self._features(self._start_fit(X)).astype(np.float64)
        scaler = StandardScaler().fit(embedding)
        rounding = _FLOAT32_ROUNDING * np.sqrt(np.square(embedding).mean())
        self.mean_, self.scale_ = scaler.mean_, np.where(scaler.scale_ > rounding, scaler.scale_, 1)
        return (embedding - self.mean_) / self.scale_

    def _restore(self, arrays: Arrays) -> None:
        super()._restore(arrays)
        self._check_width(len(self.mean_))

    def _points(self, X: SeriesLike | EmbeddedSeries) -> Float64:
        """Return the standardised embedding of the ``X`` of a fitted estimator."""
        return self._standardised(self._read(X))

    def _standardised(self, X: list[Array] | EmbeddedSeries) -> Float64:
        return (self._features(X, len(self.mean_)) - self.mean_) / self.scale_


class SeriesTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin):  # type: ignore[misc]
    """What ``transform`` of an estimator returns has one row per series, also where ``X`` has one per point."""

    def _by_series(self, rows: NDArray[Any], X: Any, ids: list[str] | None) -> NDArray[Any]:
        """Return the rows of ``transform``; by id, where pandas is requested and ``X`` has not one row per series.

        scikit-learn gives all other rows the index of ``X``.
        """
        own = getattr(self, "_sklearn_output_config", {}).get("transform")  # by set_output
        requested = own or get_config()["transform_output"]
        if requested != "pandas" or (hasattr(X, "iloc") and len(X) == len(rows)):
            return rows
        from pandas import DataFrame

        frame: NDArray[Any] = DataFrame(rows, index=_own_ids(X, ids))
        return frame


def _own_ids(X: Any, ids: list[str] | None) -> Any:
    """Return the ids with the types they have in ``X``, for a join; those of a :class:`SeriesSet` are texts."""
    candidates: list[Any] = []
    if isinstance(X, Mapping):
        candidates = [list(X)]
    elif is_groupby(X):
        candidates = [[key for key, _ in X]]
    elif hasattr(X, "iloc"):
        columns = [X[name] for name in getattr(X, "columns", ()) if str(name).strip().lower() in ID_NAMES]
        levels = reversed(range(X.index.nlevels)) if X.index.nlevels > 1 else ()
        given = (*columns, *(X.index.droplevel(level) for level in levels), X.index)
        candidates = [ids_of_points.drop_duplicates() for ids_of_points in given]
    return next((own for own in candidates if as_ids(own) == ids), ids)


def check_order(ids: list[str] | None, **of_series: Any) -> None:
    """Refuse a pandas object with the ids of the series in another order; any other index means nothing."""
    for name, values in of_series.items():
        if ids is None or not hasattr(values, "iloc"):
            continue
        index = as_ids(values.index)
        if index != ids and sorted(index) == sorted(ids):
            raise ValueError(
                f"{name} has the ids of X in another order: the series are {quoted(ids)}, {name} is for "
                f"{quoted(index)}; put it in the order of X, or give {name}.to_numpy() if it is"
            )


def load_encoder(encoder: Any, device: str | torch.device = "auto") -> NuTime:
    """Return the encoder of an estimator: shipped weights by name, a folder, or the encoder itself.

    With ``auto`` an encoder object stays on its device; for another device it is copied.
    """
    if isinstance(encoder, NuTime):
        if device == "auto" or encoder.device == usable_device(device):
            return encoder
        return deepcopy(encoder).to(usable_device(device))
    if not isinstance(encoder, str | Path):
        raise ValueError(f"encoder must be a shipped name, a folder or a NuTime, got {encoder!r}")
    return NuTime.from_pretrained(encoder).to(usable_device(device))


def series_of(X: list[Array] | EmbeddedSeries) -> list[Array]:
    """Return the series without their embedding."""
    return X.series if isinstance(X, EmbeddedSeries) else X


def take(X: list[Array] | EmbeddedSeries, indices: NDArray[np.intp]) -> list[Array] | EmbeddedSeries:
    """Return some of the series, with their embedding if there is one."""
    return X[indices] if isinstance(X, EmbeddedSeries) else [X[index] for index in indices]


def chunks_of(X: list[Array] | EmbeddedSeries) -> Iterator[list[Array] | EmbeddedSeries]:
    """Yield some of the series at a time: the embeddings of 100,000 series may take gigabytes."""
    for start in range(0, len(X), _CHUNK_SIZE):
        yield take(X, np.arange(start, min(start + _CHUNK_SIZE, len(X))))


def _same_weights(one: NuTime, other: NuTime) -> bool:
    if one is other:
        return True
    tensors, others = one.state_dict(), other.state_dict()
    return one.config == other.config and all(
        torch.equal(tensor.cpu(), others[name].cpu()) for name, tensor in tensors.items()
    )


def _read_names(X: SeriesLike, names_in: Mapping[str, Any] = MappingProxyType({})) -> SeriesSet:
    """Read ``X`` with its names, which must agree with those of ``fit``."""
    table = _as_table(X)
    return read_input(X if table is None else table, **names_in)


def _as_table(X: Any) -> Any:
    """Return ``X`` as a 2-D array, or None if the input contract reads it as it is."""
    if issparse(X):  # some sparse arrays are mappings
        return check_array(X)
    # A pandas Series is none of these, but has iloc.
    if isinstance(X, SeriesSet | Mapping) or is_groupby(X) or is_xarray(X) or is_frame(X) or hasattr(X, "iloc"):
        return None
    if isinstance(X, list | tuple):
        if not X or not all(isinstance(row, list | tuple) for row in X):
            return None
        try:
            X = np.asarray(X)
        except ValueError:  # lists of unequal length
            return None
        if X.ndim != 2:
            return None
    dimensions = X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim
    if dimensions > 2 or dimensions == 0:
        return None
    array = as_array(X)
    if holds_series(array):
        return None
    if dimensions < 2:
        raise ValueError(f"got {dimensions} dimension(s): {EXPECTED}. Reshape your data: X.reshape(1, -1)")
    try:
        return check_array(array, ensure_all_finite=False)
    except ValueError as error:  # the lines after the first one repeat the data
        raise ValueError(str(error).partition("\n")[0]) from None
