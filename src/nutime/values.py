"""Values from the representation: missing points filled, and the future predicted, in the original units.

Each channel is read in stretches of at most :data:`~nutime.model.decoder.CONTEXT` points at its own sampling. A
gap longer than a third of that is first filled at a coarser sampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from nutime.model.context import Affine
from nutime.model.decoder import CONTEXT, QUANTILES, Decoder
from nutime.model.network import NuTimeNetwork

Float64: TypeAlias = NDArray[np.float64]

#: Points predicted per pass; longer horizons roll on from the medians.
MAX_HORIZON = 192
_MAX_GAP = CONTEXT // 3
_BATCH_SIZE = 32


def check_quantiles(quantiles: Sequence[float]) -> Float64:
    """Return the levels as an array; those beyond what a decoder predicts are refused."""
    levels = np.asarray(quantiles, np.float64)
    if levels.ndim != 1 or not levels.size or not ((levels >= QUANTILES[0]) & (levels <= QUANTILES[-1])).all():
        raise ValueError(f"quantiles must be from {QUANTILES[0]} to {QUANTILES[-1]}, got {quantiles!r}")
    return levels


def fill(encoder: NuTimeNetwork, decoder: Decoder, channels: Sequence[Float64]) -> list[Float64]:
    """Return ``(length, QUANTILES)`` for each channel; observed points have their value in all quantiles."""
    out = [np.repeat(channel[:, None], len(QUANTILES), 1) for channel in channels]
    coarse = [_fill_long_gaps(encoder, decoder, channel) for channel in channels]
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
        rough = np.isnan(channel) & ~np.isnan(coarse[index])
        out[index][rough] = coarse[index][rough, None]
    return out


def forecast(encoder: NuTimeNetwork, decoder: Decoder, channels: Sequence[Float64], horizon: int) -> Float64:
    """Return ``(channels, horizon, QUANTILES)``."""
    parts: list[Float64] = []
    known = list(channels)
    remaining = horizon
    while remaining:
        step = min(remaining, MAX_HORIZON)
        pieces = [np.append(channel[-(CONTEXT - step) :], np.full(step, np.nan)) for channel in known]
        predicted = np.concatenate(
            [
                np.stack(
                    [values[-step:] for values in _predict(encoder, decoder, pieces[first : first + _BATCH_SIZE])]
                )
                for first in range(0, len(pieces), _BATCH_SIZE)
            ]
        )
        parts.append(predicted)
        median = predicted[..., QUANTILES.index(0.5)]
        known = [np.append(channel, values) for channel, values in zip(known, median, strict=True)]
        remaining -= step
    return np.concatenate(parts, 1)


def at_levels(predicted: Float64, levels: Float64) -> Float64:
    """Interpolate predictions of :data:`QUANTILES`, on the last axis, at other levels."""
    right = np.clip(np.searchsorted(QUANTILES, levels), 1, len(QUANTILES) - 1)
    known = np.array(QUANTILES)
    share = (levels - known[right - 1]) / (known[right] - known[right - 1])
    mixed: Float64 = predicted[..., right - 1] * (1 - share) + predicted[..., right] * share
    return mixed


@torch.inference_mode()
def _predict(encoder: NuTimeNetwork, decoder: Decoder, pieces: Sequence[Float64]) -> list[Float64]:
    """Return ``(length, QUANTILES)``, ascending, of pieces of at most CONTEXT points with NaN where missing."""
    values = np.full((len(pieces), CONTEXT), np.nan)
    present = np.zeros(values.shape, bool)
    for row, piece in enumerate(pieces):
        values[row, CONTEXT - len(piece) :] = piece
        present[row, CONTEXT - len(piece) :] = True
    device = decoder.norm.weight.device
    observed = torch.from_numpy(~np.isnan(values)).to(device)
    raw = torch.from_numpy(np.nan_to_num(values)).to(device)
    affine = Affine.fit(raw, observed)
    predicted = decoder(encoder, affine.compress(raw), observed, torch.from_numpy(present).to(device))
    restored = affine.restore(predicted.sort(-1).values).cpu().numpy()
    return [restored[row, CONTEXT - len(piece) :] for row, piece in enumerate(pieces)]


def _starts(missing: NDArray[np.bool_]) -> list[int]:
    """Return the starts of overlapping stretches of CONTEXT points that have missing points."""
    length, half = len(missing), CONTEXT // 2
    starts = [*range(0, length - CONTEXT, half), max(0, length - CONTEXT)]
    return [start for start in starts if missing[start : start + CONTEXT].any()]


def _fill_long_gaps(encoder: NuTimeNetwork, decoder: Decoder, channel: Float64) -> Float64:
    """Fill gaps too long for one stretch, from the channel averaged to a coarser sampling."""
    gaps = _long_gaps(np.isnan(channel))
    if not gaps:
        return channel
    factor = -(-max(stop - start for start, stop in gaps) // _MAX_GAP)
    padded = np.append(channel, np.full(-len(channel) % factor, np.nan)).reshape(-1, factor)
    known = ~np.isnan(padded)
    count = known.sum(1)
    mean = np.where(count > 0, np.where(known, padded, 0).sum(1) / np.maximum(count, 1), np.nan)
    median = fill(encoder, decoder, [mean])[0][:, QUANTILES.index(0.5)]
    fine = np.interp(np.arange(len(channel)), (np.arange(len(mean)) + 0.5) * factor - 0.5, median)
    filled = channel.copy()
    for start, stop in gaps:
        filled[start:stop] = fine[start:stop]
    return filled


def _long_gaps(missing: NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(missing.astype(np.int8), prepend=0, append=0))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2) if stop - start > _MAX_GAP]


def observed_end(values: NDArray[Any]) -> int:
    """Return the number of points of ``(channels, length)`` up to the last one observed in any channel."""
    return int(np.flatnonzero(~np.isnan(values).all(0))[-1]) + 1


def as_channels(series: Sequence[NDArray[Any]]) -> list[Float64]:
    """Return the channels of all series, one after another, float64."""
    return [np.asarray(channel, np.float64) for values in series for channel in values]
