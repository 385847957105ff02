"""``find``: the stretches of recordings that are most like a given one.

Distances are root mean squared differences over points and channels. With ``scale="keep"`` they are in standard
deviations of the recordings: level and amplitude count as much as the shape. With ``scale="ignore"`` every stretch
is first brought to mean 0 and standard deviation 1: only the shape counts, and the distance is ``sqrt(2 - 2 r)``
for stretches of correlation ``r``.

Recordings are searched completely, at every point, by the fast Fourier transform. Of every block of as many points
as the query has, only the best match is kept; the blocks around a match are searched again for others that do not
overlap it. :class:`~nutime.recordings.index.RecordingIndex` is faster where many queries are made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from nutime.checks import check_number
from nutime.data.series import Array, SeriesSet
from nutime.recordings.windows import (
    Float64,
    Indices,
    interval_times,
    moments,
    read_recording,
    read_recordings,
    times_of,
)

SCALES = ("keep", "ignore")
_MIN_QUERY = 4  # points: shorter stretches have no shape
_CHUNK_POINTS = 2**17  # transformed together
_CONSTANT = 1e-5  # standard deviation of a stretch, relative to the recordings', below which it has no shape


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
    given = read_recordings(recordings)
    stretch = Stretch.of(read_recording(query, given.channel_names).series[0], *moments(given.series), scale)
    starts = [np.arange(0, recording.shape[1] - stretch.size + 1, stretch.size) for recording in given.series]
    return best_matches(given, stretch, starts, k)


def check_scale(scale: Any) -> None:
    """Raise ValueError unless ``scale`` is one of :data:`SCALES`."""
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")


@dataclass(frozen=True)
class Stretch:
    """A query, ready to be compared.

    Attributes:
        values: ``(channels, size)``, standardised as the recordings; with scale ``ignore`` on its own.
        mean, scale: of the recordings.
        shape_only: whether the scale is ignored.
    """

    values: Float64
    mean: Float64
    scale: Float64
    shape_only: bool

    @classmethod
    def of(cls, values: Array, mean: Float64, scale: Float64, mode: str) -> Self:
        """Prepare a query of the values given, for recordings of a mean and a scale."""
        if len(values) != len(scale):
            raise ValueError(f"the query has {len(values)} channel(s), the recordings have {len(scale)}")
        if values.shape[1] < _MIN_QUERY:
            raise ValueError(f"a query needs at least {_MIN_QUERY} points, got {values.shape[1]}")
        values = (values - mean) / scale
        shape_only = mode == "ignore"
        return cls(_normalise(values) if shape_only else values, mean, scale, shape_only)

    @property
    def size(self) -> int:
        """Points of the query."""
        return len(self.values[0])

    def squared_distances(self, recording: Array, start: int, end: int) -> Float64:
        """Return the squared distances of the stretches that begin from ``start`` to ``end`` (exclusive)."""
        size = self.size
        part = (recording[:, start : end + size - 1] - self.mean) / self.scale
        if self.shape_only:
            part -= part.mean(1, keepdims=True)
        n_points = part.shape[1]
        n_fast = next_fast_len(n_points, real=True)
        products = irfft(rfft(part, n_fast) * np.conj(rfft(self.values, n_fast)), n_fast)[:, : n_points - size + 1]
        squares = _sliding_mean(part**2, size)
        if not self.shape_only:
            distances = squares - 2 / size * products + (self.values**2).mean(1, keepdims=True)
            return np.asarray(np.maximum(distances.mean(0), 0))
        deviation = np.sqrt(np.maximum(squares - _sliding_mean(part, size) ** 2, 0))
        constant = deviation < _CONSTANT
        # A stretch without shape is 0 everywhere: at distance 1 from any shape, and at 0 from the like.
        flat = (self.values**2).mean(1, keepdims=True)
        correlation = products / size / np.where(constant, 1, deviation)
        return np.asarray(np.maximum(np.where(constant, flat, 1 + flat - 2 * correlation).mean(0), 0))

    def distance(self, stretch: Array) -> float:
        """Return the distance of one stretch of the size of the query, without the rounding of a transform."""
        values = (stretch - self.mean) / self.scale
        values = _normalise(values) if self.shape_only else values
        return float(np.sqrt(((values - self.values) ** 2).mean()))


def best_matches(given: SeriesSet, stretch: Stretch, blocks: list[Indices], k: int) -> list[Match]:
    """Return the best matches that begin in one of the ``blocks``: where each begins, sorted, per recording."""
    size = stretch.size
    recording_of = np.repeat(np.arange(len(blocks)), [len(starts) for starts in blocks])
    block_start = np.concatenate(blocks)
    found = [_block_minima(stretch, values, starts) for values, starts in zip(given.series, blocks, strict=True)]
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


def _block_minima(stretch: Stretch, values: Array, starts: Indices) -> tuple[Float64, Indices]:
    """Return the smallest squared distance in each block, and where it is."""
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
            table = distances.reshape(len(part), size)
            best[part], place[part] = table.min(1), starts[part] + table.argmin(1)
    return best, place


def _normalise(values: Array) -> Float64:
    centred = values - values.mean(1, keepdims=True)
    deviation = centred.std(1, keepdims=True)
    return np.asarray(np.where(deviation < _CONSTANT, 0, centred / np.where(deviation < _CONSTANT, 1, deviation)))


def _sliding_mean(values: Float64, size: int) -> Float64:
    total = np.pad(values.cumsum(1), ((0, 0), (1, 0)))
    return np.asarray((total[:, size:] - total[:, :-size]) / size)
