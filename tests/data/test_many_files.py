"""Folders and patterns of files with one series each, and the columns of tables by choice."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from format_files import refusal, write

from nutime.data.formats.read import FormatError, is_many, read_file, read_records

RECORDING = "time,x,y\n0,1,2\n1,3,4\n2,5,6\n"


@pytest.fixture
def folder(tmp_path):
    home = tmp_path / "runs"
    home.mkdir()
    write(home / "b.csv", RECORDING)
    write(home / "a.csv", "time,y,x\n0,20,10\n1,40,30\n")
    return home


def test_each_file_is_a_series_with_its_name_as_id(folder):
    table = read_file(folder)
    assert table.ids == ["a", "b"]
    assert table.channel_names == ["y", "x"]
    assert [values.tolist() for values in table.series] == [[[20, 40], [10, 30]], [[2, 4, 6], [1, 3, 5]]]
    assert table.labels is None


def test_a_pattern_chooses_files(folder):
    assert is_many(f"{folder}/b*.csv")
    assert read_file(f"{folder}/b*.csv").ids == ["b"]
    (folder / "deep").mkdir()
    write(folder / "deep" / "b.csv", RECORDING)
    assert read_file(f"{folder}/**/b.csv").ids == ["b.csv", "deep/b.csv"]


@pytest.mark.parametrize(
    "text",
    [
        "b.csv,walk\na.csv,run\n",
        "file,label\na,run\nb,walk\n",
        "label,file\nrun,a.csv\nwalk,b.csv\n",
        "sep=;\nfile;operator;label\na;me;run\nb;;walk\n",
        "a.csv\trun\nb.csv\twalk\n",
    ],
)
def test_labels_are_read_from_a_table_of_file_names(folder, text):
    labels = write(folder.parent / "classes.csv", text)
    assert read_file(folder, labels=labels).labels.tolist() == ["run", "walk"]
    write(folder / "labels.csv", text)
    assert read_file(folder).labels.tolist() == ["run", "walk"]


@pytest.mark.parametrize(
    ("here", "home"),
    [("runs", "."), (".", "runs"), (".", "./runs"), ("/", "runs"), ("/", "./runs"), ("/", "{folder}")],
)
def test_labels_may_have_paths_from_here_or_from_their_file(folder, monkeypatch, here, home):
    monkeypatch.chdir(folder.parent / here)
    home = home.format(folder=folder)
    labels = write(folder.parent / "classes.csv", f"file,label\n{home}/a.csv,run\n{home}/b.csv,walk\n")
    assert read_file(folder, labels=labels).labels.tolist() == ["run", "walk"]


def test_a_name_of_several_files_is_no_name_of_a_label(folder):
    (folder / "deep").mkdir()
    write(folder / "deep" / "a.csv", RECORDING)
    labels = write(folder.parent / "classes.csv", "a,run\n")
    with pytest.raises(FormatError, match=r"classes.csv: row 0: 'a' may be 'a.csv', 'deep/a.csv'; give the path"):
        read_file(f"{folder}/**/*.csv", labels=labels)
    write(labels, "a.csv,run\nruns/deep/a.csv,walk\n")
    assert read_file(f"{folder}/**/*.csv", labels=labels).labels.tolist() == ["run", "", "walk"]


def test_labels_of_another_file_replace_those_of_the_folder(folder):
    write(folder / "labels.csv", "a.csv,0\nb.csv,1\n")
    table = read_file(folder, labels=write(folder.parent / "classes.csv", "a.csv,run\nb.csv,walk\n"))
    assert (table.ids, table.labels.tolist()) == (["a", "b"], ["run", "walk"])


def test_a_file_without_a_label_is_unlabelled(folder):
    write(folder / "labels.csv", "b.csv,walk\n")
    assert [record.label for record in read_records(folder)] == ["", "walk"]
    write(folder / "labels.csv", "a.csv,\nb.csv,walk\n")
    assert read_file(folder).labels.tolist() == ["", "walk"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "1,2,3.5\n"),
        ("a.csv", "1\n2\n3.5\n"),
        ("a.csv", "value\n1\n2\n3.5\n"),
        ("a.tsv", "t\tx\n0\t1\n1\t2\n2\t3.5\n"),
        ("a.txt", "0 1\n1 2\n2 3.5\n"),
        ("a.ts", "@classLabel false\n@data\n1,2,3.5\n"),
    ],
)
def test_a_recording_may_be_a_row_a_column_or_a_table(tmp_path, name, content):
    write(tmp_path / name, content)
    options = {"time_column": "0"} if name.endswith(".txt") else {}
    (series,) = read_file(tmp_path, **options).series
    assert series.tolist() == [[1, 2, 3.5]]


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 2, 3)])
def test_an_array_file_may_be_one_recording(tmp_path, shape):
    np.save(tmp_path / "a.npy", np.ones(shape))
    assert read_file(tmp_path).series[0].shape == (1 if len(shape) == 1 else 2, 3)


def test_a_parquet_file_may_be_one_recording(tmp_path):
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0], "y": [4.0, 5.0, 6.0]}), tmp_path / "a.parquet")
    table = read_file(tmp_path)
    assert (table.channel_names, table.series[0].tolist()) == (["x", "y"], [[1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"c.csv": "time,x,z\n0,1,2\n"}, "c.csv: the columns differ from 'y', 'x': missing 'y'; unexpected 'z'"),
        ({"c.csv": "time,x\n0,1\n"}, "c.csv: has 1 channel(s), but the first file has 2"),
        ({"c.csv": ""}, "c.csv: holds no series"),
        ({"c.csv": "time,x,y\n0,1,a\n"}, "c.csv:2: column 'y': 'a' is not a number"),
        ({"c.ts": "@classLabel false\n@data\n1,2:3,4\n1,2:3,4\n"}, "c.ts: holds several series"),
        ({"labels.csv": "d.csv,walk\n"}, "labels.csv: row 0: no file 'd.csv' is read; did you mean"),
        ({"labels.csv": ""}, "labels.csv: is empty"),
        ({"labels.csv": "a.csv\n"}, "labels.csv: row 0: has 1 cell(s)"),
        ({"labels.csv": "a.csv,x\na.csv,y\n"}, "labels.csv: row 1: 'a.csv' has another label above"),
        (
            {"labels.csv": "file,operator,state\na.csv,me,x\n"},
            "labels.csv: has 3 columns, none of them named label",
        ),
    ],
)
def test_what_is_wrong_in_a_folder_is_one_line_with_the_file(folder, files, message):
    for name, text in files.items():
        write(folder / name, text)
    with pytest.raises(FormatError) as caught:
        list(read_records(folder))
    assert str(caught.value).startswith(f"{folder}/{message}")
    assert "\n" not in str(caught.value)


def test_series_in_subfolders_are_not_left_out(folder):
    (folder / "deep").mkdir()
    assert read_file(folder).ids == ["a", "b"]
    write(folder / "deep" / "c.csv", RECORDING)
    reason = f" has series in subfolders, as {folder}/deep/c.csv; choose by a pattern: '{folder}/**/*.csv'"
    assert refusal(folder) == reason
    assert read_file(f"{folder}/**/*.csv").ids == ["a", "b", "c"]


def test_the_first_series_in_subfolders_ends_the_search(folder, monkeypatch):
    for number in range(30):
        (folder / f"deep{number}").mkdir()
        write(folder / f"deep{number}" / "c.csv", RECORDING)
    listed, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda place: listed.append(place) or scandir(place))
    assert "has series in subfolders" in refusal(folder)
    assert 0 < len(listed) < 10


def test_no_files_or_another_format_are_refused(folder):
    assert "no files of series" in refusal(f"{folder}/*.parquet")
    write(folder / "notes.md", "")
    with pytest.raises(FormatError, match="unknown suffix"):
        read_file(f"{folder}/*")
    assert read_file(folder).notes == (f"{folder}: 1 file(s) of other formats left out",)


# ---- chosen columns -------------------------------------------------------------------------------------

TABLE = "who,when,a,b,kind,c\np,0,1,2,x,9\np,1,3,4,x,9\nq,0,5,6,y,9\nq,1,7,8,y,9\n"
CHOICE = {"id_column": "who", "time_column": "when", "label_column": "kind", "channel_columns": ["b", "a"]}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_every_role_can_be_chosen(tmp_path, suffix):
    path = write(tmp_path / "set.csv", TABLE)
    if suffix == ".parquet":
        pq.write_table(pa_csv.read_csv(path), tmp_path / "set.parquet")
    table = read_file(tmp_path / f"set{suffix}", **CHOICE)
    assert (table.ids, table.labels.tolist(), table.channel_names) == (["p", "q"], ["x", "y"], ["b", "a"])
    assert [values.tolist() for values in table.series] == [[[2, 4], [1, 3]], [[6, 8], [5, 7]]]


def test_the_step_can_be_chosen(tmp_path):
    path = write(tmp_path / "set.csv", "time,x\n2024-01-01,1\n2024-01-02,2\n")
    assert read_file(path, freq="12h").series[0].tolist() == [[1, 1.5, 2]]


@pytest.mark.parametrize("option", ["id_column", "time_column", "label_column"])
def test_a_misspelt_column_gets_a_suggestion(tmp_path, option):
    path = write(tmp_path / "set.csv", "machine,moment,outcome,x\np,0,a,1\n")
    name = {"id_column": "machin", "time_column": "momnt", "label_column": "outcom"}[option]
    assert "; did you mean '" in refusal(path, **{option: name})
    assert "did you mean 'x'" not in refusal(path, channel_columns=["speed"])


@pytest.mark.parametrize("cell", ["", "?", "-", "NA", "N/A", "n/a", "null", "None", "NaN"])
def test_words_for_missing_values_are_understood(tmp_path, cell):
    wide, long = f"a,b,c\n1,{cell},3\n", f"time,x\n0,1\n1,{cell}\n2,3\n"
    for text in (wide, long):
        (series,) = read_file(write(tmp_path / "set.csv", text)).series
        np.testing.assert_array_equal(series, [[1, np.nan, 3]])


@pytest.mark.parametrize("label", ["", "?", "NaN", " "])
def test_a_series_without_label_is_unlabelled(tmp_path, label):
    files = {
        "set.csv": f"label,t0,t1\na,1,2\n{label},3,4\n",
        "set.tsv": f"a\t1\t2\n{label}\t3\t4\n",
        "set.ts": f"@classLabel true a b\n@data\n1,2:a\n3,4:{label}\n",
    }
    for name, text in files.items():
        table = read_file(write(tmp_path / name, text))
        assert table.labels.tolist() == ["a", ""], name
        assert len(table) == 2
