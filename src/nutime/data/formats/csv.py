"""Reader of ``.csv``, wide or long (:mod:`~nutime.data.formats.columns`).

A table without column names is wide; its first column is the label if the first cell is not a number. Cells
may be separated by semicolons, as spreadsheets do it in half of the world; there 0,5 is a half.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from math import isinf

from nutime.data.formats.columns import Columns, Point, is_number, join_points
from nutime.data.formats.source import INFINITE, InputFile, Record
from nutime.data.series import ID_NAMES, LABEL_NAMES, TIME_NAMES

#: A number with a decimal mark, which is group 1.
_MARKED = re.compile(r"\s*[+-]?\d*([.,])\d+(?:[eE][+-]?\d+)?\s*")


def read_csv(source: InputFile) -> Iterator[Record]:
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
        return join_points(source, columns, _csv_points(source, columns, rows))
    return _csv_series(source, columns, rows)


def _csv_rows(source: InputFile) -> Iterator[list[str]]:
    lines = source.lines()
    first = next(lines, "")
    semicolons = _has_semicolons(first)
    rows = _cells_of(source, chain([first], lines), ";" if semicolons else ",")
    return _decimal_points(source, rows) if semicolons else rows


def _cells_of(source: InputFile, lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
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


def _decimal_points(source: InputFile, rows: Iterable[list[str]]) -> Iterator[list[str]]:
    """Write decimal commas as points; a table that has both may mean thousands by one of them."""
    marks = set()
    for row in rows:
        found = [_MARKED.fullmatch(cell) for cell in row]
        marks |= {match[1] for match in found if match}
        if len(marks) > 1:
            raise source.error("has decimal commas and decimal points; write all numbers alike")
        yield [cell.replace(",", ".") if match else cell for cell, match in zip(row, found, strict=True)]


def _csv_series(source: InputFile, columns: Columns, rows: Iterable[list[str]]) -> Iterator[Record]:
    for row in rows:
        values = source.numbers([row[index] for index in columns.values], missing="", columns=columns.names)
        label, identity, _ = columns.parts(row)
        yield Record(values[None], columns.label_text(source, label), columns.id_text(source, identity))


def _csv_points(source: InputFile, columns: Columns, rows: Iterable[list[str]]) -> Iterator[Point]:
    for row in rows:
        values = source.floats([row[index] for index in columns.values], missing="", columns=columns.names)
        if any(map(isinf, values)):
            raise source.error(INFINITE)
        yield Point(values, *columns.parts(row))


def _has_names(source: InputFile, row: list[str]) -> bool:
    """Tell a row of column names from a first series, which may begin with a label.

    Names and numbers together are column names only where the numbers count the columns, as pandas does, and
    every name has a part to play: a typing error in the first series must not make a header of it.
    """
    cells = [cell.strip().lower() for cell in row]
    chosen = {column.strip().lower() for column in (source.label_column, source.id_column) if column}
    parts = LABEL_NAMES | ID_NAMES | chosen
    numbers = [cell for cell in cells if is_number(cell)]
    if not numbers:
        return len(cells) > 1 or cells[0] in parts | TIME_NAMES | {"value"}
    start = 0 if numbers[0] == "0" else 1
    counted = numbers == [str(start + index) for index in range(len(numbers))]
    has_index = cells[0] == "" and start == 0
    names = {cell for cell in cells[1 if has_index else 0 :] if not is_number(cell)}
    return counted and (has_index or bool(names)) and names <= parts


def _refuse_column_numbers(source: InputFile, first: list[str], rows: Iterator[list[str]]) -> Iterator[list[str]]:
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
