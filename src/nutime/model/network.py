"""The NuTime encoder (paper, Section 3.2): window tokens, positional encoding, transformer.

Input is ``(batch, channels, length)``, finite float32 or float64 whose length is a multiple of the window; output
is ``(batch, 1 + windows, dim)`` with ``[CLS]`` at position 0.
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
        """Return the normalised tokens of the last layer.

        Args:
            series: a batch.
            noise: the randomness of dropout; no dropout without it.
            windows: ``(batch, k)`` indices of the windows to encode, at their own positions; all by default.
        """
        return self.hidden(series, noise, windows)[-1]

    def hidden(self, series: Tensor, noise: Noise | None = None, windows: Tensor | None = None) -> list[Tensor]:
        """Return the tokens of every layer, the last ones normalised; see :meth:`forward`."""
        layers = list(self.transformer(self._input_tokens(series, noise, windows), noise))
        layers[-1] = self.norm(layers[-1])
        return layers

    def cls(self, series: Tensor, noise: Noise | None = None, windows: Tensor | None = None) -> Tensor:
        """Return ``[CLS]``, ``(batch, dim)``: position 0 of :meth:`forward`, at a lower cost."""
        first: Tensor = self.norm(self.transformer.first(self._input_tokens(series, noise, windows), noise))
        return first[:, 0]

    def pooled(
        self, series: Tensor, pool: str, noise: Noise | None = None, windows: Tensor | None = None
    ) -> Tensor:
        """Return one vector per series; ``pool`` is one of :data:`~nutime.model.reading.NETWORK_POOLS`.

        ``noise`` and ``windows`` are as in :meth:`forward`; ``resolutions`` always encodes all windows.
        """
        check_pool(pool, NETWORK_POOLS)
        if pool == "cls":
            return self.cls(series, noise, windows)
        if pool == "resolutions":
            resolutions = (_averaged(series, points) for points in RESOLUTIONS)
            return torch.cat([self.pooled(resolution, "upper", noise) for resolution in resolutions], dim=-1)
        layers = self.hidden(series, noise, windows)
        if pool in ("upper", "layers"):
            first = len(layers) // 2 if pool == "upper" else 0
            return torch.cat([_summary(tokens) for tokens in layers[first:]], dim=-1)
        tokens = layers[-1]
        mean = tokens[:, 1:].mean(1)
        return mean if pool == "mean" else torch.cat([tokens[:, 0], mean], dim=-1)

    def vectors(self, series: Tensor, reading: Reading) -> Tensor:
        """Return the network's part of the embedding, one vector per series of ``reading.points`` points.

        If series are read in pieces, the vector has three parts: the pooled whole, the mean over the pooled
        pieces, and the largest deviation of a piece from that mean, which shows an event confined to one piece.
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
        return self.transformer.attention(self._input_tokens(series))

    def _input_tokens(self, series: Tensor, noise: Noise | None = None, windows: Tensor | None = None) -> Tensor:
        """Return the transformer's input: tokens plus positional encoding."""
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
    """Return the mean of every ``points`` points; divided before the sum, which could overflow."""
    return torch.unflatten(series / points, -1, (-1, points)).sum(-1)


def _summary(tokens: Tensor) -> Tensor:
    """Return ``[CLS]`` and the mean and standard deviation of the window tokens, ``(batch, 3 · dim)``."""
    windows = tokens[:, 1:]
    mean = windows.mean(1)
    # Faster than torch.std, which is slow along any axis but the last. The clamp gives the root a gradient: in
    # half precision all windows sometimes have the same value.
    variance = (windows - mean[:, None]).square().mean(1).clamp(min=torch.finfo(windows.dtype).tiny)
    return torch.cat([tokens[:, 0], mean, variance.sqrt()], dim=-1)


def count_parameters(module: nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
