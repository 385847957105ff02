"""Bootstrap Your Own Latent: from one view an encoder predicts what its own slow average makes of another.

A meta-architecture: it holds the networks and the loss, and knows neither data nor optimizer. Unusual here:
BatchNorm keeps no running statistics, for the heads are thrown away after pretraining; and it sees all
processes of a distributed run as one batch, on any backend.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F

from nutime.model.network import NuTimeNetwork
from nutime.model.noise import Noise

HIDDEN = 4096
PROJECTED = 256


class BatchNorm(nn.Module):
    """Normalise each feature over the batch, over all processes of a distributed run."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise ``(batch, dim)``."""
        if not _is_distributed():
            return F.batch_norm(x, None, None, self.weight, self.bias, training=True)
        x32 = x.float()
        centred = x32 - _mean_over_processes(x32.mean(0))
        variance = _mean_over_processes(centred.square().mean(0))
        return (centred * (variance + 1e-5).rsqrt() * self.weight + self.bias).to(x.dtype)


def head(dim: int) -> nn.Sequential:
    """Build a projector or a predictor."""
    return nn.Sequential(
        nn.Linear(dim, HIDDEN, bias=False), BatchNorm(HIDDEN), nn.ReLU(inplace=True), nn.Linear(HIDDEN, PROJECTED)
    )


class BYOL(nn.Module):
    """The online network with its heads, and the target that follows it.

    ``pool`` says what of the encoder's tokens is compared: the paper's ``cls``, or ``cls+mean``, which teaches
    the windows' tokens too.
    """

    def __init__(self, network: NuTimeNetwork, pool: str = "cls") -> None:
        super().__init__()
        self.pool = pool
        width = network.config.dim * (2 if pool == "cls+mean" else 1)
        self.online = nn.ModuleDict({"network": network, "projector": head(width)})
        self.predictor = head(PROJECTED)
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    @property
    def network(self) -> NuTimeNetwork:
        """The encoder being trained."""
        network = self.online["network"]
        assert isinstance(network, NuTimeNetwork)
        return network

    def forward(self, views: Tensor, noise: Noise | None = None) -> tuple[Tensor, Tensor]:
        """Return (loss, spread) of ``(2, batch, channels, length)`` views.

        The loss is 2 − 2·cos, averaged over both directions. The spread is the mean standard deviation of
        the normalised embedding's coordinates times √dim: near 1 for a healthy encoder, near 0 after collapse.
        ``noise`` names the rows of both views, first view first.
        """
        both = views.flatten(0, 1)
        embedded = self.network.pooled(both, self.pool, noise)
        predicted = [self.predictor(self.online["projector"](view)) for view in embedded.chunk(2)]
        with torch.no_grad():
            slow = self.target["network"]
            assert isinstance(slow, NuTimeNetwork)
            target = slow.pooled(both, self.pool)
            wanted = [self.target["projector"](view) for view in target.chunk(2)]
        loss = 2 - _cosine(predicted[0], wanted[1]) - _cosine(predicted[1], wanted[0])
        with torch.no_grad():
            normal = F.normalize(embedded.float(), dim=-1)
            spread = normal.std(0).mean() * normal.shape[-1] ** 0.5
        return loss, spread

    @torch.no_grad()
    def update_target(self, momentum: Tensor) -> None:
        """Move the target towards the online network."""
        target: list[Tensor] = list(self.target.parameters())
        online: list[Tensor] = list(self.online.parameters())
        torch._foreach_mul_(target, momentum)
        torch._foreach_add_(target, torch._foreach_mul(online, 1 - momentum))


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    return F.cosine_similarity(a.float(), b.float(), dim=-1).mean()


class _MeanOverProcesses(torch.autograd.Function):
    """The mean of a tensor over all processes, differentiable on any backend."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        mean = x.contiguous().clone()
        distributed.all_reduce(mean)
        return mean / distributed.get_world_size()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return _MeanOverProcesses.forward(ctx, grad)


def _mean_over_processes(x: Tensor) -> Tensor:
    mean: Tensor = _MeanOverProcesses.apply(x)  # type: ignore[no-untyped-call]
    return mean


def _is_distributed() -> bool:
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
