"""Values from the representation: missing points filled, and the future predicted, in the original units.

Each channel is read in stretches of at most :data:`~nutime.model.decoder.CONTEXT` points at its own sampling. A
gap longer than a third of that is first filled at a coarser sampling.

A channel that the others explain is filled again, as a ridge regression on them plus its imputed residual. The
regression is fitted, and whether to use it decided, on deviations from a line over stretches as long as the gaps,
because the slow trend of a channel is known without the others.

A forecast is made from all points if three cycles of a season are observed, otherwise from the last ones. Its
intervals are scaled by backtests on the series' own last points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nutime.model.context import Affine, periods_of
from nutime.model.decoder import CONTEXT, QUANTILES, Decoder
from nutime.model.network import NuTimeNetwork

Float64: TypeAlias = NDArray[np.float64]

#: Points predicted per pass; longer horizons roll on from the medians.
MAX_HORIZON = 192
_MAX_GAP = CONTEXT // 3
_MAX_ROLLED = 4 * CONTEXT  # points after the end of a channel; beyond them, only its level and amplitude are known
_BATCH_SIZE = 32
_PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)  # of the ridge regression, for deviations of unit variance
_FOLDS = 4
_MIN_GAIN = 0.2  # share of the variance that other channels must explain
_CYCLES = 3  # of a season, required for a forecast from all points
_MIN_PAST = 128  # context points of a forecast without a season; two horizons if that is more
_BACKTESTS, _MIN_BACKTEST = 4, 12  # number, and points of each
#: Share of backtest points inside an 80 % interval; above 0.8, because the errors of one horizon are correlated.
_COVERED = 0.81
_FACTORS = (0.2, 5)  # limits of the scaling of an interval
_MEDIAN, _LOW, _HIGH = (QUANTILES.index(level) for level in (0.5, 0.1, 0.9))
_NORMAL = torch.special.ndtri(torch.tensor(QUANTILES, dtype=torch.float64)).numpy()  # quantiles of deviation 1


def check_quantiles(quantiles: Sequence[float]) -> Float64:
    """Return the levels as an array; those beyond what a decoder predicts are refused."""
    levels = np.asarray(quantiles, np.float64)
    if levels.ndim != 1 or not levels.size or not ((levels >= QUANTILES[0]) & (levels <= QUANTILES[-1])).all():
        raise ValueError(f"quantiles must be from {QUANTILES[0]} to {QUANTILES[-1]}, got {quantiles!r}")
    return levels


def impute(encoder: NuTimeNetwork, decoder: Decoder, series: Sequence[Float64]) -> list[Float64]:
    """Return ``(channels, length, QUANTILES)`` for each series, from all its channels."""
    given, exponents = series, [_exponents(values) for values in series]
    series = [np.ldexp(values, -exponent) for values, exponent in zip(given, exponents, strict=True)]
    channels = iter(fill(encoder, decoder, [channel for values in series for channel in values]))
    filled = [np.stack([next(channels) for _ in values]) for values in series]
    explained = [
        (index, channel, fitted)
        for index, values in enumerate(series)
        for channel, fitted in _regressions(values, filled[index][..., _MEDIAN])
    ]
    residuals = fill(encoder, decoder, [series[index][channel] - fitted for index, channel, fitted in explained])
    for (index, channel, fitted), residual in zip(explained, residuals, strict=True):
        missing = np.isnan(series[index])
        changed = missing[channel] & ~missing.all(0)
        filled[index][channel, changed] = (fitted[:, None] + residual)[changed]
    return [
        np.where(np.isnan(values)[..., None], np.ldexp(predicted, exponent[..., None]), values[..., None])
        for values, predicted, exponent in zip(given, filled, exponents, strict=True)
    ]


def fill(encoder: NuTimeNetwork, decoder: Decoder, channels: Sequence[Float64]) -> list[Float64]:
    """Return ``(length, QUANTILES)`` for each channel; observed points have their value in all quantiles."""
    out = [np.repeat(channel[:, None], len(QUANTILES), 1) for channel in channels]
    rough = [_fill_long_gaps(encoder, decoder, channel) for channel in channels]
    coarse = [predicted[:, _MEDIAN] for predicted in rough]
    stretches = [(index, start) for index, channel in enumerate(channels) for start in _starts(np.isnan(channel))]
    for first in range(0, len(stretches), _BATCH_SIZE):
        chunk = stretches[first : first + _BATCH_SIZE]
        pieces = [coarse[index][start : start + CONTEXT] for index, start in chunk]
        for (index, start), predicted in zip(chunk, _predict(encoder, decoder, pieces), strict=True):
            stop = start + len(predicted)
            missing = np.isnan(coarse[index][start:stop])
            # Overlapping stretches: a point is taken from the stretch in which it has more context on either side.
            last = stop == len(channels[index])
            inner = np.zeros(len(predicted), bool)
            inner[CONTEXT // 4 if start else 0 : None if last else 3 * CONTEXT // 4] = True
            out[index][start:stop][missing & inner] = predicted[missing & inner]
    for index, channel in enumerate(channels):
        in_long_gap = np.isnan(channel) & ~np.isnan(coarse[index])
        out[index][in_long_gap] = rough[index][in_long_gap]
    return out


def forecast(encoder: NuTimeNetwork, decoder: Decoder, channels: Sequence[Float64], horizon: int) -> Float64:
    """Return ``(channels, horizon, QUANTILES)``; a channel that ended long ago is continued from its own end."""
    exponents = [_exponents(channel[None]) for channel in channels]
    channels = [np.ldexp(channel, -exponent[0]) for channel, exponent in zip(channels, exponents, strict=True)]
    ends = [int(np.flatnonzero(~np.isnan(channel))[-1]) + 1 for channel in channels]
    gaps = [len(channel) - end for channel, end in zip(channels, ends, strict=True)]
    current = [index for index, gap in enumerate(gaps) if gap <= CONTEXT // 2]
    predicted = np.empty((len(channels), horizon, len(QUANTILES)))
    if current:
        predicted[current] = _roll(encoder, decoder, [channels[index] for index in current], horizon)
    for index in set(range(len(channels))) - set(current):
        steps = min(gaps[index], _MAX_ROLLED) + horizon
        predicted[index] = _roll(encoder, decoder, [channels[index][: ends[index]]], steps)[0, -horizon:]
    return np.ldexp(predicted, np.stack(exponents)) if exponents else predicted


def _roll(encoder: NuTimeNetwork, decoder: Decoder, channels: Sequence[Float64], horizon: int) -> Float64:
    """Return ``(channels, horizon, QUANTILES)``, at most :data:`MAX_HORIZON` points per pass."""
    parts: list[Float64] = []
    known = list(channels)
    remaining = horizon
    while remaining:
        step = min(remaining, MAX_HORIZON)
        steps = []
        for first in range(0, len(known), _BATCH_SIZE):
            pasts = _relevant([past[-(CONTEXT - step) :] for past in known[first : first + _BATCH_SIZE]], step)
            pieces = [np.append(past, np.full(step, np.nan)) for past in pasts]
            steps += [values[-step:] for values in _predict(encoder, decoder, pieces)]
        predicted = np.stack(steps)
        parts.append(predicted)
        median = predicted[..., _MEDIAN]
        known = [np.append(channel, values) for channel, values in zip(known, median, strict=True)]
        remaining -= step
    return np.concatenate(parts, 1)


def forecast_intervals(
    encoder: NuTimeNetwork, decoder: Decoder, channels: Sequence[Float64], horizon: int
) -> Float64:
    """Return :func:`forecast` with intervals scaled by backtests, where a channel is long enough for these."""
    predicted = forecast(encoder, decoder, channels, horizon)
    places, pasts, futures = [], [], []
    step = max(horizon, _MIN_BACKTEST)
    for index, channel in enumerate(channels):
        for stop in range(len(channel) - step, 2 * step, -step)[:_BACKTESTS]:
            if not np.isnan(channel[:stop]).all():
                places.append(index)
                pasts.append(channel[:stop])
                futures.append(channel[stop : stop + step])
    if not places:
        return predicted
    back = forecast(encoder, decoder, pasts, step)
    error = np.stack(futures) - back[..., _MEDIAN]
    width = np.where(error < 0, back[..., _MEDIAN] - back[..., _LOW], back[..., _HIGH] - back[..., _MEDIAN])
    needed = np.abs(error) / np.where(width > 0, width, np.inf)
    for index in set(places):
        own = needed[np.array(places) == index]
        if not np.isnan(own).all():
            median = predicted[index, :, _MEDIAN, None]
            factor = np.clip(np.nanquantile(own, _COVERED), *_FACTORS)
            predicted[index] = median + factor * (predicted[index] - median)
    return predicted


def at_levels(predicted: Float64, levels: Float64) -> Float64:
    """Interpolate predictions of :data:`QUANTILES`, on the last axis, at other levels."""
    right = np.clip(np.searchsorted(QUANTILES, levels), 1, len(QUANTILES) - 1)
    known = np.array(QUANTILES)
    share = (levels - known[right - 1]) / (known[right] - known[right - 1])
    return np.asarray(predicted[..., right - 1] * (1 - share) + predicted[..., right] * share)


@torch.inference_mode()
def _predict(encoder: NuTimeNetwork, decoder: Decoder, pieces: Sequence[Float64]) -> list[Float64]:
    """Return ``(length, QUANTILES)``, ascending, of pieces of at most CONTEXT points with NaN where missing."""
    raw, observed, present = (part.to(decoder.norm.weight.device) for part in _tensors(pieces))
    affine = Affine.fit(raw, observed)
    predicted = decoder(encoder, affine.compress(raw), observed, present)
    restored = affine.restore(predicted.sort(-1).values).cpu().numpy()
    return [restored[row, CONTEXT - len(piece) :] for row, piece in enumerate(pieces)]


def _tensors(pieces: Sequence[Float64]) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``(n, CONTEXT)`` values, 0 where missing, and the masks of observed and of present points."""
    values = np.full((len(pieces), CONTEXT), np.nan)
    present = np.zeros(values.shape, bool)
    for row, piece in enumerate(pieces):
        values[row, CONTEXT - len(piece) :] = piece
        present[row, CONTEXT - len(piece) :] = True
    observed = ~np.isnan(values)
    return torch.from_numpy(np.nan_to_num(values)), torch.from_numpy(observed), torch.from_numpy(present)


