"""Ways to make a valid file hostile, for ``fuzz.py``.

Most changes keep the outer format valid: a JSON file, the header of a safetensors file, a member of a zip archive
or the text inside a gzip is unpacked, changed and packed again with correct lengths and checksums, so that the
damage passes the first check. All other changes are to plain bytes. Everything is a function of one
``random.Random``: the number of a case determines it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from fuzz_seeds import LENGTH, SERIES, Files

Change: TypeAlias = Callable[[random.Random, bytes], bytes]

INTEGERS = [0, 1, -1, 127, 255, 2**15, 2**16 - 1, 2**31 - 1, -(2**31), 2**32 - 1, 2**40, 2**63 - 1, -(2**63)]
JSON_VALUES: list[Any] = [
    *(None, True, False, "", "x" * 300, "\ud800", "\x00", [], {}, [[]], {"pairs": [[[], 1]]}, {"a": 1}),
    *("../../secret", "/etc/hostname", "/dev/zero", "<U1000000000", "|O", "NuTimeClassifier", "F64", "BF16"),
    *(0, -1, 1.5, 1e308, float("nan"), float("inf"), 3, 2**16, 10**9, 2**63, 10**30),
]
DEEP = {"[": "]", '{"a":': "}"}
TOKENS = [
    *(
        "@data",
        "@dimensions 2",
        "@dimensions 999999999999",
        "@classLabel true",
        "@equalLength true",
        "@seriesLength 0",
    ),
    *("@attribute c {a,b}", "@attribute x relational", "@attribute t numeric", "@end x", "@timestamps true"),
    *("id,time,value", "label,0,1,2", "nan", "inf", "-1e999", "1e308", "9" * 5000, "0x1F", "1_0", "١٢", "½", "?"),
    *(
        "'",
        '"',
        "\\n",
        ",,,,",
        "::::",
        "\t\t",
        "{",
        "}",
        "(",
        "#",
        "%",
        "\x00",
        "\ufeff",
        "2020-01-01",
        "12:00",
        " ",
    ),
]
NUMBER = re.compile(rb"-?\d+(\.\d+)?(e[+-]?\d+)?")


# ---- changes to bytes and to text ----------------------------------------------------------------------


def draw_range(rng: random.Random, content: bytes) -> tuple[int, int]:
    """Draw a range, usually a short one."""
    start = rng.randrange(len(content) + 1)
    return start, min(len(content), start + int(rng.expovariate(1 / 20)))


def flip(rng: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8])):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwrite_integer(rng: random.Random, content: bytes) -> bytes:
    width = rng.choice([1, 2, 4, 8])
    number = (rng.choice(INTEGERS) % 256**width).to_bytes(width, rng.choice(["little", "big"]))
    start = rng.randrange(len(content) + 1)
    return content[:start] + number + content[start + width :]


def drop(rng: random.Random, content: bytes) -> bytes:
    start, end = draw_range(rng, content)
    return content[:start] + content[end:]


def repeat(rng: random.Random, content: bytes) -> bytes:
    start, end = draw_range(rng, content)
    return content[:end] + content[start:end] * rng.choice([1, 2, 50, 2000]) + content[end:]


def cut(rng: random.Random, content: bytes) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def insert(rng: random.Random, content: bytes) -> bytes:
    start, _ = draw_range(rng, content)
    return content[:start] + rng.randbytes(rng.randrange(1, 40)) + content[start:]


def insert_token(rng: random.Random, content: bytes) -> bytes:
    start, end = draw_range(rng, content) if rng.random() < 0.5 else (rng.randrange(len(content) + 1),) * 2
    token = rng.choice(TOKENS) * rng.choice([1, 1, 1, 3, 1000]) + rng.choice(["", "\n"])
    return content[:start] + token.encode("utf-8", "surrogatepass") + content[end:]


def replace_number(rng: random.Random, content: bytes) -> bytes:
    numbers = list(NUMBER.finditer(content))
    if not numbers:
        return content
    place = rng.choice(numbers)
    return content[: place.start()] + rng.choice(TOKENS).encode() + content[place.end() :]


def shuffle_lines(rng: random.Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(3):
        case 0:
            lines[one], lines[other] = lines[other], lines[one]
        case 1:
            del lines[one]
        case _:
            lines.insert(other, lines[one])
    return b"".join(lines)


BYTE_CHANGES: list[Change] = [flip, overwrite_integer, drop, repeat, cut, insert]
TEXT_CHANGES: list[Change] = [flip, drop, repeat, cut, insert_token, insert_token, replace_number, shuffle_lines]


# ---- changes of the structure --------------------------------------------------------------------


def change_value(rng: random.Random, value: Any) -> Any:
    """Change something somewhere inside a JSON value."""
    if isinstance(value, dict | list) and value and rng.random() < 0.85:
        keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        key, copy = rng.choice(keys), value.copy()
        match rng.randrange(10):
            case 0:
                del copy[key]
            case 1 if isinstance(copy, dict):
                copy[str(rng.choice(JSON_VALUES))] = copy[key]
            case 1:
                copy += copy[-1:] * rng.choice([1, 1000])
            case _:
                copy[key] = change_value(rng, copy[key])
        return copy
    if isinstance(value, int) and rng.random() < 0.5:
        return rng.choice([*INTEGERS, value + 1, value - 1, 2 * value, -value])
    return rng.choice(JSON_VALUES)


def change_json(rng: random.Random, content: bytes) -> bytes:
    if rng.random() < 0.05:
        opening, depth = rng.choice(list(DEEP)), rng.choice([10, 1000, 100_000])
        return (opening * depth + "0" + DEEP[opening] * depth).encode()
    return json.dumps(change_value(rng, json.loads(content))).encode()


def change_safetensors(rng: random.Random, content: bytes) -> bytes:
    size = struct.unpack("<Q", content[:8])[0]
    header = change_json(rng, content[8 : 8 + size])
    claimed = len(header) if rng.random() < 0.95 else rng.choice([0, 2**20, 2**32, 2**63, 10**8])
    return struct.pack("<Q", claimed) + header + content[8 + size :]


def change_gzip(rng: random.Random, content: bytes) -> bytes:
    return gzip.compress(rng.choice(TEXT_CHANGES)(rng, gzip.decompress(content)), compresslevel=1)


def change_member(rng: random.Random, content: bytes) -> bytes:
    """Change a member of a zip archive, its name, or its order, and pack it again."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    place = rng.randrange(len(members))
    name, data = members[place]
    match rng.randrange(8):
        case 0:
            members[place] = (
                rng.choice(["../../evil.npy", "/X.npy", "X.npy", "y.npy", "X_\ud7ff.npy", "X"]),
                data,
            )
        case 1:
            members.append(members[place])
        case 2:
            members[place] = (name, members[rng.randrange(len(members))][1])
        case 3 | 4 | 5 if name.endswith(".npy"):
            members[place] = (name, change_npy(rng, data))
        case _:
            members[place] = (name, rng.choice(BYTE_CHANGES)(rng, data))
    stream = io.BytesIO()
    method = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    with zipfile.ZipFile(stream, "w", method, compresslevel=1) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data)
    return stream.getvalue()


