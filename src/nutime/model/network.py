"""NuTime, the network of the paper's Section 3: a transformer over the tokens of windows.

Input is ``(batch, channels, length)``, float32 or float64, finite, of any length that is a multiple of the window;
output is ``(batch, 1 + windows, dim)`` with ``[CLS]`` at position 0.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nutime.model.config import NuTimeConfig
from nutime.model.noise import Noise
from nutime.model.reading import NETWORK_POOLS, RESOLUTIONS, Reading, check_pool
from nutime.model.tokens import Tokens, sinusoids
from nutime.model.transformer import Transformer
from nutime.model.windows import take_windows


class NuTimeNetwork(nn.Module):
    """The encoder as a plain module: tensors in, tensors out."""

    positions: Tensor

    def __init__(self, config: NuTimeConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = Tokens(config)
        self.transformer = Transformer(config)
        self.norm = nn.LayerNorm(config.dim)
        tokens = 1 + config.length // config.window + 2 * (config.normalization == "instance+tokens")
        self.register_buffer("positions", sinusoids(tokens, config.dim), persistent=False)

    def forward(self, series: Tensor, noise: Noise | None = None, windows: Tensor | None = None) -> Tensor:
        """Encode a batch, with dropout if ``noise`` is given.

        With ``windows``, ``(batch, k)`` indices, only these of each series are encoded, at their own positions.
        """
        return self.hidden(series, noise, windows)[-1]

    def hidden(self, series: Tensor, noise: Noise | None = None, windows: Tensor | None = None) -> list[Tensor]:
        """Return the tokens after every layer, the last ones normalised; see :meth:`forward`."""
        streams = list(self.transformer(self._placed_tokens(series, noise, windows), noise))
        streams[-1] = self.norm(streams[-1])
        return streams

    def cls(self, series: Tensor, noise: Noise | None = None, windows: Tensor | None = None) -> Tensor:
        """Return ``[CLS]``, ``(batch, dim)``: position 0 of :meth:`forward`, computed with less work."""
        first: Tensor = self.norm(self.transformer.first(self._placed_tokens(series, noise, windows), noise))
        return first[:, 0]

    def pooled(
        self, series: Tensor, pool: str, noise: Noise | None = None, windows: Tensor | None = None
    ) -> Tensor:
        """Return one vector per series; ``pool`` is one of :data:`~nutime.model.reading.NETWORK_POOLS`.

        ``windows`` are as in :meth:`forward`; the pools of one resolution can have them.
        """
        check_pool(pool, NETWORK_POOLS)
        if pool == "cls":
            return self.cls(series, noise, windows)
        if pool == "resolutions":
            resolutions = (_averaged(series, points) for points in RESOLUTIONS)
            return torch.cat([self.pooled(reading, "upper", noise) for reading in resolutions], dim=-1)
        if pool not in ("upper", "layers"):
            return pool_tokens(self(series, noise, windows), pool)
        streams = self.hidden(series, noise, windows)
        parts = []
        for tokens in streams[len(streams) // 2 :] if pool == "upper" else streams:
            windows = tokens[:, 1:]
            mean = windows.mean(1)
            # Faster than torch.std, which is slow along any axis but the last. The root of zero has no gradient;
            # in half precision a value is sometimes the same in all windows.
            variance = (windows - mean[:, None]).square().mean(1).clamp(min=torch.finfo(windows.dtype).tiny)
            parts += [tokens[:, 0], mean, variance.sqrt()]
        return torch.cat(parts, dim=-1)

    def vectors(self, series: Tensor, reading: Reading) -> Tensor:
        """Return one vector per series of ``reading.points`` points, without the features of convolutions.

        A series in pieces has three parts: the pooled whole, the mean over the pooled pieces, and their largest
        deviation from it, in which an event of a single piece is visible.
        """
        if not reading.pieces:
            return self.pooled(series, reading.pool)
        whole = self.pooled(_averaged(series, reading.pieces), reading.pool)
        pieces = torch.unflatten(series, -1, (reading.pieces, reading.length)).transpose(1, 2)
        pooled = torch.unflatten(self.pooled(pieces.flatten(0, 1), reading.pool), 0, (-1, reading.pieces))
        mean = pooled.mean(1)
        return torch.cat([whole, mean, (pooled - mean[:, None]).abs().amax(1)], dim=-1)

    def attention(self, series: Tensor) -> Tensor:
        """Return the last layer's attention, ``(batch, heads, tokens, tokens)``; row 0 is ``[CLS]``'s."""
        return self.transformer.attention(self._placed_tokens(series))

    def _placed_tokens(self, series: Tensor, noise: Noise | None = None, windows: Tensor | None = None) -> Tensor:
        """Return the tokens with the positional encoding."""
        config, positions = self.config, self.positions
        tokens = self.tokens(series if windows is None else take_windows(series, windows, config.window))
        count = tokens.shape[1] if windows is None else 1 + series.shape[-1] // config.window
        if count > len(positions):
            positions = sinusoids(count, config.dim, tokens.device)
        positions = positions[:count].to(tokens.dtype)
        if windows is not None:
            positions = torch.cat([positions[:1].expand(len(windows), 1, -1), positions[1:][windows]], dim=1)
        tokens = tokens + positions
        return noise.drop(tokens, config.dropout, site=0) if noise else tokens


def _averaged(series: Tensor, points: int) -> Tensor:
    """Return the mean of every so many points; divided first, because the sum of huge values would overflow."""
    return torch.unflatten(series / points, -1, (-1, points)).sum(-1)


def count_parameters(module: nn.Module) -> int:
    """Return the number of trainable values."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def pool_tokens(tokens: Tensor, pool: str) -> Tensor:
    """Reduce ``(batch, 1 + windows, dim)`` to one vector per series: ``cls``, ``mean`` or ``cls+mean``."""
    if pool == "cls":
        return tokens[:, 0]
    mean = tokens[:, 1:].mean(1)
    if pool == "mean":
        return mean
    return torch.cat([tokens[:, 0], mean], dim=-1)
