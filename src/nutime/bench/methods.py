"""Methods of the benchmark: nutime's tasks, and classifiers of aeon on the same splits.

A method may have several results per data set (the models of an ensemble and the ensemble); their keys are known
before it runs, so that a finished set is not run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics

from nutime.data.archives import Dataset
from nutime.data.series import as_series
from nutime.encoder import NuTime
from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.clusterer import NuTimeClusterer
from nutime.estimators.detector import NuTimeDetector
from nutime.finetune.fewshot import few_shot
from nutime.finetune.forest import Forest
from nutime.finetune.train import MAX_EVALUATIONS, FinetuneConfig, TrainingSet, finetune, seed_from

Scores: TypeAlias = dict[str, float]
Config: TypeAlias = dict[str, Any]

NORMAL, ANOMALOUS = "normal", "anomalous"
#: Epochs of the paper's fine-tuning.
PAPER_EPOCHS = 100
#: Percentage of anomalies in the test series of anomaly detection.
ANOMALY_PERCENT = 10
#: Classifiers of aeon: module, class and parameters other than its defaults.
PEERS: dict[str, tuple[str, str, Config]] = {
    "MiniRocket": ("convolution_based", "MiniRocketClassifier", {}),
    "MultiRocket-Hydra": ("convolution_based", "MultiRocketHydraClassifier", {}),
    "1NN-DTW": (
        "distance_based",
        "KNeighborsTimeSeriesClassifier",
        {"distance": "dtw", "distance_params": {"window": 0.1}},
    ),
}


class RunKey(NamedTuple):
    """Identifies a result, together with its protocol and data set."""

    method: str
    selection: str
    seed: int


class Evaluation(NamedTuple):
    """One result of a method on a data set."""

    key: RunKey
    scores: Scores
    seconds: float
    config: Config


class Method(Protocol):
    """Something that can be evaluated on a data set."""

    def run_keys(self) -> Sequence[RunKey]:
        """Return the keys of all results."""
        ...

    def evaluate(self, dataset: Any) -> Iterator[Evaluation]:
        """Fit on the training split, score on the test split."""
        ...


@dataclass(frozen=True)
class SingleRun:
    """A method with one result per data set; subclasses implement ``_run``."""

    method: str
    seed: int = field(default=0, kw_only=True)

    def run_keys(self) -> Sequence[RunKey]:
        """Return the one key."""
        return [RunKey(self.method, "honest", self.seed)]

    def evaluate(self, dataset: Any) -> Iterator[Evaluation]:
        """Run and measure the time."""
        start = time.perf_counter()
        scores, config = self._run(dataset)
        yield Evaluation(self.run_keys()[0], scores, time.perf_counter() - start, config)

    def _run(self, dataset: Any) -> tuple[Scores, Config]:
        """Fit on the training split; return the scores on the test split, and the parameters used."""
        raise NotImplementedError


@dataclass(frozen=True)
class Probe(SingleRun):
    """The frozen encoder with a linear classifier and trees: ``NuTimeClassifier("probe")`` with its defaults."""

    encoder: NuTime

    def _run(self, dataset: Dataset) -> tuple[Scores, Config]:
        classifier = NuTimeClassifier("probe", self.encoder).fit(dataset.X_train, dataset.y_train)
        params = {name: getattr(classifier, name) for name in ("C", "strategy", "forest")}
        config = {**params, **asdict(classifier.reading_)}
        return classification_scores(dataset.y_test, classifier.predict(dataset.X_test)), config


@dataclass(frozen=True)
class Peer(SingleRun):
    """A classifier of aeon with its default parameters, one of :data:`PEERS`.

    These need series of equal length: shorter ones are padded with zeros at the end, and missing values are
    interpolated.
    """

    def __post_init__(self) -> None:
        if self.method not in PEERS:
            raise ValueError(f"{self.method!r} is not among the peers {', '.join(PEERS)}")

    def _run(self, dataset: Dataset) -> tuple[Scores, Config]:
        X_train, X_test = equal_lengths(dataset.X_train, dataset.X_test)
        classifier = make_peer(self.method, self.seed).fit(X_train, dataset.y_train)
        return classification_scores(dataset.y_test, np.asarray(classifier.predict(X_test))), {}


@dataclass(frozen=True)
class FewShot(SingleRun):
    """The mean over episodes with all classes of a set, and all its test series as queries."""

    encoder: NuTime
    shots: int = 5
    episodes: int = 100
    params: Config = field(default_factory=dict)

    def _run(self, dataset: Dataset) -> tuple[Scores, Config]:
        params = {"shots": self.shots, "episodes": self.episodes, "seed": self.seed, "forest": True, **self.params}
        accuracies = few_shot(self.encoder, *dataset, **params)
        return {"accuracy": float(accuracies.mean()), "accuracy_deviation": float(accuracies.std())}, params


@dataclass(frozen=True)
class EmbeddingTask(SingleRun):
    """An unsupervised task on embeddings of the *test* series (paper, Appendix B).

    The encoder is fine-tuned on the labelled training series first, or not; the task itself uses no labels.
    """

    encoder: NuTime
    finetuned: bool = True
    params: Config = field(default_factory=dict)

    def run_keys(self) -> Sequence[RunKey]:
        """Return the one key."""
        return [RunKey(self.method if self.finetuned else frozen_name(self.method), "honest", self.seed)]

    def _run(self, dataset: Dataset) -> tuple[Scores, Config]:
        encoder = self._fine_tune(dataset) if self.finetuned else self.encoder
        scores = self._solve(encoder, dataset.X_test, dataset.y_test)
        return scores, {"finetuned": self.finetuned, **self.params}

    def _fine_tune(self, dataset: Dataset) -> NuTime:
        """Return the encoder of a classifier fine-tuned on the training split."""
        classifier = NuTimeClassifier(
            "finetune", self.encoder, n_estimators=1, random_state=self.seed, **self.params
        ).fit(dataset.X_train, dataset.y_train)
        arrays = classifier.model_.arrays()
        tuned = NuTime(self.encoder.config.replace(channels=classifier.n_channels_in_)).to(self.encoder.device)
        for name, tensor in tuned.state_dict().items():
            tensor.copy_(tensor.new_tensor(arrays[f"encoder.{name}"][0]))
        return tuned

    def _solve(self, encoder: NuTime, X: Any, y: NDArray[Any]) -> Scores:
        """Solve the task, and compare the solution with the labels."""
        raise NotImplementedError


class Clustering(EmbeddingTask):
    """k-means with as many clusters as classes."""

    def _solve(self, encoder: NuTime, X: Any, y: NDArray[Any]) -> Scores:
        clusterer = NuTimeClusterer(len(np.unique(y)), encoder, random_state=self.seed).fit(X)
        return {
            "silhouette": clusterer.silhouette_,
            "ari": float(metrics.adjusted_rand_score(y, clusterer.labels_)),
            "nmi": float(metrics.normalized_mutual_info_score(y, clusterer.labels_)),
        }


class AnomalyDetection(EmbeddingTask):
    """A one-class SVM fitted to the test series, with a known percentage of anomalies.

    The paper's AUROC of 0.9481 is the mean of its recall, 0.8962, and 1: the value of hard decisions without a
    false alarm. Here ``auroc`` is computed from the scores, and that mean is ``balanced_accuracy``.
    """

    def _solve(self, encoder: NuTime, X: Any, y: NDArray[Any]) -> Scores:
        if set(y) != {NORMAL, ANOMALOUS}:
            raise ValueError(f"expected {NORMAL} and {ANOMALOUS} series, got {set(y)}; use load_anomalies")
        detector = NuTimeDetector(ANOMALY_PERCENT / 100, encoder).fit(X)
        truth, detected = y == ANOMALOUS, detector.predict(X) < 0
        precision, recall, f1, _ = metrics.precision_recall_fscore_support(
            truth, detected, average="binary", zero_division=0
        )
        return {
            "precision": float(precision),
            "recall": float(recall),
            "f1": float(f1),
            "auroc": float(metrics.roc_auc_score(truth, detector.anomaly_score(X))),
            "balanced_accuracy": float(metrics.balanced_accuracy_score(truth, detected)),
        }


@dataclass(frozen=True)
class Finetune:
    """Fine-tuning: every model alone, and their ensemble.

    The schedule is fixed and the last state is the result. With ``selection="paper"`` the schedule is the paper's,
    and each model's best epoch on the test split is the result, as in the paper's tables; without trees, on which
    the epoch has no effect.
    """

    method: str
    encoder: NuTime
    selection: str = "honest"
    n_estimators: int = 5
    seed: int = 0
    forest: bool = True
    params: Config = field(default_factory=dict)

    def run_keys(self) -> Sequence[RunKey]:
        """Return the keys of the models, then of the ensemble."""
        models = [RunKey(self.method, self.selection, self.seed + index) for index in range(self.n_estimators)]
        ensemble = RunKey(f"{self.method} ×{self.n_estimators}", self.selection, self.seed)
        return [*models, ensemble] if self.n_estimators > 1 else models

    def evaluate(self, dataset: Dataset) -> Iterator[Evaluation]:
        """Fit on the training split, score on the test split."""
        start = time.perf_counter()
        classes = np.unique(dataset.y_train)
        train = _training_set(dataset.X_train, dataset.y_train, classes)
        test = _training_set(dataset.X_test, dataset.y_test, classes)
        on_test = self.selection == "paper"
        # One compilation serves all univariate sets; multivariate ones would need one each.
        compiled = len(train.series[0]) == 1
        epochs = {"epochs": PAPER_EPOCHS} if on_test else {}
        params = {"n_estimators": self.n_estimators, "compiled": compiled, **epochs, **self.params}
        validation = test if on_test else None
        fitted = finetune(
            self.encoder, train, FinetuneConfig(**params), seed_from(self.seed), validation=validation
        )
        models = fitted.best or fitted.last
        probabilities = np.exp(models.log_probabilities(self.encoder, test.series))
        forest = self.forest and not on_test
        if forest:
            trees = Forest.fit(train.series, train.targets.astype(np.intp), train.weights, len(classes))
            probabilities = probabilities + trees.probabilities(test.series)
        predictions = [*probabilities.argmax(-1), probabilities.mean(0).argmax(-1)]
        seconds = time.perf_counter() - start
        evaluations = {"evaluations": MAX_EVALUATIONS} if on_test else {}
        config = {**params, "random_state": self.seed, "forest": forest, **evaluations}
        for key, predicted in zip(self.run_keys(), predictions, strict=False):
            yield Evaluation(key, classification_scores(dataset.y_test, classes[predicted]), seconds, config)


@dataclass(frozen=True)
class Trials:
    """Data that may have a different split for every seed.

    Attributes:
        split: seed to training and test data.
        about: what is recorded with every result.
    """

    split: Callable[[int], Dataset]
    about: Config = field(default_factory=dict)


@dataclass(frozen=True)
class Repeated:
    """A method run again with every seed, including the split: the paper's mean of five runs."""

    method: SingleRun | Finetune
    runs: int

    def run_keys(self) -> Sequence[RunKey]:
        """Return the keys of all runs."""
        return [key for seed in range(self.runs) for key in replace(self.method, seed=seed).run_keys()]

    def evaluate(self, dataset: Dataset | Trials) -> Iterator[Evaluation]:
        """Run with every seed."""
        trials = dataset if isinstance(dataset, Trials) else Trials(lambda seed: dataset)
        for seed in range(self.runs):
            for found in replace(self.method, seed=seed).evaluate(trials.split(seed)):
                yield found._replace(config=found.config | trials.about)


