"""Guesses of missing points from observed ones, before any network: from neighbours in time and in phase.

Values are ``(batch, length)``; ``observed`` and ``present`` are masks of that shape. A point is *observed* if its
value is known, *missing* if it is present but not observed, and not *present* in the padding before short series.
Everything is computed from differences to the observed mean, in units of the observed standard deviation and
compressed by asinh, so that results for a·x + b are those for x, transformed.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

_CYCLES = 8  # looked for before and after a point
_MIN_RISE = 0.25  # of the autocorrelation, for a period
_NEARLY = 0.8  # the shortest period whose peak is nearly the highest


class Context(NamedTuple):
    """Guesses of every point's value from other points, and the inputs of a decoder.

    Attributes:
        guesses: ``(batch, length, 5)``: interpolated in time; then, for the shortest and for the strongest period,
            the nearest cycles and the mean of up to eight cycles on either side.
        features: ``(batch, length, 10)``: the observed values, the masks, the guesses, and whether each period
            has an observed cycle.
    """

    guesses: Tensor
    features: Tensor


class Affine(NamedTuple):
    """Level and scale of each series, ``(batch, 1)`` float64, and the compression between them and the network."""

    level: Tensor
    scale: Tensor

    @classmethod
    def fit(cls, values: Tensor, observed: Tensor) -> Affine:
        """Return the mean and the standard deviation of the observed values."""
        values, count = values.double(), observed.sum(1, keepdim=True).clamp(min=1)
        # Relative to an observed value: a small variation on a large level keeps its digits.
        first = values.gather(1, observed.byte().argmax(1, keepdim=True))
        centred = torch.where(observed, values - first, 0)
        mean = centred.sum(1, keepdim=True) / count
        scale = (torch.where(observed, centred - mean, 0).square().sum(1, keepdim=True) / count).sqrt()
        return cls(first + mean, scale)

    def compress(self, values: Tensor) -> Tensor:
        """Return values without unit, float32."""
        return torch.asinh((values.double() - self.level) / torch.where(self.scale > 0, self.scale, 1)).float()

    def restore(self, compressed: Tensor) -> Tensor:
        """Return values in the original unit, float64, of ``(batch, …)``; a constant series stays constant."""
        shape = (-1, *[1] * (compressed.dim() - 1))
        return torch.sinh(compressed.double()) * self.scale.view(shape) + self.level.view(shape)


def context_of(values: Tensor, observed: Tensor, present: Tensor) -> Context:
    """Compute the context of compressed values; those not observed are not read."""
    values = torch.where(observed, values, 0)
    interpolated = _interpolate(values, observed)
    guesses, available = [interpolated], []
    for period in periods_of(values, observed).unbind(1):
        near, mean, any_cycle = _seasonal(values, observed, interpolated, period[:, None])
        guesses += [near, mean]
        available.append(any_cycle.to(values.dtype))
    masks = [observed.to(values.dtype), present.to(values.dtype)]
    return Context(torch.stack(guesses, -1), torch.stack([values, *masks, *guesses, *available], -1))


def _interpolate(values: Tensor, observed: Tensor) -> Tensor:
    """Interpolate linearly between observed points, and hold the first and the last one beyond them."""
    length = values.shape[1]
    index = torch.arange(length, device=values.device).expand_as(values)
    left = torch.where(observed, index, -1).cummax(1).values
    right = torch.where(observed, index, length).flip(1).cummin(1).values.flip(1)
    left, right = torch.where(left < 0, right, left), torch.where(right >= length, left, right)
    left, right = left.clamp(0, length - 1), right.clamp(0, length - 1)
    share = (index - left) / (right - left).clamp(min=1)
    return torch.lerp(values.gather(1, left), values.gather(1, right), share.clamp(0, 1).to(values.dtype))


def periods_of(values: Tensor, observed: Tensor) -> Tensor:
    """Return the shortest and the strongest period of each series, ``(batch, 2)`` int64; 0 where there is none.

    A period is a local maximum of the autocorrelation of the observed points that rises above an earlier minimum.
    """
    length = values.shape[1]
    mask = observed.float()
    count = mask.sum(1, keepdim=True).clamp(min=1)
    time = torch.linspace(-1, 1, length, device=values.device) * mask
    time = (time - time.sum(1, keepdim=True) / count) * mask
    centred = (values - (values * mask).sum(1, keepdim=True) / count) * mask
    slope = (centred * time).sum(1, keepdim=True) / time.square().sum(1, keepdim=True).clamp(min=1e-6)
    pairs = _lagged_products(mask)
    curve = _lagged_products(centred - slope * time) / pairs.clamp(min=0.5)
    curve = curve / curve[:, :1].clamp(min=1e-9)
    rise = curve - curve.cummin(1).values
    neighbours = F.pad(curve, (1, 1), value=2.0)
    peak = (curve >= neighbours[:, :-2]) & (curve >= neighbours[:, 2:]) & (pairs >= (count / 3).clamp(min=6))
    score = torch.where(peak, rise * pairs / count, 0)  # long lags are seen in fewer cycles
    strongest = score.max(1, keepdim=True)
    shortest = (score >= _NEARLY * strongest.values).byte().argmax(1, keepdim=True)
    found = strongest.values > _MIN_RISE
    return torch.where(found, torch.cat([shortest, strongest.indices], 1), 0)


def _lagged_products(x: Tensor) -> Tensor:
    """Return Σ x(t)·x(t + lag) for all lags."""
    length = x.shape[1]
    products: Tensor = torch.fft.irfft(torch.fft.rfft(x, 2 * length).abs().square(), 2 * length)
    return products[:, :length]


def _seasonal(
    values: Tensor, observed: Tensor, interpolated: Tensor, period: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the value at the same phase: of the nearest cycles, the mean of many, and whether any is observed."""
    length = values.shape[1]
    index = torch.arange(length, device=values.device)
    total, weight = torch.zeros_like(values), torch.zeros_like(values)
    nearest = []
    for direction in (-1, 1):
        value, found = torch.zeros_like(values), torch.zeros_like(observed)
        for cycle in range(1, _CYCLES + 1):
            source = index + direction * cycle * period
            inside = (source >= 0) & (source < length) & (period > 0)
            source = source.clamp(0, length - 1)
            known = inside & observed.gather(1, source)
            there = values.gather(1, source)
            value = torch.where(known & ~found, there, value)
            found = found | known
            total = total + known * there / cycle
            weight = weight + known / cycle
        nearest.append((value, found))
    (before, has_before), (after, has_after) = nearest
    sides = has_before.to(values.dtype) + has_after
    near = torch.where(sides > 0, (before + after) / sides.clamp(min=1), interpolated)
    mean = torch.where(sides > 0, total / weight.clamp(min=1e-6), interpolated)
    return near, mean, sides > 0
