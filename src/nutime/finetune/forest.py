"""Decision trees on quantiles of intervals, whose predictions an estimator averages with those of its model.

They see what a linear model of an embedding does not: single values, and classes that are not linearly separable.
scikit-learn grows them. Here they are arrays: a saved model executes nothing and does not depend on scikit-learn's
version, and a prediction can be traced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import set_config
from sklearn.tree import ExtraTreeClassifier, ExtraTreeRegressor
from torch import Tensor

from nutime.checks import check_arrays
from nutime.data.series import Array, resample
from nutime.finetune.linear import MAX_FEATURES, Float64, selected_features
from nutime.model.quantiles import interval_quantiles, quantile_points, quantile_size
from nutime.threads import map_chunks

#: Number of trees, and candidates of a split as a share of one channel's features; they may be of any channel.
_TREES, _SHARE = 100, 0.1
#: Values that a root's split is chosen from: with many series, fewer features, but at least their square root.
_MAX_SPLIT_VALUES = 2**20
#: Values that a thread computes at a time, and those that trees are grown on: of very many series, a subset.
_MEMORY_BUDGET, _MAX_VALUES = 2**20, 2**27
#: Cross-validation folds for the errors of regression, and the trees grown for each.
_FOLDS, _TREES_PER_FOLD = 5, 40
#: Regression targets are rounded to multiples of this: sums are exact, and rounding errors decide no split.
_TARGET_STEP = 2.0**-20
#: The mean of two different models is underconfident; chosen inside training splits.
TEMPERATURE = 2 / 3
_LARGEST = float(np.finfo(np.float32).max)
_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True)
class ForestReading:
    """How trees read series: with how many points, and standardised, since features are compared in float32.

    Attributes:
        points: of each series.
        center, scale: of the training values, ``(channels,)``.
    """

    points: int
    center: Float64
    scale: Float64

    @classmethod
    def choose(cls, series: Sequence[Array]) -> Self:
        """Return the reading for training series."""
        points = quantile_points(float(np.median([values.shape[-1] for values in series])))
        return cls(points, *_center_and_scale(series))

    @property
    def size(self) -> int:
        """The number of features."""
        return quantile_size(self.points, len(self.center))

    def map_features(
        self, function: Callable[[NDArray[np.float32]], NDArray[_Scalar]], series: Sequence[Array]
    ) -> NDArray[_Scalar]:
        """Return a function of the features of all series, computed for some series at a time."""
        # Copies, because joblib may map the arrays read-only.
        center, scale = torch.tensor(self.center), torch.tensor(self.scale)

        def of_chunk(chunk: Sequence[Array]) -> NDArray[_Scalar]:
            batch = torch.from_numpy(resample(chunk, self.points))
            return function(forest_features(batch, center, scale).numpy())

        return np.concatenate(list(map_chunks(of_chunk, series, _MEMORY_BUDGET // self.size)))

    def training_features(self, series: Sequence[Array]) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
        """Return the features that trees are grown on, and their indices."""
        limit = min(self.size, MAX_FEATURES, max(1, _MAX_VALUES // len(series)))
        selected = selected_features(self.size, limit)
        return self.map_features(lambda features: features[:, selected], series), selected


@dataclass(frozen=True)
class Forest:
    """Extremely randomised trees: the share of trees that vote for a class, or the mean of their predictions.

    The nodes of all trees are numbered consecutively. A leaf is its own child.

    Attributes:
        reading: how series are read.
        n_classes: the number of classes; 0 for regression.
        depth: of the deepest tree.
        roots: the first node of each tree.
        feature, threshold: of each node; values up to the threshold go to the first child.
        child: ``(nodes, 2)``.
        vote: the class or the prediction of a leaf.
    """

    reading: ForestReading
    n_classes: int
    depth: int
    roots: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    child: NDArray[np.int32]
    vote: NDArray[np.int32] | Float64

    @classmethod
    def fit(
        cls, series: Sequence[Array], targets: NDArray[np.intp], sample_weight: Float64, n_classes: int
    ) -> Self:
        """Grow trees for classes, deterministically."""
        reading = ForestReading.choose(series)
        return cls.grow(reading, *reading.training_features(series), targets, sample_weight, n_classes)

    @classmethod
    def fit_regression(
        cls, series: Sequence[Array], targets: Float64, sample_weight: Float64
    ) -> tuple[Self, Float64]:
        """Grow trees for targets of mean 0 and deviation 1; return them with cross-validated errors."""
        reading = ForestReading.choose(series)
        features, selected = reading.training_features(series)
        folds = np.random.default_rng(0).permutation(len(targets)) % _FOLDS
        errors = np.empty(len(targets))
        for left_out in (folds == fold for fold in np.unique(folds)):
            rest = features[~left_out], targets[~left_out], sample_weight[~left_out]
            trees = _grow(reading, *rest, 0, _TREES_PER_FOLD)
            predicted = [tree.tree_.predict(features[left_out])[:, 0] for tree in trees]
            errors[left_out] = targets[left_out] - np.mean(predicted, axis=0)
        return cls.grow(reading, features, selected, targets, sample_weight, 0), errors

    @classmethod
    def grow(
        cls,
        reading: ForestReading,
        features: NDArray[np.float32],
        selected: NDArray[np.intp],
        targets: NDArray[Any],
        sample_weight: Float64,
        n_classes: int,
    ) -> Self:
        """Grow trees on the selected features of series."""
        trees = _grow(reading, features, targets, sample_weight, n_classes, _TREES)
        classes, grown = getattr(trees[0], "classes_", None), [tree.tree_ for tree in trees]
        roots = np.cumsum([0, *(tree.node_count for tree in grown)])[:-1]
        feature, threshold, child, vote = [], [], [], []
        for root, tree in zip(roots, grown, strict=True):
            leaf, own = tree.feature < 0, np.arange(tree.node_count)
            pair = np.stack([tree.children_left, tree.children_right], axis=1)
            child.append(root + np.where(leaf[:, None], own[:, None], pair))
            feature.append(selected[np.where(leaf, 0, tree.feature)])
            threshold.append(_round_down(np.where(leaf, 0, tree.threshold)))
            values = tree.value[:, 0]
            vote.append(values[:, 0] if classes is None else classes[values.argmax(1)].astype(np.int32))
        return cls(
            reading,
            n_classes,
            max(tree.max_depth for tree in grown),
            roots.astype(np.int32),
            np.concatenate(feature).astype(np.int32),
            np.concatenate(threshold),
            np.concatenate(child).astype(np.int32),
            np.concatenate(vote),
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n_classes: int, n_channels: int) -> Self:
        """Rebuild a forest.

        Raises:
            ValueError: if the arrays are not those of a forest; a ``KeyError`` names what is missing.
        """
        points, own_classes, depth = (int(arrays[name].item()) for name in ("points", "n_classes", "depth"))
        nodes = len(arrays["feature"])
        if points != quantile_points(points) or own_classes != n_classes or not 0 <= depth < nodes:
            raise ValueError(f"a forest of {own_classes} classes that reads {points} points")
        shapes = {"center": "c", "scale": "c", "roots": "t", "child": "np"}
        shapes |= dict.fromkeys(("feature", "threshold", "vote"), "n")
        check_arrays(arrays, shapes, c=n_channels, n=nodes, p=2)
        reading = ForestReading(points, arrays["center"], arrays["scale"])
        limits = {"roots": nodes, "child": nodes, "feature": reading.size}
        if n_classes:
            limits["vote"] = n_classes
        for name, limit in limits.items():
            if not len(arrays[name]) or arrays[name].min() < 0 or arrays[name].max() >= limit:
                raise ValueError(f"{name} has values outside 0 … {limit - 1}")
        return cls(reading, n_classes, depth, *(arrays[field.name] for field in fields(cls)[3:]))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all attributes by name."""
        attributes = asdict(self)
        return {name: np.asarray(value) for name, value in (attributes.pop("reading") | attributes).items()}

    def probabilities(self, series: Sequence[Array]) -> Float64:
        """Return ``(n, classes)``."""
        return self.reading.map_features(self.votes, series)

    def predictions(self, series: Sequence[Array]) -> Float64:
        """Return ``(n,)``."""
        return self.reading.map_features(self.votes, series)[:, 0]

    @torch.inference_mode()
    def votes(self, features: NDArray[np.float32]) -> Float64:
        """Return the probabilities, or the predictions ``(n, 1)``, for all features of series."""
        return np.asarray(self._module(torch.from_numpy(features)).double().numpy())

    @cached_property
    def _module(self) -> Votes:
        return Votes(self)


