"""A data set being looked at: its series, and all that the encoder has to say of them.

Unusual here: the work happens behind the page's back. An :class:`Analysis` can be asked at any time for what
is there already, and its parts appear one after the other while a single worker thread computes them. All of
them rest on the same points, the embeddings brought to mean 0 and standard deviation 1, so that the map, the
neighbours, the clusters and the anomaly scores tell one story; the encoder runs once.

Nothing of the page is known here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias
from uuid import uuid4

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.preprocessing import StandardScaler

from nutime.data.archives import load_dataset
from nutime.data.formats.read import is_series_file, read_file
from nutime.data.series import Array, as_series, resample
from nutime.encoder import NuTime
from nutime.estimators.clusterer import NuTimeClusterer
from nutime.estimators.detector import NuTimeDetector

Float32: TypeAlias = NDArray[np.float32]

#: Clusters and anomaly scores are learned from this many series at most, and then given to all.
SAMPLE = 2000
#: A t-SNE map takes minutes beyond this many series.
TSNE_SERIES = 3000
_CHUNK = 256  # series embedded between two reports of progress
_ROWS = 4096  # series scored at a time: a row has as many similarities as there are support vectors


@dataclass(frozen=True)
class Collection:
    """Finite series of one shape, with what their file says of them.

    Attributes:
        name: of the file or the archive set.
        series: ``(channels, length)`` each.
        labels: the class of each series, None where the file has none.
        ids: what the file calls each series, None where it does not.
        interpolated: number of missing values that were filled in.
    """

    name: str
    series: list[Array]
    labels: NDArray[np.str_] | None = None
    ids: Sequence[str] | None = None
    interpolated: int = 0

    @classmethod
    def of(
        cls, name: str, values: Any, labels: NDArray[np.str_] | None = None, ids: Sequence[str] | None = None
    ) -> Collection:
        """Make a collection of series in any form of :mod:`nutime.data.series`."""
        try:
            series = as_series(values)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        missing = sum(int(np.isnan(given).sum()) for given in values)
        padding = sum(np.size(given) for given in values) - sum(kept.size for kept in series)
        return cls(name, series, labels, ids, missing - padding)

    @property
    def channels(self) -> int:
        """Channels of every series."""
        return len(self.series[0])

    @cached_property
    def lengths(self) -> tuple[int, int]:
        """The shortest and the longest length."""
        lengths = [values.shape[1] for values in self.series]
        return min(lengths), max(lengths)


def open_collection(source: str | Path) -> Collection:
    """Read the data a user named: a file of series, or an archive set, of which both splits are taken."""
    path = Path(source)
    if path.is_file() or is_series_file(path):
        table = read_file(path)
        return Collection.of(path.name, table.series, table.labels, table.ids)
    dataset = load_dataset(str(source))
    splits = {"train": len(dataset.y_train), "test": len(dataset.y_test)}
    return Collection.of(
        str(source),
        np.concatenate([dataset.X_train, dataset.X_test]),
        np.concatenate([dataset.y_train, dataset.y_test]),
        [f"{split} {index}" for split, count in splits.items() for index in range(count)],
    )


def read_upload(name: str, content: bytes) -> Collection:
    """Read a file that came over the wire; an error calls it by the name its owner knows."""
    with TemporaryDirectory() as folder:
        path = Path(folder, Path(name).name)
        try:
            path.write_bytes(content)
            return open_collection(path)
        except ValueError as error:
            raise ValueError(" ".join(str(error).replace(str(path), path.name).split())) from None
        except OSError as error:
            raise ValueError(f"{name}: cannot be stored: {error.strerror}") from None


class Stage(NamedTuple):
    """What the worker is at; ``total`` is 0 where nobody knows how much there is to do."""

    stage: str
    done: int = 0
    total: int = 0


class Neighbour(NamedTuple):
    """The number of another series, and how far away it is."""

    series: int
    distance: float


class _Placed:
    """Lets an estimator take points for series, so that nothing is embedded twice."""

    def _fit_points(self, X: Any) -> Any:
        return X

    def _points(self, X: Any) -> Any:
        return X


class _PointClusterer(_Placed, NuTimeClusterer):
    pass


class _PointDetector(_Placed, NuTimeDetector):
    pass


class Analysis:
    """A collection and what is known of it so far; None, or absent from ``maps``, is what is not known yet.

    Attributes:
        key: tells this analysis from all others.
        points: ``(n, d)``, the standardised embeddings.
        maps: places in the plane by kind, ``(n, 2)`` each: ``pca``, and ``tsne`` once it was requested.
        clusters: the cluster of each series, from 0.
        scores: the anomaly score of each series, from 0 to 1; see :class:`nutime.NuTimeDetector`.
        error: one line on what went wrong, empty if nothing did.
    """

    def __init__(self, collection: Collection, encoder: NuTime) -> None:
        self.collection = collection
        self.key = uuid4().hex
        self.points: Float32 | None = None
        self.maps: dict[str, Float32] = {}
        self.clusters: NDArray[np.intp] | None = None
        self.scores: NDArray[np.float64] | None = None
        self.error = ""
        self._encoder = encoder
        self._at = Stage("starting")
        self._cancelled = threading.Event()
        self._tsne_requested = False
        self._steps: Queue[Callable[[], None]] = Queue()
        for step in (self._embed, self._find_principal_map, self._score, self._cluster):
            self._steps.put(step)
        self._worker = threading.Thread(target=self._work, name="nutime-explore", daemon=True)
        self._worker.start()

    def __len__(self) -> int:
        return len(self.collection.series)

    @property
    def progress(self) -> Stage | None:
        """What is being computed; None when all is done, or nothing more can be."""
        return self._at if self._steps.unfinished_tasks and not self.error else None

    @property
    def ready(self) -> list[str]:
        """What can be shown by now: ``pca`` and ``tsne`` maps, coloured by ``cluster`` and ``anomaly``."""
        colours = {"cluster": self.clusters, "anomaly": self.scores}
        return [*self.maps, *(name for name, values in colours.items() if values is not None)]

    @property
    def sampled(self) -> bool:
        """Whether clusters and scores were learned from a part of the series only."""
        return len(self) > SAMPLE

    @property
    def allows_tsne(self) -> bool:
        """Whether there are enough series for a t-SNE map, and not too many."""
        return 4 <= len(self) <= TSNE_SERIES

    def request_tsne(self) -> None:
        """Have the t-SNE map computed when all else is done; asking again changes nothing."""
        if self.allows_tsne and not self._tsne_requested:
            self._tsne_requested = True
            self._steps.put(self._find_neighbour_map)

    def cancel(self, patience: float = 0) -> None:
        """Stop computing as soon as the step at hand allows; wait for that, at most ``patience`` seconds."""
        self._cancelled.set()
        self._steps.put(lambda: None)  # wakes an idle worker
        self._worker.join(patience)

    def neighbours(self, index: int, count: int) -> list[Neighbour]:
        """Return the series nearest to one series, nearest first; none as long as there are no points."""
        return [] if self.points is None else nearest(self.points, index, count)

    @torch.inference_mode()
    def attention(self, index: int, channel: int) -> Float32:
        """Return the share of ``[CLS]``'s attention that each window of a series has, a mean over heads."""
        values = self.collection.series[index]
        if self._encoder.config.channels == 1:
            values = values[channel : channel + 1]
        batch = torch.from_numpy(resample([values], self._encoder.config.length)).to(self._encoder.device)
        shares: Float32 = self._encoder.attention(batch)[0, :, 0, 1:].mean(0).float().cpu().numpy()
        return shares

    def _work(self) -> None:
        while not (self._cancelled.is_set() or self.error):
            step = self._steps.get()
            try:
                step()
            except Exception as error:  # nobody else would hear of it
                self.error = " ".join(f"{self.collection.name}: {error}".split())
            self._steps.task_done()

    def _embed(self) -> None:
        series, parts = self.collection.series, []
        for start in range(0, len(series), _CHUNK):
            if self._cancelled.is_set():
                return
            self._at = Stage("embedding", start, len(series))
            parts.append(self._encoder.embed(series[start : start + _CHUNK]))
        self.points = StandardScaler().fit_transform(np.concatenate(parts)).astype(np.float32)

    def _find_principal_map(self) -> None:
        self._at = Stage("arranging the map")
        self.maps["pca"] = _principal(self._points, 2)

    def _find_neighbour_map(self) -> None:
        self._at = Stage("arranging the t-SNE map")
        perplexity = min(30, (len(self) - 1) / 3)
        start = _principal(self._points, 50)
        self.maps["tsne"] = TSNE(2, init="pca", perplexity=perplexity, random_state=0).fit_transform(start)

    def _score(self) -> None:
        if len(self) < 2:
            return
        self._at = Stage("scoring anomalies")
        detector = _PointDetector().fit(self._sample)
        parts = [self._points[start : start + _ROWS] for start in range(0, len(self), _ROWS)]
        self.scores = np.concatenate([detector.anomaly_score(part) for part in parts])

    def _cluster(self) -> None:
        if len(self) < 3:
            return
        self._at = Stage("finding clusters")
        self.clusters = _PointClusterer(random_state=0).fit(self._sample).predict(self._points)

    @property
    def _points(self) -> Float32:
        assert self.points is not None
        return self.points

    @cached_property
    def _sample(self) -> NDArray[np.float64]:
        members = np.random.default_rng(0).permutation(len(self))[:SAMPLE]
        return self._points[np.sort(members)].astype(np.float64)


