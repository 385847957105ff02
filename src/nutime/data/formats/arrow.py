"""Reader of ``.parquet`` and of Arrow batches, wide or long (see :mod:`~nutime.data.formats.columns`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import starmap
from typing import TYPE_CHECKING, Any

import numpy as np

from nutime.data.formats.columns import Columns, Point, join_points
from nutime.data.formats.source import CHOOSE, InputFile, Record, quote
from nutime.data.series import Array

if TYPE_CHECKING:
    import pyarrow as pa

MAX_TEXT = 2**16  # bytes of a label or an id
ROWS_AT_A_TIME = 1024


def read_parquet(source: InputFile) -> Iterator[Record]:
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


def columns_of(source: InputFile, schema: pa.Schema) -> tuple[Columns, bool]:
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
    source: InputFile, columns: Columns, lists: bool, batches: Iterable[pa.RecordBatch]
) -> Iterator[Record]:
    """Iterate over the series of Arrow record batches."""
    rows = _rows(source, columns, lists, batches)
    if columns.is_long:
        yield from join_points(source, columns, starmap(Point, rows))
    else:
        for values, label, identity, _ in rows:
            yield Record(values, columns.label_text(source, label), columns.id_text(source, identity))


def _cells(source: InputFile, column: Any) -> list[Any]:
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


def _rows(
    source: InputFile, columns: Columns, lists: bool, batches: Iterable[Any]
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


def _list_rows(source: InputFile, channels: list[Any], start: int) -> Iterator[Array]:
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
