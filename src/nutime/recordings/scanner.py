"""``NuTimeScanner``: which stretches of a recording are unlike the rest of it, or unlike a known good one.

Windows of one, two and four times ``window`` are compared with the nearest windows of the reference in two ways:
point by point at the recording's own scale, and by their embeddings. The first finds what is far off, the second
what has another shape. Squared distances, divided by their mean over the reference, are averaged over both ways,
over the window lengths and over all windows that contain a point, so that a score of 1 is ordinary.

A window never has a neighbour that overlaps it. The threshold is a quantile of the scores of stretches of the
reference that were left out of it in turn, because new recordings are not part of the reference either.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from nutime.encoder import DEFAULT_WEIGHTS, NuTime
from nutime.estimators.base import load_encoder
from nutime.recordings.metrics import label_intervals
from nutime.recordings.windows import (
    Float64,
    Indices,
    choose_window,
    cut_windows,
    embed_windows,
    read_recording,
)

_NEIGHBOURS = 5
_MULTIPLES = (1, 2, 4)  # of the window
_OVERLAP = 8  # windows that contain each point
_GOLDEN_RATIO = 0.6180339887498949
_STRETCHES = 10  # parts of the reference, each scored by the others for the threshold
_MIN_WINDOW, _MAX_WINDOW = 32, 256  # of the shortest window, where the period is shorter
_CHUNK_SIZE = 1024  # windows compared with the reference together


class Interval(NamedTuple):
    """A stretch ``start`` to ``end`` (exclusive), its highest score, and the channel that contributes most."""

    start: int
    end: int
    score: float
    channel: int


@dataclass(frozen=True)
class _Reference:
    """Windows of one length: ``(n, channels, values)`` for each way to compare, and what they are divided by."""

    size: int
    starts: Indices
    features: list[NDArray[np.float32]]
    mean: NDArray[np.float32]
    scale: NDArray[np.float32]
    units: list[float]


class NuTimeScanner(BaseEstimator):  # type: ignore[misc]
    """Score every point of a recording by how unlike the rest the stretches around it are.

    ``fit_predict(recording)`` compares a recording with itself; ``fit(known_good).predict(new)`` with another.

    Args:
        window: points of the shortest window; ``auto`` takes the dominant period, but at least 1 % (and from 32 to
            256 points) and at most 2 % of the recording.
        encoder: shipped weights by name, a folder written by :meth:`nutime.NuTime.save`, or an encoder;
            None compares points only, which is many times faster.
        false_alarm_rate: share of the points of new recordings like the reference that may exceed the threshold.
        max_windows: windows of the reference that are kept per length, evenly spaced.
        device: where the encoder computes; ``auto`` takes a GPU if there is one.

    Attributes:
        threshold_: the score above which a point is anomalous.
        intervals_: the anomalous intervals of the recording last scored, see :class:`Interval`.
        window_: the shortest window used.
        n_channels_in_: channels of the reference.
    """

    threshold_: float
    intervals_: list[Interval]
    window_: int
    n_channels_in_: int
    encoder_: NuTime | None
    mean_: Float64
    scale_: Float64
    _references: list[_Reference]

    def __init__(
        self,
        window: int | str = "auto",
        encoder: str | Path | NuTime | None = DEFAULT_WEIGHTS,
        *,
        false_alarm_rate: float = 0.01,
        max_windows: int = 4000,
        device: str = "auto",
    ) -> None:
        self.window = window
        self.encoder = encoder
        self.false_alarm_rate = false_alarm_rate
        self.max_windows = max_windows
        self.device = device

    def fit(self, X: Any, y: Any = None) -> Self:
        """Take ``X``, ``(length,)`` or ``(channels, length)``, as the reference; ``y`` is ignored."""
        rate = self.false_alarm_rate
        if not (isinstance(rate, Real) and 0 < rate < 1):
            raise ValueError(f"false_alarm_rate must be in (0, 1), got {rate!r}")
        recording = read_recording(X)
        length = recording.shape[1]
        if length < 4 * _MIN_WINDOW:
            raise ValueError(f"a reference needs at least {4 * _MIN_WINDOW} points, got {length}")
        self.encoder_ = None if self.encoder is None else load_encoder(self.encoder, self.device)
        self.n_channels_in_ = len(recording)
        shortest = int(np.clip(length // 100, _MIN_WINDOW, _MAX_WINDOW))
        self.window_ = choose_window(self.window, recording, shortest, length // 50)
        self.mean_ = recording.mean(1, keepdims=True)
        scale = recording.std(1, keepdims=True)
        self.scale_ = np.where(scale > 0, scale, 1)
        sizes = [size for size in (m * self.window_ for m in _MULTIPLES) if size <= length // 4] or [self.window_]
        self._references = [self._reference((recording - self.mean_) / self.scale_, size) for size in sizes]
        held_out = self._held_out(length)
        # The correction of conformal prediction for few samples; windows side by side count as independent.
        level = min(1.0, (1 - rate) * (1 + self.window_ / length))
        self.threshold_ = float(np.quantile(held_out[np.isfinite(held_out)], level, method="higher"))
        return self

    def predict(self, X: Any) -> Float64:
        """Return one score per point of a recording that is not the reference."""
        return self._scan(X, itself=False)

    def fit_predict(self, X: Any, y: Any = None) -> Float64:
        """Return one score per point, comparing the recording with itself."""
        self.fit(X)
        return self._scan(X, itself=True)

    def find_intervals(self, X: Any) -> list[Interval]:
        """Return the stretches of a new recording whose score exceeds ``threshold_``."""
        self.predict(X)
        return self.intervals_

    def _reference(self, recording: Float64, size: int) -> _Reference:
        starts = _starts(recording.shape[1], size)
        if len(starts) > self.max_windows:
            starts = starts[np.linspace(0, len(starts) - 1, self.max_windows).astype(np.intp)]
        features = self._features(recording, starts, size)
        mean, scale = features[-1].mean(0), features[-1].std(0)
        scale[scale == 0] = 1
        if self.encoder_ is not None:
            features[-1] = (features[-1] - mean) / scale
        overlapping = np.abs(starts[:, None] - starts) < size
        units = [float(_distances(part, part, overlapping).sum(1).mean()) or 1.0 for part in features]
        return _Reference(size, starts, features, mean, scale, units)

    def _held_out(self, length: int) -> Float64:
        """Score every stretch of the reference by the others."""
        points = np.zeros(length)
        for reference in self._references:
            stretch = (reference.starts + reference.size // 2) * _STRETCHES // length
            excluded = stretch[:, None] == stretch
            excluded |= np.abs(reference.starts[:, None] - reference.starts) < reference.size
            for part, unit in zip(reference.features, reference.units, strict=True):
                scores = _distances(part, part, excluded).sum(1) / unit / len(reference.features)
                points += _spread(scores[None], reference.starts, reference.size, length)[0]
        return points / len(self._references)

    def _scan(self, X: Any, *, itself: bool) -> Float64:
        check_is_fitted(self, "threshold_")
        recording = read_recording(X)
        channels, length = recording.shape
        if channels != self.n_channels_in_:
            raise ValueError(f"the recording has {channels} channel(s), the reference has {self.n_channels_in_}")
        if length < self.window_:
            raise ValueError(f"the recording has {length} points, fewer than one window of {self.window_}")
        recording = (recording - self.mean_) / self.scale_
        references = [reference for reference in self._references if reference.size <= length]
        points = np.zeros((channels, length))
        for reference in references:
            starts = _starts(length, reference.size)
            scores = [
                self._compare(recording, starts[first : first + _CHUNK_SIZE], reference, itself)
                for first in range(0, len(starts), _CHUNK_SIZE)
            ]
            points += _spread(np.concatenate(scores, 1), starts, reference.size, length)
        points /= len(references[0].features) * len(references)
        total: Float64 = points.sum(0)
        self.intervals_ = [
            Interval(start, end, float(total[start:end].max()), int(points[:, start:end].sum(1).argmax()))
            for start, end in label_intervals(total > self.threshold_)
        ]
        return total

    def _compare(self, recording: Float64, starts: Indices, reference: _Reference, itself: bool) -> Float64:
        """Return the score of each channel of each window, ``(channels, n)``."""
        excluded = np.abs(starts[:, None] - reference.starts) < reference.size if itself else None
        features = self._features(recording, starts, reference.size)
        if self.encoder_ is not None:
            features[-1] = (features[-1] - reference.mean) / reference.scale
        scores = np.zeros((len(starts), len(recording)))
        for part, known, unit in zip(features, reference.features, reference.units, strict=True):
            scores += _distances(part, known, excluded) / unit
        return scores.T

    def _features(self, recording: Float64, starts: Indices, size: int) -> list[NDArray[np.float32]]:
        features = [cut_windows(recording, starts, size).astype(np.float32)]
        if self.encoder_ is not None:
            features.append(embed_windows(self.encoder_, recording, starts, size))
        return features


def _starts(length: int, size: int) -> Indices:
    """Return where windows begin, from the first point to the last window that fits.

    The step varies: an even one may divide the period, and then all windows of the reference would have a few
    phases only, and not those of new recordings.
    """
    step = max(1, size // _OVERLAP)
    index = np.arange(1, -(-(length - size) // step))
    shift = (index * _GOLDEN_RATIO % 1 * step).astype(np.intp)
    return np.unique(np.concatenate([[0], np.minimum(index * step + shift, length - size), [length - size]]))


def _distances(
    queries: NDArray[np.float32], reference: NDArray[np.float32], excluded: NDArray[np.bool_] | None
) -> Float64:
    """Return the mean squared distance to the nearest reference windows, ``(n, channels)``."""
    n_neighbours = min(_NEIGHBOURS, len(reference))
    result = np.empty(queries.shape[:2])
    flat = reference.reshape(len(reference), -1)
    squares = (flat**2).sum(1)
    for first in range(0, len(queries), _CHUNK_SIZE):
        part = queries[first : first + _CHUNK_SIZE]
        distance = squares - 2 * part.reshape(len(part), -1) @ flat.T  # the query's own square changes no order
        if excluded is not None:
            distance[excluded[first : first + _CHUNK_SIZE]] = np.inf
        nearest = np.argpartition(distance, n_neighbours - 1, axis=1)[:, :n_neighbours]
        allowed = np.isfinite(np.take_along_axis(distance, nearest, 1))
        squared = ((part[:, None] - reference[nearest]) ** 2).sum(-1, dtype=np.float64)
        weight = allowed / np.maximum(allowed.sum(1, keepdims=True), 1)
        result[first : first + _CHUNK_SIZE] = np.einsum("nkc,nk->nc", squared, weight)
    return result


def _spread(scores: Float64, starts: Indices, size: int, length: int) -> Float64:
    """Average window scores ``(channels, n)`` over the windows that contain each point; NaN where none does."""
    weights = np.vstack([scores, np.ones(len(starts))])
    steps = [np.bincount(starts, row, length + 1) - np.bincount(starts + size, row, length + 1) for row in weights]
    sums = np.cumsum(steps, axis=1)[:, :length]
    count = np.rint(sums[-1])
    return np.where(count > 0, sums[:-1] / np.maximum(count, 1), np.nan)
