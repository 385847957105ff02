"""Fine-tuning: the strategy that trains the encoder along with the classifier on top of it.

Unusual here: an ensemble is one program. The parameters of all its models are stacked and the network is mapped
over them, so that five models cost far less than five runs; each still has its own head, crops, dropout and order
of batches, and ends where it would have ended alone. How they are trained is :mod:`~nutime.finetune.train`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from nutime.data.series import Array, resample
from nutime.encoder import NuTime
from nutime.estimators.base import Arrays, Float64, TrainingSet
from nutime.finetune.ensemble import POOL, Stack, frozen_embedding
from nutime.finetune.train import FinetuneConfig, Trainer
from nutime.model.network import points_for


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
        """Train; Ctrl-C ends it early with the best state so far.

        Args:
            encoder: where the models start; it stays as it is.
            training_set: what they learn from.
            params: those of the classifier. Without a validation share the schedule is fixed and the last state
                is the result.
        """
        return cls(*_train(encoder, training_set, params).result())

    @classmethod
    def fit_watching(
        cls, encoder: NuTime, training_set: TrainingSet, params: Mapping[str, Any], watched: TrainingSet
    ) -> tuple[Self, Self]:
        """Train like :meth:`fit`; return its result, and beside it every model's best state on ``watched``."""
        trainer = _train(encoder, training_set, params, watched)
        return cls(*trainer.last()), cls(*trainer.result())

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

    def logits(self, encoder: NuTime, series: list[Array], params: Mapping[str, Any]) -> Float64:
        """Return the logarithm of the models' mean probabilities, ``(n, classes)``."""
        scores: Float64 = np.log(self.probabilities(encoder, series).mean(0))
        return scores

    @torch.inference_mode()
    def probabilities(self, encoder: NuTime, series: list[Array]) -> Float64:
        """Return what each model says, ``(models, n, classes)``."""
        stack = Stack(encoder, len(series[0]), self.state["head.bias"].shape[-1])
        state = {name: tensor.to(encoder.device) for name, tensor in self.state.items()}
        center = self.center.to(encoder.device)
        size = min(256, stack.room(len(center)))
        read = state["probe.weight"].shape[-1] if "probe.weight" in state else 0
        parts = []
        for start in range(0, len(series), size):
            chunk = series[start : start + size]
            batch = torch.from_numpy(resample(chunk, points_for(encoder.config, POOL))).to(encoder.device)
            embedding = stack.embedding(state, batch.expand(len(center), *batch.shape))
            frozen = frozen_embedding(encoder, chunk, read) if read else None
            said = stack.log_probabilities(state, center, embedding, frozen)
            parts.append(said.double().exp().cpu())
        probabilities: Float64 = torch.cat(parts, dim=1).numpy()
        return probabilities


def _train(
    encoder: NuTime, training_set: TrainingSet, params: Mapping[str, Any], watched: TrainingSet | None = None
) -> Trainer:
    seed = int(np.random.default_rng(_seed(params.get("random_state"))).integers(2**31))
    trainer = Trainer(encoder, training_set, FinetuneConfig.of(params), seed, watched=watched)
    with _progress(shown=bool(params.get("verbose"))) as report, suppress(KeyboardInterrupt):
        trainer.run(report)
    return trainer


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


def _seed(random_state: Any) -> int | None:
    if random_state is None or isinstance(random_state, int | np.integer):
        return None if random_state is None else int(random_state)
    return int(random_state.randint(2**31))
