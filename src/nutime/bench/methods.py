"""Ways to answer a data set, each under one name in every table.

A method is asked for all its results on a set at once: an ensemble of five also tells what each of its models says
alone, for nothing. What it will answer is known before, so that a finished set is never run again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, f1_score

from nutime.data.archives import Dataset
from nutime.data.series import as_series
from nutime.encoder import NuTime
from nutime.estimators.classifier import NuTimeClassifier
from nutime.finetune.train import MAX_EVALUATIONS, FinetuneConfig, TrainingSet, finetune, seed_from


class Name(NamedTuple):
    """What a result is filed under, beside its protocol and data set."""

    method: str
    selection: str
    seed: int


class Answer(NamedTuple):
    """One result, before it is filed."""

    name: Name
    scores: dict[str, float]
    seconds: float
    config: dict[str, Any]


class Method(Protocol):
    """Something that can be run on a data set."""

    def names(self) -> Sequence[Name]:
        """Say what will be answered."""
        ...

    def answer(self, dataset: Dataset) -> Iterator[Answer]:
        """Run on one data set."""
        ...


@dataclass(frozen=True)
class Probe:
    """The frozen encoder with a linear classifier: ``NuTimeClassifier("probe")`` as users have it."""

    method: str
    encoder: NuTime

    def names(self) -> Sequence[Name]:
        """One result; nothing here is random."""
        return [Name(self.method, "honest", 0)]

    def answer(self, dataset: Dataset) -> Iterator[Answer]:
        """Fit on the training split, score on the test split."""
        start = time.perf_counter()
        classifier = NuTimeClassifier("probe", self.encoder).fit(dataset.X_train, dataset.y_train)
        said = classifier.predict(dataset.X_test)
        seconds = time.perf_counter() - start
        config = {
            name: value for name, value in classifier.get_params().items() if name in ("strategy", "pool", "C")
        }
        yield Answer(self.names()[0], scores(dataset.y_test, said), seconds, config)


@dataclass(frozen=True)
class Finetune:
    """Fine-tuning: every model alone, and their ensemble.

    The schedule is fixed and the last state counts. With ``selection="paper"`` each model's best epoch on the test
    split is told beside it, as in the paper's own tables; it is the same training.
    """

    method: str
    encoder: NuTime
    selection: str = "honest"
    n_models: int = 5
    seed: int = 0
    changes: dict[str, Any] = field(default_factory=dict)

    def names(self) -> Sequence[Name]:
        """The models one by one, then the ensemble; what was chosen on test data last."""
        return [name for selection in self._selections() for name in self._names(selection)]

    def _selections(self) -> Sequence[str]:
        return ("honest", "paper") if self.selection == "paper" else ("honest",)

    def _names(self, selection: str) -> Sequence[Name]:
        alone = [Name(self.method, selection, self.seed + member) for member in range(self.n_models)]
        together = Name(f"{self.method} ×{self.n_models}", selection, self.seed)
        return [*alone, together] if self.n_models > 1 else alone

    def answer(self, dataset: Dataset) -> Iterator[Answer]:
        """Fit on the training split, score on the test split."""
        start = time.perf_counter()
        classes = np.unique(dataset.y_train)
        train = _training_set(dataset.X_train, dataset.y_train, classes)
        test = _training_set(dataset.X_test, dataset.y_test, classes)
        # One compilation serves all sets of one channel; the others would need one each.
        compiled = len(train.series[0]) == 1
        params = {"n_estimators": self.n_models, "compiled": compiled, **self.changes}
        paper = self.selection == "paper"
        result = finetune(
            self.encoder,
            train,
            FinetuneConfig(**params),
            seed_from(self.seed),
            validation=test if paper else None,
        )
        params = {**params, "random_state": self.seed}
        for selection in self._selections():
            models = result.best if selection == "paper" and result.best else result.last
            probabilities = np.exp(models.log_probabilities(self.encoder, test.series))
            said = [*probabilities.argmax(-1), probabilities.mean(0).argmax(-1)]
            seconds = time.perf_counter() - start
            config = {**params, "looks": MAX_EVALUATIONS} if selection == "paper" else params
            for name, codes in zip(self._names(selection), said, strict=False):
                yield Answer(name, scores(dataset.y_test, classes[codes]), seconds, config)


def scores(truth: NDArray[Any], said: NDArray[Any]) -> dict[str, float]:
    """Return accuracy and macro-F1."""
    return {
        "accuracy": float(accuracy_score(truth, said)),
        "macro_f1": float(f1_score(truth, said, average="macro", zero_division=0)),
    }


def _training_set(X: Any, y: NDArray[Any], classes: NDArray[Any]) -> TrainingSet:
    """Encode labels by ``classes``; one that is not among them gets a code no model can say."""
    codes = np.searchsorted(classes, y)
    codes = np.where(classes[np.minimum(codes, len(classes) - 1)] == y, codes, -1)
    return TrainingSet(as_series(X), codes, np.ones(len(codes)), np.ones(len(classes)))
