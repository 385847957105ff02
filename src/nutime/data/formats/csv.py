"""Reader of ``.csv``, wide or long (:mod:`~nutime.data.formats.layout`).

A table without column names is wide; its first column is the label if the first cell is not a number. A first row
that counts the columns (``0,1,2,…`` or ``1,2,3,…``) above other rows is a header, and so is one of wavelengths or
times beside a column named label, id or time. Cells may be separated by semicolons, as spreadsheets of many
countries do (there 0,5 is a half), or by tabs; a line ``sep=;`` above them and delimiters at the ends of the lines
mean nothing.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice, pairwise
from math import isinf

from nutime.data.formats.layout import Point, TableLayout, join_points, require_unique_ids
from nutime.data.formats.source import INFINITE, STDIN, InputFile, Record
from nutime.data.names import ID_NAMES, INDEX_COLUMN, LABEL_NAMES, TIME_NAMES
from nutime.data.timeline import MISSING, find_day_first, is_number

#: A number with a decimal mark, which is group 1.
_MARKED = re.compile(r"\s*[+-]?\d*([.,])\d+(?:[eE][+-]?\d+)?\s*")
_INDEX = ("", INDEX_COLUMN)  # in the first cell of a header, the index of pandas
_MIN_COUNTED = 3  # columns of a header that only counts: "0,1" may well be a series


def read_csv(source: InputFile) -> Iterator[Record]:
    """A table separated by commas or semicolons, with or without names; an empty cell is a missing value."""
    rows = rows_of(source)
    first = next(rows, None)
    if first is None:
        return iter(())
    line = source.line
    head = [(source.line, row) for row in islice(rows, 2)]
    source.line = line
    is_header = _has_names(source, first)
    if is_header:
        first[0] = first[0].lstrip("# ")  # a comment to those that read numbers alone
        layout = TableLayout.named(source, first, lambda index: [row[index] for _, row in head])
    else:
        layout = TableLayout.unnamed(source, first)
    if head and _counts_columns(first):
        source.notes.append(f"{source.name}: the first row counts the columns and is read as a header")
        is_header = True
    if not is_header:
        head.insert(0, (line, first))
    rows = chain(_at_their_lines(source, head), rows)
    is_row = source.is_recording and len(head) == 1 and layout.time is None
    if layout.is_long and not is_row:
        return _long_records(source, layout, rows, int(is_header))
    return require_unique_ids(source, layout, _wide_records(source, layout, rows))


def _at_their_lines(source: InputFile, head: Iterable[tuple[int | None, list[str]]]) -> Iterator[list[str]]:
    """Yield rows that were read ahead."""
    for source.line, row in head:
        yield row


def _long_records(
    source: InputFile, layout: TableLayout, rows: Iterable[list[str]], skipped: int
) -> Iterator[Record]:
    """Yield the series of a long table, after a first pass over its ids and dates."""
    contiguous = True
    if layout.time is not None or layout.id is not None:
        line = source.line
        rows = list(rows) if source.path == STDIN else rows
        again = rows if isinstance(rows, list) else islice(rows_of(source), skipped, None)
        contiguous = _scan(source, layout, again)
        source.line = line
    yield from join_points(source, layout, _points(source, layout, rows), contiguous=contiguous)


def _scan(source: InputFile, layout: TableLayout, rows: Iterable[list[str]]) -> bool:
    """Return whether the rows of each id follow each other, and find the order of day and month in dates."""
    seen: set[str] = set()
    current: str | None = None
    contiguous = True

    def times() -> Iterator[str]:
        nonlocal current, contiguous
        for row in rows:
            if layout.id is not None and (identity := row[layout.id].strip()) != current:
                current = identity
                contiguous &= current not in seen
                seen.add(current)
            if layout.time is not None:
                yield row[layout.time]

    with source.naming(None):
        source.day_first = find_day_first(times())
    return contiguous


def rows_of(source: InputFile) -> Iterator[list[str]]:
    """Iterate over the cells of each row, whatever separates them; decimal commas become points."""
    lines = source.lines()
    first = next(lines, "")
    if first.lower().startswith("sep="):  # names the delimiter to Excel
        first = next(lines, "")
    semicolons = _has_semicolons(first)
    lines = chain([first], lines)
    is_csv = source.path.name.lower().removesuffix(".gz").endswith(".csv") or source.path == STDIN
    has_tabs = "\t" in first and not (is_csv and (semicolons or "," in first))
    delimiter = "\t" if has_tabs else ";" if semicolons else ","
    if not is_csv and delimiter not in first:  # a .tsv or .txt file that is a single recording
        lines = (",".join(line.split()) for line in lines)
    rows = _split_cells(source, lines, delimiter)
    return _decimal_points(source, rows) if semicolons else rows


def _split_cells(source: InputFile, lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    width = 0
    table = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for count, row in enumerate(table, 1):
            if table.line_num != count:  # an unbalanced quote would swallow the series that follow
                raise source.error("a quoted cell runs over several lines")
            if row:
                ends_empty = len(row) > 2 and not row[-1].strip()
                if not width:  # a header, too, may have a delimiter at the end of the line
                    is_header = not any(is_number(cell) or _MARKED.fullmatch(cell) for cell in row[:-1])
                    width = len(row) - (ends_empty and is_header)
                if ends_empty and len(row) == width + 1:
                    row.pop()
                if len(row) != width:
                    raise source.error(f"has {len(row)} cell(s), the first row has {width}")
                yield row
    except csv.Error as error:
        raise source.error(str(error)) from None


def _has_semicolons(line: str) -> bool:
    """Whether a line is separated by semicolons: every comma is the decimal mark of a number."""
    cells = line.split(";")
    return len(cells) > 1 and all("," not in cell or _MARKED.fullmatch(cell) for cell in cells)


def _decimal_points(source: InputFile, rows: Iterable[list[str]]) -> Iterator[list[str]]:
    """Write decimal commas as points; in a table with both, one of them may separate thousands."""
    marks = set()
    for row in rows:
        found = [_MARKED.fullmatch(cell) for cell in row]
        marks |= {match[1] for match in found if match}
        if len(marks) > 1:
            raise source.error("has decimal commas and decimal points; write all numbers alike")
        yield [cell.replace(",", ".") if match else cell for cell, match in zip(row, found, strict=True)]


def _wide_records(source: InputFile, layout: TableLayout, rows: Iterable[list[str]]) -> Iterator[Record]:
    for row in rows:
        values = source.numbers([row[index] for index in layout.values], MISSING, columns=layout.names)
        label, identity, _ = layout.cells(row)
        yield Record(
            values[None],
            layout.label_text(source, label),
            layout.id_text(source, identity),
            feature_names=layout.names,
        )


def _points(source: InputFile, layout: TableLayout, rows: Iterable[list[str]]) -> Iterator[Point]:
    for row in rows:
        values = source.floats([row[index] for index in layout.values], MISSING, columns=layout.names)
        if any(map(isinf, values)):
            raise source.error(INFINITE)
        yield Point(values, *layout.cells(row))


def _has_names(source: InputFile, row: list[str]) -> bool:
    """Whether a first row holds column names, and not a series that may begin with a label.

    Names and numbers together are column names if the user chose one of the names; if the numbers count the
    columns, as pandas does, and every name has a role; or if a name has a role and is not the label of a series:
    it is not alone in the first cell, or the numbers are in order, as wavelengths are. A typo in the first series
    must not turn it into a header.
    """
    cells = [cell.strip().lower() for cell in row]
    options = [source.label_column, source.id_column, source.time_column, *(source.channel_columns or ())]
    chosen = {column.strip().lower() for column in options if column}
    roles = LABEL_NAMES | ID_NAMES | chosen
    numbers = [cell for cell in cells if cell and is_number(cell)]
    if not numbers:
        return any(cells)
    has_index = cells[0] in _INDEX and numbers[0] == "0"
    names = [cell for cell in cells[1 if has_index else 0 :] if not (cell and is_number(cell))]
    if _counts(numbers) and (has_index or names) and roles.issuperset(names):
        return True
    if not chosen.isdisjoint(names):
        return True
    words = {name for name in roles | TIME_NAMES if len(name) > 1}
    names = [name for name in names if name]
    return not words.isdisjoint(names) and (names != cells[:1] or _is_axis(numbers))


def _is_axis(numbers: list[str]) -> bool:
    """Whether there are several numbers, each above the one before, or each below it."""
    if len(numbers) == 1 or any(cell in MISSING for cell in numbers):
        return False
    steps = [float(after) - float(before) for before, after in pairwise(numbers)]
    return min(steps) > 0 or max(steps) < 0


def _counts_columns(row: list[str]) -> bool:
    return len(row) >= _MIN_COUNTED and _counts([cell.strip() for cell in row])


def _counts(numbers: list[str]) -> bool:
    """Whether numbers count from 0 or 1."""
    return numbers[0] in ("0", "1") and numbers == [str(int(numbers[0]) + index) for index in range(len(numbers))]
