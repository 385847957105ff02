"""Embedding of scalars of any magnitude (paper, Section 3.3), and the alternatives of its ablation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nutime.model.config import NuTimeConfig, ScaleWeighting

_LOG_EPSILON = 1e-6
_SMALLEST_VARIANCE = 1e-12


class MultiScaledEmbedding(nn.Module):
    """The paper's numerically multi-scaled embedding (NME), e(x) = Σ αᵢ(x)·yᵢ(x).

    A block yᵢ(x) = LayerNorm(x·w + k·b) resolves numbers near its scale k; its weight αᵢ grows with the closeness
    of |x| to k. LayerNorm centres w and b and divides by a standard deviation σᵢ(x). With b = s·w + rest, where
    rest is orthogonal to w, and r = x/k,

        yᵢ(x) = ((r + s)·w + rest) / σᵢ(x),    σᵢ(x)² = (r + s)²·var(w) + var(rest) + ε/k²,

    so the sum over n scales is a single product of an ``(..., 2n)`` matrix with 2n vectors, and the ``(..., n,
    dim)`` tensor of all blocks is never built. A sum of squares loses no digits to cancellation; dividing
    numerator and σ by max(|r|, 1) keeps every finite x from overflowing.
    """

    scales: Tensor

    def __init__(self, scales: Sequence[float], dim: int, weighting: ScaleWeighting, epsilon: float) -> None:
        super().__init__()
        self.register_buffer("scales", torch.tensor(scales, dtype=torch.float64), persistent=False)
        self.weight = nn.Parameter(torch.empty(len(scales), dim).uniform_(-1, 1))
        self.bias = nn.Parameter(torch.empty(len(scales), dim).uniform_(-1, 1))
        self.weighting = weighting
        self.epsilon = epsilon
        self.smallest_scale = min(scales)

    def forward(self, x: Tensor) -> Tensor:
        """Embed ``(...)`` as ``(..., dim)``."""
        limit = torch.finfo(x.dtype).max * min(self.smallest_scale, 1.0) / 2
        scales = self.scales.to(x.dtype)
        ratio = x.clamp(-limit, limit).unsqueeze(-1) / scales
        divisor = ratio.abs().clamp(min=1)
        precision = self.weight.dtype
        r, one = (ratio / divisor).to(precision), divisor.reciprocal().to(precision)

        w = self.weight - self.weight.mean(-1, keepdim=True)
        b = self.bias - self.bias.mean(-1, keepdim=True)
        var_w = w.square().mean(-1)
        slope = (w * b).mean(-1) / var_w.clamp(min=_SMALLEST_VARIANCE)
        rest = b - slope.unsqueeze(-1) * w
        var_rest = rest.square().mean(-1) + self.epsilon / scales.to(precision).square()
        along = r + one * slope
        variance = along.square() * var_w + one.square() * var_rest
        gain = self._weights(ratio).to(precision) * variance.clamp(min=_SMALLEST_VARIANCE).rsqrt()
        return torch.cat([gain * along, gain * one], dim=-1) @ torch.cat([w, rest])

    def _weights(self, ratio: Tensor) -> Tensor:
        if self.weighting == "plain":
            return torch.full_like(ratio, 1 / ratio.shape[-1])
        closeness = ((ratio.abs() + _LOG_EPSILON).log().abs() + _LOG_EPSILON).reciprocal()
        return closeness / closeness.sum(-1, keepdim=True)


class PiecewiseLinearEmbedding(nn.Module):
    """Piecewise-linear encoding: each value is the share of a bin below x, from 0 to 1.

    The ``dim + 1`` edges of the bins come from data and belong to the weights (:meth:`set_edges`): quantiles for
    PLE-Q, a decision tree's thresholds for PLE-T. Values beyond the bins saturate.
    """

    edges: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        tail = 1 / (2 * dim)
        normal_quantiles = torch.special.ndtri(torch.linspace(tail, 1 - tail, dim + 1, dtype=torch.float64))
        self.register_buffer("edges", normal_quantiles)

    def set_edges(self, edges: Tensor) -> None:
        """Set the bin edges: ``dim + 1`` increasing values."""
        if edges.shape != self.edges.shape or not bool((edges.diff() > 0).all() and edges.isfinite().all()):
            raise ValueError(f"expected {len(self.edges)} increasing edges, got {edges.tolist()}")
        self.edges.copy_(edges)

    def forward(self, x: Tensor) -> Tensor:
        """Embed ``(...)`` as ``(..., dim)``."""
        low, high = self.edges[:-1], self.edges[1:]
        return ((x.double().unsqueeze(-1) - low) / (high - low)).clamp(0, 1).float()


class PeriodicEmbedding(nn.Module):
    """Sines and cosines of learnt frequencies."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.frequency = nn.Parameter(torch.randn(dim // 2))

    def forward(self, x: Tensor) -> Tensor:
        """Embed ``(...)`` as ``(..., dim)``."""
        limit = math.sqrt(torch.finfo(x.dtype).max)
        angle = 2 * math.pi * x.clamp(-limit, limit).unsqueeze(-1) * self.frequency.to(x.dtype)
        return torch.cat([angle.sin(), angle.cos()], dim=-1).to(self.frequency.dtype)


def scalar_embeddings(config: NuTimeConfig) -> nn.ModuleList:
    """Build the modules that embed mean and std: one shared by both, or one each if its bins come from data."""
    if not config.embeds_scalars:
        return nn.ModuleList()
    dim = config.scalar_dim
    if config.scalar_embedding == "nme":
        nme = MultiScaledEmbedding(config.scale_values, dim, config.scale_weighting, config.scalar_epsilon)
        return nn.ModuleList([nme])
    if config.scalar_embedding == "ple-p":
        return nn.ModuleList([PeriodicEmbedding(dim)])
    return nn.ModuleList([PiecewiseLinearEmbedding(dim), PiecewiseLinearEmbedding(dim)])
