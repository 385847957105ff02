"""A plain pre-norm transformer encoder; dropout is explicit (see ``noise.py``)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nutime.model.attention import HALF, attention_weights, first_token_attention, self_attention
from nutime.model.config import NuTimeConfig
from nutime.model.noise import Noise

_SITES_PER_LAYER = 4


def gelu(x: Tensor) -> Tensor:
    """Return GELU; in half precision on CUDA, its approximation by a sigmoid.

    The error is below half-precision rounding, and one exponential replaces the dozens of instructions of erf, for
    every element of the network's widest tensor.
    """
    if not x.is_cuda or x.dtype not in HALF:
        return F.gelu(x)
    if torch.compiler.is_compiling():
        return x * torch.sigmoid(x * (1.5957691216057308 + 0.07135481282553424 * x * x))
    return F.gelu(x, approximate="tanh")  # the same function in one kernel


class Layer(nn.Module):
    """Attention, then an MLP, each with pre-normalisation and a residual connection."""

    def __init__(self, config: NuTimeConfig, index: int) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.dropout
        self.first_site = 1 + _SITES_PER_LAYER * index  # site 0 is the token embedding's
        inner = config.heads * config.head_dim
        self.attention_norm = nn.LayerNorm(config.dim)
        self.qkv = nn.Linear(config.dim, 3 * inner, bias=False)
        self.attention_out = nn.Linear(inner, config.dim)
        self.mlp_norm = nn.LayerNorm(config.dim)
        self.mlp_in = nn.Linear(config.dim, config.mlp_dim)
        self.mlp_out = nn.Linear(config.mlp_dim, config.dim)

    def forward(self, tokens: Tensor, noise: Noise | None = None) -> Tensor:
        """Apply the layer to ``(batch, tokens, dim)``."""
        qkv = self.qkv(self.attention_norm(tokens))
        attended = self_attention(qkv, self.heads, self.dropout, self._keys(noise))
        return self._after_attention(tokens, attended, noise)

    def first(self, tokens: Tensor, noise: Noise | None = None) -> Tensor:
        """Return only the first token of :meth:`forward`, ``(batch, 1, dim)``, at a fraction of the cost."""
        normed = self.attention_norm(tokens)
        inner = self.attention_out.in_features
        query = F.linear(normed[:, :1], self.qkv.weight[:inner])
        key_value = F.linear(normed, self.qkv.weight[inner:])
        attended = first_token_attention(query, key_value, self.heads, self.dropout, self._keys(noise))
        return self._after_attention(tokens[:, :1], attended, noise)

    def _after_attention(self, tokens: Tensor, attended: Tensor, noise: Noise | None) -> Tensor:
        tokens = tokens + self._drop(self.attention_out(attended), noise, 1)
        hidden = self._drop(gelu(self.mlp_in(self.mlp_norm(tokens))), noise, 2)
        return tokens + self._drop(self.mlp_out(hidden), noise, 3)

    def _keys(self, noise: Noise | None) -> Tensor | None:
        return noise.row_keys(self.first_site) if noise else None

    def attention(self, tokens: Tensor) -> Tensor:
        """Return the attention weights of this layer on ``tokens``."""
        return attention_weights(self.qkv(self.attention_norm(tokens)), self.heads)

    def _drop(self, x: Tensor, noise: Noise | None, site: int) -> Tensor:
        return noise.drop(x, self.dropout, self.first_site + site) if noise else x


class Transformer(nn.Module):
    """The layers in order."""

    def __init__(self, config: NuTimeConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(config, index) for index in range(config.depth))

    def forward(self, tokens: Tensor, noise: Noise | None = None) -> Iterator[Tensor]:
        """Yield the tokens after every layer."""
        tokens = self._cast(tokens)
        for layer in self.layers:
            tokens = layer(tokens, noise)
            yield tokens

    def first(self, tokens: Tensor, noise: Noise | None = None) -> Tensor:
        """Return only the first token of the last layer, ``(batch, 1, dim)``; that layer computes no other."""
        tokens = self._cast(tokens)
        for layer in self.layers[:-1]:
            tokens = layer(tokens, noise)
        return self._last.first(tokens, noise)

    def attention(self, tokens: Tensor) -> Tensor:
        """Return the last layer's attention weights."""
        for layer in self.layers[:-1]:
            tokens = layer(tokens)
        return self._last.attention(tokens)

    @property
    def _last(self) -> Layer:
        last = self.layers[-1]
        assert isinstance(last, Layer)
        return last

    def _cast(self, tokens: Tensor) -> Tensor:
        """Cast the residual stream to the precision of the layers: half precision halves the memory traffic."""
        if torch.is_autocast_enabled(tokens.device.type):
            return tokens.to(torch.get_autocast_dtype(tokens.device.type))
        return tokens.to(self._last.qkv.weight.dtype)
