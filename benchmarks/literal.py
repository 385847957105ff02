"""A literal implementation of NuTime and BYOL, as the baseline of benchmarks.

Every formula of the paper is computed as printed: the (…, scales, dim) tensor of the scalar embedding, torch's
dropout and attention, one view after the other, one crop after the other, one target parameter after the other.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class LiteralNME(nn.Module):
    """One linear + LayerNorm block per scale, averaged with the paper's weights."""

    def __init__(self, scales: list[float], dim: int) -> None:
        super().__init__()
        self.register_buffer("scales", torch.tensor(scales))
        self.weight = nn.Parameter(torch.empty(len(scales), dim).uniform_(-1, 1))
        self.bias = nn.Parameter(torch.empty(len(scales), dim).uniform_(-1, 1))

    def forward(self, x: Tensor) -> Tensor:
        z = x[..., None, None] * self.weight + self.scales[:, None] * self.bias
        y = F.layer_norm(z, z.shape[-1:])
        closeness = 1 / (((x.abs()[..., None] / self.scales + 1e-6).log()).abs() + 1e-6)
        alpha = closeness / closeness.sum(-1, keepdim=True)
        return (alpha[..., None] * y).sum(-2)


class LiteralLayer(nn.Module):
    """Pre-norm attention and MLP."""

    def __init__(self, dim: int, heads: int, head_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * heads * head_dim, bias=False)
        self.out = nn.Sequential(nn.Linear(heads * head_dim, dim), nn.Dropout(dropout))
        self.mlp = nn.Sequential(
            nn.Linear(dim, mlp_dim), nn.GELU(), nn.Dropout(dropout), nn.Linear(mlp_dim, dim), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        a = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0)
        x = x + self.out(a.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class LiteralNuTime(nn.Module):
    """The paper's Section 3, univariate."""

    def __init__(self, head_dim: int = 16, dropout: float = 0.1) -> None:
        super().__init__()
        self.shape = nn.Sequential(nn.Linear(16, 128), nn.LayerNorm(128))
        self.nme = LiteralNME([10.0**power for power in range(-4, 5)], 32)
        self.join = nn.Sequential(nn.Linear(192, 128), nn.LayerNorm(128))
        self.cls = nn.Parameter(torch.randn(1, 1, 128))
        position = torch.arange(33)[:, None] * 10000 ** (-torch.arange(0, 128, 2) / 128)
        self.register_buffer("positions", torch.stack([position.sin(), position.cos()], -1).flatten(1))
        self.layers = nn.ModuleList(LiteralLayer(128, 8, head_dim, 512, dropout) for _ in range(6))
        self.norm = nn.LayerNorm(128)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        windows = x.unflatten(-1, (32, 16))
        mean, std = windows.mean(-1), windows.std(-1)
        shape = self.shape((windows - mean[..., None]) / (std[..., None] + 1e-8))
        tokens = self.join(torch.cat([shape, self.nme(mean), self.nme(std)], -1))
        tokens = torch.cat([self.cls.expand(len(x), -1, -1), tokens], 1)
        tokens = self.dropout(tokens + self.positions)
        for layer in self.layers:
            tokens = layer(tokens)
        return self.norm(tokens)[:, 0]


def literal_head(dim: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(dim, 4096, bias=False), nn.BatchNorm1d(4096), nn.ReLU(), nn.Linear(4096, 256))


class LiteralBYOL:
    """A training step over a ``(n, length)`` tensor of series."""

    def __init__(self, series: Tensor, batch: int, head_dim: int, autocast: bool = False) -> None:
        self.series, self.batch, self.autocast = series, batch, autocast
        device = series.device
        self.online = nn.Sequential(LiteralNuTime(head_dim), literal_head(128)).to(device)
        self.predictor = literal_head(256).to(device)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        trained = [*self.online.parameters(), *self.predictor.parameters()]
        self.optimizer = torch.optim.AdamW(trained, lr=2e-4, weight_decay=0.05)

    def crop(self, chosen: Tensor) -> Tensor:
        length = chosen.shape[-1]
        views = []
        for row in chosen:
            extent = int(length * float(torch.empty(()).uniform_(0.8, 1.0)))
            begin = int(torch.randint(length - extent + 1, ()))
            views.append(F.interpolate(row[None, None, begin : begin + extent], size=512, mode="linear"))
        return torch.cat(views)[:, 0]

    def __call__(self) -> Tensor:
        chosen = self.series[torch.randint(len(self.series), (self.batch,))]
        first, second = self.crop(chosen), self.crop(chosen)
        with torch.autocast(self.series.device.type, torch.bfloat16, enabled=self.autocast):
            predicted = self.predictor(self.online(first)), self.predictor(self.online(second))
            with torch.no_grad():
                targets = self.target(second), self.target(first)
            similar = [F.cosine_similarity(p, t, dim=-1) for p, t in zip(predicted, targets, strict=True)]
            loss = (2 - 2 * similar[0] + 2 - 2 * similar[1]).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            for target, online in zip(self.target.parameters(), self.online.parameters(), strict=True):
                target.lerp_(online, 0.001)
        return loss.detach()
