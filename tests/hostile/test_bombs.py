"""Small files that claim large contents: each is refused in one line, in seconds and with little memory."""

import gzip
import io
import json
import os
import pickle
import re
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nutime.batch.source import Source
from nutime.data.archives import load_dataset
from nutime.data.corpus.store import Corpus, CorpusWriter
from nutime.data.formats.read import FORMATS, read_records
from nutime.data.series import as_series
from nutime.encoder import NuTime
from nutime.estimators import storage
from nutime.estimators.classifier import NuTimeClassifier
from nutime.model.config import NuTimeConfig

TINY = NuTimeConfig(window=4, length=16, dim=8, depth=1, heads=1, head_dim=8, mlp_dim=8, scalar_dim=4, scales=3)


def read_all(path):
    return list(read_records(path))


def archive(**members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return stream.getvalue()


def header(shape, kind="<f8"):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": kind, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def parquet(**columns):
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


def text_parquet(kind, **options):
    text = b"a" * 2**20 if "binary" in str(kind) else "a" * 2**20
    stream = io.BytesIO()
    label = pa.array([text], kind).take(pa.array(np.zeros(256, np.int32))) if kind else [text] * 256
    pq.write_table(pa.table({"x": [1.0] * 256, "label": label}), stream, **options)
    return stream.getvalue()


def list_parquet():
    """Return a file of a few kilobytes with 64 lists of a million zeros each."""
    rows = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(2**20)), 2**20)
    stream = io.BytesIO()
    schema = pa.schema({"x": pa.list_(pa.float64())})
    with pq.ParquetWriter(stream, schema) as writer:
        for _ in range(64):
            writer.write_table(pa.table({"x": rows.cast(schema.field("x").type)}))
    return stream.getvalue()


class Allocating:
    """Pickled as a call that torch permits, of a type that allocates what it is given."""

    def __reduce__(self):
        return bytearray, (2_000_000_000,)


def pt(content, protocol=2):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("set/data.pkl", pickle.dumps(content, protocol))
        file.writestr("set/version", "3\n")
        file.writestr("set/byteorder", "little")
    return stream.getvalue()


