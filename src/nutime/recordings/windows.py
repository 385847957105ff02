"""What all estimators of recordings share: reading one, its period, and its windows embedded."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nutime.data import frames
from nutime.data.frames import RawSeries, read_groups, read_mapping, read_xarray
from nutime.data.sampling import check_step, step_of
from nutime.data.series import Array, SeriesSet, align, as_array, is_groupby, is_xarray, read_input
from nutime.data.timeline import Times
from nutime.encoder import NuTime
from nutime.model.reading import pooled_size

Float64: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]

#: Shortest window in points: shorter ones have no shape.
MIN_WINDOW = 16
#: Windows are resized to this many points unless given, eight tokens of the shipped encoders.
_EMBEDDED_LENGTH = 128
_POOL = "upper"
#: Points from which the period is estimated: more are slow to transform and change nothing.
_MAX_POINTS = 2**20
#: Standard deviation, relative to the values, up to which it is rounding, and they are constant.
ROUNDING = 1e-15
_log = logging.getLogger("nutime")


def open_recordings(X: Any, channel_names: Sequence[str] | None = None) -> SeriesSet:
    """Return recordings as ``(channels, length)`` arrays that are neither copied nor filled.

    Args:
        X: one recording, a list of several, or a dict or ``groupby`` of several by name. A recording is an array
            ``(length,)`` or ``(channels, length)``, or a DataFrame with one row per point and one column per
            channel. With a time column or index it is put on a regular grid (:mod:`nutime.data.timeline`).
        channel_names: names known from ``fit``; the same names in another order are put in order.
    """
    if isinstance(X, SeriesSet):
        given = X
    else:
        raw = _read(X)
        notes = tuple(raw.report.notes())
        for note in notes:
            _log.warning(note)
        given = SeriesSet(
            list(raw.values),
            ids=raw.ids,
            channel_names=raw.channel_names,
            times=raw.times,
            zoned=raw.report.n_zoned > 0,
            regridded=raw.report.regridded,
            notes=notes,
        )
    values = [as_matrix(recording) for recording in given.series]
    if not values:
        raise ValueError("no recording given")
    for index, recording in enumerate(values):
        if recording.shape[0] > recording.shape[1] and X is not given and given.channel_names is None:
            raise ValueError(f"expected (channels, length), got {recording.shape}: transpose it")
        if len(recording) != len(values[0]):
            raise ValueError(
                f"recording {index} has {len(recording)} channel(s), recording 0 has {len(values[0])}"
            )
    step = step_of(times_of(given))
    for index in range(1, len(values)):
        check_step(step_of(times_of(given, index)), step, f"recording {index}", "recording 0 has")
    return align(replace(given, series=values), channel_names=channel_names)


def read_recordings(X: Any, channel_names: Sequence[str] | None = None) -> SeriesSet:
    """Return recordings as finite float64 arrays: NaN is interpolated, and held constant at the ends."""
    given = open_recordings(X, channel_names)
    filled = read_input(replace(given, series=[_hold_ends(recording) for recording in given.series]))
    return replace(given, series=[values.astype(np.float64, copy=False) for values in filled.series])


def open_recording(X: Any, channel_names: Sequence[str] | None = None) -> SeriesSet:
    """Return the only recording of ``X``, not copied; see :func:`open_recordings`."""
    several = isinstance(X, SeriesSet | Mapping) or is_xarray(X) or is_groupby(X)
    given = open_recordings(X if several else [X], channel_names)
    if len(given) != 1:
        raise ValueError(f"expected one recording, got {len(given)}")
    return given


def read_recording(X: Any, channel_names: Sequence[str] | None = None) -> SeriesSet:
    """Return the only recording of ``X`` as :func:`read_recordings` does."""
    return read_recordings(open_recording(X, channel_names))


def times_of(given: SeriesSet, index: int = 0) -> Times | None:
    """Return the time of each point of a recording, None if it has no times."""
    return None if given.times is None else given.times[index]


def warn_of_points(given: SeriesSet, what: str) -> None:
    """Log a warning if points that a user gave may have been meant as rows of the input."""
    if given.regridded:
        _log.warning(
            f"points of {what} are those of the regular grid, not rows of the input; give times if rows are meant"
        )


def interval_times(times: Times | None, start: int, end: int) -> tuple[Any, Any]:
    """Return the times of the first and the last point of an interval, two Nones without times."""
    return (None, None) if times is None else (times[start], times[end - 1])


def _read(X: Any) -> RawSeries:
    if is_xarray(X):
        return read_xarray(X)
    if isinstance(X, Mapping):
        return read_mapping(X)
    if is_groupby(X):
        return read_groups(X)
    several = isinstance(X, list | tuple) and not all(isinstance(item, Real | None) for item in X)
    return frames.read_recordings(X if several else [X], None)


def as_matrix(X: Any) -> NDArray[Any]:
    """Return points ``(length,)`` or ``(channels, length)`` as a matrix, NaN where they are None or masked."""
    try:
        array = as_array(X)
    except ValueError:  # lists of unequal length
        raise ValueError("expected one recording, got several, or channels of unequal length") from None
    if array.dtype == object and all(isinstance(value, Real | None) for value in array.flat):
        array = array.astype(np.float64)
    if array.ndim not in (1, 2) or array.dtype.kind not in "fiub":
        raise ValueError(
            f"expected one recording, (length,) or (channels, length) numbers; got shape {array.shape} "
            f"of {array.dtype}"
        )
    return np.atleast_2d(array)


def _hold_ends(values: NDArray[Any]) -> Float64:
    """Return a copy whose missing ends, which are no padding here, have the value beside them."""
    array = values.astype(np.float64)
    known = np.flatnonzero(~np.isnan(array).all(0))
    if known.size:  # read_input would trim these ends, and the points would no longer be those of X
        array[:, : known[0]] = array[:, [known[0]]]
        array[:, known[-1] + 1 :] = array[:, [known[-1]]]
    return array


def missing_points(recording: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which points of a recording that is not filled are missing in all channels."""
    return np.asarray(np.isnan(recording.astype(np.float64)).all(0))


