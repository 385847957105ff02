"""The roles of the columns of a table, assigned by their names. Tables come in two layouts.

*Wide*: one row per series. A column named label, class, target or y holds the label, one named id, series or
series_id the id (as does the unnamed index that pandas writes); all others are the points in order or, in
parquet, lists that are one channel each (lists named y or target too). Columns x and y beside each other are
refused, because they may be channels of a table with one row per point; so are rows of a few values with the same
id.

*Long*: one row per point, recognised by a single column, by one named time, timestamp, datetime, t, date or value,
by dates in the unnamed index of pandas (unless the rows have labels and no ids), or because the user chose a time
column or channels; unless the columns beside the dates are points (:func:`~nutime.data.timeline.are_points`), as
in a table of days and hours. Rows with the same id are one series; without an id column the file is one series.
Every column without a role is a channel (``y`` too, which often stands between x and z). Rows are sorted by time,
and series are put on a regular grid (:mod:`nutime.data.timeline`). Where the rows of each id are contiguous, only
one series is held in memory.

Columns chosen by the user, by name or by position, have that role; a second column that may have it is an error.
A label that was neither chosen nor named label is mentioned in a note, and refused where it is a decimal number.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from nutime.data.formats.source import InputFile, Record, quote
from nutime.data.names import ID_NAMES, INDEX_COLUMN, LABEL_NAMES, TIME_NAMES, quoted, suggestion
from nutime.data.series import Array
from nutime.data.timeline import (
    are_points,
    find_date,
    is_missing,
    is_number,
    may_be_channels,
    parse_time,
    parse_times,
    to_grid,
)

INDEX_NAME = "__index_level_0__"  # in parquet, the name of a pandas index without a name; in csv it is ""
_LONG_LABEL_NAMES = LABEL_NAMES - {"y"}


class Point(NamedTuple):
    """A row of a long table: the value of each channel, and the cells of the other columns (or None)."""

    values: Sequence[float] | Array
    label: object
    id: object
    time: object


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The positions of the columns by role, and the names of the columns of values if they have names.

    ``guessed`` is the name of a label column that was neither chosen nor is named label.
    """

    values: list[int]
    label: int | None = None
    id: int | None = None
    time: int | None = None
    is_long: bool = False
    names: list[str] | None = None
    guessed: str | None = None

    @classmethod
    def named(
        cls,
        source: InputFile,
        header: Sequence[str],
        cells: Callable[[int], Iterable[object]],
        lists: Sequence[bool] = (),
    ) -> TableLayout:
        """Assign roles by column name.

        Args:
            source: the file being read.
            header: the names.
            cells: returns the first cells of the column at a position.
            lists: whether each column holds lists; a table with some is never long.
        """
        names = [name.strip().lower() for name in header]
        if names[:1] == [""]:  # an index of pandas, whose second level, too, has no name
            names[:2] = [name or INDEX_NAME for name in names[:2]]
        levels = INDEX_COLUMN, "__index_level_"
        names = [INDEX_NAME if name.startswith(levels) else name for name in names]
        label, identity, time, channels = _chosen_roles(source, len(names), header)
        taken = {label, identity, time, *(channels or ())}
        taken |= {index for index, is_list in enumerate(lists) if is_list and names[index] in ("y", "target")}
        names = ["" if index in taken else name for index, name in enumerate(names)]
        is_open = time is None and channels is None and not any(lists)
        has_ids = identity is not None or not ID_NAMES.isdisjoint(names)
        if is_open and INDEX_NAME in names and TIME_NAMES.isdisjoint(names):
            has_labels = label is not None or not _LONG_LABEL_NAMES.isdisjoint(names)
            may_be_long = source.is_recording or has_ids or not has_labels  # a label on each row: rows are series
            if may_be_long and any(map(find_date, cells(names.index(INDEX_NAME)))):
                names = ["time" if name == INDEX_NAME else name for name in names]
        date = _date_of_series(source, header, names, taken, cells) if is_open else None
        if date is not None:
            names[date] = ""
            identity = identity if has_ids else date
        is_long = not any(lists) and (
            source.is_recording
            or time is not None
            or channels is not None
            or len(names) == 1
            or any(name in TIME_NAMES or name == "value" for name in names)
        )

        def find(role: str, aliases: frozenset[str], chosen: int | None = None) -> int | None:
            found = [] if chosen is None else [chosen]
            found += [index for index, name in enumerate(names) if name in aliases]
            if len(found) > 1 and channels is None:
                both = " and ".join(quote(header[index]) for index in found[:2])
                raise source.error(f"columns {both} may both hold the {role}; rename all but one")
            return found[0] if found else None

        label, chosen = find("label", _LONG_LABEL_NAMES if is_long else LABEL_NAMES, label), label
        guessed = None
        if label is not None and source.ignores_labels:
            source.notes.append(
                f"{source.name}: column {quote(header[label].strip())} holds labels and is no channel"
            )
        elif label is not None and chosen is None and names[label] != "label":
            guessed = header[label].strip()
            if names[label] == "y" and "x" in names and not any(lists):
                raise source.error(
                    f"columns 'x' and {quote(guessed)}: name the label column or, if rows are points, the channels"
                )
            source.notes.append(f"{source.name}: column {quote(guessed)} is read as the label")
        identity, time = find("id", ID_NAMES, identity), find("time", TIME_NAMES, time)
        index = find("index", frozenset({INDEX_NAME}))
        if any(lists) and time is not None:
            raise source.error(f"column {quote(header[time])}: times beside lists of values are not supported")
        values = channels or [i for i in range(len(names)) if i not in (label, identity, time, index, date)]
        if not values:
            raise source.error(f"has no column of values, only {quote(', '.join(header))}")
        # The index of a long table numbers its points; that of a wide one names its series.
        identity = index if identity is None and not is_long else identity
        label = None if source.ignores_labels else label
        return cls(values, label, identity, time, is_long, [header[i].strip() for i in values], guessed)

    @classmethod
    def unnamed(cls, source: InputFile, first: Sequence[str]) -> TableLayout:
        """Assign roles in a table that begins with its first row of values."""
        label, identity, time, channels = _chosen_roles(source, len(first))
        if label is None and 0 not in (identity, time) and not is_number(first[0]) and not source.is_recording:
            label = 0
        values = channels or [i for i in range(len(first)) if i not in (label, identity, time)]
        if not values:
            raise source.error(
                f"{quote(first[0])} is not a number; expected numbers or names, separated by commas"
            )
        is_long = source.is_recording or time is not None or channels is not None
        return cls(values, label, identity, time, is_long)

    def cells(self, row: Sequence[str]) -> tuple[str | None, ...]:
        """Return the label, the id and the time of a row, None for a column the table does not have."""
        return tuple(None if index is None else row[index].strip() for index in (self.label, self.id, self.time))

    def label_text(self, source: InputFile, cell: object) -> str | None:
        """Return the label of a row, None in a table without labels."""
        if self.label is None:
            return None
        label = source.label(cell)
        if self.guessed and _is_continuous(label):
            raise source.error(
                f"column {quote(self.guessed)}: {quote(label)} is no class; name it as the label, or rename it"
            )
        return label

    def id_text(self, source: InputFile, cell: object) -> str | None:
        """Return the id of a row, None in a table without ids."""
        if self.id is not None and (is_missing(cell) or cell == ""):
            raise source.error("the id is missing")
        if self.id is None:
            return None
        text = str(cell)
        source.check_text(len(text))
        return text


