"""Find training series that repeat a held-out one, whatever their scale, sign, offset and length.

Unusual here: nothing is resampled in order to compare. The curve drawn by straight lines through the points
of a series has a cosine series in closed form (a sum over the points, damped by sinc²), so that the first
32 cosine coefficients of series of any length can be set side by side. Scaled to unit length they are a
point on a sphere, where an affine copy lies on the same place or opposite to it; a k-d tree finds the
neighbours. Points may have been resampled as cells (as images are, and as
:func:`nutime.data.series.resample` does) or from end to end (``np.linspace``); both readings are tried.

How close is a repeat? Measured on 400,000 training and 188,000 test series of the UCR and UEA archives and
of other sets:

* Of equal length, copies lie within 3e-5 of each other (rounding) and distinct series no closer than 6e-4,
  the closest being sensors at rest, wafers and food spectra: :data:`SAME_LENGTH` is in between. A
  correlation above 0.9999, a distance of 0.014, would take all of OliveOil for repeats of its own test
  split.
* Of another length, linear interpolation moves smooth series by about 0.005 and rough ones by more. At
  :data:`OTHER_LENGTH`, a correlation of 0.9998, nine in ten copies are found that were stretched by a third
  or more, half of those shrunk to a half, and some 50 distinct series in 400,000 are dropped. Not tried
  where the coefficients hold less than a tenth of the variance, as in speech: what they leave out would
  decide.
* Constants, lines, steps and single boxes are alike wherever they come from, and so are the shortest
  series: what bends at fewer than :data:`FEWEST_BENDS` of 64 places, or has fewer than :data:`SHORTEST`
  points, is never dropped. Without this rule, 500 clocks, counters and appliances would be.

A series of several channels is held out by channel and, for UWaveGestureLibraryAll, with all of them laid
end to end. Not found: any other part of a longer series, rotated outlines, and copies with noise added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nutime.data.series import Array, resample

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.intp]

#: Greatest distances at which a series is taken for a repeat: of a series of its own length, and of another.
SAME_LENGTH, OTHER_LENGTH = 5e-4, 2e-2
FEWEST_BENDS, SHORTEST, SMALLEST_SHARE = 8, 12, 0.1

COEFFICIENTS = 32
NEIGHBOURS = 4  # candidates: the nearest may have another length than the one repeated
BLOCK_VALUES = 1_000_000  # taken at a time
CHUNK = 8192  # points for which cosines are computed at a time


class RepeatFinder:
    """Holds what no training series may repeat, and sifts training series. All values are finite."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._owners: list[Ints] = []
        self._prints: list[_Fingerprints] = []
        self._dropped: Counter[tuple[str, str]] = Counter()
        self._index: _Index | None = None

    def hold_out(self, name: str, series: Iterable[Array]) -> None:
        """Remember the series of a test or validation split, ``(channels, length)`` each."""
        for block in _blocks(_each_and_joined(series)):
            prints = _fingerprints(block)
            self._prints.append(prints)
            self._owners.append(np.full(len(prints.rows), len(self._names)))
        self._names.append(name)
        self._index = None

    def drop_repeats(self, name: str, series: Iterable[Array]) -> Iterator[Array]:
        """Yield the series, ``(length,)`` each, that repeat nothing, and count the others."""
        for block in _blocks(series):
            for one, repeated in zip(block, self.find(block), strict=True):
                if repeated is None:
                    yield one
                else:
                    self._dropped[name, repeated] += 1

    def find(self, series: Sequence[Array]) -> list[str | None]:
        """Return the name of the split that each series repeats, None if there is none."""
        if self._index is None:
            self._index = _Index(self._prints, self._owners)
        names: list[str | None] = [None] * len(series)
        for row, owner in self._index.search(_fingerprints(series)):
            if _bends(series[row]) >= FEWEST_BENDS:
                names[row] = self._names[owner]
        return names

    def report(self) -> dict[str, Any]:
        """Return what was dropped, in terms of JSON."""
        return {
            "splits_compared": len(self._names),
            "series_compared": sum(map(len, self._owners)),
            "dropped": self._dropped.total(),
            "details": [
                {"source": source, "repeats": held_out, "series": count}
                for (source, held_out), count in sorted(self._dropped.items())
            ],
        }


class _Fingerprints(NamedTuple):
    """Of the series of a block that can be compared at all."""

    rows: Ints  # their places in the block
    lengths: Ints
    share: Floats  # of the variance in the coefficients
    readings: Floats  # (2, n, COEFFICIENTS): with points as cells, and from end to end


