"""Data sets on the page: series, embeddings, maps, clusters, scores, contributions; independent of the page.

An :class:`Analysis` computes its parts one after the other in a worker thread, and the page reads those that are
finished. All parts use the same points, the embeddings standardised to mean 0 and standard deviation 1, so that
map, neighbours, clusters and anomaly scores are consistent; the encoder runs once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
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
from nutime.data.formats.read import holds_recording, is_many, is_series_file, read_file
from nutime.data.series import Array, SeriesSet, read_input, resample
from nutime.data.timeline import Times
from nutime.encoder import NuTime
from nutime.estimators.base import EmbeddedSeries
from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.clusterer import NuTimeClusterer
from nutime.estimators.detector import NuTimeDetector

Float32: TypeAlias = NDArray[np.float32]

#: Clusters, anomaly scores and the classifier are fitted on at most this many series and predicted for all.
SAMPLE = 2000
#: A t-SNE map takes minutes beyond this many series.
TSNE_SERIES = 3000
#: With more classes, contributions are those to the anomaly score: a classifier would take minutes to fit.
MAX_CLASSES = 50
#: Open data sets; the least recently used beyond them is closed.
MAX_OPEN = 8
_POOL = "cls+mean"


@dataclass(frozen=True)
class Collection:
    """Finite series with the same number of channels, and the labels and ids of their file.

    Attributes:
        name: name of the file or the archive set.
        series: ``(channels, length)`` each.
        labels: class of each series, None if the file has no labels.
        ids: id of each series, None if the file has no ids.
        channel_names: name of each channel; "channel 0" and so on if the file has no names.
        interpolated: number of interpolated missing values.
        times: the time of each point of each series, None if the file has no times.
    """

    name: str
    series: list[Array]
    labels: NDArray[np.str_] | None = None
    ids: Sequence[str] | None = None
    channel_names: Sequence[str] = ()
    interpolated: int = 0
    times: Sequence[Times] | None = None

    @classmethod
    def of(
        cls,
        name: str,
        values: Any,
        labels: NDArray[np.str_] | None = None,
        ids: Sequence[str] | None = None,
        channel_names: Sequence[str] | None = None,
        times: list[Times] | None = None,
    ) -> Collection:
        """Return a collection of series, which may have missing values."""
        try:
            given = read_input(SeriesSet(list(values), times=times))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        series = given.series
        missing = sum(int(np.isnan(raw).sum()) for raw in values)
        padding = sum(np.size(raw) for raw in values) - sum(kept.size for kept in series)
        names = channel_names or [f"channel {index}" for index in range(len(series[0]))]
        return cls(name, series, labels, ids, names, missing - padding, given.times)

    @property
    def channels(self) -> int:
        """Number of channels of every series."""
        return len(self.series[0])

    def name_of(self, index: int) -> str:
        """Return the id of a series, or its number if there are no ids."""
        return f"series {index}" if self.ids is None else self.ids[index]

    @cached_property
    def lengths(self) -> tuple[int, int]:
        """Shortest and longest length."""
        lengths = [values.shape[1] for values in self.series]
        return min(lengths), max(lengths)


def open_collection(source: str | Path, **options: Any) -> Collection:
    """Read a file of series, a folder or pattern of files with one series each, or both splits of an archive set.

    Args:
        source: the file, the folder, the pattern or the name of the set.
        options: of :func:`~nutime.data.formats.read.read_file`.
    """
    path = Path(source)
    if path.is_file() or is_series_file(path) or is_many(path):
        table = read_file(path, **options)
        return Collection.of(path.name, table.series, table.labels, table.ids, table.channel_names, table.times)
    if options:
        raise ValueError(f"{source}: no such file; labels and columns can be chosen in files only")
    return open_set(str(source))


def open_set(name: str) -> Collection:
    """Read both splits of an archive set."""
    dataset = load_dataset(name)
    splits = {"train": len(dataset.y_train), "test": len(dataset.y_test)}
    return Collection.of(
        name,
        np.concatenate([dataset.X_train, dataset.X_test]),
        np.concatenate([dataset.y_train, dataset.y_test]),
        [f"{split} {index}" for split, count in splits.items() for index in range(count)],
    )


def read_upload(name: str, content: bytes) -> Collection:
    """Read an uploaded file; errors use the name it had on the user's machine."""
    with TemporaryDirectory() as folder:
        path = Path(folder, Path(name).name)
        try:
            path.write_bytes(content)
            if is_series_file(path) and holds_recording(path):
                raise ValueError(f"{path}: is one recording; open it with: nutime explore {path}")
            return open_collection(path)
        except ValueError as error:
            raise ValueError(" ".join(str(error).replace(str(path), path.name).split())) from None
        except OSError as error:
            raise ValueError(f"{name}: cannot be stored: {error.strerror}") from None


class Stage(NamedTuple):
    """The step in progress; ``total`` is 0 if the amount of work is unknown."""

    stage: str
    done: int = 0
    total: int = 0


