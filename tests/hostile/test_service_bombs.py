"""Small request bodies that describe something large are refused before anything is converted."""

import struct

import numpy as np
import pyarrow as pa
import pytest

from nutime.serve.limits import Limits
from nutime.serve.wire import ARROW, JSON, decode

TEXT = 2_000_000
ROWS = 1024


def stream_of(**columns):
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def with_labels(label):
    return stream_of(label=label, values=[[1.0]] * len(label))


def dictionary(kind):
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(ROWS, np.int32)), pa.array(["a" * TEXT], kind))


def string_views():
    views = struct.pack("<i4sii", TEXT, b"aaaa", 0, 0) * ROWS
    buffers = [None, pa.py_buffer(views), pa.py_buffer(b"a" * TEXT)]
    return pa.Array.from_buffers(pa.string_view(), ROWS, buffers)


def list_views():
    offsets, sizes = (pa.py_buffer(np.full(ROWS, value, np.int32)) for value in (0, TEXT // 8))
    values = pa.array(np.zeros(TEXT // 8))
    return pa.Array.from_buffers(pa.list_view(pa.float64()), ROWS, [None, offsets, sizes], children=[values])


def shared_columns(columns=100, size=2**16):
    """Return a stream whose columns all refer to the same bytes, the only ones of its body."""
    values = np.zeros(size // 8)
    body = stream_of(**{f"c{index}": values for index in range(columns)})
    header, total = body[: -columns * size - 8], struct.pack("<q", columns * size)
    assert header.count(total) == 1
    header = header.replace(total, struct.pack("<q", size))
    for index in range(1, columns):
        place = struct.pack("<qqqq", index * size, 0, index * size, size)  # of the null bitmap and of the values
        header = header.replace(place, struct.pack("<qqqq", 0, 0, 0, size))
    return header + bytes(size) + body[-8:]


BODIES = {
    "a long text among short ones": (
        JSON,
        lambda: b'{"series": [[' + b'"a",' * 25_000 + b'"' + b"x" * 30_000 + b'"]]}',
        "numbers and null only",
    ),
    "names": (
        JSON,
        lambda: b'{"series": [[1]], "channels": [' + b'"a",' * 500_000 + b'"' + b"x" * 4_000_000 + b'"]}',
        "numbers and null only",
    ),
    "empty lists": (JSON, lambda: b'{"series": [[' + b"[]," * 2_700_000 + b"[]]]}", "more lists than"),
    "empty objects": (JSON, lambda: b'{"series": [' + b"{}," * 2_700_000 + b"{}]}", "numbers and null only"),
    "numbers": (JSON, lambda: b'{"series": [[' + b"1," * 4_000_000 + b"1]]}", "4000000 values"),
    "a dictionary": (ARROW, lambda: with_labels(dictionary(pa.string())), "dictionary-encoded"),
    "a large dictionary": (ARROW, lambda: with_labels(dictionary(pa.large_string())), "dictionary-encoded"),
    "a binary dictionary": (ARROW, lambda: with_labels(dictionary(pa.binary())), "dictionary-encoded"),
    "string views": (ARROW, lambda: with_labels(string_views()), "string_view is not supported"),
    "list views": (ARROW, lambda: stream_of(values=list_views()), "list_view<item: double> is not supported"),
    "run ends of text": (
        ARROW,
        lambda: with_labels(
            pa.RunEndEncodedArray.from_arrays(pa.array([ROWS], pa.int32()), pa.array(["a" * TEXT]))
        ),
        "run_end_encoded",
    ),
    "run ends of numbers": (
        ARROW,
        lambda: stream_of(value=pa.RunEndEncodedArray.from_arrays(pa.array([10**8], pa.int32()), pa.array([1.0]))),
        "run_end_encoded",
    ),
    "a long label": (ARROW, lambda: with_labels(["b"] * 1000 + ["a" * TEXT]), "at most 256"),
    "columns that share bytes": (ARROW, shared_columns, "share bytes"),
    "an id for every point": (
        ARROW,
        lambda: stream_of(id=np.arange(200_000, dtype=np.int32), value=np.zeros(200_000, np.int8)),
        "1025 series",
    ),
    "points": (ARROW, lambda: stream_of(value=np.zeros(4_000_000, np.int8)), "4000000 values"),
    "nulls": (ARROW, lambda: stream_of(value=pa.nulls(10**9)), "null is not supported"),
}


@pytest.mark.parametrize(("content_type", "body", "reason"), BODIES.values(), ids=BODIES)
def test_a_bomb_is_refused(refusal, content_type, body, reason):
    content = body()
    assert len(content) <= Limits().body_bytes
    assert reason in refusal(decode, content, content_type, Limits())


def test_many_columns_are_read_in_linear_time(little_memory):
    body = stream_of(**{f"c{index}": [1.0] for index in range(30_000)})
    with little_memory():
        assert decode(body, ARROW, Limits()).series[0].shape == (1, 30_000)
