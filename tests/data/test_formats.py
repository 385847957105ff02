"""Every format reads back what was written, and refuses what it must."""

import gzip
import importlib.util
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from format_files import refusal, values_of, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nutime.data.formats.read import FORMATS, FormatError, is_series_file, read_file, read_records

# ---- round trips --------------------------------------------------------------------------------------


def _lines(rows):
    return "".join(f"{row}\n" for row in rows)


WRITERS = {
    "set.ts": lambda X, y: (
        "@univariate true\n@classLabel true a b\n@data\n"
        + _lines(",".join(map(repr, x)) + f":{label}" for x, label in zip(X, y, strict=True))
    ),
    "set.tsv": lambda X, y: _lines("\t".join([label, *map(repr, x)]) for x, label in zip(X, y, strict=True)),
    "set.txt": lambda X, y: _lines("  ".join([label, *map(repr, x)]) for x, label in zip(X, y, strict=True)),
    "comma.txt": lambda X, y: _lines(",".join([label, *map(repr, x)]) for x, label in zip(X, y, strict=True)),
    "set.csv": lambda X, y: _lines(",".join([label, *map(repr, x)]) for x, label in zip(X, y, strict=True)),
    "set.arff": lambda X, y: (
        "@relation r\n"
        + _lines(f"@attribute t{index} numeric" for index in range(len(X[0])))
        + "@attribute class {a,b}\n@data\n"
        + _lines(",".join([*map(repr, x), label]) for x, label in zip(X, y, strict=True))
    ),
    "long.csv": lambda X, y: (
        "series_id,Timestamp,value,Label\n"
        + _lines(
            f"{index},{time},{value!r},{label}"
            for index, (x, label) in enumerate(zip(X, y, strict=True))
            for time, value in enumerate(x)
        )
    ),
}