def _grow(
    reading: ForestReading,
    features: NDArray[np.float32],
    targets: NDArray[Any],
    sample_weight: Float64,
    n_classes: int,
    n_trees: int,
) -> list[Any]:
    """Return the trees of scikit-learn's forest with ``random_state=0``, for classification or regression.

    The forest itself is not used because each of its threads resets the warning filters of the process for a
    moment, and two threads at once can lose them.
    """
    n_series, size = features.shape
    share = _SHARE / len(reading.center)
    candidates = max(round(size**0.5), min(share * size, _MAX_SPLIT_VALUES / n_series))
    make = partial(ExtraTreeClassifier, criterion="entropy") if n_classes else ExtraTreeRegressor
    if not n_classes:
        targets = _TARGET_STEP * np.round(targets / _TARGET_STEP)

    weights = None if (sample_weight == 1).all() else sample_weight  # checked for each tree

    def grow(seed: int) -> Any:
        tree = make(max_features=max(1, int(candidates)), random_state=seed)
        return tree.fit(features, targets, weights, check_input=False)

    random = np.random.RandomState(0)
    seeds = [random.randint(np.iinfo(np.int32).max) for _ in range(n_trees)]
    # The settings are those of the pool's threads alone; checks of arguments would take a tenth of the time.
    without_checks = partial(set_config, assume_finite=True, skip_parameter_validation=True)
    with ThreadPoolExecutor(torch.get_num_threads(), initializer=without_checks) as pool:
        return list(pool.map(grow, seeds))


