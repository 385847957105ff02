"""What commands read and write: any address in, complete results out or none at all."""

import csv
import io
import os
import stat
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from format_files import write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nutime.data.formats.read import FormatError, read_file
from nutime.data.results import WRITERS, check_folder, check_output, read_table, write_table

LABELLED = "kind,t0,t1,t2\nwalk,1,2,3\nrun,4,5,6\n"
ANYTHING = {
    "id": np.array(["p,1", 'q"2"', "r\t3"]),
    "e": np.arange(6, dtype=np.float32).reshape(3, 2) / 3,
    "score": np.array([1e-30, 1 / 3, 1.0]),
    "cluster": np.array([0, 1, 2]),
    "is_anomaly": np.array([True, False, True]),
}


def give_stdin(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


# ---- reading ------------------------------------------------------------------------------------------


def test_a_file_is_read_with_its_labels_and_ids(tmp_path):
    table = read_table(str(write(tmp_path / "set.csv", "id,label,a,b\np,x,1,2\nq,y,3,4\n")))
    assert [values.tolist() for values in table.series] == [[[1, 2]], [[3, 4]]]
    assert (table.labels.tolist(), table.ids) == (["x", "y"], ["p", "q"])


def test_series_come_out_finite(tmp_path):
    table = read_table(str(write(tmp_path / "set.csv", "1,,3,\n4,5,6,7\n")))
    assert [values.tolist() for values in table.series] == [[[1, 2, 3]], [[4, 5, 6, 7]]]


def test_a_series_without_values_is_named_with_its_file(tmp_path):
    path = write(tmp_path / "set.csv", "label,a,b\nx,1,2\ny,,\n")
    with pytest.raises(ValueError, match=r"set\.csv: series 1: has only NaN") as caught:
        read_table(str(path))
    assert str(caught.value).startswith(str(path))


def test_a_dash_is_csv_on_standard_input(monkeypatch):
    give_stdin(monkeypatch, "label,a,b\nx,1,2\n")
    table = read_table("-")
    assert (table.series[0].tolist(), table.labels.tolist()) == ([[1, 2]], ["x"])


def test_what_is_wrong_on_standard_input_is_told_with_its_line(monkeypatch):
    give_stdin(monkeypatch, "1,2\n1\n")
    with pytest.raises(FormatError, match=r"standard input:2: has 1 cell"):
        read_table("-")


def test_an_empty_standard_input_is_refused(monkeypatch):
    give_stdin(monkeypatch, "")
    with pytest.raises(FormatError, match="standard input: holds no series"):
        read_table("-")


@pytest.mark.parametrize(("split", "count"), [("train", 50), ("test", 150), (None, 200)])
def test_an_archive_set_is_read_by_name(split, count):
    pytest.importorskip("aeon")
    table = read_table("GunPoint", split)
    assert (len(table.series), len(table.labels)) == (count, count)
    assert table.series[0].shape == (1, 150)


def test_an_archive_set_of_several_channels_keeps_them():
    pytest.importorskip("aeon")
    assert read_table("BasicMotions", "train").series[0].shape == (6, 100)


def test_a_name_that_is_neither_file_nor_set_is_refused_with_close_names():
    with pytest.raises(ValueError, match=r"GunPoit: no such file, and no archive has .* closest names: GunPoint"):
        read_table("GunPoit")


def test_a_folder_without_series_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no files of series"):
        read_table(str(tmp_path))


def test_of_a_file_with_several_sets_one_is_read(tmp_path):
    np.savez(tmp_path / "set.npz", X_train=np.zeros((3, 4)), X_test=np.zeros((2, 4)))
    assert len(read_table(str(tmp_path / "set.npz"), "test").series) == 2


# ---- chosen columns -----------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["kind", "KIND", " kind", "0", "-4"])
def test_the_label_column_is_chosen_by_name_or_position(tmp_path, column):
    table = read_file(write(tmp_path / "set.csv", LABELLED), label_column=column)
    assert table.labels.tolist() == ["walk", "run"]
    assert [values.tolist() for values in table.series] == [[[1, 2, 3]], [[4, 5, 6]]]


def test_the_id_column_is_chosen(tmp_path):
    table = read_file(write(tmp_path / "set.csv", LABELLED), id_column="kind")
    assert (table.ids, table.labels) == (["walk", "run"], None)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(data=st.data())
def test_in_a_csv_without_names_any_column_can_hold_the_labels(tmp_path, data):
    numbers = st.floats(-1e6, 1e6)
    X = data.draw(st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=4))
    place = data.draw(st.integers(0, 3))
    y = data.draw(st.lists(st.sampled_from(["7.5", "8.5", "walk"]), min_size=len(X), max_size=len(X)))
    rows = [[*map(repr, x[:place]), label, *map(repr, x[place:])] for x, label in zip(X, y, strict=True)]
    path = write(tmp_path / "set.csv", "".join(",".join(row) + "\n" for row in rows))
    for column in (place, place - 4):
        table = read_file(path, label_column=str(column))
        assert table.labels.tolist() == y
        np.testing.assert_array_equal(np.stack(table.series)[:, 0], X)


