"""What travels: series in, answers out, as JSON or as an Arrow IPC stream.

JSON is ``{"series": [[1, 2, null], [[1, 2], [3, 4]], …]}``: a list of numbers a series, or a list of them a
channel; null is a missing value. An Arrow stream has the columns of a ``.parquet`` file. Answers come in the
form of the question, with a row a series and the names that ``nutime predict`` writes.

Unusual here: bytes from a stranger are checked before they are believed. Arrow lets a few bytes claim any
number of rows and any place in memory, so its buffers are validated and its rows counted first; and compressed
buffers, of which a few bytes may become gigabytes, are found in the messages' headers and never opened.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nutime.batch.results import Results
from nutime.batch.source import input_columns, record_set
from nutime.data.formats.arrow import columns_of, records_of
from nutime.data.formats.source import FormatError, InputFile
from nutime.data.series import EXPECTED, Array, as_series
from nutime.serve.limits import Limits

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
_DICTIONARY, _BATCH = 2, 3


class MalformedError(ValueError):
    """A body that is not what its content type says."""


class Question(NamedTuple):
    """Finite series of one request, and the ids and labels to give back with the answers."""

    series: list[Array]
    kept: Results


def decode(body: bytes, content_type: str, limits: Limits) -> Question:
    """Read the series of a request.

    Raises:
        MalformedError: the body is no JSON or Arrow stream at all.
        ValueError: it is, but its series are not usable, or too many, or too long; one line says which.
    """
    question = _decode_json(body, limits) if content_type == JSON else _decode_arrow(body, limits)
    for index, values in enumerate(question.series):
        if values.shape[1] > limits.length:
            raise ValueError(f"series {index}: has {values.shape[1]} points, at most {limits.length} are taken")
    return question


def encode(columns: Results, content_type: str) -> bytes:
    """Write answers in the form of the question."""
    return _encode_json(columns) if content_type == JSON else _encode_arrow(columns)


def _decode_json(body: bytes, limits: Limits) -> Question:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:  # a character that is not UTF-8 is a ValueError too
        raise MalformedError(f"the body is not JSON: {error}") from None
    given = document.get("series") if isinstance(document, dict) else None
    if not isinstance(given, list) or len(document) != 1:
        raise ValueError('expected an object {"series": [[1, 2, …], …]} and nothing else in it')
    _check_number(len(given), limits)
    series = as_series([_numbers(values, index) for index, values in enumerate(given)])
    _check_number(len(series) * len(series[0]), limits)
    return Question(series, {})


def _numbers(values: Any, index: int) -> NDArray[Any]:
    """Return an array of JSON numbers; null becomes NaN."""
    try:
        array = np.asarray(values)
        if array.dtype == object and all(item is None or isinstance(item, int | float) for item in array.flat):
            array = array.astype(np.float64)
    except (ValueError, OverflowError):
        raise ValueError(
            f"series {index}: channels of unequal length, or too large a number: {EXPECTED}"
        ) from None
    return array


def _decode_arrow(body: bytes, limits: Limits) -> Question:
    import pyarrow as pa

    source = InputFile(Path("the Arrow stream"))
    batches = []
    try:
        with source.decoding():
            if any(_is_compressed(message.metadata) for message in pa.ipc.MessageReader.open_stream(body)):
                raise source.error("is compressed; send it as it is")
        with source.decoding(), pa.ipc.open_stream(body) as stream:
            schema, rows = stream.schema, 0
            for batch in stream:
                rows += len(batch)
                if rows > limits.series * limits.length:
                    raise source.error(f"has more than {limits.series * limits.length} rows")
                batch.validate(full=True)
                batches.append(batch)
    except FormatError as error:
        raise MalformedError(str(error)) from None
    columns, lists = columns_of(source, schema)
    if not columns.is_long:
        _check_number(rows * (len(columns.values) if lists else 1), limits)
    with source.decoding():
        records = list(records_of(source, columns, lists, batches))
    _check_number(sum(len(record.values) for record in records), limits)
    return Question(as_series([record.values for record in records]), input_columns(record_set(records)))


def _is_compressed(metadata: Any) -> bool:
    """Tell from the flatbuffer in front of an Arrow message whether the buffers behind it are compressed.

    Numbers of fields and types are those of ``Message.fbs``: https://arrow.apache.org/docs/format/Columnar.html
    """
    header = memoryview(metadata)

    def number(form: str, place: int) -> int:
        return int(struct.unpack_from(f"<{form}", header, place)[0])

    def field(table: int, index: int) -> int | None:
        layout, slot = table - number("i", table), 4 + 2 * index
        offset = number("H", layout + slot) if slot < number("H", layout) else 0
        return table + offset if offset else None

    def follow(place: int | None) -> int:
        if place is None:
            raise ValueError("a message without content")
        return place + number("I", place)

    message = follow(0)
    kind = field(message, 1)
    if kind is None or number("B", kind) not in (_DICTIONARY, _BATCH):
        return False
    content = follow(field(message, 2))
    batch = follow(field(content, 1)) if number("B", kind) == _DICTIONARY else content
    return field(batch, 3) is not None


def _check_number(series: int, limits: Limits) -> None:
    if series > limits.series:
        raise ValueError(f"{series} series (channels counted), at most {limits.series} are taken in a request")


def _encode_json(columns: Results) -> bytes:
    return json.dumps({name: column.tolist() for name, column in columns.items()}, allow_nan=False).encode()


def _encode_arrow(columns: Results) -> bytes:
    import pyarrow as pa

    arrays = {name: _arrow_column(column) for name, column in columns.items()}
    table = pa.table(arrays)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _arrow_column(column: NDArray[Any]) -> Any:
    """Return a column; vectors are lists of one size."""
    import pyarrow as pa

    if column.ndim == 1:
        return pa.array(column)
    return pa.FixedSizeListArray.from_arrays(np.ascontiguousarray(column).ravel(), column.shape[1])
