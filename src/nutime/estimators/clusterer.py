"""``NuTimeClusterer``: groups of alike series, by k-means on standardised embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.metrics import euclidean_distances, silhouette_score
from sklearn.utils import check_random_state

from nutime.encoder import DEFAULT_WEIGHTS, NuTime
from nutime.estimators.base import Float64, StandardisedEstimator

#: The silhouette compares all pairs; beyond this many series it is taken over a random sample of them.
SILHOUETTE_SERIES = 4000


class NuTimeClusterer(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ClusterMixin,  # type: ignore[misc]
    StandardisedEstimator,
):
    """Cluster series of any length, scale and number of channels.

    Args:
        n_clusters: number of clusters; None takes the one of 2 … ``max_clusters`` with the best silhouette.
        encoder: shipped weights by name, a folder written by :meth:`nutime.NuTime.save`, or an encoder.
        pool: how tokens become an embedding: ``cls``, ``mean`` or ``cls+mean``.
        max_clusters: the most clusters tried where ``n_clusters`` is None.
        random_state: seed of the starting points.

    Attributes:
        labels_: the cluster of each series seen by ``fit``.
        cluster_centers_: ``(clusters, d)``, in the space of standardised embeddings.
        silhouette_: mean silhouette of the series seen by ``fit``; NaN where it is not defined.
        n_channels_in_: channels of the series seen by ``fit``.
        n_features_in_: columns of the table seen by ``fit``, if it was a table.
    """

    labels_: NDArray[np.intp]
    cluster_centers_: Float64
    silhouette_: float
    _fitted = ("mean_", "scale_", "cluster_centers_", "labels_", "silhouette_")

    def __init__(
        self,
        n_clusters: int | None = None,
        encoder: str | Path | NuTime = DEFAULT_WEIGHTS,
        *,
        pool: str = "cls+mean",
        max_clusters: int = 10,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.encoder = encoder
        self.pool = pool
        self.max_clusters = max_clusters
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the clusters; ``y`` is ignored."""
        points = self._place_first(X)
        # One seed for all: which number of clusters wins must not depend on the order they are tried in.
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        candidates = [_fit_centers(points, count, seed) for count in self._counts(len(points))]
        scores = [_silhouette(points, _nearest(points, centers), seed) for centers in candidates]
        best = int(np.argmax(np.nan_to_num(scores, nan=-1)))
        self.cluster_centers_, self.silhouette_ = candidates[best], scores[best]
        self.labels_ = _nearest(points, self.cluster_centers_)
        return self

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the nearest cluster of each series."""
        return _nearest(self._place(X), self.cluster_centers_)

    def transform(self, X: Any) -> Float64:
        """Return the distance of each series to each cluster's centre, ``(n, clusters)``."""
        return _distances(self._place(X), self.cluster_centers_)

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def _counts(self, n_series: int) -> list[int]:
        if self.n_clusters is None:
            _check_count("max_clusters", self.max_clusters, least=2)
            if n_series < 3:
                raise ValueError(f"choosing n_clusters takes at least 3 series, got n_samples={n_series}")
            return list(range(2, min(self.max_clusters, n_series - 1) + 1))
        _check_count("n_clusters", self.n_clusters, least=1)
        if self.n_clusters > n_series:
            raise ValueError(f"n_clusters={self.n_clusters} is more than the series given, n_samples={n_series}")
        return [self.n_clusters]


def _check_count(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")


def _fit_centers(points: Float64, count: int, seed: int) -> Float64:
    centers: Float64 = KMeans(count, n_init=10, random_state=seed).fit(points).cluster_centers_
    return centers


def _distances(points: Float64, centers: Float64) -> Float64:
    distances: Float64 = euclidean_distances(points, centers)
    return distances


def _nearest(points: Float64, centers: Float64) -> NDArray[np.intp]:
    labels: NDArray[np.intp] = _distances(points, centers).argmin(axis=1)
    return labels


def _silhouette(points: Float64, labels: NDArray[np.intp], seed: int) -> float:
    if len(points) > SILHOUETTE_SERIES:
        sample = np.random.default_rng(seed).choice(len(points), SILHOUETTE_SERIES, replace=False)
        points, labels = points[sample], labels[sample]
    defined = 2 <= len(np.unique(labels)) < len(labels)
    return float(silhouette_score(points, labels)) if defined else float("nan")
