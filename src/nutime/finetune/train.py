"""Fine-tuning: training an encoder together with a linear head, for one or several models at once.

Nothing is selected on held-out data unless the user requests a validation fraction: by default the schedule is
fixed and the last state is the result. A step takes its inputs (series, noise, learning rate) from tensors that
hold a whole epoch, so that on CUDA it is captured once and replayed; on a CPU the same code runs eagerly. Every
model has its own head, crops, dropout and order of batches, which depend only on the seed and its index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from torch import Tensor
from torch.nn import functional as F

from nutime.checks import check_number
from nutime.cuda_graph import GraphedStep
from nutime.data.crops import SHRINK_SAMPLES, FlatSeries, crop
from nutime.data.series import Array, resample
from nutime.encoder import NuTime
from nutime.finetune.ensemble import (
    POOL,
    Ensemble,
    State,
    Trained,
    center_of,
    embed,
    in_training_precision,
    initial_state,
    log_probabilities,
    max_batch,
    normalised,
    row_names,
    training_outputs,
)
from nutime.finetune.linear import (
    VARIANCE_SHARE,
    Float64,
    are_weighted,
    feature_kinds,
    fit_logistic,
    fit_ridge,
    inverse_rmse,
    kind_weights,
    left_out_accuracy,
    probe_features,
)
from nutime.model.noise import Noise
from nutime.model.reading import AUTO, Reading, points_for
from nutime.progress import Report, progress

#: Training takes at least this many steps, however few the series.
MIN_STEPS = 300
#: Epochs of ``auto``, and the steps it takes at most; chosen inside training splits.
_AUTO_EPOCHS, _AUTO_STEPS = 60, 1500
#: Maximum number of evaluations on validation series: the paper's code evaluates after each of its 100 epochs.
MAX_EVALUATIONS = 100
#: Input values of the heads that are fitted together.
_HEAD_MEMORY_BUDGET = 2**26


@dataclass(frozen=True)
class TrainingSet:
    """Series with their classes, or with numbers.

    Attributes:
        series: finite series, all with a positive weight.
        targets: the class of each series, ``0 … n_classes − 1``, or a number, float32 of mean 0 and standard
            deviation 1; ``(models, n)`` if every model has its own.
        sample_weight: the weight of each series.
        class_weight: the weight of each class, on top of the series' own; None if the targets are numbers.
        embedding: ``(n, d)`` by the pretrained encoder, with the reading of the probes, if it is known.
    """

    series: list[Array]
    targets: NDArray[np.intp] | NDArray[np.float32]
    sample_weight: Float64
    class_weight: Float64 | None
    embedding: NDArray[np.float32] | None = None

    @property
    def n_outputs(self) -> int:
        """The number of values that a head predicts: one per class, or the number."""
        return 1 if self.class_weight is None else len(self.class_weight)

    @property
    def weights(self) -> Float64:
        """The weight of each series in the loss, in the shape of the targets; their mean is 1."""
        weights = self.sample_weight
        if self.class_weight is not None:
            weights = weights * self.class_weight[self.targets]
        return np.asarray(weights / weights.mean())

    def take(self, indices: ArrayLike) -> Self:
        """Return some of the series."""
        rows = np.asarray(indices)
        return replace(
            self,
            series=[self.series[row] for row in rows],
            targets=self.targets[..., rows],
            sample_weight=self.sample_weight[rows],
            embedding=None if self.embedding is None else self.embedding[rows],
        )


@dataclass(frozen=True)
class FinetuneConfig:
    """Hyperparameters; the names are those of the estimators' parameters.

    Attributes:
        trained: ``all`` of the network, the ``head`` alone, or all of it from ``scratch``.
        n_estimators: models of the ensemble; their predictions are averaged.
        epochs: passes over the training series; more if they are few, see :data:`MIN_STEPS`. ``auto`` is 60, and
            fewer if the series are many: no more than 1,500 steps.
        batch_size: series per step.
        learning_rate, weight_decay: of AdamW, with a linear warm-up over a tenth of the steps and cosine decay.
        smallest_crop: smallest share of a series that a training crop covers.
        validation_fraction: share of the series held out; each model then keeps its best state on them.
        n_iter_no_change: with a validation fraction, epochs without improvement after which training stops.
        compiled: whether to compile full batches on CUDA: a minute at first, then twice the speed in all fits.
    """

    trained: Trained = "all"
    n_estimators: int = 1
    epochs: int | Literal["auto"] = AUTO
    batch_size: int = 64
    learning_rate: float = 2e-4
    weight_decay: float = 0.05
    smallest_crop: float = 0.8
    validation_fraction: float = 0.0
    n_iter_no_change: int = 20
    compiled: bool = False

    def __post_init__(self) -> None:
        if self.trained not in ("all", "head", "scratch"):
            raise ValueError(f"trained must be all, head or scratch; got {self.trained!r}")
        for name in ("n_estimators", "epochs", "batch_size", "n_iter_no_change"):
            if name != "epochs" or self.epochs != AUTO:
                check_number(name, getattr(self, name), "[1, inf)", integer=True)
        for name in ("learning_rate", "weight_decay"):
            check_number(name, getattr(self, name), "[0, inf)")
        check_number("smallest_crop", self.smallest_crop, "(0, 1]")
        check_number("validation_fraction", self.validation_fraction, "[0, 1)")


@dataclass(frozen=True)
class FinetuneResult:
    """The outcome of :func:`finetune`.

    Attributes:
        last: the models after the last step.
        best: every model at its best evaluation on the validation series; None without such series.
        history: ``loss`` per epoch and, with validation series, ``validation_score`` (accuracy) per evaluation;
            both are means over the models.
        stopped_early: whether training ended before the last epoch because nothing improved.
    """

    last: Ensemble
    best: Ensemble | None
    history: dict[str, Float64]
    stopped_early: bool


def finetune(
    encoder: NuTime,
    data: TrainingSet,
    config: FinetuneConfig,
    seed: int,
    *,
    reading: Reading | None = None,
    validation: TrainingSet | None = None,
    members: NDArray[np.intp] | None = None,
    first_model: int = 0,
    verbose: bool | Report = False,
) -> FinetuneResult:
    """Train models that start from an encoder, which itself is not changed.

    Args:
        encoder: the pretrained encoder.
        data: series to train on; those of the validation fraction are taken from them.
        config: hyperparameters.
        seed: of initial heads, batches, crops and dropout.
        reading: how the pretrained encoder reads series for the probes; chosen by their length unless given.
        validation: series with classes for selecting each model's best state; they have no influence on training.
        members: ``(models, k)`` indices of the series that each model is trained on; all of them unless given.
        first_model: index of the first model.
        verbose: True shows a progress bar; a callable receives (steps done, steps in total).
    """
    if reading is None:
        reading = Reading.choose(encoder.config, AUTO, AUTO, data.series)
    if config.trained == "scratch":  # without probes
        data = replace(data, embedding=None)
    elif data.embedding is None:
        data = replace(data, embedding=probe_features(encoder, data.series, reading))
    if members is None:
        train, held_out = split_validation(data.targets.astype(np.intp), config.validation_fraction, seed)
        members = np.tile(train, (config.n_estimators, 1))
        validation = data.take(held_out) if len(held_out) else validation
    training = _Training(encoder, data, config, seed, reading, members, first_model)
    best = _Best(validation, encoder, training) if validation else None
    step = GraphedStep(training.step, encoder.device)
    epochs, batches = training.epochs, training.batches
    evaluate_every = 1 if config.validation_fraction else -(-epochs // MAX_EVALUATIONS)
    losses, scores, stopped_early = [], [], False
    with progress("fine-tuning", verbose) as report:
        for epoch in range(epochs):
            training.start_epoch(epoch)
            for batch in range(batches):
                step()
                report(epoch * batches + batch + 1, epochs * batches)
            losses.append(float(training.loss) / batches)
            if not np.isfinite(losses[-1]):
                raise ValueError(
                    f"fine-tuning diverged: the loss of epoch {epoch + 1} is not finite; try a lower learning_rate"
                )
            if best and (epochs - 1 - epoch) % evaluate_every == 0:
                scores.append(best.update())
                if config.validation_fraction and best.evaluations_since >= config.n_iter_no_change:
                    stopped_early = epoch < epochs - 1
                    break
    history = {"loss": np.array(losses)} | ({"validation_score": np.array(scores)} if best else {})
    selected = training.with_center(best.state) if best else None
    return FinetuneResult(training.with_center(training.state()), selected, history, stopped_early)


def split_validation(
    targets: NDArray[np.intp], fraction: float, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the series to train on and a stratified share to hold out; every class stays in training."""
    if not fraction:
        return np.arange(len(targets)), np.arange(0)
    rng = np.random.default_rng(seed)
    quantile = np.empty(len(targets))  # the position of a series within its class, from 0 to 1
    for target in np.unique(targets):
        members = rng.permutation(np.flatnonzero(targets == target))
        quantile[members] = (np.arange(len(members)) + rng.random(len(members))) / len(members)
        quantile[members[-1]] = np.inf
    n_held_out = min(max(1, round(fraction * len(targets))), int(np.isfinite(quantile).sum()))
    if not n_held_out:
        raise ValueError("validation_fraction: every class has one series, and none can be held out; use 0")
    order = np.argsort(quantile)
    return np.sort(order[n_held_out:]), np.sort(order[:n_held_out])