class Neighbour(NamedTuple):
    """Index of another series, and its distance."""

    series: int
    distance: float


class Contribution(NamedTuple):
    """What the points of a series contribute, ``(channels, length)``, and what they contribute to."""

    target: str
    values: NDArray[np.float64]


class _Cancelled(Exception):  # noqa: N818
    pass


class Analysis:
    """A collection and its computed parts; parts that are not finished are None, or absent from ``maps``.

    Attributes:
        key: identifies this analysis; it cannot be guessed.
        points: ``(n, d)``, the standardised embeddings.
        maps: positions in the plane by kind, ``(n, 2)`` each: ``pca``, and ``tsne`` once requested.
        clusters: cluster of each series, from 0.
        scores: anomaly score of each series, from 0 to 1; see :class:`nutime.NuTimeDetector`.
        predictions: predicted class of each series, by a classifier fitted on the labels.
        error: one line if a step failed, else empty.
    """

    def __init__(self, collection: Collection, encoder: NuTime) -> None:
        self.collection = collection
        self.key = uuid4().hex
        self.points: Float32 | None = None
        self.maps: dict[str, Float32] = {}
        self.clusters: NDArray[np.intp] | None = None
        self.scores: NDArray[np.float64] | None = None
        self.predictions: NDArray[np.str_] | None = None
        self.error = ""
        self._encoder = encoder
        self._explained: NuTimeClassifier | NuTimeDetector | None = None
        self._contribution: tuple[int, Contribution] | None = None
        self._stage = Stage("starting")
        self._cancelled = threading.Event()
        self._tsne_requested = False
        self._steps: Queue[Callable[[], None]] = Queue()
        for step in (self._embed, self._find_principal_map, self._score, self._cluster, self._classify):
            self._steps.put(step)
        self._worker = threading.Thread(target=self._work, name="nutime-explore", daemon=True)
        self._worker.start()

    def __len__(self) -> int:
        return len(self.collection.series)

    @property
    def progress(self) -> Stage | None:
        """The step in progress; None when all are finished or one failed."""
        return self._stage if self._steps.unfinished_tasks and not self.error else None

    @property
    def ready(self) -> list[str]:
        """The finished parts: ``pca``, ``tsne``, ``cluster``, ``anomaly``, ``contribution``."""
        parts = {"cluster": self.clusters, "anomaly": self.scores, "contribution": self._explained}
        return [*self.maps, *(name for name, part in parts.items() if part is not None)]

    @property
    def sampled(self) -> bool:
        """Whether clusters and scores were fitted on a part of the series."""
        return len(self) > SAMPLE

    @property
    def allows_tsne(self) -> bool:
        """Whether there are enough series for a t-SNE map, and not too many."""
        return 4 <= len(self) <= TSNE_SERIES

    def request_tsne(self) -> None:
        """Compute the t-SNE map after all other steps; further requests have no effect."""
        if self.allows_tsne and not self._tsne_requested:
            self._tsne_requested = True
            self._steps.put(self._find_neighbour_map)

    def cancel(self, timeout: float = 0) -> None:
        """Stop computing as soon as possible; wait for that at most ``timeout`` seconds."""
        self._cancelled.set()
        self._steps.put(lambda: None)  # wakes an idle worker
        self._worker.join(timeout)

    def neighbours(self, index: int, count: int) -> list[Neighbour]:
        """Return the series nearest to one series, nearest first; none before the series are embedded."""
        return [] if self.points is None else nearest(self.points, index, count)

    def columns(self, members: Sequence[int]) -> dict[str, NDArray[Any]]:
        """Return the numbers, ids, labels, predictions, clusters and anomaly scores of some series as columns."""
        ids = None if self.collection.ids is None else np.array(self.collection.ids)
        known: dict[str, NDArray[Any] | None] = {
            "series": np.arange(len(self)),
            "id": ids,
            "label": self.collection.labels,
            "prediction": self.predictions,
            "cluster": None if self.clusters is None else self.clusters + 1,  # counted as on the page
            "anomaly_score": self.scores,
        }
        rows = np.array(members, np.intp)
        return {name: column[rows] for name, column in known.items() if column is not None}

    def contribution(self, index: int) -> Contribution | None:
        """Return the contributions to the predicted class of a series, or without labels to its anomaly score.

        The classifier is fitted on the labels of the collection, those of the series included.
        """
        model, known = self._explained, self._contribution
        if model is None:
            return None
        if known is None or known[0] != index:
            series = [self.collection.series[index]]
            target = f"class {model.predict(series)[0]}" if isinstance(model, NuTimeClassifier) else "the anomaly"
            known = self._contribution = index, Contribution(target, model.explain(series)[0])
        return known[1]

    @torch.inference_mode()
    def attention(self, index: int, channel: int) -> Float32:
        """Return the attention of ``[CLS]`` to each window of a series, averaged over heads."""
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
            except _Cancelled:
                return
            except Exception as error:  # shown on the page
                self.error = " ".join(f"{self.collection.name}: {error}".split())
            self._steps.task_done()

    def _embed(self) -> None:
        self._embedded = EmbeddedSeries.embed(self.collection.series, self._encoder, _POOL, verbose=self._report)
        self.points = StandardScaler().fit_transform(self._embedded.embedding).astype(np.float32)

    def _report(self, done: int, total: int) -> None:
        if self._cancelled.is_set():
            raise _Cancelled
        self._stage = Stage("embedding", done, total)

    def _find_principal_map(self) -> None:
        self._stage = Stage("arranging the map")
        self.maps["pca"] = _principal(self._points, 2)

    def _find_neighbour_map(self) -> None:
        self._stage = Stage("arranging the t-SNE map")
        perplexity = min(30, (len(self) - 1) / 3)
        start = _principal(self._points, 50)
        self.maps["tsne"] = TSNE(2, init="pca", perplexity=perplexity, random_state=0).fit_transform(start)

    def _score(self) -> None:
        if len(self) < 2:
            return
        self._stage = Stage("scoring anomalies")
        detector = self._detector = NuTimeDetector(encoder=self._encoder, pool=_POOL).fit(self._sample)
        self.scores = detector.anomaly_score(self._embedded)

    def _cluster(self) -> None:
        if len(self) < 3:
            return
        self._stage = Stage("finding clusters")
        clusterer = NuTimeClusterer(encoder=self._encoder, random_state=0).fit(self._sample)
        self.clusters = clusterer.predict(self._embedded)

    def _classify(self) -> None:
        """Fit the model whose predictions are explained: a classifier if there are labels, else the detector."""
        if len(self) < 2:
            return
        labels = np.full(len(self), "") if self.collection.labels is None else self.collection.labels
        labelled = self._members[labels[self._members] != ""]
        if not 2 <= len(np.unique(labels[labelled])) <= MAX_CLASSES:
            self._explained = self._detector
            return
        self._stage = Stage("learning the labels")
        classifier = NuTimeClassifier(encoder=self._encoder, pool=_POOL)
        classifier.fit(self._embedded[labelled], labels[labelled])
        self.predictions = classifier.predict(self._embedded)
        self._explained = classifier

    @property
    def _points(self) -> Float32:
        assert self.points is not None
        return self.points

    @cached_property
    def _members(self) -> NDArray[np.intp]:
        return np.sort(np.random.default_rng(0).permutation(len(self))[:SAMPLE])

    @cached_property
    def _sample(self) -> EmbeddedSeries:
        return self._embedded[self._members]


