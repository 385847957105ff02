"""The one input contract: whatever a user calls "my series" becomes a list of clean arrays.

Accepted, everywhere in the package:

* a float or integer array ``(n, length)`` or ``(n, channels, length)``;
* a list of ``(length,)`` or ``(channels, length)`` arrays, of unequal length if need be;
* a DataFrame (pandas, polars) or an Arrow table with one series per row: a column a point, or a column a channel
  whose cells hold the series;
* an array of objects that are series: ``(n,)``, as the list, or ``(n, channels)``, as the DataFrame.

A tensor, on any device, is an array.

NaN, or None, at the ends, in all channels at once, is padding and is trimmed; any other is a missing value and
is interpolated (held constant beyond the first and last value known). What comes out of :func:`as_series` is
finite. float32 stays float32, everything else becomes float64: no precision is lost before the window
statistics have been taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: One series, ``(channels, length)``, float32 or float64.
Array: TypeAlias = NDArray[np.floating[Any]]
#: Series as users give them, in any of the forms above.
SeriesLike: TypeAlias = ArrayLike

#: Names, in any case, of what is no value of a series, in a file or a DataFrame: its label, its id, its times.
LABEL_NAMES = frozenset({"label", "class", "target", "y"})
ID_NAMES = frozenset({"id", "series", "series_id"})
TIME_NAMES = frozenset({"time", "timestamp", "t", "date"})

EXPECTED = (
    "expected an array (n, length) or (n, channels, length), a list of (length,) or (channels, length) "
    "arrays, or a DataFrame with one series per row"
)


def as_series(X: Any) -> list[Array]:
    """Return every series of ``X`` as a finite ``(channels, length)`` array.

    Raises:
        ValueError: one line with the index of the first bad series and what was expected of it.
    """
    series = [_clean(values, index) for index, values in enumerate(_split(X))]
    if not series:
        raise ValueError(f"no series given: {EXPECTED}")
    channels = series[0].shape[0]
    for index, values in enumerate(series):
        if values.shape[0] != channels:
            raise ValueError(
                f"series {index}: has {values.shape[0]} channel(s) but series 0 has {channels}; "
                "expected the same number in all series"
            )
    return series


def resample(series: Sequence[Array], length: int) -> Array:
    """Resize every series to ``length`` points by linear interpolation: ``(n, channels, length)``.

    Sample centres are aligned (the convention of image resizing), so a series that already has ``length``
    points is returned unchanged.
    """
    dtype = np.result_type(np.float32, *{values.dtype for values in series})
    out = np.empty((len(series), series[0].shape[0], length), dtype)
    by_length: dict[int, list[int]] = {}
    for index, values in enumerate(series):
        by_length.setdefault(values.shape[1], []).append(index)
    for old_length, members in by_length.items():
        stack = np.stack([series[index] for index in members]).astype(dtype, copy=False)
        out[members] = stack if old_length == length else _lerp(stack, length)
    return out


def _lerp(stack: Array, length: int) -> Array:
    last = stack.shape[-1] - 1
    position = np.clip((np.arange(length) + 0.5) * (stack.shape[-1] / length) - 0.5, 0, last)
    left = position.astype(np.intp)
    weight = (position - left).astype(stack.dtype)
    before, after = stack[..., left], stack[..., np.minimum(left + 1, last)]
    # Two weighted terms cannot overflow where their difference could; the clip keeps constants exactly constant.
    mixed: Array = (1 - weight) * before + weight * after
    return np.clip(mixed, np.minimum(before, after), np.maximum(before, after))


def _split(X: Any) -> Iterable[Any]:
    """Iterate over the series of any accepted container."""
    if isinstance(X, list | tuple):
        return X
    if hasattr(X, "iloc") and X.ndim == 1:  # a pandas Series of series
        return list(X)
    if is_frame(X) and not holds_series(X):
        _refuse_other_columns(X)
    array = as_array(X)
    if holds_series(array):
        return list(array) if array.ndim == 1 else _join_channels(array)
    if array.ndim not in (2, 3):
        hint = "; put a single series into a list" if array.ndim == 1 and array.dtype != object else ""
        raise ValueError(f"got {array.ndim} dimension(s): {EXPECTED}{hint}")
    return list(array)


def is_frame(X: Any) -> bool:
    """Tell whether columns have names, as in pandas, polars and Arrow, of which none is imported here."""
    return hasattr(X, "shape") and hasattr(X, "columns")


def holds_series(table: Any) -> bool:
    """Tell whether the cells of a DataFrame or of an array are series, and not numbers."""
    if not 1 <= len(table.shape) <= 2:
        return False
    try:
        cells = np.asarray(table.iloc[:1] if hasattr(table, "iloc") else table[:1]).ravel()
    except TypeError:  # an Arrow table of dates and numbers makes no array
        return False
    return cells.size > 0 and all(hasattr(cell, "__len__") and not isinstance(cell, str | bytes) for cell in cells)


def _join_channels(table: NDArray[Any]) -> list[list[NDArray[Any]]]:
    return [[as_array(cell) for cell in row] for row in table]


def as_array(values: Any) -> NDArray[Any]:
    """Make an array, also of a tensor; what a masked array hides is missing, and so is pandas' NA."""
    if isinstance(values, np.ma.MaskedArray):
        return np.ma.filled(values.astype(np.float64), np.nan)
    if hasattr(values, "detach"):  # a tensor; torch itself is not needed here
        values = values.detach().cpu()
    array = np.asarray(values)
    if array.dtype == object and hasattr(values, "iloc") and all(map(_is_numeric, np.ravel(values.dtypes))):
        return np.asarray(values.to_numpy(np.float64, na_value=np.nan))
    return array