def frozen_name(method: str) -> str:
    """Return the name of a method with the encoder frozen, beside the one that fine-tunes it."""
    return f"{method}, not fine-tuned"


def classification_scores(y_true: NDArray[Any], y_pred: NDArray[Any]) -> Scores:
    """Return accuracy and macro-F1."""
    return {
        "accuracy": float(metrics.accuracy_score(y_true, y_pred)),
        "macro_f1": float(metrics.f1_score(y_true, y_pred, average="macro", zero_division=0)),
    }


def make_peer(name: str, seed: int = 0) -> Any:
    """Return one of :data:`PEERS`, to be fitted on all cores."""
    module, class_name, params = PEERS[name]
    classifier = getattr(import_module(f"aeon.classification.{module}"), class_name)(n_jobs=-1, **params)
    return classifier.set_params(random_state=seed) if "random_state" in classifier.get_params() else classifier


def equal_lengths(*parts: Any) -> list[NDArray[Any]]:
    """Return ``(n, channels, length)`` arrays of one length, at least 9: the length of Rocket's kernels."""
    series = [as_series(part) for part in parts]
    length = max(9, *(values.shape[-1] for part in series for values in part))
    return [
        np.stack([np.pad(values, ((0, 0), (0, length - values.shape[-1]))) for values in part]) for part in series
    ]


def _training_set(X: Any, y: NDArray[Any], classes: NDArray[Any]) -> TrainingSet:
    """Encode labels as indices of ``classes``; a label that is not among them becomes −1."""
    targets = np.searchsorted(classes, y)
    targets = np.where(classes[np.minimum(targets, len(classes) - 1)] == y, targets, -1)
    return TrainingSet(as_series(X), targets, np.ones(len(targets)), np.ones(len(classes)))
