"""Reader of ``.parquet`` and of Arrow batches, wide or long (see :mod:`~nutime.data.formats.layout`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import SEEK_END
from itertools import chain, groupby, islice, starmap
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from nutime.data.formats.layout import Point, TableLayout, join_points, require_unique_ids
from nutime.data.formats.source import CHOOSE, InputFile, Record, quote
from nutime.data.series import Array

_CHUNK_ROWS = 1024


def read_parquet(source: InputFile) -> Iterator[Record]:
    """A parquet table, read in batches of rows; a null is a missing value."""
    with source.decoding(), pa.OSFile(str(source.path)) as stream, open_parquet(source, stream) as file:
        columns, lists = parquet_columns(source, file)
        contiguous = is_contiguous(source, file, columns)
        batches = file.iter_batches(batch_size=_CHUNK_ROWS)
        yield from records_of(source, columns, lists, batches, contiguous=contiguous)


@contextmanager
def open_parquet(source: InputFile, stream: Any) -> Iterator[Any]:
    """Open a parquet file, after checking that it is not a decompression bomb."""
    stored = stream.seek(0, SEEK_END)
    stream.seek(0)
    schema = pq.read_schema(stream)
    # Buffering ahead would load the whole file, and so would repeated text that is not read as a dictionary.
    texts = [field.name for field in schema if _is_text(field.type)]
    stream.seek(0)
    with pq.ParquetFile(stream, pre_buffer=False, read_dictionary=texts) as file:
        metadata = file.metadata
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        size = max(8 * metadata.num_rows * metadata.num_columns, sum(group.total_byte_size for group in groups))
        if any(types.is_nested(field.type) for field in schema):
            size = max(size, 8 * _count_values(stream, stored))
        source.check_expansion(size, stored=stored)
        yield file


def _count_values(stream: Any, stored: int) -> int:
    """Return the number of values of all columns, lists included, from the footer of a parquet file.

    The footer is decoded here, because Arrow ends the process where the metadata of a column is damaged.
    """
    stream.seek(stored - 8)
    length = int.from_bytes(stream.read(4), "little")
    stream.seek(stored - 8 - length)
    footer = _Footer(stream.read(length)).struct()
    # The numbers of the fields: row_groups, columns, meta_data, num_values.
    return sum(max(column[3][5], 0) for group in footer[4] for column in group[1])


class _Footer:
    """Decodes the compact protocol of Thrift: integers, and the structures and lists that hold them."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def struct(self) -> dict[int, Any]:
        """Decode the fields of a structure by their numbers."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            fields[number] = self._value(head & 15)
        return fields

    def _value(self, kind: int, *, is_element: bool = False) -> Any:
        match kind:
            case 1 | 2 | 3:  # in a structure, the types 1 and 2 are values
                return self._byte() if is_element or kind == 3 else None
            case 4 | 5 | 6:
                return self._integer()
            case 7 | 8:
                length = 8 if kind == 7 else self._unsigned()  # moves on as well
                self._at += length
            case 9 | 10:
                head = self._byte()
                count = self._unsigned() if head >> 4 == 15 else head >> 4
                return [self._value(head & 15, is_element=True) for _ in range(count)]
            case 12:
                return self.struct()
            case _:
                raise ValueError(f"type {kind} in the footer is unknown")
        return None

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _unsigned(self) -> int:
        number = shift = 0
        while (byte := self._byte()) > 127 and shift < 63:
            number |= (byte & 127) << shift
            shift += 7
        return number | byte << shift

    def _integer(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)


def is_contiguous(source: InputFile, file: Any, columns: TableLayout) -> bool:
    """Whether the rows of each id follow each other in a parquet file."""
    if not columns.is_long or columns.id is None:
        return True
    batches = file.iter_batches(batch_size=_CHUNK_ROWS, columns=[file.schema_arrow.names[columns.id]])
    cells = chain.from_iterable(_cells(source, batch.column(0)) for batch in batches)
    ids = [key for key, _ in groupby(cells)]
    return len(set(ids)) == len(ids)


def parquet_columns(source: InputFile, file: Any) -> tuple[TableLayout, bool]:
    """Return :func:`columns_of` a parquet file."""
    return columns_of(source, file.schema_arrow, lambda name: file.iter_batches(2, columns=[name]))


def columns_of(
    source: InputFile, schema: pa.Schema, batches_of: Callable[[str], Iterable[pa.RecordBatch]]
) -> tuple[TableLayout, bool]:
    """Return the roles of the columns of an Arrow table, and whether its values are lists.

    Where the cells of a column decide, two are taken from what ``batches_of`` its name returns.
    """

    def cells(index: int) -> list[object]:
        name = schema.names[index]
        if schema.names.count(name) > 1 or not _is_cell(schema.field(index).type):
            return []  # refused below
        first = next(filter(len, batches_of(name)), None)
        return [] if first is None else first.column(name)[:2].cast(pa.string()).to_pylist()

    lists = [_is_list(field.type) for field in schema]
    has_lists = any(lists)  # once: a table may have tens of thousands of columns
    columns = TableLayout.named(source, schema.names, cells, lists)
    for index in columns.values:
        field = schema.field(index)
        kind = field.type.value_type if lists[index] or types.is_dictionary(field.type) else field.type
        numeric = types.is_floating(kind) or types.is_integer(kind)
        if not numeric or lists[index] != has_lists:
            expected = "a list of numbers, as other columns are" if has_lists else "numeric"
            shown = field.type if lists[index] else kind
            raise source.error(f"column {quote(field.name)}: type {shown} is not {expected}; {CHOOSE}")
    for field in (schema.field(index) for index in (columns.label, columns.id, columns.time) if index is not None):
        if not _is_cell(field.type):
            raise source.error(
                f"column {quote(field.name)}: type {field.type} is not one value per row; rename it"
            )
    return columns, has_lists


def records_of(
    source: InputFile,
    columns: TableLayout,
    lists: bool,
    batches: Iterable[pa.RecordBatch],
    *,
    contiguous: bool = False,
) -> Iterator[Record]:
    """Iterate over the series of Arrow record batches.

    Unless the rows of each id are ``contiguous``, all rows of a long table with ids are read first.
    """
    rows = _rows(source, columns, lists, batches)
    head = list(islice(rows, 2))
    is_row = source.is_recording and len(head) == 1 and columns.time is None
    rows = chain(head, rows)
    if columns.is_long and not is_row:
        points = starmap(Point, rows)
        yield from join_points(source, columns, points, contiguous=contiguous or columns.id is None)
        return
    records = _wide_records(source, columns, lists, rows)
    yield from records if lists else require_unique_ids(source, columns, records)


def _wide_records(source: InputFile, columns: TableLayout, lists: bool, rows: Iterable[Any]) -> Iterator[Record]:
    names = columns.names
    for values, label, identity, _ in rows:
        yield Record(
            np.atleast_2d(values),
            columns.label_text(source, label),
            columns.id_text(source, identity),
            channel_names=names if lists else None,
            feature_names=None if lists else names,
        )


def _cells(source: InputFile, column: Any) -> list[Any]:
    """Return the cells of a label, id or time column; long texts are refused, because they repeat on every row."""
    texts = column.dictionary if types.is_dictionary(column.type) else column
    if _is_text(texts.type):
        source.check_text(pc.max(pc.binary_length(texts)).as_py() or 0)
    cells: list[Any] = column.to_pylist()
    return cells


def _is_text(kind: Any) -> bool:
    tests = "string", "large_string", "string_view", "binary", "large_binary", "binary_view", "fixed_size_binary"
    known = [getattr(types, f"is_{name}", None) for name in tests]  # views exist since Arrow 16
    return any(test(kind) for test in known if test)


def _is_cell(kind: Any) -> bool:
    """Whether a column has a single number, date or text in each row."""
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_primitive(kind) or types.is_decimal(kind) or types.is_null(kind) or _is_text(kind))


def _is_list(kind: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _rows(
    source: InputFile, columns: TableLayout, lists: bool, batches: Iterable[Any]
) -> Iterator[tuple[Array, object, object, object]]:
    """Iterate over the values, label, id and time of each row."""
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
        if types.is_time(time.type):
            time = time.view(f"int{time.type.bit_width}")
        source.time_report.count_zone(getattr(time.type, "tz", None), len(batch))
        # Python's own dates have no nanoseconds, numpy's have.
        dates = types.is_temporal(time.type)
        times = list(time.to_numpy(zero_copy_only=False)) if dates else _cells(source, time)
        yield from zip(values, _cells(source, label), _cells(source, identity), times, strict=True)
        start += len(batch)


def _list_rows(source: InputFile, channels: list[Any], start: int) -> Iterator[Array]:
    """Iterate over the rows of list columns: ``(channels, length)`` each."""
    ends = [np.cumsum(pc.list_value_length(channel).fill_null(0).to_numpy()) for channel in channels]
    flat = [pc.list_flatten(channel).to_numpy(zero_copy_only=False) for channel in channels]
    rows = zip(*(np.split(values, end[:-1]) for values, end in zip(flat, ends, strict=True)), strict=True)
    for index, row in enumerate(rows, start):
        lengths = {values.size for values in row}
        if len(lengths) > 1 or 0 in lengths:
            raise source.error(f"row {index}: lists of {sorted(lengths)} values, expected equal lengths above 0")
        yield source.floating(np.stack(row), f"row {index}: ")