@pytest.mark.parametrize("name", WRITERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(data=st.data())
def test_a_text_format_gives_back_every_bit_of_every_value(name, tmp_path, data):
    numbers = st.floats(allow_infinity=False)
    length = data.draw(st.integers(1, 5))
    X = data.draw(st.lists(st.lists(numbers, min_size=length, max_size=length), min_size=1, max_size=4))
    y = data.draw(st.lists(st.sampled_from("ab"), min_size=len(X), max_size=len(X)))
    path = tmp_path / name
    path.write_text(WRITERS[name](X, y))
    table = read_file(path)
    np.testing.assert_array_equal(np.stack(table.series)[:, 0], X)
    assert table.labels.tolist() == y


@pytest.mark.parametrize("shape", [(3, 5), (3, 2, 5)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".pt"])
def test_an_array_file_gives_back_values_and_precision(tmp_path, suffix, shape, dtype):
    X = np.random.default_rng(0).normal(size=shape).astype(dtype)
    X[1, ..., -1] = np.nan
    path = tmp_path / f"set{suffix}"
    if suffix == ".npy":
        np.save(path, X)
    elif suffix == ".npz":
        np.savez_compressed(path, X=X)
    else:
        torch.save({"samples": torch.from_numpy(X)}, path)
    table = read_file(path)
    assert {values.dtype for values in table.series} == {np.dtype(dtype)}
    np.testing.assert_array_equal(np.stack(table.series), X.reshape(3, -1, 5))
    assert table.labels is None
    assert table.ids is None


def test_a_gzipped_text_file_is_read_like_the_plain_one(tmp_path):
    assert values_of(write(tmp_path / "set.csv.gz", gzip.compress(b"1,2\n3,4\n"))) == [[[1, 2]], [[3, 4]]]


def test_the_suffix_may_be_in_capitals(tmp_path):
    assert values_of(write(tmp_path / "SET.CSV", "1,2\n")) == [[[1, 2]]]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_line_endings_and_a_missing_last_one_do_not_matter(tmp_path, ending, last):
    text = ending.join(["a\t1\t2", "b\t3\t4"]) + (ending if last else "")
    table = read_file(write(tmp_path / "set.tsv", text))
    assert table.labels.tolist() == ["a", "b"]
    assert table.series[1].tolist() == [[3, 4]]


def test_a_byte_order_mark_is_no_part_of_the_first_cell(tmp_path):
    assert read_file(write(tmp_path / "set.csv", b"\xef\xbb\xbflabel,t0\nx,1\n")).labels.tolist() == ["x"]


# ---- what is refused in any format --------------------------------------------------------------------
@pytest.mark.parametrize("suffix", FORMATS)
def test_an_empty_file_is_refused(tmp_path, suffix):
    assert refusal(write(tmp_path / f"set{suffix}", b""))


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_missing_file_is_refused(tmp_path, suffix):
    assert "cannot be read" in refusal(tmp_path / f"set{suffix}")


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_folder_is_refused(tmp_path, suffix):
    (tmp_path / f"set{suffix}").mkdir()
    assert "cannot be read" in refusal(tmp_path / f"set{suffix}")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read anything")
@pytest.mark.parametrize("suffix", FORMATS)
def test_a_file_without_permission_is_refused(tmp_path, suffix):
    path = write(tmp_path / f"set{suffix}", "1,2\n")
    path.chmod(0)
    assert "cannot be read" in refusal(path)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_another_encoding_is_refused_with_the_line(tmp_path, encoding):
    text = "é,1\n".encode(encoding)
    assert refusal(write(tmp_path / "set.csv", text)) == "1: is not UTF-8 text; save it as UTF-8"


def test_a_gzip_cut_short_is_refused(tmp_path):
    assert "cannot be read" in refusal(write(tmp_path / "set.csv.gz", gzip.compress(b"1,2\n" * 1000)[:-20]))


@pytest.mark.parametrize("name", ["set.xlsx", "set", "set.npz.gz", ".csvx"])
def test_an_unknown_suffix_is_refused_with_the_known_ones(tmp_path, name):
    complaint = refusal(tmp_path / name)
    assert all(suffix in complaint for suffix in FORMATS)


def test_only_known_suffixes_are_series_files():
    assert all(is_series_file(f"set{suffix}") for suffix in FORMATS)
    assert is_series_file(Path("a") / "SET.TS")
    assert not any(map(is_series_file, ["set.md", "set", "set.parquet.gz", "ts"]))


# ---- streaming ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["set.ts", "set.tsv", "set.txt", "set.csv", "set.arff", "long.csv"])
def test_a_series_comes_before_the_rest_of_the_file_is_read(tmp_path, name):
    text = WRITERS[name]([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "aba").rstrip()
    records = read_records(write(tmp_path / name, text + "junk"))
    assert next(records).values.tolist() == [[1, 2]]
    with pytest.raises(FormatError):
        list(records)


def test_memory_does_not_grow_with_a_text_file(tmp_path):
    row = "\t".join(["1", *["0.123456789"] * 200]) + "\n"
    path = write(tmp_path / "set.tsv", row * 2000)
    tracemalloc.start()
    assert sum(1 for _ in read_records(path)) == 2000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size / 10


# ---- published files ----------------------------------------------------------------------------------


@pytest.fixture
def bundled():
    """Return the folder of the sets bundled with aeon."""
    spec = importlib.util.find_spec("aeon")
    if spec is None or spec.origin is None:
        pytest.skip("aeon is not installed")
    folder = Path(spec.origin).parent / "datasets" / "data"
    if not folder.is_dir():
        pytest.skip("this aeon bundles no sets")
    return folder


@pytest.mark.parametrize(
    "name",
    [
        "GunPoint",
        "BasicMotions",
        "JapaneseVowels",
        "PickupGestureWiimoteZ",
        "ItalyPowerDemand",
        "CardanoSentiment",
    ],
)
@pytest.mark.parametrize("split", ["TRAIN", "TEST"])
def test_ts_files_are_read_as_aeon_reads_them(bundled, name, split):
    from aeon.datasets import load_from_ts_file

    path = bundled / name / f"{name}_{split}.ts"
    if not path.is_file():
        pytest.skip(f"needs an aeon that bundles {name}")
    X, y = load_from_ts_file(str(path), return_type=None)
    table = read_file(path)
    assert len(table.series) == len(X)
    for ours, theirs in zip(table.series, X, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    if np.asarray(y).dtype.kind == "f":
        np.testing.assert_array_equal(table.labels.astype(float), y)
    else:
        assert [label.lower() for label in table.labels] == np.asarray(y).tolist()  # aeon drops the case


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("GunPoint", ".arff"), ("GunPoint", ".tsv"), ("ArrowHead", ".arff"), ("BasicMotions", ".arff")],
)
def test_the_same_set_reads_the_same_in_every_format(bundled, name, suffix):
    ts, other = (read_file(bundled / name / f"{name}_TRAIN{s}") for s in (".ts", suffix))
    assert sorted(ts.labels.tolist()) == sorted(other.labels.tolist())
    np.testing.assert_allclose(
        np.sort(np.stack(ts.series), axis=0), np.sort(np.stack(other.series), axis=0), rtol=1e-6
    )


def test_timestamps_in_a_published_file_are_refused_with_the_line(bundled):
    assert refusal(bundled / "UnitTest" / "UnitTestTimeStamps_TRAIN.ts").startswith("5: series of (time, value)")


def test_every_npz_of_the_data_folder_is_read_whole():
    default = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    folder = Path(os.environ.get("NUTIME_DATA", default))
    paths = sorted(folder.glob("ucr/*.npz"))[:12] + sorted(folder.glob("uea/*.npz"))[:2]
    if not paths:
        pytest.skip("no data folder; set NUTIME_DATA")
    for path in paths:
        with np.load(path, allow_pickle=False) as arrays:
            expected = sum(len(arrays[key]) for key in arrays.files if key.startswith("X"))
        assert sum(1 for _ in read_records(path)) == expected
