"""Quantiles of intervals: features of a whole series for decision trees.

They follow QUANT (Dempster, Schmidt and Webb, 2024): the series, its first and second differences and its spectrum
are cut into halves, quarters … thirty-seconds, and into the same intervals shifted by half their length. An
interval of n values has n / 4 quantiles; every second one is relative to the mean of the interval.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

_DEPTH = 6
_UNIT = 1 << _DEPTH  # the spectrum has half as many values as the series, which are halved five times
_MAX_POINTS = 1024
_VALUES_PER_QUANTILE = 4


def quantile_points(length: float) -> int:
    """Return the number of points that series of this length are resized to."""
    return _UNIT * round(min(max(length, _UNIT), _MAX_POINTS) / _UNIT)


def quantile_size(points: int, channels: int) -> int:
    """Return the number of features."""
    spectrum = points // 2
    per_channel = sum(
        ((values - size) // step + 1) * count * kinds
        for values, kinds in ((points, 3), (spectrum, 1))
        for size, step, count in _intervals(values)
    )
    return channels * per_channel


def interval_quantiles(series: Tensor) -> Tensor:
    """Return ``(batch, features)`` of series ``(batch, channels, points)``."""
    point, last = torch.arange(series.shape[-1], device=series.device), series.shape[-1] - 1
    # The first differences are averaged over five points.
    first = series[..., (point + 2).clamp(max=last)] - series[..., (point - 3).clamp(min=0)]
    second = F.pad(series.diff(n=2, dim=-1), (1, 1))
    spectrum = torch.fft.rfft(series).abs()[..., 1:]
    return torch.cat([_quantiles(torch.stack([series, first, second], dim=1)), _quantiles(spectrum)], dim=1)


def _quantiles(values: Tensor) -> Tensor:
    """Return ``(batch, features)``, the quantiles of all intervals of the last axis."""
    parts = []
    for size, step, count in _intervals(values.shape[-1]):
        intervals = _sorted(values.unfold(-1, size, step))
        levels = torch.linspace(0, 1, count, dtype=torch.float64) if count > 1 else torch.tensor([0.5])
        position = (size - 1) * levels
        below = position.long()
        share = (position - below).to(values)
        quantiles = intervals[..., below].lerp(intervals[..., (below + 1).clamp(max=size - 1)], share)
        relative = quantiles[..., 1::2] - intervals.mean(-1, keepdim=True)
        parts += [quantiles[..., ::2].flatten(1), relative.flatten(1)]
    return torch.cat(parts, dim=1)


def _sorted(values: Tensor) -> Tensor:
    """Sort the last axis; NumPy is up to ten times as fast as torch, but not part of an exported graph."""
    if torch.compiler.is_compiling() or values.device.type != "cpu":
        return values.sort(-1).values
    return torch.from_numpy(np.sort(values.numpy(), axis=-1))


def _intervals(points: int) -> list[tuple[int, int, int]]:
    """Return the length of the intervals of each depth, their distance and how many quantiles each has."""
    sizes = [points >> depth for depth in range(_DEPTH)]
    return [(size, max(1, size // 2), max(1, size // _VALUES_PER_QUANTILE)) for size in sizes]
