"""Parquet data sets read in pieces and written as parts: the plan both engines share.

A data set is a ``.parquet`` file, a folder of them (read in the order of their names), or an fsspec address of
either. Its columns are those of a ``.parquet`` file anywhere else in the package.

Unusual here: which series are computed together is decided by the data alone. A :class:`Piece` is a range of
rows of one file, and within it series are asked about :data:`AT_A_TIME`; whoever does the work, in whatever
order and however often, the digits are the same. A table with a point a row is one piece a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from uuid import uuid4

import numpy as np

from nutime.batch.answers import answers
from nutime.data.formats.arrow import columns_of, records_of
from nutime.data.formats.source import CHOOSE, FormatError, InputFile, Record
from nutime.data.results import Results, flatten
from nutime.data.series import Array, as_series

if TYPE_CHECKING:
    import pyarrow as pa
    from fsspec import AbstractFileSystem

SUFFIX = ".parquet"
PIECE_ROWS = 16_384  # work lost with a worker, and a row group of the results
AT_A_TIME = 256  # series a question
BATCH_ROWS = 1024  # rows decoded at a time
_WRITING = ".writing"  # ends the name of a file that is not complete


class Piece(NamedTuple):
    """Rows ``start`` to ``stop`` of a file, and its place among all pieces."""

    number: int
    address: str
    start: int
    stop: int


class Extent(NamedTuple):
    """How many series there are, of how many channels, and how long."""

    series: int
    channels: int
    shortest: int
    longest: int

    @classmethod
    def of(cls, series: list[Array]) -> Extent:
        """Measure series."""
        lengths = [values.shape[1] for values in series]
        return cls(len(series), len(series[0]), min(lengths), max(lengths))

    def __or__(self, other: Extent) -> Extent:
        """Return the extent of both together."""
        shortest, longest = min(self.shortest, other.shortest), max(self.longest, other.longest)
        return Extent(self.series + other.series, self.channels, shortest, longest)


@dataclass(frozen=True)
class DataSet:
    """A data set and the columns a user chose, by name or by position."""

    address: str
    label_column: str | None = None
    id_column: str | None = None

    def pieces(self) -> list[Piece]:
        """Plan the work from the files' footers alone.

        Raises:
            FormatError: there is no file, one cannot be read, or their columns do not go together.
        """
        pieces: list[Piece] = []
        first: tuple[str, tuple[int, bool, bool]] | None = None
        for address in files_of(self.address):
            source = self._source(address)
            with source.decoding(), _open(address) as file:
                columns, lists = columns_of(source, file.schema_arrow)
                rows = file.metadata.num_rows
            channels = len(columns.values) if lists or columns.is_long else 1
            kind = channels, columns.label is not None, columns.id is not None
            first = first or (address, kind)
            if kind != first[1]:
                raise source.error(f"differs from {first[0]} in its channels, labels or ids; {CHOOSE}")
            size = max(rows, 1) if columns.is_long else PIECE_ROWS
            for start in range(0, rows, size):
                pieces.append(Piece(len(pieces), address, start, min(start + size, rows)))
        if not pieces:
            raise FormatError(f"{self.address}: holds no series")
        return pieces

    def records(self, piece: Piece) -> Iterator[Record]:
        """Iterate over the series of a piece."""
        source = self._source(piece.address)
        with source.decoding(), _open(piece.address) as file:
            columns, lists = columns_of(source, file.schema_arrow)
            yield from records_of(source, columns, lists, _rows_of(file, piece.start, piece.stop))

    def answer(
        self, piece: Piece, model: Any, pool: str, tell: Callable[[int], None] = lambda count: None
    ) -> tuple[Results, Extent]:
        """Ask a model about every series of a piece; ids and labels are kept, ``tell`` hears of series done."""
        records = self.records(piece)
        parts: list[Results] = []
        extents: list[Extent] = []
        done = piece.start
        while chunk := list(islice(records, AT_A_TIME)):
            series = _clean(chunk, piece.address, done)
            parts.append({**kept_columns(chunk), **_ask(model, series, pool, piece.address)})
            extents.append(Extent.of(series))
            done += len(chunk)
            tell(len(chunk))
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return columns, reduce(or_, extents)

    def _source(self, address: str) -> InputFile:
        # A Path would make one slash of the two in an address, and complaints would name another place.
        return InputFile(cast(Path, address), label_column=self.label_column, id_column=self.id_column)


def is_data_set(address: str) -> bool:
    """Tell whether an address is a Parquet file, a folder with some, or remote."""
    return address.lower().endswith(SUFFIX) or "://" in address or any(Path(address).rglob(f"*{SUFFIX}"))


def files_of(address: str) -> list[str]:
    """Return the addresses of a data set's files, in the order of their names."""
    system, path = _system(address)
    try:
        if not system.isdir(path):
            if not system.exists(path):
                raise FormatError(f"{address}: no such file or folder")
            return [address]
        names = sorted(name for name in system.find(path) if _is_visible_parquet(name[len(path) :]))
    except OSError as error:
        raise FormatError(f"{address}: cannot be read: {error}") from error
    if not names:
        raise FormatError(f"{address}: a folder without {SUFFIX} files")
    return [str(system.unstrip_protocol(name)) if "://" in address else name for name in names]


def kept_columns(records: list[Record]) -> Results:
    """Return the columns of the input that results keep: ids and labels, where there are any."""
    kept = {"id": [record.id for record in records], "label": [record.label for record in records]}
    return {name: np.array(column) for name, column in kept.items() if column[0] is not None}


def as_arrow(columns: Results) -> pa.Table:
    """Return results as the table a ``.parquet`` file holds."""
    import pyarrow as pa

    return pa.table(flatten(columns))


