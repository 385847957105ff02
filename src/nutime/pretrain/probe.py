"""A quick look at how good an encoder is: nearest neighbours within training splits, never a test series."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from nutime.data.archives import bundled_sets, load_dataset
from nutime.encoder import NuTime
from nutime.model.network import NuTimeNetwork

_MOST_SERIES = 400


class LabelledSet(NamedTuple):
    """Series of a training split with their labels."""

    X: Any
    y: Any


def probe_data(names: str) -> list[LabelledSet]:
    """Load training splits by name, comma-separated; ``bundled`` means the univariate sets aeon ships."""
    chosen = bundled_sets(channels=1) if names == "bundled" else names.split(",")
    splits = [load_dataset(name.strip(), split="train") for name in chosen]
    return [LabelledSet(split.X[:_MOST_SERIES], split.y[:_MOST_SERIES]) for split in splits]


def nearest_neighbour_probe(sets: list[LabelledSet]) -> Callable[[NuTimeNetwork], float] | None:
    """Return a function that scores an encoder by leave-one-out nearest-neighbour accuracy, averaged over sets."""
    if not sets:
        return None

    def score(network: NuTimeNetwork) -> float:
        assert isinstance(network, NuTime)
        return float(np.mean([_leave_one_out(network.embed(X, pool="cls", batch_size=256), y) for X, y in sets]))

    return score


def _leave_one_out(embedding: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> float:
    normal = torch.nn.functional.normalize(torch.from_numpy(embedding), dim=1)
    similarity = normal @ normal.T
    similarity.fill_diagonal_(-2)
    return float(np.mean(labels[similarity.argmax(1).numpy()] == labels))