def _is_numeric(dtype: Any) -> bool:
    return getattr(dtype, "kind", "O") in "fiub"


def _refuse_other_columns(frame: Any) -> None:
    """Refuse columns that are not, or by their names can hardly be, points of a series."""
    columns = list(getattr(frame, "column_names", frame.columns))  # Arrow's columns are not names
    names = {name: name.strip().lower() for name in columns if isinstance(name, str)}
    names = {name: meaning for name, meaning in names.items() if len(meaning) > 1}  # a letter says too little
    for name, meaning in names.items():
        if meaning in TIME_NAMES:
            raise ValueError(
                f"column {name!r}: is a row a point in time? give a list, a series each: "
                "[rows.to_numpy() for _, rows in frame.groupby('id')['value']]"
            )
    for name, meaning in names.items():
        if meaning in LABEL_NAMES | ID_NAMES:
            raise ValueError(f"column {name!r} holds no values of the series: give the frame without it")
    dtypes = frame.dtypes if hasattr(frame, "iloc") else [np.asarray(frame[name][:0]).dtype for name in columns]
    for name, dtype in zip(columns, dtypes, strict=True):
        if not _is_numeric(dtype):
            raise ValueError(f"column {name!r} is not numeric ({dtype}): {EXPECTED}")


def _clean(values: Any, index: int) -> Array:
    try:
        array = as_array(values)
    except ValueError:  # ragged nested lists
        raise ValueError(f"series {index}: channels of unequal length: {EXPECTED}") from None
    if array.dtype == object and array.ndim and all(isinstance(value, Real | None) for value in array.flat):
        with suppress(OverflowError):  # an integer beyond all floats
            array = array.astype(np.float64)
    if not _is_numeric(array.dtype):
        raise ValueError(f"series {index}: dtype {array.dtype} is not numeric: {EXPECTED}")
    if array.ndim == 1:
        array = array[None]
    if array.ndim != 2:
        raise ValueError(f"series {index}: has {array.ndim} dimension(s): {EXPECTED}")
    if 0 in array.shape:
        raise ValueError(f"series {index}: is empty, shape {array.shape}; expected at least one value")
    array = array.astype(np.float32 if array.dtype.char in "ef" else np.float64, copy=False)
    finite = np.isfinite(array)
    if not finite.all():
        array = _fill(array, finite, index)
    return np.ascontiguousarray(array)


def _fill(array: Array, finite: NDArray[np.bool_], index: int) -> Array:
    infinite = np.isinf(array)
    if infinite.any():
        channel, point = np.argwhere(infinite)[0]
        raise ValueError(
            f"series {index}: infinite value at channel {channel}, point {point}; "
            "expected finite numbers, NaN where a value is missing"
        )
    known = np.flatnonzero(finite.any(axis=0))
    if known.size == 0:
        raise ValueError(f"series {index}: has only NaN; expected at least one value")
    kept = slice(known[0], known[-1] + 1)
    array, finite = array[:, kept].copy(), finite[:, kept]
    points = np.arange(array.shape[1])
    for channel, (row, ok) in enumerate(zip(array, finite, strict=True)):
        if not ok.any():
            raise ValueError(f"series {index}: channel {channel} has only NaN; expected at least one value")
        # Halves, for the slope between two huge values would overflow.
        row[~ok] = 2 * np.interp(points[~ok], points[ok], row[ok] / 2)
    return array