def standardise(recording: Array) -> Float64:
    """Bring every channel to mean 0 and standard deviation 1; windows keep their scale within the recording."""
    mean, scale = moments([recording])
    return np.asarray((recording - mean) / scale)


def moments(recordings: Sequence[Array]) -> tuple[Float64, Float64]:
    """Return mean and standard deviation (1 if it is 0) of each channel over all recordings, ``(channels, 1)``."""
    mean, deviation = mean_and_deviation(recordings)
    return mean, np.where(deviation > 0, deviation, 1)


def mean_and_deviation(recordings: Sequence[Array]) -> tuple[Float64, Float64]:
    """Return mean and standard deviation (0 of a constant) of each channel over all recordings."""
    largest = np.max([np.abs(recording).max(1, keepdims=True) for recording in recordings], 0)
    exponent = np.frexp(largest)[1]
    count, mean, squares = 0, np.zeros(1), np.zeros(1)
    for values in recordings:
        recording = np.ldexp(values, -exponent)  # squares stay in range
        own = recording.mean(1, keepdims=True)
        total = count + recording.shape[1]
        change = own - mean
        squares = squares + recording.var(1, keepdims=True) * recording.shape[1]
        squares = squares + change**2 * (count * recording.shape[1] / total)
        mean, count = mean + change * (recording.shape[1] / total), total
    deviation = np.ldexp(np.sqrt(squares / count), exponent)
    return np.ldexp(mean, exponent), np.where(deviation > ROUNDING * largest, deviation, 0)


def choose_window(window: Any, recording: Array, shortest: int, longest: int) -> int:
    """Return ``window``, or for ``auto`` the dominant period within the bounds given."""
    length = recording.shape[1]
    if isinstance(window, str) and window == "auto":
        return int(np.clip(dominant_period(recording), shortest, max(shortest, longest)))
    if isinstance(window, int | np.integer) and 2 <= window <= length // 4:
        return int(window)
    raise ValueError(f"window must be 'auto' or from 2 to length / 4 = {length // 4}, got {window!r}")


def dominant_period(recording: Array) -> int:
    """Return the period with the highest peak in the spectrum, from 8 points to a fifth of the recording."""
    recording = recording[:, :_MAX_POINTS]
    length = recording.shape[1]
    spectrum = (np.abs(np.fft.rfft(standardise(recording))) ** 2).sum(0)[1:]
    periods = length / np.arange(1, len(spectrum) + 1)
    allowed = (periods >= 8) & (periods <= length / 5)
    return round(float(periods[np.where(allowed, spectrum, 0).argmax()]))


def cut_windows(recording: Array, starts: Indices, size: int) -> Array:
    """Return the windows of ``size`` points from each of ``starts``, ``(n, channels, size)``."""
    return np.lib.stride_tricks.sliding_window_view(recording, size, axis=1)[:, starts].swapaxes(0, 1)


def embed_windows(encoder: NuTime, windows: Array, length: int = _EMBEDDED_LENGTH) -> NDArray[np.float32]:
    """Return one vector per window and channel, ``(n, channels, d)``, of windows resized to ``length`` points."""
    if encoder.config.channels != 1:
        raise ValueError(f"recordings need an encoder of 1 channel, this one reads {encoder.config.channels}")
    embedding = encoder.embed(windows, pool=_POOL, length=length)
    return embedding.reshape(*windows.shape[:2], -1)


def embedded_size(encoder: NuTime) -> int:
    """Return ``d`` of :func:`embed_windows`."""
    return pooled_size(encoder.config, _POOL)


def add_windows(sums: Float64, rows: NDArray[Any], starts: Indices, ends: Indices) -> None:
    """Add the values ``(rows, n)`` of windows to all points that they contain."""
    length = sums.shape[1]
    steps = [np.bincount(starts, row, length + 1) - np.bincount(ends, row, length + 1) for row in rows]
    sums += np.cumsum(steps, axis=1)[:, :length]


def runs(flags: ArrayLike) -> Indices:
    """Return start and end (exclusive) of every run of true values, ``(n, 2)``."""
    return np.flatnonzero(np.diff(np.asarray(flags, bool), prepend=False, append=False)).reshape(-1, 2)


def long_runs(flags: NDArray[np.bool_], shortest: int, before: Indices) -> NDArray[np.bool_]:
    """Return which points of each channel are in a run of at least ``shortest`` flags.

    ``before`` counts the flags directly before the first point of each channel.
    """
    long = np.zeros(flags.shape, bool)
    for own, count, out in zip(flags, before, long, strict=True):
        edges = runs(own)
        lengths = edges[:, 1] - edges[:, 0] + count * (edges[:, 0] == 0)
        for start, end in edges[lengths >= shortest]:
            out[start:end] = True
    return long
