"""Several models of one architecture, their parameters stacked along a leading dimension.

The network is a function of its parameters. On CUDA it is mapped over them with vmap, which makes five models one
program of larger matrix products, 1.48 times the time of one model on an H200. One model saturates a CPU, which
computes them one after another.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, vmap

from nutime.data.series import Array, resample
from nutime.encoder import NuTime, seeded
from nutime.finetune.linear import Float64, probe_features
from nutime.model.config import NuTimeConfig
from nutime.model.noise import Noise
from nutime.model.reading import Reading, points_for, pooled_size

Trained = Literal["all", "head", "scratch"]
#: Parameters and buffers by name, each ``(models, …)``.
State: TypeAlias = dict[str, Tensor]

#: The pool that the head of a trained network reads.
POOL = "upper"
#: Added to the variance of an embedding before dividing by its root.
VARIANCE_EPSILON = 1e-5
#: Maximum number of activations of a forward pass; larger batches are computed in chunks.
_MEMORY_BUDGET = {"cpu": 2**28, "cuda": 2**32}
_MAX_CHUNK = 256
_thread = threading.local()


@dataclass(frozen=True)
class Ensemble:
    """Fine-tuned models. The probability of a class, or the prediction in regression, is the mean over all
    networks and, unless they were trained from scratch, as many probes of the pretrained encoder.

    Attributes:
        state: ``encoder.…``, ``head.…`` and ``probe.…`` of all models.
        center: ``(models, 2, d)`` mean and variance of the training series' embeddings: of the trained network's,
            followed by the probe's.
        reading: how the pretrained encoder reads series for the probes.
    """

    state: State
    center: Tensor
    reading: Reading

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], reading: Reading) -> Self:
        """Rebuild an ensemble; a ``KeyError`` names what is missing."""
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        center = tensors.pop("center")
        return cls(tensors, center, reading)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return parameters and statistics by name."""
        return {name: tensor.cpu().numpy() for name, tensor in (self.state | {"center": self.center}).items()}

    def check(self, config: NuTimeConfig, n_outputs: int) -> None:
        """Raise ValueError unless all tensors are finite and fit networks of a config and a number of outputs."""
        size = pooled_size(config, POOL)
        found = sum(tensor.numel() for tensor in self.state.values())
        # A damaged file may claim billions.
        if max((config.channels - 1) * config.dim**2, size * n_outputs) > found:
            raise ValueError(f"{found} weights are too few for {config.channels} channels and {n_outputs} outputs")
        with seeded(0):
            model = nn.ModuleDict({"encoder": NuTime(config), "head": nn.Linear(size, n_outputs)})
        expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
        if "probe.weight" in self.state:
            features = self.state["probe.weight"].shape[-1]
            expected |= {"probe.weight": (n_outputs, features), "probe.bias": (n_outputs,)}
            size += features
        expected["center"] = (2, size)
        tensors = self.state | {"center": self.center}
        for name in sorted(expected | tensors):
            shape = tuple(tensors[name].shape) if name in tensors else None
            if name not in expected or shape != (len(self.center), *expected[name]):
                raise ValueError(f"{name} has the shape {shape}, which does not fit {n_outputs} outputs")
            if not tensors[name].isfinite().all():
                raise ValueError(f"{name} has values that are not finite")

    def logits(
        self, encoder: NuTime, series: list[Array], embedding: NDArray[np.float32] | None = None
    ) -> Float64:
        """Return the logarithm of the mean probabilities, ``(n, classes)``; see :meth:`log_probabilities`."""
        members = torch.from_numpy(self.log_probabilities(encoder, series, embedding))
        return np.asarray((members.logsumexp(0) - math.log(len(members))).numpy())

    def log_probabilities(
        self, encoder: NuTime, series: list[Array], embedding: NDArray[np.float32] | None = None
    ) -> Float64:
        """Return the log-probabilities of every model, ``(models, n, classes)``.

        Args:
            encoder: the pretrained encoder.
            series: as :func:`~nutime.data.series.as_series` returns them.
            embedding: their embedding by the encoder with ``reading``, if it is known.
        """
        return self._apply(log_probabilities, encoder, series, embedding)

    def predictions(
        self, encoder: NuTime, series: list[Array], embedding: NDArray[np.float32] | None = None
    ) -> Float64:
        """Return the predictions of every model in regression, ``(models, n)``; see :meth:`log_probabilities`."""
        return self._apply(predictions, encoder, series, embedding)

    @torch.inference_mode()
    def _apply(
        self,
        predict: Callable[[State, Tensor, Tensor, Tensor | None], Tensor],
        encoder: NuTime,
        series: list[Array],
        embedding: NDArray[np.float32] | None,
    ) -> Float64:
        """Return the results of :func:`log_probabilities` or :func:`predictions` for all series."""
        config = encoder.config.replace(channels=len(series[0]))
        state = {name: tensor.to(encoder.device) for name, tensor in self.state.items()}
        center = self.center.to(encoder.device)
        n_features = state["probe.weight"].shape[-1] if "probe.weight" in state else 0
        if embedding is not None and embedding.shape[1] != n_features:
            embedding = None
        chunk_size = min(_MAX_CHUNK, max_batch(config, len(center), encoder.device))
        parts = []
        for start in range(0, len(series), chunk_size):
            chunk = series[start : start + chunk_size]
            batch = torch.from_numpy(resample(chunk, points_for(config, POOL))).to(encoder.device)
            own = embed(config, state, batch.expand(len(center), *batch.shape))
            frozen = None
            if n_features:
                features = (
                    embedding[start : start + chunk_size]
                    if embedding is not None
                    else probe_features(encoder, chunk, self.reading, n_features)
                )
                frozen = torch.from_numpy(features).to(encoder.device)
            parts.append(predict(state, center, own, frozen).double().cpu())
        return np.asarray(torch.cat(parts, dim=1).numpy())


