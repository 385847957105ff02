"""From the representation of windows back to values: quantiles of every point, observed or not.

A small transformer reads, for every window, the encoder's token and the context of its points (``context.py``).
For each point it mixes the guesses of the context and adds a correction per quantile. The encoder is frozen; it
reads the series with missing points replaced by a guess.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nutime.model.config import NuTimeConfig
from nutime.model.context import context_of
from nutime.model.network import NuTimeNetwork
from nutime.model.tokens import sinusoids
from nutime.model.transformer import Transformer

#: The quantiles a decoder predicts.
QUANTILES = (0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975)
#: Points the decoder reads at once, observed and missing ones together.
CONTEXT = 1024
_FEATURES, _GUESSES = 10, 5


class Decoder(nn.Module):
    """Quantiles of the values of a series, given those observed."""

    positions: Tensor

    def __init__(self, config: NuTimeConfig) -> None:
        """Build a decoder for the tokens of an encoder with this config."""
        super().__init__()
        self.window = config.window
        shape = NuTimeConfig(dim=256, depth=4, heads=8, head_dim=32, mlp_dim=1024, window=config.window)
        outputs = _GUESSES + len(QUANTILES)
        self.tokens_in = nn.Linear(2 * config.dim, shape.dim)
        self.points_in = nn.Sequential(
            nn.Linear(config.window * _FEATURES, shape.mlp_dim), nn.GELU(), nn.Linear(shape.mlp_dim, shape.dim)
        )
        self.transformer = Transformer(shape)
        self.norm = nn.LayerNorm(shape.dim)
        last = nn.Linear(shape.mlp_dim, config.window * outputs)
        nn.init.zeros_(last.weight)  # training starts from the mean of the guesses
        self.points_out = nn.Sequential(nn.Linear(shape.dim, shape.mlp_dim), nn.GELU(), last)
        self.register_buffer("positions", sinusoids(CONTEXT // config.window, shape.dim), persistent=False)

    def forward(self, encoder: NuTimeNetwork, values: Tensor, observed: Tensor, present: Tensor) -> Tensor:
        """Return ``(batch, CONTEXT, quantiles)``, not sorted, of compressed ``(batch, CONTEXT)`` values."""
        batch, length = values.shape
        guesses, features = context_of(values, observed, present)
        with torch.no_grad():
            filled = torch.where(observed, values, guesses[..., 2])
            layers = encoder.hidden(torch.sinh(filled)[:, None])
            tokens = torch.cat([layers[len(layers) // 2][:, 1:], layers[-1][:, 1:]], -1)
        x = self.tokens_in(tokens) + self.points_in(features.reshape(batch, length // self.window, -1))
        x = x + self.positions
        *_, x = self.transformer(x)
        outputs: Tensor = self.points_out(self.norm(x)).float().view(batch, length, -1)
        mixed = (outputs[..., :_GUESSES].softmax(-1) * guesses).sum(-1, keepdim=True)
        return mixed + outputs[..., _GUESSES:]


def pinball(predicted: Tensor, values: Tensor) -> Tensor:
    """Return the quantile loss of every point, ``(batch, length)``: the mean over :data:`QUANTILES`."""
    levels = torch.tensor(QUANTILES, device=predicted.device)
    error = values[..., None] - predicted
    return torch.maximum(levels * error, (levels - 1) * error).mean(-1)
