"""From files to their series; the suffix of a file decides its format, :data:`FORMATS` lists them all.

Text formats and parquet are streamed: :func:`read_records` holds one series (or one batch of rows) in memory. A
file that breaks its format, even in its last line, raises a :class:`FormatError` with the position: no series is
skipped, shortened or invented silently. The formats are described with their readers, in ``lines``, ``csv``,
``arrow`` and ``arrays``.

A folder or a glob pattern is a collection of files with one series each: a table with one row per point and one
column per channel (or a single row), or a file of any other format with a single series. The file name without
its suffix is the id. Labels are read from a table of file names and labels, ``labels.csv`` in the folder unless
another is given; files without a label are unlabelled.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from glob import escape, glob, iglob
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias, Unpack

import numpy as np

from nutime.data.formats.arrays import read_npy, read_npz, read_pt
from nutime.data.formats.csv import read_csv, rows_of
from nutime.data.formats.lines import read_arff, read_ts, read_tsv, read_txt
from nutime.data.formats.source import STDIN, FormatError, InputFile, ReadOptions, Record, quote, reason
from nutime.data.names import LABEL_NAMES, MAX_CHANNELS, name_order, quoted, suggestion
from nutime.data.series import SeriesSet
from nutime.data.timeline import TimeReport, freq_seconds

_Reader: TypeAlias = Callable[[InputFile], Iterator[Record]]
_PathLike: TypeAlias = str | os.PathLike[str]
SplitName: TypeAlias = Literal["train", "test"]


def _read_parquet(source: InputFile) -> Iterator[Record]:
    from nutime.data.formats.arrow import read_parquet  # pyarrow takes long to import

    return read_parquet(source)


_TEXT_FORMATS: dict[str, _Reader] = {
    ".ts": read_ts,
    ".tsv": read_tsv,
    ".txt": read_txt,
    ".arff": read_arff,
    ".csv": read_csv,
}
#: Suffix to reader; a text format may be gzipped.
FORMATS: dict[str, _Reader] = {
    **_TEXT_FORMATS,
    **{f"{suffix}.gz": reader for suffix, reader in _TEXT_FORMATS.items()},
    ".parquet": _read_parquet,
    ".npz": read_npz,
    ".npy": read_npy,
    ".pt": read_pt,
}
#: Formats with columns that can be chosen.
TABLES = (".csv", ".csv.gz", ".parquet")
#: The name of the file with the labels of the files beside it.
LABELS_FILE = "labels.csv"
#: Rows per column of a table without times: one with fewer, and more columns than MAX_CHANNELS, may well have one
#: row per series, one with more rows and fewer columns has one row per point.
MIN_ROWS = 1000
_MIN_POINTS = 128  # of a single series that is a recording: shorter ones have no windows to compare
_FILE_NAMES = frozenset({"file", "filename", "file_name", "name", "path", "id", "series"})

_log = logging.getLogger("nutime")


def is_series_file(path: _PathLike) -> bool:
    """Whether a file has a known suffix; the file need not exist."""
    return series_suffix(path) is not None


def is_many(path: _PathLike) -> bool:
    """Whether a path is a folder or a glob pattern of files with one series each."""
    name = os.fspath(path)
    if any(character in name for character in "*?["):
        return not Path(name).exists()
    return Path(name).is_dir() and not is_series_file(name)


def holds_recording(path: _PathLike, **options: Unpack[ReadOptions]) -> bool:
    """Whether a file is one recording and not a set of series: it has one long series, or rows that are points.

    Args:
        path: a file, of which no more is read than needed.
        options: the columns of a table; see :class:`ReadOptions`.

    Raises:
        FormatError: as :func:`read_records`.
    """
    records = read_records(path, **options)
    first = next(records)
    channels, columns = first.values.shape
    is_plain = series_suffix(path) in TABLES and first.label is None and first.id is None
    may_be_points = is_plain and channels == 1 and columns <= MAX_CHANNELS
    others = sum(1 for _ in islice(records, MIN_ROWS * columns - 1 if may_be_points else 1))
    return (others == 0 and columns >= _MIN_POINTS) or (may_be_points and others == MIN_ROWS * columns - 1)


def read_records(
    path: _PathLike,
    split: SplitName | None = None,
    *,
    labels: _PathLike | None = None,
    **options: Unpack[ReadOptions],
) -> Iterator[Record]:
    """Iterate over the series of a file, or of the files of a folder or a glob pattern.

    Args:
        path: a file with one of the suffixes :data:`FORMATS`, ``-`` for a CSV on standard input, a folder or a
            glob pattern.
        split: the set to read of a file that holds several (an ``.npz`` with ``X_train`` and ``X_test``); None
            reads all. A file that is a single set is read whole.
        labels: of a folder or a pattern, the file with the labels.
        options: the columns of a ``.csv`` or ``.parquet`` file; see :class:`ReadOptions`.

    Raises:
        FormatError: one line with the file, the line in a text file, and what is wrong.
    """
    return _stream(path, split, labels, options, [])


def read_file(
    path: _PathLike,
    split: SplitName | None = None,
    *,
    labels: _PathLike | None = None,
    **options: Unpack[ReadOptions],
) -> SeriesSet:
    """Read all series of a file, a folder or a glob pattern into memory; see :func:`read_records`."""
    notes: list[str] = []
    found = record_set(list(_stream(path, split, labels, options, notes)))
    has_labels = found.labels is not None and (found.labels != "").any()
    return replace(found, labels=found.labels if has_labels else None, notes=tuple(notes))


def read_recordings(path: _PathLike, **options: Unpack[ReadOptions]) -> SeriesSet:
    """Read recordings into memory: their points are those of the files, NaN where a value is missing.

    Args:
        path: a file with one row per point and one column per channel, or with a single series in any other
            format; several recordings if it has a column of ids. ``-`` is a CSV on standard input. A folder or a
            glob pattern has one recording per file. A file name without its suffix is the id of a recording.
        options: the columns of a table; see :class:`ReadOptions`. A column of labels is left out.

    Raises:
        FormatError: as :func:`read_records`.
    """
    report, notes = TimeReport(), list[str]()
    if is_many(path):
        records = _read_many(os.fspath(path), None, options, report, notes, ignores_labels=True)
    else:
        records = _read_recording(Path(path), options, report, notes, ignores_labels=True)
    found = list(with_notes(records, report, notes))
    if len(found) == 1 and found[0].id is None and Path(path) != STDIN:
        found = [replace(found[0], id=_stem(Path(path)))]
    zoned, regridded = report.n_zoned > 0, report.regridded
    return replace(record_set(found), zoned=zoned, regridded=regridded, notes=tuple(notes))


def record_set(records: list[Record]) -> SeriesSet:
    """Return records of one file as a set, with the names of the first; those of columns only if all have them."""
    labels, ids = [record.label for record in records], [record.id for record in records]
    times = [record.times for record in records if record.times is not None]
    columns = records[0].feature_names
    same = all(record.feature_names is columns or record.feature_names == columns for record in records)
    return SeriesSet(
        [record.values for record in records],
        labels=None if all(label is None for label in labels) else np.array([label or "" for label in labels]),
        ids=None if ids[0] is None else [identity or "" for identity in ids],
        channel_names=records[0].channel_names,
        feature_names=columns if same else None,
        times=times if len(times) == len(records) else None,
    )


def _stream(
    path: _PathLike, split: SplitName | None, labels: _PathLike | None, options: ReadOptions, notes: list[str]
) -> Iterator[Record]:
    """Yield the records of a path :func:`with_notes`."""
    report = TimeReport()
    if is_many(path):
        records = _read_many(os.fspath(path), labels, options, report, notes)
    elif labels is not None:
        raise FormatError(f"{path}: a file of labels is for a folder or a pattern of files; name the label column")
    else:
        source = InputFile(Path(path), split, time_report=report, notes=notes, **options)
        records = _checked(source, _reader_of(path, options))
    return with_notes(records, report, notes)


def with_notes(records: Iterator[Record], report: TimeReport, notes: list[str]) -> Iterator[Record]:
    """Yield records; at the end, log what was done to the data and append it to ``notes``."""
    yield from records
    notes += report.notes()
    for note in notes:
        _log.warning(note)


def series_suffix(path: _PathLike) -> str | None:
    """Return the known suffix of a path, in lower case."""
    name = os.fspath(path).lower()
    return next((suffix for suffix in FORMATS if name.endswith(suffix)), None)


def _reader_of(path: _PathLike, options: ReadOptions, *, is_recording: bool = False) -> _Reader:
    """Return the reader of a file; that of a recording reads any text with columns as a table."""
    suffix = ".csv" if Path(path) == STDIN else series_suffix(path)
    if suffix is None:
        raise FormatError(f"{path}: unknown suffix; expected one of {', '.join(FORMATS)}")
    is_text_table = is_recording and suffix.removesuffix(".gz") in (".tsv", ".txt")
    if any(value is not None for value in options.values()) and not (is_text_table or suffix in TABLES):
        raise FormatError(f"{path}: has no columns to choose from; only {', '.join(TABLES)} files have")
    return read_csv if is_text_table else FORMATS[suffix]


def _checked(source: InputFile, reader: _Reader) -> Iterator[Record]:
    """Yield the records of a reader; a file that cannot be opened, or is empty, is an error too."""
    empty = True
    if source.freq is not None:
        with source.naming(None):
            freq_seconds(str(source.freq))
    try:
        source.check_regular()
        for record in reader(source):
            empty = False
            yield record
    except (OSError, EOFError, zlib.error) as error:  # a missing file, a truncated gzip
        raise FormatError(f"{source.name}: cannot be read: {reason(error)}") from error
    if empty:
        raise FormatError(f"{source.name}: holds no series")


def read_rows(path: _PathLike) -> tuple[InputFile, list[list[str]]]:
    """Return the file of a table of labels or intervals, for error messages, and its rows."""
    source = InputFile(Path(path))
    try:
        source.check_regular()
        rows = list(rows_of(source))
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {reason(error)}") from None
    source.line = None
    return source, rows


# Many files.


def _read_many(
    pattern: str,
    labels: _PathLike | None,
    options: ReadOptions,
    report: TimeReport,
    notes: list[str],
    *,
    ignores_labels: bool = False,
) -> Iterator[Record]:
    """Yield one record per file, in the order of the file names."""
    files = _find_files(pattern, labels, notes)
    if labels is None:
        labels = next((path for path in files if path.name == LABELS_FILE), None)
    files = [path for path in files if path.name != LABELS_FILE]
    if not files:
        raise FormatError(f"{pattern}: no files of series; expected one of {', '.join(FORMATS)}")
    ids = _unique_ids(files)
    classes = None if labels is None else _read_labels(Path(labels), dict(zip(ids, files, strict=True)))
    first: Record | None = None
    for identity, path in zip(ids, files, strict=True):
        seen = [] if first else notes  # what is noted about the columns of one file holds for all
        records = _read_recording(path, options, report, seen, ignores_labels=ignores_labels)
        record = next(records)
        if next(records, None) is not None:
            raise FormatError(f"{path}: holds several series; expected one series per file, or read it alone")
        record = _aligned(path, first or record, record)
        first = first or record
        yield replace(record, id=identity, label=record.label if classes is None else classes.get(identity, ""))


def _read_recording(
    path: Path, options: ReadOptions, report: TimeReport, notes: list[str], *, ignores_labels: bool
) -> Iterator[Record]:
    """Yield the records of a file that is a recording: one, unless there are ids or rows cannot be points."""
    source = InputFile(
        path, is_recording=True, ignores_labels=ignores_labels, time_report=report, notes=notes, **options
    )
    return _checked(source, _reader_of(path, options, is_recording=True))


def _aligned(path: Path, first: Record, record: Record) -> Record:
    """Return a record with its channels in the order of the first file."""
    if len(record.values) != len(first.values):
        raise FormatError(
            f"{path}: has {len(record.values)} channel(s), but the first file has {len(first.values)}"
        )
    if record.channel_names is None or first.channel_names is None:
        return record
    try:
        order = name_order(first.channel_names, record.channel_names, "columns")
    except ValueError as error:
        raise FormatError(f"{path}: {error}") from None
    return replace(record, values=record.values[order], channel_names=first.channel_names)


def _find_files(pattern: str, labels: _PathLike | None, notes: list[str]) -> list[Path]:
    if Path(pattern).is_dir():
        found = [path for path in Path(pattern).iterdir() if path.is_file() and not path.name.startswith(".")]
        files = [path for path in found if is_series_file(path)]
        if files and len(files) < len(found):
            notes.append(f"{pattern}: {len(found) - len(files)} file(s) of other formats left out")
        below = filter(os.path.isfile, iglob(f"{escape(pattern)}/*/**", recursive=True))
        if inner := next(filter(is_series_file, below), None):
            every = Path(pattern, "**", f"*{series_suffix(inner)}")
            raise FormatError(f"{pattern}: has series in subfolders, as {inner}; choose by a pattern: '{every}'")
    else:
        files = [Path(name) for name in glob(pattern, recursive=True) if Path(name).is_file()]
        for path in files:
            if not is_series_file(path):
                raise FormatError(f"{path}: unknown suffix; expected one of {', '.join(FORMATS)}")
    excluded = None if labels is None else Path(labels).resolve()
    return sorted(path for path in files if path.resolve() != excluded)


def _stem(path: Path) -> str:
    return path.name[: -len(series_suffix(path) or "")]


def _unique_ids(files: list[Path]) -> list[str]:
    """Return the stems of files, their names if stems repeat, or else their paths below the common folder."""
    home = Path(os.path.commonpath([path.parent for path in files]))
    for ids in ([_stem(path) for path in files], [path.name for path in files]):
        if len(set(ids)) == len(ids):
            return ids
    return [path.relative_to(home).as_posix() for path in files]


def _read_labels(path: Path, files: dict[str, Path]) -> dict[str, str]:
    """Return the label of each id from a table of file names (or ids) and labels."""
    source, rows = read_rows(path)
    known: dict[str, set[str]] = {}
    for identity, file in files.items():
        for name in (file.name, _stem(file), os.path.abspath(file), identity):
            known.setdefault(name, set()).add(identity)
    labels: dict[str, str] = {}
    if not rows:
        raise source.error("is empty; expected a file name and a label per line")
    file_column, label_column = 0, 1
    header = [cell.strip().lower() for cell in rows[0]]
    named = [index for index, cell in enumerate(header) if cell in LABEL_NAMES]
    if (header[0] in _FILE_NAMES or named) and not known.keys() & {cell.strip() for cell in rows[0]}:
        label_column = named[0] if named else 1
        file_column = next((index for index, cell in enumerate(header) if cell in _FILE_NAMES), 0)
        rows = rows[1:]
    if not named and len(header) > 2:
        raise source.error(f"has {len(header)} columns, none of them named label; name that of the labels so")
    for number, row in enumerate(rows):
        if len(row) <= max(file_column, label_column):
            raise source.error(f"row {number}: has {len(row)} cell(s); expected a file name and a label")
        name, label = row[file_column].strip(), source.label(row[label_column])
        places = name, os.path.abspath(name), os.path.abspath(path.parent / name)
        found = {name} if name in files else next((known[text] for text in places if text in known), None)
        if found is None:
            raise source.error(f"row {number}: no file {quote(name)} is read{suggestion(name, known)}")
        if len(found) > 1:
            raise source.error(f"row {number}: {quote(name)} may be {quoted(sorted(found))}; give the path")
        (identity,) = found
        if labels.setdefault(identity, label) != label:
            raise source.error(f"row {number}: {quote(name)} has another label above")
    if not labels:
        raise source.error(f"has no labels of the {len(files)} files {quoted(list(files))}")
    return labels
