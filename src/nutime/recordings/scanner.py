"""``NuTimeScanner``: which stretches of a recording are unlike the rest of it, or unlike a known good one.

Windows of one, two and four times ``window`` are compared with the nearest windows of the reference in two ways:
point by point at the recording's own scale, and by their embeddings. The first finds what is far off, the second
what has another shape. Squared distances, divided by their mean over the reference, are averaged over both ways,
over the window lengths and over all windows that contain a point, so that a score of 1 is ordinary.

A window never has a neighbour that overlaps it. The threshold is a quantile of the scores of stretches of the
reference that were left out of it in turn, because new recordings are not part of the reference either. A trend of
the reference may continue in new recordings, and raises the threshold. Where a recording is compared with itself,
its clear anomalies are left out of the estimate: they would raise the threshold above their own scores.

A recording is scored as a stream, in chunks: the memory needed does not depend on its length, and scores do not
depend on how it arrives.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from nutime.checks import check_number
from nutime.data.sampling import Step, check_step, step_of
from nutime.data.series import Array, is_frame, is_xarray
from nutime.data.timeline import Times
from nutime.encoder import DEFAULT_WEIGHTS, NuTime
from nutime.estimators.base import load_encoder
from nutime.recordings.windows import (
    Float64,
    Indices,
    add_windows,
    as_matrix,
    choose_window,
    cut_windows,
    embed_windows,
    interval_times,
    long_runs,
    moments,
    open_recording,
    read_recordings,
    runs,
    times_of,
)

_NEIGHBOURS = 5
_MULTIPLES = (1, 2, 4)  # of the window
_OVERLAP = 8  # windows that contain each point
_GOLDEN_RATIO = 0.6180339887498949
_STRETCHES = 10  # parts of the reference, each scored by the others for the threshold
_TAIL_WINDOWS = 10  # beyond a quantile from which rarer scores are extrapolated
_QUARTERS = 4  # parts of the reference that must all drift in one direction to make a trend
_CLEAR = 0.001  # share of anomaly-free recordings with a score as high as that of a clear anomaly
_MIN_WINDOW, _MAX_WINDOW = 32, 256  # of the shortest window, where the period is shorter
_LONGEST = 1024  # points of the shortest window, where the period is longer
_MIN_WINDOWS = 8  # of the reference
_ROUNDING = 1e-5  # of embeddings, relative to the largest value; those of a constant channel vary by no more
_CHUNK_SIZE = 1024  # windows compared with the reference together
_CHUNK_VALUES = 2**22  # of the differences from the nearest windows
#: Points are clipped to this many standard deviations from the mean of the reference: beyond, one extreme value
#: would cost the other scores their precision.
_MAX_DEVIATION = 1e4
_CHUNK_POINTS = 2**16  # of a recording that are scored together


class Interval(NamedTuple):
    """An anomalous stretch.

    Attributes:
        start, end: its points, ``end`` exclusive.
        score: its highest score.
        channel: the channel that contributes most.
        start_time, end_time: the times of its first and last point; None if the recording has no times.
    """

    start: int
    end: int
    score: float
    channel: int
    start_time: Any = None
    end_time: Any = None


@dataclass(frozen=True)
class _Reference:
    """Windows of one length: ``(n, channels, values)`` for each way to compare, and what they are divided by.

    ``complete`` tells which channels, ``(channels, n)``, have no gap.
    """

    size: int
    starts: Indices
    complete: NDArray[np.bool_]
    features: list[NDArray[np.float32]]
    mean: NDArray[np.float32]
    scale: NDArray[np.float32]
    units: list[float]


class NuTimeScanner(BaseEstimator):  # type: ignore[misc]
    """Score every point of a recording by how unlike the rest the stretches around it are.

    ``fit_predict(recording)`` compares a recording with itself; ``fit(known_good).predict(new)`` with another.
    ``update(chunk)`` scores a new recording as it arrives; ``finish()`` returns the scores of its end.

    Missing values are interpolated. Gaps of half a window and more are no data: windows with one are not scored,
    and a point in no other window has the score 0.

    Args:
        window: points of the shortest window; ``auto`` takes the dominant period, but at least 1 % (and from 32 to
            256 points) and at most 2 % of the recording and 1024 points.
        encoder: shipped weights by name, a folder written by :meth:`nutime.NuTime.save`, or an encoder;
            None compares points only, which is many times faster.
        false_alarm_rate: share of the points of new recordings like the reference that may exceed the threshold.
        max_windows: windows of the reference that are kept per length, evenly spaced.
        device: where the encoder computes; ``auto`` takes a GPU if there is one.

    Attributes:
        threshold_: the score above which a point is anomalous: of new recordings after :meth:`fit`, of the
            recording itself after :meth:`fit_predict`.
        delay_: points that must follow a point before :meth:`update` returns its score.
        intervals_: the anomalous intervals of the recording last scored as a whole, see :class:`Interval`.
        times_: the time of each of its points; None if it has no times.
        window_: the shortest window used.
        n_channels_in_: channels of the reference.
    """

    threshold_: float
    delay_: int
    intervals_: list[Interval]
    times_: Times | None
    window_: int
    n_channels_in_: int
    channel_names_in_: list[str] | None
    encoder_: NuTime | None
    mean_: Float64
    scale_: Float64
    _references: list[_Reference]
    _step: Step | None
    _stream: _Stream

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
        held_out = self._fit_reference(X)
        threshold, drift = self._threshold(held_out, self.false_alarm_rate), self._drift(len(held_out))
        if drift > threshold:
            warnings.warn(
                f"the reference has a trend: the threshold is {threshold + drift:.3g} instead of {threshold:.3g}, "
                "so that new recordings may continue it; remove the trend to find smaller anomalies",
                stacklevel=2,
            )
        self.threshold_ = threshold + drift
        return self

    def _fit_reference(self, X: Any) -> Float64:
        """Keep the windows of ``X``; return the score of its points, each stretch compared with the others."""
        check_number("false_alarm_rate", self.false_alarm_rate, "(0, 1)")
        check_number("max_windows", self.max_windows, f"[{_MIN_WINDOWS}, inf)", integer=True)
        given = open_recording(X)
        missing = ~np.isfinite(given.series[0].astype(np.float64))
        given = read_recordings(given)
        recording = given.series[0]
        length = recording.shape[1]
        if length < 4 * _MIN_WINDOW:
            raise ValueError(f"a recording to compare with needs at least {4 * _MIN_WINDOW} points, got {length}")
        self.encoder_ = None if self.encoder is None else load_encoder(self.encoder, self.device)
        self.n_channels_in_, self.channel_names_in_ = len(recording), given.channel_names
        self._step = step_of(times_of(given))
        shortest = int(np.clip(length // 100, _MIN_WINDOW, _MAX_WINDOW))
        self.window_ = choose_window(self.window, recording, shortest, min(length // 50, _LONGEST))
        self.mean_, self.scale_ = moments([recording])
        recording -= self.mean_
        recording /= self.scale_
        sizes = [size for size in (m * self.window_ for m in _MULTIPLES) if size <= length // 4] or [self.window_]
        gaps = long_runs(missing, self.window_ // 2, np.zeros(len(missing), np.intp))
        references = (self._reference(recording, gaps, size) for size in sizes)
        self._references = [reference for reference in references if reference is not None]
        if not self._references:
            raise ValueError(
                f"too few stretches of {sizes[0]} points have no gap of {self.window_ // 2} missing values; "
                "give a shorter window, or fill the gaps"
            )
        self.delay_ = self._references[-1].size
        self._stream = _Stream(self)
        return self._held_out(length)

    def predict(self, X: Any) -> Float64:
        """Return one score per point of a recording that is not the reference."""
        return self._scan(X, itself=False)

    def fit_predict(self, X: Any, y: Any = None) -> Float64:
        """Return one score per point, comparing the recording with itself."""
        held_out = self._fit_reference(X)
        self.threshold_ = self._threshold(self._without_anomalies(held_out), self.false_alarm_rate)
        return self._scan(X, itself=True)

    def find_intervals(self, X: Any) -> list[Interval]:
        """Return the stretches of a new recording whose score exceeds ``threshold_``."""
        self.predict(X)
        return self.intervals_

    def update(self, chunk: ArrayLike) -> Float64:
        """Return the scores that the next points of a recording complete.

        The score of a point is returned once ``delay_`` points follow it. The scores of all calls and of
        :meth:`finish`, one after the other, are those of :meth:`predict`. Missing values are interpolated, which
        delays scores until the next known value.

        Args:
            chunk: an array of ``(n,)`` or ``(channels, n)`` points, as many as there are.
        """
        check_is_fitted(self, "threshold_")
        if is_frame(chunk) or is_xarray(chunk):
            raise ValueError("a chunk must be an array (channels, n), of a frame: frame[names].to_numpy().T")
        return np.asarray(self._stream.update(as_matrix(chunk)).sum(0))

    def finish(self) -> Float64:
        """Return the scores of the last ``delay_`` points; the next :meth:`update` starts another recording."""
        check_is_fitted(self, "threshold_")
        stream, self._stream = self._stream, _Stream(self)
        return np.asarray(stream.finish().sum(0))

    def _reference(self, recording: Array, gaps: NDArray[np.bool_], size: int) -> _Reference | None:
        """Keep windows that have a channel without a gap; None if there are too few."""
        last = recording.shape[1] - size
        starts = np.unique(np.append(_regular_starts(0, last, size), last))
        complete = _complete(gaps, starts, size)
        kept = np.flatnonzero(complete.any(0))
        if len(kept) > self.max_windows:
            kept = kept[np.linspace(0, len(kept) - 1, self.max_windows).astype(np.intp)]
        if len(kept) < _MIN_WINDOWS:
            return None
        starts = starts[kept]
        features = self._features(recording, starts, size)
        mean, scale = features[-1].mean(0), features[-1].std(0)
        scale[scale <= _ROUNDING * np.abs(mean).max()] = 1
        if self.encoder_ is not None:
            features[-1] = (features[-1] - mean) / scale
        overlapping = np.abs(starts[:, None] - starts) < size
        units = [float(_distances(part, part, overlapping).sum(1).mean()) or 1.0 for part in features]
        return _Reference(size, starts, complete[:, kept], features, mean, scale, units)

    def _held_out(self, length: int) -> Float64:
        """Score every stretch of the reference by the others."""
        points = np.zeros(length)
        for reference in self._references:
            stretch = (reference.starts + reference.size // 2) * _STRETCHES // length
            excluded = stretch[:, None] == stretch
            excluded |= np.abs(reference.starts[:, None] - reference.starts) < reference.size
            scores = np.mean(
                [
                    (_distances(part, part, excluded) * reference.complete.T).sum(1) / unit
                    for part, unit in zip(reference.features, reference.units, strict=True)
                ],
                axis=0,
            )
            sums = np.zeros((2, length))
            rows = np.stack([scores, np.ones(len(scores))])
            add_windows(sums, rows, reference.starts, reference.starts + reference.size)
            points += _means(sums)[0]
        return points / len(self._references)

    def _drift(self, length: int) -> float:
        """Return by how much scores rise over a new recording as long as the reference if its trend continues.

        The trend is what the three steps between the mean windows of the quarters have in common: the smallest of
        their inner products, which is about 0 or negative where something changes once, returns or wanders. A new
        recording continues it by four steps, and scores are squared distances.
        """
        total = 0.0
        for reference in self._references:
            quarter = (reference.starts + reference.size // 2) * _QUARTERS // length
            if len(np.unique(quarter)) < _QUARTERS:  # one of them is a gap
                continue
            for part, unit in zip(reference.features, reference.units, strict=True):
                means = [part[quarter == index].mean(0, dtype=np.float64).ravel() for index in range(_QUARTERS)]
                steps = np.diff(means, axis=0)
                shared = (steps @ steps.T)[np.triu_indices(len(steps), 1)].min()
                total += _QUARTERS**2 * max(0.0, shared) / unit / len(reference.features)
        return total / len(self._references)

    def _without_anomalies(self, held_out: Float64) -> Float64:
        """Return the finite scores without the stretch around the highest, as long as that is a clear anomaly."""
        points = np.flatnonzero(np.isfinite(held_out))
        n_points = len(points)
        while True:
            peak = points[held_out[points].argmax()]
            rest = points[np.abs(points - peak) > self.delay_ // 2]
            if 2 * len(rest) < n_points:
                return held_out[points]
            n_windows = len(rest) / self.window_
            if held_out[peak] <= self._threshold(held_out[rest], _CLEAR / n_windows):
                return held_out[points]
            points = rest

    def _threshold(self, held_out: Float64, rate: float) -> float:
        """Return the score that recordings like the reference exceed at a rate.

        It is a quantile of the held-out scores. Where fewer than ten independent windows exceed it, it is not
        known well: the scores beyond a lower quantile are then taken to be distributed exponentially, with a scale
        one standard error above their mean.
        """
        scores = held_out[np.isfinite(held_out)]
        n_windows = len(scores) / self.window_  # side by side, which count as independent
        # The correction of conformal prediction for few samples.
        quantile = np.quantile(scores, min(1.0, (1 - rate) * (1 + 1 / n_windows)), method="higher")
        tail = min(_TAIL_WINDOWS / n_windows, 0.5)
        if rate >= tail:
            return float(quantile)
        level = np.quantile(scores, 1 - tail)
        excess = np.maximum(scores - level, 0).mean() / tail
        scale = excess * (1 + 1 / np.sqrt(tail * n_windows))
        return float(max(quantile, level + scale * np.log(tail / rate)))

    def _scan(self, X: Any, *, itself: bool) -> Float64:
        check_is_fitted(self, "threshold_")
        given = open_recording(X, self.channel_names_in_)
        check_step(step_of(times_of(given)), self._step, "the recording", "the reference has")
        recording, self.times_ = given.series[0], times_of(given)
        channels, length = recording.shape
        stream = _Stream(self, itself=itself)
        points = np.empty((channels, length))
        done = 0
        for first in range(0, length + _CHUNK_POINTS, _CHUNK_POINTS):
            chunk = recording[:, first : first + _CHUNK_POINTS]
            scores = stream.update(chunk) if first < length else stream.finish()
            points[:, done : done + scores.shape[1]] = scores
            done += scores.shape[1]
        total: Float64 = points.sum(0)
        self.intervals_ = [
            Interval(
                start,
                end,
                float(total[start:end].max()),
                int(points[:, start:end].sum(1).argmax()),
                *interval_times(self.times_, start, end),
            )
            for start, end in runs(total > self.threshold_).tolist()
        ]
        return total

    def _compare(
        self, values: Float64, first: int, starts: Indices, reference: _Reference, itself: bool
    ) -> Float64:
        """Return the score of each channel of windows, ``(channels, n)``, where ``values`` begin at ``first``."""
        excluded = np.abs(starts[:, None] - reference.starts) < reference.size if itself else None
        features = self._features(values, starts - first, reference.size)
        if self.encoder_ is not None:
            features[-1] = (features[-1] - reference.mean) / reference.scale
        scores = np.zeros((len(starts), len(values)))
        for part, others, unit in zip(features, reference.features, reference.units, strict=True):
            scores += _distances(part, others, excluded) / unit / len(features)
        return scores.T

    def _features(self, recording: Array, starts: Indices, size: int) -> list[NDArray[np.float32]]:
        windows = cut_windows(recording, starts, size)
        features = [windows.astype(np.float32)]
        if self.encoder_ is not None:
            features.append(embed_windows(self.encoder_, windows))
        return features


class _Stream:
    """Scores of one recording as its points arrive; holds the last points only.

    Attributes:
        received: points that arrived and are filled.
        first: the point with which ``values`` and ``sums`` begin.
        values: standardised points whose scores are incomplete, ``(channels, n)``.
        gaps: which of them are in a gap.
        sums: for each window length, the summed scores of each channel, and of how many windows, per point.
        n_windows: windows of each length already scored.
        pending: points from the start of a gap that has not ended yet.
        last: the last filled point, from which a gap is interpolated.
        n_missing: how many filled points directly before ``pending`` are missing in each channel.
    """

    def __init__(self, scanner: NuTimeScanner, *, itself: bool = False) -> None:
        self.scanner, self.itself = scanner, itself
        self.references = scanner._references
        channels = scanner.n_channels_in_
        self.received = self.first = 0
        self.values = np.empty((channels, 0))
        self.gaps = np.empty((channels, 0), bool)
        self.sums = [np.zeros((2 * channels, 0)) for _ in self.references]
        self.n_windows = [0] * len(self.references)
        self.pending = self.last = np.empty((channels, 0))
        self.n_missing = np.zeros(channels, np.intp)

    def update(self, chunk: NDArray[Any], *, end: bool = False) -> Float64:
        """Return the scores of the points that are complete, ``(channels, n)``: at the end, of all.

        A recording ends with a last window of each length.
        """
        if len(chunk) != len(self.values):
            raise ValueError(f"the recording has {len(chunk)} channel(s), the reference has {len(self.values)}")
        self._append(*self._fill(chunk.astype(np.float64), end))
        window = self.scanner.window_
        if end and 0 < self.received < window:
            raise ValueError(f"the recording has {self.received} points, fewer than one window of {window}")
        for index, reference in enumerate(self.references):
            last = self.received - reference.size
            starts = _regular_starts(self.n_windows[index], last, reference.size)
            if end and last >= 0 and _start(self.n_windows[index] + len(starts) - 1, reference.size) != last:
                starts = np.append(starts, last)
            self._score(index, starts)
        return self._take(self.received if end else self.received - self.scanner.delay_)

    def finish(self) -> Float64:
        """Return the scores of the remaining points."""
        return self.update(self.pending[:, :0], end=True)

    def _fill(self, chunk: Float64, end: bool) -> tuple[Float64, NDArray[np.bool_]]:
        """Return the points up to the last known value, interpolated, and which are in a gap; at the end, all."""
        points: Float64 = np.concatenate([self.pending, chunk], 1)
        if np.isinf(points).any():
            raise ValueError("infinite value; expected finite numbers, NaN where a value is missing")
        known = ~np.isnan(points)
        gaps = long_runs(~known, self.scanner.window_ // 2, self.n_missing)
        if known.all():
            ready = points.shape[1]
        else:
            index, before = np.arange(points.shape[1]), self.last.shape[1]
            ready = len(index) if end else int(np.where(known, index + 1, 0).max(1).min())
            for channel, ok in enumerate(known):
                places = np.concatenate([np.full(before, -1), index[ok]])
                if len(places):
                    anchors = np.concatenate([self.last[channel], points[channel, ok]])
                    points[channel, :ready] = np.interp(index[:ready], places, anchors)
                elif end:
                    raise ValueError(f"channel {channel} has only NaN; expected at least one value")
        self.pending = points[:, ready:]
        if ready:
            self.last = points[:, ready - 1 : ready]
            since = np.where(known[:, :ready], np.arange(1, ready + 1), 0).max(1)
            self.n_missing = ready - since + self.n_missing * (since == 0)
        return points[:, :ready], gaps[:, :ready]

    def _append(self, points: Float64, gaps: NDArray[np.bool_]) -> None:
        points = np.clip((points - self.scanner.mean_) / self.scanner.scale_, -_MAX_DEVIATION, _MAX_DEVIATION)
        self.values = np.concatenate([self.values, points], 1)
        self.gaps = np.concatenate([self.gaps, gaps], 1)
        self.sums = [np.pad(sums, ((0, 0), (0, points.shape[1]))) for sums in self.sums]
        self.received += points.shape[1]

    def _score(self, index: int, starts: Indices) -> None:
        reference = self.references[index]
        self.n_windows[index] += len(starts)
        for begin in range(0, len(starts), _CHUNK_SIZE):
            part = starts[begin : begin + _CHUNK_SIZE]
            scores = self.scanner._compare(self.values, self.first, part, reference, itself=self.itself)
            local = part - self.first
            complete = _complete(self.gaps, local, reference.size)
            rows = np.concatenate([scores * complete, complete])
            add_windows(self.sums[index], rows, local, local + reference.size)

    def _take(self, end: int) -> Float64:
        """Return the scores of points before ``end``, and forget these points."""
        count = max(0, end - self.first)
        used = [sums[:, :count] for sums, n_windows in zip(self.sums, self.n_windows, strict=True) if n_windows]
        means = [_means(sums) for sums in used]
        n_sizes = np.sum(np.isfinite(means), 0)
        scores: Float64 = np.nansum(means, 0) / np.maximum(n_sizes, 1) if count else self.values[:, :0]
        self.first += count
        self.values, self.gaps = self.values[:, count:], self.gaps[:, count:]
        self.sums = [sums[:, count:] for sums in self.sums]
        return scores


def _start(index: int | Indices, size: int) -> Any:
    """Return where window ``index`` begins; a negative index is before all recordings.

    The step varies: an even one may divide the period, and then all windows of the reference would have a few
    phases only, and not those of new recordings.
    """
    step = max(1, size // _OVERLAP)
    return index * step + np.floor(index * _GOLDEN_RATIO % 1 * step).astype(np.intp)


def _regular_starts(first: int, last: int, size: int) -> Indices:
    """Return the beginnings, up to ``last``, of the windows from index ``first`` on."""
    count = max(0, last // max(1, size // _OVERLAP) + 1 - first)
    starts: Indices = _start(np.arange(first, first + count), size)
    return starts[starts <= last]


def _distances(
    queries: NDArray[np.float32], reference: NDArray[np.float32], excluded: NDArray[np.bool_] | None
) -> Float64:
    """Return the mean squared distance to the nearest reference windows, ``(n, channels)``."""
    n_neighbours = min(_NEIGHBOURS, len(reference))
    result = np.empty(queries.shape[:2])
    flat = reference.reshape(len(reference), -1)
    squares = (flat**2).sum(1)
    chunk_size = max(1, min(_CHUNK_SIZE, _CHUNK_VALUES // (n_neighbours * flat.shape[1])))
    for first in range(0, len(queries), chunk_size):
        part = queries[first : first + chunk_size]
        distance = squares - 2 * part.reshape(len(part), -1) @ flat.T  # the query's own square changes no order
        if excluded is not None:
            distance[excluded[first : first + chunk_size]] = np.inf
        nearest = np.argpartition(distance, n_neighbours - 1, axis=1)[:, :n_neighbours]
        allowed = np.isfinite(np.take_along_axis(distance, nearest, 1))
        squared = ((part[:, None] - reference[nearest]) ** 2).sum(-1, dtype=np.float64)
        weight = allowed / np.maximum(allowed.sum(1, keepdims=True), 1)
        result[first : first + chunk_size] = np.einsum("nkc,nk->nc", squared, weight)
    return result


def _means(sums: Float64) -> Float64:
    """Return the mean scores over the windows that contain each point; NaN where none does."""
    scores, counts = np.split(sums, 2)
    counts = np.rint(counts)
    return np.where(counts > 0, scores / np.maximum(counts, 1), np.nan)


def _complete(gaps: NDArray[np.bool_], starts: Indices, size: int) -> NDArray[np.bool_]:
    """Return which channels of each window have no gap, ``(channels, n)``."""
    before = np.pad(gaps.cumsum(1), ((0, 0), (1, 0)))
    return np.asarray(before[:, starts + size] == before[:, starts])
