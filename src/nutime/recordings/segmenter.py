"""``NuTimeSegmenter``: where a recording changes from one state to another, and which states return.

Windows of one, two, four and eight periods around up to ``n_windows`` evenly spaced points are embedded; each is
linked to its nearest neighbours that do not overlap it. A segmentation is good where windows have their neighbours
in their own segment: dynamic programming maximises the sum over segments of links within the segment divided by
its length, which is the normalised association of spectral clustering. Neighbours have the same phase of a period,
so that phase does not matter. Without a change the sum stays 1 however the recording is cut; a segment whose state
occurs nowhere else adds 1; a change point must add ``penalty``.

A straight trend changes nowhere, but its windows have their neighbours beside them. Where the line through a
channel explains it better than the segments that were found, the channel is segmented again without the line.
"""

from __future__ import annotations

from itertools import pairwise
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler

from nutime.checks import check_number
from nutime.data.timeline import Times
from nutime.encoder import DEFAULT_WEIGHTS, NuTime
from nutime.estimators.base import load_encoder
from nutime.recordings.windows import (
    MIN_WINDOW,
    Float64,
    Indices,
    choose_window,
    cut_windows,
    embed_windows,
    interval_times,
    long_runs,
    missing_points,
    open_recording,
    read_recordings,
    standardise,
    times_of,
)

_NEIGHBOURS = 10
_MULTIPLES = (1, 2, 4, 8)  # of the window
_LONGEST = 256  # points of a window, unless two periods are longer
_MIN_SEGMENT = 0.05  # of the recording
_MAX_CHANGE_POINTS = 15  # where their number is unknown
_MAX_REST = 0.5  # of the variance of a channel, around a straight trend
_SAME_LINE = 0.8  # of that variance, at least left by lines through parts of the channel
_LINE_ROUNDING = 1e-12  # of a line through a standardised channel
# Two segments are one state if they have more than this share of the links expected within one state.
_SAME_STATE = 0.5


class Segment(NamedTuple):
    """A stretch of one state.

    Attributes:
        start, end: its points, ``end`` exclusive.
        state: segments of the same state have the same number.
        start_time, end_time: the times of its first and last point; None if the recording has no times.
    """

    start: int
    end: int
    state: int
    start_time: Any = None
    end_time: Any = None