def test_a_chosen_name_makes_column_names_of_a_first_row_with_numbers(tmp_path):
    table = read_file(write(tmp_path / "set.csv", "kind,0,1\nwalk,5,6\n"), label_column="kind")
    assert (table.labels.tolist(), table.series[0].tolist()) == (["walk"], [[5, 6]])


def test_a_name_comes_before_a_position(tmp_path):
    pq.write_table(pa.table({"1": [5.0], "0": ["walk"]}), tmp_path / "set.parquet")
    assert read_file(tmp_path / "set.parquet", label_column="0").labels.tolist() == ["walk"]


def test_columns_of_a_long_table_can_be_chosen(tmp_path):
    text = "patient,time,value,kind\np,0,1,a\np,1,2,a\nq,0,3,b\n"
    table = read_file(write(tmp_path / "set.csv", text), label_column="kind", id_column="patient")
    assert [values.tolist() for values in table.series] == [[[1, 2]], [[3]]]
    assert (table.labels.tolist(), table.ids) == (["a", "b"], ["p", "q"])


def test_columns_of_parquet_can_be_chosen(tmp_path):
    pq.write_table(
        pa.table({"patient": ["p", "q"], "t0": [1.0, 2.0], "kind": ["a", "b"]}), tmp_path / "set.parquet"
    )
    table = read_file(tmp_path / "set.parquet", label_column="kind", id_column="0")
    assert (table.labels.tolist(), table.ids) == (["a", "b"], ["p", "q"])


