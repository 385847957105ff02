"""Random convolutions: features of a whole series, beside those of the network, for a linear model.

They follow Hydra (Dempster, Schmidt and Webb, 2023): at each of several dilations, random kernels compete in
groups. A kernel has two features: the sum of its responses where it has the highest one of its group, and the
number of points where it has the lowest. The kernels of a group read the same random mixture of channels. Neither
tells where in a series something happens: of several channels, the means of a few segments are features as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nutime.model.windows import window_statistics

#: Series are read with at most this many points.
MAX_POINTS = 1024
#: Groups of kernels per dilation: for one channel, and for several.
GROUPS, MAX_GROUPS = 32, 64
_KERNELS, _TAPS, _MAX_DILATIONS = 8, 9, 8
#: Segments of equal length whose means are features of each of several channels; chosen inside training splits.
SEGMENTS = 8
#: Of the soft comparison with the highest response, 1 to 0 within 1/1000 of a standard deviation: rounding does
#: not decide which kernel wins.
_STEEPNESS = 1000


def convolution_points(length: float) -> int:
    """Return the number of points that series of this length are resized to: their own, within limits."""
    return int(min(max(length, _TAPS), MAX_POINTS))


def convolution_groups(channels: int) -> int:
    """Return the number of groups: more if each reads its own mixture of several channels."""
    return GROUPS if channels == 1 else MAX_GROUPS


def convolution_size(points: int, groups: int) -> int:
    """Return the number of features."""
    return 2 * groups * _KERNELS * len(_dilations(points))


def convolve(series: Tensor, kernels: Sequence[Tensor], scales: Tensor | None = None, segments: int = 0) -> Tensor:
    """Return ``(batch, features)`` of series ``(batch, channels, points)``, whatever their level and scale.

    Args:
        series: the series.
        kernels: as :func:`random_kernels` returns them for this number of channels.
        scales: ``(channels,)`` float64, the unit of each channel; all channels of a series are then divided by one
            scale and keep their relations. Without it, each channel is divided by its own.
        segments: the number of segments of each channel whose means follow the features of the kernels.
    """
    shape = _normalised(series, scales)
    features = _convolved(shape, kernels)
    if not segments:
        return features
    return torch.cat([features, F.adaptive_avg_pool1d(shape, segments).flatten(1)], dim=1)


def _normalised(series: Tensor, scales: Tensor | None) -> Tensor:
    """Return the series without their level, in units of a scale, in single precision."""
    statistics = window_statistics(series)
    shape, tiny = statistics.shape, torch.finfo(statistics.shape.dtype).tiny
    # Again, because the ε of windows damps series of small scale; first so far that squares do not underflow.
    reach = shape.abs().amax(-1, keepdim=True)
    shape = torch.where(reach < tiny**0.25, shape / reach.clamp(min=tiny), shape)
    shape = (shape / shape.std(-1, keepdim=True).clamp(min=tiny)).float()
    if scales is not None:
        tiny = torch.finfo(torch.float32).tiny
        relative = statistics.std.double() / scales
        relative = relative / relative.amax(1, keepdim=True).clamp(min=tiny)  # squares do not overflow
        relative = relative / relative.square().mean(1, keepdim=True).sqrt().clamp(min=tiny)
        shape = shape * relative.float()[..., None]
    return shape


def _convolved(shape: Tensor, kernels: Sequence[Tensor]) -> Tensor:
    """Return the features of the kernels, ``(batch, features)``."""
    shape = shape.transpose(0, 1)  # (channels, batch, points): one matrix product for the whole batch
    batch, points = shape.shape[1:]
    features = []
    # Every dilation computes in the same memory: new pages would take longer than the arithmetic.
    responses, is_highest = shape.new_empty(2, len(kernels[0]), batch * points)
    is_highest = is_highest.view(-1, _KERNELS, batch, points)
    for matrix, dilation in zip(kernels, _dilations(points), strict=False):
        padded = F.pad(shape, (_TAPS // 2 * dilation, _TAPS // 2 * dilation))
        shifted = torch.cat([padded[..., tap * dilation : tap * dilation + points] for tap in range(_TAPS)])
        # A matrix product, since torch.conv1d is rounded to TF32 on CUDA.
        torch.mm(matrix.to(shape.device), shifted.flatten(1), out=responses)
        groups = responses.view_as(is_highest)
        highest, lowest = groups.amax(1, keepdim=True), groups.amin(1, keepdim=True)
        torch.add(1 - _STEEPNESS * highest, groups, alpha=_STEEPNESS, out=is_highest).relu_()
        sums = is_highest.mul_(highest).mean(-1).relu_()
        is_lowest = torch.add(1 + _STEEPNESS * lowest, groups, alpha=-_STEEPNESS, out=groups).relu_()
        features += [sums.flatten(0, 1), is_lowest.mean(-1).flatten(0, 1)]
    return torch.cat(features).sqrt().T


def _dilations(points: int) -> list[int]:
    """Return the powers of two at which a kernel is shorter than the series; one at least."""
    return [2**power for power in range(_MAX_DILATIONS) if power == 0 or (_TAPS - 1) * 2**power < points]


@lru_cache(maxsize=8)
def random_kernels(channels: int, groups: int) -> list[Tensor]:
    """Return a matrix ``(groups · kernels, taps · channels)`` per dilation, always the same ones."""
    random = np.random.RandomState(0)  # its numbers are the same in all versions of NumPy
    matrices = []
    for _ in range(_MAX_DILATIONS):
        kernels = random.standard_normal((MAX_GROUPS, _KERNELS, _TAPS, 1))
        kernels -= kernels.mean(2, keepdims=True)
        kernels /= np.abs(kernels).sum(2, keepdims=True)
        mixture = random.standard_normal((MAX_GROUPS, 1, 1, channels))
        mixture /= np.sqrt(np.square(mixture).sum(-1, keepdims=True))
        matrices.append(torch.from_numpy((kernels * mixture)[:groups].reshape(groups * _KERNELS, -1)).float())
    return matrices
