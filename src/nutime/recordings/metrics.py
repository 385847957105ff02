"""Covering and VUS-PR: how the benchmarks of segmentation and of anomaly localisation score a method.

Covering is that of Arbelaez et al. (2011), as TSSB and ClaSP report it. VUS-PR is that of Paparrizos et al.
(2022), in the form of TSB-AD: 250 thresholds, a buffer of at most the given window around each anomaly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nutime.recordings.windows import Indices, runs

_THRESHOLDS = 250


def covering(true_change_points: ArrayLike, found_change_points: ArrayLike, length: int) -> float:
    """Return the mean, weighted by length, of the best Jaccard index of each true segment with a found one."""
    true, found = _segments(true_change_points, length), _segments(found_change_points, length)
    start = np.maximum(true[:, None, 0], found[None, :, 0])
    end = np.minimum(true[:, None, 1], found[None, :, 1])
    sizes, found_sizes = np.diff(true).ravel(), np.diff(found).ravel()
    overlap = np.maximum(end - start, 0)
    jaccard = overlap / (sizes[:, None] + found_sizes[None] - overlap)
    return float(jaccard.max(1) @ sizes / length)


def _segments(change_points: ArrayLike, length: int) -> Indices:
    """Return ``(n, 2)`` starts and ends."""
    inner = np.unique(np.asarray(change_points, np.intp))
    bounds = np.concatenate([[0], inner[(inner > 0) & (inner < length)], [length]])
    return np.stack([bounds[:-1], bounds[1:]], 1)


def vus_pr(label: ArrayLike, score: ArrayLike, window: int) -> float:
    """Return the volume under the surface of precision and recall over thresholds and buffer lengths.

    For every buffer length from 0 to ``window``, labels fall off as a square root over half that length on both
    sides of an anomaly; recall counts the buffer by half and is multiplied by the share of anomalies found.

    Args:
        label: 1 for anomalous points, 0 for others.
        score: one number per point, higher where more anomalous.
        window: longest buffer; TSB-AD takes :func:`tsb_ad_window` of the series.
    """
    label, score = np.asarray(label, bool), np.asarray(score, np.float64)
    if label.shape != score.shape or label.ndim != 1:
        raise ValueError(f"expected one score per label, got shapes {label.shape} and {score.shape}")
    if not label.any():
        raise ValueError("no point is labelled 1; VUS-PR is not defined")
    order = np.argsort(-score, kind="stable")
    ranks = np.linspace(0, len(score) - 1, _THRESHOLDS).astype(np.intp)
    thresholds = score[order][ranks]
    found = np.searchsorted(-score[order], -thresholds, side="right")  # points at or above each threshold
    anomalies = runs(label)
    areas = [_pr_area(label, score, order, found, thresholds, anomalies, width) for width in range(window + 1)]
    return float(np.mean(areas))


def _pr_area(
    label: NDArray[np.bool_],
    score: NDArray[np.float64],
    order: Indices,
    found: Indices,
    thresholds: NDArray[np.float64],
    anomalies: Indices,
    width: int,
) -> float:
    half = width // 2
    soft = label.astype(np.float64)
    fall = np.sqrt(1 - np.arange(1, half + 1) / max(width, 1))
    for start, end in anomalies:
        after = soft[end : end + half]
        after += fall[: len(after)]
        before = soft[max(start - half, 0) : start]
        before += fall[: len(before)][::-1]
    soft = np.minimum(soft, 1)
    true_positives = np.concatenate([[0], np.cumsum(soft[order])])[found]
    buffer = np.concatenate([[0], np.cumsum(np.where(label, 0, soft)[order])])[found]
    recall = np.minimum(true_positives / (label.sum() + buffer / 2), 1)
    peaks = [score[start:end].max() for start, end in _widened(anomalies, half, len(label))]
    recall *= (np.asarray(peaks)[:, None] >= thresholds).mean(0)
    return float(np.diff(recall, prepend=0) @ (true_positives / found))


def _widened(anomalies: Indices, half: int, length: int) -> list[tuple[int, int]]:
    """Return the anomalies with their buffers; those whose buffers touch are one."""
    widened: list[tuple[int, int]] = []
    for start, end in anomalies:
        if widened and start - half <= widened[-1][1] - 1:
            widened[-1] = (widened[-1][0], min(end + half, length))
        else:
            widened.append((max(start - half, 0), min(end + half, length)))
    return widened


def tsb_ad_window(value: NDArray[np.floating]) -> int:
    """Return TSB-AD's window of a series: the lag of its highest autocorrelation peak, 125 where there is none."""
    centred = np.asarray(value[:20_000], np.float64) - np.mean(value[:20_000])
    spectrum = np.abs(np.fft.rfft(centred, 2 * len(centred))) ** 2
    curve = np.fft.irfft(spectrum)[3 : min(401, len(centred))]
    peaks = np.flatnonzero((curve[1:-1] > curve[:-2]) & (curve[1:-1] > curve[2:])) + 1
    if not len(peaks):
        return 125
    best = int(peaks[curve[peaks].argmax()])
    return best + 3 if 3 <= best <= 300 else 125
