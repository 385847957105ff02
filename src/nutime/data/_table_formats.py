"""Readers of tables: ``.csv`` and ``.parquet``, in two shapes told apart by the column names.

*Wide*: a series a row. A column named label, class, target or y holds the label, one named id, series or
series_id the id (so does the unnamed index that pandas writes); all others are the values in order, or, in
parquet, lists that are each one channel.

*Long*: a point a row, recognised by a column named time, timestamp, t or date, or value. Rows with one id
are one series and stand together; without an id column the file is one series. Every column without a part to
play is a channel (``y`` too: it often stands between x and z). Rows are sorted by time, a number or an ISO
date; rows of equal time keep their order. Beyond one series, only the ids seen are kept in memory.

A csv without column names is wide; its first column is the label if the first cell is not a number. Its cells
may be separated by semicolons, as spreadsheets do it in half of the world; there 0,5 is a half.

Where a user chose the label's or the id's column, by name or by position, that column plays the part; another
column that might play it too is an error, for it would end up among the values.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, groupby, starmap
from math import isinf, isnan
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nutime.data._source import CHOOSE, INFINITE, Record, Source, quote
from nutime.data.series import ID_NAMES, LABEL_NAMES, TIME_NAMES, Array

if TYPE_CHECKING:
    import pyarrow as pa

INDEX_NAME = "__index_level_0__"  # how pandas names an index without a name in parquet; in csv it is ""
MAX_TEXT = 2**16  # bytes of a label or an id
ROWS_AT_A_TIME = 1024
#: A number with a decimal mark, which is group 1.
_MARKED = re.compile(r"\s*[+-]?\d*([.,])\d+(?:[eE][+-]?\d+)?\s*")


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
    def named(cls, source: Source, header: Sequence[str], lists: bool = False) -> Columns:
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
    def unnamed(cls, source: Source, first: Sequence[str]) -> Columns:
        """Assign the parts in a table that begins with its first series."""
        label = _chosen(source, source.label_column, len(first))
        identity = _chosen(source, source.id_column, len(first))
        if label is None and identity != 0 and first[0] and not _is_number(first[0]):
            label = 0
        values = [i for i in range(len(first)) if i not in (label, identity)]
        if not values:
            raise source.error(f"{quote(first[0])} is not a number")
        return cls(values, label, identity)

    def parts(self, row: Sequence[str]) -> tuple[str | None, ...]:
        """Return the label, the id and the time of a row, None for a column the table does not have."""
        return tuple(None if index is None else row[index].strip() for index in (self.label, self.id, self.time))

    def label_text(self, source: Source, cell: object) -> str | None:
        """Return the label of a row, None in a table without labels."""
        return None if self.label is None else source.label(cell)

    def id_text(self, source: Source, cell: object) -> str | None:
        """Return the id of a row, None in a table without ids."""
        if self.id is not None and cell in (None, ""):
            raise source.error("the id is missing")
        return None if self.id is None else str(cell)


def _chosen(source: Source, column: str | None, width: int, names: Sequence[str] = ()) -> int | None:
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


def _join(source: Source, columns: Columns, points: Iterable[Point]) -> Iterator[Record]:
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


def _time(source: Source, value: Any) -> Any:
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


def _in_order(source: Source, earlier: Any, later: Any = None) -> bool:
    try:
        return later is None or bool(earlier <= later)
    except TypeError:
        raise source.error(
            "the time cannot be compared with the one before; write all as numbers, or all as dates, "
            "with or without a time zone"
        ) from None


def read_csv(source: Source) -> Iterator[Record]:
    """A table separated by commas or semicolons, with or without names; an empty cell is a missing value."""
    rows = _csv_rows(source)
    first = next(rows, None)
    if first is None:
        return iter(())
    if _has_names(source, first):
        columns = Columns.named(source, first)
    else:
        columns = Columns.unnamed(source, first)
        rows = _refuse_column_numbers(source, first, rows)
    if columns.is_long:
        return _join(source, columns, _csv_points(source, columns, rows))
    return _csv_series(source, columns, rows)


def _csv_rows(source: Source) -> Iterator[list[str]]:
    lines = source.lines()
    first = next(lines, "")
    semicolons = _has_semicolons(first)
    rows = _cells_of(source, chain([first], lines), ";" if semicolons else ",")
    return _decimal_points(source, rows) if semicolons else rows


def _cells_of(source: Source, lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    width = 0
    table = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for count, row in enumerate(table, 1):
            if table.line_num != count:  # an unbalanced quote would swallow the series that follow
                raise source.error("a quoted cell runs over several lines")
            if row:
                width = width or len(row)
                if len(row) != width:
                    raise source.error(f"has {len(row)} cell(s), the first row has {width}")
                yield row
    except csv.Error as error:
        raise source.error(str(error)) from None


def _has_semicolons(line: str) -> bool:
    """Tell whether a line is separated by semicolons: all its commas stand in numbers, one in each."""
    cells = line.split(";")
    return len(cells) > 1 and all("," not in cell or _MARKED.fullmatch(cell) for cell in cells)


def _decimal_points(source: Source, rows: Iterable[list[str]]) -> Iterator[list[str]]:
    """Write decimal commas as points; a table that has both may mean thousands by one of them."""
    marks = set()
    for row in rows:
        found = [_MARKED.fullmatch(cell) for cell in row]
        marks |= {match[1] for match in found if match}
        if len(marks) > 1:
            raise source.error("has decimal commas and decimal points; write all numbers alike")
        yield [cell.replace(",", ".") if match else cell for cell, match in zip(row, found, strict=True)]


def _csv_series(source: Source, columns: Columns, rows: Iterable[list[str]]) -> Iterator[Record]:
    for row in rows:
        values = source.numbers([row[index] for index in columns.values], missing="", columns=columns.names)
        label, identity, _ = columns.parts(row)
        yield Record(values[None], columns.label_text(source, label), columns.id_text(source, identity))


def _csv_points(source: Source, columns: Columns, rows: Iterable[list[str]]) -> Iterator[Point]:
    for row in rows:
        values = source.floats([row[index] for index in columns.values], missing="", columns=columns.names)
        if any(map(isinf, values)):
            raise source.error(INFINITE)
        yield Point(values, *columns.parts(row))


def _has_names(source: Source, row: list[str]) -> bool:
    """Tell a row of column names from a first series, which may begin with a label.

    Names and numbers together are column names only where the numbers count the columns, as pandas does, and
    every name has a part to play: a typing error in the first series must not make a header of it.
    """
    cells = [cell.strip().lower() for cell in row]
    chosen = {column.strip().lower() for column in (source.label_column, source.id_column) if column}
    parts = LABEL_NAMES | ID_NAMES | chosen
    numbers = [cell for cell in cells if _is_number(cell)]
    if not numbers:
        return len(cells) > 1 or cells[0] in parts | TIME_NAMES | {"value"}
    start = 0 if numbers[0] == "0" else 1
    counted = numbers == [str(start + index) for index in range(len(numbers))]
    has_index = cells[0] == "" and start == 0
    names = {cell for cell in cells[1 if has_index else 0 :] if not _is_number(cell)}
    return counted and (has_index or bool(names)) and names <= parts


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _refuse_column_numbers(source: Source, first: list[str], rows: Iterator[list[str]]) -> Iterator[list[str]]:
    """Yield all rows, but refuse a first row ``0,1,2,…`` above decimals: it may be names or a series."""
    yield first
    counted = first == [str(index) for index in range(len(first))]
    for row in rows:
        if counted and any("." in cell for cell in row):
            raise source.error(
                "the first row counts 0,1,2,… above decimals: column numbers or a series? name the columns "
                "(t0,t1,…) or write the series as decimals"
            )
        counted = False
        yield row


def read_parquet(source: Source) -> Iterator[Record]:
    """A parquet table, read a batch of rows at a time; a null is a missing value."""
    import pyarrow.parquet as pq
    from pyarrow import types

    with source.decoding():
        schema = pq.read_schema(source.path)
    # Buffering ahead would keep the whole file in memory, and so would text that is written once for many rows.
    texts = [field.name for field in schema if types.is_string(field.type)]
    with source.decoding(), pq.ParquetFile(source.path, pre_buffer=False, read_dictionary=texts) as file:
        # Of the columns' own metadata nothing is asked: where it is damaged, Arrow ends the process.
        source.check_expansion(8 * file.metadata.num_rows * file.metadata.num_columns)
        columns, lists = columns_of(source, schema)
        yield from records_of(source, columns, lists, file.iter_batches(batch_size=ROWS_AT_A_TIME))


def columns_of(source: Source, schema: pa.Schema) -> tuple[Columns, bool]:
    """Return which column of an Arrow table plays which part, and whether its values are lists."""
    from pyarrow import types

    lists = [_is_list(field.type) for field in schema]
    columns = Columns.named(source, schema.names, any(lists))
    for index in columns.values:
        field = schema.field(index)
        kind = field.type.value_type if lists[index] else field.type
        numeric = types.is_floating(kind) or types.is_integer(kind)
        if not numeric or lists[index] != any(lists):
            wanted = "a list of numbers, as other columns are" if any(lists) else "numeric"
            raise source.error(f"column {quote(field.name)}: type {field.type} is not {wanted}; {CHOOSE}")
    return columns, any(lists)


def records_of(
    source: Source, columns: Columns, lists: bool, batches: Iterable[pa.RecordBatch]
) -> Iterator[Record]:
    """Iterate over the series of Arrow record batches."""
    rows = _parquet_rows(source, columns, lists, batches)
    if columns.is_long:
        yield from _join(source, columns, starmap(Point, rows))
    else:
        for values, label, identity, _ in rows:
            yield Record(values, columns.label_text(source, label), columns.id_text(source, identity))


def _cells(source: Source, column: Any) -> list[Any]:
    """Return the cells of a column that is no value: short ones, for they are repeated on every row."""
    import pyarrow.compute as pc
    from pyarrow import types

    if types.is_dictionary(column.type) and types.is_string(column.type.value_type):
        longest = pc.max(pc.binary_length(column.dictionary)).as_py() or 0
        if longest > MAX_TEXT:
            raise source.error(f"holds a text of {longest} bytes, the limit is {MAX_TEXT}; shorten labels and ids")
    cells: list[Any] = column.to_pylist()
    return cells


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _parquet_rows(
    source: Source, columns: Columns, lists: bool, batches: Iterable[Any]
) -> Iterator[tuple[Array, object, object, object]]:
    """Iterate over the values, label, id and time of each row."""
    import pyarrow as pa
    from pyarrow import types

    start = 0
    for batch in batches:
        channels = [batch.column(index) for index in columns.values]
        if lists:
            values = _list_rows(source, channels, start)
        else:
            matrix = np.column_stack([channel.to_numpy(zero_copy_only=False) for channel in channels])
            matrix = source.floating(matrix, f"rows {start} to {start + len(matrix) - 1}: ")
            values = iter(matrix if columns.is_long else matrix[:, None])
        label, identity, time = (
            pa.nulls(len(batch)) if index is None else batch.column(index)
            for index in (columns.label, columns.id, columns.time)
        )
        if types.is_temporal(time.type):  # Python's own dates have no nanoseconds
            time = time.view(f"int{time.type.bit_width}")
        yield from zip(values, *(_cells(source, column) for column in (label, identity, time)), strict=True)
        start += len(batch)


def _list_rows(source: Source, channels: list[Any], start: int) -> Iterator[Array]:
    """Iterate over the rows of list columns: ``(channels, length)`` each."""
    import pyarrow.compute as pc

    ends = [np.cumsum(pc.list_value_length(channel).fill_null(0).to_numpy()) for channel in channels]
    flat = [pc.list_flatten(channel).to_numpy(zero_copy_only=False) for channel in channels]
    rows = zip(*(np.split(values, end[:-1]) for values, end in zip(flat, ends, strict=True)), strict=True)
    for index, row in enumerate(rows, start):
        lengths = {values.size for values in row}
        if len(lengths) > 1 or 0 in lengths:
            raise source.error(f"row {index}: lists of {sorted(lengths)} values, expected equal lengths above 0")
        yield source.floating(np.stack(row), f"row {index}: ")
