"""Broken files: 200 of them give 200 clean errors, and no bytes at all lose a series silently."""

import gzip
import io
import random
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nutime.data.formats.read import FORMATS, FormatError, read_records

CASES = 200
SERIES, LENGTH = 6, 5
JUNK = ["abc", "1.2.3", "--1", "1e", "0x1F", "1;2", "½", "inf", "-1e999", "[1]", "Nope", "1.5.", "\x00"]


def read_or_refuse(path):
    """Return the records, or None where the file is refused in one line that begins with its path."""
    try:
        return list(read_records(path))
    except FormatError as error:
        message = str(error)
    assert message.startswith(f"{path}:")
    assert "\n" not in message
    return None


# ---- text files: drafts that can be broken before and after they are written down -----------------------


@dataclass
class Draft:
    """A text file to be: its header, then a label and channels of cells for each series."""

    name: str
    header: list[str]
    series: list[tuple[str, list[list[str]]]] = field(default_factory=list)

    def rows(self):
        """Return the lines of data."""
        return [
            line
            for index, (label, channels) in enumerate(self.series)
            for line in ROWS[self.name](index, label, channels)
        ]

    def write(self):
        return "".join(f"{line}\n" for line in self.header + self.rows()).encode()


ATTRIBUTES = [f"@attribute t{index} numeric" for index in range(LENGTH)]
HEADERS = {
    "set.ts": ["@univariate true", "@equalLength true", "@classLabel true a b", "@data"],
    "channels.ts": ["@dimensions 2", "@equalLength false", "@classLabel true a b", "@data"],
    "set.arff": ["@relation r", *ATTRIBUTES, "@attribute class {a,b}", "@data"],
    "channels.arff": [
        "@relation r",
        "@attribute bag relational",
        *ATTRIBUTES,
        "@end bag",
        "@attribute class {a,b}",
        "@data",
    ],
    "set.tsv": [],
    "set.txt": [],
    "bare.csv": [],
    "wide.csv": [",".join(["label", *(f"v{index}" for index in range(LENGTH))])],
    "long.csv": ["id,time,value,label"],
}
ROWS = {
    "set.ts": lambda _, label, channels: [":".join([*map(",".join, channels), label])],
    "channels.ts": lambda _, label, channels: [":".join([*map(",".join, channels), label])],
    "set.arff": lambda _, label, channels: [",".join([*channels[0], label])],
    "channels.arff": lambda _, label, channels: ["'" + "\\n".join(map(",".join, channels)) + "'," + label],
    "set.tsv": lambda _, label, channels: ["\t".join([label, *channels[0]])],
    "set.txt": lambda _, label, channels: [" ".join([label, *channels[0]])],
    "bare.csv": lambda _, label, channels: [",".join([label, *channels[0]])],
    "wide.csv": lambda _, label, channels: [",".join([label, *channels[0]])],
    "long.csv": lambda index, label, channels: [
        f"s{index},{time},{cell},{label}" for time, cell in enumerate(channels[0])
    ],
}
TEXT = list(HEADERS)
LONG = {"long.csv"}
DECLARED = {name for name in TEXT if name.endswith((".ts", ".arff"))}
CHANNELS = {"channels.ts", "channels.arff"}
CSV = {name for name in TEXT if name.endswith(".csv")}


def valid_draft(name, rng):
    draft = Draft(name, list(HEADERS[name]))
    for index in range(SERIES):
        channels = [[f"{rng.uniform(-9, 9):.4f}" for _ in range(LENGTH)] for _ in range(1 + (name in CHANNELS))]
        draft.series.append(("ab"[index % 2], channels))
    return draft


def some_series(rng, draft):
    """Draw a series, but not the first: it may set the example for the others."""
    return rng.randrange(1, SERIES)


def junk_value(rng, draft):
    _, channels = draft.series[some_series(rng, draft)]
    rng.choice(channels)[rng.randrange(LENGTH)] = rng.choice(JUNK)


def extra_value(rng, draft):
    _, channels = draft.series[some_series(rng, draft)]
    rng.choice(channels).insert(rng.randrange(LENGTH), "0.5")


def lost_value(rng, draft):
    _, channels = draft.series[some_series(rng, draft)]
    del rng.choice(channels)[rng.randrange(LENGTH)]


def unknown_label(rng, draft):
    index = some_series(rng, draft)
    draft.series[index] = (rng.choice(["c", "A", "aa", "1", "'a"]), draft.series[index][1])


def extra_channel(rng, draft):
    draft.series[some_series(rng, draft)][1].append(["0.5"] * LENGTH)


def lost_channel(rng, draft):
    draft.series[some_series(rng, draft)][1].pop()


def lost_data_tag(rng, draft):
    draft.header.remove("@data")


def junk_in_header(rng, draft):
    draft.header.insert(rng.randrange(3), rng.choice(["hello", "1,2,3:a", "<html>", "attribute t numeric"]))


def other_promise(rng, draft):
    promises = [f"@dimensions {rng.randrange(3, 9)}", "@timeStamps true", "@univariate perhaps"]
    draft.header.insert(0, rng.choice(promises))


