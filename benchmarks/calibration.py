"""Calibration of classifiers: expected calibration error and log loss, as they are and with temperature scaling.

    python benchmarks/calibration.py DATA [--sets 30] [--strategy probe|finetune] [--pool upper]

DATA is a folder of archives (:mod:`nutime.data.archives`). The expected calibration error (ECE) is that of the
confidence, the highest probability: the mean difference between confidence and accuracy in 15 bins of equal mass,
fewer where there are fewer series. "cross-validated" is 5-fold cross-validation inside the training split; "test"
is the official test split, of at most 300 series. The temperature minimises the log loss of the cross-validated
logits plus 3 · log² T, which keeps it near 1 where there are few series; it does not change the predicted class.
The sets are spread evenly over the alphabet, of the UCR sets with equal lengths, no missing values and at most 200
training series.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from nutime.data.archives import available, find_set, load_dataset, sublist
from nutime.encoder import NuTime
from nutime.estimators.base import EmbeddedSeries
from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.supervised import default_weights
from nutime.evaluate import ALWAYS_TRAINED, deal_folds

BINS, FOLDS, MAX_TEST, PENALTY = 15, 5, 300, 3.0
Float64 = NDArray[np.float64]


def ece(logits: Float64, targets: NDArray[np.intp]) -> float:
    log_probabilities = log_softmax(logits, axis=1)
    confidence, correct = np.exp(log_probabilities.max(1)), log_probabilities.argmax(1) == targets
    bins = np.array_split(np.argsort(confidence, kind="stable"), min(BINS, len(targets)))
    return sum(len(part) * abs(confidence[part].mean() - correct[part].mean()) for part in bins) / len(targets)


def log_loss(logits: Float64, targets: NDArray[np.intp]) -> float:
    return float(-log_softmax(logits, axis=1)[np.arange(len(targets)), targets].mean())


def fit_temperature(logits: Float64, targets: NDArray[np.intp]) -> float:
    def loss(log_temperature: float) -> float:
        scaled = log_loss(logits / np.exp(log_temperature), targets)
        return len(targets) * scaled + PENALTY * log_temperature**2

    return float(np.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x))


def measure(name: str, data_dir: Path, encoder: NuTime, strategy: str, pool: str) -> dict[str, float] | None:
    data = load_dataset(name, data_dir=data_dir)
    picked = np.random.default_rng(0).permutation(len(data.y_test))[:MAX_TEST]
    train = EmbeddedSeries.embed(data.X_train, encoder, pool)
    test = EmbeddedSeries.embed(data.X_test[picked], encoder, pool)
    classes, targets = np.unique(data.y_train, return_inverse=True)
    test_targets = np.searchsorted(classes, data.y_test[picked])
    parts = deal_folds(data.y_train, FOLDS, 0)
    scored = parts != ALWAYS_TRAINED
    if scored.sum() < 10:
        return None

    def logits(used: NDArray[np.bool_], X: EmbeddedSeries) -> Float64:
        classifier = NuTimeClassifier(strategy, encoder, pool=pool, random_state=0)
        return np.log(classifier.fit(train[used], data.y_train[used]).predict_proba(X).clip(1e-300))

    validated = np.zeros((len(targets), len(classes)))
    for part in range(FOLDS):
        if (parts == part).any():
            validated[parts == part] = logits(parts != part, train[parts == part])
    temperature = fit_temperature(validated[scored], targets[scored])
    tested = logits(np.ones(len(targets), bool), test)
    return {
        "series": len(targets),
        "accuracy": float((tested.argmax(1) == test_targets).mean()),
        "cv ECE": ece(validated[scored], targets[scored]),
        "test ECE": ece(tested, test_targets),
        "log loss": log_loss(tested, test_targets),
        "T": temperature,
        "ECE, T": ece(tested / temperature, test_targets),
        "log loss, T": log_loss(tested / temperature, test_targets),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", type=int, default=30)
    parser.add_argument("--strategy", choices=("probe", "finetune"), default="probe")
    parser.add_argument("--pool", default="upper", help="of the probe")
    options = parser.parse_args()
    encoder = NuTime.from_pretrained(default_weights(options.strategy))
    names = [key for key in sublist("ucr112") if find_set(key).train <= 200]
    names = sorted(available(names, options.data).complete)
    chosen = np.linspace(0, len(names) - 1, min(options.sets, len(names))).round().astype(int)
    rows = []
    for name in (names[index] for index in chosen):
        row = measure(name, options.data, encoder, options.strategy, options.pool)
        if row is None:
            continue
        if not rows:
            print(f"{'':26s}" + "".join(f"{column:>12s}" for column in row))
        rows.append(row)
        print(f"{name:26s}" + "".join(f"{value:12.3f}" for value in row.values()), flush=True)
    for title, part in (("mean", rows), ("mean, accuracy < 0.9", [row for row in rows if row["accuracy"] < 0.9])):
        if part:
            means = (np.mean([row[column] for row in part]) for column in part[0])
            print(f"{f'{title} ({len(part)})':26s}" + "".join(f"{value:12.3f}" for value in means))


if __name__ == "__main__":
    main()
