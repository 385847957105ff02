"""Decision trees on quantiles of intervals, whose probabilities a classifier averages with those of its model.

They see what a linear model of an embedding does not: single values, and classes that are not on two sides of a
plane. scikit-learn grows them. Here they are arrays: a saved model executes nothing and does not depend on
scikit-learn's version, and a prediction can be traced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier
from torch import Tensor

from nutime.data.series import Array, resample
from nutime.finetune.linear import MAX_FEATURES, Float64, selected_features
from nutime.model.quantiles import interval_quantiles, quantile_points, quantile_size

#: Trees, and the share of the features that a split is chosen from.
_TREES, _SHARE = 100, 0.1
#: Values that the split of a root is chosen from: of many series, fewer features, but at least their square root.
_MAX_SPLIT_VALUES = 2**20
#: Values computed at a time, and those that trees are grown on: of very many series, a part of the features.
_MEMORY_BUDGET, _MAX_VALUES = 2**20, 2**27
#: The mean of two models that differ is less confident than it is right; chosen inside training splits.
TEMPERATURE = 2 / 3
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Forest:
    """Extremely randomised trees: the probability of a class is the share of the trees that vote for it.

    The nodes of all trees are numbered consecutively. A leaf is its own child.

    Attributes:
        points: with how many points series are read.
        n_classes: the number of classes.
        depth: of the deepest tree.
        center, scale: of the training values, ``(channels,)``: features are compared in float32.
        roots: the first node of each tree.
        feature, threshold: of each node; at most the threshold leads to the first of its two children.
        child: ``(nodes, 2)``.
        vote: the class of a leaf.
    """

    points: int
    n_classes: int
    depth: int
    center: Float64
    scale: Float64
    roots: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    child: NDArray[np.int32]
    vote: NDArray[np.int32]

    @classmethod
    def fit(
        cls, series: Sequence[Array], targets: NDArray[np.intp], sample_weight: Float64, n_classes: int
    ) -> Self:
        """Grow trees; the result depends on nothing else."""
        points = quantile_points(float(np.median([values.shape[-1] for values in series])))
        center, scale = _center_and_scale(series)
        size = quantile_size(points, len(center))
        selected = selected_features(size, min(size, MAX_FEATURES, max(1, _MAX_VALUES // len(series))))
        candidates = max(round(len(selected) ** 0.5), min(_SHARE * len(selected), _MAX_SPLIT_VALUES / len(series)))
        features = np.concatenate([part[:, selected] for part in _features(series, points, center, scale)])
        trees = ExtraTreesClassifier(
            _TREES,
            criterion="entropy",
            max_features=max(1, int(candidates)),
            random_state=0,
            n_jobs=torch.get_num_threads(),
        ).fit(features, targets, sample_weight)
        grown = [tree.tree_ for tree in trees.estimators_]
        roots = np.cumsum([0, *(tree.node_count for tree in grown)])[:-1]
        feature, threshold, child, vote = [], [], [], []
        for root, tree in zip(roots, grown, strict=True):
            leaf, own = tree.feature < 0, np.arange(tree.node_count)
            pair = np.stack([tree.children_left, tree.children_right], axis=1)
            child.append(root + np.where(leaf[:, None], own[:, None], pair))
            feature.append(selected[np.where(leaf, 0, tree.feature)])
            threshold.append(_round_down(np.where(leaf, 0, tree.threshold)))
            vote.append(trees.classes_[tree.value[:, 0].argmax(1)])
        return cls(
            points,
            n_classes,
            max(tree.max_depth for tree in grown),
            center,
            scale,
            roots.astype(np.int32),
            np.concatenate(feature).astype(np.int32),
            np.concatenate(threshold),
            np.concatenate(child).astype(np.int32),
            np.concatenate(vote).astype(np.int32),
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n_classes: int, n_channels: int) -> Self:
        """Rebuild a forest.

        Raises:
            ValueError: if the arrays are not those of a forest; a ``KeyError`` names what is missing.
        """
        numbers = {name: int(arrays[name].item()) for name in ("points", "n_classes", "depth")}
        attributes: dict[str, Any] = {field.name: arrays[field.name] for field in fields(cls)}
        forest = cls(**(attributes | numbers))
        nodes, points = len(forest.feature), forest.points
        if points != quantile_points(points) or forest.n_classes != n_classes or not 0 <= forest.depth < nodes:
            raise ValueError(f"a forest of {forest.n_classes} classes that reads {points} points")
        shapes = {
            "center": (n_channels,), "scale": (n_channels,), "roots": (len(forest.roots),), "feature": (nodes,),
            "threshold": (nodes,), "child": (nodes, 2), "vote": (nodes,),
        }  # fmt: skip
        for name, shape in shapes.items():
            if arrays[name].shape != shape or not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} is not finite or not of the shape {shape}")
        size = quantile_size(points, n_channels)
        limits = {"roots": nodes, "child": nodes, "feature": size, "vote": n_classes}
        for name, limit in limits.items():
            if not len(arrays[name]) or arrays[name].min() < 0 or arrays[name].max() >= limit:
                raise ValueError(f"{name} has values outside 0 … {limit - 1}")
        return forest

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all attributes by name."""
        return {name: np.asarray(value) for name, value in asdict(self).items()}

    @torch.inference_mode()
    def probabilities(self, series: Sequence[Array]) -> Float64:
        """Return ``(n, classes)``."""
        parts = _features(series, self.points, self.center, self.scale)
        return np.concatenate([self._votes(torch.from_numpy(part)).double().numpy() for part in parts])

    @cached_property
    def _votes(self) -> Votes:
        return Votes(self)


