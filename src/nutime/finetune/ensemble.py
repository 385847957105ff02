"""Several models of one kind as one: their parameters stacked, the network mapped over them.

Unusual here: there is no module that holds the models. Parameters are tensors with a leading dimension, and the
network is a function of them; mapped over that dimension, five models are one program of larger products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F

from nutime.data.crops import FlatSeries, crop
from nutime.data.series import Array
from nutime.encoder import NuTime
from nutime.finetune.features import probe_features
from nutime.model.config import NuTimeConfig
from nutime.model.network import points_for, pooled_size
from nutime.model.noise import Noise

Trained = Literal["all", "head", "scratch"]
State = dict[str, Tensor]

#: What of the trained network's tokens the head reads.
POOL = "upper"
#: What of the pretrained encoder's a probe reads, be it all there is or beside a trained network.
PROBE_POOL = "resolutions"
#: Added to the variance of an embedding before dividing by its root.
VARIANCE_EPSILON = 1e-5
#: Values a pass may hold in activations; larger batches are computed piece by piece.
_ROOM = {"cpu": 2**28, "mps": 2**28, "cuda": 2**32}
_ALIGNMENT = 8


class _Classifier(nn.Module):
    """What one model learns: the network, and a linear head on its normalised embedding."""

    def __init__(self, encoder: NuTime, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(pooled_size(encoder.config, POOL), classes)

    def forward(self, views: Tensor, noise: Noise | None) -> Tensor:
        """Return the embedding; what it is normalised by is not known to one model."""
        return self.encoder.pooled(views, POOL, noise).float()


class Stack:
    """Functions of stacked parameters: what is common to models that differ in their values only."""

    def __init__(self, encoder: NuTime, channels: int, classes: int) -> None:
        self.device = encoder.device
        self.config = encoder.config.replace(channels=channels)
        self._classes = classes

    def start(self, encoder: NuTime, models: int, trained: Trained, seed: int) -> Parameters:
        """Make new models, each with a head (and a channel projection) of its own."""
        members = []
        given = encoder.state_dict()
        if trained == "scratch":  # without what was learned, but with what was fitted to data
            learned_before = dict(encoder.named_parameters())
            given = {name: value for name, value in given.items() if name not in learned_before}
        with torch.random.fork_rng(devices=[]):
            for member in range(models):
                torch.manual_seed(seed + member)
                model = _Classifier(NuTime(self.config), self._classes).to(self.device)
                own = model.encoder.state_dict()
                known = {k: v for k, v in given.items() if k in own and v.shape == own[k].shape}
                model.encoder.load_state_dict(known, strict=False)
                members.append(model)
        parameters, buffers = stack_module_state(members)
        kept_buffers = members[0].state_dict().keys() - parameters.keys()
        learned = {k: v.detach() for k, v in parameters.items() if trained != "head" or k.startswith("head")}
        fixed = {k: v.detach() for k, v in parameters.items() if k not in learned}
        return Parameters(learned, fixed | {name: buffers[name] for name in kept_buffers})

    def views(self, flat: FlatSeries, chosen: Tensor, begin: Tensor, share: Tensor) -> Tensor:
        """Cut ``(models, batch)`` chosen series, all channels of a series alike."""
        channels, length = self.config.channels, points_for(self.config, POOL)
        channel = torch.arange(channels, device=self.device)
        index = (chosen[..., None] * channels + channel).flatten()
        begin, share = (draw.flatten().repeat_interleave(channels) for draw in (begin, share))
        return crop(flat, index, begin, share, length).view(*chosen.shape, channels, length)

    def embedding_of(self, state: State, flat: FlatSeries, chosen: Tensor) -> Tensor:
        """Return ``(models, n, d)`` for ``(models, n)`` chosen series, uncut, without dropout."""
        pieces = chosen.split(self.room(len(chosen)), dim=1)  # type: ignore[no-untyped-call]
        whole = (self.views(flat, piece, torch.zeros_like(piece), torch.ones_like(piece)) for piece in pieces)
        return torch.cat([self.embedding(state, views) for views in whole], dim=1)

    def embedding(self, state: State, views: Tensor) -> Tensor:
        """Return ``(models, batch, d)`` for ``(models, batch, channels, length)`` views, without dropout."""
        return _mapped_embedding(self.config, self.device, compiled=False)(_of_encoder(state), views)

    def log_probabilities(self, state: State, center: Tensor, embedding: Tensor, frozen: Tensor | None) -> Tensor:
        """Return ``(models, batch, classes)``: what every model says, averaged with what its probe says.

        Args:
            state: the parameters.
            center: ``(models, 2, d)``, what normalises the embedding and, after it, the frozen one.
            embedding: ``(models, batch, …)``, the models' own.
            frozen: ``(batch, …)``, the pretrained encoder's, which the probes read; None where there are none.
        """
        size = embedding.shape[-1]
        said = _linear(state, "head", normalised(embedding, center[..., :size])).log_softmax(-1)
        if frozen is None:
            return said
        beside = _linear(state, "probe", normalised(frozen[None], center[..., size:])).log_softmax(-1)
        return torch.logaddexp(said, beside) - math.log(2)

    def training_logits(self, state: State, views: Tensor, seeds: Tensor, *, compiled: bool = False) -> Tensor:
        """Return the logits of a training batch: dropout by ``seeds``, normalised by its own statistics."""
        embedding = _mapped_embedding(self.config, self.device, compiled)(_of_encoder(state), views, seeds)
        return _linear(state, "head", normalised(embedding, center_of(embedding)))

    def room(self, models: int) -> int:
        """Return how many series of every model fit into the room for activations."""
        config = self.config
        windows = points_for(config, POOL) // config.window
        embedding = config.channels * (8 * config.dim + 4 * config.window)
        layers = config.depth * (8 * config.dim + 4 * config.heads * config.head_dim + 3 * config.mlp_dim)
        return max(1, _ROOM[self.device.type] // (models * windows * (embedding + layers)))


class Parameters:
    """The parameters of all models; those that learn lie in a few large tensors, which one kernel each updates.

    Where that is quick the transformer computes in half precision; the tokens' embedding and the head do not. The
    head has a tensor of its own: whatever its size, the encoder's parameters lie alike, and are compiled once.
    """

    def __init__(self, learned: State, fixed: State) -> None:
        self._fixed = fixed
        self._groups = [
            {name: value.shape for name, value in learned.items() if _group(name) == group} for group in range(3)
        ]
        self._groups = [group for group in self._groups if group]
        self.leaves = [
            torch.cat([_aligned(learned[name].flatten(1)) for name in group], dim=1).requires_grad_()
            for group in self._groups
        ]

    @torch.no_grad()
    def begin(self, head: Sequence[Tensor], probe: Sequence[Tensor]) -> None:
        """Put heads in the place of those the models were made with, and probes beside them, which stay.

        Both are weights ``(models, classes, d)`` and biases ``(models, classes)``.
        """
        own = _by_name(self._groups[-1], self.leaves[-1])
        for name, start, fixed in zip(("weight", "bias"), head, probe, strict=True):
            own[f"head.{name}"].copy_(start)
            self._fixed[f"probe.{name}"] = fixed

    def exact(self) -> State:
        """Return the parameters by name, as they are."""
        state = dict(self._fixed)
        for group, leaf in zip(self._groups, self.leaves, strict=True):
            state |= _by_name(group, leaf.detach())
        return state

    def for_training(self) -> State:
        """Return the parameters by name, in the precision of a training step, with a way back for gradients."""
        state = {name: _narrowed(name, value) for name, value in self._fixed.items()}
        for group, leaf in zip(self._groups, self.leaves, strict=True):
            state |= _by_name(group, _narrowed(next(iter(group)), leaf))
        return state


def _group(name: str) -> int:
    """Say where a parameter lies: with the transformer's, the tokens' or the head's."""
    if name.startswith("head."):
        return 2
    return 0 if name.startswith(("encoder.transformer.", "encoder.norm.")) else 1


