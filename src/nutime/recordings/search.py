"""``find``: the stretches of recordings that are most like a given one.

Distances are root mean squared differences over points and channels. With ``scale="keep"`` they are in standard
deviations of the recordings: level and amplitude count as much as the shape. With ``scale="ignore"`` every stretch
is first brought to mean 0 and standard deviation 1: only the shape counts, and the distance is ``sqrt(2 - 2 r)``
for stretches of correlation ``r``.

Recordings are searched completely, at every point, by the fast Fourier transform. Of every block of as many points
as the query has, only the best match is kept; the blocks around a match are searched again for others that do not
overlap it. All stretches that begin in a block contain its last point: values are taken relative to that point,
and summed from it outwards, so that no stretch loses digits to large values elsewhere.
:class:`~nutime.recordings.index.RecordingIndex` is faster where many queries are made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from nutime.checks import check_number
from nutime.data.sampling import check_step, step_of
from nutime.data.series import Array, SeriesSet
from nutime.recordings.windows import (
    ROUNDING,
    Float64,
    Indices,
    interval_times,
    mean_and_deviation,
    missing_points,
    moments,
    open_recordings,
    read_recording,
    read_recordings,
    times_of,
)

SCALES = ("keep", "ignore")
_MIN_QUERY = 4  # points: shorter stretches have no shape
_CHUNK_POINTS = 2**17  # transformed together
_MAX_RANGE = 2.0**8  # of magnitudes transformed together: larger values cost smaller ones their digits
_HUGE = 2.0**500  # its square, summed over a query, is in range


class Match(NamedTuple):
    """A stretch that is like the query.

    Attributes:
        recording: the name of the recording, or its index if recordings have no names.
        start, end: its points, ``end`` exclusive.
        distance: 0 for an equal stretch.
        start_time, end_time: the times of its first and last point; None if the recording has no times.
    """

    recording: str | int
    start: int
    end: int
    distance: float
    start_time: Any = None
    end_time: Any = None


def find(recordings: Any, query: Any, k: int = 10, *, scale: str = "keep") -> list[Match]:
    """Return the ``k`` stretches most like the query that do not overlap each other, the best first.

    Missing values are interpolated; a stretch is no match if half of its points or more are missing.

    Args:
        recordings: one recording, a list or a dict of several (arrays ``(length,)`` or ``(channels, length)``, or
            frames), or a :class:`~nutime.recordings.index.RecordingIndex`.
        query: the stretch, in any form of one recording; part of the recordings, it is its own best match.
        k: matches at most; there are fewer if the recordings are short.
        scale: ``keep`` compares stretches as they are; ``ignore`` compares their shape alone.
    """
    check_scale(scale)
    if hasattr(recordings, "search"):
        return recordings.search(query, k, scale=scale)  # type: ignore[no-any-return]
    check_number("k", k, "[1, inf)", integer=True)
    given = open_recordings(recordings)
    missing = [missing_points(recording) for recording in given.series]
    given = read_recordings(given)
    values = read_query(query, given)
    stretch = Stretch.of(values, moments(given.series)[1], scale)
    starts = [np.arange(0, recording.shape[1] - stretch.size + 1, stretch.size) for recording in given.series]
    return best_matches(given, missing, stretch, starts, k)


def read_query(query: Any, given: SeriesSet) -> Array:
    """Return the values of a query for recordings, with their channels and at their step."""
    read = read_recording(query, given.channel_names)
    check_step(step_of(times_of(read)), step_of(times_of(given)), "the query", "the recording has")
    return read.series[0]


def check_scale(scale: Any) -> None:
    """Raise ValueError unless ``scale`` is one of :data:`SCALES`."""
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")


@dataclass(frozen=True)
class Stretch:
    """A query, ready to be compared.

    Attributes:
        values: ``(channels, size)``; with scale ``ignore`` brought to mean 0 and standard deviation 1.
        scale: of the recordings.
        shape_only: whether the scale is ignored.
    """

    values: Array
    scale: Float64
    shape_only: bool

    @classmethod
    def of(cls, values: Array, scale: Float64, mode: str) -> Self:
        """Prepare a query of the values given, for recordings of a scale."""
        if len(values) != len(scale):
            raise ValueError(f"the query has {len(values)} channel(s), the recordings have {len(scale)}")
        if values.shape[1] < _MIN_QUERY:
            raise ValueError(f"a query needs at least {_MIN_QUERY} points, got {values.shape[1]}")
        shape_only = mode == "ignore"
        return cls(_normalise(values) if shape_only else values, scale, shape_only)

    @property
    def size(self) -> int:
        """Points of the query."""
        return len(self.values[0])

    def squared_distances(self, recording: Array, start: int, end: int) -> Float64:
        """Return the squared distances of the stretches that begin from ``start`` to ``end`` (exclusive)."""
        size = self.size
        part = recording[:, start : end + size - 1]
        part = np.pad(part, ((0, 0), (0, (start - end) % size)), mode="edge")
        rows = sliding_window_view(part, 2 * size - 1, axis=1)[:, ::size]  # (channels, blocks, 2 * size - 1)
        middle = rows[..., size - 1, None]
        level = self.values.mean(-1, keepdims=True)
        # The power of two near the largest value of the query: its squares stay in range beside any others.
        exponent = np.frexp(np.abs(self.values / self.scale).max())[1]
        query, unit = (self.values - level)[:, None], self.scale[:, None] * np.ldexp(1.0, exponent)
        if self.shape_only:
            largest = np.abs(rows - middle).max(-1, keepdims=True)
            unit = np.where(largest > 0, np.maximum(largest / _HUGE, np.finfo(np.float64).tiny), 1)
        else:
            query = query / unit
        rows = np.clip((rows - middle) / unit, -_HUGE, _HUGE)
        mean, squares = _sliding_mean(rows, size), _sliding_mean(rows**2, size)
        products = _products(rows, query, np.sqrt(size * squares)) / size
        spread = np.square(query).mean(-1, keepdims=True)
        if self.shape_only:
            deviation = np.sqrt(np.maximum(squares - mean**2, 0))
            constant = deviation <= ROUNDING * np.abs(middle / unit)
            # A stretch without shape is 0 everywhere: at distance 1 from any shape, and at 0 from the like.
            distances = np.where(constant, spread, 1 + spread - 2 * products / np.where(constant, 1, deviation))
        else:
            offset = np.clip((middle - level[:, None]) / unit, -_HUGE, _HUGE)
            distances = squares - 2 * products + spread + offset * (2 * mean + offset)
        return np.asarray(np.maximum(distances.mean(0), 0).ravel()[: end - start])

    def distance(self, stretch: Array) -> float:
        """Return the distance of one stretch of the size of the query, without the rounding of a transform."""
        if self.shape_only:
            difference = _normalise(stretch) - self.values
        else:
            difference = (stretch - self.values) / self.scale
        largest = np.abs(difference).max() or 1.0
        return float(largest * np.sqrt(((difference / largest) ** 2).mean()))


def best_matches(
    given: SeriesSet, missing: list[NDArray[np.bool_]], stretch: Stretch, blocks: list[Indices], k: int
) -> list[Match]:
    """Return the best matches that begin in one of the ``blocks``: where each begins, sorted, per recording.

    ``missing`` tells which points of each recording are missing.
    """
    size = stretch.size
    excluded = [is_gap(flags, size) for flags in missing]
    recording_of = np.repeat(np.arange(len(blocks)), [len(starts) for starts in blocks])
    block_start = np.concatenate(blocks)
    parts = zip(given.series, excluded, blocks, strict=True)
    found = [_block_minima(stretch, values, gaps, starts) for values, gaps, starts in parts]
    best, place = (np.concatenate(parts) for parts in zip(*found, strict=True))
    taken: list[tuple[int, int]] = []
    while len(taken) < k and len(best) and np.isfinite(best[block := int(best.argmin())]):
        index, start = int(recording_of[block]), int(place[block])
        taken.append((index, start))
        values = given.series[index]
        near = np.flatnonzero((recording_of == index) & (np.abs(place - start) < size))
        for again in near:  # their best overlaps the match
            first, last = block_start[again], min(block_start[again] + size, values.shape[1] - size + 1)
            distances = stretch.squared_distances(values, first, last)
            distances[excluded[index][first:last]] = np.inf
            for other, other_start in taken:
                if other == index:
                    distances[max(0, other_start - size + 1 - first) : max(0, other_start + size - first)] = np.inf
            best[again], place[again] = distances.min(), first + distances.argmin()
    matches = []
    for index, start in taken:
        name = index if given.ids is None else given.ids[index]
        distance = stretch.distance(given.series[index][:, start : start + size])
        times = interval_times(times_of(given, index), start, start + size)
        matches.append(Match(name, start, start + size, distance, *times))
    return sorted(matches, key=lambda match: match.distance)


def is_gap(missing: NDArray[np.bool_], size: int) -> NDArray[np.bool_]:
    """Return of which stretches at least half of the points are missing, by where they begin."""
    before = np.concatenate([[0], np.cumsum(missing)])
    return np.asarray(2 * (before[size:] - before[:-size]) >= size)


def _block_minima(
    stretch: Stretch, values: Array, gaps: NDArray[np.bool_], starts: Indices
) -> tuple[Float64, Indices]:
    """Return the smallest squared distance in each block, outside of gaps, and where it is."""
    size = stretch.size
    best, place = np.full(len(starts), np.inf), np.array(starts, np.intp)
    per_chunk = max(1, _CHUNK_POINTS // size)
    # Blocks side by side are transformed together.
    runs = np.split(np.arange(len(starts)), np.flatnonzero(np.diff(starts) != size) + 1)
    for run in runs:
        for begin in range(0, len(run), per_chunk):
            part = run[begin : begin + per_chunk]
            first, last = starts[part[0]], min(starts[part[-1]] + size, values.shape[1] - size + 1)
            distances = np.full(len(part) * size, np.inf)
            distances[: last - first] = stretch.squared_distances(values, first, last)
            distances[: last - first][gaps[first:last]] = np.inf
            table = distances.reshape(len(part), size)
            best[part], place[part] = table.min(1), starts[part] + table.argmin(1)
    return best, place


def _normalise(values: Array) -> Float64:
    mean, deviation = mean_and_deviation([values])
    return np.divide(values - mean, deviation, out=np.zeros_like(values), where=deviation > 0)


def _products(rows: Array, query: Array, reach: Array) -> Float64:
    """Return the sum of products with the query, of all stretches of rows; no value of one is above its ``reach``.

    A transform has digits for the largest value of a row only: stretches of smaller values are transformed again,
    without the larger ones, which they do not contain.
    """
    size = query.shape[-1]
    n_fast = next_fast_len(rows.shape[-1], real=True)
    products = irfft(rfft(rows, n_fast) * np.conj(rfft(query, n_fast)), n_fast)[..., :size]
    limit = np.abs(rows).max(-1, keepdims=True) / _MAX_RANGE
    small = (reach > 0) & (reach < limit)
    if small.any():
        again = small.any((0, 2))
        clipped = np.clip(rows[:, again], -limit[:, again], limit[:, again])
        nearer = _products(clipped, query, reach[:, again])
        products[:, again] = np.where(small[:, again], nearer, products[:, again])
    return np.asarray(products)


def _sliding_mean(rows: Array, size: int) -> Float64:
    """Return the means of all stretches of rows of ``2 * size - 1`` points, summed from the middle outwards."""
    total = rows[..., size - 1 :: -1].cumsum(-1)[..., ::-1]
    total[..., 1:] += rows[..., size:].cumsum(-1)
    return np.asarray(total / size)
