"""What every file reader shares: where it stands in the file, and the one way to turn cells into values.

A reader is a function from a :class:`InputFile` to an iterator of :class:`Record`. It never raises anything but
the :class:`FormatError` that :meth:`InputFile.error` builds, so that every complaint names the file and, in a
text file, the line.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nutime.data.series import Array

#: The path that stands for standard input.
STDIN = Path("-")
INFINITE = "holds an infinite value; leave a missing value out or write NaN"
DECIMAL = re.compile(r"[+-]?(\d+\.\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
QUOTED_CHARACTERS = 40  # of a bad cell: an error is one readable line
MAX_LINE = 2**24  # bytes; the longest of the archives' lines has a quarter of that
MAX_EXPANSION = 100  # of a compressed file, beyond the room below; numbers shrink to a tenth at best
ARRAYS_ROOM, LINES_ROOM = 2**27, 2**23  # bytes: an array is unpacked at once, lines one by one
CHOOSE = "if the column holds labels or ids, name it as such"


class FormatError(ValueError):
    """A file that is not what its suffix promises: ``path:line: reason``, or ``path: reason`` if binary."""


@dataclass(frozen=True, slots=True)
class Record:
    """One series of a file: ``values`` is ``(channels, length)``, NaN where a value is missing."""

    values: Array
    label: str | None = None
    id: str | None = None


@dataclass(slots=True)
class InputFile:
    """A file being read, what is wanted of it, and the line that was read last (text files only).

    Attributes:
        split: which of its sets is wanted.
        label_column, id_column: of a table, the columns a user chose, each by name or by position.
    """

    path: Path
    split: str | None = None
    line: int | None = None
    label_column: str | None = None
    id_column: str | None = None

    @property
    def name(self) -> str:
        """What errors call the file."""
        return "standard input" if self.path == STDIN else str(self.path)

    def error(self, complaint: str) -> FormatError:
        """Return, not raise, the error for the current place."""
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
            for self.line, raw in enumerate(iter(lambda: file.readline(MAX_LINE + 1), b""), 1):
                if len(raw) > MAX_LINE:
                    raise self.error(
                        f"has more than {MAX_LINE} bytes in a line; store such series as .npy or .parquet"
                    )
                size += len(raw)
                if size > LINES_ROOM and isinstance(file, gzip.GzipFile):
                    self.check_expansion(size, LINES_ROOM)
                try:
                    # The byte order mark that spreadsheets write is no part of the first cell.
                    yield raw.decode("utf-8-sig" if self.line == 1 else "utf-8")
                except UnicodeDecodeError:
                    raise self.error("is not UTF-8 text") from None

    def check_expansion(self, size: int, room: int = ARRAYS_ROOM) -> None:
        """Refuse to unpack more than any honest file holds: a bomb is small, and so is what it may become."""
        if size > room and size > MAX_EXPANSION * self.path.stat().st_size:
            raise self.error(
                f"unpacks to more than {MAX_EXPANSION} times its size, as a bomb does; if you trust it, "
                "store it uncompressed"
            )

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Turn whatever a decoder raises into a FormatError.

        Decoders of binary files raise nearly any type on junk bytes, so this alone catches them all.
        """
        try:
            yield
        except FormatError:
            raise
        except Exception as error:
            raise self.error(f"cannot be read: {reason(error)}") from error

    def numbers(
        self, cells: Sequence[str], missing: str = "?", where: str = "", columns: Sequence[str] | None = None
    ) -> Array:
        """Parse the cells of one line; a cell equal to ``missing`` (blanks aside) is NaN, as is ``nan``."""
        try:
            values = np.fromiter(map(float, cells), np.float64, len(cells))
        except ValueError:
            values = np.array(self.floats(cells, missing, where, columns))
        return self.floating(values, where)

    def floats(
        self, cells: Sequence[str], missing: str, where: str = "", columns: Sequence[str] | None = None
    ) -> list[float]:
        """Parse cells to Python floats: for a few of them far faster than an array."""
        try:
            return list(map(float, cells))
        except ValueError:
            return [self._number(index, cell.strip(), missing, where, columns) for index, cell in enumerate(cells)]

    def _number(self, index: int, cell: str, missing: str, where: str, columns: Sequence[str] | None) -> float:
        try:
            return np.nan if cell == missing else float(cell)
        except ValueError:
            if columns:
                complaint = f"column {quote(columns[index])}: {quote(cell)} is not a number; {CHOOSE}"
            else:
                complaint = f"point {index}: {quote(cell)} is not a number"
            raise self.error(f"{where}{complaint}") from None

    def floating(self, values: NDArray[Any], where: str = "") -> Array:
        """Return ``values`` as float32 if they are stored so, else as float64; infinity is refused."""
        dtype = np.float32 if values.dtype.char in "ef" else np.float64
        array: Array = values.astype(dtype, order="C", copy=False)
        if np.isinf(array).any():
            raise self.error(f"{where}{INFINITE}")
        return array

    def label(self, value: object, where: str = "") -> str:
        """Return a label as text; ``1.0`` and ``1.0000000e+00`` are the class ``1`` of other formats."""
        text = (value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)).strip()
        if value is None or text.lower() in ("", "nan"):
            raise self.error(f"{where}the label is missing")
        if DECIMAL.fullmatch(text) and float(text).is_integer():
            return str(int(float(text)))
        return text


def reason(error: Exception) -> str:
    """Return the first line of what someone else's error says."""
    lines = str(getattr(error, "strerror", None) or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def quote(text: str) -> str:
    """Quote text of a file for an error message, on one line and cut to a readable length."""
    return repr(text if len(text) <= QUOTED_CHARACTERS else text[:QUOTED_CHARACTERS] + "…")
