"""Random resized crops on the training device: a gather and a lerp on one flat array of values.

There is no loader. All series are concatenated in one tensor on the device; a crop is described by real numbers
(its start and its share of the series), so that series of any length can be cropped without a host sync.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

#: Values averaged per point where a crop is shrunk.
SHRINK_SAMPLES = 4


@dataclass(frozen=True)
class FlatSeries:
    """Concatenated series.

    Attributes:
        values: all values, ``(total,)`` float32.
        starts: the index of the first value of each series, ``(n,)`` int64.
        lengths: the number of points of each series, ``(n,)`` int64.
    """

    values: Tensor
    starts: Tensor
    lengths: Tensor

    def to(self, device: torch.device | str) -> FlatSeries:
        """Copy to a device."""
        return FlatSeries(self.values.to(device), self.starts.to(device), self.lengths.to(device))

    def __len__(self) -> int:
        return len(self.starts)


def crop(
    series: FlatSeries,
    index: Tensor,
    begin: Tensor,
    share: Tensor,
    points: int,
    samples: int = 1,
    warp: Tensor | None = None,
) -> Tensor:
    """Cut a stretch out of each chosen series and resize it.

    Positions are float32: good to a ten-thousandth of a point in series of a thousand points.

    Args:
        series: where to cut.
        index: ``(batch,)`` which series.
        begin: ``(batch,)`` in [0, 1]: where between its leftmost and rightmost position the stretch starts.
        share: ``(batch,)`` in (0, 1]: the share of the series it covers.
        points: the length to resize to.
        samples: values averaged per point where the stretch is shrunk, against aliasing.
        warp: ``(batch, waves)`` in [−1, 1]: amplitudes of half sine waves by which time runs faster or slower
            within the stretch, never backwards.

    Returns:
        ``(batch, points)``.
    """
    length = series.lengths[index].float()[:, None]
    extent = length * share.float()[:, None]
    first = (length - extent) * begin.float()[:, None]
    grid = (torch.arange(points, device=index.device) + 0.5) / points
    if warp is not None:
        frequency = math.pi * torch.arange(1, 1 + warp.shape[1], device=index.device)
        waves = torch.sin(frequency[:, None] * grid) / (warp.shape[1] * frequency[:, None])
        grid = grid + warp.float() @ waves
    position = first + extent * grid - 0.5
    if samples > 1:
        offset = (torch.arange(samples, device=index.device) + 0.5) / samples - 0.5
        spread = torch.where(extent > points, extent / points, 0)
        position = (position[..., None] + spread[..., None] * offset).flatten(1)
    position = torch.minimum(position.clamp(min=0), length - 1)
    left = position.long()
    right = torch.minimum(left + 1, series.lengths[index][:, None] - 1)
    start = series.starts[index][:, None]
    before, after = series.values[start + left], series.values[start + right]
    values = before + (position - left) * (after - before)
    return values if samples == 1 else values.view(-1, points, samples).mean(-1)
