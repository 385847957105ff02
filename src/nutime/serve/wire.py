"""Request and response bodies: series in, predictions out, as JSON or as an Arrow IPC stream.

JSON is ``{"series": [[1, 2, null], [[1, 2], [3, 4]], …]}``: one list of numbers per series, or one list per
channel of a series; null is a missing value. ``"channels": ["x", "y"]`` may name the channels. An Arrow stream has
the columns of a ``.parquet`` file. Responses have the format of the request, one row per series, and the column
names that ``nutime predict`` writes.

A small body can describe something large, so lists, rows and bytes are counted before anything is converted. Arrow
columns must be plain numbers, text, times or lists of numbers: dictionaries, views, run-end encoding and
compressed buffers can expand without bound and are refused.
"""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nutime.batch.results import Results
from nutime.data.formats.arrow import columns_of, records_of
from nutime.data.formats.read import record_set
from nutime.data.formats.source import FormatError, InputFile, quote
from nutime.data.series import Array, as_series
from nutime.serve.limits import Limits

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"


class MalformedError(ValueError):
    """A body that does not have the format of its content type."""


class Inputs(NamedTuple):
    """Series of one request, the names of their channels or columns, and ids and labels for the results."""

    series: list[Array]
    channel_names: list[str] | None
    kept: Results
    feature_names: list[str] | None = None


def decode(body: bytes, content_type: str, limits: Limits) -> Inputs:
    """Read the series of a request.

    Raises:
        MalformedError: the body is neither JSON nor an Arrow stream.
        ValueError: the series are unusable, too many or too long; the message is one line.
    """
    inputs = _decode_json(body, limits) if content_type == JSON else _decode_arrow(body, limits)
    for index, values in enumerate(inputs.series):
        if values.shape[1] > limits.length:
            raise ValueError(f"series {index}: has {values.shape[1]} points, the limit is {limits.length}")
    _check_points(sum(values.size for values in inputs.series), limits)
    return inputs


def encode(columns: Results, content_type: str) -> bytes:
    """Write predictions in the format of the request."""
    return _encode_json(columns) if content_type == JSON else _encode_arrow(columns)


def _decode_json(body: bytes, limits: Limits) -> Inputs:
    expected = (
        'expected an object {"series": [[1, 2, null], …]} with numbers and null only; "channels" may name them'
    )
    # Counted in the bytes: the parsed objects take up to 60 times the memory.
    quotes = body.count(b'"')
    if quotes > 4 + 2 * limits.series or body.count(b"{") > 1:
        raise ValueError(expected)
    if body.count(b"[") > 2 + 2 * limits.series:
        raise ValueError(f"more lists than {limits.series} series (channels counted), the limit, can have")
    _check_points(body.count(b","), limits)
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:  # invalid UTF-8 is a ValueError too
        raise MalformedError(f"the body is not JSON: {error}") from None
    document = document if isinstance(document, dict) else {}
    given, names = document.get("series"), document.get("channels")
    if not isinstance(given, list):
        raise ValueError(expected)
    if "channels" in document and not (
        isinstance(names, list) and all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
    ):
        raise ValueError('"channels": expected a list of different names')
    if quotes != 2 + (2 + 2 * len(names) if names is not None else 0):  # text elsewhere, or quotes in names
        raise ValueError(expected)
    _check_series(len(given), limits)
    series = as_series([_numbers(values, index) for index, values in enumerate(given)])
    if (b"true" in body or b"false" in body) and any(
        isinstance(value, bool) for values in given for value in np.array(values, object).flat
    ):
        raise ValueError(expected)
    _check_series(len(series) * len(series[0]), limits)
    if names is not None and len(names) != len(series[0]):
        raise ValueError(f"{len(names)} names for {len(series[0])} channel(s)")
    return Inputs(series, names, {})


def _numbers(values: Any, index: int) -> NDArray[np.float64]:
    """Convert the numbers of one series; null becomes NaN."""
    try:
        return np.array(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"series {index}: expected a list of numbers, or lists of equal length, one per channel"
        ) from None


