"""Which column of a table plays which part; tables come in two shapes, told apart by the column names.

*Wide*: a series a row. A column named label, class, target or y holds the label, one named id, series or
series_id the id (so does the unnamed index that pandas writes); all others are the values in order, or, in
parquet, lists that are each one channel.

*Long*: a point a row, recognised by a column named time, timestamp, t or date, or value. Rows with one id
are one series and stand together; without an id column the file is one series. Every column without a part to
play is a channel (``y`` too: it often stands between x and z). Rows are sorted by time, a number or an ISO
date; rows of equal time keep their order. Beyond one series, only the ids seen are kept in memory.

Where a user chose the label's or the id's column, by name or by position, that column plays the part; another
column that might play it too is an error, for it would end up among the values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, groupby
from math import isnan
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from nutime.data.formats.source import InputFile, Record, quote
from nutime.data.series import ID_NAMES, LABEL_NAMES, TIME_NAMES, Array

INDEX_NAME = "__index_level_0__"  # how pandas names an index without a name in parquet; in csv it is ""


class Point(NamedTuple):
    """A row of a long table: the value of each channel, and what the other columns say (or None)."""

    values: Sequence[float] | Array
    label: object
    id: object
    time: object


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column plays which part, and the names of the columns of values if they have names."""

    values: list[int]
    label: int | None = None
    id: int | None = None
    time: int | None = None
    is_long: bool = False
    names: list[str] | None = None

    @classmethod
    def named(cls, source: InputFile, header: Sequence[str], lists: bool = False) -> Columns:
        """Assign the parts by column name; a table whose values are lists is never long."""
        names = [name.strip().lower() for name in header]
        names[:1] = [name or INDEX_NAME for name in names[:1]]
        chosen_label = _chosen(source, source.label_column, len(names), header)
        chosen_id = _chosen(source, source.id_column, len(names), header)
        names = ["" if index in (chosen_label, chosen_id) else name for index, name in enumerate(names)]
        is_long = not lists and any(name in TIME_NAMES or name == "value" for name in names)

        def find(part: str, aliases: frozenset[str], chosen: int | None = None) -> int | None:
            found = [] if chosen is None else [chosen]
            found += [index for index, name in enumerate(names) if name in aliases]
            if len(found) > 1:
                both = " and ".join(quote(header[index]) for index in found[:2])
                raise source.error(f"columns {both} may both hold the {part}; rename all but one")
            return found[0] if found else None

        label = find("label", LABEL_NAMES - {"y"} if is_long else LABEL_NAMES, chosen_label)
        identity, time = find("id", ID_NAMES, chosen_id), find("time", TIME_NAMES)
        index = find("index", frozenset({INDEX_NAME}))
        if lists and time is not None:
            raise source.error(f"column {quote(header[time])}: times beside lists of values are not supported")
        values = [i for i in range(len(names)) if i not in (label, identity, time, index)]
        if not values:
            raise source.error(f"has no column of values, only {quote(', '.join(header))}")
        # The index of a long table numbers its points; that of a wide one names its series.
        identity = index if identity is None and not is_long else identity
        return cls(values, label, identity, time, is_long, [header[i] for i in values])

    @classmethod
    def unnamed(cls, source: InputFile, first: Sequence[str]) -> Columns:
        """Assign the parts in a table that begins with its first series."""
        label = _chosen(source, source.label_column, len(first))
        identity = _chosen(source, source.id_column, len(first))
        if label is None and identity != 0 and first[0] and not is_number(first[0]):
            label = 0
        values = [i for i in range(len(first)) if i not in (label, identity)]
        if not values:
            raise source.error(f"{quote(first[0])} is not a number")
        return cls(values, label, identity)

    def parts(self, row: Sequence[str]) -> tuple[str | None, ...]:
        """Return the label, the id and the time of a row, None for a column the table does not have."""
        return tuple(None if index is None else row[index].strip() for index in (self.label, self.id, self.time))

    def label_text(self, source: InputFile, cell: object) -> str | None:
        """Return the label of a row, None in a table without labels."""
        return None if self.label is None else source.label(cell)

    def id_text(self, source: InputFile, cell: object) -> str | None:
        """Return the id of a row, None in a table without ids."""
        if self.id is not None and cell in (None, ""):
            raise source.error("the id is missing")
        return None if self.id is None else str(cell)


def _chosen(source: InputFile, column: str | None, width: int, names: Sequence[str] = ()) -> int | None:
    """Return the place of the column a user chose, by its name in any case or by position (−1 is the last)."""
    if column is None:
        return None
    found = [index for index, name in enumerate(names) if name.strip().lower() == column.strip().lower()]
    if len(found) > 1:
        raise source.error(f"has {len(found)} columns named {quote(column)}; rename all but one")
    try:
        return found[0] if found else range(width)[int(column)]
    except (ValueError, IndexError):
        known = f"only {quote(', '.join(names))}" if names else f"only {width} columns without names: 0, 1, …"
        raise source.error(f"has no column {quote(column)}, {known}") from None


def join_points(source: InputFile, columns: Columns, points: Iterable[Point]) -> Iterator[Record]:
    """Make series of the rows of a long table: neighbours with one id belong together."""
    seen = set()
    for cell, rows in groupby(points, attrgetter("id")):
        identity = columns.id_text(source, cell)
        if identity in seen:
            raise source.error(f"id {quote(str(identity))} again after another id; keep its rows together")
        seen.add(identity)
        first = next(rows)
        label = columns.label_text(source, first.label)
        values, times, in_order = [], [], True
        for row in chain([first], rows):
            if row.label != first.label:
                raise source.error(f"the label changes to {quote(str(row.label))} within a series")
            values.append(row.values)
            if columns.time is not None:
                times.append(_time(source, row.time))
                in_order &= _in_order(source, *times[-2:])
        array = np.array(values).T
        if not in_order:
            array = array[:, sorted(range(len(times)), key=times.__getitem__)]
        yield Record(array, label, identity)


def _time(source: InputFile, value: Any) -> Any:
    """Return something that sorts by time."""
    try:
        time = float(value) if isinstance(value, str) else value
    except ValueError:
        try:
            return datetime.fromisoformat(f"{value}-01" if len(value) == len("2020-01") else value)
        except ValueError:
            raise source.error(f"time {quote(value)} is neither a number nor an ISO date") from None
    if time is None or (isinstance(time, float) and isnan(time)):
        raise source.error("the time is missing")
    return time


def _in_order(source: InputFile, earlier: Any, later: Any = None) -> bool:
    try:
        return later is None or bool(earlier <= later)
    except TypeError:
        raise source.error(
            "the time cannot be compared with the one before; write all as numbers, or all as dates, "
            "with or without a time zone"
        ) from None


def is_number(cell: str) -> bool:
    """Whether a cell parses as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
