"""The file being read by a reader: its position, its options, and the conversion of cells to values.

A reader is a function from an :class:`InputFile` to an iterator of :class:`Record`. It only raises the
:class:`FormatError` of :meth:`InputFile.error`, so that every error names the file and, in a text file, the line.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Container, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypedDict

import numpy as np
from numpy.typing import NDArray

from nutime.data.frames import as_floats
from nutime.data.series import Array
from nutime.data.timeline import TimeReport, Times, parse_number

#: The path of standard input.
STDIN = Path("-")
INFINITE = "holds an infinite value; leave a missing value out or write NaN"
CHOOSE = "if the column holds labels or ids, name it as such"
_DECIMAL = re.compile(r"[+-]?(\d+\.\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_MAX_QUOTED = 40  # characters of a bad cell: an error is one readable line
_MAX_LINE = 2**24  # bytes; four times the longest line of the archives
_MAX_CELLS = 2**20  # in a line; three times the most of the archives
#: Characters of a label or an id in any format: arrays of text pad all of them to the longest.
MAX_TEXT = 256
#: A compressed file may expand by this factor; numbers compress to a tenth at best.
_MAX_EXPANSION = 100
#: Bytes up to which expansion is not checked: an array is unpacked whole, lines one by one.
_FREE_ARRAY_BYTES, _FREE_LINE_BYTES = 2**27, 2**23
_FREE_LINES = 2**16  # up to which a compressed file may have more lines than bytes
_ARCHIVE_MISSING = frozenset({"?"})


class FormatError(ValueError):
    """A file that is not what its suffix promises: ``path:line: reason``, or ``path: reason`` if binary."""


class ReadOptions(TypedDict, total=False):
    """How to read a table.

    Attributes:
        label_column, id_column, time_column: the columns with the labels, the ids and the times, by name or by
            position (``"0"`` the first, ``"-1"`` the last); found by their names unless given.
        channel_columns: the columns that are channels; all without another role unless given. A table with one
            row per point.
        freq: the step of the regular grid of series with times, as ``"10ms"`` or a number in the unit of the
            times; the median step unless given.
    """

    label_column: str | None
    id_column: str | None
    time_column: str | None
    channel_columns: Sequence[str] | None
    freq: str | float | None


@dataclass(frozen=True, slots=True)
class Record:
    """One series of a file; None for what the file does not have.

    Attributes:
        values: ``(channels, length)``, NaN where a value is missing.
        label: empty for an unlabelled series of a file with labels.
        id: the id of the series.
        channel_names: the names of the channels.
        feature_names: the names of the points, in a table with one column per point.
        times: the time of each point: numbers or ``datetime64``.
    """

    values: Array
    label: str | None = None
    id: str | None = None
    channel_names: list[str] | None = None
    feature_names: list[str] | None = None
    times: Times | None = None


@dataclass(slots=True)
class InputFile:
    """A file being read, the options for it, and the line that was read last (text files only).

    Attributes:
        split: which of its sets to read.
        is_recording: whether the file is a single series, with one row per point in a table.
        ignores_labels: whether a column of labels is left out: it may have another label at every point.
        day_first: the order of day and month in its dates, once known.
        time_report: what was done to the times of its series.
        notes: lines on how the file was understood.
        label_column, id_column, time_column, channel_columns, freq: as in :class:`ReadOptions`.
    """

    path: Path
    split: str | None = None
    line: int | None = None
    label_column: str | None = None
    id_column: str | None = None
    time_column: str | None = None
    channel_columns: Sequence[str] | None = None
    freq: str | float | None = None
    is_recording: bool = False
    ignores_labels: bool = False
    day_first: bool | None = None
    time_report: TimeReport = field(default_factory=TimeReport)
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the file in errors."""
        return "standard input" if self.path == STDIN else str(self.path)

    def error(self, complaint: str) -> FormatError:
        """Return, not raise, the error for the current position."""
        place = self.name if self.line is None else f"{self.name}:{self.line}"
        return FormatError(f"{place}: {complaint}")

    def open(self) -> AbstractContextManager[BinaryIO | gzip.GzipFile]:
        """Open a file for reading, gzipped if its name ends in ``.gz``."""
        if self.path == STDIN:
            return nullcontext(sys.stdin.buffer)
        opener = gzip.open if self.path.suffix.lower() == ".gz" else open
        return opener(self.path, "rb")

    def lines(self) -> Iterator[str]:
        """Iterate over the lines of a UTF-8 text file."""
        size = 0
        with self.open() as file:
            compressed = isinstance(file, gzip.GzipFile)
            for self.line, raw in enumerate(iter(lambda: file.readline(_MAX_LINE + 1), b""), 1):
                if len(raw) > _MAX_LINE:
                    raise self.error(
                        f"has more than {_MAX_LINE} bytes in a line; store such series as .npy or .parquet"
                    )
                if len(raw) > _MAX_CELLS and sum(map(raw.count, (b",", b";", b"\t"))) >= _MAX_CELLS:
                    raise self.error(
                        f"has more than {_MAX_CELLS} cells in a line; store such series as .npy or .parquet"
                    )
                size += len(raw)
                if compressed and size > _FREE_LINE_BYTES:
                    self.check_expansion(size, _FREE_LINE_BYTES)
                if compressed and self.line > _FREE_LINES and self.line > self.path.stat().st_size:
                    raise self.error("unpacks to more lines than it has bytes, as a bomb does")
                try:
                    # Spreadsheets write a byte order mark before the first cell.
                    yield raw.decode("utf-8-sig" if self.line == 1 else "utf-8")
                except UnicodeDecodeError:
                    raise self.error("is not UTF-8 text; save it as UTF-8") from None

    def check_regular(self) -> None:
        """Refuse a pipe or a device, which may never end."""
        if self.path != STDIN and self.path.exists() and not self.path.is_file():
            raise self.error("cannot be read: is not a regular file")

    def check_expansion(self, size: int, free: int = _FREE_ARRAY_BYTES, stored: int | None = None) -> None:
        """Refuse a decompression bomb: a file that expands far more than numbers do.

        Args:
            size: bytes of its content.
            free: bytes that every file may have.
            stored: bytes of the file, if it is not at ``path``.
        """
        if size > free and size > _MAX_EXPANSION * (self.path.stat().st_size if stored is None else stored):
            raise self.error(
                f"unpacks to more than {_MAX_EXPANSION} times its size, as a bomb does; if you trust it, "
                "store it uncompressed"
            )

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Turn any error of a decoder into a FormatError: decoders raise nearly any type on junk bytes."""
        try:
            yield
        except FormatError:
            raise
        except Exception as error:
            raise self.error(f"cannot be read: {reason(error)}") from error

    @contextmanager
    def naming(self, what: str | None) -> Iterator[None]:
        """Turn a ValueError into a FormatError that names the file and, if given, what it is about."""
        try:
            yield
        except FormatError:
            raise
        except ValueError as error:
            raise self.error(f"{what}: {error}" if what else str(error)) from None

    def numbers(
        self,
        cells: Sequence[str],
        missing: Container[str] = _ARCHIVE_MISSING,
        where: str = "",
        columns: Sequence[str] | None = None,
    ) -> Array:
        """Parse the cells of one line; a cell is NaN if it is in ``missing``, ignoring blanks and case."""
        return self.floating(np.array(self.floats(cells, missing, where, columns)), where)

    def floats(
        self, cells: Sequence[str], missing: Container[str], where: str = "", columns: Sequence[str] | None = None
    ) -> list[float]:
        """Parse cells to Python floats."""
        try:
            return list(map(parse_number if "_" in "".join(cells) else float, cells))
        except ValueError:
            return [self._number(index, cell.strip(), missing, where, columns) for index, cell in enumerate(cells)]

    def _number(
        self, index: int, cell: str, missing: Container[str], where: str, columns: Sequence[str] | None
    ) -> float:
        try:
            return np.nan if cell.lower() in missing else parse_number(cell)
        except ValueError:
            if columns:
                complaint = f"column {quote(columns[index])}: {quote(cell)} is not a number; {CHOOSE}"
            else:
                complaint = f"point {index}: {quote(cell)} is not a number"
            raise self.error(f"{where}{complaint}") from None

    def floating(self, values: NDArray[Any], where: str = "") -> Array:
        """Return ``values`` as float32 if they are stored so, else as float64; infinity is refused."""
        array = np.ascontiguousarray(as_floats(values))
        if np.isinf(array).any():
            raise self.error(f"{where}{INFINITE}")
        return array

    def label(self, value: object) -> str:
        """Return a label as text, empty for an unlabelled series (blank, ``?`` or NaN).

        ``1.0`` and ``1.0000000e+00`` are the class ``1`` of other formats.
        """
        text = (value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)).strip()
        if value is None or text.lower() in ("", "?", "nan"):
            return ""
        self.check_text(len(text))
        if _DECIMAL.fullmatch(text) and float(text).is_integer():
            return str(int(float(text)))
        return text

    def check_text(self, length: int) -> None:
        """Refuse a label or an id of more than :data:`MAX_TEXT` characters (or bytes)."""
        if length > MAX_TEXT:
            raise self.error(f"holds a text of {length} characters, at most {MAX_TEXT}; shorten labels and ids")


def reason(error: Exception) -> str:
    """Return the first line of the message of any error."""
    lines = str(getattr(error, "strerror", None) or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def quote(text: str) -> str:
    """Quote text of a file for an error message, on one line and cut to a readable length."""
    return repr(text if len(text) <= _MAX_QUOTED else text[:_MAX_QUOTED] + "…")