def write_part(folder: str, piece: Piece, table: pa.Table) -> None:
    """Write the results of a piece to a file of a folder; a piece done twice is written once.

    The names of the files sort as the pieces do.
    """
    import pyarrow.parquet as pq

    with fresh_file(f"{folder}/part-{piece.number:06d}{SUFFIX}") as file:
        pq.write_table(table, file)


@contextmanager
def fresh_file(address: str) -> Iterator[Any]:
    """Yield a file to write to that takes its place, and that of an older one, when the block ends well."""
    system, path = _system(address)
    fresh = f"{path}.{uuid4().hex}{_WRITING}"
    try:
        with system.open(fresh, "wb") as file:
            yield file
        system.mv(fresh, path)
    finally:
        if system.exists(fresh):
            system.rm(fresh)


@contextmanager
def fresh_folder(address: str) -> Iterator[str]:
    """Yield the address of a folder for parts, which takes its place when the block ends well."""
    system, path = _system(address.rstrip("/"))
    home, _, name = path.rpartition("/")
    fresh = f"{home}/.{name}.{uuid4().hex}"
    system.makedirs(fresh)
    try:
        yield str(system.unstrip_protocol(fresh))
        for part in system.ls(fresh, detail=False):
            if part.endswith(_WRITING):  # by a worker that was killed; another one did its piece again
                system.rm(part)
        if system.isdir(path):
            system.rmdir(path)  # it is empty, as check_output saw
        system.mv(fresh, path, recursive=True)
    finally:
        if system.exists(fresh):
            system.rm(fresh, recursive=True)


def check_output(out: str, source: str) -> None:
    """Refuse results that could not be written or would replace something, before any work is done."""
    system, path = _system(out)
    if f"{path.rstrip('/')}/".startswith(f"{_system(source)[1].rstrip('/')}/"):
        raise ValueError(f"{out}: is the input or lies in it, where results must not be; name another place")
    if writes_folder(out):
        if system.exists(path) and (not system.isdir(path) or system.ls(path)):
            raise ValueError(f"{out}: is there already; name a new folder")
    elif system.isdir(path):
        raise ValueError(f"{out}: is a folder; leave {SUFFIX} out of its name, or name a file")
    elif "://" not in out and not Path(out).resolve().parent.is_dir():
        raise ValueError(f"{out}: there is no folder {Path(out).parent}; create it first")


def writes_folder(out: str) -> bool:
    """Tell whether results go to a folder of parts rather than to one file."""
    return not out.lower().endswith(SUFFIX)


def names_of(address: str) -> list[str]:
    """Return the names of a data set's columns."""
    with _open(files_of(address)[0]) as file:
        return list(file.schema_arrow.names)


def read_answers(out: str) -> Results:
    """Read results back without the vectors: small columns that summaries are made of."""
    import pyarrow as pa

    tables = []
    for address in files_of(out):
        with _open(address) as file:
            names = [name for name in file.schema_arrow.names if not _is_vector(name)]
            tables.append(file.read(columns=names))
    table = pa.concat_tables(tables)
    arrays = {name: table.column(name).to_numpy() for name in table.column_names}
    return {name: array.astype(np.str_) if array.dtype == object else array for name, array in arrays.items()}


def _is_vector(name: str) -> bool:
    return name[:1] == "e" and name[1:].isdecimal()


def _system(address: str) -> tuple[AbstractFileSystem, str]:
    from fsspec.core import url_to_fs

    try:
        system, path = url_to_fs(address)
    except (ImportError, ValueError) as error:  # a protocol nobody knows, or whose package is not installed
        raise ValueError(f"{address}: cannot be opened: {' '.join(str(error).split())}") from None
    return system, path


@contextmanager
def _open(address: str) -> Iterator[Any]:
    import pyarrow.parquet as pq

    system, path = _system(address)
    # Buffering ahead would keep the whole file in memory.
    with system.open(path, "rb") as raw, pq.ParquetFile(raw, pre_buffer=False) as file:
        yield file


def _is_visible_parquet(name: str) -> bool:
    """Tell whether a path inside a data set is a part of it; names with . or _ in front are others' notes."""
    return name.lower().endswith(SUFFIX) and not any(part[:1] in "._" for part in name.split("/") if part)


def _rows_of(file: Any, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """Iterate over a range of rows; of a row group that begins before it, the first rows are read in vain."""
    sizes = [file.metadata.row_group(index).num_rows for index in range(file.num_row_groups)]
    ends = np.cumsum(sizes)
    wanted = [index for index, end in enumerate(ends) if end > start and end - sizes[index] < stop]
    row = int(ends[wanted[0]]) - sizes[wanted[0]]
    for batch in file.iter_batches(batch_size=BATCH_ROWS, row_groups=wanted):
        kept = batch.slice(max(start - row, 0), max(min(stop - row, len(batch)) - max(start - row, 0), 0))
        row += len(batch)
        if len(kept):
            yield kept
        if row >= stop:
            return


def _clean(chunk: list[Record], address: str, done: int) -> list[Array]:
    """Apply the input contract; a complaint counts series from the first of the file."""
    try:
        return as_series([record.values for record in chunk])
    except ValueError:
        for index, record in enumerate(chunk, done):
            try:
                as_series([record.values])
            except ValueError as error:
                raise FormatError(f"{address}: {str(error).replace('series 0', f'series {index}', 1)}") from None
        raise


def _ask(model: Any, series: list[Array], pool: str, address: str) -> Results:
    try:
        return answers(model, series, pool)
    except ValueError as error:  # series of other channels than the model was made for
        raise FormatError(f"{address}: {error}") from None