LONG = b"a" * 60_000
BOMB = "unpacks to more than 100 times its size"
LONG_TEXT = r"holds a text of \d+ characters, at most 256; shorten labels and ids"
HUGE_HEADER = b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("zeros.npz", lambda: archive(X=header((2**8, 2**17)) + bytes(2**28)), BOMB),
        ("header.npz", lambda: archive(X=HUGE_HEADER + bytes(2**28)), BOMB),
        ("header.npy", lambda: HUGE_HEADER, "cannot be read"),
        ("shape.npy", lambda: header((2**62, 2**62)) + bytes(64), "more than the file has"),
        ("negative.npy", lambda: header((-1, -8)) + bytes(64), "cannot be read|more than the file has"),
        ("one_line.csv.gz", lambda: gzip.compress(b"1," * 2**25), "more than 16777216 bytes in a line"),
        ("lines.ts.gz", lambda: gzip.compress(b"%" * 999 + b"\n" * 2 + (b"%" * 999 + b"\n") * 2**15), BOMB),
        ("channels.ts", lambda: b"@data\n" + b"1:" * 2**21, "has 2097153 channels"),
        ("count.ts", lambda: b"@dimensions " + b"9" * 10**6, "expected a positive whole number"),
        ("dimensions.ts", lambda: b"@dimensions 999999999\n@data\n1,2\n", "limit|expected 999999999"),
        ("length.ts", lambda: b"@serieslength -1\n@data\n1\n", "expected a positive whole number"),
        ("classes.arff", lambda: b"@attribute c {" + b" " * 10**6 + b"'}\n@data\n", "separated by commas"),
        ("cell.csv", lambda: b'id,value\n"' + b"a" * 10**7 + b'",1\n', "field"),
        ("rows.parquet", lambda: parquet(x=np.zeros(2**25)), BOMB),
        ("lists.parquet", list_parquet, BOMB),
        ("commas.csv", lambda: b"," * (2**24 - 1), "more than 1048576 cells in a line"),
        ("commas_after_a_number.csv", lambda: b"1" + b"," * 2**23, "more than 1048576 cells in a line"),
        ("tabs.tsv", lambda: b"1" + b"\t" * 2**23, "more than 1048576 cells in a line"),
        ("rows.csv.gz", lambda: gzip.compress(b",\n" * 4_800_000), "more lines than it has bytes"),
        ("label.csv", lambda: b"label,a\n" + LONG + b",1\n" + b"b,1\n" * 30_000, LONG_TEXT),
        ("id.csv", lambda: b"id,a\n" + LONG + b",1\n" + b"b,1\n" * 30_000, LONG_TEXT),
        ("long_id.csv", lambda: b"id,time,a\n" + LONG + b",0,1\n" + b"b,0,1\n" * 9, LONG_TEXT),
        ("label.tsv", lambda: LONG + b"\t1\n" + b"b\t1\n" * 30_000, LONG_TEXT),
        ("label.txt", lambda: LONG + b",1\n" + b"b,1\n" * 30_000, LONG_TEXT),
        ("label.ts", lambda: b"@classLabel true\n@data\n1:" + LONG + b"\n" + b"1:b\n" * 30_000, LONG_TEXT),
        ("label.arff", lambda: b"@attribute a numeric\n@attribute class string\n@data\n1," + LONG, LONG_TEXT),
        ("string.parquet", lambda: text_parquet(pa.string()), LONG_TEXT),
        ("large_string.parquet", lambda: text_parquet(pa.large_string()), LONG_TEXT),
        ("binary.parquet", lambda: text_parquet(pa.binary()), LONG_TEXT),
        ("large_binary.parquet", lambda: text_parquet(pa.large_binary()), LONG_TEXT),
        ("plain.parquet", lambda: text_parquet(pa.string(), use_dictionary=False, compression="zstd"), BOMB),
        ("bytearray.pt", lambda: pt(Allocating()), "names '__builtin__ bytearray'"),
        ("stacked.pt", lambda: pt(Allocating(), protocol=4), "names 'STACK_GLOBAL'"),
        ("text.pt", lambda: b"\x80\x02X" + struct.pack("<I", 2**31 - 1) + b"a", "cannot be read"),
        ("claim.pt", lambda: pt({"samples": 2**50}), "claims a size of 1125899906842624"),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else "",
)
def test_a_bomb_is_refused_before_it_goes_off(tmp_path, refusal, name, content, reason):
    path = tmp_path / name
    path.write_bytes(content())
    message = refusal(read_all, path)
    assert message.startswith(f"{path}:")
    assert re.search(reason, message)


@pytest.mark.parametrize("kind", ["string_view", "binary_view"])
def test_long_labels_of_views_are_refused(tmp_path, refusal, kind):
    if not hasattr(pa, kind):
        pytest.skip("this Arrow has no views")
    text = ("a" if kind == "string_view" else b"a") * 2**20
    label = pa.array([text] * 256, getattr(pa, kind)())
    pq.write_table(pa.table({"x": [1.0] * 256, "label": label}), tmp_path / "set.parquet")
    assert re.search(LONG_TEXT, refusal(read_all, tmp_path / "set.parquet"))