def mean_logits(log_probabilities: Float64, forest: Float64) -> Float64:
    """Return logits of the mean of a model's and a forest's probabilities, ``(n, classes)``."""
    with np.errstate(divide="ignore"):  # no tree votes for some classes
        mean = np.logaddexp(log_probabilities, np.log(forest)) - np.log(2)
    return np.asarray(mean / TEMPERATURE)


class Votes(torch.nn.Module):
    """The predictions of a forest as a function of features, ``(batch, …)`` float32."""

    roots: Tensor
    feature: Tensor
    threshold: Tensor
    child: Tensor
    vote: Tensor

    def __init__(self, forest: Forest) -> None:
        super().__init__()
        self.depth, self.n_classes = forest.depth, forest.n_classes
        for name in ("roots", "feature", "child", "vote"):
            dtype = np.float64 if name == "vote" and not forest.n_classes else np.int64
            self.register_buffer(name, torch.from_numpy(np.array(getattr(forest, name), dtype)))
        self.register_buffer("threshold", torch.from_numpy(np.array(forest.threshold)))

    def forward(self, features: Tensor) -> Tensor:
        """Return ``(batch, classes)`` probabilities, or ``(batch, 1)`` predictions."""
        node = self.roots.expand(features.shape[0], -1)
        for _ in range(self.depth):
            greater = features.gather(1, self.feature[node]) > self.threshold[node]
            node = self.child[node, greater.long()]
        votes = self.vote[node].unsqueeze(-1)
        return (votes == torch.arange(self.n_classes)).float().mean(1) if self.n_classes else votes.mean(1)


def forest_features(series: Tensor, center: Tensor, scale: Tensor) -> Tensor:
    """Return ``(batch, …)`` float32 of series ``(batch, channels, points)``, clipped to the range of float32."""
    standardised = (series.double() - center[:, None]) / scale[:, None]
    return interval_quantiles(standardised).nan_to_num(0).clamp(-_LARGEST, _LARGEST).float()


def _center_and_scale(series: Sequence[Array]) -> tuple[Float64, Float64]:
    """Return the level of each channel and the distance from it: medians over the series of their means."""
    with np.errstate(over="ignore", invalid="ignore"):  # of values near the largest float64
        center = _median_of_means(values.astype(np.float64) for values in series)
        scale = _median_of_means(np.abs(values.astype(np.float64) - center[:, None]) for values in series)
    return center, np.where(scale > 0, scale, 1)


def _median_of_means(series: Iterable[Float64]) -> Float64:
    """Return one value per channel; equal series count once, so that copies act like weights."""
    means = np.transpose([values.mean(axis=1) for values in series])
    return np.asarray(np.nan_to_num([np.median(np.unique(channel)) for channel in means]))


def _round_down(thresholds: Float64) -> NDArray[np.float32]:
    """Return the largest float32 numbers that are not greater: comparisons with float32 features stay the same."""
    rounded = thresholds.astype(np.float32)
    return np.where(rounded > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)
