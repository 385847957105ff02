"""Input and output of the commands: series from any address, and tables of results with one row per series.

An address is a file in one of :data:`~nutime.data.formats.read.FORMATS`, ``-`` for a CSV on standard input, or the
name of an archive set. Results are named arrays; an array ``e`` of shape ``(n, d)`` is stored as it is in an
``.npz`` file and as the columns ``e0 … e{d-1}`` in all other formats.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeAlias, Unpack

import numpy as np
from numpy.typing import NDArray

from nutime.atomic import replace_file
from nutime.data.formats.read import ReadOptions, SplitName, is_many, is_series_file, read_file
from nutime.data.series import SeriesSet, read_input

#: Columns by name, each with one row per series.
Results: TypeAlias = Mapping[str, NDArray[Any]]

#: The address of standard input and of standard output, both as CSV.
STANDARD = "-"
_CHUNK_ROWS = 4096


def read_table(
    address: str, split: SplitName | None = None, *, labels: str | None = None, **options: Unpack[ReadOptions]
) -> SeriesSet:
    """Read all series at an address, finite as :func:`~nutime.data.series.as_series` returns them.

    Args:
        address: a file, ``-``, a folder or glob pattern of files with one series each, or the name of an archive
            set; files and folders take precedence over sets of the same name.
        split: the part to read of an archive set or of a file with several sets; None reads all.
        labels, options: as in :func:`~nutime.data.formats.read.read_records`.

    Raises:
        ValueError: one line that begins with the address.
    """
    if address == STANDARD or Path(address).is_file() or is_series_file(address) or is_many(address):
        table = read_file(address, split, labels=labels, **options)
    elif labels or any(value is not None for value in options.values()):
        raise ValueError(f"{address}: no such file; labels and columns can be chosen in files only")
    else:
        table = _read_archive(address, split)
    try:
        return read_input(table)
    except ValueError as error:
        raise ValueError(f"{address}: {error}") from None


def _read_archive(name: str, split: SplitName | None) -> SeriesSet:
    from nutime.data.archives import find_set, load_dataset

    try:
        find_set(name)
    except ValueError as error:
        raise ValueError(f"{name}: no such file, and {error}") from None
    parts = [load_dataset(name, split=part) for part in ([split] if split else ["train", "test"])]
    series = [np.atleast_2d(values) for part in parts for values in part.X]
    return SeriesSet(series, labels=np.concatenate([part.y for part in parts]))


def check_output(out: str, *inputs: str) -> None:
    """Refuse an output that could not be written, before any work is done for it.

    Raises:
        ValueError: the suffix is unknown, the folder does not exist, or ``out`` is one of the ``inputs``.
    """
    if out == STANDARD:
        return
    path = Path(out)
    if _suffix(out) is None:
        raise ValueError(f"{out}: unknown suffix; results are written as {', '.join(WRITERS)}, or to - as CSV")
    if path.is_dir():
        raise ValueError(f"{out}: is a folder; name a file")
    if not path.parent.is_dir():
        raise ValueError(f"{out}: there is no folder {path.parent}; create it first")
    _check_writable(path.parent, out)
    if path.exists() and any(Path(source).exists() and path.samefile(source) for source in inputs):
        raise ValueError(f"{out}: is the input, which results must not replace; name another file")


def check_folder(folder: str | Path) -> None:
    """Refuse a folder that :func:`~nutime.atomic.replace_folder` could not write."""
    path = Path(folder).resolve()
    if path.exists() and not path.is_dir():
        raise ValueError(f"{folder}: is a file; name a folder")
    _check_writable(next(place for place in (path, *path.parents) if place.exists()), str(folder))


def _check_writable(home: Path, out: str) -> None:
    if not os.access(home, os.W_OK):
        raise ValueError(f"{out}: the folder {home} is not writable")


def write_table(columns: Results, out: str) -> None:
    """Write results to a file, in the format of its suffix, or to ``-``; a file of that name is replaced."""
    if out == STANDARD:
        _write_csv(columns, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    suffix = _suffix(out)
    if suffix is None:
        raise ValueError(f"{out}: unknown suffix; results are written as {', '.join(WRITERS)}")
    with replace_file(out) as file:
        WRITERS[suffix](columns, file)


def _write_csv(columns: Results, file: IO[bytes], delimiter: str = ",") -> None:
    """Write one line of names and one line per row, with all digits of every number."""
    import pyarrow as pa

    table = pa.table(flatten(columns))
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(table.column_names)
    for batch in table.to_batches(max_chunksize=_CHUNK_ROWS):
        cells = [column.cast(pa.string()).to_pylist() for column in batch.columns]
        writer.writerows(zip(*cells, strict=True))
    text.detach()


def _write_parquet(columns: Results, file: IO[bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(flatten(columns)), file)


def _write_npz(columns: Results, file: IO[bytes]) -> None:
    arrays: dict[str, Any] = dict(columns)
    np.savez(file, **arrays)


#: Suffix to writer.
WRITERS: dict[str, Callable[[Results, IO[bytes]], None]] = {
    ".csv": _write_csv,
    ".tsv": partial(_write_csv, delimiter="\t"),
    ".parquet": _write_parquet,
    ".npz": _write_npz,
}


def flatten(columns: Results) -> dict[str, NDArray[Any]]:
    """Return one-dimensional columns: ``e`` of shape ``(n, d)`` becomes ``e0 … e{d-1}``."""
    flat: dict[str, NDArray[Any]] = {}
    for name, array in columns.items():
        if array.ndim == 1:
            flat[name] = array
        else:
            flat |= {f"{name}{index}": column for index, column in enumerate(array.T)}
    return flat


def _suffix(out: str) -> str | None:
    return next((suffix for suffix in WRITERS if out.lower().endswith(suffix)), None)