class Analyses:
    """The open data sets of all visitors of a server.

    Attributes:
        first: the data set named on the command line, shown to every new visitor.
    """

    def __init__(self, encoder: NuTime) -> None:
        self.first: Analysis | None = None
        self._encoder = encoder
        self._open: OrderedDict[str, Analysis] = OrderedDict()
        self._lock = threading.Lock()

    def open_first(self, collection: Collection) -> Analysis:
        """Start the analysis that every new visitor sees."""
        self.first = self._start(collection)
        return self.first

    def open(self, collection: Collection, replaces: str | None = None) -> Analysis:
        """Start the analysis of one visitor; the one it replaces on the visitor's page is closed."""
        analysis = self._start(collection)
        with self._lock:
            closed = [self._open.pop(replaces)] if replaces and replaces in self._open else []
            self._open[analysis.key] = analysis
            while len(self._open) > MAX_OPEN:
                closed.append(self._open.popitem(last=False)[1])
        for other in closed:
            other.cancel()
        return analysis

    def find(self, key: str | None) -> Analysis | None:
        """Return the analysis with a key, None if it is closed."""
        if self.first and self.first.key == key:
            return self.first
        with self._lock:
            if key is None or key not in self._open:
                return None
            self._open.move_to_end(key)
            return self._open[key]

    def close(self) -> None:
        """Stop all computations."""
        for analysis in [*self._open.values(), *([self.first] if self.first else [])]:
            analysis.cancel(timeout=2)

    def _start(self, collection: Collection) -> Analysis:
        expected = self._encoder.config.channels
        if expected not in (1, collection.channels):
            raise ValueError(
                f"{collection.name}: has {collection.channels} channel(s), but the encoder reads {expected}"
            )
        return Analysis(collection, self._encoder)


def nearest(points: Float32, index: int, count: int) -> list[Neighbour]:
    """Return the points nearest to one of them, nearest first."""
    distances = np.linalg.norm(points - points[index], axis=1)
    distances[index] = -1  # first in the order, before equal points
    order = np.argsort(distances, kind="stable")[1 : count + 1]
    return [Neighbour(int(other), float(distances[other])) for other in order]


def _principal(points: Float32, count: int) -> Float32:
    """Return the first ``count`` principal components, zero where there are fewer."""
    found = min(count, len(points) - 1, points.shape[1])
    if found == 0:
        return np.zeros((len(points), count), np.float32)
    components = PCA(found, random_state=0).fit_transform(points)
    return np.pad(components, [(0, 0), (0, count - found)]).astype(np.float32)
