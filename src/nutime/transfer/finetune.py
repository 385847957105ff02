"""Fine-tuning: the strategy that trains the encoder along with the classifier on top of it.

Unusual here: an ensemble is one program. The parameters of all its models are stacked and the network is mapped
over them, so that five models cost far less than five runs; each still has its own head, crops, dropout and order
of batches, and ends where it would have ended alone. Nothing is chosen on data held back unless the user asks for
a validation share: by default the schedule is fixed and the last state is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F

from nutime.data.crops import FlatSeries, crop
from nutime.data.series import Array, resample
from nutime.encoder import NuTime
from nutime.model.network import pool_tokens
from nutime.model.noise import Noise
from nutime.transfer.base import Arrays, Float64, TrainingSet

Trained = Literal["all", "head", "scratch"]

#: Steps taken at least, however few the series.
LEAST_STEPS = 300
#: What of the encoder's tokens the head reads.
POOL = "cls+mean"
#: Values one micro-batch may hold in activations; larger batches are computed piece by piece.
_ROOM = 2**28
_BEGIN, _SHARE = 1003, 1004  # sites of the noise beyond any dropout's
_VARIANCE_EPSILON = 1e-5


@dataclass(frozen=True)
class FinetuneConfig:
    """How to fine-tune; the names are those of ``NuTimeClassifier``'s parameters.

    Attributes:
        trained: ``all`` of the network, the ``head`` alone, or all of it from ``scratch``.
        n_models: models of the ensemble; their probabilities are averaged.
        epochs: passes over the training series; more if they are few, for :data:`LEAST_STEPS`.
        batch_size: series a step.
        learning_rate, weight_decay: of AdamW; the rate rises over a tenth of the steps and falls to zero.
        smallest_crop: least share of a series that a training crop shows.
        validation: share of the series held back; each model then keeps its state with the least loss on them.
        patience: epochs without a better state after which training ends (with a validation share only).
    """

    trained: Trained = "all"
    n_models: int = 1
    epochs: int = 100
    batch_size: int = 64
    learning_rate: float = 2e-4
    weight_decay: float = 0.05
    smallest_crop: float = 0.8
    validation: float = 0.0
    patience: int = 20

    def __post_init__(self) -> None:
        if self.trained not in ("all", "head", "scratch"):
            raise ValueError(f"trained must be all, head or scratch; got {self.trained!r}")
        for name in ("n_models", "epochs", "batch_size", "patience"):
            if not isinstance(value := getattr(self, name), int | np.integer) or value < 1:
                raise ValueError(f"{name} must be a positive integer, got {value!r}")
        if not 0 <= self.validation < 1:
            raise ValueError(f"validation must be in [0, 1), got {self.validation!r}")

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> FinetuneConfig:
        """Pick the fine-tuning parameters out of a classifier's."""
        return cls(**{field.name: params[field.name] for field in fields(cls) if field.name in params})


