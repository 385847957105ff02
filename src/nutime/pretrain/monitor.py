"""Accuracy of a linear probe during pretraining, cross-validated inside training splits.

Test series are never used, so decisions may depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nutime.data.archives import Part, bundled_sets, load_dataset
from nutime.encoder import NuTime
from nutime.model.network import NuTimeNetwork

_MAX_SERIES = 400
_FOLDS = 4


def probe_data(names: str) -> list[Part]:
    """Load training splits by name, comma-separated; ``bundled`` means the univariate sets aeon ships."""
    chosen = bundled_sets(channels=1) if names == "bundled" else names.split(",")
    splits = [load_dataset(name.strip(), split="train") for name in chosen]
    return [Part(split.X[:_MAX_SERIES], split.y[:_MAX_SERIES]) for split in splits]


def linear_probe_on(sets: list[Part]) -> Callable[[NuTimeNetwork], float] | None:
    """Return a function that scores an encoder by the mean cross-validated accuracy over sets."""
    if not sets:
        return None

    def score(network: NuTimeNetwork) -> float:
        assert isinstance(network, NuTime)
        return float(np.mean([_accuracy(network.embed(X, batch_size=256), y) for X, y in sets]))

    return score


def _accuracy(embedding: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> float:
    from sklearn.model_selection import StratifiedKFold

    from nutime.finetune.linear import LinearProbe

    _, targets = np.unique(labels, return_inverse=True)
    folds = min(_FOLDS, np.bincount(targets).min())
    if folds < 2:
        raise ValueError("a probe needs at least two series of every class; choose other sets with --probe")
    splits = StratifiedKFold(folds, shuffle=True, random_state=0)
    scores = []
    for train, test in splits.split(embedding, targets):
        predictions = LinearProbe.fit(embedding[train], targets[train]).logits(embedding[test]).argmax(1)
        scores.append((predictions == targets[test]).mean())
    return float(np.mean(scores))