def test_categories_of_long_text_are_refused(tmp_path, refusal):
    label = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1024, np.int32)), ["a" * 2**20])
    pq.write_table(pa.table({"x": [1.0] * 1024, "label": label}), tmp_path / "set.parquet")
    assert re.search(LONG_TEXT, refusal(read_all, tmp_path / "set.parquet"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lambda: parquet(x=np.zeros(2**25)), BOMB),
        (list_parquet, BOMB),
        (lambda: text_parquet(pa.large_string()), LONG_TEXT),
        (lambda: parquet(time=[1.0] * 9, id=["a" * 2**20] * 9, x=[1.0] * 9), LONG_TEXT),
    ],
    ids=["rows", "lists", "label", "id"],
)
def test_the_batch_engine_refuses_what_the_reader_refuses(tmp_path, refusal, content, reason):
    path = tmp_path / "set.parquet"
    path.write_bytes(content())
    message = refusal(lambda: list(Source(str(path)).chunks()))
    assert message.startswith(f"{path}:")
    assert re.search(reason, message)


@pytest.mark.parametrize("suffix", sorted(FORMATS))
@pytest.mark.parametrize("read", [read_all, lambda path: list(Source(str(path)).chunks())], ids=["read", "batch"])
def test_pipes_and_devices_are_refused(tmp_path, refusal, suffix, read):
    pipe, device = tmp_path / f"pipe{suffix}", tmp_path / f"zero{suffix}"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        assert refusal(read, path) == f"{path}: cannot be read: is not a regular file"


def test_an_archive_set_with_one_long_series_is_not_padded_to_it(tmp_path, refusal):
    home = tmp_path / "GunPoint"
    home.mkdir()
    lines = b"1,2:1\n" * 30_000 + b"1," * 500_000 + b"2:1\n"
    (home / "GunPoint_TRAIN.ts").write_bytes(b"@classLabel true 1 2\n@data\n" + lines)
    assert BOMB in refusal(lambda: load_dataset("GunPoint", split="train", data_dir=tmp_path))


def test_a_file_of_labels_must_be_a_regular_file(tmp_path, refusal):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a.csv").write_text("1\n2\n")
    (tmp_path / "labels.csv").symlink_to("/dev/zero")
    message = refusal(lambda: list(read_records(tmp_path / "runs", labels=tmp_path / "labels.csv")))
    assert message.endswith("labels.csv: cannot be read: is not a regular file")


def test_compressed_zeros_of_an_honest_size_are_read(tmp_path):
    np.savez_compressed(tmp_path / "set.npz", X=np.zeros((10, 10_000)))
    assert len(read_all(tmp_path / "set.npz")) == 10


@pytest.mark.parametrize("name", ["../../evil", "/evil", "..\\evil"])
def test_a_member_that_points_outside_is_never_written(tmp_path, name):
    inside = tmp_path / "one" / "two"
    inside.mkdir(parents=True)
    (inside / "set.npz").write_bytes(archive(**{name: header((1, 4)) + bytes(32)}))
    assert len(read_all(inside / "set.npz")) == 1
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["set.npz"]


def test_a_flood_of_nan_is_no_series(tmp_path, refusal):
    (tmp_path / "set.csv").write_bytes(b"1,2\n" + b"nan,nan\n" * 10**5)
    series = [record.values for record in read_records(tmp_path / "set.csv")]
    assert refusal(as_series, series).startswith("series 1: has only NaN")


def test_more_classes_than_anyone_has_are_read_in_bounded_time(tmp_path, refusal):
    classes = b" ".join(b"%d" % index for index in range(10**5))
    (tmp_path / "set.ts").write_bytes(b"@classLabel true " + classes + b"\n@data\n1,2:1000000000\n")
    assert "is not one of the classes" in refusal(read_all, tmp_path / "set.ts")


# ---- saved models ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def classifier():
    X = np.random.default_rng(0).normal(size=(8, 12))
    return NuTimeClassifier(encoder=NuTime(TINY)).fit(X, ["a", "b"] * 4)