class Desk:
    """Holds the one data set a server shows; to open another ends the work on the last."""

    def __init__(self, encoder: NuTime) -> None:
        self.current: Analysis | None = None
        self._encoder = encoder
        self._lock = threading.Lock()

    def open(self, collection: Collection) -> Analysis:
        """Start to analyse a collection."""
        expected = self._encoder.config.channels
        if expected not in (1, collection.channels):
            raise ValueError(
                f"{collection.name}: has {collection.channels} channel(s), but the encoder reads {expected}"
            )
        with self._lock:
            if self.current:
                self.current.cancel()
            self.current = Analysis(collection, self._encoder)
            return self.current

    def find(self, key: str | None) -> Analysis | None:
        """Return the analysis a page speaks of, None if it is gone."""
        current = self.current
        return current if current and current.key == key else None

    def close(self) -> None:
        """End all work."""
        if self.current:
            self.current.cancel(patience=2)


def nearest(points: Float32, index: int, count: int) -> list[Neighbour]:
    """Return the points nearest to one of them, nearest first, by comparing it with all others."""
    distances = np.linalg.norm(points - points[index], axis=1)
    distances[index] = -1  # itself comes first, also before its own copies
    order = np.argsort(distances, kind="stable")[1 : count + 1]
    return [Neighbour(int(other), float(distances[other])) for other in order]


def _principal(points: Float32, count: int) -> Float32:
    """Return the first principal components; where there are fewer than ``count``, zeros for the others."""
    found = min(count, len(points) - 1, points.shape[1])
    if found == 0:
        return np.zeros((len(points), count), np.float32)
    components = PCA(found, random_state=0).fit_transform(points)
    return np.pad(components, [(0, 0), (0, count - found)]).astype(np.float32)
