"""Writes ``data/v1``: estimators saved by the first release, with the answers they gave then.

The folders are never written again: every later version must read them as they are. Run as
``python tests/estimators/first_release.py`` where format 2 begins, after renaming v1 to v2 here.
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
from nutime.model.config import NuTimeConfig

FOLDER = Path(__file__).parent / "data" / "v1"
ANSWERS = {
    "classifier": ("predict", "predict_proba"),
    "clusterer": ("predict", "transform"),
    "detector": ("predict", "anomaly_score"),
    "embedder": ("transform",),
}


def series():
    """Return twelve series of unequal length and their labels, the same on every machine."""
    lengths = [20 + 3 * index for index in range(12)]
    waves = [
        np.sin((1 + index % 2) * np.linspace(0, 9, length)) + 0.1 * index for index, length in enumerate(lengths)
    ]
    return waves, np.array(["slow", "fast"])[np.arange(12) % 2]


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
    }
    answers = {}
    for name, estimator in estimators.items():
        estimator.fit(X, y).save(FOLDER / name)
        answers[name] = {method: getattr(estimator, method)(X).tolist() for method in ANSWERS[name]}
    (FOLDER / "answers.json").write_text(json.dumps(answers) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
