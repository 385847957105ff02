"""Find training series that repeat a held-out one at any scale, sign, offset and length.

Series are compared without resampling. The piecewise linear curve through the points of a series has a cosine
series in closed form (a sum over the points, damped by sinc²), so that the first 32 coefficients of series of
any length are comparable. Scaled to unit norm they are points on a sphere; an affine copy has the same point or
the opposite one, and a k-d tree finds the neighbours. A copy may have been resampled with points as cells (as
:func:`nutime.data.series.resample` does) or from end to end (``np.linspace``); both are tried.

The thresholds were measured on 400,000 training and 188,000 test series of the UCR and UEA archives and of
other sets:

* Equal length: copies are within 3e-5 of each other (rounding) and distinct series no closer than 6e-4, the
  closest being sensors at rest, wafers and food spectra; :data:`_SAME_LENGTH` is in between. A correlation of
  0.9999, a distance of 0.014, would classify all of OliveOil as repeats of its own test split.
* Other lengths: linear interpolation moves smooth series by about 0.005 and rough ones by more. At
  :data:`_OTHER_LENGTH`, a correlation of 0.9998, nine in ten copies stretched by a third or more and half of
  those shrunk to a half are found, and some 50 distinct series in 400,000 are dropped. Not applied where the
  coefficients hold less than a tenth of the variance, as in speech.
* Constants, lines, steps, single boxes and very short series are similar across sources: a series that bends
  at fewer than :data:`_MIN_BENDS` of 64 points, or has fewer than :data:`_MIN_LENGTH` points, is never
  dropped. Without this rule, 500 clocks, counters and appliances would be.

A series of several channels is held out by channel and, for UWaveGestureLibraryAll, with all channels
concatenated. Not found: other parts of a longer series, rotated outlines, and copies with added noise.
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

#: Maximum distances of a repeat: to a series of the same length, and of another length.
_SAME_LENGTH, _OTHER_LENGTH = 5e-4, 2e-2
_MIN_BENDS, _MIN_LENGTH, _MIN_SHARE = 8, 12, 0.1

_COEFFICIENTS = 32
_NEIGHBOURS = 4  # candidates: the nearest may have another length than the series repeated
_BLOCK_VALUES = 1_000_000
_CHUNK_POINTS = 8192  # of which cosines are computed together


class RepeatFinder:
    """Compares training series with held-out series. All values are finite."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._owners: list[Ints] = []
        self._prints: list[_Fingerprints] = []
        self._dropped: Counter[tuple[str, str]] = Counter()
        self._index: _Index | None = None

    def hold_out(self, name: str, series: Iterable[Array]) -> None:
        """Add the series of a test or validation split, ``(channels, length)`` each."""
        for block in _blocks(_each_and_joined(series)):
            prints = _fingerprints(block)
            self._prints.append(prints)
            self._owners.append(np.full(len(prints.rows), len(self._names)))
        self._names.append(name)
        self._index = None

    def drop_repeats(self, name: str, series: Iterable[Array]) -> Iterator[Array]:
        """Yield the series, ``(length,)`` each, that are not repeats, and count the others."""
        for block in _blocks(series):
            for one, repeated in zip(block, self.find(block), strict=True):
                if repeated is None:
                    yield one
                else:
                    self._dropped[name, repeated] += 1

    def find(self, series: Sequence[Array]) -> list[str | None]:
        """Return the name of the split that each series repeats, or None."""
        if self._index is None:
            self._index = _Index(self._prints, self._owners)
        names: list[str | None] = [None] * len(series)
        for row, owner in self._index.search(_fingerprints(series)):
            if _bends(series[row]) >= _MIN_BENDS:
                names[row] = self._names[owner]
        return names

    def report(self) -> dict[str, Any]:
        """Return what was dropped, as JSON values."""
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
    """Fingerprints of the comparable series of a block."""

    rows: Ints  # indices in the block
    lengths: Ints
    share: Floats  # of the variance in the coefficients
    readings: Floats  # (2, n, _COEFFICIENTS): with points as cells, and from end to end


