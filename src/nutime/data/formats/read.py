"""From a file to its series, whatever the format; the suffix decides, :data:`FORMATS` is the whole list.

Text formats and parquet are streamed: :func:`read_records` holds one series (or one batch of rows) at a time,
however large the file. A file that breaks its format, even in its last line, raises a :class:`FormatError`
that names the place: no series is skipped, shortened or invented in silence. What each format looks like
stands with its reader, in ``_line_formats``, ``_csv_format``, ``_arrow_format`` and ``_array_formats``.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nutime.data.formats.arrays import read_npy, read_npz, read_pt
from nutime.data.formats.arrow import read_parquet
from nutime.data.formats.csv import read_csv
from nutime.data.formats.lines import read_arff, read_ts, read_tsv, read_txt
from nutime.data.formats.source import STDIN, FormatError, InputFile, Record, reason
from nutime.data.series import Array

__all__ = ["FORMATS", "FormatError", "LabelledSeries", "Record", "is_series_file", "read_file", "read_records"]

Reader: TypeAlias = Callable[[InputFile], Iterator[Record]]
SplitName: TypeAlias = Literal["train", "test"]

TEXT_FORMATS: dict[str, Reader] = {
    ".ts": read_ts,
    ".tsv": read_tsv,
    ".txt": read_txt,
    ".arff": read_arff,
    ".csv": read_csv,
}
#: Suffix to reader; a text format may be gzipped.
FORMATS: dict[str, Reader] = {
    **TEXT_FORMATS,
    **{f"{suffix}.gz": reader for suffix, reader in TEXT_FORMATS.items()},
    ".parquet": read_parquet,
    ".npz": read_npz,
    ".npy": read_npy,
    ".pt": read_pt,
}


#: Formats with columns, of which one may be chosen as the label and one as the id.
TABLES = (".csv", ".csv.gz", ".parquet")


class LabelledSeries(NamedTuple):
    """All series of a file; labels or ids are None where the file has none."""

    series: list[Array]
    labels: NDArray[np.str_] | None
    ids: list[str] | None


def is_series_file(path: str | os.PathLike[str]) -> bool:
    """Tell by its suffix whether a file can be read; the file need not exist."""
    return _suffix(path) is not None


def read_records(
    path: str | os.PathLike[str],
    split: SplitName | None = None,
    *,
    label_column: str | None = None,
    id_column: str | None = None,
) -> Iterator[Record]:
    """Iterate over the series of a file.

    Args:
        path: the file; its suffix is one of :data:`FORMATS`. ``-`` is standard input, as ``.csv``.
        split: which set to read of a file that holds several (an ``.npz`` with ``X_train`` and ``X_test``);
            None reads all. A file that is a single set is read whole, whatever the split.
        label_column, id_column: of a ``.csv`` or ``.parquet`` file, the column with the labels or the ids, by
            name or by position (``0`` the first, ``-1`` the last); found by their names unless given.

    Raises:
        FormatError: one line with the file, the line in it where there are lines, and what is wrong.
    """
    source = InputFile(Path(path), split, label_column=label_column, id_column=id_column)
    suffix = ".csv" if source.path == STDIN else _suffix(path)
    if suffix is None:
        raise FormatError(f"{path}: unknown suffix; expected one of {', '.join(FORMATS)}")
    if (label_column or id_column) and suffix not in TABLES:
        raise FormatError(f"{path}: has no columns to choose from; only {', '.join(TABLES)} files have")
    return _checked(source, FORMATS[suffix])


def read_file(
    path: str | os.PathLike[str],
    split: SplitName | None = None,
    *,
    label_column: str | None = None,
    id_column: str | None = None,
) -> LabelledSeries:
    """Read all series of a file at once; see :func:`read_records`."""
    records = list(read_records(path, split, label_column=label_column, id_column=id_column))
    labels = [record.label for record in records if record.label is not None]
    ids = [record.id for record in records if record.id is not None]
    if 0 < len(labels) < len(records):
        raise FormatError(f"{path}: only some of its sets have labels; read one split at a time")
    return LabelledSeries([record.values for record in records], np.array(labels) if labels else None, ids or None)


def _suffix(path: str | os.PathLike[str]) -> str | None:
    name = os.fspath(path).lower()
    return next((suffix for suffix in FORMATS if name.endswith(suffix)), None)


def _checked(source: InputFile, reader: Reader) -> Iterator[Record]:
    """Yield the records of a reader; a file that cannot be opened, or that holds none, is an error too."""
    empty = True
    try:
        for record in reader(source):
            empty = False
            yield record
    except (OSError, EOFError, zlib.error) as error:  # a missing file, a gzip cut short
        raise FormatError(f"{source.name}: cannot be read: {reason(error)}") from error
    if empty:
        raise FormatError(f"{source.name}: holds no series")