def promised_length(rng, draft):
    draft.header[1:2] = ["@equalLength true", f"@seriesLength {rng.randrange(LENGTH + 1, 99)}"]


def second_label_column(rng, draft):
    draft.header[0] = draft.header[0].replace("v1", rng.choice(["class", "Target", "y"]))


def no_series(rng, draft):
    draft.series.clear()


DRAFT_BREAKS = {
    junk_value: TEXT,
    extra_value: set(TEXT) - LONG,
    lost_value: set(TEXT) - LONG,
    unknown_label: DECLARED,
    extra_channel: CHANNELS | {"set.ts"},
    lost_channel: CHANNELS,
    lost_data_tag: DECLARED,
    junk_in_header: DECLARED,
    other_promise: {"set.ts", "channels.ts"},
    promised_length: {"set.ts", "channels.ts"},
    second_label_column: {"wide.csv"},
    no_series: TEXT,
}


def cut_within_a_row(rng, name, lines):
    """End the file behind a separator of its last row, as a full disk does."""
    last = lines[-1]
    cuts = [index + 1 for index, char in enumerate(last) if char in ",\t :"]
    return [*lines[:-1], last[: rng.choice(cuts[:-1])]]  # behind the last one, csv has an empty cell


def two_rows_in_one(rng, name, lines):
    index = rng.randrange(len(lines) - SERIES + 1, len(lines))
    return [*lines[: index - 1], lines[index - 1] + lines[index], *lines[index + 1 :]]


def other_encoding(rng, name, lines):
    index = rng.randrange(len(lines))
    return [*lines[:index], lines[index] + "\udcff", *lines[index + 1 :]]


def unbalanced_quote(rng, name, lines):
    index = rng.randrange(len(lines) - SERIES + 1, len(lines))
    return [*lines[:index], '"' + lines[index], *lines[index + 1 :]]


def label_change(rng, name, lines):
    return [*lines[:-1], lines[-1] + "x"]


def junk_time(rng, name, lines):
    index = rng.randrange(1, len(lines))
    cells = lines[index].split(",")
    cells[1] = rng.choice(["soon", "2024-13-01", "", "nan", "12:00 Monday", "2024-01-01"])
    return [*lines[:index], ",".join(cells), *lines[index + 1 :]]


LINE_BREAKS = {
    cut_within_a_row: TEXT,
    two_rows_in_one: TEXT,
    other_encoding: TEXT,
    unbalanced_quote: CSV,
    label_change: LONG,
    junk_time: LONG,
}


# ---- binary files: arrays that can be broken before and after they are encoded ---------------------------


def npz(X, y):
    stream = io.BytesIO()
    np.savez_compressed(stream, X=X, y=y)
    return stream.getvalue()


def npy(X, y):
    stream = io.BytesIO()
    np.save(stream, X)
    return stream.getvalue()


def pt(X, y):
    stream = io.BytesIO()
    codes = np.unique(y, return_inverse=True)[1]
    torch.save({"samples": torch.from_numpy(X), "labels": torch.from_numpy(codes)}, stream)
    return stream.getvalue()


def parquet(X, y):
    stream = io.BytesIO()
    pq.write_table(pa.table({"x": list(X), "label": list(y)}), stream)
    return stream.getvalue()


BINARY = {"set.npz": npz, "set.npy": npy, "set.pt": pt, "set.parquet": parquet}


def valid_arrays(rng):
    X = np.array([[rng.uniform(-9, 9) for _ in range(LENGTH)] for _ in range(SERIES)])
    return X, np.array(["ab"[index % 2] for index in range(SERIES)])


def cut(rng, encode, X, y):
    content = encode(X, y)
    return content[: rng.randrange(len(content))]


def other_bytes(rng, encode, X, y):
    return rng.randbytes(rng.randrange(1, 400))


def infinity(rng, encode, X, y):
    X[rng.randrange(SERIES), rng.randrange(LENGTH)] = rng.choice([np.inf, -np.inf])
    return encode(X, y)


def empty_arrays(rng, encode, X, y):
    return encode(X[:0], y[:0])


def other_rank(rng, encode, X, y):
    return encode(X[0] if rng.random() < 0.5 else X[:, None, None], y)


def other_type(rng, encode, X, y):
    return encode(X.astype(rng.choice(["c16", "U9", "M8[s]", "V8", "O"])), y)


def other_number_of_labels(rng, encode, X, y):
    return encode(X, y[: rng.randrange(SERIES)])


def pickled_labels(rng, encode, X, y):
    return encode(X, y.astype(object))


def flipped_bit(rng, encode, X, y):
    content = bytearray(encode(X, y))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        member = archive.getinfo("X.npy")
    local = content[member.header_offset : member.header_offset + 30]
    start = (
        member.header_offset + 30 + int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    )
    content[start + rng.randrange(member.compress_size - 2)] ^= 1 << rng.randrange(8)
    return bytes(content)


