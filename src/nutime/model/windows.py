"""Windows and their statistics (paper, Section 3.2): normalised shape, mean and standard deviation.

Statistics are computed relative to the window's first value and in units of its range, so that neither a large
offset (1e6 + 1e-3·sin) nor an extreme magnitude (1e±300) loses digits or overflows, and a constant window has a
standard deviation of exactly zero. They are in float64: in float32, a mean of 1e-4 among values near 1 would
depend on the order of summation.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

#: Added to the standard deviation before dividing by it, so that a constant window has the shape zero.
SHAPE_EPSILON = 1e-8


class WindowStatistics(NamedTuple):
    """Shape, mean and standard deviation of windows; ``shape`` is ``(..., window)``, the scalars are ``(...)``."""

    shape: Tensor
    mean: Tensor
    std: Tensor


def split_windows(series: Tensor, window: int) -> Tensor:
    """Cut ``(..., length)`` into ``(..., length / window, window)``."""
    length = series.shape[-1]
    if length == 0 or length % window:
        raise ValueError(f"length {length} is not a multiple of the window {window}; resize the series first")
    return series.reshape(*series.shape[:-1], length // window, window)


def take_windows(series: Tensor, indices: Tensor, window: int) -> Tensor:
    """Return ``(batch, channels, k · window)``: the windows of each series at ``(batch, k)`` indices."""
    windows = split_windows(series, window)
    indices = indices[:, None, :, None].expand(-1, windows.shape[1], -1, window)
    return windows.gather(2, indices).flatten(2)


def window_statistics(windows: Tensor) -> WindowStatistics:
    """Normalise over the last dimension; the standard deviation has Bessel's correction (0 for a single point)."""
    precision, limit = windows.dtype, torch.finfo(windows.dtype).max
    half = windows.double() * 0.5  # the difference of two halves cannot overflow
    first = half[..., :1]
    rise = half - first
    reach = rise.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(precision).tiny)
    unit = rise / reach
    unit_mean = unit.mean(-1, keepdim=True)
    centred = unit - unit_mean
    unit_std = (centred.square().sum(-1, keepdim=True) / max(windows.shape[-1] - 1, 1)).sqrt()
    mean = (2 * (first + reach * unit_mean)).clamp(-limit, limit)
    std = (2 * (reach * unit_std)).clamp(max=limit)
    # centred / (unit_std + ε / (2·reach)) is (x − mean) / (std + ε) without leaving the unit range.
    shape = centred * (reach / (reach * unit_std + 0.5 * SHAPE_EPSILON))
    return WindowStatistics(shape.to(precision), mean.squeeze(-1).to(precision), std.squeeze(-1).to(precision))