def _relevant(pasts: Sequence[Float64], horizon: int) -> list[Float64]:
    """Cut pasts without three cycles of a season to their last points: older ones make the forecast worse."""
    raw, observed, _ = _tensors(pasts)
    compressed = torch.where(observed, Affine.fit(raw, observed).compress(raw), 0)
    cut = []
    for past, period in zip(pasts, periods_of(compressed, observed)[:, 0].tolist(), strict=True):
        places = np.flatnonzero(~np.isnan(past))[-max(_MIN_PAST, 2 * horizon) :]
        seasonal = 0 < period * _CYCLES <= len(past)
        cut.append(past if seasonal or not len(places) else past[places[0] :])
    return cut


def _starts(missing: NDArray[np.bool_]) -> list[int]:
    """Return the starts of overlapping stretches of CONTEXT points that have missing points."""
    length, half = len(missing), CONTEXT // 2
    starts = [*range(0, length - CONTEXT, half), max(0, length - CONTEXT)]
    return [start for start in starts if missing[start : start + CONTEXT].any()]


def _fill_long_gaps(encoder: NuTimeNetwork, decoder: Decoder, channel: Float64) -> Float64:
    """Return ``(length, QUANTILES)``: gaps too long for one stretch are filled at a coarser sampling."""
    filled = np.repeat(channel[:, None], len(QUANTILES), 1)
    gaps = [gap for gap in _edges(np.isnan(channel)).tolist() if gap[1] - gap[0] > _MAX_GAP]
    if not gaps:
        return filled
    factor = -(-max(stop - start for start, stop in gaps) // _MAX_GAP)
    padded = np.append(channel, np.full(-len(channel) % factor, np.nan)).reshape(-1, factor)
    known = ~np.isnan(padded)
    count = known.sum(1)
    mean = np.where(count > 0, np.where(known, padded, 0).sum(1) / np.maximum(count, 1), np.nan)
    predicted = fill(encoder, decoder, [mean])[0]
    # A point also varies around the mean of its block.
    deviations = np.where(known, padded - mean[:, None], 0)
    within = np.sqrt(np.square(deviations).sum() / max(1, (count - (count > 0)).sum()))
    median = predicted[:, _MEDIAN, None]
    predicted = median + np.sign(_NORMAL) * np.hypot(predicted - median, _NORMAL * within)
    centres = (np.arange(len(mean)) + 0.5) * factor - 0.5
    fine = np.stack([np.interp(np.arange(len(channel)), centres, level) for level in predicted.T], 1)
    for start, stop in gaps:
        filled[start:stop] = fine[start:stop]
    return filled


def _edges(missing: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the starts and the stops of gaps, ``(gaps, 2)``."""
    return np.flatnonzero(np.diff(missing.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)


def _regressions(values: Float64, filled: Float64) -> Iterator[tuple[int, Float64]]:
    """Yield the channels with missing points that the others explain, and what they explain, ``(length,)``."""
    missing = np.isnan(values)
    if len(values) == 1 or not missing.any():
        return
    gaps = np.concatenate([np.diff(_edges(row)).ravel() for row in missing])
    deviations = _deviations(filled, max(1, int(np.median(gaps))))
    for channel in np.flatnonzero(missing.any(1)):
        others = np.delete(filled, channel, 0)
        weights = _ridge(np.delete(deviations, channel, 0), deviations[channel], ~missing[channel])
        if weights is not None:
            yield int(channel), weights @ (others - others.mean(1, keepdims=True))


def _deviations(filled: Float64, block: int) -> Float64:
    """Return the differences of all points from lines through the blocks before and after their own."""
    points = np.arange(filled.shape[1])
    even = points // block % 2 == 0
    if even.all():
        return np.zeros_like(filled)
    lines = [[np.interp(points, points[kept], row[kept]) for row in filled] for kept in (even, ~even)]
    return np.asarray(filled - np.where(even, lines[1], lines[0]))


def _ridge(others: Float64, target: Float64, observed: NDArray[np.bool_]) -> Float64 | None:
    """Return the weights of other channels, or None if they explain too little of held-out points."""
    scale, unit = others[:, observed].std(1), target[observed].std()
    if not unit > 0:
        return None
    scale = np.where(scale > 0, scale, 1)
    fold = (np.arange(len(target)) * _FOLDS // len(target))[observed]
    if fold[0] == fold[-1]:
        return None
    x, y = others[:, observed] / scale[:, None], target[observed] / unit

    def solve(used: NDArray[np.bool_], penalty: float) -> Float64:
        gram = x[:, used] @ x[:, used].T + penalty * used.sum() * np.eye(len(x))
        return np.asarray(np.linalg.solve(gram, x[:, used] @ y[used]))

    errors = []
    for penalty in _PENALTIES:
        parts = [(fold == part, solve(fold != part, penalty)) for part in np.unique(fold)]
        errors.append(sum(float(np.square(y[part] - weights @ x[:, part]).sum()) for part, weights in parts))
    best = int(np.argmin(errors))
    if errors[best] > (1 - _MIN_GAIN) * np.square(y).sum():
        return None
    return np.asarray(solve(np.ones(len(y), bool), _PENALTIES[best]) * unit / scale)


def _exponents(values: Float64) -> NDArray[np.intp]:
    """Return the power of two that makes the largest value of each channel about 1: squares stay in range."""
    return np.asarray(np.frexp(np.nan_to_num(np.abs(values)).max(1, keepdims=True))[1])


def observed_end(values: NDArray[np.floating[Any]]) -> int:
    """Return the number of points of ``(channels, length)`` up to the last one observed in any channel."""
    return int(np.flatnonzero(~np.isnan(values).all(0))[-1]) + 1
