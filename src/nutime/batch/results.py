"""Tables of results, written chunk by chunk: one row per series, complete or not there at all.

Results are named arrays. One of shape ``(n, d)``, called ``e``, stays one array in an ``.npz`` file and is the
columns ``e0 … e{d-1}`` everywhere else. An ``.npz`` file holds whole arrays, so its columns are collected in
memory; all other formats are written as they are computed.
"""

from __future__ import annotations

import csv
import io
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from glob import glob
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from nutime.atomic import InUseError, new_folder, replace_file
from nutime.data.timeline import in_seconds

if TYPE_CHECKING:
    import pyarrow as pa
    from fsspec import AbstractFileSystem

_log = logging.getLogger("nutime")

#: Columns by name, each with one row per series.
Results: TypeAlias = Mapping[str, NDArray[Any]]
#: Appends a chunk of rows.
Write: TypeAlias = Callable[[Results], None]

#: The address of standard input and of standard output, both as CSV.
STANDARD = "-"
PARQUET = ".parquet"
_CSV_ROWS = 4096  # rows converted to text together
_GROUP_ROWS, _GROUP_BYTES = 16_384, 2**26  # a row group of a Parquet file ends at the first limit it reaches


def check_output(out: str, *inputs: str | None) -> None:
    """Refuse an output that could not be written or would replace an input, before any work is done for it.

    Args:
        out: the output.
        inputs: files, folders, addresses, or patterns of files; None is none.

    Raises:
        ValueError: one line that begins with the output.
    """
    if out == STANDARD:
        return
    remote = "://" in out
    if _suffix(out) not in ("", PARQUET) and (remote or _suffix(out) not in _WRITERS):
        known = f"a {PARQUET} file or a folder of them" if remote else ", ".join(_WRITERS)
        raise ValueError(f"{out}: unknown suffix; results are written as {known}, or to - as CSV")
    system, path = filesystem(out)
    given = [source for source in inputs if source not in (None, STANDARD)]
    files = [file for source in given for file in (filesystem(source)[1], *glob(source, recursive=True))]
    if any(_is_inside(path, file) for file in files):
        raise ValueError(f"{out}: is the input or inside it; name another place")
    if writes_folder(out):
        if system.exists(path) and (not system.isdir(path) or system.ls(path)):
            raise ValueError(f"{out}: exists already; name a new folder")
    elif system.isdir(path):
        raise ValueError(f"{out}: is a folder; name a file, or a folder without a suffix")
    elif not remote and not Path(out).parent.is_dir():
        raise ValueError(f"{out}: there is no folder {Path(out).parent}; create it first")
    if not remote:
        _check_writable(Path(out).resolve().parent, out)


def check_folder(folder: str | Path, force: bool = True) -> None:
    """Refuse a folder that cannot be written or, unless ``force``, that is not empty."""
    path = Path(folder).resolve()
    if path.exists() and not path.is_dir():
        raise ValueError(f"{folder}: is a file; name a folder")
    if not force and path.exists() and any(path.iterdir()):
        raise ValueError(f"{folder}: exists already; give --force to replace it, or name another folder")
    _check_writable(path, str(folder))


def _check_writable(path: Path, out: str) -> None:
    home = next(place for place in (path, *path.parents) if place.exists())
    if not os.access(home, os.W_OK):
        raise ValueError(f"{out}: the folder {home} is not writable")


def _is_inside(path: str, folder: str) -> bool:
    return f"{os.path.realpath(path)}/".startswith(f"{os.path.realpath(folder)}/")


@contextmanager
def open_results(out: str) -> Iterator[Write]:
    """Yield a function that appends a chunk of rows; results appear if the block ends without an error.

    Args:
        out: a ``.csv``, ``.tsv``, ``.parquet`` or ``.npz`` file, ``-`` for CSV on standard output, or a folder (no
            suffix), which gets one ``.parquet`` file.
    """
    if writes_folder(out):
        with open_folder(out) as folder, open_part(folder, 0) as write:
            yield write
        return
    with _binary_file(out) as file, _WRITERS[_suffix(out) or ".csv"](file) as write:
        yield write


def write_results(out: str, columns: Results) -> None:
    """Write all rows at once, as :func:`open_results` does."""
    with open_results(out) as write:
        write(columns)


@contextmanager
def open_folder(out: str, key: str | None = None) -> Iterator[str]:
    """Yield the address of a folder for parts, which becomes ``out`` if the block ends without an error.

    It is empty, except for the parts that a killed process with the same ``key`` had completed (not in remote
    folders).

    Raises:
        InUseError: another process is writing results there, or has written some when the block ends.
    """
    if "://" in out:
        with _renamed(out.rstrip("/")) as temporary:
            yield temporary
        return
    with new_folder(out, key) as fresh:
        if kept := len(list(fresh.glob(f"*{PARQUET}"))):
            _log.info("%s: continues a run that was killed; %d part(s) were complete", out, kept)
        yield str(fresh)
        for path in fresh.glob(".*"):  # left by a process that died; another one has redone its piece
            shutil.rmtree(path)


@contextmanager
def open_part(folder: str, number: int) -> Iterator[Write]:
    """Yield a function that appends rows to a part of a folder; the names of parts sort as their numbers do."""
    with _binary_file(_part_address(folder, number)) as file, _parquet_writer(file) as write:
        yield write


def has_part(folder: str, number: int) -> bool:
    """Return whether a part of a folder of results is there; one that is there is complete."""
    system, path = filesystem(_part_address(folder, number))
    return bool(system.exists(path))


