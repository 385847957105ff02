"""Reader of ``.parquet`` and of Arrow batches, wide or long (see :mod:`~nutime.data.formats.layout`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, groupby, islice, starmap
from typing import TYPE_CHECKING, Any

import numpy as np

from nutime.data.formats.layout import Point, TableLayout, join_points
from nutime.data.formats.source import CHOOSE, InputFile, Record, quote
from nutime.data.series import Array

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_TEXT = 2**16  # bytes of a label or an id
_CHUNK_ROWS = 1024


def read_parquet(source: InputFile) -> Iterator[Record]:
    """A parquet table, read in batches of rows; a null is a missing value."""
    import pyarrow.parquet as pq
    from pyarrow import types

    with source.decoding():
        schema = pq.read_schema(source.path)
    # Buffering ahead would load the whole file, and so would repeated text that is not read as a dictionary.
    texts = [field.name for field in schema if types.is_string(field.type)]
    with source.decoding(), pq.ParquetFile(source.path, pre_buffer=False, read_dictionary=texts) as file:
        # The metadata of single columns is not used: where it is damaged, Arrow ends the process.
        source.check_expansion(8 * file.metadata.num_rows * file.metadata.num_columns)
        columns, lists = columns_of(source, schema)
        contiguous = True
        if columns.is_long and columns.id is not None:
            ids = file.iter_batches(batch_size=_CHUNK_ROWS, columns=[schema.names[columns.id]])
            contiguous = is_contiguous(batch.column(0).to_pylist() for batch in ids)
        batches = file.iter_batches(batch_size=_CHUNK_ROWS)
        yield from records_of(source, columns, lists, batches, contiguous=contiguous)


def is_contiguous(chunks: Iterable[list[Any]]) -> bool:
    """Whether equal ids follow each other."""
    ids = [key for key, _ in groupby(chain.from_iterable(chunks))]
    return len(set(ids)) == len(ids)


def columns_of(source: InputFile, schema: pa.Schema) -> tuple[TableLayout, bool]:
    """Return the roles of the columns of an Arrow table, and whether its values are lists."""
    from pyarrow import types

    lists = [_is_list(field.type) for field in schema]
    has_lists = any(lists)  # once: a table may have tens of thousands of columns
    columns = TableLayout.named(source, schema.names, has_lists)
    for index in columns.values:
        field = schema.field(index)
        kind = field.type.value_type if lists[index] else field.type
        numeric = types.is_floating(kind) or types.is_integer(kind)
        if not numeric or lists[index] != has_lists:
            expected = "a list of numbers, as other columns are" if has_lists else "numeric"
            raise source.error(f"column {quote(field.name)}: type {field.type} is not {expected}; {CHOOSE}")
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
    import pyarrow.compute as pc
    from pyarrow import types

    if types.is_dictionary(column.type) and types.is_string(column.type.value_type):
        longest = pc.max(pc.binary_length(column.dictionary)).as_py() or 0
        if longest > _MAX_TEXT:
            raise source.error(
                f"holds a text of {longest} bytes, the limit is {_MAX_TEXT}; shorten labels and ids"
            )
    cells: list[Any] = column.to_pylist()
    return cells


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _rows(
    source: InputFile, columns: TableLayout, lists: bool, batches: Iterable[Any]
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
        if types.is_time(time.type):
            time = time.view(f"int{time.type.bit_width}")
        # Python's own dates have no nanoseconds, numpy's have.
        dates = types.is_temporal(time.type)
        times = list(time.to_numpy(zero_copy_only=False)) if dates else _cells(source, time)
        yield from zip(values, _cells(source, label), _cells(source, identity), times, strict=True)
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