def initial_state(
    encoder: NuTime, config: NuTimeConfig, n_outputs: int, n_models: int, trained: Trained, seed: int
) -> tuple[State, State]:
    """Return the parameters to train and the tensors that stay as they are.

    Each model has its own random head (and channel projection); the rest is the encoder's unless ``trained`` is
    ``scratch``.
    """
    pretrained = encoder.state_dict()
    if trained == "scratch":  # without parameters, but with buffers that were fitted to the pretraining data
        parameters = dict(encoder.named_parameters())
        pretrained = {name: value for name, value in pretrained.items() if name not in parameters}
    members = []
    for member in range(n_models):
        with seeded(seed + member):
            network, head = NuTime(config), nn.Linear(pooled_size(config, POOL), n_outputs)
        own = network.state_dict()
        fitting = {k: v for k, v in pretrained.items() if k in own and v.shape == own[k].shape}
        network.load_state_dict(fitting, strict=False)
        members.append(nn.ModuleDict({"encoder": network, "head": head}).to(encoder.device))
    states = [model.state_dict() for model in members]
    stacked = {name: torch.stack([state[name] for state in states]) for name in states[0]}
    names = [name for name, _ in members[0].named_parameters() if trained != "head" or name.startswith("head.")]
    return {name: stacked.pop(name).requires_grad_() for name in names}, stacked


def embed(
    config: NuTimeConfig, state: State, views: Tensor, seeds: Tensor | None = None, *, compiled: bool = False
) -> Tensor:
    """Return ``(models, batch, d)`` for ``(models, batch, channels, length)`` views; with seeds, with dropout."""
    network = {name: value for name, value in state.items() if name.startswith("encoder.")}
    function = _embedding_function(config, views.device, compiled)
    return function(network, views) if seeds is None else function(network, views, seeds)


def training_outputs(
    config: NuTimeConfig, state: State, views: Tensor, seeds: Tensor, *, compiled: bool = False
) -> Tensor:
    """Return the heads' outputs for a training batch: dropout by ``seeds``, normalised by its own statistics."""
    embedding = embed(config, state, views, seeds, compiled=compiled)
    return _linear(state, "head", normalised(embedding, center_of(embedding)))


def log_probabilities(state: State, center: Tensor, embedding: Tensor, frozen: Tensor | None) -> Tensor:
    """Return ``(models, batch, classes)``: every network, averaged with its probe.

    Args:
        state: the parameters.
        center: ``(models, 2, d)``, as in :class:`Ensemble`.
        embedding: ``(models, batch, …)`` by the trained networks.
        frozen: ``(batch, …)`` by the pretrained encoder, for the probes; None if there are none.
    """
    network, *probe = (outputs.log_softmax(-1) for outputs in _outputs(state, center, embedding, frozen))
    return torch.logaddexp(network, *probe) - math.log(2) if probe else network


def predictions(state: State, center: Tensor, embedding: Tensor, frozen: Tensor | None) -> Tensor:
    """Return ``(models, batch)``: every network, averaged with its probe; see :func:`log_probabilities`."""
    return torch.stack(_outputs(state, center, embedding, frozen)).mean(0)[..., 0]