def require_unique_ids(source: InputFile, layout: TableLayout, records: Iterable[Record]) -> Iterator[Record]:
    """Yield the series of a wide table; refuse rows of few values with the same id, which may be points of one."""
    names = layout.names or []
    if layout.id is None or not may_be_channels(names):
        yield from records
        return
    seen: set[str | None] = set()
    for record in records:
        if record.id in seen:
            raise source.error(
                f"id {quote(str(record.id))} is that of several rows; choose the channels ({quoted(names)}) "
                "if rows are points, or give every series an id of its own"
            )
        seen.add(record.id)
        yield record


def _date_of_series(
    source: InputFile,
    header: Sequence[str],
    names: Sequence[str],
    taken: Container[int | None],
    cells: Callable[[int], Iterable[object]],
) -> int | None:
    """Return the column of dates beside columns that are points, as in a table of days and hours, or None."""
    dates = [index for index, name in enumerate(names) if name in TIME_NAMES]
    if len(dates) != 1:
        return None
    (date,) = dates
    roles = TIME_NAMES | LABEL_NAMES | ID_NAMES | {INDEX_NAME}
    others = [header[i].strip() for i, name in enumerate(names) if i not in taken and name not in roles]
    along_columns = are_points(others, cells(date))
    if along_columns is None and not source.is_recording:
        own = header[date].strip() or str(date - len(names))  # from the end: others may be named 0
        raise source.error(
            f"columns {quoted(others)} beside dates are channels or points; choose column {quote(own)} "
            "as the time if each row is a point, as the id if it is a series"
        )
    if along_columns and source.is_recording:
        raise source.error(
            f"columns {quoted(others)} beside dates are read as points; "
            "write one row per point, or rename the columns if they are channels"
        )
    return date if along_columns else None