def _decode_arrow(body: bytes, limits: Limits) -> Inputs:
    import pyarrow as pa

    source = InputFile(Path("the Arrow stream"))
    try:
        with source.decoding():
            for message in pa.ipc.MessageReader.open_stream(body):
                if message.type == "dictionary":
                    raise source.error("has dictionary-encoded columns; send plain ones")
                if message.type == "record batch" and _is_compressed(memoryview(message.metadata)):
                    raise source.error("is compressed; send it uncompressed")
            with pa.ipc.open_stream(body) as stream:
                schema, batches = stream.schema, list(stream)
            for batch in batches:
                batch.validate(full=True)
            if sum(batch.nbytes for batch in batches) > len(body):
                raise source.error("has columns that share bytes; write each of them")
    except FormatError as error:
        raise MalformedError(str(error)) from None
    for field in schema:
        if not _is_plain(field.type):
            raise source.error(
                f"column {quote(field.name)}: type {field.type} is not supported; send plain columns"
            )
    columns, lists = columns_of(source, schema, lambda name: batches)
    rows = sum(map(len, batches))
    if columns.is_long:
        _check_points(rows * len(columns.values), limits)
    else:
        _check_series(rows * (len(columns.values) if lists else 1), limits)
    with source.decoding():
        records = list(islice(records_of(source, columns, lists, batches), limits.series + 1))
    _check_series(sum(len(record.values) for record in records), limits)
    # Arrays of objects, because an array of text pads every cell to the longest.
    kept = {"id": [record.id for record in records], "label": [record.label for record in records]}
    columns_kept = {name: np.array(cells, object) for name, cells in kept.items() if cells[:1] not in ([], [None])}
    if not records:
        raise ValueError("no series given")
    data = record_set(records)
    return Inputs(data.series, data.channel_names, columns_kept, data.feature_names)


def _is_plain(kind: Any) -> bool:
    """Return whether a column of this Arrow type takes as many bytes in the body as it has values."""
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return bool(types.is_integer(kind.value_type) or types.is_floating(kind.value_type))
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_temporal)
    return types.is_string(kind) or types.is_large_string(kind) or any(test(kind) for test in tests)


def _is_compressed(header: memoryview) -> bool:
    """Return whether ``Message.header.compression`` is set in the Flatbuffers header of a record batch.

    pyarrow decompresses while it reads and does not report compression before. Field numbers are those of
    ``Message.fbs``, see https://arrow.apache.org/docs/format/Columnar.html
    """

    def number(at: int, size: int, signed: bool = False) -> int:
        return int.from_bytes(header[at : at + size], "little", signed=signed)

    def field(table: int, index: int) -> int:
        layout, slot = table - number(table, 4, signed=True), 4 + 2 * index
        offset = number(layout + slot, 2) if slot < number(layout, 2) else 0
        return table + offset if offset else 0

    message = number(0, 4)
    batch = field(message, 2)
    return bool(field(batch + number(batch, 4), 3))


def _check_series(count: int, limits: Limits) -> None:
    if count > limits.series:
        raise ValueError(f"{count} series (channels counted), the limit per request is {limits.series}")


def _check_points(count: int, limits: Limits) -> None:
    if count > limits.points:
        raise ValueError(f"{count} values, the limit per request is {limits.points}")


def _encode_json(columns: Results) -> bytes:
    return json.dumps({name: column.tolist() for name, column in columns.items()}, allow_nan=False).encode()


def _encode_arrow(columns: Results) -> bytes:
    import pyarrow as pa

    table = pa.table({name: _arrow_column(column) for name, column in columns.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _arrow_column(column: NDArray[Any]) -> Any:
    """Return a column; vectors become lists of fixed size."""
    import pyarrow as pa

    if column.ndim == 1:
        return pa.array(column)
    return pa.FixedSizeListArray.from_arrays(column.ravel(), column.shape[1])
