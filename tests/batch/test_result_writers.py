"""Tables of results: every format, chunk by chunk, complete or not there at all."""

import csv
import os
import stat

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nutime.batch import results
from nutime.batch.results import check_folder, check_output, open_results

ANYTHING = {
    "id": np.array(["p,1", 'q"2"', "r\t3"]),
    "e": np.arange(6, dtype=np.float32).reshape(3, 2) / 3,
    "score": np.array([1e-30, 1 / 3, 1.0]),
    "cluster": np.array([0, 1, 2]),
    "is_anomaly": np.array([True, False, True]),
}


def write(path, text):
    path.write_text(text)
    return path


def write_results(columns, out):
    with open_results(out) as write_chunk:
        write_chunk(columns)


# ---- writing ------------------------------------------------------------------------------------------


def read_back(path):
    """Return the columns of a result file as lists, read without any help of ours."""
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pydict()
    tabs = path.suffix == ".tsv"
    parsed = pa_csv.read_csv(path, parse_options=pa_csv.ParseOptions(delimiter="\t" if tabs else ","))
    return parsed.to_pydict()


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_a_flat_table_has_a_column_for_each_dimension(tmp_path, suffix):
    write_results(ANYTHING, str(tmp_path / f"out{suffix}"))
    found = read_back(tmp_path / f"out{suffix}")
    assert list(found) == ["id", "e0", "e1", "score", "cluster", "is_anomaly"]
    for name in ("id", "score", "cluster", "is_anomaly"):
        assert found[name] == ANYTHING[name].tolist()
    np.testing.assert_array_equal(np.float32(found["e1"]), ANYTHING["e"][:, 1])


def test_npz_keeps_the_arrays_as_they_are(tmp_path):
    write_results(ANYTHING, str(tmp_path / "out.npz"))
    with np.load(tmp_path / "out.npz", allow_pickle=False) as found:
        assert list(found) == list(ANYTHING)
        for name, array in ANYTHING.items():
            np.testing.assert_array_equal(found[name], array)
            assert found[name].dtype == array.dtype


def test_parquet_keeps_single_precision(tmp_path):
    write_results(ANYTHING, str(tmp_path / "out.parquet"))
    assert pq.read_schema(tmp_path / "out.parquet").field("e0").type == pa.float32()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=20),
    text=st.text(st.characters(exclude_categories=["Cs", "Cc"])),
)
def test_csv_gives_back_every_number_and_every_text(tmp_path, values, text):
    numbers = np.array(values, np.float32)
    write_results({"name": np.array([text] * len(values)), "e": numbers[:, None]}, str(tmp_path / "out.csv"))
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["name", "e0"]
    assert {row[0] for row in rows} == {text}
    np.testing.assert_array_equal(np.array([row[1] for row in rows], np.float32), numbers)


@pytest.mark.parametrize("unit", ["D", "s", "ms", "us", "ns"])
def test_csv_has_all_dates_in_the_coarsest_unit_that_holds_them(tmp_path, unit):
    finer = np.datetime64("2024-03-01", "ns") + np.arange(3) * np.timedelta64(1, unit)
    write_results({"start": finer[:1].repeat(3), "end": finer}, str(tmp_path / "out.csv"))
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    length = {"D": 10, "s": 19, "ms": 23, "us": 26, "ns": 29}[unit]
    assert {len(row[name]) for row in rows for name in row} == {length}
    np.testing.assert_array_equal([np.datetime64(row["end"]) for row in rows], finer)


def test_csv_has_durations_in_seconds(tmp_path):
    durations = np.array([0, 1500], "timedelta64[ms]")
    write_results({"time": durations}, str(tmp_path / "out.csv"))
    assert (tmp_path / "out.csv").read_text() == "time\n0\n1.5\n"


def test_more_rows_than_are_written_at_a_time_keep_their_order(tmp_path):
    numbers = np.arange(10_000)
    write_results({"cluster": numbers}, str(tmp_path / "out.csv"))
    assert read_back(tmp_path / "out.csv")["cluster"] == numbers.tolist()


def test_a_dash_writes_csv_to_standard_output(capfdbinary):
    write_results({"id": np.array(["p"]), "score": np.array([0.5])}, "-")
    assert capfdbinary.readouterr().out == b"id,score\np,0.5\n"


def test_an_existing_file_is_replaced(tmp_path):
    path = write(tmp_path / "out.csv", "old")
    write_results({"cluster": np.array([1])}, str(path))
    assert path.read_text() == "cluster\n1\n"