@pytest.fixture
def saved(classifier, tmp_path):
    return classifier.save(tmp_path / "model")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("depth", 10**9),
        ("dim", 2**40),
        ("mlp_dim", 10**12),
        ("length", 2**40),
        ("channels", 10**9),
        ("scalar_dim", 2**30),
    ],
)
def test_the_config_of_a_giant_is_refused_before_it_is_built(saved, refusal, field, value):
    path = saved / "encoder" / "config.json"
    document = json.loads(path.read_text())
    document["network"][field] = value
    path.write_text(json.dumps(document))
    assert refusal(NuTime.from_pretrained, saved / "encoder").startswith(str(saved / "encoder"))


@pytest.mark.parametrize(
    "content", ["[" * 10**5, '{"format":' * 10**5, " " * (2**24 + 1)], ids=["[", "{", "blanks"]
)
def test_json_without_end_is_refused(saved, refusal, content):
    path = saved / "estimator.json"
    path.write_text(content)
    assert refusal(storage.load, saved).startswith(f"{path}: not a readable estimator")


@pytest.mark.parametrize(
    "classes",
    [
        {"dtype": "<U1000000000", "values": ["a", "b"]},
        {"dtype": "|V1000000000", "values": [0]},
        {"dtype": "<f8", "values": [[0.0] * 1000] * 1000},
    ],
    ids=["text", "void", "nested"],
)
def test_labels_of_gigabytes_are_refused(saved, refusal, classes):
    path = saved / "estimator.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"classes": classes}))
    assert refusal(storage.load, saved).startswith(f"{path}: not written by nutime, or damaged")


@pytest.mark.parametrize("size", [0, 2**32, 2**63])
def test_a_safetensors_header_of_any_claimed_size_is_refused(saved, refusal, size):
    config = saved / "encoder" / "config.json"  # without the checksum, as a forger or an older version writes it
    config.write_text(json.dumps({k: v for k, v in json.loads(config.read_text()).items() if k != "sha256"}))
    path = saved / "encoder" / "model.safetensors"
    path.write_bytes(struct.pack("<Q", size) + path.read_bytes()[8:])
    assert refusal(NuTime.from_pretrained, saved / "encoder").startswith(f"{path}: not readable as safetensors")


# ---- corpora --------------------------------------------------------------------------------------------


@pytest.fixture
def corpus(tmp_path):
    with CorpusWriter(tmp_path / "corpus") as writer:
        writer.add("a", np.random.default_rng(0).normal(size=(4, 9)))
    return tmp_path / "corpus"


@pytest.mark.parametrize(
    ("field", "value"),
    [("file", "../secret"), ("file", "/etc/hostname"), ("series", -1), ("values", 1.5), ("bytes", True)],
)
def test_an_index_that_points_elsewhere_or_counts_badly_is_refused(corpus, refusal, field, value):
    index = json.loads((corpus / "corpus.json").read_text())
    index["shards"][0][field] = value
    (corpus / "corpus.json").write_text(json.dumps(index))
    assert "corpus.json: is damaged" in refusal(Corpus.open, corpus)


def test_a_shard_that_is_a_link_out_of_the_folder_or_a_pipe_is_refused(corpus, tmp_path, refusal):
    shard = corpus / "shard-00000.arrow"
    shard.rename(tmp_path / "elsewhere.arrow")
    shard.symlink_to(tmp_path / "elsewhere.arrow")
    assert refusal(Corpus.open, corpus).startswith(f"{shard}: is missing or elsewhere")
    shard.unlink()
    os.mkfifo(shard)
    assert refusal(Corpus.open, corpus).startswith(f"{shard}: is missing or elsewhere")


@pytest.mark.parametrize("offset", [-1, 0, 10**9, -(2**63)])
def test_a_shard_with_a_bent_offset_is_refused(corpus, refusal, offset):
    shard = corpus / "shard-00000.arrow"
    content = shard.read_bytes()
    place = content.index(struct.pack("<qqq", 0, 9, 18)) + 8
    shard.write_bytes(content[:place] + struct.pack("<q", offset) + content[place + 8 :])
    assert refusal(Corpus.open(corpus).flat) == f"{shard}: is damaged; copy it again or build the corpus again"
