"""The pretraining corpus: a folder of univariate series that may be larger than memory.

``corpus.json`` is the index; ``shard-00000.arrow`` and so on hold the values, each an Arrow IPC file with one
record batch and one column ``values: large_list<float32>``. The series of a source are contiguous and in order.

A shard is mapped copy-on-write: a corpus of one shard becomes a tensor without being read or copied, and
writing to that tensor changes neither the file nor another process's view of it.

Values are stored as float32. A series far from zero loses digits (1,000,000.01 becomes 1,000,000), which is
accepted because pretraining needs scale and shape only.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nutime.atomic import replace_folder
from nutime.data.series import Array, as_series
from nutime.version import own_version

if TYPE_CHECKING:
    from nutime.data.crops import FlatSeries

PathLike: TypeAlias = str | os.PathLike[str]

_FORMAT = 1
#: The file that makes a folder a corpus.
CORPUS_INDEX = "corpus.json"
_SHARD_NAME = re.compile(r"shard-\d{5,9}\.arrow")
_SHARD_BYTES = 64_000_000
_MAX_VALUE = float(np.finfo(np.float32).max)
_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True)
class CorpusSource:
    """The origin of ``count`` series, from index ``first`` on, with ``values`` points in total."""

    name: str
    first: int
    count: int
    values: int

    def __post_init__(self) -> None:
        _check_counts(self.first + 1, self.count, self.values)


@dataclass(frozen=True)
class _Shard:
    file: str
    series: int
    values: int
    bytes: int

    def __post_init__(self) -> None:
        if not _SHARD_NAME.fullmatch(self.file):  # a path could lead out of the corpus folder
            raise ValueError(f"{self.file!r} is not the name of a shard")
        _check_counts(self.series, self.values, self.bytes)


def _check_counts(*counts: Any) -> None:
    if not all(type(count) is int and 0 < count < 2**48 for count in counts):
        raise TypeError(f"expected counts, got {counts}")


class Corpus:
    """A corpus on disk; only its index is read when it is opened."""

    def __init__(self, path: Path, index: dict[str, Any]) -> None:
        self.path = path
        self.sources = tuple(CorpusSource(**source) for source in index["sources"])
        self._shards = tuple(_Shard(**shard) for shard in index["shards"])
        self._index = index
        if not self._shards or len(self) != sum(source.count for source in self.sources):
            raise ValueError("sources and shards disagree")

    @classmethod
    def open(cls, path: PathLike) -> Self:
        """Open a corpus folder.

        Raises:
            ValueError: one line with the file that is missing, truncated or too new.
        """
        folder = Path(path)
        index_path = folder / CORPUS_INDEX
        if not index_path.is_file():
            raise ValueError(f"{index_path}: not found; expected a corpus folder (`nutime corpus build`)")
        try:
            index = json.loads(index_path.read_text("utf-8"))
            found = index["format"]
            corpus = cls(folder, index) if found <= _FORMAT else None
        except (KeyError, TypeError, ValueError, RecursionError):
            raise ValueError(f"{index_path}: is damaged; build the corpus again") from None
        if corpus is None:
            raise ValueError(f"{index_path}: format {found} is newer than this nutime reads; update nutime")
        for shard in corpus._shards:
            file = folder / shard.file
            is_inside = file.is_file() and file.resolve().parent == folder.resolve()
            size = file.stat().st_size if is_inside else None
            if size != shard.bytes:
                state = "is missing or elsewhere" if size is None else f"has {size} bytes instead of {shard.bytes}"
                raise ValueError(f"{file}: {state}; copy it again or build the corpus again")
        return corpus

    def __len__(self) -> int:
        return sum(shard.series for shard in self._shards)

    @property
    def longest(self) -> int:
        """Points of the longest series."""
        return int(self._lengths.max())

    def describe(self) -> dict[str, Any]:
        """Return the content of ``corpus.json`` without the shards: sources, totals, distributions, repeats."""
        return {key: value for key, value in self._index.items() if key != "shards"}

    def lengths(self, indices: Any) -> NDArray[np.int64]:
        """Return the lengths of some series, by any numpy index."""
        return np.atleast_1d(self._lengths[indices])

    def flat(self) -> FlatSeries:
        """Return all series: a view of the mapped file for a single shard, else a copy in memory."""
        shards = [values for values, _ in self._mapped]
        return _flat_series(shards[0] if len(shards) == 1 else np.concatenate(shards), self._lengths)

    def take(self, indices: Any) -> FlatSeries:
        """Copy some series into memory, in the order given; ascending indices read the disk in order.

        Args:
            indices: any numpy index: numbers (repetitions allowed), a slice, a mask.
        """
        chosen = np.atleast_1d(np.arange(len(self))[indices])
        first = np.cumsum([0, *(shard.series for shard in self._shards)])
        shards = np.searchsorted(first, chosen, side="right") - 1
        pieces = []
        for shard, local in zip(shards.tolist(), (chosen - first[shards]).tolist(), strict=True):
            values, offsets = self._mapped[shard]
            pieces.append(values[offsets[local] : offsets[local + 1]])
        return _flat_series(np.concatenate([np.empty(0, np.float32), *pieces]), self._lengths[chosen])

    @cached_property
    def _mapped(self) -> list[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """Values and offsets of each shard."""
        return [_map_shard(self.path / shard.file, shard) for shard in self._shards]

    @cached_property
    def _lengths(self) -> NDArray[np.int64]:
        return np.concatenate([np.diff(offsets) for _, offsets in self._mapped])


def _flat_series(values: NDArray[np.float32], lengths: NDArray[np.int64]) -> FlatSeries:
    import torch

    from nutime.data.crops import FlatSeries

    starts = np.cumsum(lengths) - lengths
    return FlatSeries(torch.from_numpy(values), torch.from_numpy(starts), torch.from_numpy(lengths.copy()))


def _map_shard(path: Path, shard: _Shard) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    import pyarrow as pa

    mapped = np.asarray(np.memmap(path, np.uint8, mode="c"))
    try:
        batch = pa.ipc.open_file(pa.py_buffer(mapped)).get_batch(0)
        batch.validate()
        (column,) = batch.columns
        if column.type != pa.large_list(pa.float32()) or column.null_count or column.values.null_count:
            raise ValueError(f"holds {column.type}")
        # Arrow's own views are read-only; views of the mapping are writable.
        values = _view(mapped, column.values.buffers()[1], np.float32, len(column.values))
        offsets = _view(mapped, column.buffers()[1], np.int64, len(column) + 1)
        whole = (len(offsets) - 1, len(values)) == (shard.series, shard.values)
    except (pa.ArrowException, IndexError, ValueError, OSError):
        whole = False
    if not whole or offsets[0] != 0 or offsets[-1] != len(values) or (np.diff(offsets) < 1).any():
        raise ValueError(f"{path}: is damaged; copy it again or build the corpus again")
    return values, offsets


def _view(mapped: NDArray[np.uint8], buffer: Any, dtype: type[Any], count: int) -> NDArray[Any]:
    """Return the part of a mapping that an Arrow buffer refers to."""
    begin = buffer.address - mapped.ctypes.data
    end = begin + count * np.dtype(dtype).itemsize
    if not 0 <= begin <= end <= len(mapped):
        raise ValueError("the values are compressed")
    return mapped[begin:end].view(dtype)


class CorpusWriter:
    """Writes a corpus, source by source; a context manager.

    The corpus appears complete when the block ends, or not at all. At most one shard is held in memory.

    Args:
        path: the folder to create.
        overwrite: whether an existing corpus may be replaced.
        shard_bytes: size of the values at which another shard is started.
    """

    def __init__(self, path: PathLike, *, overwrite: bool = False, shard_bytes: int = _SHARD_BYTES) -> None:
        self.path = Path(path)
        self._overwrite = overwrite
        self._stack = ExitStack()
        self._buffer = np.empty(max(1, shard_bytes // 4), np.float32)
        self._filled = 0
        self._pending: list[int] = []  # lengths of the series in the buffer
        self._sources: list[CorpusSource] = []
        self._shards: list[_Shard] = []
        self._lengths: Counter[int] = Counter()
        self._scales: Counter[float] = Counter()
        self._notes: dict[str, Any] = {}

    def __enter__(self) -> Self:
        if self.path.exists():
            if not self._overwrite:
                raise ValueError(f"{self.path}: exists already; choose another folder, or overwrite it")
            if not (self.path / CORPUS_INDEX).is_file():
                raise ValueError(f"{self.path}: is not a corpus and is not overwritten; choose another folder")
        self._folder = self._stack.enter_context(replace_folder(self.path, keep=False))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._stack.__exit__(kind, error, trace)
            return
        with self._stack:
            self._finish()

    def add(self, name: str, series: Iterable[Any]) -> None:
        """Write the series of a source; each may be ``(length,)`` or ``(channels, length)``.

        Padding is trimmed, missing values are interpolated, and each channel becomes a series of its own. A
        source without series is not listed.
        """
        self.add_clean(name, chain.from_iterable(clean(series, name)))

    def add_clean(self, name: str, series: Iterable[Array]) -> None:
        """Write series that are already one-dimensional and finite."""
        if any(source.name == name for source in self._sources):
            raise ValueError(f"source {name!r} was added before; add all series of a source in one call")
        first, count, values = len(self), 0, 0
        for index, one in enumerate(series):
            self._append(one, f"{name}: series {index}")
            count, values = count + 1, values + one.size
        if count:
            self._sources.append(CorpusSource(name, first, count, values))

    def note(self, **facts: Any) -> None:
        """Add facts, as JSON values, to what ``Corpus.describe`` returns."""
        self._notes |= facts

    def __len__(self) -> int:
        return sum(shard.series for shard in self._shards) + len(self._pending)

    def _append(self, series: Array, where: str) -> None:
        if series.dtype != np.float32 and np.abs(series).max() > _MAX_VALUE:
            raise ValueError(f"{where}: has values beyond ±{_MAX_VALUE:g}, the limit of float32; rescale it")
        if self._filled + series.size > self._buffer.size:
            self._flush()
            if series.size > self._buffer.size:
                self._buffer = np.empty(series.size, np.float32)
        place = self._buffer[self._filled : self._filled + series.size]
        place[:] = series
        self._filled += series.size
        self._pending.append(series.size)

    def _flush(self) -> None:
        """Write the buffer as a shard."""
        import pyarrow as pa

        if not self._pending:
            return
        values, offsets = self._buffer[: self._filled], np.cumsum([0, *self._pending])
        column = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values))
        batch = pa.record_batch([column], names=["values"])
        file = self._folder / f"shard-{len(self._shards):05d}.arrow"
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        self._shards.append(_Shard(file.name, len(self._pending), values.size, file.stat().st_size))
        self._lengths.update(self._pending)
        self._scales.update(_decades(values, offsets))
        self._pending, self._filled = [], 0

    def _finish(self) -> None:
        self._flush()
        if not self._sources:
            raise ValueError(f"{self.path}: no series to write; nothing was created")
        index = {
            "format": _FORMAT,
            "nutime": own_version(),
            "series": len(self),
            "values": sum(source.values for source in self._sources),
            "length_quantiles": _quantiles(self._lengths),
            "scale_histogram": _histogram(self._scales),
            **self._notes,
            "sources": [asdict(source) for source in self._sources],
            "shards": [asdict(shard) for shard in self._shards],
        }
        (self._folder / CORPUS_INDEX).write_text(json.dumps(index, indent=1), "utf-8")


def clean(series: Iterable[Any], place: str) -> Iterator[Array]:
    """Bring series to the finite ``(channels, length)`` of the input contract; ``place`` begins the errors."""
    for index, values in enumerate(series):
        try:
            yield as_series([values])[0]
        except ValueError as error:
            raise ValueError(f"{place}: series {index}: {str(error).removeprefix('series 0: ')}") from None


def _decades(values: NDArray[np.float32], offsets: NDArray[np.int64]) -> list[float]:
    """Return the nearest power of ten to each series' root mean square; −inf for one of zeros."""
    power = np.add.reduceat(np.square(values, dtype=np.float64), offsets[:-1]) / np.diff(offsets)
    with np.errstate(divide="ignore"):
        decades: list[float] = np.round(np.log10(power) / 2).tolist()
    return decades


def _histogram(decades: Counter[float]) -> dict[str, int]:
    return {
        "zero" if np.isinf(decade) else f"1e{int(decade):+d}": count for decade, count in sorted(decades.items())
    }


def _quantiles(lengths: Counter[int]) -> dict[str, int]:
    every = np.repeat(list(lengths), list(lengths.values()))
    found = np.quantile(every, _QUANTILES, method="lower").tolist()
    return {f"{quantile:.0%}": length for quantile, length in zip(_QUANTILES, found, strict=True)}
