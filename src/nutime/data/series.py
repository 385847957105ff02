"""The one input contract: any accepted input becomes a list of finite ``(channels, length)`` arrays.

Accepted, everywhere in the package:

* a float or integer array or tensor ``(n, length)`` or ``(n, channels, length)``;
* a list of ``(length,)`` or ``(channels, length)`` arrays, of equal or unequal length, or a dict of them by id;
* a DataFrame (pandas, polars) or an Arrow table with one series per row: one column per point, or one column per
  channel whose cells hold the series;
* a DataFrame with one row per point in time: with a time column or index it is one series, with ids as well
  (a column or a level of the index) one series per id;
* a list or dict of such frames, or a ``groupby``: one series per frame;
* an xarray DataArray or Dataset, by the names of its dimensions;
* an array of objects that are series: ``(n,)``, as the list, or ``(n, channels)``, as the DataFrame.

Times count: samples at irregular times are put on a regular grid, and gaps become missing values
(:mod:`nutime.data.timeline`). :mod:`nutime.data.frames` describes how frames are understood.

NaN, or None, at both ends and in all channels is padding and is trimmed; any other NaN is a missing value and is
interpolated (constant beyond the first and last known value). float32 stays float32, everything else becomes
float64.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nutime.data.frames import (
    EXPECTED,
    RawSeries,
    as_array,
    as_floats,
    has_time_index,
    holds_series,
    is_frame,
    is_groupby,
    is_numeric,
    is_xarray,
    read_cells,
    read_frame,
    read_groups,
    read_mapping,
    read_recordings,
    read_xarray,
)
from nutime.data.names import name_order, quoted
from nutime.data.timeline import Times, is_missing

__all__ = [
    "EXPECTED",
    "Array",
    "SeriesLike",
    "SeriesSet",
    "align",
    "as_array",
    "as_series",
    "holds_series",
    "is_frame",
    "is_groupby",
    "is_labelled",
    "is_xarray",
    "nullable_dtype",
    "read_input",
    "resample",
    "unmasked",
]

#: One series, ``(channels, length)``, float32 or float64.
Array: TypeAlias = NDArray[np.floating[Any]]
#: Any input of this module.
SeriesLike: TypeAlias = "ArrayLike | Iterable[Any] | SeriesSet"

_CHUNK_VALUES = 2**22  # resampled together
_log = logging.getLogger("nutime")


@dataclass(frozen=True)
class SeriesSet:
    """Series with the names, ids, times and labels found in a file or a frame; None where there are none.

    Attributes:
        series: ``(channels, length)`` each.
        labels: one text per series, empty where a series is unlabelled.
        ids: one text per series.
        channel_names: the name of each channel.
        feature_names: the names of the columns of a table with one series per row.
        n_features: the number of columns of such a table.
        times: the time of each point of each series: numbers or ``datetime64``.
        zoned: whether times had a time zone; they are UTC then.
        regridded: whether points are not the rows of the input, of which times were irregular or out of order.
        notes: lines on what was done to the data, for a user to read.
    """

    series: list[Array]
    labels: NDArray[np.str_] | None = None
    ids: list[str] | None = None
    channel_names: list[str] | None = None
    feature_names: list[str] | None = None
    n_features: int | None = None
    times: list[Times] | None = None
    zoned: bool = False
    regridded: bool = False
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.series)


def as_series(X: SeriesLike) -> list[Array]:
    """Return every series of ``X`` as a finite ``(channels, length)`` array.

    Raises:
        ValueError: one line with the index of the first bad series and what was expected of it.
    """
    return read_input(X).series


def read_input(
    X: SeriesLike,
    *,
    channel_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    freq: str | float | None = None,
    keep_missing: bool = False,
    first: int = 0,
) -> SeriesSet:
    """Return every series of ``X``, finite, with the names, ids and times of the input.

    Args:
        X: any input of this module. A :class:`SeriesSet` is cleaned and aligned.
        channel_names, feature_names: names known from ``fit``. An input with the same names in another order is
            put in order; one without names is accepted as it is.
        freq: the step of the regular grid of inputs with times; the median step unless given.
        keep_missing: leave NaN where it is, instead of trimming it at the ends and interpolating it elsewhere.
        first: the number of the first series in errors.

    Raises:
        ValueError: one line with the first bad series and what was expected of it, or the difference of the names.
    """
    given = X if isinstance(X, SeriesSet) else _read(X, freq)
    given = align(given, channel_names=channel_names, feature_names=feature_names)
    names = [f"series {index}" for index in range(first, first + len(given))]
    if given.ids is not None:
        names = [f"{name} ({quoted([own])})" for name, own in zip(names, given.ids, strict=True)]
    cleaned = [
        _clean(values, name, given.channel_names, keep_missing)
        for values, name in zip(given.series, names, strict=True)
    ]
    if not cleaned:
        raise ValueError(f"no series given: {EXPECTED}")
    channels = cleaned[0][0].shape[0]
    for name, (values, _) in zip(names, cleaned, strict=True):
        if values.shape[0] != channels:
            raise ValueError(
                f"{name}: has {values.shape[0]} channel(s) but series {first} has {channels}; "
                "expected the same number in all series"
            )
    _warn_channels_last([values for values, _ in cleaned])
    times = given.times
    if times is not None:
        times = [time[kept] for time, (_, kept) in zip(times, cleaned, strict=True)]
    return replace(given, series=[values for values, _ in cleaned], times=times)


def align(
    given: SeriesSet, *, channel_names: Sequence[str] | None = None, feature_names: Sequence[str] | None = None
) -> SeriesSet:
    """Put the channels of series, or the columns of a table, in the order of names known from ``fit``.

    Raises:
        ValueError: other names; one line with the names that are missing and unexpected.
    """
    if channel_names is not None and (names := given.channel_names) is not None and list(channel_names) != names:
        order = name_order(channel_names, names, "channels")
        series = [np.asarray(values)[order] for values in given.series]
        given = replace(given, series=series, channel_names=list(channel_names))
    if feature_names is not None and (names := given.feature_names) is not None and list(feature_names) != names:
        order = name_order(feature_names, names, "columns")
        if any(np.shape(values)[-1] != len(order) for values in given.series):
            raise ValueError("the columns are in another order and some are empty; give them in the order of fit")
        series = [np.asarray(values)[..., order] for values in given.series]
        given = replace(given, series=series, feature_names=list(feature_names))
    return given


def unmasked(y: Any) -> Any:
    """Return ``y``; a masked array, or one of a nullable type, as an array of objects that has None or NA."""
    if isinstance(y, np.ma.MaskedArray):
        return np.array(y.tolist(), object)
    if nullable_dtype(y) is not None:
        return np.array(y.to_pylist() if hasattr(y, "to_pylist") else list(y), object)
    return y


def nullable_dtype(y: Any) -> np.dtype[Any] | None:
    """Return the type of integers or bools of pandas, polars or Arrow; with nulls, numpy makes them floats."""
    dtype = getattr(y, "dtype", getattr(y, "type", None))
    if isinstance(dtype, np.dtype):
        return None
    dtype = getattr(dtype, "numpy_dtype", dtype)
    try:
        known = np.dtype(str(dtype).lower())
    except (TypeError, ValueError):  # a type of pandas, polars or Arrow that numpy does not have
        return None
    return known if known.kind in "iub" else None


def is_labelled(y: ArrayLike) -> NDArray[np.bool_]:
    """Return which labels are given: all but None, NaN, NaT, blank and ``?``."""
    labels = np.asarray(unmasked(y))
    if labels.dtype.kind not in "OUST":
        return np.asarray(labels == labels)  # noqa: PLR0124 (NaN, NaT)
    texts = np.array(["" if is_missing(label) else str(label).strip().lower() for label in labels.flat])
    return ~np.isin(texts, ["", "?", "nan", "<na>"])


def _read(X: Any, freq: str | float | None) -> SeriesSet:
    """Return the raw series of any accepted input."""
    if isinstance(X, Mapping) and not is_xarray(X):
        raw = read_mapping(X, freq)
    elif isinstance(X, list | tuple):
        raw = read_recordings(X, None, freq)
    elif is_groupby(X):
        raw = read_groups(X, freq)
    elif is_xarray(X):
        raw = read_xarray(X, freq)
    elif is_frame(X):
        raw = read_frame(X, freq)
    elif hasattr(X, "iloc") and X.ndim == 1 and X.index.nlevels > 1:  # a column of a frame with ids and times
        raw = read_frame(X.to_frame(), freq)
    elif hasattr(X, "iloc") and X.ndim == 1 and X.dtype == object:  # a pandas Series of series
        raw = read_recordings(list(X), None, freq)
    elif has_time_index(X):
        raw = read_recordings([X], None, freq)
    else:
        raw = _read_array(as_array(X), freq)
    notes = tuple(raw.report.notes())
    for note in notes:
        _log.warning(note)
    shared = ("ids", "channel_names", "feature_names", "n_features", "times")
    return SeriesSet(list(raw.values), notes=notes, **{name: getattr(raw, name) for name in shared})


def _read_array(array: NDArray[Any], freq: str | float | None) -> RawSeries:
    if holds_series(array):
        return read_recordings(array, None, freq) if array.ndim == 1 else read_cells(array, freq)
    if array.ndim == 0:
        raise ValueError(f"got {type(array.item()).__name__}: {EXPECTED}")
    if array.ndim not in (2, 3):
        hint = "; put a single series into a list" if array.ndim == 1 and array.dtype != object else ""
        raise ValueError(f"got {array.ndim} dimension(s): {EXPECTED}{hint}")
    return RawSeries(list(array), n_features=array.shape[1] if array.ndim == 2 else None)


def _warn_channels_last(series: list[Array]) -> None:
    channels, length = series[0].shape
    if channels > 4 * length and length <= 16 and all(values.shape[1] == length for values in series):
        warnings.warn(
            f"series of {channels} channels with {length} point(s) each: if the channels are the last axis, "
            "give X.transpose(0, 2, 1), or [values.T for values in X] of a list",
            stacklevel=4,
        )


def _clean(values: Any, name: str, channel_names: list[str] | None, keep_missing: bool) -> tuple[Array, slice]:
    """Return a finite series, and the slice of the points that are not padding; errors begin with ``name``."""
    try:
        array = as_array(values)
    except ValueError:  # ragged nested lists
        raise ValueError(f"{name}: channels of unequal length: {EXPECTED}") from None
    if array.dtype == object and array.ndim and all(isinstance(value, Real | None) for value in array.flat):
        with suppress(OverflowError):  # an integer beyond all floats
            array = array.astype(np.float64)
    if not is_numeric(array.dtype):
        raise ValueError(f"{name}: dtype {array.dtype} is not numeric: {EXPECTED}")
    if array.ndim == 1:
        array = array[None]
    if array.ndim != 2:
        raise ValueError(f"{name}: has {array.ndim} dimension(s): {EXPECTED}")
    if 0 in array.shape:
        raise ValueError(f"{name}: is empty, shape {array.shape}; expected at least one value")
    array = as_floats(array)
    finite = np.isfinite(array)
    kept = slice(None)
    if not finite.all():
        filled, inner = _fill(array, finite, name, channel_names)
        if not keep_missing:
            array, kept = filled, inner
    return np.ascontiguousarray(array), kept


def _fill(
    array: Array, finite: NDArray[np.bool_], name: str, channel_names: list[str] | None
) -> tuple[Array, slice]:
    infinite = np.isinf(array)
    if infinite.any():
        channel, point = np.argwhere(infinite)[0]
        raise ValueError(
            f"{name}: infinite value at {_channel(channel, channel_names)}, point {point}; "
            "expected finite numbers, NaN where a value is missing"
        )
    known = np.flatnonzero(finite.any(axis=0))
    if known.size == 0:
        raise ValueError(f"{name}: has only NaN; expected at least one value")
    kept = slice(int(known[0]), int(known[-1]) + 1)
    array, finite = array[:, kept].copy(), finite[:, kept]
    points = np.arange(array.shape[1])
    for channel, (row, ok) in enumerate(zip(array, finite, strict=True)):
        if not ok.any():
            raise ValueError(
                f"{name}: {_channel(channel, channel_names)} has only NaN; expected at least one value"
            )
        # Halves, because the slope between two huge values would overflow.
        row[~ok] = 2 * np.interp(points[~ok], points[ok], row[ok] / 2)
    return array, kept


def _channel(index: int, names: list[str] | None) -> str:
    return f"channel {index}" if names is None else f"channel {index} ({quoted([names[index]])})"


def resample(series: Sequence[Array], length: int) -> Array:
    """Resize every series to ``length`` points: ``(n, channels, length)``.

    A longer series is averaged: each point is the mean over its part of the series, so that no sample is lost and
    nothing aliases. A shorter one is interpolated linearly, with sample centres aligned (the convention of image
    resizing). A series of ``length`` points is returned unchanged.
    """
    dtype = np.result_type(np.float32, *{values.dtype for values in series})
    out = np.empty((len(series), series[0].shape[0], length), dtype)
    alike: dict[tuple[int, Any], list[int]] = {}  # of one length and precision: none depends on its neighbours
    for index, values in enumerate(series):
        alike.setdefault((values.shape[1], values.dtype), []).append(index)
    for (old_length, _), members in alike.items():
        resize = _average if old_length > length else _interpolate
        chunk_size = max(1, _CHUNK_VALUES // (old_length * out.shape[1]))
        for start in range(0, len(members), chunk_size):
            chunk = members[start : start + chunk_size]
            stack = np.stack([series[index] for index in chunk])
            out[chunk] = stack if old_length == length else resize(stack, length)
    return out


def _interpolate(stack: Array, length: int) -> Array:
    last = stack.shape[-1] - 1
    position = np.clip((np.arange(length) + 0.5) * (stack.shape[-1] / length) - 0.5, 0, last)
    left = position.astype(np.intp)
    weight = (position - left).astype(stack.dtype)
    before, after = stack[..., left], stack[..., np.minimum(left + 1, last)]
    # Two weighted terms cannot overflow where their difference could; the clip keeps constants exactly constant.
    mixed: Array = (1 - weight) * before + weight * after
    return np.clip(mixed, np.minimum(before, after), np.maximum(before, after))


def _average(stack: Array, length: int) -> Array:
    """Return the mean of each of ``length`` equal parts; samples at a border are shared by their overlap."""
    old_length = stack.shape[-1]
    scale = old_length / length
    border = np.arange(length + 1) * old_length  # in units of 1 / length of a sample: exact
    first, overlap = border[:-1] // length, (border % length) / length
    last = np.minimum(border[1:] // length, old_length - 1)
    # Relative to the first value of each part, because digits would be lost in sums far from zero; quarters,
    # because sums and differences of huge values would overflow.
    quarter = np.float64(0.25) if np.abs(stack).max() > 1e30 else np.float64(1)
    origin = stack[..., first].astype(np.float64) * quarter
    centred = stack * quarter - np.repeat(origin, np.diff(first, append=old_length), axis=-1)
    total = np.add.reduceat(centred / scale, first, axis=-1)
    total += (
        np.where(border[1:] < old_length * length, overlap[1:], 0) * (stack[..., last] * quarter - origin) / scale
    )
    mean = (total + origin) / quarter
    low, high = (f.reduce(stack, axis=-1, keepdims=True) for f in (np.minimum, np.maximum))
    return np.clip(mean, low, high).astype(stack.dtype)
