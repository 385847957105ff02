"""``RecordingIndex``: recordings prepared for many searches, as a folder that can be kept.

Windows of a few lengths are reduced to vectors. The windows nearest to a query, of the length nearest to the
query's, are candidates; around these, and only there, distances are computed as :func:`~nutime.find` does. Matches
that resemble the query in no candidate are missed; ``n_candidates`` trades time for them.

::

    index.json          format, parameters, names, checksums of the other files
    index.safetensors   recordings, vectors, principal components
    encoder/            the encoder, as written by NuTime.save; absent without one
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import euclidean_distances

from nutime.checks import check_arrays, check_number
from nutime.data.series import Array, SeriesSet, resample
from nutime.documents import one_line
from nutime.encoder import DEFAULT_WEIGHTS, NuTime
from nutime.estimators.base import load_encoder
from nutime.estimators.storage import DAMAGE, check_names
from nutime.recordings.folders import read_folder, write_folder
from nutime.recordings.search import Match, Stretch, best_matches, check_scale, is_gap, read_query
from nutime.recordings.windows import (
    MIN_WINDOW,
    Indices,
    choose_window,
    cut_windows,
    embed_windows,
    embedded_size,
    missing_points,
    moments,
    open_recordings,
    read_recordings,
    runs,
)

_MULTIPLES = (1, 2, 4)  # of the dominant period
_MAX_RATIO = 2.0  # of the lengths of query and windows, or its inverse
_OVERLAP = 4  # windows that contain each point
_COMPONENTS = 64
_RESIZED = 32  # points of a window without an encoder
_CHUNK_SIZE = 4096  # windows reduced together
_FITTED_WINDOWS = 4000  # from which principal components are computed


@dataclass(frozen=True)
class _Level:
    """Windows of one length: their recording, start and vector, and the principal components."""

    size: int
    recording: Indices
    start: Indices
    vectors: NDArray[np.float32]
    mean: NDArray[np.float32]
    components: NDArray[np.float32]


_LEVEL_ARRAYS = ("recording", "start", "vectors", "mean", "components")


class RecordingIndex:
    """Recordings with the vectors of their windows, from :meth:`build` or :meth:`load`."""

    def __init__(
        self,
        given: SeriesSet,
        missing: list[NDArray[np.bool_]],
        levels: list[_Level],
        encoder: NuTime | None,
        scale: str,
    ) -> None:
        self.recordings = given
        self._missing = missing
        self.scale = scale
        self._levels = levels
        self._encoder = encoder
        self._moments = moments(given.series)

    @classmethod
    def build(
        cls,
        recordings: Any,
        windows: int | Sequence[int] | str = "auto",
        encoder: str | Path | NuTime | None = DEFAULT_WEIGHTS,
        *,
        scale: str = "keep",
        device: str = "auto",
    ) -> Self:
        """Prepare recordings.

        Args:
            recordings: one recording, or a list or dict of several: arrays ``(length,)`` or
                ``(channels, length)``, or frames.
            windows: points of the windows, best those of the queries; ``auto`` takes one, two and four times the
                dominant period of the first recording.
            encoder: shipped weights by name, a folder written by :meth:`nutime.NuTime.save`, or an encoder; None
                compares points, which is prepared in seconds and finds what is nearest point by point.
            scale: as in :func:`nutime.find`; a search must have the same.
            device: where the encoder computes; ``auto`` takes a GPU if there is one.
        """
        check_scale(scale)
        given = open_recordings(recordings)
        missing = [missing_points(values) for values in given.series]
        given = read_recordings(given)
        longest = max(values.shape[1] for values in given.series)
        if isinstance(windows, str):
            period = choose_window(windows, given.series[0], MIN_WINDOW, max(MIN_WINDOW, longest // 16))
            windows = [multiple * period for multiple in _MULTIPLES]
        sizes = np.unique(np.atleast_1d(windows))
        for size in sizes.tolist():
            check_number("windows", size, f"[{MIN_WINDOW}, {longest}]", integer=True)
        index = cls(given, missing, [], None if encoder is None else load_encoder(encoder, device), scale)
        index._levels = [index._level(int(size)) for size in sizes]
        return index

    def search(self, query: Any, k: int = 10, *, scale: str | None = None, n_candidates: int = 200) -> list[Match]:
        """Return up to ``k`` stretches most like the query that do not overlap each other, the best first.

        Args:
            query: the stretch, in any form of one recording.
            k: matches at most.
            scale: that of the index; another one is refused.
            n_candidates: windows around which matches are searched.
        """
        if scale not in (None, self.scale):
            raise ValueError(f"the index was built with scale={self.scale!r}; build another for {scale!r}")
        check_number("k", k, "[1, inf)", integer=True)
        check_number("n_candidates", n_candidates, "[1, inf)", integer=True)
        given = self.recordings
        values = read_query(query, given)
        stretch = Stretch.of(values, self._moments[1], self.scale)
        level = min(self._levels, key=lambda level: abs(np.log(level.size / stretch.size)))
        if not 1 / _MAX_RATIO <= level.size / stretch.size <= _MAX_RATIO:
            sizes = ", ".join(str(level.size) for level in self._levels)
            raise ValueError(
                f"the query has {stretch.size} points, the windows of the index {sizes}; build another"
            )
        vector = (self._vectors(values, np.zeros(1, np.intp), stretch.size) - level.mean) @ level.components.T
        distance = euclidean_distances(vector, level.vectors)[0]
        for index, flags in enumerate(self._missing):
            own = np.flatnonzero(level.recording == index)
            distance[own[is_gap(flags, level.size)[level.start[own]]]] = np.inf
        nearest = np.argsort(distance)[:n_candidates]
        blocks = []
        for index, recording in enumerate(given.series):
            own = nearest[level.recording[nearest] == index]
            centre = level.start[own] + (level.size - stretch.size) // 2
            last = recording.shape[1] - stretch.size
            blocks.append(np.unique(np.clip(centre - stretch.size // 2, 0, last)) if last >= 0 else own[:0])
        return best_matches(given, self._missing, stretch, blocks, k)

    def save(self, folder: str | Path) -> Path:
        """Write the index as ``folder``; an error leaves the folder as it was."""
        given = self.recordings
        arrays: dict[str, NDArray[Any]] = {f"values_{i}": values for i, values in enumerate(given.series)}
        arrays |= {f"missing_{i}": runs(missing) for i, missing in enumerate(self._missing)}
        for number, level in enumerate(self._levels):
            arrays |= {f"{name}_{number}": getattr(level, name) for name in _LEVEL_ARRAYS}
        if given.times is not None:
            for number, times in enumerate(given.times):
                arrays[f"times_{number}"] = times.view(np.int64) if times.dtype.kind in "mM" else times
        document = {
            "scale": self.scale,
            "windows": [level.size for level in self._levels],
            "n_recordings": len(given),
            "ids": given.ids,
            "channel_names": given.channel_names,
            "times": None if given.times is None else [times.dtype.str for times in given.times],
            "zoned": given.zoned,
            "encoder": self._encoder is not None,
        }
        return write_folder(folder, "index", document, arrays, self._encoder)

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> Self:
        """Read an index written by :meth:`save`; its matches are those before saving."""
        folder = Path(folder)
        document, arrays, encoder = read_folder(folder, "index", device)
        try:
            check_scale(document["scale"])
            given = _restore_recordings(document, arrays)
            missing = [_restore_missing(arrays, i, values.shape[1]) for i, values in enumerate(given.series)]
            levels = [
                _restore_level(size, {name: arrays[f"{name}_{i}"] for name in _LEVEL_ARRAYS}, given, encoder)
                for i, size in enumerate(document["windows"])
            ]
            if not levels:
                raise ValueError("no windows")
        except DAMAGE as error:
            raise ValueError(f"{folder}: not written by nutime, or damaged ({one_line(error)})") from None
        return cls(given, missing, levels, encoder, document["scale"])

    def _level(self, size: int) -> _Level:
        stride = max(1, size // _OVERLAP)
        starts = [np.arange(0, values.shape[1] - size + 1, stride) for values in self.recordings.series]
        recording = np.repeat(np.arange(len(starts)), [len(part) for part in starts])
        start = np.concatenate(starts)
        rows = np.linspace(0, len(start) - 1, min(len(start), _FITTED_WINDOWS)).astype(np.intp)
        sample = np.concatenate(
            [
                self._vectors(self.recordings.series[i], start[rows[recording[rows] == i]], size)
                for i in np.unique(recording[rows])
            ]
        )
        pca = PCA(min(_COMPONENTS, *sample.shape), svd_solver="randomized", random_state=0).fit(sample)
        mean, components = pca.mean_.astype(np.float32), pca.components_.astype(np.float32)
        vectors = [
            (self._vectors(values, part[first : first + _CHUNK_SIZE], size) - mean) @ components.T
            for values, part in zip(self.recordings.series, starts, strict=True)
            for first in range(0, len(part), _CHUNK_SIZE)
        ]
        return _Level(size, recording, start, np.concatenate(vectors), mean, components)

    def _vectors(self, recording: Array, starts: Indices, size: int) -> NDArray[np.float32]:
        """Return one vector per window, ``(n, d)``, before it is reduced."""
        first, last = int(starts[0]), int(starts[-1]) + size
        mean, scale = self._moments
        windows = cut_windows((recording[:, first:last] - mean) / scale, starts - first, size)
        if self.scale == "ignore":
            windows = windows - windows.mean(-1, keepdims=True)
            deviation = windows.std(-1, keepdims=True)
            windows = windows / np.where(deviation > 0, deviation, 1)
        if self._encoder is None:
            return resample(list(windows), _RESIZED).reshape(len(starts), -1).astype(np.float32)
        return embed_windows(self._encoder, windows).reshape(len(starts), -1)


def _restore_recordings(document: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> SeriesSet:
    """Return the recordings of an index that is loaded; what does not fit raises one of ``DAMAGE``."""
    names = [name for name in arrays if name.startswith("values_")]
    count, times = len(names), document["times"]
    if document["n_recordings"] != count or not count:
        raise ValueError(f"{count} recordings")
    channels = len(arrays["values_0"])
    for name in names:
        check_arrays(arrays, {name: "cn"}, c=channels)
    check_names(document["ids"], count)
    check_names(document["channel_names"], channels)
    series = [arrays[f"values_{number}"] for number in range(count)]
    found = None
    if times is not None:
        found = [arrays[f"times_{number}"].view(np.dtype(times[number])) for number in range(count)]
        for values, own in zip(series, found, strict=True):
            if own.shape != values.shape[1:] or own.dtype.kind not in "iufMm":
                raise ValueError(f"times of shape {own.shape} and type {own.dtype}")
    zoned = bool(document.get("zoned"))  # absent in indexes of older versions
    return SeriesSet(
        series, ids=document["ids"], channel_names=document["channel_names"], times=found, zoned=zoned
    )


def _restore_missing(arrays: dict[str, NDArray[Any]], number: int, length: int) -> NDArray[np.bool_]:
    """Return which points of a recording are missing, none in indexes of older versions."""
    flags = np.zeros(length, bool)
    edges = arrays.get(f"missing_{number}", np.empty((0, 2), np.intp))
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind != "i":
        raise ValueError(f"missing points of shape {edges.shape} and type {edges.dtype}")
    for start, end in edges.tolist():
        flags[max(start, 0) : max(end, 0)] = True
    return flags


def _restore_level(size: Any, arrays: dict[str, NDArray[Any]], given: SeriesSet, encoder: NuTime | None) -> _Level:
    lengths = np.array([values.shape[1] for values in given.series])
    check_number("windows", size, f"[{MIN_WINDOW}, {lengths.max()}]", integer=True)
    shapes = {"recording": "n", "start": "n", "vectors": "np", "mean": "d", "components": "pd"}
    own = _RESIZED if encoder is None else embedded_size(encoder)
    check_arrays(arrays, shapes, d=own * len(given.series[0]))
    recording, start = arrays["recording"], arrays["start"]
    are_indices = recording.dtype.kind == start.dtype.kind == "i"
    if not are_indices or not ((recording >= 0) & (recording < len(lengths))).all():
        raise ValueError("windows of other recordings")
    if not ((start >= 0) & (start <= lengths[recording] - size)).all():
        raise ValueError("windows that are not within their recordings")
    return _Level(size, **arrays)
