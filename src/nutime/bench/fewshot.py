"""The few-shot benchmark: :func:`~nutime.finetune.fewshot.few_shot` on the sets of the paper's Table 13."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from nutime.bench.methods import Answer, Name
from nutime.data.archives import Dataset
from nutime.encoder import NuTime
from nutime.finetune.fewshot import few_shot


@dataclass(frozen=True)
class FewShot:
    """Episodes with all classes of a set, and all its test series as queries."""

    method: str
    encoder: NuTime
    shots: int = 5
    episodes: int = 100
    seed: int = 0
    changes: dict[str, Any] = field(default_factory=dict)

    def names(self) -> Sequence[Name]:
        """One result: the mean over the episodes."""
        return [Name(self.method, "honest", self.seed)]

    def answer(self, dataset: Dataset) -> Iterator[Answer]:
        """Draw the shots from the training split, score on the test split."""
        start = time.perf_counter()
        params = {"shots": self.shots, "episodes": self.episodes, "seed": self.seed, **self.changes}
        accuracies = few_shot(self.encoder, *dataset, **params)
        scores = {"accuracy": float(accuracies.mean()), "accuracy_deviation": float(accuracies.std())}
        yield Answer(self.names()[0], scores, time.perf_counter() - start, params)