def seed_from(random_state: Any) -> int:
    """Return the seed of a fit from scikit-learn's ``random_state``."""
    if random_state is not None and not isinstance(random_state, int | np.integer):
        random_state = int(check_random_state(random_state).randint(2**31))
    return int(np.random.default_rng(random_state).integers(2**31))


class _Training:
    """Data on the device, models and optimizer; :meth:`step` is one step of optimisation."""

    def __init__(
        self,
        encoder: NuTime,
        data: TrainingSet,
        config: FinetuneConfig,
        seed: int,
        reading: Reading,
        members: NDArray[np.intp],
        first_model: int,
    ) -> None:
        self.config, self.seed, self.reading = config, seed, reading
        self.members, self.first_model = members, first_model
        self.device, self.n_models = encoder.device, len(members)
        self.network = encoder.config.replace(channels=len(data.series[0]))
        # The channel projection is not pretrained and overfits. Not for regression: targets may depend on speed.
        self.augmented = self.network.channels > 1 and data.class_weight is not None
        self.batches = -(-members.shape[1] // config.batch_size)
        epochs = min(_AUTO_EPOCHS, -(-_AUTO_STEPS // self.batches)) if config.epochs == AUTO else config.epochs
        self.epochs = max(epochs, -(-MIN_STEPS // self.batches))
        self.rows = torch.from_numpy(members).to(self.device)
        self.flat = _flatten(data.series).to(self.device)
        self.whole = self.resized(data.series)
        self.targets = self.per_model(data.targets)
        self.weights = self.per_model(data.weights.astype(np.float32))
        self.trained, self.fixed = initial_state(
            encoder, self.network, data.n_outputs, self.n_models, config.trained, seed + first_model
        )
        self.probe_center = self.weights.new_empty(self.n_models, 2, 0)
        if data.embedding is not None:
            kinds = feature_kinds(reading, encoder.config, self.network.channels, data.embedding.shape[1])
            self._start_from_probes(torch.from_numpy(data.embedding).to(self.device), kinds, data.n_outputs)
        self.optimizer = torch.optim.AdamW(
            self.trained.values(),
            lr=torch.zeros((), device=self.device),
            weight_decay=config.weight_decay,
            fused=True,
            capturable=self.device.type == "cuda",
        )
        self.chunk_size = min(max_batch(self.network, self.n_models, self.device), config.batch_size)
        self.epoch = _Epoch.draw(self, 0)
        self.loss = torch.zeros((), device=self.device)

    def per_model(self, values: NDArray[Any]) -> Tensor:
        """Return ``(models, n)`` values on the device."""
        return torch.from_numpy(values).to(self.device).expand(self.n_models, -1)

    def _start_from_probes(self, frozen: Tensor, kinds: Sequence[slice], n_outputs: int) -> None:
        """Initialise every head as a linear probe of its model, and add a probe of the frozen encoder.

        Fine-tuning then starts from the quality of the pretrained encoder, and keeps half of it where there is
        little to learn from. Each of the added probes reads its own random half of the frozen features: one is as
        good as on all of them, and several together are better.
        """
        own = self.embedding(self.state())
        weight, bias, *_ = self._fit_heads(lambda models: own[models], own.shape[-1], n_outputs)
        with torch.no_grad():
            self.trained["head.weight"].copy_(weight)
            self.trained["head.bias"].copy_(bias)
        seeds = range(self.seed + self.first_model, self.seed + self.first_model + self.n_models)
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        weighted = are_weighted(kinds)
        probes = [self._fit_probes(frozen[:, kind], generators, n_outputs, weighted) for kind in kinds]
        weights, biases, centers, scores = zip(*probes, strict=True)
        kind_weight = kind_weights(scores).float()[..., None]
        self.probe_center = torch.cat(centers, dim=-1)
        parts = [own[..., None] * weight for own, weight in zip(kind_weight, weights, strict=True)]
        self.fixed["probe.weight"] = torch.cat(parts, dim=-1)
        self.fixed["probe.bias"] = (kind_weight * torch.stack(biases)).sum(0)

    def _fit_probes(
        self, frozen: Tensor, generators: Sequence[torch.Generator], n_outputs: int, weighted: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Fit a probe per model, on its own random half of one kind of features; as :meth:`_fit_heads`."""
        size = frozen.shape[-1]
        orders = torch.stack([torch.randperm(size, generator=generator) for generator in generators])
        halves = orders[:, : -(-size // 2)].to(self.device)
        weight, bias, center, score = self._fit_heads(
            lambda models: frozen[self.rows[models, :, None], halves[models, None]],
            halves.shape[1],
            n_outputs,
            VARIANCE_SHARE,
            weighted,
        )
        all_weights = frozen.new_zeros(self.n_models, n_outputs, size)
        all_centers = frozen.new_tensor([0, 1])[:, None].repeat(self.n_models, 1, size)
        all_weights.scatter_(2, halves[:, None].expand_as(weight), weight.float())
        all_centers.scatter_(2, halves[:, None].expand_as(center), center)
        return all_weights, bias.float(), all_centers, score

    def _fit_heads(
        self,
        read: Callable[[Tensor], Tensor],
        size: int,
        n_outputs: int,
        variance_share: float = 0,
        weighted: bool = False,
    ) -> list[Tensor]:
        """Fit a head per model, on the vectors of this ``size`` that ``read`` returns for some models.

        ``variance_share`` is as in :func:`~nutime.finetune.linear.standardise`.

        Returns:
            The weights, the biases, the centers by which the vectors were normalised and, if the heads are
            ``weighted``, how well each predicts series left out; otherwise ones.
        """
        heads = []
        chunk_size = max(1, _HEAD_MEMORY_BUDGET // (self.rows.shape[1] * size))
        for models in torch.split(torch.arange(self.n_models, device=self.device), chunk_size):
            embedding = read(models)
            center = center_of(embedding)
            center[:, 1] += variance_share * center[:, 1].mean(1, keepdim=True)
            targets, weights = (
                values[models].gather(1, self.rows[models]) for values in (self.targets, self.weights)
            )
            rows, score = normalised(embedding, center), center.new_ones(len(models))
            if targets.is_floating_point():
                coef, intercept, errors = fit_ridge(rows, targets[..., None], weights)
                score = inverse_rmse(errors, weights) if weighted else score
            else:
                coef, intercept = fit_logistic(rows, targets, weights, n_outputs)
                score = left_out_accuracy(rows, targets, weights) if weighted else score
            heads.append((coef, intercept, center, score))
        parts = [torch.cat(part) for part in zip(*heads, strict=True)]
        if not all(part.isfinite().all() for part in parts):
            raise ValueError("the linear head of fine-tuning has values that are not finite; is a series extreme?")
        return parts

    def start_epoch(self, epoch: int) -> None:
        """Draw the batches of an epoch, into the tensors that a captured step reads."""
        self.epoch.copy_(_Epoch.draw(self, epoch))
        self.loss.zero_()

    def step(self) -> None:
        """Take the next step of the epoch; when out of memory, in smaller chunks from now on."""
        batch, seeds, learning_rate = self.epoch.next()
        self.optimizer.param_groups[0]["lr"].copy_(learning_rate)
        while True:
            try:
                loss = self._backward(batch, seeds)
                break
            except torch.OutOfMemoryError:
                if self.chunk_size == 1:
                    raise
                self.chunk_size //= 2
        self.optimizer.step()
        self.loss += loss

    def _backward(self, batch: Tensor, seeds: Tensor) -> Tensor:
        """Compute the gradient of a batch, in chunks; return the mean loss over the models."""
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros_like(self.loss)
        for number, rows in enumerate(batch.chunk(-(-batch.shape[1] // self.chunk_size), dim=1)):
            chunk_seeds = seeds + number
            noise = Noise(chunk_seeds[:, None], row_names(rows.shape[1], self.device))
            views = self._crop(rows, noise)
            share = noise.mixture().to(views) if self.augmented else None
            if share is not None:  # mixup with another series of the chunk
                views = share[..., None, None] * views + (1 - share[..., None, None]) * views.roll(1, dims=1)
            state = in_training_precision(self.trained | self.fixed)
            compiled = self.config.compiled and rows.shape[1] == self.config.batch_size
            outputs = training_outputs(self.network, state, views, chunk_seeds, compiled=compiled)
            losses = self._losses(outputs, rows)
            if share is not None:
                losses = share * losses + (1 - share) * self._losses(outputs, rows.roll(1, dims=1))
            loss = losses.sum() / batch.shape[1]
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach() / self.n_models
        return total

    def _losses(self, outputs: Tensor, rows: Tensor) -> Tensor:
        """Return the weighted losses ``(models, batch)`` for the targets of some series."""
        targets, weights = (values.gather(1, rows) for values in (self.targets, self.weights))
        if targets.is_floating_point():
            return weights * (outputs[..., 0] - targets).square()
        losses = F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="none")
        return weights * losses.view_as(weights)

    def _crop(self, rows: Tensor, noise: Noise) -> Tensor:
        """Return ``(models, batch, channels, length)``, the same crop for all channels of a series."""
        channels, length = self.network.channels, points_for(self.network, POOL)
        index = (rows[..., None] * channels + torch.arange(channels, device=self.device)).flatten()
        begin, share = (
            draw.flatten().repeat_interleave(channels) for draw in noise.stretch(self.config.smallest_crop)
        )
        warp = noise.warp().flatten(0, 1).repeat_interleave(channels, dim=0) if self.augmented else None
        views = crop(self.flat, index, begin, share, length, SHRINK_SAMPLES, warp)
        return views.view(*rows.shape, channels, length)

    def state(self) -> State:
        """Return the current parameters and buffers of all models."""
        return {name: value.detach() for name, value in (self.trained | self.fixed).items()}

    def with_center(self, state: State) -> Ensemble:
        """Return models with the mean and variance of the training series' embeddings."""
        center = torch.cat([center_of(self.embedding(state)), self.probe_center], dim=-1)
        return Ensemble({name: value.clone() for name, value in state.items()}, center, self.reading)

    @torch.no_grad()
    def embedding(self, state: State, whole: Tensor | None = None, rows: Tensor | None = None) -> Tensor:
        """Return ``(models, n, d)`` for whole series, those of training unless others are given."""
        whole, rows = (self.whole, self.rows) if whole is None or rows is None else (whole, rows)
        chunks = rows.split(max_batch(self.network, self.n_models, self.device), dim=1)  # type: ignore[no-untyped-call]
        views = (whole[chunk.cpu()].to(self.device) for chunk in chunks)
        return torch.cat([embed(self.network, state, view) for view in views], dim=1)

    def resized(self, series: list[Array]) -> Tensor:
        """Return whole series as a fitted model reads them, ``(n, channels, length)``."""
        return torch.from_numpy(resample(series, points_for(self.network, POOL)))


@dataclass(frozen=True)
class _Epoch:
    """The inputs of an epoch's steps, on the device.

    Attributes:
        order: ``(batches, models, size)`` indices of series; every model has its own order.
        seeds: ``(batches, models)`` int32, of crops and dropout.
        learning_rates: ``(batches,)``.
        position: index of the next batch.
    """

    order: Tensor
    seeds: Tensor
    learning_rates: Tensor
    position: Tensor

    @classmethod
    def draw(cls, training: _Training, epoch: int) -> _Epoch:
        """Draw an epoch; the last batch is filled up with series of the first, because all have the same size."""
        rng = np.random.default_rng([training.seed, epoch])
        batches, (models, own), first = training.batches, training.members.shape, training.first_model
        size = min(training.config.batch_size, own)
        turns = [rng.permutation(own) for _ in range(first + models)][first:]
        order = np.take_along_axis(training.members, np.stack(turns), axis=1)
        order = np.take(order, np.arange(size * batches), axis=1, mode="wrap")
        seeds = np.stack(
            [np.random.default_rng([training.seed, epoch, model, 1]).integers(-(2**31), 2**31, batches, np.int32)
             for model in range(first, first + models)], axis=1,
        )  # fmt: skip
        steps = np.arange(epoch * batches, (epoch + 1) * batches)
        rates = training.config.learning_rate * _warmup_and_cosine(steps, training.epochs * batches)
        return cls(
            torch.from_numpy(order.reshape(models, batches, size).swapaxes(0, 1).copy()).to(training.device),
            torch.from_numpy(seeds).to(training.device),
            torch.from_numpy(rates).float().to(training.device),
            torch.zeros(1, dtype=torch.int64, device=training.device),
        )

    def copy_(self, other: _Epoch) -> None:
        """Copy another epoch in place, where a captured step reads it."""
        for field in fields(self):
            getattr(self, field.name).copy_(getattr(other, field.name))

    def next(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the series, seeds and learning rate of the next batch."""
        batch, seeds, learning_rate = (
            values.index_select(0, self.position)[0] for values in (self.order, self.seeds, self.learning_rates)
        )
        self.position.add_(1)
        return batch, seeds, learning_rate


class _Best:
    """The best state of every model, by its number of errors on the validation series, then by its loss."""

    def __init__(self, validation: TrainingSet, encoder: NuTime, training: _Training) -> None:
        self.training = training
        self.frozen = None
        if training.config.trained != "scratch":
            embedding = validation.embedding
            if embedding is None:
                embedding = probe_features(encoder, validation.series, training.reading)
            self.frozen = torch.from_numpy(embedding).to(training.device)
        self.whole = training.resized(validation.series)
        self.targets = training.per_model(validation.targets)
        self.badness = torch.full((training.n_models,), torch.inf, device=training.device)
        self.state: State = {}
        self.evaluations_since = 0

    @torch.no_grad()
    def update(self) -> float:
        """Evaluate the models and keep the states that improved; return the mean accuracy."""
        training = self.training
        state = in_training_precision(training.state())
        rows = torch.arange(self.targets.shape[1], device=training.device).expand(training.n_models, -1)
        center = training.with_center(state).center
        outputs = log_probabilities(state, center, training.embedding(state, self.whole, rows), self.frozen)
        losses = F.nll_loss(outputs.flatten(0, 1), self.targets.flatten(), reduction="none", ignore_index=-1)
        loss = losses.view(training.n_models, -1).mean(1)
        wrong = outputs.argmax(-1) != self.targets
        badness = wrong.sum(1) + loss / (1 + loss)
        improved = badness < self.badness
        self.badness = torch.minimum(self.badness, badness)
        for name, tensor in training.state().items():
            mask = improved.view(-1, *[1] * (tensor.dim() - 1))
            self.state[name] = torch.where(mask, tensor, self.state.get(name, tensor))
        self.evaluations_since = 0 if bool(improved.any()) else self.evaluations_since + 1
        return 1 - float(wrong.float().mean())


def _flatten(series: list[Array]) -> FlatSeries:
    """Concatenate the channels of all series; float64 input stays float64."""
    lengths = torch.tensor([len(channel) for values in series for channel in values])
    values = np.concatenate([values.reshape(-1) for values in series])
    return FlatSeries(torch.from_numpy(values), lengths.cumsum(0) - lengths, lengths)


def _warmup_and_cosine(step: NDArray[np.intp], steps: int) -> Float64:
    warmup = np.minimum(1.0, (step + 1) / max(1.0, 0.1 * steps))
    return np.asarray(warmup * 0.5 * (1 + np.cos(np.pi * step / steps)))
