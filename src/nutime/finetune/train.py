"""Training several models of one kind as one program: the engine of fine-tuning and of few-shot episodes.

Unusual here: the models' parameters are stacked and the network is mapped over them. A step takes all it needs
(which series, which noise, what rate) from tensors laid out for a whole epoch, so that on CUDA it is captured
once and replayed; elsewhere the same lines run as they stand. Nothing is chosen on data held back unless the user
asks for a validation share: by default the schedule is fixed and the last state is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from nutime.data.crops import FlatSeries
from nutime.data.series import Array
from nutime.encoder import NuTime
from nutime.estimators.base import TrainingSet
from nutime.finetune.ensemble import (
    Parameters,
    Stack,
    State,
    Trained,
    center_of,
    frozen_embedding,
    normalised,
    row_names,
)
from nutime.finetune.linear import fit_heads
from nutime.model.noise import Noise

#: Steps taken at least, however few the series.
LEAST_STEPS = 300
#: Times at most that watched series are looked at: the paper's code does so after each of its 100 epochs.
LOOKS = 100
_STEPS_BEFORE_CAPTURE = 3
#: Values that heads may read while they are fitted together.
_HEAD_ROOM = 2**27


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
        validation: share of the series held back; each model then keeps its best state on them.
        patience: epochs without a better state after which training ends (with a validation share only).
        compiled: whether to compile full batches on CUDA: a minute at first, then twice the speed in all fits.
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
    compiled: bool = False

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


class Trainer:
    """One fit, from the stacked parameters to the state that is kept.

    Args:
        encoder: where the models start.
        data: what they learn from; with ``codes`` of shape ``(models, n)``, each in classes of its own.
        config: how they learn.
        seed: of all that is random.
        members: ``(models, k)`` which series each model sees; all of them unless given.
        first: number of the first model: what is random in a model depends on the seed and its number alone.
        watched: series on which each model's best state is chosen.
    """

    def __init__(
        self,
        encoder: NuTime,
        data: TrainingSet,
        config: FinetuneConfig,
        seed: int,
        *,
        members: NDArray[np.intp] | None = None,
        first: int = 0,
        watched: TrainingSet | None = None,
    ) -> None:
        self.first = first
        self.config, self.seed, self.device, self.models = config, seed, encoder.device, config.n_models
        self.stack = Stack(encoder, len(data.series[0]), len(data.class_weight))
        self.parameters = self.stack.start(encoder, self.models, config.trained, seed + first)
        if members is None:
            train, held_back = _split(data.codes, config.validation, seed)
            members = np.tile(train, (self.models, 1))
            if len(held_back):
                series = [data.series[index] for index in held_back]
                weight = data.sample_weight[held_back]
                watched = TrainingSet(series, data.codes[held_back], weight, data.class_weight)
        self.members = members
        self._places = torch.from_numpy(members).to(self.device)
        self.flat = _flat(data.series).to(self.device)
        self.codes = self._per_model(torch.from_numpy(data.codes))
        weights = torch.from_numpy(data.sample_weight * data.class_weight[data.codes])
        self.weights = self._per_model((weights / weights.mean()).float())
        self._probe_center = self.weights.new_empty(self.models, 2, 0)
        if config.trained != "scratch":
            self._begin_with_probes(frozen_embedding(encoder, data.series), len(data.class_weight))
        self.best = _Best(watched, encoder, self) if watched else None
        self.room = min(self.stack.room(self.models), config.batch_size)
        self.epoch = _Epoch.of(self, 0)

    def _begin_with_probes(self, frozen: Tensor, classes: int) -> None:
        """Let every head begin as a linear probe of its model, and a probe of the frozen encoder answer beside it.

        So fine-tuning starts from what the pretrained encoder is worth, and where there is little to learn from,
        keeps half of it. Each of the probes beside reads a half of its own of what the frozen encoder says: alone
        they are as good as on all of it, and together better.
        """
        own = self._embedding(self.parameters.exact())
        *head, _ = self._fit_heads(lambda some: own[some], own.shape[-1], classes)
        size = frozen.shape[-1]
        halves = torch.stack([self._random_half(model, size) for model in range(self.models)])
        weight, bias, self._probe_center = self._fit_heads(
            lambda some: frozen[self._places[some]] * halves[some, None], size, classes
        )
        self.parameters.begin(head, (weight * halves[:, None], bias))

    def _random_half(self, model: int, size: int) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed + self.first + model)
        return (torch.rand(size, generator=generator) < 0.5).to(self.device)

    def _fit_heads(self, read: Callable[[Tensor], Tensor], size: int, classes: int) -> list[Tensor]:
        """Fit a head for every model, on the vectors of this ``size`` that ``read`` has for some models.

        Returns:
            The weights, the biases, and the centers that the vectors were normalised by.
        """
        heads = []
        at_once = max(1, _HEAD_ROOM // (self._places.shape[1] * size))
        for some in torch.split(torch.arange(self.models, device=self.device), at_once):
            embedding = read(some)
            center = center_of(embedding)
            codes, weights = (values[some].gather(1, self._places[some]) for values in (self.codes, self.weights))
            heads.append((*fit_heads(normalised(embedding, center), codes, weights, classes), center))
        return [torch.cat(parts) for parts in zip(*heads, strict=True)]

    def _per_model(self, values: Tensor) -> Tensor:
        return values.to(self.device).expand(self.models, -1)

    @property
    def batches(self) -> int:
        """Steps an epoch."""
        return -(-int(self.members.shape[1]) // self.config.batch_size)

    def run(self, report: Callable[[int, int], None] = lambda step, steps: None) -> None:
        """Train to the end; :meth:`result` has what was learned, also after an interruption."""
        epochs = self.epochs
        on_cuda = self.device.type == "cuda"
        self.optimizer = torch.optim.AdamW(
            self.parameters.leaves,
            lr=torch.zeros((), device=self.device),
            weight_decay=self.config.weight_decay,
            fused=True,
            capturable=on_cuda,
        )
        step = _captured(self._take) if on_cuda else self._take
        between_looks = 1 if self.config.validation else -(-epochs // LOOKS)
        for epoch in range(epochs):
            self.epoch.copy_(_Epoch.of(self, epoch))
            for batch in range(self.batches):
                step()
                report(epoch * self.batches + batch + 1, epochs * self.batches)
            if self.best and (epochs - 1 - epoch) % between_looks == 0:
                waited = self.best.look(self.parameters)
                if self.config.validation and waited >= self.config.patience:
                    break

    def result(self) -> tuple[State, Tensor]:
        """Return the state of every model, the best one where series are watched, and its center."""
        if not (self.best and self.best.state):
            return self.last()
        return self.best.state, self.center(self.best.state)

    def last(self) -> tuple[State, Tensor]:
        """Return the state of every model as it is, and its center."""
        state = self.parameters.exact()
        return state, self.center(state)

    @property
    def epochs(self) -> int:
        """Passes over the series of each model."""
        return max(self.config.epochs, -(-LEAST_STEPS // self.batches))

    def _take(self) -> None:
        """Take the next step of the epoch; where memory does not suffice, in smaller pieces from now on."""
        batch = self.epoch.next()
        self.optimizer.param_groups[0]["lr"].copy_(batch.rate)
        while True:
            try:
                self._accumulate(batch)
                break
            except torch.OutOfMemoryError:
                if self.room == 1:
                    raise
                self.room //= 2
        self.optimizer.step()

    def _accumulate(self, batch: _Batch) -> None:
        """Compute the gradient of a batch, piece by piece."""
        self.optimizer.zero_grad(set_to_none=True)
        pieces = -(-batch.chosen.shape[1] // self.room)
        for number, piece in enumerate(batch.chosen.chunk(pieces, dim=1)):
            seeds = batch.seeds + number
            noise = Noise(seeds[:, None], row_names(piece.shape[1], self.device))
            views = self.stack.views(self.flat, piece, *noise.stretch(self.config.smallest_crop))
            compiled = self.config.compiled and piece.shape[1] == self.config.batch_size
            logits = self.stack.training_logits(self.parameters.for_training(), views, seeds, compiled=compiled)
            losses = F.cross_entropy(logits.flatten(0, 1), self.codes.gather(1, piece).flatten(), reduction="none")
            loss = (losses * self.weights.gather(1, piece).flatten()).sum() / batch.chosen.shape[1]
            loss.backward()  # type: ignore[no-untyped-call]

    def center(self, state: State) -> Tensor:
        """Return ``(models, 2, d)``: what to normalise by when there is no batch to do it by."""
        return torch.cat([center_of(self._embedding(state)), self._probe_center], dim=-1)

    @torch.no_grad()
    def _embedding(self, state: State) -> Tensor:
        return self.stack.embedding_of(state, self.flat, self._places)


@dataclass(frozen=True)
class _Batch:
    chosen: Tensor
    seeds: Tensor
    rate: Tensor


@dataclass(frozen=True)
class _Epoch:
    """What the steps of an epoch take, on the device.

    Attributes:
        order: ``(batches, models, size)`` which series; every model shuffles by itself.
        seeds: ``(batches, models)`` int32, of crops and dropout.
        rates: ``(batches,)`` learning rates.
        position: the batch that comes next.
    """

    order: Tensor
    seeds: Tensor
    rates: Tensor
    position: Tensor

    @classmethod
    def of(cls, trainer: Trainer, epoch: int) -> _Epoch:
        """Draw an epoch; the last batch is filled up with series of the first, for all are equally large."""
        rng = np.random.default_rng([trainer.seed, epoch])
        batches, (models, own) = trainer.batches, trainer.members.shape
        size = min(trainer.config.batch_size, own)
        turns = [rng.permutation(own) for _ in range(trainer.first + models)][trainer.first :]
        order = np.take_along_axis(trainer.members, np.stack(turns), axis=1)
        order = np.take(order, np.arange(size * batches), axis=1, mode="wrap")
        seeds = np.stack(
            [np.random.default_rng([trainer.seed, epoch, model, 1]).integers(-(2**31), 2**31, batches, np.int32)
             for model in range(trainer.first, trainer.first + models)], axis=1,
        )  # fmt: skip
        steps = np.arange(epoch * batches, (epoch + 1) * batches)
        rates = trainer.config.learning_rate * _rise_and_fall(steps, trainer.epochs * batches)
        return cls(
            torch.from_numpy(order.reshape(models, batches, size).swapaxes(0, 1).copy()).to(trainer.device),
            torch.from_numpy(seeds).to(trainer.device),
            torch.from_numpy(rates).float().to(trainer.device),
            torch.zeros(1, dtype=torch.int64, device=trainer.device),
        )

    def copy_(self, other: _Epoch) -> None:
        """Take over another epoch in place, where a captured step looks for it."""
        for field in fields(self):
            getattr(self, field.name).copy_(getattr(other, field.name))

    def next(self) -> _Batch:
        """Return the batch at the position, and move on."""
        chosen, seeds, rate = (x.index_select(0, self.position)[0] for x in (self.order, self.seeds, self.rates))
        self.position.add_(1)
        return _Batch(chosen, seeds, rate)


class _Best:
    """The best state of every model, judged by its own errors on the watched series, then by its loss."""

    def __init__(self, watched: TrainingSet, encoder: NuTime, trainer: Trainer) -> None:
        self.trainer = trainer
        probed = trainer.config.trained != "scratch"
        self.frozen = frozen_embedding(encoder, watched.series) if probed else None
        self.flat = _flat(watched.series).to(trainer.device)
        self.codes = trainer._per_model(torch.from_numpy(watched.codes))
        self.scores = torch.full((trainer.models,), torch.inf, device=trainer.device)
        self.state: State = {}
        self.waited = 0

    @torch.no_grad()
    def look(self, parameters: Parameters) -> int:
        """Keep what became better; return the number of looks since anything did."""
        scores = self._judge(parameters.for_training())
        better = scores < self.scores
        self.scores = torch.minimum(self.scores, scores)
        for name, tensor in parameters.exact().items():
            mask = better.view(-1, *[1] * (tensor.dim() - 1))
            self.state[name] = torch.where(mask, tensor, self.state.get(name, tensor))
        self.waited = 0 if bool(better.any()) else self.waited + 1
        return self.waited

    def _judge(self, state: State) -> Tensor:
        """Return every model's number of errors, plus its loss squeezed below one."""
        trainer = self.trainer
        center = trainer.center(state)
        everything = torch.arange(self.codes.shape[1], device=trainer.device).expand(trainer.models, -1)
        embedding = trainer.stack.embedding_of(state, self.flat, everything)
        said = trainer.stack.log_probabilities(state, center, embedding, self.frozen)
        losses = F.nll_loss(said.flatten(0, 1), self.codes.flatten(), reduction="none", ignore_index=-1)
        loss = losses.view(trainer.models, -1).mean(1)
        errors = (said.argmax(-1) != self.codes).sum(1)
        return errors + loss / (1 + loss)


def _captured(take: Callable[[], None]) -> Callable[[], None]:
    """Return a function that steps like ``take``, from the fourth call on by replaying one CUDA graph."""
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    calls = 0

    def step() -> None:
        nonlocal calls
        calls += 1
        if calls <= _STEPS_BEFORE_CAPTURE:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                take()
            torch.cuda.current_stream().wait_stream(stream)
            return
        if calls == _STEPS_BEFORE_CAPTURE + 1:
            with torch.cuda.graph(graph, stream=stream):
                take()
        graph.replay()

    return step


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


def _rise_and_fall(step: NDArray[np.intp], steps: int) -> NDArray[np.float64]:
    rising = np.minimum(1.0, (step + 1) / max(1.0, 0.1 * steps))
    falling: NDArray[np.float64] = rising * 0.5 * (1 + np.cos(np.pi * step / steps))
    return falling