def other_content(rng, encode, X, y):
    stream = io.BytesIO()
    tensor = torch.from_numpy(X)
    torch.save(
        rng.choice([[tensor], {"data": tensor}, {"samples": X.tolist()}, {"samples": random.Random(0)}]), stream
    )
    return stream.getvalue()


def other_lists(rng, encode, X, y):
    lists = [row.tolist() for row in X]
    lists[rng.randrange(SERIES)] = rng.choice([None, []])
    return encode(lists, y)


def text_columns(rng, encode, X, y):
    return encode([str(row) for row in X], y)


BINARY_BREAKS = {
    cut: BINARY,
    other_bytes: BINARY,
    infinity: BINARY,
    empty_arrays: BINARY,
    other_rank: {"set.npz", "set.npy", "set.pt"},
    other_type: {"set.npz", "set.npy"},
    other_number_of_labels: {"set.npz", "set.pt"},
    pickled_labels: {"set.npz"},
    flipped_bit: {"set.npz"},
    other_content: {"set.pt"},
    other_lists: {"set.parquet"},
    text_columns: {"set.parquet"},
}


# ---- the tests ----------------------------------------------------------------------------------------


def broken_file(name, how, rng):
    if name in BINARY:
        return how(rng, BINARY[name], *valid_arrays(rng))
    draft = valid_draft(name, rng)
    if how in DRAFT_BREAKS:
        how(rng, draft)
        return draft.write()
    lines = how(rng, name, draft.header + draft.rows())
    return "\n".join(lines).encode(errors="surrogateescape")


BREAKS = [
    (name, how)
    for breaks in (DRAFT_BREAKS, LINE_BREAKS, BINARY_BREAKS)
    for how, names in breaks.items()
    for name in sorted(names)
]


@pytest.mark.parametrize("name", [*TEXT, *BINARY])
def test_before_it_is_broken_the_file_is_read(tmp_path, name):
    rng = random.Random(0)
    content = BINARY[name](*valid_arrays(rng)) if name in BINARY else valid_draft(name, rng).write()
    (tmp_path / name).write_bytes(content)
    assert sum(1 for _ in read_records(tmp_path / name)) == SERIES


@pytest.mark.parametrize(
    ("seed", "name", "how"),
    [pytest.param(seed, *BREAKS[seed % len(BREAKS)]) for seed in range(CASES)],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_broken_file_gives_a_clean_error(tmp_path, seed, name, how):
    path = tmp_path / name
    path.write_bytes(broken_file(name, how, random.Random(seed)))
    assert read_or_refuse(path) is None


@pytest.mark.parametrize("name", TEXT)
def test_a_broken_gzip_gives_a_clean_error(tmp_path, name):
    rng = random.Random(name)
    content = gzip.compress(valid_draft(name, rng).write())
    path = tmp_path / f"{name}.gz"
    path.write_bytes(content[: rng.randrange(len(content))])
    assert read_or_refuse(path) is None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.parametrize("suffix", FORMATS)
@settings(max_examples=60, deadline=None)
@given(content=st.binary(max_size=200) | st.text("01.,:;'\"\t\n?%@# ablne", max_size=60).map(str.encode))
def test_arbitrary_bytes_are_read_or_refused(folder, suffix, content):
    path = folder / f"any{suffix}"
    path.write_bytes(content)
    read_or_refuse(path)


def edits(content, start=0):
    """Draw the content with a stretch of it replaced."""
    alphabet = st.text("0123456789.,:;'\"\t\n?%@#-e ab", max_size=12).map(str.encode)
    return st.builds(
        lambda at, span, new: content[:at] + new + content[at + span :],
        st.integers(start, len(content)),
        st.integers(0, 30),
        alphabet | st.binary(max_size=6),
    )


def point_of(line):
    """Return the id and the time of a line in the long format: where they are equal, values are averaged."""
    identity, time = (cell.strip() for cell in [*line.split(","), ""][:2])
    with suppress(ValueError):
        return identity, float(time)
    return identity, time


@pytest.mark.parametrize("name", BINARY)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_an_edited_binary_file_is_read_or_refused(folder, name, data):
    path = folder / name
    path.write_bytes(data.draw(edits(BINARY[name](*valid_arrays(random.Random(0))))))
    read_or_refuse(path)


@pytest.mark.parametrize("name", TEXT)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_an_edited_text_file_never_loses_a_line_of_data(folder, name, data):
    draft = valid_draft(name, random.Random(0))
    header = "".join(f"{line}\n" for line in draft.header).encode()
    # Without a header, what the first line becomes is what the file is.
    start = len(header) or len(draft.rows()[0]) + 1
    content = data.draw(edits(draft.write(), start))
    path = folder / name
    path.write_bytes(content)
    records = read_or_refuse(path)
    if records is not None:
        comments = ("#", "%") if name.endswith(".ts") else ("%",) if name.endswith(".arff") else ()
        lines = [line.strip() for line in content[len(header) :].decode().split("\n")]
        lines = [line for line in lines if line and not line.startswith(comments)]
        expected = len({point_of(line) for line in lines} if name in LONG else lines)
        found = sum(record.values.shape[1] for record in records) if name in LONG else len(records)
        assert found >= expected
