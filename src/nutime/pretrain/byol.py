"""Bootstrap Your Own Latent (BYOL): from one view, predict the target network's projection of another.

The target network is an exponential moving average (EMA) of the online one. This module holds networks and loss,
and imports neither data nor optimizer. BatchNorm has no running statistics, because the heads are discarded after
pretraining, and normalises over the batch of all processes. :class:`Objective` can change the paper's task: some
windows of a view are not encoded, which makes it harder and a step cheaper, and views are contrasted.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F

from nutime.checks import check_number
from nutime.model.hashing import decide
from nutime.model.network import NuTimeNetwork
from nutime.model.noise import Noise

HIDDEN = 4096
PROJECTED = 256
TEMPERATURE = 0.1
_MASK_SITE = 1005  # beyond the sites of dropout and crops


@dataclass(frozen=True)
class Objective:
    """The training objective; the defaults are the paper's.

    Attributes:
        pool: pooling of the tokens that are compared: ``cls`` or ``cls+mean``.
        masked: share of the windows that the online network does not encode; half as many for the target network.
        contrast: weight of a contrastive loss (InfoNCE) between the two views of a series.
    """

    pool: str = "cls"
    masked: float = 0.0
    contrast: float = 0.0

    def __post_init__(self) -> None:
        if self.pool not in ("cls", "cls+mean"):
            raise ValueError(f"pool must be cls or cls+mean; got {self.pool!r}")
        check_number("masked", self.masked, "[0, 1)")
        check_number("contrast", self.contrast, "[0, inf)")


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
    """The online network with its heads, and the target network."""

    def __init__(self, network: NuTimeNetwork, objective: Objective | None = None) -> None:
        super().__init__()
        self.objective = objective or Objective()
        if self.objective.masked and network.config.normalization != "window":
            raise ValueError("masked needs the normalization 'window': others depend on all windows of a series")
        dim = network.config.dim
        width = dim * (2 if self.objective.pool == "cls+mean" else 1)
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

        The loss is 2 − 2·cos, averaged over both directions, plus the contrastive one. ``noise`` identifies the
        rows of both views, first view first; without it there is neither dropout nor masking.
        """
        both = views.flatten(0, 1)
        pool = self.objective.pool
        visible, target_visible = self._visible(both, noise)
        embedded = self.network.pooled(both, pool, noise, visible)
        with torch.no_grad():
            target = self._target_network.pooled(both, pool, windows=target_visible)
        projected = [self.online["projector"](view) for view in embedded.chunk(2)]
        predicted = [self.predictor(view) for view in projected]
        with torch.no_grad():
            targets = [self.target["projector"](view) for view in target.chunk(2)]
        loss = 2 - _cosine(predicted[0], targets[1]) - _cosine(predicted[1], targets[0])
        if self.objective.contrast:
            loss = loss + self.objective.contrast * _info_nce(*projected)
        return loss, spread_of(embedded)

    def _visible(self, series: Tensor, noise: Noise | None) -> tuple[Tensor | None, Tensor | None]:
        """Return the windows that the online network sees, drawn at random, ``(batch, k)``, and the target's."""
        if noise is None or not self.objective.masked:
            return None, None
        count = series.shape[-1] // self.network.config.window
        columns = torch.arange(count, dtype=torch.int32, device=series.device)
        order = decide(noise.row_keys(_MASK_SITE)[:, None] + columns).argsort(1)
        masked = count * self.objective.masked
        return order[:, : max(1, round(count - masked))], order[:, : max(1, round(count - masked / 2))]

    @property
    def _target_network(self) -> NuTimeNetwork:
        network = self.target["network"]
        assert isinstance(network, NuTimeNetwork)
        return network

    @torch.no_grad()
    def update_target(self, momentum: Tensor) -> None:
        """Update the EMA."""
        target: list[Tensor] = list(self.target.parameters())
        online: list[Tensor] = list(self.online.parameters())
        torch._foreach_mul_(target, momentum)
        torch._foreach_add_(target, torch._foreach_mul(online, 1 - momentum))


@torch.no_grad()
def spread_of(embedding: Tensor) -> Tensor:
    """Return the mean standard deviation of the normalised embedding's coordinates times √dim.

    It is near 1 for a healthy encoder, and near 0 after collapse.
    """
    normal = F.normalize(embedding.float(), dim=-1)
    spread: Tensor = normal.std(0).mean() * normal.shape[-1] ** 0.5
    return spread


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    return F.cosine_similarity(a.float(), b.float(), dim=-1).mean()


def _info_nce(one: Tensor, other: Tensor) -> Tensor:
    """Return the cross-entropy of identifying each view's counterpart in the whole batch, in both directions."""
    one, other = (F.normalize(view.float(), dim=-1) for view in (one, other))
    first = distributed.get_rank() * len(one) if _is_distributed() else 0
    own = first + torch.arange(len(one), device=one.device)
    forward = F.cross_entropy(one @ _gather_rows(other).T / TEMPERATURE, own)
    backward = F.cross_entropy(other @ _gather_rows(one).T / TEMPERATURE, own)
    return forward + backward


class _Sum(torch.autograd.Function):
    """The sum over processes; torch deprecates its own differentiable collectives without a public successor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _Sum.forward(ctx, gradient)


def _mean_over_processes(x: Tensor) -> Tensor:
    mean: Tensor = _Sum.apply(x) / distributed.get_world_size()  # type: ignore[no-untyped-call]
    return mean


def _gather_rows(x: Tensor) -> Tensor:
    """Return the rows of all processes, one after another."""
    if not _is_distributed():
        return x
    before = distributed.get_rank() * len(x)
    after = (distributed.get_world_size() - 1) * len(x) - before
    rows: Tensor = _Sum.apply(F.pad(x, (0, 0, before, after)))  # type: ignore[no-untyped-call]
    return rows


def _is_distributed() -> bool:
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1
