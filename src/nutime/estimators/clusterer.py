"""``NuTimeClusterer``: groups of similar series, by k-means on standardised embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClusterMixin
from sklearn.cluster import KMeans
from sklearn.metrics import euclidean_distances, silhouette_score
from sklearn.utils import check_random_state

from nutime.checks import check_number
from nutime.data.series import SeriesLike
from nutime.encoder import DEFAULT_WEIGHTS, NuTime
from nutime.estimators.base import EmbeddedSeries, Float64, SeriesTransformer, StandardisedEstimator
from nutime.model.reading import AUTO, Length

#: The silhouette compares all pairs; of more series than this, a random sample is taken.
MAX_SILHOUETTE_SERIES = 4000


class NuTimeClusterer(SeriesTransformer, ClusterMixin, StandardisedEstimator):  # type: ignore[misc]
    """Cluster series of any length, scale and number of channels.

    Args:
        n_clusters: number of clusters; None selects the one of 2 … ``max_clusters`` with the best silhouette.
        encoder: shipped weights by name, a folder written by :meth:`nutime.NuTime.save`, or an encoder.
        pool: how tokens become an embedding, as in :meth:`nutime.NuTime.embed`.
        length: points every series is resized to; ``auto`` follows the series, as in :meth:`nutime.NuTime.embed`.
        max_clusters: the largest number tried if ``n_clusters`` is None.
        random_state: seed of the initial centres.
        device: ``auto`` is CUDA if there is one, else the CPU, and an encoder object's own device.

    Attributes:
        labels_: the cluster of each series seen by ``fit``.
        cluster_centers_: ``(clusters, d)``, in the space of standardised embeddings.
        silhouette_: mean silhouette of the series seen by ``fit``; NaN where it is not defined.
        reading_: how series are read, chosen by the series seen by ``fit`` and used for all later ones.
        n_channels_in_: channels of the series seen by ``fit``.
        n_features_in_: columns of the table seen by ``fit``, if it was a table.
    """

    labels_: NDArray[np.intp]
    cluster_centers_: Float64
    silhouette_: float
    _fitted = ("mean_", "scale_", "cluster_centers_", "labels_", "silhouette_")
    _shapes: ClassVar = {"mean_": "d", "scale_": "d", "cluster_centers_": "kd", "labels_": "n"}

    def __init__(
        self,
        n_clusters: int | None = None,
        encoder: str | Path | NuTime = DEFAULT_WEIGHTS,
        *,
        pool: str = "cls+mean",
        length: Length = AUTO,
        max_clusters: int = 10,
        random_state: int | np.random.RandomState | None = None,
        device: str | torch.device = "auto",
    ) -> None:
        self.n_clusters = n_clusters
        self.encoder = encoder
        self.pool = pool
        self.length = length
        self.max_clusters = max_clusters
        self.random_state = random_state
        self.device = device

    def fit(self, X: SeriesLike | EmbeddedSeries, y: Any = None) -> Self:
        """Find the clusters; ``y`` is ignored."""
        if self.n_clusters is not None:
            check_number("n_clusters", self.n_clusters, "[1, inf)", integer=True)
        check_number("max_clusters", self.max_clusters, "[2, inf)", integer=True)
        points = self._fit_points(X)
        # One seed for all: the selected number of clusters must not depend on the order they are tried in.
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        models = [KMeans(count, n_init=10, random_state=seed) for count in self._counts(points)]
        candidates = [model.fit(points).cluster_centers_ for model in models]
        scores = [_silhouette(points, _nearest(points, centers), seed) for centers in candidates]
        best = int(np.argmax(np.nan_to_num(scores, nan=-1)))
        self.cluster_centers_, self.silhouette_ = candidates[best], scores[best]
        self.labels_ = _nearest(points, self.cluster_centers_)
        return self

    def predict(self, X: SeriesLike | EmbeddedSeries) -> NDArray[np.intp]:
        """Return the nearest cluster of each series."""
        return _nearest(self._points(X), self.cluster_centers_)

    def transform(self, X: SeriesLike | EmbeddedSeries) -> Float64:
        """Return the distance of each series to each cluster's centre, ``(n, clusters)``."""
        given, ids = self._read_with_ids(X)
        return self._by_series(euclidean_distances(self._standardised(given), self.cluster_centers_), X, ids)

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def _counts(self, points: Float64) -> list[int]:
        """Return the numbers of clusters to try; more than the distinct series would only cause warnings."""
        n_series = len(points)
        if self.n_clusters is None:
            if n_series < 3:
                raise ValueError(f"choosing n_clusters takes at least 3 series, got n_samples={n_series}")
            n_distinct = len({row.tobytes() for row in points})
            return list(range(2, max(2, min(self.max_clusters, n_series - 1, n_distinct)) + 1))
        if self.n_clusters > n_series:
            raise ValueError(f"n_clusters={self.n_clusters} is more than the series given, n_samples={n_series}")
        return [self.n_clusters]


def _nearest(points: Float64, centers: Float64) -> NDArray[np.intp]:
    return np.asarray(euclidean_distances(points, centers).argmin(axis=1))


def _silhouette(points: Float64, labels: NDArray[np.intp], seed: int) -> float:
    if len(points) > MAX_SILHOUETTE_SERIES:
        sample = np.random.default_rng(seed).choice(len(points), MAX_SILHOUETTE_SERIES, replace=False)
        points, labels = points[sample], labels[sample]
    defined = 2 <= len(np.unique(labels)) < len(labels)
    return float(silhouette_score(points, labels)) if defined else float("nan")