def test_of_a_link_the_file_it_points_to_is_replaced(tmp_path):
    path = write(tmp_path / "real.csv", "old")
    (tmp_path / "link.csv").symlink_to(path)
    write_results({"cluster": np.array([1])}, str(tmp_path / "link.csv"))
    assert (tmp_path / "link.csv").is_symlink()
    assert path.read_text() == "cluster\n1\n"


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_failed_write_leaves_what_was_there_and_nothing_else(tmp_path, suffix):
    path = write(tmp_path / f"out{suffix}", "old")
    unequal = {"id": np.array(["p", "q"]), "score": np.array([1.0])}
    with pytest.raises(ValueError, match="length"):
        write_results(unequal, str(path))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_permissions_of_any_other(tmp_path):
    ordinary = write(tmp_path / "ordinary", "")
    write_results({"cluster": np.array([1])}, str(tmp_path / "out.csv"))
    assert stat.S_IMODE(os.stat(tmp_path / "out.csv").st_mode) == stat.S_IMODE(os.stat(ordinary).st_mode)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".npz"])
def test_chunks_are_appended(tmp_path, suffix):
    write_results(ANYTHING, str(tmp_path / f"whole{suffix}"))
    with open_results(str(tmp_path / f"chunks{suffix}")) as write_chunk:
        for rows in (slice(0, 1), slice(1, 3)):
            write_chunk({name: array[rows] for name, array in ANYTHING.items()})
    if suffix == ".npz":
        with np.load(tmp_path / "whole.npz") as whole, np.load(tmp_path / "chunks.npz") as chunks:
            assert all(np.array_equal(whole[name], chunks[name]) for name in ANYTHING)
    else:
        assert read_back(tmp_path / f"chunks{suffix}") == read_back(tmp_path / f"whole{suffix}")


def test_a_folder_appears_when_it_is_complete(tmp_path):
    with open_results(str(tmp_path / "out")) as write_chunk:
        for value in range(2):
            write_chunk({"cluster": np.array([value])})
        assert not (tmp_path / "out").exists()
    parts = {path.name: pq.read_table(path)["cluster"].to_pylist() for path in (tmp_path / "out").iterdir()}
    assert parts == {"part-000000.parquet": [0, 1]}


def test_row_groups_of_parquet_are_limited_by_rows_and_by_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "_GROUP_ROWS", 4)
    monkeypatch.setattr(results, "_GROUP_BYTES", 100)
    for name, width in (("rows", 1), ("bytes", 100)):
        with open_results(str(tmp_path / f"{name}.parquet")) as write_chunk:
            for _ in range(5):
                write_chunk({"e": np.zeros((2, width), np.float32)})
    groups = {name: pq.ParquetFile(tmp_path / f"{name}.parquet").num_row_groups for name in ("rows", "bytes")}
    assert groups == {"rows": 3, "bytes": 5}


def fail_after_a_chunk(out):
    with open_results(out) as write_chunk:
        write_chunk({"cluster": np.array([1])})
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.parquet", "out.npz", "out"])
def test_an_interrupt_leaves_nothing_behind(tmp_path, name):
    with pytest.raises(KeyboardInterrupt):
        fail_after_a_chunk(str(tmp_path / name))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["out.parquet", "out"])
def test_an_interrupt_leaves_nothing_behind_on_a_remote_file_system(name):
    with pytest.raises(KeyboardInterrupt):
        fail_after_a_chunk(f"memory://interrupted/{name}")
    assert not fsspec.filesystem("memory").find("interrupted")


# ---- places -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".npz", ""])
def test_a_place_for_results_is_accepted(tmp_path, suffix):
    check_output(str(tmp_path / f"out{suffix}"), "-", "GunPoint", str(tmp_path / "in.csv"))
    check_output("-", "-")


@pytest.mark.parametrize(
    ("out", "complaint"),
    [("out.xlsx", "unknown suffix"), ("nowhere/out.csv", "no folder"), ("folder.csv", "is a folder")],
)
def test_a_place_where_nothing_can_be_written_is_refused(tmp_path, out, complaint):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match=complaint):
        check_output(str(tmp_path / out))


@pytest.mark.parametrize("disguise", ["set.csv", "../{0}/set.csv", "link.csv"])
def test_an_input_is_never_an_output(tmp_path, disguise):
    path = write(tmp_path / "set.csv", "1,2\n")
    (tmp_path / "link.csv").symlink_to(path)
    with pytest.raises(ValueError, match="is the input"):
        check_output(str(tmp_path / disguise.format(tmp_path.name)), "-", str(path))


@pytest.mark.parametrize("pattern", ["*.csv", "**/*.csv", "set[[]1].csv", "set[1].csv"])
def test_a_file_of_a_pattern_is_never_an_output(tmp_path, pattern):
    path = write(tmp_path / "set[1].csv", "1,2\n")
    with pytest.raises(ValueError, match="is the input"):
        check_output(str(path), str(tmp_path / pattern))
    check_output(str(tmp_path / "results.csv"), str(tmp_path / pattern))


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "model").write_text("")
    with pytest.raises(ValueError, match="is a file; name a folder"):
        check_folder(tmp_path / "model")
    check_folder(tmp_path)
    check_folder(tmp_path / "not" / "yet")


def test_a_folder_that_is_not_empty_is_replaced_only_by_force(tmp_path):
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(ValueError, match="exists already; give --force"):
        check_folder(tmp_path, force=False)
    check_folder(tmp_path, force=True)
    check_folder(tmp_path / "new", force=False)
