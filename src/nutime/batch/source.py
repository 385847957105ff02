"""Input of any size, read in chunks: the one path from an address to series for all commands.

An address is a file in one of :data:`~nutime.data.formats.read.FORMATS`, ``-`` for CSV on standard input, a folder
or glob pattern of files with one series each, the name of an archive set, or a Parquet data set: a ``.parquet``
file, a folder of them (read in the order of their names), or an fsspec address of either. A folder of ``.parquet``
files with a file of labels is not a data set: each file is one series.

Chunk boundaries depend on the data alone. A Parquet data set is divided into pieces, each a range of rows of one
file, and a piece into chunks of :data:`CHUNK_SIZE` series. The results of a piece are identical whichever worker
computes it, and however often. A Parquet file in the long format (one row per point) is one piece; an id that
occurs in two of them is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nutime.batch.results import PARQUET, Results, filesystem
from nutime.data.formats.arrow import is_contiguous, open_parquet, parquet_columns, records_of
from nutime.data.formats.read import (
    LABELS_FILE,
    SplitName,
    is_many,
    is_series_file,
    read_records,
    record_set,
    with_notes,
)
from nutime.data.formats.source import CHOOSE, FormatError, InputFile, ReadOptions, Record, quote
from nutime.data.series import Array, SeriesSet, align, read_input

_log = logging.getLogger("nutime")

CHUNK_SIZE = 256  # series given to the model together
PIECE_ROWS = 16_384  # rows of a Parquet file that a worker reads: the work repeated after a worker has died
_BATCH_ROWS = 1024  # rows of a Parquet file decoded together


class SourceOptions(ReadOptions, total=False):
    """How an input is read: the columns of tables, and a file with the labels of a folder or pattern of files."""

    labels: str | None


class Extent(NamedTuple):
    """Number of series, of their channels, and the shortest and longest length."""

    series: int
    channels: int
    shortest: int
    longest: int

    @classmethod
    def of(cls, series: list[Array]) -> Self:
        """Measure series."""
        lengths = [values.shape[1] for values in series]
        return cls(len(series), len(series[0]), min(lengths), max(lengths))

    def __or__(self, other: Extent) -> Extent:
        """Return the extent of both together."""
        shortest, longest = min(self.shortest, other.shortest), max(self.longest, other.longest)
        return Extent(self.series + other.series, self.channels, shortest, longest)


class Chunk(NamedTuple):
    """Consecutive series of an input.

    Attributes:
        data: the series as :func:`~nutime.data.series.read_input` returns them, with names, ids and labels.
        raw: the series as the input has them: what is missing is not known before the columns are in order.
        address: the file they come from, for error messages.
        part: the file of results they belong to, where results are a folder.
    """

    data: SeriesSet
    raw: list[Array]
    address: str
    part: int = 0

    @property
    def series(self) -> list[Array]:
        """The series, ``(channels, length)`` each."""
        return self.data.series

    @property
    def named_series(self) -> SeriesSet:
        """The series with the names of their channels or columns: ``X`` for an estimator."""
        data = self.data
        return SeriesSet(self.raw, channel_names=data.channel_names, feature_names=data.feature_names)

    @property
    def columns(self) -> Results:
        """The columns ``id`` and ``label`` where the input has them; the label of an unlabelled series is ""."""
        return input_columns(self.data)

    @classmethod
    def joined(cls, chunks: Iterable[Chunk]) -> Chunk:
        """Return all chunks of a stream as one."""
        chunks = list(chunks)
        first = chunks[0]
        labels, ids = first.data.labels, first.data.ids
        if labels is not None:
            labels = np.concatenate([chunk.columns["label"] for chunk in chunks])
        if ids is not None:
            ids = [identity for chunk in chunks for identity in chunk.data.ids or []]
        times = [time for chunk in chunks for time in chunk.data.times or []]
        series = [values for chunk in chunks for values in chunk.series]
        times_known = times if len(times) == len(series) else None
        data = replace(first.data, series=series, labels=labels, ids=ids, times=times_known)
        return first._replace(data=data, raw=[values for chunk in chunks for values in chunk.raw])


class Piece(NamedTuple):
    """Rows ``start`` to ``stop`` of a Parquet file, and its number among all pieces."""

    number: int
    address: str
    start: int
    stop: int


@dataclass(frozen=True)
class Source:
    """The series at an address.

    Attributes:
        address: see the module.
        options: how its tables are read.
        split: what to read of an archive set or of a file with several sets; None reads all.
        keep_missing: leave NaN in the series, instead of interpolating it.
    """

    address: str
    options: SourceOptions = field(default_factory=SourceOptions)
    split: SplitName | None = None
    keep_missing: bool = False

    def chunks(self) -> Iterator[Chunk]:
        """Iterate over all series in the order of the input.

        Raises:
            ValueError: one line that begins with the address.
        """
        if not self._is_data_set:
            name = "standard input" if self.address == "-" else self.address
            return _chunks(self._records(), name, keep_missing=self.keep_missing)
        return (chunk for piece in self.pieces for chunk in self.piece_chunks(piece))

    def opened(self) -> tuple[Chunk, Iterator[Chunk]]:
        """Return the first chunk, and all chunks including the first.

        What is wrong with a path or with columns is found here, before a model is loaded.
        """
        chunks = self.chunks()
        first = next(chunks)
        return first, chain([first], chunks)

    @property
    def count(self) -> int | None:
        """The number of series, where it is known without reading them."""
        if not self._is_data_set or self._plan[1].is_long:
            return None
        return sum(piece.stop - piece.start for piece in self.pieces)

    @property
    def fingerprint(self) -> str | None:
        """A text that changes with the files of a Parquet data set and how they are read; None for other input."""
        if not self._is_data_set:
            return None
        files = [system.info(path) for system, path in map(filesystem, self._plan[0])]
        return repr((self.pieces, files, sorted(self.options.items()), self.keep_missing))

    @cached_property
    def _is_data_set(self) -> bool:
        has_labels = self.options.get("labels") is not None or Path(self.address, LABELS_FILE).is_file()
        return is_parquet(self.address) and not has_labels

    @cached_property
    def pieces(self) -> list[Piece]:
        """The pieces of a Parquet data set, from its files' footers and, where rows are points, their ids.

        Raises:
            FormatError: there is no file, one cannot be read, the columns of two files do not agree, or the points
                of a series are in two files.
        """
        self._check_ids()
        pieces: list[Piece] = []
        for address, rows in self._plan[0].items():
            size = max(rows, 1) if self._plan[1].is_long else PIECE_ROWS
            for start in range(0, rows, size):
                pieces.append(Piece(len(pieces), address, start, min(start + size, rows)))
        if not pieces:
            raise FormatError(f"{self.address}: holds no series")
        return pieces

    def _check_ids(self) -> None:
        """Refuse an id that occurs in two files whose rows are points: each would give a part of the series."""
        files, kind = self._plan
        if len(files) == 1 or not (kind.is_long and kind.ids):
            return
        file_of: dict[str, str] = {}
        for address in files:
            for identity in self._ids_of(address):
                other = file_of.setdefault(identity, address)
                if other != address:
                    raise FormatError(
                        f"{address}: the series {quote(identity)} has points in {other} too; repartition the data "
                        "set by its ids, or join the files"
                    )

    def _ids_of(self, address: str) -> Iterator[str]:
        """Iterate over the ids of a file with one row per point; an id may repeat."""
        source = self._input_file(address)
        with source.decoding(), _open(source) as file:
            columns, _ = parquet_columns(source, file)
            for batch in file.iter_batches(columns=[file.schema_arrow.names[columns.id]]):
                for cell in batch.column(0).unique().to_pylist():
                    yield str(columns.id_text(source, cell))

    def piece_chunks(self, piece: Piece) -> Iterator[Chunk]:
        """Iterate over the series of a piece of a Parquet data set."""
        names = self._plan[1].names
        records = self._piece_records(piece)
        return _chunks(records, piece.address, piece.number, piece.start, names, keep_missing=self.keep_missing)

    def _piece_records(self, piece: Piece) -> Iterator[Record]:
        source = self._input_file(piece.address)
        with source.decoding(), _open(source) as file:
            columns, lists = parquet_columns(source, file)
            rows = _rows_of(file, piece.start, piece.stop)
            records = records_of(source, columns, lists, rows, contiguous=is_contiguous(source, file, columns))
            notes = source.notes if piece.number == 0 else []  # those on columns once
            yield from with_notes(records, source.time_report, notes)

    @cached_property
    def _plan(self) -> tuple[dict[str, int], _Kind]:
        """The rows of every file, and what all files have in common."""
        rows: dict[str, int] = {}
        first: _Kind | None = None
        for address in _files_of(self.address):
            source = self._input_file(address)
            with source.decoding(), _open(source) as file:
                columns, lists = parquet_columns(source, file)
                rows[address] = file.metadata.num_rows
            names = {"channel_names" if lists or columns.is_long else "feature_names": columns.names}
            kind = _Kind(names, columns.label is not None, columns.id is not None, columns.is_long)
            first = first or kind
            if not kind.agrees_with(first):
                raise source.error(f"differs from {next(iter(rows))} in its columns, labels or ids; {CHOOSE}")
        assert first is not None  # there is at least one file
        if self.address not in rows:
            _log.info(
                "%s: a data set of %d .parquet files; with --labels each is one series", self.address, len(rows)
            )
        return rows, first

    def _input_file(self, address: str) -> InputFile:
        options: dict[str, Any] = {name: value for name, value in self.options.items() if name != "labels"}
        return InputFile(cast(Path, address), **options)  # a Path would drop a slash of a remote address

    def _records(self) -> Iterator[Record]:
        address = self.address
        if address == "-" or Path(address).is_file() or is_series_file(address) or is_many(address):
            return read_records(address, self.split, **self.options)
        if any(value is not None for value in self.options.values()):
            raise ValueError(f"{address}: no such file; labels and columns can be chosen in files only")
        return _archive_records(address, self.split)


#: ``channel_names`` and ``feature_names``, as in :class:`SeriesSet`.
_Names: TypeAlias = dict[str, list[str] | None]


class _Kind(NamedTuple):
    """What the files of a Parquet data set have in common."""

    names: _Names
    labels: bool
    ids: bool
    is_long: bool

    def agrees_with(self, other: _Kind) -> bool:
        """Whether two files can be read together: the same columns of channels, in any order."""
        own, others = self.names.get("channel_names"), other.names.get("channel_names")
        return self[1:] == other[1:] and (own and sorted(own)) == (others and sorted(others))


def is_parquet(address: str) -> bool:
    """Return whether an address is a Parquet data set: a file, a folder with some, or remote."""
    if address.lower().endswith(PARQUET) or "://" in address:
        return True
    if not Path(address).is_dir():
        return False
    files = (path for path in Path(address).rglob("*") if path.suffix.lower() == PARQUET)
    return any(_is_visible(path.relative_to(address).as_posix()) for path in files)


def input_columns(data: SeriesSet) -> Results:
    """Return the columns of the input that results repeat: ids and labels, where there are any."""
    columns: dict[str, NDArray[np.str_]] = {}
    if data.ids is not None:
        columns["id"] = np.array(data.ids, np.str_)
    if data.labels is not None:
        columns["label"] = data.labels
    return columns


def _chunks(
    records: Iterator[Record],
    address: str,
    part: int = 0,
    start: int = 0,
    names: _Names | None = None,
    *,
    keep_missing: bool,
) -> Iterator[Chunk]:
    """Apply the input contract to records; ``start`` is the index of the first in its file."""
    first: SeriesSet | None = None
    while batch := list(islice(records, CHUNK_SIZE)):
        found = record_set(batch)
        if names is None:
            names = {"channel_names": found.channel_names, "feature_names": found.feature_names}
        raw, data = _clean(found, names, address, start, keep_missing)
        if first is None:
            first = data
        if len(data.series[0]) != len(first.series[0]):
            counts = f"{len(data.series[0])} channel(s), earlier series have {len(first.series[0])}"
            raise FormatError(f"{address}: series {start}: has {counts}")
        if first.labels is None and data.labels is not None:
            raise FormatError(f"{address}: series before {start} have no labels, later ones have")
        if first.labels is not None and data.labels is None:
            data = replace(data, labels=np.full(len(data.series), ""))
        yield Chunk(data, raw, address, part)
        start += len(data.series)


def _clean(
    data: SeriesSet, names: _Names, address: str, start: int, keep_missing: bool
) -> tuple[list[Array], SeriesSet]:
    """Return the series in the order of the names: as they are, and as the input contract has them."""
    try:
        aligned = align(data, **names)
        return aligned.series, read_input(aligned, keep_missing=keep_missing, first=start)
    except ValueError as error:
        raise FormatError(f"{address}: {error}") from None


def _archive_records(name: str, split: SplitName | None) -> Iterator[Record]:
    from nutime.data.archives import find_set, load_dataset

    try:
        find_set(name)
    except ValueError as error:
        raise ValueError(f"{name}: no such file, and {error}") from None
    for part in [split] if split else ["train", "test"]:
        dataset = load_dataset(name, split=part)
        for values, label in zip(dataset.X, dataset.y, strict=True):
            yield Record(np.atleast_2d(values), str(label))


def _files_of(address: str) -> list[str]:
    """Return the addresses of a data set's files, in the order of their names."""
    system, path = filesystem(address)
    try:
        if not system.isdir(path):
            if not system.exists(path):
                raise FormatError(f"{address}: no such file or folder")
            if not system.isfile(path):  # a pipe or a device
                raise FormatError(f"{address}: cannot be read: is not a regular file")
            return [address]
        found = [name for name in system.find(path) if _is_visible(name[len(path) :])]
        names = sorted(name for name in found if name.lower().endswith(PARQUET))
        if others := [name for name in found if is_series_file(name) and not name.lower().endswith(PARQUET)]:
            raise FormatError(
                f"{address}: holds {PARQUET} and other files such as {others[0]}; choose by a pattern"
            )
    except OSError as error:
        raise FormatError(f"{address}: cannot be read: {error}") from error
    if not names:
        raise FormatError(f"{address}: a folder without {PARQUET} files")
    return [str(system.unstrip_protocol(name)) if "://" in address else name for name in names]


def _is_visible(name: str) -> bool:
    """Return whether a path inside a data set belongs to it; names that begin with . or _ do not."""
    return not any(part[:1] in "._" for part in name.split("/") if part)


@contextmanager
def _open(source: InputFile) -> Iterator[Any]:
    system, path = filesystem(source.name)
    with system.open(path, "rb") as stream, open_parquet(source, stream) as file:
        yield file


def _rows_of(file: Any, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """Iterate over a range of rows; of a row group that begins before it, the first rows are read and dropped."""
    sizes = [file.metadata.row_group(index).num_rows for index in range(file.num_row_groups)]
    ends = np.cumsum(sizes)
    groups = [index for index, end in enumerate(ends) if end > start and end - sizes[index] < stop]
    row = int(ends[groups[0]]) - sizes[groups[0]]
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, row_groups=groups):
        first = max(start - row, 0)
        rows = batch.slice(first, max(min(stop - row, len(batch)) - first, 0))
        row += len(batch)
        if len(rows):
            yield rows
        if row >= stop:
            return