class NuTimeSegmenter(BaseEstimator):  # type: ignore[misc]
    """Find the change points of one recording.

    A straight trend is none; a level that wanders is cut where it differs most. Missing values are interpolated;
    gaps of 16 points and more, in all channels, are left out, and belong to the segments beside them.

    Args:
        n_change_points: how many to find; None decides by ``penalty``.
        window: points of the shortest window, best one period of what repeats, rounded to a power of two; ``auto``
            takes the dominant period, and 16 points where it does not fit eight times: nothing repeats there.
        encoder: shipped weights by name, a folder written by :meth:`nutime.NuTime.save`, or an encoder;
            None compares the points of the windows instead, and does not see a change in the amplitude of noise.
        penalty: what a change point must add to the normalised association. Higher finds fewer.
        n_windows: points of the recording around which windows are embedded; change points are found to within
            half of ``length / n_windows``.
        device: where the encoder computes; ``auto`` takes a GPU if there is one.

    Attributes:
        change_points_: sorted indices; each is the first point of a segment.
        labels_: the state of each segment, ``0, 1, …`` in order of first occurrence.
        segments_: the segments with their states and times, see :class:`Segment`.
        association_: the normalised association of the best segmentation into 1, 2, … segments.
        window_: the shortest window before rounding.
        times_: the time of each point; None if the recording has no times.
    """

    change_points_: Indices
    labels_: Indices
    segments_: list[Segment]
    association_: Float64
    window_: int
    times_: Times | None

    def __init__(
        self,
        n_change_points: int | None = None,
        window: int | str = "auto",
        encoder: str | Path | NuTime | None = DEFAULT_WEIGHTS,
        *,
        penalty: float = 0.16,
        n_windows: int = 450,
        device: str = "auto",
    ) -> None:
        self.n_change_points = n_change_points
        self.window = window
        self.encoder = encoder
        self.penalty = penalty
        self.n_windows = n_windows
        self.device = device

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the change points of ``X``, ``(length,)`` or ``(channels, length)``; ``y`` is ignored."""
        check_number("penalty", self.penalty, "[0, inf)")
        check_number("n_windows", self.n_windows, "[2, inf)", integer=True)
        given = open_recording(X)
        self.times_ = times_of(given)
        missing = missing_points(given.series[0])
        known = np.flatnonzero(~long_runs(missing[None], MIN_WINDOW, np.zeros(1, np.intp)))
        if len(known) < 4 * MIN_WINDOW:
            where = " outside of gaps" if len(known) < len(missing) else ""
            raise ValueError(f"a recording needs at least {4 * MIN_WINDOW} points, got {len(known)}{where}")
        recording = standardise(read_recordings(given).series[0][:, known])
        encoder = None if self.encoder is None else load_encoder(self.encoder, self.device)
        self._segment(encoder, recording)
        trends = _trends(recording, known, self.change_points_)
        if trends.any():
            self._segment(encoder, standardise(recording - trends))
        self.change_points_ = known[self.change_points_]
        bounds = pairwise([0, *self.change_points_.tolist(), len(missing)])
        self.segments_ = [
            Segment(start, end, state, *interval_times(self.times_, start, end))
            for (start, end), state in zip(bounds, self.labels_.tolist(), strict=True)
        ]
        return self

    def _segment(self, encoder: NuTime | None, recording: Float64) -> None:
        length = recording.shape[1]
        self.window_ = choose_window(self.window, recording, MIN_WINDOW, length // 8)
        if self.window == "auto" and self.window_ == length // 8:
            self.window_ = MIN_WINDOW
        n_windows = min(self.n_windows, length // 2)
        centres = ((np.arange(n_windows) + 0.5) * length / n_windows).astype(np.intp)  # of equal stretches
        links = _links(encoder, recording, centres, self.window_)
        cuts = self._cuts(links)
        self.change_points_ = np.asarray([(centres[cut - 1] + centres[cut] + 1) // 2 for cut in cuts], np.intp)
        self.labels_ = _states(links, cuts)

    def predict(self, X: Any) -> Indices:
        """Return the sorted change points of ``X``; segmenting learns nothing from earlier recordings."""
        return self.fit_predict(X)

    def fit_predict(self, X: Any, y: Any = None) -> Indices:
        """Return the sorted indices of the change points of ``X``."""
        return self.fit(X).change_points_

    def _cuts(self, links: Float64) -> list[int]:
        n_windows, count = len(links), self.n_change_points
        min_segment = max(2, int(_MIN_SEGMENT * n_windows))
        if count is None:
            self.association_, cuts = _best_cuts(links, _MAX_CHANGE_POINTS, min_segment)
            return cuts[int((self.association_ - self.penalty * np.arange(len(cuts))).argmax())]
        if not (isinstance(count, Integral) and 0 <= count < n_windows // 2):
            raise ValueError(f"n_change_points must be None or from 0 to {n_windows // 2 - 1}, got {count!r}")
        self.association_, cuts = _best_cuts(links, count, min(min_segment, n_windows // (count + 1)))
        return cuts[count]


def _trends(recording: Float64, places: Indices, change_points: Indices) -> Float64:
    """Return the line through each channel that has a straight trend, 0 for the others; ``places`` tell its gaps.

    The line leaves less than the means of the segments, and hardly more than lines through parts as short as a
    segment may be: steps and bends leave more.
    """
    length, n_parts = len(places), round(1 / _MIN_SEGMENT)
    rest = recording - _line(recording, places)
    rest[np.abs(rest).max(1) < _LINE_ROUNDING] = 0
    borders = np.arange(1, n_parts) * length // n_parts
    parts = zip(np.split(rest, borders, 1), np.split(places, borders), strict=True)
    lines = sum(np.square(part - _line(part, own)).sum(1) for part, own in parts) / (length - 2 * n_parts)
    steps = sum(part.var(1) * part.shape[1] for part in np.split(recording, change_points, 1)) / length
    line = rest.var(1)
    straight = (line < _MAX_REST) & (line < steps) & (lines >= _SAME_LINE * line)
    return np.where(straight[:, None], recording - rest, 0)


def _line(values: Float64, places: Indices) -> Float64:
    """Return the least-squares line through each row of values."""
    centred = places - places.mean()
    slope = values @ centred / (centred @ centred)
    return np.asarray(values.mean(1, keepdims=True) + slope[:, None] * centred)


def _links(encoder: NuTime | None, recording: Float64, centres: Indices, window: int) -> Float64:
    """Return the symmetric matrix of links between windows, the mean over window lengths."""
    length = recording.shape[1]
    links = np.zeros((len(centres), len(centres)))
    for size in _sizes(window, length):
        starts = np.clip(centres - size // 2, 0, length - size)
        vectors = windows = cut_windows(recording, starts, size)
        if encoder is not None:
            vectors = StandardScaler().fit_transform(embed_windows(encoder, windows).reshape(len(starts), -1))
        neighbours = _neighbours(vectors.reshape(len(starts), -1), starts, size)
        np.add.at(links, (np.arange(len(links))[:, None], neighbours), 1)
    return np.asarray((links + links.T) / links.sum())


def _sizes(window: int, length: int) -> list[int]:
    """Return the lengths of windows: powers of two, which are resized by whole factors."""
    longest = min(max(_LONGEST, 2 * window), length // 8)
    sizes = {2 ** round(np.log2(min(window * multiple, longest))) for multiple in _MULTIPLES}
    return sorted(size for size in sizes if MIN_WINDOW <= size <= length // 8) or [min(window, length // 4)]


def _neighbours(vectors: NDArray[Any], starts: Indices, size: int) -> Indices:
    """Return the nearest windows of each window among those that do not overlap it."""
    squares = (vectors**2).sum(1)
    distance = squares[:, None] + squares - 2 * vectors @ vectors.T
    distance[np.abs(starts[:, None] - starts) < size] = np.inf
    possible = int(np.isfinite(distance).sum(1).min())
    n_neighbours = max(1, min(_NEIGHBOURS, possible))
    return np.argpartition(distance, n_neighbours - 1, axis=1)[:, :n_neighbours]


def _best_cuts(links: Float64, most: int, min_segment: int) -> tuple[Float64, list[list[int]]]:
    """Return the normalised association of, and the cuts into, the best 1, 2, … ``most`` + 1 segments."""
    n = len(links)
    total = np.zeros((n + 1, n + 1))
    total[1:, 1:] = links.cumsum(0).cumsum(1)
    corner = total.diagonal()
    within = corner[None] + corner[:, None] - total - total.T  # links inside [row, column)
    size = np.arange(n + 1)[None] - np.arange(n + 1)[:, None]
    gain = np.where(size >= min_segment, within / np.maximum(size, 1), -np.inf) * (n / links.sum())
    best, before, cuts = [gain[0]], [], [list[int]()]
    for _ in range(most):
        candidates = best[-1][:, None] + gain
        if not np.isfinite(candidates[:, n]).any():
            break
        before.append(candidates.argmax(0))
        best.append(candidates.max(0))
        end, path = n, []
        for step in reversed(before):
            end = int(step[end])
            path.append(end)
        cuts.append(path[::-1])
    return np.asarray([values[n] for values in best]), cuts


def _states(links: Float64, cuts: list[int]) -> Indices:
    """Label segments, joining the most linked ones first; neighbouring segments are never one state."""
    bounds = [0, *cuts, len(links)]
    groups = [[segment] for segment in range(len(cuts) + 1)]
    member = np.zeros((len(groups), len(links)))
    for segment, (start, end) in enumerate(pairwise(bounds)):
        member[segment, start:end] = 1
    shared, sizes = member @ links @ member.T, member.sum(1)
    while True:
        density = [
            (_density(shared, sizes, left, right), a, b)
            for a, left in enumerate(groups)
            for b, right in enumerate(groups[:a])
            if all(abs(i - j) > 1 for i in left for j in right)
        ]
        if not density or max(density)[0] <= _SAME_STATE:
            break
        _, a, b = max(density)
        groups[b] += groups.pop(a)
    labels = np.zeros(len(sizes), np.intp)
    for label, group in enumerate(sorted(groups, key=min)):
        labels[group] = label
    return labels


def _density(shared: Float64, sizes: Float64, left: list[int], right: list[int]) -> float:
    """Return the links between two groups relative to those expected if the two were one state."""
    between = shared[np.ix_(left, right)].sum()
    a, b = sizes[left].sum(), sizes[right].sum()
    within = shared[np.ix_(left, left)].sum() + shared[np.ix_(right, right)].sum()
    expected = 2 * a * b / (a + b) ** 2
    return float(2 * between / (2 * between + within) / expected) if between else 0.0
