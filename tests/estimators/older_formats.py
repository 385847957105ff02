"""Writes ``data/v6``: estimators saved in format 6, with their predictions then; so were ``v1`` to ``v5``.

The folders are never written again: every later version must read them as they are. Before a new format begins,
change the name here and run ``python tests/estimators/older_formats.py``.
"""

import json
from pathlib import Path

import numpy as np
import torch

from nutime.encoder import NuTime
from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.clusterer import NuTimeClusterer
from nutime.estimators.detector import NuTimeDetector
from nutime.estimators.embedder import NuTimeEmbedder
from nutime.estimators.regressor import NuTimeRegressor
from nutime.model.config import NuTimeConfig

FOLDER = Path(__file__).parent / "data"
NEWEST = FOLDER / "v6"
ANSWERS = {
    "classifier": ("predict", "predict_proba"),
    "clusterer": ("predict", "transform"),
    "detector": ("predict", "anomaly_score"),
    "embedder": ("transform",),
    "finetuned": ("predict", "predict_proba"),
}
#: The kinds that the fixtures have since format 4.
NUMBERS = {
    "regressor": ("predict", "predict_interval"),
    "finetuned-regressor": ("predict", "predict_interval"),
}
#: Since format 5: a classifier of two channels.
CHANNELS = {"channels": ("predict", "predict_proba")}


def series():
    """Return twelve series of unequal length and their labels, the same on every machine."""
    lengths = [20 + 3 * index for index in range(12)]
    waves = [
        np.sin((1 + index % 2) * np.linspace(0, 9, length)) + 0.1 * index for index, length in enumerate(lengths)
    ]
    return waves, np.array(["slow", "fast"])[np.arange(12) % 2]


def with_two_channels(X):
    """Return series whose second channel has another scale than the first, not the same in all series."""
    return [np.stack([wave, (1 + index % 5) * wave[::-1] ** 2]) for index, wave in enumerate(X)]


def write() -> None:
    """Fit one estimator of each kind, save it, and note what it answers."""
    torch.manual_seed(0)
    config = NuTimeConfig(
        window=4, length=32, dim=8, depth=1, heads=2, head_dim=4, mlp_dim=8, scalar_dim=4, scales=3
    )
    encoder = NuTime(config)
    X, y = series()
    estimators = {
        "classifier": NuTimeClassifier(encoder=encoder, class_weight={"slow": 2.0}, random_state=0),
        "clusterer": NuTimeClusterer(2, encoder, random_state=0),
        "detector": NuTimeDetector(0.25, encoder),
        "embedder": NuTimeEmbedder(encoder, pool="cls"),
        "finetuned": NuTimeClassifier("finetune", encoder, epochs=1, learning_rate=0.0, random_state=0),
    }
    regressors = {
        "regressor": NuTimeRegressor(encoder=encoder),
        "finetuned-regressor": NuTimeRegressor(
            "finetune", encoder, n_estimators=2, epochs=1, learning_rate=0.0, random_state=0
        ),
    }
    answers = {}
    for name, estimator in (estimators | regressors).items():
        estimator.fit(X, np.arange(12.0) if name in regressors else y).save(NEWEST / name)
        answers[name] = {method: getattr(estimator, method)(X).tolist() for method in (ANSWERS | NUMBERS)[name]}
    classifier, X = NuTimeClassifier(encoder=encoder), with_two_channels(X)
    classifier.fit(X, y).save(NEWEST / "channels")
    answers["channels"] = {method: getattr(classifier, method)(X).tolist() for method in CHANNELS["channels"]}
    (NEWEST / "answers.json").write_text(json.dumps(answers) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