@pytest.mark.parametrize(
    ("text", "column", "complaint"),
    [
        (LABELLED, "sort", "1: has no column 'sort', only 'kind, t0, t1, t2'"),
        (LABELLED, "4", "1: has no column '4'"),
        ("1,2\n3,4\n", "kind", "1: has no column 'kind', only 2 columns without names"),
        ("a,A,b\nx,1,2\n", "a", "1: has 2 columns named 'a'"),
        ("label,kind,t0\nx,y,1\n", "kind", "1: columns 'kind' and 'label' may both hold the label"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(tmp_path, text, column, complaint):
    path = write(tmp_path / "set.csv", text)
    with pytest.raises(FormatError) as caught:
        read_file(path, label_column=column)
    assert str(caught.value).startswith(f"{path}:{complaint}")


@pytest.mark.parametrize("name", ["set.tsv", "set.ts", "set.npz"])
def test_a_format_without_columns_has_none_to_choose(tmp_path, name):
    with pytest.raises(FormatError, match="has no columns to choose from"):
        read_file(write(tmp_path / name, "1\t2\n"), label_column="0")


def test_a_column_of_text_is_named(tmp_path):
    with pytest.raises(FormatError, match="2: column 'kind': 'walk' is not a number; if the column holds labels"):
        read_file(write(tmp_path / "set.csv", LABELLED))


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
    write_table(ANYTHING, str(tmp_path / f"out{suffix}"))
    found = read_back(tmp_path / f"out{suffix}")
    assert list(found) == ["id", "e0", "e1", "score", "cluster", "is_anomaly"]
    for name in ("id", "score", "cluster", "is_anomaly"):
        assert found[name] == ANYTHING[name].tolist()
    np.testing.assert_array_equal(np.float32(found["e1"]), ANYTHING["e"][:, 1])


def test_npz_keeps_the_arrays_as_they_are(tmp_path):
    write_table(ANYTHING, str(tmp_path / "out.npz"))
    with np.load(tmp_path / "out.npz", allow_pickle=False) as found:
        assert list(found) == list(ANYTHING)
        for name, array in ANYTHING.items():
            np.testing.assert_array_equal(found[name], array)
            assert found[name].dtype == array.dtype


def test_parquet_keeps_single_precision(tmp_path):
    write_table(ANYTHING, str(tmp_path / "out.parquet"))
    assert pq.read_schema(tmp_path / "out.parquet").field("e0").type == pa.float32()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=20),
    text=st.text(st.characters(exclude_categories=["Cs", "Cc"])),
)
def test_csv_gives_back_every_number_and_every_text(tmp_path, values, text):
    numbers = np.array(values, np.float32)
    write_table({"name": np.array([text] * len(values)), "e": numbers[:, None]}, str(tmp_path / "out.csv"))
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["name", "e0"]
    assert {row[0] for row in rows} == {text}
    np.testing.assert_array_equal(np.array([row[1] for row in rows], np.float32), numbers)


def test_more_rows_than_are_written_at_a_time_keep_their_order(tmp_path):
    numbers = np.arange(10_000)
    write_table({"cluster": numbers}, str(tmp_path / "out.csv"))
    assert read_back(tmp_path / "out.csv")["cluster"] == numbers.tolist()


def test_a_dash_writes_csv_to_standard_output(capfdbinary):
    write_table({"id": np.array(["p"]), "score": np.array([0.5])}, "-")
    assert capfdbinary.readouterr().out == b"id,score\np,0.5\n"


def test_an_existing_file_is_replaced(tmp_path):
    path = write(tmp_path / "out.csv", "old")
    write_table({"cluster": np.array([1])}, str(path))
    assert path.read_text() == "cluster\n1\n"


def test_of_a_link_the_file_it_points_to_is_replaced(tmp_path):
    path = write(tmp_path / "real.csv", "old")
    (tmp_path / "link.csv").symlink_to(path)
    write_table({"cluster": np.array([1])}, str(tmp_path / "link.csv"))
    assert (tmp_path / "link.csv").is_symlink()
    assert path.read_text() == "cluster\n1\n"


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_failed_write_leaves_what_was_there_and_nothing_else(tmp_path, suffix):
    path = write(tmp_path / f"out{suffix}", "old")
    unequal = {"id": np.array(["p", "q"]), "score": np.array([1.0])}
    with pytest.raises(ValueError, match="length"):
        write_table(unequal, str(path))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_permissions_of_any_other(tmp_path):
    ordinary = write(tmp_path / "ordinary", "")
    write_table({"cluster": np.array([1])}, str(tmp_path / "out.csv"))
    assert stat.S_IMODE(os.stat(tmp_path / "out.csv").st_mode) == stat.S_IMODE(os.stat(ordinary).st_mode)


# ---- places -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", WRITERS)
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
    path = write(tmp_path / "set.csv", LABELLED)
    (tmp_path / "link.csv").symlink_to(path)
    with pytest.raises(ValueError, match="is the input"):
        check_output(str(tmp_path / disguise.format(tmp_path.name)), "-", str(path))


def test_a_file_is_no_folder(tmp_path):
    with pytest.raises(ValueError, match="is a file; name a folder"):
        check_folder(write(tmp_path / "model", ""))
    check_folder(tmp_path)
    check_folder(tmp_path / "not" / "yet")