def _outputs(state: State, center: Tensor, embedding: Tensor, frozen: Tensor | None) -> list[Tensor]:
    """Return the outputs of the networks and, if there are any, of the probes, ``(models, batch, outputs)``."""
    size = embedding.shape[-1]
    outputs = [_linear(state, "head", normalised(embedding, center[..., :size]))]
    if frozen is not None:
        outputs.append(_linear(state, "probe", normalised(frozen[None], center[..., size:])))
    return outputs


def max_batch(config: NuTimeConfig, n_models: int, device: torch.device) -> int:
    """Return how many series per model fit into the memory budget for activations."""
    windows = points_for(config, POOL) // config.window
    tokens = config.channels * (8 * config.dim + 4 * config.window)
    layers = config.depth * (8 * config.dim + 4 * config.heads * config.head_dim + 3 * config.mlp_dim)
    return max(1, _MEMORY_BUDGET[device.type] // (n_models * windows * (tokens + layers)))


def in_training_precision(state: State) -> State:
    """Return the parameters in bfloat16 if the device has matrix units for it; not those of heads and scalars."""
    half = [name for name in state if name.startswith("encoder.") and ".scalar_embeddings." not in name]
    if not half or not _has_fast_bfloat16(state[half[0]].device.type):
        return state
    cast = _Bfloat16.apply(*(state[name] for name in half))  # type: ignore[no-untyped-call]
    return state | dict(zip(half, cast, strict=True))


class _Bfloat16(torch.autograd.Function):
    """Cast tensors, and their gradients back, in one operation instead of one each."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        return _cast(tensors, torch.bfloat16)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        return _cast(gradients, torch.float32)


def _cast(tensors: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    copies = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
    torch._foreach_copy_(copies, list(tensors))
    return tuple(copies)


@cache
def _has_fast_bfloat16(device: str) -> bool:
    has_amx = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)  # private: another torch may lack it
    return device == "cuda" or (device == "cpu" and has_amx())


def normalised(embedding: Tensor, center: Tensor) -> Tensor:
    """Return embeddings normalised by the mean and variance in ``center``."""
    return (embedding - center[:, :1]) * (center[:, 1:] + VARIANCE_EPSILON).rsqrt()


def center_of(embedding: Tensor) -> Tensor:
    """Return mean and variance over the batch, ``(models, 2, d)``."""
    return torch.stack([embedding.mean(1), embedding.var(1, unbiased=False)], dim=1)


def row_names(count: int, device: torch.device) -> Tensor:
    """Return the identifiers of a batch's rows for :class:`~nutime.model.noise.Noise`."""
    return torch.arange(count, dtype=torch.int32, device=device)


def _linear(state: State, name: str, inputs: Tensor) -> Tensor:
    return inputs @ state[f"{name}.weight"].mT + state[f"{name}.bias"][:, None]


class _Pooled(nn.Module):
    def __init__(self, config: NuTimeConfig) -> None:
        super().__init__()
        self.encoder = NuTime(config)

    def forward(self, views: Tensor, noise: Noise | None) -> Tensor:
        return self.encoder.pooled(views, POOL, noise).float()


def _embedding_function(config: NuTimeConfig, device: torch.device, compiled: bool) -> Callable[..., Tensor]:
    """Return a function of stacked parameters, views and seeds, compiled once for all fits of a thread.

    It is not shared by threads: ``functional_call`` puts the parameters into the module during the call.
    """
    functions: dict[Any, Callable[..., Tensor]] = _thread.__dict__.setdefault("functions", {})
    key = (config, device, compiled)
    if key not in functions:
        functions[key] = _make_embedding_function(config, device, compiled)
    return functions[key]


def _make_embedding_function(config: NuTimeConfig, device: torch.device, compiled: bool) -> Callable[..., Tensor]:
    with seeded(0):
        module = _Pooled(config).to(device)

    def embed_one(state: State, views: Tensor, seed: Tensor | None = None) -> Tensor:
        noise = None if seed is None else Noise(seed, row_names(len(views), views.device))
        embedding: Tensor = functional_call(module, state, (views, noise))
        return embedding

    def embed_one_by_one(state: State, *inputs: Tensor) -> Tensor:
        members = zip(*(value.unbind(0) for value in state.values()), strict=True)
        own_states = (dict(zip(state, member, strict=True)) for member in members)
        return torch.stack([embed_one(own, *given) for own, *given in zip(own_states, *inputs, strict=True)])

    if device.type != "cuda":
        return embed_one_by_one
    return torch.compile(vmap(embed_one), dynamic=False) if compiled else vmap(embed_one)