def _chosen_roles(
    source: InputFile, width: int, names: Sequence[str] = ()
) -> tuple[int | None, int | None, int | None, list[int] | None]:
    """Return the positions of the columns chosen for label, id, time and channels."""
    columns = source.label_column, source.id_column, source.time_column
    label, identity, time = (None if name is None else _position(source, name, width, names) for name in columns)
    if source.channel_columns is None:
        return label, identity, time, None
    channels = [_position(source, name, width, names) for name in source.channel_columns]
    roles = [place for place in (label, identity, time, *channels) if place is not None]
    if not channels or len(set(roles)) < len(roles):
        raise source.error("the columns chosen for channels, time, label and id must differ")
    return label, identity, time, channels


def _position(source: InputFile, column: str, width: int, names: Sequence[str]) -> int:
    """Return the position of a column chosen by its name in any case, or by position (−1 is the last)."""
    found = [index for index, name in enumerate(names) if name.strip().lower() == column.strip().lower()]
    if len(found) > 1:
        raise source.error(f"has {len(found)} columns named {quote(column)}; rename all but one")
    try:
        return found[0] if found else range(width)[int(column)]
    except (ValueError, IndexError):
        known = f"only {quote(', '.join(names))}" if names else f"only {width} columns without names: 0, 1, …"
        raise source.error(f"has no column {quote(column)}, {known}{suggestion(column, names)}") from None


def join_points(
    source: InputFile, layout: TableLayout, points: Iterable[Point], *, contiguous: bool = True
) -> Iterator[Record]:
    """Yield the series of the rows of a long table.

    Args:
        source: the file being read.
        layout: its columns.
        points: its rows.
        contiguous: whether the rows of each id follow each other; otherwise all rows are read before the first
            series.
    """
    if contiguous:
        groups: Iterable[tuple[object, Iterable[Point]]] = groupby(points, attrgetter("id"))
    else:
        by_id: dict[object, list[Point]] = {}
        for point in points:
            layout.id_text(source, point.id)
            by_id.setdefault(point.id, []).append(point)
        groups, source.line = by_id.items(), None
    for cell, group in groups:
        rows = iter(group)
        identity = layout.id_text(source, cell)
        first = next(rows)
        label = layout.label_text(source, first.label)
        values, times = [], []
        for row in chain([first], rows):
            if row.label != first.label:
                raise source.error(f"the label changes to {quote(str(row.label))} within a series")
            values.append(row.values)
            if layout.time is not None:
                times.append(row.time if source.line is None else _parsed(source, row.time))
        array, grid = np.array(values).T, None
        if times:
            with source.naming(None if identity is None else f"series {quote(identity)}"):
                parsed = parse_times(times, source.day_first, source.time_report)
                grid, array = to_grid(parsed, array, source.freq, source.time_report)
        yield Record(np.ascontiguousarray(array), label, identity, layout.names, times=grid)


def _parsed(source: InputFile, cell: Any) -> Any:
    try:
        return parse_time(cell, source.day_first)
    except ValueError as error:
        raise source.error(str(error)) from None


def _is_continuous(label: str) -> bool:
    try:
        return not float(label).is_integer()
    except ValueError:
        return False