class _Classifier(nn.Module):
    """The network with a normalised linear head."""

    def __init__(self, encoder: NuTime, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(2 * encoder.config.dim, classes)

    def forward(self, series: Tensor, seed: Tensor) -> Tensor:
        """Return the logits of a training batch, normalised by its own statistics, with dropout by ``seed``."""
        noise = Noise(seed, torch.arange(len(series), dtype=torch.int32, device=series.device))
        embedding = pool_tokens(self.encoder(series, noise), POOL).float()
        logits: Tensor = self.head(_normalise(embedding, embedding.mean(0), embedding.var(0, unbiased=False)))
        return logits


def _blank(encoder: NuTime, channels: int, classes: int) -> _Classifier:
    return _Classifier(NuTime(encoder.config.replace(channels=channels)), classes).to(encoder.device)


class FineTuned:
    """A fitted ensemble.

    Attributes:
        state: the parameters of all models by name, ``(models, …)``.
        center: ``(models, 2, d)`` mean and variance of the training series' embeddings.
    """

    def __init__(self, state: dict[str, Tensor], center: Tensor) -> None:
        self.state, self.center = state, center

    @classmethod
    def fit(cls, encoder: NuTime, training_set: TrainingSet, params: Mapping[str, Any]) -> Self:
        """Train; Ctrl-C ends it early with the best state so far."""
        config = FinetuneConfig.of(params)
        seed = int(np.random.default_rng(_seed(params.get("random_state"))).integers(2**31))
        with _progress(shown=bool(params.get("verbose"))) as report:
            state, center = _Trainer(encoder, training_set, config, seed).run(report)
        return cls(state, center)

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild an ensemble; a ``KeyError`` names what is missing."""
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        center = tensors.pop("center")
        return cls(tensors, center)

    def arrays(self) -> Arrays:
        """Return the parameters and statistics by name."""
        return {name: tensor.cpu().numpy() for name, tensor in self.state.items()} | {
            "center": self.center.cpu().numpy()
        }

    @torch.inference_mode()
    def logits(self, encoder: NuTime, series: list[Array], params: Mapping[str, Any]) -> Float64:
        """Return the logarithm of the models' mean probabilities, ``(n, classes)``."""
        model = _blank(encoder, len(series[0]), self.state["head.bias"].shape[-1])
        state = {name: tensor.to(encoder.device) for name, tensor in self.state.items()}
        center = self.center.to(encoder.device)
        logits = torch.cat([_logits(model, state, center, batch) for batch in _batches(series, model)], dim=1)
        scores: Float64 = logits.double().softmax(-1).mean(0).log().cpu().numpy()
        return scores


class _Trainer:
    """One fit, from the stacked parameters to the state that is kept."""

    def __init__(self, encoder: NuTime, data: TrainingSet, config: FinetuneConfig, seed: int) -> None:
        self.config, self.seed, self.device = config, seed, encoder.device
        self.channels = len(data.series[0])
        classes = len(data.class_weight)
        self.model, self.state = self._start(encoder, classes)
        self.codes = torch.from_numpy(data.codes).to(self.device)
        weights = data.sample_weight * data.class_weight[data.codes]
        self.weights = torch.from_numpy(weights / weights.mean()).float().to(self.device)
        self.series = data.series
        self.flat = _flat(data.series).to(self.device)
        self.train, self.held_back = _split(data.codes, config.validation, seed)
        self.micro = _micro_batch(self.model, config.n_models)

    def _start(self, encoder: NuTime, classes: int) -> tuple[_Classifier, dict[str, Tensor]]:
        """Build one model a member, each with a head (and a channel projection) of its own."""
        models = []
        with torch.random.fork_rng(devices=[]):
            for member in range(self.config.n_models):
                torch.manual_seed(self.seed + member)
                model = _blank(encoder, self.channels, classes)
                if self.config.trained != "scratch":
                    known = {k: v for k, v in encoder.state_dict().items() if k in model.encoder.state_dict()}
                    fitting = {k: v for k, v in known.items() if v.shape == model.encoder.state_dict()[k].shape}
                    model.encoder.load_state_dict(fitting, strict=False)
                models.append(model)
        parameters, buffers = stack_module_state(models)
        trains = (lambda name: name.startswith("head")) if self.config.trained == "head" else (lambda name: True)
        state = {name: tensor.detach().clone().requires_grad_(trains(name)) for name, tensor in parameters.items()}
        kept_buffers = models[0].state_dict().keys() - state.keys()
        return models[0], state | {name: buffers[name] for name in kept_buffers}

    def run(self, report: Callable[[int, int], None]) -> tuple[dict[str, Tensor], Tensor]:
        batches_an_epoch = -(-len(self.train) // self.config.batch_size)
        epochs = max(self.config.epochs, -(-LEAST_STEPS // batches_an_epoch))
        steps = epochs * batches_an_epoch
        trained = [tensor for tensor in self.state.values() if tensor.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=0.0, weight_decay=self.config.weight_decay, fused=True)
        best = _Best(self.config.n_models) if len(self.held_back) else None
        step = 0
        with suppress(KeyboardInterrupt):
            for epoch in range(epochs):
                for chosen in self._order(epoch, batches_an_epoch):
                    optimizer.param_groups[0]["lr"] = self.config.learning_rate * _rate(step, steps)
                    optimizer.zero_grad(set_to_none=True)
                    self._accumulate(chosen, step)
                    optimizer.step()
                    step += 1
                    report(step, steps)
                if best and best.update(self._held_back_loss(), self.state) >= self.config.patience:
                    break
        state = best.state if best and best.state else {k: v.detach() for k, v in self.state.items()}
        return state, self._center(state)

    def _order(self, epoch: int, batches: int) -> Iterator[Tensor]:
        """Yield ``(models, batch)`` indices: every model shuffles by itself, all batches are equally large."""
        rng = np.random.default_rng([self.seed, epoch])
        size = -(-len(self.train) // batches)
        order = np.stack([rng.permutation(self.train) for _ in range(self.config.n_models)])
        order = np.take(order, np.arange(size * batches), axis=1, mode="wrap")
        return iter(torch.from_numpy(order).to(self.device).split(size, dim=1))  # type: ignore[no-untyped-call]

    def _accumulate(self, chosen: Tensor, step: int) -> None:
        """Add the gradient of one batch, micro-batch by micro-batch."""
        pieces = chosen.split(self.micro, dim=1)  # type: ignore[no-untyped-call]
        for number, piece in enumerate(pieces):
            seeds = _seeds(self.seed, step * len(pieces) + number, self.config.n_models, self.device)
            views = torch.stack([self._crops(row, seed) for row, seed in zip(piece, seeds, strict=True)])
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
                logits = vmap(self._call)(self.state, views, seeds)
            losses = F.cross_entropy(logits.flatten(0, 1), self.codes[piece].flatten(), reduction="none")
            loss = (losses * self.weights[piece].flatten()).sum() / chosen.shape[1]
            loss.backward()  # type: ignore[no-untyped-call]

    def _call(self, state: dict[str, Tensor], views: Tensor, seed: Tensor) -> Tensor:
        logits: Tensor = functional_call(self.model, state, (views, seed))
        return logits

    def _crops(self, rows: Tensor, seed: Tensor) -> Tensor:
        """Cut one random crop out of every chosen series, the same in all its channels."""
        noise = Noise(seed, torch.arange(len(rows), dtype=torch.int32, device=self.device))
        smallest = self.config.smallest_crop
        share = smallest + (1 - smallest) * noise.uniform(_SHARE)
        channel = torch.arange(self.channels, device=self.device)
        index = (rows[:, None] * self.channels + channel).flatten()
        begin, share = (draw.repeat_interleave(self.channels) for draw in (noise.uniform(_BEGIN), share))
        views = crop(self.flat, index, begin, share, self.model.encoder.config.length)
        return views.view(len(rows), self.channels, -1)

    @torch.no_grad()
    def _held_back_loss(self) -> Tensor:
        """Return every model's mean loss on the series held back."""
        center = self._center(self.state)
        held = [self.series[index] for index in self.held_back]
        batches = _batches(held, self.model)
        logits = torch.cat([_logits(self.model, self.state, center, batch) for batch in batches], dim=1)
        codes = self.codes[torch.from_numpy(self.held_back).to(self.device)]
        losses = F.cross_entropy(logits.flatten(0, 1), codes.repeat(len(center)), reduction="none")
        return losses.view(len(center), -1).mean(1)

    @torch.no_grad()
    def _center(self, state: dict[str, Tensor]) -> Tensor:
        """Return ``(models, 2, d)``: what to normalise embeddings by when there is no batch to do it by."""
        series = [self.series[index] for index in self.train]
        embedded = torch.cat([_embeddings(self.model, state, batch) for batch in _batches(series, self.model)], 1)
        return torch.stack([embedded.mean(1), embedded.var(1, unbiased=False)], dim=1)


class _Best:
    """The best state of every model, judged by its own loss."""

    def __init__(self, models: int) -> None:
        self.losses = torch.full((models,), torch.inf)
        self.state: dict[str, Tensor] = {}
        self.waited = 0

    def update(self, losses: Tensor, state: dict[str, Tensor]) -> int:
        """Keep what became better; return the number of calls since anything did."""
        better = losses.cpu() < self.losses
        self.losses = torch.minimum(self.losses, losses.cpu())
        for name, tensor in state.items():
            new = tensor.detach()
            old = self.state.get(name, new)
            mask = better.to(new.device).view(-1, *[1] * (new.dim() - 1))
            self.state[name] = torch.where(mask, new, old)
        self.waited = 0 if bool(better.any()) else self.waited + 1
        return self.waited


@contextmanager
def _progress(shown: bool) -> Iterator[Callable[[int, int], None]]:
    """Yield a function to call with (step, steps)."""
    if not shown:
        yield lambda step, steps: None
        return
    from rich.progress import Progress

    with Progress() as bar:
        task = bar.add_task("fine-tuning", total=None)
        yield lambda step, steps: bar.update(task, completed=step, total=steps)


def _embeddings(model: _Classifier, state: dict[str, Tensor], batch: Tensor) -> Tensor:
    """Return ``(models, batch, d)``, model after model: without gradients there is little to gain from mapping."""
    members = []
    for member in range(len(state["head.bias"])):
        own = {name.removeprefix("encoder."): tensor[member] for name, tensor in state.items()}
        own = {name: own[name] for name in model.encoder.state_dict()}
        members.append(pool_tokens(functional_call(model.encoder, own, (batch,)), POOL).float())
    return torch.stack(members)


def _logits(model: _Classifier, state: dict[str, Tensor], center: Tensor, batch: Tensor) -> Tensor:
    """Return ``(models, batch, classes)``."""
    normal = _normalise(_embeddings(model, state, batch), center[:, :1], center[:, 1:])
    return normal @ state["head.weight"].mT + state["head.bias"][:, None]


def _normalise(embedding: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    return (embedding - mean) * (variance + _VARIANCE_EPSILON).rsqrt()


def _batches(series: list[Array], model: _Classifier) -> Iterator[Tensor]:
    size = min(256, _micro_batch(model, models=1))
    device = model.head.weight.device
    for start in range(0, len(series), size):
        yield torch.from_numpy(resample(series[start : start + size], model.encoder.config.length)).to(device)


def _micro_batch(model: _Classifier, models: int) -> int:
    """How many series fit into the room for activations."""
    config = model.encoder.config
    windows = config.length // config.window
    embedding = config.channels * (8 * config.dim + 4 * config.window)
    layers = config.depth * (8 * config.dim + 4 * config.heads * config.head_dim + 3 * config.mlp_dim)
    return max(1, _ROOM // (models * windows * (embedding + layers)))


def _flat(series: list[Array]) -> FlatSeries:
    """Lay the channels of all series end to end; float64 input stays float64."""
    lengths = torch.tensor([len(channel) for values in series for channel in values])
    values = np.concatenate([values.reshape(-1) for values in series])
    return FlatSeries(torch.from_numpy(values), lengths.cumsum(0) - lengths, lengths)


def _split(codes: NDArray[np.intp], share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    everything = np.arange(len(codes))
    if not share:
        return everything, everything[:0]
    from sklearn.model_selection import train_test_split

    alone = np.bincount(codes).min() < 2  # a class of one cannot be on both sides
    train, held_back = train_test_split(
        everything, test_size=share, stratify=None if alone else codes, random_state=seed
    )
    return np.sort(train), np.sort(held_back)


def _rate(step: int, steps: int) -> float:
    rising = min(1.0, (step + 1) / max(1.0, 0.1 * steps))
    return float(rising * 0.5 * (1 + np.cos(np.pi * step / steps)))


def _seeds(seed: int, number: int, models: int, device: torch.device) -> Tensor:
    drawn = np.random.default_rng([seed, number, 1]).integers(-(2**31), 2**31, models)
    return torch.from_numpy(drawn.astype(np.int32)).to(device)


def _seed(random_state: Any) -> int | None:
    if random_state is None or isinstance(random_state, int | np.integer):
        return None if random_state is None else int(random_state)
    return int(random_state.randint(2**31))
