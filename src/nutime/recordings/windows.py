"""What all estimators of recordings share: reading one, its period, and its windows embedded."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nutime.data.series import TIME_NAMES, as_array, as_series, is_frame
from nutime.encoder import NuTime

Float64: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]

#: Shortest window in points: shorter ones have no shape.
MIN_WINDOW = 16
#: Windows are resized to this many points, eight tokens of the shipped encoders.
_EMBEDDED_LENGTH = 128
_POOL = "upper"


def read_recording(X: Any) -> Float64:
    """Return one recording as a finite ``(channels, length)`` array of the length it was given in.

    Args:
        X: ``(length,)`` or ``(channels, length)``; or a DataFrame with one row per point and one column per
            channel, whose columns of times are left out. NaN is interpolated, and held constant at the ends.
    """
    if is_frame(X):
        columns = [name for name in X.columns if str(name).strip().lower() not in TIME_NAMES]
        X = as_array(X[columns]).T
    array = as_array(X)
    if array.ndim not in (1, 2) or array.dtype.kind not in "fiub":
        raise ValueError(
            f"expected one recording, (length,) or (channels, length) numbers; got shape {array.shape} "
            f"of {array.dtype}"
        )
    array = np.atleast_2d(array).astype(np.float64)
    if array.shape[0] > array.shape[1]:
        raise ValueError(f"expected (channels, length), got {array.shape}: transpose it")
    known = np.flatnonzero(~np.isnan(array).all(0))
    if known.size:  # as_series would trim these ends, and the points would no longer be those of X
        array[:, : known[0]] = array[:, [known[0]]]
        array[:, known[-1] + 1 :] = array[:, [known[-1]]]
    return as_series([array])[0].astype(np.float64)


def standardise(recording: Float64) -> Float64:
    """Bring every channel to mean 0 and standard deviation 1; windows keep their scale within the recording."""
    scale = recording.std(1, keepdims=True)
    return np.asarray((recording - recording.mean(1, keepdims=True)) / np.where(scale > 0, scale, 1))


def autocorrelation(value: NDArray[np.floating[Any]]) -> Float64:
    """Return the autocorrelation of one channel at every lag; 0 for a constant one."""
    centred = np.asarray(value, np.float64) - np.mean(value)
    spectrum = np.abs(np.fft.rfft(centred, 2 * len(centred))) ** 2
    curve = np.fft.irfft(spectrum)[: len(centred)]
    return np.asarray(curve / (curve[0] or 1.0))


def choose_window(window: Any, recording: Float64, shortest: int, longest: int) -> int:
    """Return ``window``, or for ``auto`` the dominant period within the bounds given."""
    length = recording.shape[1]
    if isinstance(window, str) and window == "auto":
        return int(np.clip(dominant_period(recording), shortest, max(shortest, longest)))
    if isinstance(window, int | np.integer) and 2 <= window <= length // 4:
        return int(window)
    raise ValueError(f"window must be 'auto' or from 2 to length / 4 = {length // 4}, got {window!r}")


def dominant_period(recording: Float64) -> int:
    """Return the period with the highest peak in the spectrum, from 8 points to a fifth of the recording."""
    length = recording.shape[1]
    spectrum = (np.abs(np.fft.rfft(standardise(recording))) ** 2).sum(0)[1:]
    periods = length / np.arange(1, len(spectrum) + 1)
    allowed = (periods >= 8) & (periods <= length / 5)
    return round(float(periods[np.where(allowed, spectrum, 0).argmax()]))


def cut_windows(recording: Float64, starts: Indices, size: int) -> Float64:
    """Return the windows of ``size`` points from each of ``starts``, ``(n, channels, size)``."""
    return np.lib.stride_tricks.sliding_window_view(recording, size, axis=1)[:, starts].swapaxes(0, 1)


def embed_windows(encoder: NuTime, recording: Float64, starts: Indices, size: int) -> NDArray[np.float32]:
    """Return one vector per window and channel, ``(n, channels, d)``."""
    if encoder.config.channels != 1:
        raise ValueError(f"recordings need an encoder of 1 channel, this one reads {encoder.config.channels}")
    embedding = encoder.embed(cut_windows(recording, starts, size), pool=_POOL, length=_EMBEDDED_LENGTH)
    return embedding.reshape(len(starts), len(recording), -1)
