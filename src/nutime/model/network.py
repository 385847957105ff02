"""NuTime, the network of the paper's Section 3: tokens of windows, read by a transformer.

Input is ``(batch, channels, length)``, float32 or float64, finite, of any length that is a multiple of the
window; output is ``(batch, 1 + windows, dim)`` with ``[CLS]`` at position 0. Where the series come from, and
what becomes of the tokens, is not known here.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nutime.model.config import NuTimeConfig
from nutime.model.noise import Noise
from nutime.model.tokens import Tokens, sinusoids
from nutime.model.transformer import Transformer

#: ``[CLS]``; the mean of the windows' tokens; both; or both and the tokens' deviation, after every layer of the
#: upper half or after all layers; or the upper half's three times, from the finest reading to the coarsest.
POOLS = ("cls", "mean", "cls+mean", "upper", "layers", "resolutions")
#: Points of the finest reading that are averaged into one of each reading; the middle one is the network's own.
READINGS = (1, 4, 16)


class NuTimeNetwork(nn.Module):
    """The encoder as a plain module: tensors in, tensors out."""

    positions: Tensor

    def __init__(self, config: NuTimeConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = Tokens(config)
        self.transformer = Transformer(config)
        self.norm = nn.LayerNorm(config.dim)
        usual = 1 + config.length // config.window + 2 * (config.normalization == "instance+tokens")
        self.register_buffer("positions", sinusoids(usual, config.dim), persistent=False)

    def forward(self, series: Tensor, noise: Noise | None = None) -> Tensor:
        """Encode a batch; dropout happens where ``noise`` is given."""
        return self.hidden(series, noise)[-1]

    def hidden(self, series: Tensor, noise: Noise | None = None) -> list[Tensor]:
        """Return the stream after every layer, the last one normalised."""
        return self.read(self.tokens(series), noise)

    def read(self, tokens: Tensor, noise: Noise | None = None) -> list[Tensor]:
        """Do what :meth:`hidden` does, from the tokens of a series on: for those who have changed them."""
        streams = list(self.transformer(self._place(tokens, noise), noise))
        streams[-1] = self.norm(streams[-1])
        return streams

    def cls(self, series: Tensor, noise: Noise | None = None) -> Tensor:
        """Return ``[CLS]`` alone, ``(batch, dim)``: what :meth:`forward` has at position 0, for less work."""
        first: Tensor = self.norm(self.transformer.first(self._place(self.tokens(series), noise), noise))
        return first[:, 0]

    def pooled(self, series: Tensor, how: str, noise: Noise | None = None) -> Tensor:
        """Return one vector a series, in one of the ways of :data:`POOLS`."""
        check_pool(how)
        if how == "cls":
            return self.cls(series, noise)
        if how == "resolutions":
            readings = (series.reshape(*series.shape[:-1], -1, points).mean(-1) for points in READINGS)
            return torch.cat([self.pooled(reading, "upper", noise) for reading in readings], dim=-1)
        if how not in ("upper", "layers"):
            return pool_tokens(self(series, noise), how)
        streams = self.hidden(series, noise)
        parts = []
        for tokens in streams[len(streams) // 2 :] if how == "upper" else streams:
            windows = tokens[:, 1:]
            parts += [tokens[:, 0], windows.mean(1), windows.std(1, unbiased=False)]
        return torch.cat(parts, dim=-1)

    def attention(self, series: Tensor) -> Tensor:
        """Return the last layer's attention, ``(batch, heads, tokens, tokens)``; row 0 is ``[CLS]``'s."""
        return self.transformer.attention(self._place(self.tokens(series), None))

    def _place(self, tokens: Tensor, noise: Noise | None) -> Tensor:
        """Tell the tokens where they are."""
        count = tokens.shape[1]
        positions = self.positions
        if count > len(positions):
            positions = sinusoids(count, self.config.dim).to(tokens.device)
        tokens = tokens + positions[:count].to(tokens.dtype)
        return noise.drop(tokens, self.config.dropout, site=0) if noise else tokens


def check_pool(how: str) -> None:
    """Refuse what is not one of :data:`POOLS`."""
    if how not in POOLS:
        raise ValueError(f"pool must be one of {', '.join(POOLS)}; got {how!r}")


def unit_for(config: NuTimeConfig, how: str) -> int:
    """Return what the points of a series pooled so must be a multiple of: a window of the coarsest reading."""
    return config.window * (READINGS[-1] if how == "resolutions" else 1)


def points_for(config: NuTimeConfig, how: str) -> int:
    """Return how many points a series should have to be pooled so: the network's, or those of a finer reading."""
    if how != "resolutions":
        return config.length
    _, own, _ = READINGS
    unit = unit_for(config, how)
    return -(-own * config.length // unit) * unit


def pooled_size(config: NuTimeConfig, how: str) -> int:
    """Return the size of the vector that :meth:`NuTimeNetwork.pooled` makes."""
    check_pool(how)
    upper = 3 * (config.depth - config.depth // 2)
    parts = {"cls": 1, "mean": 1, "cls+mean": 2, "upper": upper, "layers": 3 * config.depth}
    return config.dim * (len(READINGS) * upper if how == "resolutions" else parts[how])


def count_parameters(module: nn.Module) -> int:
    """Return the number of trainable values."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def pool_tokens(tokens: Tensor, how: str) -> Tensor:
    """Reduce ``(batch, 1 + windows, dim)`` to one vector a series: ``cls``, ``mean`` or ``cls+mean``."""
    if how == "cls":
        return tokens[:, 0]
    mean = tokens[:, 1:].mean(1)
    if how == "mean":
        return mean
    return torch.cat([tokens[:, 0], mean], dim=-1)
