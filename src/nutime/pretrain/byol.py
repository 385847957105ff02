"""Bootstrap Your Own Latent: from one view an encoder predicts what its own slow average makes of another.

A meta-architecture: it holds the networks and the loss, and knows neither data nor optimizer. Unusual here:
BatchNorm keeps no running statistics, for the heads are thrown away after pretraining; it sees all processes of a
distributed run as one batch, on any backend. Beside the paper's question there are two that can be added
(:class:`Objective`): what was in the windows that were hidden, and which of all views belongs to this one.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F

from nutime.model.network import NuTimeNetwork, pool_tokens
from nutime.model.noise import Noise, decide, threshold

HIDDEN = 4096
PROJECTED = 256
TEMPERATURE = 0.1
_HIDE = 1005  # the site of the noise that chooses windows, beyond any dropout's and the crops'


@dataclass(frozen=True)
class Objective:
    """What is asked of the online network; the defaults are the paper's.

    Attributes:
        pool: what of the encoder's tokens is compared: ``cls``, or ``cls+mean``, which teaches the windows' too.
        masked: share of the windows hidden from the online network; it learns to tell what the target, which
            sees them, makes of them.
        contrast: weight of telling a series' other view from those of all other series (InfoNCE).
    """

    pool: str = "cls"
    masked: float = 0.0
    contrast: float = 0.0

    def __post_init__(self) -> None:
        if self.pool not in ("cls", "cls+mean"):
            raise ValueError(f"pool must be cls or cls+mean; got {self.pool!r}")
        if not 0 <= self.masked < 1:
            raise ValueError(f"masked must be in [0, 1), got {self.masked!r}")


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
    """The online network with its heads, and the target that follows it."""

    def __init__(self, network: NuTimeNetwork, objective: Objective | None = None) -> None:
        super().__init__()
        self.objective = objective or Objective()
        dim = network.config.dim
        width = dim * (2 if self.objective.pool == "cls+mean" else 1)
        self.online = nn.ModuleDict({"network": network, "projector": head(width)})
        self.predictor = head(PROJECTED)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        if self.objective.masked:
            self.hidden_window = nn.Parameter(0.02 * torch.randn(dim))
            self.window_predictor = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    @property
    def network(self) -> NuTimeNetwork:
        """The encoder being trained."""
        network = self.online["network"]
        assert isinstance(network, NuTimeNetwork)
        return network

    def forward(self, views: Tensor, noise: Noise | None = None) -> tuple[Tensor, Tensor]:
        """Return (loss, spread) of ``(2, batch, channels, length)`` views.

        The loss is 2 − 2·cos, averaged over both directions, and what the objective adds. The spread is the mean
        standard deviation of the normalised embedding's coordinates times √dim: near 1 for a healthy encoder,
        near 0 after collapse. ``noise`` names the rows of both views, first view first; without it nothing is
        dropped or hidden.
        """
        both = views.flatten(0, 1)
        if self.objective.masked and noise:
            embedded, target, extra = self._with_hidden_windows(both, noise)
        else:
            embedded, extra = self.network.pooled(both, self.objective.pool, noise), both.new_zeros(())
            with torch.no_grad():
                target = self._slow.pooled(both, self.objective.pool)
        projected = [self.online["projector"](view) for view in embedded.chunk(2)]
        predicted = [self.predictor(view) for view in projected]
        with torch.no_grad():
            wanted = [self.target["projector"](view) for view in target.chunk(2)]
        loss = 2 - _cosine(predicted[0], wanted[1]) - _cosine(predicted[1], wanted[0]) + extra
        if self.objective.contrast:
            loss = loss + self.objective.contrast * _contrast(*projected)
        with torch.no_grad():
            normal = F.normalize(embedded.float(), dim=-1)
            spread = normal.std(0).mean() * normal.shape[-1] ** 0.5
        return loss, spread

    def _with_hidden_windows(self, both: Tensor, noise: Noise) -> tuple[Tensor, Tensor, Tensor]:
        """Return both networks' embeddings, and how badly the online one tells what it could not see."""
        tokens = self.network.tokens(both)
        columns = torch.arange(tokens.shape[1] - 1, dtype=torch.int32, device=both.device)
        share = self.objective.masked
        hidden = decide(noise.row_keys(_HIDE)[:, None] + columns) < threshold(share)
        windows = torch.where(hidden[..., None], self.hidden_window.to(tokens.dtype), tokens[:, 1:])
        seen = self.network.read(torch.cat([tokens[:, :1], windows], dim=1), noise)[-1]
        with torch.no_grad():
            whole = self._slow(both)
        told = self.window_predictor(seen[:, 1:]).float()
        wanted = F.layer_norm(whole[:, 1:].float(), told.shape[-1:])
        misses = F.smooth_l1_loss(told, wanted, reduction="none").mean(-1)
        pool = self.objective.pool
        # Divided by the expected and not the actual number of hidden windows: any split of a batch adds up.
        return pool_tokens(seen, pool), pool_tokens(whole, pool), (misses * hidden).mean() / share

    @property
    def _slow(self) -> NuTimeNetwork:
        slow = self.target["network"]
        assert isinstance(slow, NuTimeNetwork)
        return slow

    @torch.no_grad()
    def update_target(self, momentum: Tensor) -> None:
        """Move the target towards the online network."""
        target: list[Tensor] = list(self.target.parameters())
        online: list[Tensor] = list(self.online.parameters())
        torch._foreach_mul_(target, momentum)
        torch._foreach_add_(target, torch._foreach_mul(online, 1 - momentum))


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    return F.cosine_similarity(a.float(), b.float(), dim=-1).mean()


def _contrast(one: Tensor, other: Tensor) -> Tensor:
    """Return how badly each view finds its other view among those of the whole batch, in both directions."""
    one, other = (F.normalize(view.float(), dim=-1) for view in (one, other))
    first = distributed.get_rank() * len(one) if _is_distributed() else 0
    own = first + torch.arange(len(one), device=one.device)
    there = F.cross_entropy(one @ _of_all_processes(other).T / TEMPERATURE, own)
    back = F.cross_entropy(other @ _of_all_processes(one).T / TEMPERATURE, own)
    return there + back


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


class _OfAllProcesses(torch.autograd.Function):
    """The rows of all processes, one after another, differentiable on any backend."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        parts = [torch.empty_like(x) for _ in range(distributed.get_world_size())]
        distributed.all_gather(parts, x.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        grad = grad.contiguous().clone()
        distributed.all_reduce(grad)
        return grad.chunk(distributed.get_world_size())[distributed.get_rank()]


def _of_all_processes(x: Tensor) -> Tensor:
    if not _is_distributed():
        return x
    rows: Tensor = _OfAllProcesses.apply(x)  # type: ignore[no-untyped-call]
    return rows


def _is_distributed() -> bool:
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
