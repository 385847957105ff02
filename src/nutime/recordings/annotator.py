"""``NuTimeAnnotator``: what happens where in a recording, learned from labelled intervals.

Windows of the training recordings are embedded, and a ridge classifier on their embeddings and the logarithm of
their spectra learns the label of most of their points.
The probabilities of the windows that contain a point are averaged; a hidden Markov model that may change its label
after every ``stride`` points turns them into posterior probabilities. How rarely it changes is chosen by
cross-validation over the training recordings.

"None of these" is a class like the others if parts of the training recordings have no label. If all have one,
it is where most windows are farther from the training windows than 99 % of those of recordings left out in turn.

A fitted annotator is saved as a folder::

    annotator.json          format, parameters, labels, what was chosen, checksums of the other files
    annotator.safetensors   the fitted state, as arrays
    encoder/                the encoder, as written by NuTime.save
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import timedelta
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.base import BaseEstimator
from sklearn.metrics import f1_score
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.extmath import softmax
from sklearn.utils.validation import check_is_fitted

from nutime.checks import check_arrays, check_number
from nutime.data.sampling import Step, check_step, step_of
from nutime.data.series import Array, SeriesSet, is_frame, is_labelled
from nutime.data.timeline import TimeReport, Times, as_dates, parse_times
from nutime.documents import one_line
from nutime.encoder import DEFAULT_WEIGHTS, NuTime
from nutime.estimators.base import load_encoder
from nutime.estimators.classifier import refuse_mixed
from nutime.estimators.storage import DAMAGE, check_names, decode_labels, encode_labels
from nutime.finetune.linear import LinearProbe
from nutime.recordings.folders import read_folder, write_folder
from nutime.recordings.windows import (
    MIN_WINDOW,
    Float64,
    Indices,
    add_windows,
    cut_windows,
    embed_windows,
    embedded_size,
    interval_times,
    moments,
    read_recording,
    read_recordings,
    times_of,
    warn_of_points,
)

_LONGEST = 1024  # points of a window chosen automatically
_OVERLAP = 4  # windows that contain each point
_PURE = 0.75  # share of the points of a training window that must have its label
_BANDS = 16  # of the spectrum of a channel
_MIN_POWER = 1e-6  # of a band, relative to the variance of the recordings
_RIDGE_PENALTIES = np.logspace(-3, 2, 11)  # relative to the mean square of a sample
_SHARPNESS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)  # by which decisions become logits
_NOVELTY_COMPONENTS, _NEIGHBOURS = 32, 5
_MIN_EIGENVALUE = 1e-3  # of a component; the mean square of a sample is 1
_NOVEL = 0.01  # share of the windows of new recordings that are taken for none of the labels
_NOVEL_SHARE = 0.7  # of the windows that contain a point which none of the labels fits
_FOLDS = 3
_BLOCKS = 5  # groups per recording for cross-validation, where there are few recordings
_PENALTIES = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0)  # of a change, as the logarithm of its odds
_WRONG = 1e-3  # probability that a window is wrong about everything
_CHUNK_SIZE = 1024  # windows embedded together
_PARAMS = ("window", "stride", "max_windows")
_FITTED = ("has_background_", "window_", "stride_", "penalty_", "n_channels_in_", "channel_names_in_")


class Annotation(NamedTuple):
    """A stretch of one label.

    Attributes:
        start, end: its points, ``end`` exclusive.
        label: what happens there; None for none of the labels.
        confidence: the mean probability of the label.
        start_time, end_time: the times of its first and last point; None if the recording has no times.
    """

    start: int
    end: int
    label: Any
    confidence: float
    start_time: Any = None
    end_time: Any = None


class NuTimeAnnotator(BaseEstimator):  # type: ignore[misc]
    """Learn from labelled intervals of recordings, and find what happens where in others.

    Args:
        window: points of a window; ``auto`` takes a quarter of the usual duration of the label with the shortest
            intervals, from 16 to 1024 points.
        stride: points between windows, and the precision of the intervals; ``auto`` takes a quarter of the window.
        encoder: shipped weights by name, a folder written by :meth:`nutime.NuTime.save`, or an encoder.
        max_windows: windows of the training recordings that are learned from, evenly spaced for each label.
        device: where the encoder computes; ``auto`` takes a GPU if there is one.

    Attributes:
        classes_: the labels; the last column of :meth:`predict_proba` is none of them.
        has_background_: whether parts of the training recordings have no label.
        window_, stride_: those used.
        penalty_: the chosen logarithm of the odds against a change of label.
        n_channels_in_: channels of the training recordings.
    """

    classes_: NDArray[Any]
    has_background_: bool
    window_: int
    stride_: int
    penalty_: float
    n_channels_in_: int
    channel_names_in_: list[str] | None
    encoder_: NuTime
    mean_: Float64
    scale_: Float64
    probe_: LinearProbe
    _step: Step | None
    _novelty: _Novelty | None

    def __init__(
        self,
        window: int | str = "auto",
        stride: int | str = "auto",
        encoder: str | Path | NuTime = DEFAULT_WEIGHTS,
        *,
        max_windows: int = 4000,
        device: str = "auto",
    ) -> None:
        self.window = window
        self.stride = stride
        self.encoder = encoder
        self.max_windows = max_windows
        self.device = device

    def fit(self, X: Any, intervals: Any) -> Self:
        """Learn the labels of intervals.

        Args:
            X: one recording, or a list or dict of several: arrays ``(length,)`` or ``(channels, length)``, or
                frames.
            intervals: ``(recording, start, end, label)`` each, as tuples or as a DataFrame with these columns. The
                recording is a name or an index, and may be left out if there is only one. ``start`` and ``end``
                (exclusive) are points; dates, and the columns ``start_time`` and ``end_time`` of a DataFrame, are
                the times of the first and the last point. What no interval contains, or an interval with a missing
                label, is none of the labels.
        """
        check_number("max_windows", self.max_windows, "[1, inf)", integer=True)
        given = read_recordings(X)
        self.n_channels_in_, self.channel_names_in_ = len(given.series[0]), given.channel_names
        self._step = step_of(times_of(given))
        rows = list(_read_intervals(intervals, given))
        refuse_mixed("the label of intervals", np.fromiter((row.label for row in rows), object))
        labelled = [row for row in rows if is_labelled([row.label])[0]]
        if not labelled:
            raise ValueError("no interval has a label")
        self.classes_ = np.unique(np.array([row.label for row in labelled]))
        targets = [np.full(values.shape[1], len(self.classes_)) for values in given.series]
        for row in labelled:
            part = targets[row.recording][row.start : row.end]
            code = int(np.searchsorted(self.classes_, row.label))
            if ((part != len(self.classes_)) & (part != code)).any():
                raise ValueError(
                    f"interval {row.start} to {row.end} of {row.label!r} overlaps one of another label"
                )
            part[:] = code
        self._choose_window(labelled, min(values.shape[1] for values in given.series))
        self.encoder_ = load_encoder(self.encoder, self.device)
        self.mean_, self.scale_ = moments(given.series)
        windows = self._training_windows(targets)
        self.has_background_ = bool((windows.target == len(self.classes_)).any())
        features = np.concatenate(
            [
                part
                for index, values in enumerate(given.series)
                for part in self._embedded(values, windows.start[windows.recording == index])
            ]
        )
        self._learn(features, windows, targets)
        return self

    def predict(self, X: Any) -> list[Annotation]:
        """Return the intervals of a recording, side by side from its first point to its last."""
        given = self._read(X)
        length, times = given.series[0].shape[1], times_of(given)
        posterior = self._posterior(given.series[0])
        labels, names = posterior.argmax(1), [*self.classes_.tolist(), None]
        borders = np.flatnonzero(np.diff(labels, prepend=-1, append=-1))
        annotations = []
        for first, last in pairwise(borders):
            code, confidence = labels[first], float(posterior[first:last, labels[first]].mean())
            start, end = int(first * self.stride_), int(min(last * self.stride_, length))
            annotations.append(Annotation(start, end, names[code], confidence, *interval_times(times, start, end)))
        return annotations

    def predict_proba(self, X: Any) -> Float64:
        """Return the probability of each label at each point, ``(length, labels + 1)``; the last is for none."""
        recording = self._read(X).series[0]
        return np.repeat(self._posterior(recording), self.stride_, axis=0)[: recording.shape[1]]

    def save(self, folder: str | Path) -> Path:
        """Write the fitted annotator and its encoder as ``folder``; an error leaves the folder as it was."""
        check_is_fitted(self, "probe_")
        arrays = {"mean": self.mean_, "scale": self.scale_}
        arrays |= {f"probe.{name}": array for name, array in asdict(self.probe_).items()}
        if self._novelty is not None:
            arrays |= {"novelty.rows": self._novelty.rows, "novelty.basis": self._novelty.basis}
        document = {
            "params": {name: getattr(self, name) for name in _PARAMS},
            "classes": encode_labels(self.classes_),
            "fitted": {name: getattr(self, name) for name in _FITTED},
            "threshold": None if self._novelty is None else self._novelty.threshold,
            "step": self._step,
        }
        return write_folder(folder, "annotator", document, arrays, self.encoder_)

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> Self:
        """Read an annotator written by :meth:`save`; its annotations are those before saving."""
        folder = Path(folder)
        document, arrays, encoder = read_folder(folder, "annotator", device)
        try:
            annotator = cls(encoder=encoder, device=device, **document["params"])
            annotator.encoder_ = encoder
            annotator._restore(document, arrays)
        except DAMAGE as error:
            raise ValueError(f"{folder}: not written by nutime, or damaged ({one_line(error)})") from None
        return annotator

    def _restore(self, document: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.classes_ = decode_labels(document["classes"])
        for name in _FITTED:
            setattr(self, name, document["fitted"][name])
        self.has_background_ = bool(self.has_background_)
        channels = self.n_channels_in_
        check_number("window_", self.window_, f"[{MIN_WINDOW}, inf)", integer=True)
        check_number("stride_", self.stride_, f"[1, {self.window_}]", integer=True)
        check_number("penalty_", self.penalty_, "[0, inf)")
        check_number("n_channels_in_", channels, "[1, inf)", integer=True)
        check_names(self.channel_names_in_, channels)
        step = document.get("step")  # absent in annotators of older versions
        self._step = None if step is None else Step(*step)
        if self._step is not None:
            check_number("step", self._step.size, "(0, inf)")
        probe = {"probe.mean": "d", "probe.scale": "d", "probe.coef": "cd", "probe.intercept": "c"}
        shapes = {"mean": "ho", "scale": "ho", **probe}
        threshold = document["threshold"]
        if threshold is not None:
            check_number("threshold", threshold, "[0, inf)")
            shapes |= {"novelty.rows": "nr", "novelty.basis": "rd"}
        features = channels * (embedded_size(self.encoder_) + _BANDS)
        n_classes = len(self.classes_) + self.has_background_
        check_arrays(arrays, shapes, h=channels, o=1, d=features, c=n_classes)
        self.mean_, self.scale_ = arrays["mean"], arrays["scale"]
        self.probe_ = LinearProbe(*(arrays[name] for name in probe))
        self._novelty = None
        if threshold is not None:
            self._novelty = _Novelty(arrays["novelty.rows"], arrays["novelty.basis"], threshold)

    def _read(self, X: Any) -> SeriesSet:
        check_is_fitted(self, "probe_")
        given = read_recording(X, self.channel_names_in_)
        check_step(step_of(times_of(given)), self._step, "the recording", "the training had")
        channels, length = given.series[0].shape
        if channels != self.n_channels_in_:
            raise ValueError(
                f"the recording has {channels} channel(s), those of the training had {self.n_channels_in_}"
            )
        if length < self.window_:
            raise ValueError(f"the recording has {length} points, fewer than one window of {self.window_}")
        return given

    def _choose_window(self, rows: list[_Row], shortest: int) -> None:
        self.window_, self.stride_ = self.window, self.stride  # type: ignore[assignment]
        if self.window == "auto":
            labels = {row.label for row in rows}
            usual = min(np.median([row.end - row.start for row in rows if row.label == label]) for label in labels)
            self.window_ = int(np.clip(usual / 4, MIN_WINDOW, min(_LONGEST, shortest))) // _OVERLAP * _OVERLAP
        check_number("window", self.window_, f"[{MIN_WINDOW}, {shortest}]", integer=True)
        if self.stride == "auto":
            self.stride_ = max(1, self.window_ // _OVERLAP)
        check_number("stride", self.stride_, f"[1, {self.window_}]", integer=True)

    def _training_windows(self, targets: list[Indices]) -> _Windows:
        """Return windows most points of which have one label, not too many of any label."""
        parts = []
        for index, codes in enumerate(targets):
            starts = self._starts(len(codes))
            counts = np.stack([_counts(codes == code, starts, self.window_) for code in self._codes], 1)
            kept = counts.max(1) >= _PURE * self.window_
            parts.append(_Windows(np.full(kept.sum(), index), starts[kept], counts.argmax(1)[kept]))
        windows = _Windows(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        members = [np.flatnonzero(windows.target == code) for code in self._codes]
        for label, rows in zip(self.classes_.tolist(), members, strict=False):
            if not len(rows):
                raise ValueError(f"no window of {self.window_} points is within {label!r}; give a shorter window")
        most = max(1, self.max_windows // sum(len(rows) > 0 for rows in members))
        chosen = [rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(np.intp)] for rows in members]
        order = np.sort(np.concatenate(chosen))
        weight = np.array([len(rows) / max(len(some), 1) for rows, some in zip(members, chosen, strict=True)])
        weight /= weight[windows.target[order]].mean()
        recording, start, target = (part[order] for part in windows[:3])
        return _Windows(recording, start, target, weight[target])

    @property
    def _length(self) -> int:
        """Points at which windows are embedded: their own, rounded to tokens, up to the encoder's length."""
        token = self.encoder_.config.window
        return int(np.clip(round(self.window_ / token), 8, self.encoder_.config.length // token)) * token

    @property
    def _codes(self) -> range:
        return range(len(self.classes_) + 1)

    def _starts(self, length: int) -> Indices:
        return np.unique(np.append(np.arange(0, length - self.window_, self.stride_), length - self.window_))

    def _embedded(self, recording: Array, starts: Indices) -> Iterator[NDArray[np.float32]]:
        """Yield the embeddings of windows and their spectra, ``(n, channels * (d + bands))``."""
        for first in range(0, len(starts), _CHUNK_SIZE):
            part = starts[first : first + _CHUNK_SIZE]
            stretch = recording[:, part[0] : part[-1] + self.window_]
            stretch = (stretch - self.mean_) / self.scale_
            windows = cut_windows(stretch, part - part[0], self.window_)
            embedding = embed_windows(self.encoder_, windows, self._length).reshape(len(part), -1)
            yield np.concatenate([embedding, _log_spectra(windows)], axis=1)

    def _learn(self, features: NDArray[np.float32], windows: _Windows, targets: list[Indices]) -> None:
        mean, scale = features.mean(0, dtype=np.float64), features.std(0, dtype=np.float64)
        scale = np.where(scale > 0, scale, 1)
        n_spectral = _BANDS * self.n_channels_in_
        scale[-n_spectral:] *= np.sqrt(n_spectral / (len(scale) - n_spectral))  # as much variance as the embedding
        features -= mean.astype(np.float32)
        features /= scale.astype(np.float32)
        unit = float(np.square(features).sum(1, dtype=np.float64).mean()) or 1.0
        gram = (features @ features.T).astype(np.float64) / unit
        values, vectors = eigh(gram, subset_by_index=[max(0, len(gram) - _NOVELTY_COMPONENTS), len(gram) - 1])
        rows = vectors * np.sqrt(np.maximum(values, 0))
        n_classes = len(self.classes_) + self.has_background_
        signs = np.where(windows.target[:, None] == np.arange(n_classes), 1.0, -1.0)
        decisions, distance = np.zeros((len(rows), n_classes)), np.zeros(len(rows))
        for others, held_out in _folds(windows):
            dual, intercept = _fit_ridge(gram[np.ix_(others, others)], signs[others], windows.weight[others])
            decisions[held_out] = gram[np.ix_(held_out, others)] @ dual + intercept
            if not self.has_background_:
                distance[held_out] = _Novelty(rows[others]).distances(rows[held_out])
        likelihoods = [softmax(s * decisions)[signs > 0] for s in _SHARPNESS]
        sharpness = _SHARPNESS[int(np.argmax([np.log(part).mean() for part in likelihoods]))]
        dual, intercept = _fit_ridge(gram, signs, windows.weight)
        coef = (features.T @ dual.astype(np.float32)).T.astype(np.float64) / unit
        self.probe_ = LinearProbe(mean, scale, sharpness * coef, sharpness * intercept)
        self._novelty = None
        if not self.has_background_:
            scaled = vectors / np.sqrt(np.maximum(values, _MIN_EIGENVALUE)) / unit
            basis = (features.T @ scaled.astype(np.float32)).T.astype(np.float64)
            threshold = float(np.quantile(distance, 1 - _NOVEL, method="higher"))
            self._novelty = _Novelty(rows, basis, threshold)
        self._choose_penalty(self._probabilities(sharpness * decisions, distance), windows, targets)

    def _probabilities(self, logits: Float64, distance: Float64) -> Float64:
        """Return the probability of each label and of none of them, for each window."""
        known = softmax(logits)
        if self._novelty is None:
            return np.asarray(known)
        novel = (distance > self._novelty.threshold)[:, None]
        return np.concatenate([known * ~novel, novel], axis=1)

    def _choose_penalty(self, probabilities: Float64, windows: _Windows, targets: list[Indices]) -> None:
        """Choose the penalty with the best sum of accuracy and macro-F1 over recordings left out in turn."""
        cells, truth = [], []
        for index, codes in enumerate(targets):
            own = windows.recording == index
            cells.append(self._cells(probabilities[own], windows.start[own], len(codes)))
            centres = np.minimum(np.arange(len(cells[-1])) * self.stride_ + self.stride_ // 2, len(codes) - 1)
            truth.append(codes[centres])
        expected = np.concatenate(truth)
        counted = expected < len(self.classes_) + self.has_background_
        scores = []
        for penalty in _PENALTIES:
            found = np.concatenate([_smooth(part, penalty).argmax(1) for part in cells])
            accuracy = (found == expected)[counted].mean()
            scores.append(accuracy + f1_score(expected[counted], found[counted], average="macro", zero_division=0))
        self.penalty_ = _PENALTIES[int(np.argmax(scores))]

    def _posterior(self, recording: Array) -> Float64:
        """Return the probabilities of each cell of ``stride_`` points, ``(cells, labels + 1)``."""
        length = recording.shape[1]
        starts = self._starts(length)
        parts = []
        for features in self._embedded(recording, starts):
            distance = np.zeros(len(features))
            if self._novelty is not None:
                rows = (features - self.probe_.mean) / self.probe_.scale @ self._novelty.basis.T
                distance = self._novelty.distances(rows)
            parts.append(self._probabilities(self.probe_.logits(features), distance))
        return _smooth(self._cells(np.concatenate(parts), starts, length), self.penalty_)

    def _cells(self, probabilities: Float64, starts: Indices, length: int) -> Float64:
        """Return the likelihood of each label in each cell, averaged over the windows that contain its centre."""
        first, last = (
            -(-(2 * edge - self.stride_) // (2 * self.stride_)) for edge in (starts, starts + self.window_)
        )
        n_cells = -(-length // self.stride_)
        sums = np.zeros((len(self._codes) + 1, n_cells))
        rows = np.vstack([probabilities.T, np.ones(len(first))])
        add_windows(sums, rows, first, np.minimum(last, n_cells))
        if n_cells > 1 and np.rint(sums[-1, -1]) == 0:  # its centre is beyond the end
            sums[:, -1] = sums[:, -2]
        total = np.maximum(sums[:-1], 0)
        if not self.has_background_:
            # Windows over a change of label are novel too, but not all of those that contain a point near it.
            novel = total[-1] > _NOVEL_SHARE * sums[-1]
            total[-1, ~novel] = 0
            total[:-1, novel] = 0
        total[:, np.rint(sums[-1]) == 0] = 1  # no training window contains the centre
        mean = total / total.sum(0) * (1 - _WRONG) + _WRONG / len(self._codes)
        # Windows overlap: without the exponent, each would count once for every cell it contains.
        return np.asarray(mean.T ** (self.stride_ / self.window_))


class _Row(NamedTuple):
    recording: int
    start: int
    end: int
    label: Any


class _Windows(NamedTuple):
    """Training windows: where they are, their classes and weights."""

    recording: Indices
    start: Indices
    target: Indices
    weight: Float64 = np.empty(0)


class _Novelty:
    """Distances to the nearest of known windows in the space of their first principal components."""

    def __init__(self, rows: Float64, basis: Float64 | None = None, threshold: float = np.inf) -> None:
        self.rows, self.threshold = rows, threshold
        self.basis = np.empty(0) if basis is None else basis
        self.known = NearestNeighbors(n_neighbors=min(_NEIGHBOURS, len(rows)), algorithm="brute").fit(rows)

    def distances(self, rows: Float64) -> Float64:
        return np.asarray(self.known.kneighbors(rows)[0].mean(1))


def _fit_ridge(gram: Float64, targets: Float64, weight: Float64) -> tuple[Float64, Float64]:
    """Return dual coefficients and intercepts of ridge regressions; leave-one-out errors choose the penalty.

    Args:
        gram: products of the centred samples, ``(n, n)``.
        targets: ``(n, classes)``.
        weight: of the samples, ``(n,)``.
    """
    root = np.sqrt(weight)[:, None]
    intercept = np.average(targets, 0, weight)
    values, vectors = eigh(root * gram * root.T)
    values, rotated = np.maximum(values, 0), vectors.T @ (root * (targets - intercept))
    best, dual = np.inf, targets
    for penalty in _RIDGE_PENALTIES:
        inverse = 1 / (values + penalty)
        coefficients = vectors @ (inverse[:, None] * rotated)
        error = np.square(coefficients / (vectors**2 @ inverse)[:, None]).mean()  # of each sample, left out
        if error < best:
            best, dual = error, root * coefficients
    return dual, np.asarray(intercept)


def _log_spectra(windows: Array) -> NDArray[np.float32]:
    """Return the logarithm of the power in bands of each channel, ``(n, channels * bands)``."""
    size = windows.shape[-1]
    centred = (windows - windows.mean(-1, keepdims=True)) * np.hanning(size)
    power = np.square(np.abs(np.fft.rfft(centred))) / size
    edges = np.geomspace(1, power.shape[-1], _BANDS + 1)
    first = np.minimum(edges[:-1].astype(np.intp), power.shape[-1] - 1)
    last = np.maximum(first + 1, edges[1:].astype(np.intp))
    total = np.pad(power.cumsum(-1), ((0, 0), (0, 0), (1, 0)))
    bands = (total[..., last] - total[..., first]) / (last - first)
    return np.asarray(np.log(np.maximum(bands, 0) + _MIN_POWER).reshape(len(windows), -1), np.float32)


def _folds(windows: _Windows) -> Iterator[tuple[Indices, Indices]]:
    """Yield training and held-out windows: of different recordings, or of different parts of a few recordings."""
    groups = windows.recording
    if len(np.unique(groups)) < _FOLDS:
        groups = groups * _BLOCKS + windows.start * _BLOCKS // (windows.start.max() + 1)
    n_folds = min(_FOLDS, len(np.unique(groups)))
    if n_folds < 2:
        everything = np.arange(len(groups))
        yield everything, everything
        return
    yield from GroupKFold(n_folds).split(groups, groups=groups)


def _counts(is_label: NDArray[np.bool_], starts: Indices, size: int) -> Indices:
    total = np.concatenate([[0], np.cumsum(is_label)])
    return np.asarray(total[starts + size] - total[starts])


def _smooth(likelihood: Float64, penalty: float) -> Float64:
    """Return posterior probabilities given the likelihoods ``(n, labels)``, by the forward-backward algorithm."""
    change = np.exp(-penalty)
    forward, backward = np.empty_like(likelihood), np.ones_like(likelihood)
    state = np.ones(likelihood.shape[1])
    for index, row in enumerate(likelihood):
        state = row * (state + change * (state.sum() - state))
        state /= state.sum()
        forward[index] = state
    for index in range(len(likelihood) - 1, 0, -1):
        state = backward[index] * likelihood[index]
        state = state + change * (state.sum() - state)
        backward[index - 1] = state / state.sum()
    posterior = forward * backward
    return np.asarray(posterior / posterior.sum(1, keepdims=True))


def _read_intervals(intervals: Any, given: SeriesSet) -> Iterator[_Row]:
    """Yield intervals with the index of their recording and with points for times."""
    names = {name: index for index, name in enumerate(given.ids or ())}
    in_points = False
    for number, row in enumerate(_interval_rows(intervals, single=len(given) == 1)):
        try:
            recording, start, end, label = row
        except (TypeError, ValueError):
            raise ValueError(f"interval {number}: expected (recording, start, end, label), got {row!r}") from None
        index = names.get(str(recording), recording)
        if not (isinstance(index, int | np.integer) and 0 <= index < len(given)):
            raise ValueError(f"interval {number}: there is no recording {recording!r}")
        length, times = given.series[index].shape[1], times_of(given, int(index))
        try:
            first = point_at(start, times, "left", given.zoned)
            last = point_at(end, times, "right", given.zoned)
        except ValueError as error:
            raise ValueError(f"interval {number}: {error}") from None
        if not 0 <= first < last <= length:
            raise ValueError(
                f"interval {number}: {start} to {end} is not within the {length} points of recording {recording!r}"
            )
        in_points |= is_point(start) or is_point(end)
        yield _Row(int(index), first, last, label)
    if in_points:
        warn_of_points(given, "intervals")


def _interval_rows(intervals: Any, *, single: bool) -> Iterable[Any]:
    if not is_frame(intervals):
        rows = [tuple(row) for row in intervals]
        return [(0, *row[-3:]) if single and len(row) == 3 else row for row in rows]
    columns = [str(name) for name in intervals.columns]
    timed = {"start_time", "end_time"} <= set(columns) and "start" not in columns
    required = ["recording", *(("start_time", "end_time") if timed else ("start", "end")), "label"]
    if missing := [name for name in required if name not in columns and not (single and name == "recording")]:
        raise ValueError(f"intervals have no column {missing[0]!r}, only {', '.join(columns)}")
    parts = [list(intervals[name]) if name in columns else [0] * len(intervals) for name in required]
    if timed:  # as text, a number is a time
        parts[1:3] = ([str(time) if isinstance(time, Real) else time for time in part] for part in parts[1:3])
    return list(zip(*parts, strict=True))


def is_point(edge: Any) -> bool:
    """Whether an edge is a point, and not a time."""
    is_duration = isinstance(edge, np.timedelta64)  # an integer for numpy
    return not is_duration and (
        isinstance(edge, int | np.integer) or (isinstance(edge, float) and edge.is_integer())
    )


def point_at(edge: Any, times: Times | None, side: Any, zoned: bool = False) -> int:
    """Return the point of an edge, which is a point already or a time; text is a time.

    Args:
        edge: the point, or a time with a zone exactly if ``zoned``; a ``datetime64`` is UTC then.
        times: the time of each point, if there are any.
        side: as in ``numpy.searchsorted``.
        zoned: whether the recording's own times had a zone.
    """
    if isinstance(edge, timedelta):
        edge = np.timedelta64(edge)
    if is_point(edge):
        return int(edge)
    if times is None:
        raise ValueError(f"{edge!r} is not a point, and the recording has no times")
    report = TimeReport()
    time = parse_times([edge], report=report)
    time = as_dates(time) if times.dtype.kind == "M" else time
    kinds = {array.dtype.kind if array.dtype.kind in "mM" else "number" for array in (time, times)}
    if len(kinds) > 1:
        raise ValueError(f"{edge!r} is not a time like those of the recording, such as {times[0]}")
    if time.dtype.kind == "M" and not isinstance(edge, np.datetime64) and (report.n_zoned > 0) != zoned:
        if zoned:
            utc = f"{time[0].astype('datetime64[s]')}+00:00"
            raise ValueError(f"{edge!s} has no time zone, the recording has one; write {utc} if it is UTC")
        raise ValueError(f"{edge!s} has a time zone, and the times of the recording have none")
    return int(np.searchsorted(times, time, side)[0])