def read_part(folder: str, number: int) -> Results:
    """Read a part for a summary, with zeros for the vectors, which may be large."""
    import pyarrow.parquet as pq

    system, path = filesystem(_part_address(folder, number))
    with system.open(path, "rb") as raw, pq.ParquetFile(raw) as file:
        names = file.schema_arrow.names
        dimensions = sum(name[:1] == "e" and name[1:].isdecimal() for name in names)
        table = file.read(columns=names[: len(names) - dimensions])
        rows = file.metadata.num_rows
    arrays = {name: table.column(name).to_numpy() for name in table.column_names}
    columns = {name: array.astype(np.str_) if array.dtype == object else array for name, array in arrays.items()}
    return {**columns, "e": np.broadcast_to(np.float32(0), (rows, dimensions))} if dimensions else columns


def _part_address(folder: str, number: int) -> str:
    return f"{folder}/part-{number:06d}{PARQUET}"


def filesystem(address: str) -> tuple[AbstractFileSystem, str]:
    """Return the fsspec file system of an address and the path on it."""
    from fsspec.core import url_to_fs

    try:
        system, path = url_to_fs(address)
    except (ImportError, ValueError) as error:  # an unknown protocol, or one whose package is not installed
        raise ValueError(f"{address}: cannot be opened: {' '.join(str(error).split())}") from None
    return system, path


def flatten(columns: Results) -> dict[str, NDArray[Any]]:
    """Return one-dimensional columns: ``e`` of shape ``(n, d)`` becomes ``e0 … e{d-1}``."""
    flat: dict[str, NDArray[Any]] = {}
    for name, array in columns.items():
        if array.ndim == 1:
            flat[name] = array
        else:
            flat |= {f"{name}{index}": column for index, column in enumerate(array.T)}
    return flat


def _suffix(out: str) -> str:
    return Path(out).suffix.lower() if out != STANDARD and not out.endswith("/") else ""


def writes_folder(out: str) -> bool:
    """Return whether results go to a folder of Parquet files rather than to one file."""
    return out != STANDARD and not _suffix(out)


@contextmanager
def _binary_file(out: str) -> Iterator[IO[bytes]]:
    if out == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif "://" in out:
        with _renamed(out) as temporary, filesystem(temporary)[0].open(temporary, "wb") as file:
            yield file
    else:
        with replace_file(out) as file:
            yield file


@contextmanager
def _renamed(address: str) -> Iterator[str]:
    """Yield a temporary remote address, which is renamed if the block ends without an error, else removed."""
    system, path = filesystem(address)
    home, _, name = path.rpartition("/")
    temporary = str(system.unstrip_protocol(f"{home}/.{name}.{uuid4().hex}"))
    try:
        yield temporary
        if system.isdir(path) and system.ls(path):
            raise InUseError(f"{address}: another process has written it meanwhile; name another folder")
        system.mv(temporary, path, recursive=True)
    finally:
        if system.exists(temporary):
            system.rm(temporary, recursive=True)


@contextmanager
def _csv_writer(file: IO[bytes], delimiter: str = ",") -> Iterator[Write]:
    """A line of names and a line per row; a number has all the digits needed to read it back exactly."""
    import pyarrow as pa

    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    names: list[str] = []

    def write(columns: Results) -> None:
        # The unit is the same in all chunks: those with dates, the levels of nutime impute, have the same dates.
        table = pa.table(_with_readable_times(flatten(columns)))
        if not names:
            names.extend(table.column_names)
            writer.writerow(names)
        for batch in table.to_batches(max_chunksize=_CSV_ROWS):
            cells = [column.cast(pa.string()).to_pylist() for column in batch.columns]
            writer.writerows(zip(*cells, strict=True))

    try:
        yield write
    finally:
        text.detach()


def _with_readable_times(columns: Results) -> dict[str, NDArray[Any]]:
    """Return columns with durations in seconds, and dates in the coarsest unit that holds all of them."""
    columns = {name: in_seconds(array) for name, array in columns.items()}
    dates = {name: column for name, column in columns.items() if column.dtype.kind == "M"}
    for unit in ("D", "s", "ms", "us"):
        coarse = {name: column.astype(f"datetime64[{unit}]") for name, column in dates.items()}
        if all((coarse[name] == column).all() for name, column in dates.items()):
            return {**columns, **coarse}
    return columns


def csv_text(columns: Results) -> str:
    """Return columns as the text of a CSV file."""
    file = io.BytesIO()
    with _csv_writer(file) as write:
        write(columns)
    return file.getvalue().decode()


@contextmanager
def _parquet_writer(file: IO[bytes]) -> Iterator[Write]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    group: list[pa.Table] = []
    with ExitStack() as stack:
        writer: pq.ParquetWriter | None = None

        def end_group() -> None:
            nonlocal writer
            table = pa.concat_tables(group)
            writer = writer or stack.enter_context(pq.ParquetWriter(file, table.schema))
            writer.write_table(table, row_group_size=max(len(table), 1))
            group.clear()

        def write(columns: Results) -> None:
            group.append(pa.table(flatten(columns)))
            rows, size = sum(map(len, group)), sum(table.nbytes for table in group)
            if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
                end_group()

        yield write
        if group:
            end_group()


@contextmanager
def _npz_writer(file: IO[bytes]) -> Iterator[Write]:
    chunks: list[Results] = []
    yield chunks.append
    arrays: dict[str, Any] = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    np.savez(file, **arrays)


_WRITERS: dict[str, Callable[[IO[bytes]], AbstractContextManager[Write]]] = {
    ".csv": _csv_writer,
    ".tsv": partial(_csv_writer, delimiter="\t"),
    PARQUET: _parquet_writer,
    ".npz": _npz_writer,
}