class _Index:
    """Everything held out, by place on the sphere."""

    def __init__(self, prints: list[_Fingerprints], owners: list[Ints]) -> None:
        from scipy.spatial import KDTree

        self._owners = np.concatenate([np.empty(0, np.intp), *owners])
        self._lengths = np.concatenate([*(one.lengths for one in prints), [0]])  # 0 where there is no neighbour
        readings = np.concatenate([np.empty((2, 0, COEFFICIENTS)), *(one.readings for one in prints)], axis=1)
        self._trees = [KDTree(reading) for reading in readings]

    def search(self, prints: _Fingerprints) -> Iterator[tuple[int, int]]:
        """Yield the place of each series that is near to something held out, and the owner of that."""
        nearest = np.full(len(prints.rows), np.inf)
        match = np.full(len(prints.rows), -1)
        any_length = (prints.share > SMALLEST_SHARE)[:, None]
        for tree, reading in zip(self._trees, prints.readings, strict=True):
            for sign in (1, -1):
                distance, number = tree.query(
                    sign * reading, k=NEIGHBOURS, distance_upper_bound=OTHER_LENGTH, workers=-1
                )
                same = self._lengths[number] == prints.lengths[:, None]
                near = (same | any_length) & (distance < np.where(same, SAME_LENGTH, OTHER_LENGTH))
                distance[~near] = np.inf
                best = np.arange(len(number)), distance.argmin(axis=1)
                closer = distance[best] < nearest
                nearest[closer], match[closer] = distance[best][closer], number[best][closer]
        found = np.flatnonzero(match >= 0)
        return zip(prints.rows[found].tolist(), self._owners[match[found]].tolist(), strict=True)


def _each_and_joined(series: Iterable[Array]) -> Iterator[Array]:
    """Yield each channel, and all end to end: what UWaveGestureLibraryAll is to UWaveGestureLibrary."""
    for channels in series:
        yield from channels
        if len(channels) > 1:
            yield _standardise(channels).ravel()


def _blocks(series: Iterable[Array]) -> Iterator[list[Array]]:
    """Collect series into lists of about :data:`BLOCK_VALUES` values."""
    block: list[Array] = []
    values = 0
    for one in series:
        block.append(one)
        values += one.size
        if values >= BLOCK_VALUES:
            yield block
            block, values = [], 0
    if block:
        yield block


def _fingerprints(series: Sequence[Array]) -> _Fingerprints:
    lengths = np.array([one.size for one in series], np.intp)
    readings = np.zeros((2, len(series), COEFFICIENTS))
    for length in np.unique(lengths[lengths >= SHORTEST]):
        rows = np.flatnonzero(lengths == length)
        stack = _standardise(np.stack([series[row] for row in rows]))
        readings[0, rows] = _cosine_series(stack, end_to_end=False)
        readings[1, rows] = _cosine_series(stack, end_to_end=True)
    norms = np.linalg.norm(readings, axis=2)
    rows = np.flatnonzero((norms > 1e-3).all(axis=0))  # the coefficients of the others are rounding
    return _Fingerprints(rows, lengths[rows], 2 * norms[0, rows] ** 2, readings[:, rows] / norms[:, rows, None])


def _standardise(stack: Array) -> Floats:
    """Zero mean and unit variance; a row with nothing but rounding in it becomes zero."""
    largest = np.abs(stack).max(axis=1, keepdims=True).astype(np.float64)
    scaled = stack / np.where(largest == 0, 1, largest)  # the square of a huge value would not be finite
    scaled -= scaled.mean(axis=1, keepdims=True)
    std = scaled.std(axis=1, keepdims=True)
    standardised: Floats = np.where(std > 1e-6, scaled / np.maximum(std, 1e-6), 0)
    return standardised


def _cosine_series(stack: Floats, end_to_end: bool) -> Floats:
    """Return the coefficients, from order 1, of the curves through the points of each row, over [0, 1]."""
    length, orders = stack.shape[1], np.arange(1, COEFFICIENTS + 1)
    step = 1 / (length - 1 if end_to_end else length)
    total = np.zeros((len(stack), COEFFICIENTS))
    for start in range(0, length, CHUNK):
        points = np.arange(start, min(start + CHUNK, length))
        position = points * step if end_to_end else (points + 0.5) * step
        total += stack[:, points[0] : points[-1] + 1] @ np.cos(np.pi * position[:, None] * orders)
    if end_to_end:  # the first and the last point stand for half a step each
        total -= (stack[:, :1] + stack[:, -1:] * (-1.0) ** orders) / 2
    coefficients: Floats = total * step * np.sinc(orders * step / 2) ** 2
    return coefficients


def _bends(series: Array) -> int:
    """Count the places, of 64, where the slope changes by more than a hundredth of the deviation."""
    curve = resample([_standardise(series[None])], 64)[0, 0]
    return int(np.count_nonzero(np.abs(np.diff(curve, 2)) > 0.01))
