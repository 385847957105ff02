"""The integer hash behind all randomness, and dropout's decisions by it.

The hash is the 32-bit finaliser with the multipliers 0x7feb352d and 0x846ca68b (Wellons' "lowbias32"), kept in
signed 32-bit arithmetic, which wraps the same way on every device.
"""

from __future__ import annotations

import torch
from torch import Tensor

MULTIPLIER_1 = 0x7FEB352D
MULTIPLIER_2 = 0x846CA68B - (1 << 32)


def hash32(x: Tensor) -> Tensor:
    """Hash int32 values."""
    x = (x ^ ((x >> 16) & 0xFFFF)) * MULTIPLIER_1
    x = (x ^ ((x >> 15) & 0x1FFFF)) * MULTIPLIER_2
    return x ^ ((x >> 16) & 0xFFFF)


def decide(x: Tensor) -> Tensor:
    """Hash int32 counters that include a hashed key: the cheap core of :func:`hash32`.

    Its high bits are as random as those of the full hash, and thresholding depends on the high bits.
    """
    x = x * MULTIPLIER_1
    high = x >> 15
    high &= 0x1FFFF
    x ^= high  # in place: dropout is memory-bound on a CPU
    x *= MULTIPLIER_2
    return x


def kept_factor(decisions: Tensor, rate: float, dtype: torch.dtype) -> Tensor:
    """Return the factor of dropout: 0, or the scale that keeps the expectation."""
    return (decisions >= threshold(rate)).to(dtype).mul_(kept_scale(rate))


def threshold(rate: float) -> int:
    """The int32 below which a decision means "drop"."""
    return round(rate * 2**32) - 2**31


def kept_scale(rate: float) -> float:
    """The factor that keeps the expectation unchanged."""
    return 1 / (1 - rate)
