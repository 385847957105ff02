"""From a series to the transformer's tokens (paper, Sections 3.2 and 3.4).

Each window becomes a token: its shape, mean and standard deviation are embedded, concatenated and projected.
Channels share these parameters, and one more projection combines them. With the other values of
``config.normalization``, the paper's ablations, the values of a window are embedded directly, without its
statistics.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nutime.model.config import NuTimeConfig
from nutime.model.scalars import scalar_embeddings
from nutime.model.windows import split_windows, window_statistics


class Tokens(nn.Module):
    """Embed ``(batch, channels, length)`` as ``(batch, tokens, dim)``, position 0 being ``[CLS]``."""

    corpus_statistics: Tensor

    def __init__(self, config: NuTimeConfig) -> None:
        super().__init__()
        self.config = config
        dim = config.dim
        self.shape_embedding = nn.Sequential(nn.Linear(config.window, dim), nn.LayerNorm(dim))
        has_scalars = config.normalization in ("window", "instance+tokens")
        self.scalar_embeddings = scalar_embeddings(config) if has_scalars else nn.ModuleList()
        scalars_width = 2 * config.scalar_dim if len(self.scalar_embeddings) else 0
        if config.normalization == "window":
            self.projection = nn.Sequential(nn.Linear(dim + scalars_width, dim), nn.LayerNorm(dim))
        elif scalars_width:
            self.statistics_projection = nn.Sequential(nn.Linear(config.scalar_dim, dim), nn.LayerNorm(dim))
        if config.channels > 1:
            self.channel_projection = nn.Sequential(_channel_projection(config.channels, dim), nn.LayerNorm(dim))
        if config.normalization == "zscore":
            self.register_buffer("corpus_statistics", torch.tensor([0.0, 1.0], dtype=torch.float64))
        self.cls = nn.Parameter(0.02 * torch.randn(dim))

    def forward(self, series: Tensor) -> Tensor:
        """Return the tokens, without positions."""
        channels = series.shape[1]
        if channels != self.config.channels:
            raise ValueError(f"the network reads {self.config.channels} channel(s), got {channels}")
        tokens = self._windows(series) if self.config.normalization == "window" else self._ablation(series)
        if channels > 1:
            tokens = self.channel_projection(tokens.transpose(1, 2).flatten(2))
        else:
            tokens = tokens.squeeze(1)
        return torch.cat([self.cls.to(tokens.dtype).expand(tokens.shape[0], 1, -1), tokens], dim=1)

    def _windows(self, series: Tensor) -> Tensor:
        shape, mean, std = window_statistics(split_windows(series, self.config.window))
        parts = [self.shape_embedding(shape.to(self.cls.dtype))]
        if len(self.scalar_embeddings):
            parts += [self.scalar_embeddings[0](mean), self.scalar_embeddings[-1](std)]
        projected: Tensor = self.projection(torch.cat([part.to(parts[0].dtype) for part in parts], dim=-1))
        return projected

    def _ablation(self, series: Tensor) -> Tensor:
        if self.config.normalization == "zscore":
            mean, std = self.corpus_statistics.to(series.dtype)
            series = (series - mean) / std
        elif self.config.normalization != "identity":
            series, mean, std = window_statistics(series)
        limit = torch.finfo(self.cls.dtype).max ** 0.25  # what LayerNorm can still square and sum
        windows = split_windows(series, self.config.window).clamp(-limit, limit)
        tokens: Tensor = self.shape_embedding(windows.to(self.cls.dtype))
        if len(self.scalar_embeddings):
            scalars = [self.scalar_embeddings[0](mean), self.scalar_embeddings[-1](std)]
            statistics = self.statistics_projection(torch.stack(scalars, dim=2).to(tokens.dtype))
            tokens = torch.cat([tokens, statistics], dim=2)
        return tokens


def _channel_projection(channels: int, dim: int) -> nn.Linear:
    """Return a linear layer that starts as the sum of the channels' tokens, each rotated differently.

    Rotations keep the distances a pretrained transformer expects, and keep channels distinguishable.
    """
    projection = nn.Linear(channels * dim, dim)
    for block in torch.split(projection.weight.detach(), dim, dim=1):
        nn.init.orthogonal_(block, gain=channels**-0.5)
    nn.init.zeros_(projection.bias)
    return projection


def sinusoids(count: int, dim: int, device: torch.device | None = None) -> Tensor:
    """Fixed positional encoding of ``count`` positions, ``(count, dim)``."""
    frequency = 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64, device=device) / dim)
    angle = torch.arange(count, dtype=torch.float64, device=device)[:, None] * frequency
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).float()