def _narrowed(name: str, value: Tensor) -> Tensor:
    return value.bfloat16() if _group(name) == 0 and _half_is_quick(value.device.type) else value


@cache
def _half_is_quick(device: str) -> bool:
    """Whether there are units for products in half precision, as some processors have too."""
    has_amx = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)  # private: another torch may lack it
    return device == "cuda" or (device == "cpu" and has_amx())


def _by_name(shapes: dict[str, torch.Size], flat: Tensor) -> State:
    sizes = [shape[1:].numel() for shape in shapes.values()]
    pieces = flat.split([size + -size % _ALIGNMENT for size in sizes], dim=1)  # type: ignore[no-untyped-call]
    return {
        name: (piece if piece.shape[1] == size else piece[:, :size]).view(shape)
        for (name, shape), size, piece in zip(shapes.items(), sizes, pieces, strict=True)
    }


def _aligned(rows: Tensor) -> Tensor:
    """Pad rows so that what follows them begins where matrix products like it."""
    return F.pad(rows, (0, -rows.shape[1] % _ALIGNMENT))


@cache
def _embedding(config: NuTimeConfig, device: torch.device) -> Callable[..., Tensor]:
    """Return a function of one model's parameters, its views and a seed; one for all fits, so compiled once."""
    model = _Classifier(NuTime(config), classes=1).to(device)

    def embed(state: State, views: Tensor, seed: Tensor | None = None) -> Tensor:
        noise = None if seed is None else Noise(seed, row_names(len(views), views.device))
        embedding: Tensor = functional_call(model, state, (views, noise))
        return embedding

    return embed


@cache
def _mapped_embedding(config: NuTimeConfig, device: torch.device, compiled: bool) -> Callable[..., Tensor]:
    embed = _embedding(config, device)
    if device.type == "cuda":
        return torch.compile(vmap(embed), dynamic=False) if compiled else vmap(embed)

    def one_by_one(state: State, *others: Tensor) -> Tensor:
        # A processor is busy with one model, and products of several at once are slower than one after another.
        members = ({name: value[model] for name, value in state.items()} for model in range(len(others[0])))
        return torch.stack([embed(member, *own) for member, *own in zip(members, *others, strict=True)])

    return one_by_one


def _of_encoder(state: State) -> State:
    return {name: value for name, value in state.items() if name.startswith("encoder.")}


def _linear(state: State, name: str, normal: Tensor) -> Tensor:
    return normal @ state[f"{name}.weight"].mT + state[f"{name}.bias"][:, None]


def normalised(embedding: Tensor, center: Tensor) -> Tensor:
    """Return embeddings with the mean and variance in ``center`` taken out."""
    return (embedding - center[:, :1]) * (center[:, 1:] + VARIANCE_EPSILON).rsqrt()


def center_of(embedding: Tensor) -> Tensor:
    """Return mean and variance over the batch, ``(models, 2, d)``."""
    return torch.stack([embedding.mean(1), embedding.var(1, unbiased=False)], dim=1)


def frozen_embedding(encoder: NuTime, series: list[Array], count: int | None = None) -> Tensor:
    """Return ``(n, count)``: what probes read, as many values as a fitted one reads or a new one may."""
    return torch.from_numpy(probe_features(encoder, series, PROBE_POOL, count)).to(encoder.device)


def row_names(count: int, device: torch.device) -> Tensor:
    """Return the names of a batch's rows, as :class:`~nutime.model.noise.Noise` wants them."""
    return torch.arange(count, dtype=torch.int32, device=device)