def mean_logits(log_probabilities: Float64, forest: Float64) -> Float64:
    """Return the logits of the mean of a model's probabilities, ``(n, classes)``, and those of a forest."""
    with np.errstate(divide="ignore"):  # no tree votes for some classes
        mean = np.logaddexp(log_probabilities, np.log(forest)) - np.log(2)
    logits: Float64 = mean / TEMPERATURE
    return logits


class Votes(torch.nn.Module):
    """The probabilities of a forest as a function of features, ``(batch, …)`` float32."""

    roots: Tensor
    feature: Tensor
    threshold: Tensor
    child: Tensor
    vote: Tensor

    def __init__(self, forest: Forest) -> None:
        super().__init__()
        self.depth, self.n_classes = forest.depth, forest.n_classes
        for name in ("roots", "feature", "child", "vote"):
            self.register_buffer(name, torch.from_numpy(np.array(getattr(forest, name), np.int64)))
        self.register_buffer("threshold", torch.from_numpy(np.array(forest.threshold)))

    def forward(self, features: Tensor) -> Tensor:
        """Return ``(batch, classes)``."""
        node = self.roots.expand(features.shape[0], -1)
        for _ in range(self.depth):
            greater = features.gather(1, self.feature[node]) > self.threshold[node]
            node = self.child[node, greater.long()]
        votes = self.vote[node].unsqueeze(-1) == torch.arange(self.n_classes)
        return votes.float().mean(1)


def forest_features(series: Tensor, center: Tensor, scale: Tensor) -> Tensor:
    """Return ``(batch, …)`` float32 of series ``(batch, channels, points)``; larger values are limited."""
    standardised = (series.double() - center[:, None]) / scale[:, None]
    return interval_quantiles(standardised).nan_to_num(0).clamp(-_LARGEST, _LARGEST).float()


def _center_and_scale(series: Sequence[Array]) -> tuple[Float64, Float64]:
    """Return the level of each channel and the distance from it: medians over the series, of their means."""
    with np.errstate(over="ignore", invalid="ignore"):  # of values near the largest float64
        center = _median_of_means(values.astype(np.float64) for values in series)
        scale = _median_of_means(np.abs(values.astype(np.float64) - center[:, None]) for values in series)
    return center, np.where(scale > 0, scale, 1)


def _median_of_means(series: Iterable[Float64]) -> Float64:
    """Return one number per channel; series that are equal count once, as if they had a weight instead."""
    means = np.transpose([values.mean(axis=1) for values in series])
    return np.asarray(np.nan_to_num([np.median(np.unique(channel)) for channel in means]))


def _features(
    series: Sequence[Array], points: int, center: Float64, scale: Float64
) -> Iterator[NDArray[np.float32]]:
    """Yield the features of some series at a time."""
    chunk_size = max(1, _MEMORY_BUDGET // quantile_size(points, len(center)))
    for start in range(0, len(series), chunk_size):
        batch = torch.from_numpy(resample(series[start : start + chunk_size], points))
        yield forest_features(batch, torch.from_numpy(center), torch.from_numpy(scale)).numpy()


def _round_down(thresholds: Float64) -> NDArray[np.float32]:
    """Return the largest float32 numbers that are not greater: comparisons with float32 features stay the same."""
    rounded = thresholds.astype(np.float32)
    return np.where(rounded > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)