def change_npy(rng: random.Random, content: bytes) -> bytes:
    """Give an array another header: type, order, shape, version."""
    begin = 10 + int.from_bytes(content[8:10], "little")
    kind = rng.choice(
        ["<f8", ">f4", "<f2", "<i8", "|b1", "<U1", "<U0", "|S0", "|V0", "<c16", "|O", "<M8[s]", "<U99999999"]
    )
    shape = [rng.choice([0, 1, 2, SERIES, LENGTH, -1, 10**6, 2**31, 2**62]) for _ in range(rng.randrange(5))]
    header = repr({"descr": kind, "fortran_order": rng.random() < 0.5, "shape": tuple(shape)}).encode()
    if rng.random() < 0.1:
        header = rng.choice(
            [b"(" * 9000, b"{" + b" " * 60_000 + b"}", header + b" " * 9000, header.replace(b"shape", b"")]
        )
    if rng.random() < 0.2:
        length = rng.choice([len(header), 2**31, 2**32 - 1])
        return b"\x93NUMPY\x02\x00" + struct.pack("<I", length) + header + content[begin:]
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) % 2**16) + header + content[begin:]


def odd_table(rng: random.Random) -> Any:
    """Return a table of columns of types that a reader of series does not expect."""
    import pyarrow as pa

    n = rng.choice([0, 1, 5])
    columns = {
        "text": pa.array(["a", "", None, "\x00", "b"][:n], pa.string()),
        "float": pa.array([1.0, float("nan"), None, float("inf"), 2.0][:n], pa.float64()),
        "half": pa.array(np.ones(n, np.float16)),
        "integer": pa.array([1, None, 3, 4, 2**62][:n], pa.int64()),
        "list": pa.array([[1.0, 2.0], [], None, [None, 1.0], [3.0]][:n], pa.list_(pa.float32())),
        "equal": pa.array([[1.0, 2.0]] * n, pa.list_(pa.float64(), 2)),
        "nested": pa.array([[[1.0]]] * n, pa.list_(pa.list_(pa.float64()))),
        "struct": pa.array([{"a": 1}] * n, pa.struct([("a", pa.int8())])),
        "map": pa.array([[("k", 1)]] * n, pa.map_(pa.string(), pa.int8())),
        "binary": pa.array([b"\xff"] * n, pa.binary()),
        "boolean": pa.array([True] * n, pa.bool_()),
        "time": pa.array([0] * n, pa.timestamp("ns")),
        "day": pa.array([0] * n, pa.date32()),
        "dictionary": pa.array(["a"] * n, pa.string()).dictionary_encode(),
        "null": pa.nulls(n),
    }
    names = ["x", "label", "id", "time", "value", "t", "y", "", "class", "__index_level_0__", "x"]
    chosen = [(rng.choice(names), rng.choice(list(columns.values()))) for _ in range(rng.randrange(1, 5))]
    return pa.Table.from_arrays([column for _, column in chosen], names=[name for name, _ in chosen])