class _Index:
    """All held-out series by their points on the sphere."""

    def __init__(self, prints: list[_Fingerprints], owners: list[Ints]) -> None:
        from scipy.spatial import KDTree

        self._owners = np.concatenate([np.empty(0, np.intp), *owners])
        self._lengths = np.concatenate([*(one.lengths for one in prints), [0]])  # 0 where there is no neighbour
        readings = np.concatenate([np.empty((2, 0, _COEFFICIENTS)), *(one.readings for one in prints)], axis=1)
        self._trees = [KDTree(reading) for reading in readings]

    def search(self, prints: _Fingerprints) -> Iterator[tuple[int, int]]:
        """Yield the row of each series that is near a held-out one, and the owner of that one."""
        nearest = np.full(len(prints.rows), np.inf)
        match = np.full(len(prints.rows), -1)
        any_length = (prints.share > _MIN_SHARE)[:, None]
        for tree, reading in zip(self._trees, prints.readings, strict=True):
            for sign in (1, -1):
                distance, number = tree.query(
                    sign * reading, k=_NEIGHBOURS, distance_upper_bound=_OTHER_LENGTH, workers=-1
                )
                same = self._lengths[number] == prints.lengths[:, None]
                near = (same | any_length) & (distance < np.where(same, _SAME_LENGTH, _OTHER_LENGTH))
                distance[~near] = np.inf
                best = np.arange(len(number)), distance.argmin(axis=1)
                closer = distance[best] < nearest
                nearest[closer], match[closer] = distance[best][closer], number[best][closer]
        found = np.flatnonzero(match >= 0)
        return zip(prints.rows[found].tolist(), self._owners[match[found]].tolist(), strict=True)


def _each_and_joined(series: Iterable[Array]) -> Iterator[Array]:
    """Yield each channel, and all concatenated, as UWaveGestureLibraryAll is of UWaveGestureLibrary."""
    for channels in series:
        yield from channels
        if len(channels) > 1:
            yield _standardise(channels).ravel()


def _blocks(series: Iterable[Array]) -> Iterator[list[Array]]:
    """Collect series into lists of about :data:`_BLOCK_VALUES` values."""
    block: list[Array] = []
    values = 0
    for one in series:
        block.append(one)
        values += one.size
        if values >= _BLOCK_VALUES:
            yield block
            block, values = [], 0
    if block:
        yield block


def _fingerprints(series: Sequence[Array]) -> _Fingerprints:
    lengths = np.array([one.size for one in series], np.intp)
    readings = np.zeros((2, len(series), _COEFFICIENTS))
    for length in np.unique(lengths[lengths >= _MIN_LENGTH]):
        rows = np.flatnonzero(lengths == length)
        stack = _standardise(np.stack([series[row] for row in rows]))
        readings[0, rows] = _cosine_series(stack, end_to_end=False)
        readings[1, rows] = _cosine_series(stack, end_to_end=True)
    norms = np.linalg.norm(readings, axis=2)
    rows = np.flatnonzero((norms > 1e-3).all(axis=0))  # other coefficients are rounding errors
    return _Fingerprints(rows, lengths[rows], 2 * norms[0, rows] ** 2, readings[:, rows] / norms[:, rows, None])


def _standardise(stack: Array) -> Floats:
    """Zero mean and unit variance; a row that is constant up to rounding becomes zero."""
    largest = np.abs(stack).max(axis=1, keepdims=True).astype(np.float64)
    scaled = stack / np.where(largest == 0, 1, largest)  # so that squares are finite
    scaled -= scaled.mean(axis=1, keepdims=True)
    std = scaled.std(axis=1, keepdims=True)
    standardised: Floats = np.where(std > 1e-6, scaled / np.maximum(std, 1e-6), 0)
    return standardised


def _cosine_series(stack: Floats, end_to_end: bool) -> Floats:
    """Return the coefficients, from order 1, of the curves through the points of each row, over [0, 1]."""
    length, orders = stack.shape[1], np.arange(1, _COEFFICIENTS + 1)
    step = 1 / (length - 1 if end_to_end else length)
    total = np.zeros((len(stack), _COEFFICIENTS))
    for start in range(0, length, _CHUNK_POINTS):
        points = np.arange(start, min(start + _CHUNK_POINTS, length))
        position = points * step if end_to_end else (points + 0.5) * step
        total += stack[:, points[0] : points[-1] + 1] @ np.cos(np.pi * position[:, None] * orders)
    if end_to_end:  # the first and the last point cover half a step each
        total -= (stack[:, :1] + stack[:, -1:] * (-1.0) ** orders) / 2
    coefficients: Floats = total * step * np.sinc(orders * step / 2) ** 2
    return coefficients


def _bends(series: Array) -> int:
    """Count the points, of 64, where the slope changes by more than 0.01 standard deviations."""
    curve = resample([_standardise(series[None])], 64)[0, 0]
    return int(np.count_nonzero(np.abs(np.diff(curve, 2)) > 0.01))
