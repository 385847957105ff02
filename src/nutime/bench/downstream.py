"""The paper's other tasks (Appendix B): clusters and anomalies, with and without fine-tuning.

Both judge an embedding of the *test* series by means of the estimators users have. Where it is fine-tuned, that
happens on the labelled training series; clusters and anomalies are then found without a label.

Clustering is k-means with as many clusters as classes.

Anomaly detection has 10 % anomalies: up to 900 series of the normal class and a ninth as many of the others, drawn
by seed from the test split. The one-class SVM is fitted to them, not knowing which is which, and told the 10 %.
The paper does so on FD-B, where undamaged bearings are normal. Other sets stand beside it (:data:`STATES`): there,
the normal class is the most frequent one of the training split. Precision, recall and F1 are the anomalies'.
The paper's AUROC, 0.9481, is the mean of its recall, 0.8962, and 1: what hard decisions without a false alarm
give. Here ``auroc`` is taken from the scores, and that mean is ``balanced_accuracy``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import (
    adjusted_rand_score,
    balanced_accuracy_score,
    normalized_mutual_info_score,
    precision_recall_fscore_support,
    roc_auc_score,
)

from nutime.bench.methods import Answer, Name
from nutime.bench.tfc import Trials, load_trials
from nutime.data.archives import Dataset, find_set
from nutime.encoder import NuTime
from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.clusterer import NuTimeClusterer
from nutime.estimators.detector import NuTimeDetector

#: UCR sets whose classes are states of health, of order or of quality.
STATES = (
    "ECG200",
    "ECG5000",
    "Earthquakes",
    "FordA",
    "FordB",
    "Strawberry",
    "ToeSegmentation1",
    "ToeSegmentation2",
    "Wafer",
    "DistalPhalanxOutlineCorrect",
    "MiddlePhalanxOutlineCorrect",
    "ProximalPhalanxOutlineCorrect",
    "PhalangesOutlinesCorrect",
)
NORMAL, ANOMALOUS = "normal", "anomalous"
MOST_ANOMALIES = 100
#: Of a hundred series, so many are anomalies.
PERCENT = 10


@dataclass(frozen=True)
class _OnEmbedding:
    """What both tasks share: an encoder, fine-tuned or not."""

    method: str
    encoder: NuTime
    finetuned: bool = True
    seed: int = 0
    changes: dict[str, Any] = field(default_factory=dict)

    def names(self) -> Sequence[Name]:
        """One result."""
        return [Name(self.method if self.finetuned else f"{self.method}, not fine-tuned", "honest", self.seed)]

    def answer(self, dataset: Dataset) -> Iterator[Answer]:
        """Fine-tune on the training split if asked to, and work on the test split."""
        start = time.perf_counter()
        encoder = finetuned(self.encoder, dataset, self.seed, self.changes) if self.finetuned else self.encoder
        scores = self.judge(encoder, dataset.X_test, dataset.y_test)
        config = {"finetuned": self.finetuned, **self.changes}
        yield Answer(self.names()[0], scores, time.perf_counter() - start, config)

    def judge(self, encoder: NuTime, X: Any, y: NDArray[Any]) -> dict[str, float]:
        """Solve the task on the encoder's embeddings, and score the solution."""
        raise NotImplementedError


class Clustering(_OnEmbedding):
    """k-means on embeddings."""

    def judge(self, encoder: NuTime, X: Any, y: NDArray[Any]) -> dict[str, float]:
        """Compare clusters with classes."""
        clusterer = NuTimeClusterer(len(np.unique(y)), encoder, random_state=self.seed).fit(X)
        return {
            "silhouette": clusterer.silhouette_,
            "ari": float(adjusted_rand_score(y, clusterer.labels_)),
            "nmi": float(normalized_mutual_info_score(y, clusterer.labels_)),
        }


class AnomalyDetection(_OnEmbedding):
    """A one-class SVM on embeddings."""

    def judge(self, encoder: NuTime, X: Any, y: NDArray[Any]) -> dict[str, float]:
        """Compare what is found with what is anomalous."""
        if set(y) != {NORMAL, ANOMALOUS}:
            raise ValueError(f"expected {NORMAL} and {ANOMALOUS} series, got {set(y)}; use load_anomalies")
        detector = NuTimeDetector(PERCENT / 100, encoder).fit(X)
        truth, said = y == ANOMALOUS, detector.predict(X) < 0
        precision, recall, f1, _ = precision_recall_fscore_support(truth, said, average="binary", zero_division=0)
        return {
            "precision": float(precision),
            "recall": float(recall),
            "f1": float(f1),
            "auroc": float(roc_auc_score(truth, detector.anomaly_score(X))),
            "balanced_accuracy": float(balanced_accuracy_score(truth, said)),
        }


def finetuned(encoder: NuTime, dataset: Dataset, seed: int, changes: dict[str, Any]) -> NuTime:
    """Return the encoder inside a classifier fine-tuned on the training split."""
    classifier = NuTimeClassifier("finetune", encoder, n_estimators=1, random_state=seed, **changes)
    arrays = classifier.fit(dataset.X_train, dataset.y_train).model_.arrays()
    tuned = NuTime(encoder.config.replace(channels=classifier.n_channels_in_)).to(encoder.device)
    for name, tensor in tuned.state_dict().items():
        tensor.copy_(tensor.new_tensor(arrays[f"encoder.{name}"][0]))
    return tuned


def load_anomalies(name: str, *, data_dir: str | None = None) -> Trials:
    """Load a set as normal and anomalous series, a tenth of the test series being anomalous.

    Raises:
        ValueError: the set cannot be had, or has too few series.
    """
    whole = load_trials(name, data_dir=data_dir)
    trials = as_anomalies(find_set(name).key, whole.split(0))
    return Trials(trials.split, whole.about | trials.about)


def as_anomalies(key: str, data: Dataset) -> Trials:
    """Call one class normal and the others anomalous, and let every seed draw its test series."""
    classes, counts = np.unique(data.y_train, return_counts=True)
    # Label 0 of FD-B is the undamaged bearing, however many of it there are.
    normal = classes[0 if key == "FD-B" else counts.argmax()]
    labels = [np.where(y == normal, NORMAL, ANOMALOUS) for y in (data.y_train, data.y_test)]
    usual, unusual = (np.flatnonzero(labels[1] == label) for label in (NORMAL, ANOMALOUS))
    for_each = 100 // PERCENT - 1  # normal series for every anomaly
    count = min(MOST_ANOMALIES, len(unusual), len(usual) // for_each)
    if not count:
        found = f"{len(usual)} normal and {len(unusual)} other test series"
        raise ValueError(f"{key}: {found}; expected at least {for_each} and 1")

    def split(seed: int) -> Dataset:
        rng = np.random.default_rng([seed, 2])
        parts = ((usual, for_each * count), (unusual, count))
        chosen = np.sort(np.concatenate([rng.choice(part, size, replace=False) for part, size in parts]))
        return Dataset(data.X_train, labels[0], data.X_test[chosen], labels[1][chosen])

    test = f"{for_each * count} normal and {count} other series, drawn by seed"
    return Trials(split, {"normal": str(normal), "test": test})