def other_parquet(rng: random.Random, content: bytes) -> bytes:
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    pq.write_table(odd_table(rng), stream)
    return stream.getvalue()


def other_stream(rng: random.Random, content: bytes) -> bytes:
    import pyarrow as pa

    table, stream = odd_table(rng), io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, None, None, "lz4", "zstd"]))
    with pa.ipc.new_stream(stream, table.schema, options=options) as writer:
        for _ in range(rng.choice([0, 1, 1, 1, 2])):
            writer.write_table(table)
    return stream.getvalue()


def change_line(rng: random.Random, content: bytes) -> bytes:
    """Change a line of JSON; the others stay as they are."""
    lines = content.splitlines()
    place = rng.randrange(len(lines))
    lines[place] = change_json(rng, lines[place])
    return b"".join(line + b"\n" for line in lines)


def other_shard(rng: random.Random, content: bytes) -> bytes:
    """Write a shard of the same size with other lists, type or offsets."""
    import pyarrow as pa

    stored = pa.ipc.open_file(content).get_batch(0).column(0)
    values, offsets = stored.values, np.array(stored.offsets)
    match rng.randrange(4):
        case 0:
            offsets[rng.randrange(len(offsets))] = rng.choice(INTEGERS)
        case 1:
            values = values.cast(rng.choice([pa.float64(), pa.int32(), pa.float16()]))
        case 2:
            offsets = offsets[:: rng.choice([-1, 2])].copy()
        case _:
            values = pa.array([None] * len(values), pa.float32())
    column: Any = pa.LargeListArray.from_arrays(pa.array(offsets), values)
    if rng.random() < 0.2:
        column = rng.choice([values, pa.array(["a"]), pa.nulls(SERIES)])
    columns = {"values": column} if rng.random() < 0.9 else {"values": column, "more": column}
    batch = pa.record_batch(columns)
    options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, None, "lz4", "zstd"]))
    stream = io.BytesIO()
    with pa.ipc.new_file(stream, batch.schema, options=options) as writer:
        for _ in range(rng.choice([0, 1, 1, 1, 2])):
            writer.write_batch(batch)
    return stream.getvalue()


STRUCTURED: dict[str, list[Change]] = {
    ".json": [change_json, change_json, change_json, *TEXT_CHANGES],
    ".safetensors": [change_safetensors, change_safetensors],
    ".gz": [change_gzip, change_gzip],
    ".npz": [change_member, change_member],
    ".npy": [change_npy, change_npy],
    ".pt": [change_member],
    ".parquet": [other_parquet],
    ".arrow": [other_shard, other_shard],
    ".arrows": [other_stream],
    ".jsonl": [change_line, change_line],
}
TEXT = (".ts", ".tsv", ".txt", ".arff", ".csv", ".jsonl")


def hostile(rng: random.Random, seed: Files) -> tuple[str, Files]:
    """Return the name of the file that was changed, and all files with it."""
    name = rng.choice(list(seed))
    suffix = Path(name).suffix
    usual = TEXT_CHANGES if suffix in TEXT else BYTE_CHANGES
    content = seed[name]
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        change = rng.choice([*STRUCTURED.get(suffix, []), *usual])
        try:
            content = change(rng, content)
        except Exception:  # an earlier change may prevent unpacking: change its bytes instead
            content = rng.choice(usual)(rng, content)
    files = seed | {name: content}
    if suffix == ".arrow" and rng.random() < 0.8:  # else the size in the index would not match
        index = json.loads(files["corpus.json"])
        next(shard for shard in index["shards"] if shard["file"] == name)["bytes"] = len(content)
        files["corpus.json"] = json.dumps(index).encode()
    if rng.random() < 0.8:
        state_checksums(files)
    return name, files


def state_checksums(files: Files) -> None:
    """Correct the checksums that documents state, or they alone would refuse every change of another file."""
    documents = [name for name in files if name.endswith(".json")]
    for name in sorted(documents, key=lambda name: -name.count("/")):  # the outer ones state those of the inner
        home = name.rpartition("/")[0]
        try:
            document = json.loads(files[name])
            stated = {part: files[f"{home}/{part}".lstrip("/")] for part in document["sha256"]}
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
        document["sha256"] = {part: hashlib.sha256(content).hexdigest() for part, content in stated.items()}
        files[name] = json.dumps(document).encode()
