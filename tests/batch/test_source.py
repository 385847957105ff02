"""Input as a stream of chunks: any address, the same series however they are divided."""

import io
import sys
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nutime.batch import source as sources
from nutime.batch.source import Chunk, Source
from nutime.data.formats.read import FormatError
from nutime.data.formats.source import Record


def write(path, text):
    path.write_text(text)
    return path


def read(address, split=None):
    return Chunk.joined(Source(address, split=split).chunks())


def give_stdin(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_a_file_is_read_with_its_labels_and_ids(tmp_path):
    table = read(str(write(tmp_path / "set.csv", "id,label,a,b\np,x,1,2\nq,y,3,4\n")))
    assert [values.tolist() for values in table.series] == [[[1, 2]], [[3, 4]]]
    assert (table.columns["label"].tolist(), table.columns["id"].tolist()) == (["x", "y"], ["p", "q"])


def test_series_come_out_finite(tmp_path):
    table = read(str(write(tmp_path / "set.csv", "1,,3,\n4,5,6,7\n")))
    assert [values.tolist() for values in table.series] == [[[1, 2, 3]], [[4, 5, 6, 7]]]


def test_a_series_without_values_is_named_with_its_file(tmp_path):
    path = write(tmp_path / "set.csv", "label,a,b\nx,1,2\ny,,\n")
    with pytest.raises(ValueError, match=r"set\.csv: series 1: has only NaN") as caught:
        read(str(path))
    assert str(caught.value).startswith(str(path))


def test_a_dash_is_csv_on_standard_input(monkeypatch):
    give_stdin(monkeypatch, "label,a,b\nx,1,2\n")
    table = read("-")
    assert (table.series[0].tolist(), table.columns["label"].tolist()) == ([[1, 2]], ["x"])


def test_what_is_wrong_on_standard_input_is_reported_with_its_line(monkeypatch):
    give_stdin(monkeypatch, "1,2\n1\n")
    with pytest.raises(FormatError, match=r"standard input:2: has 1 cell"):
        read("-")


def test_an_empty_standard_input_is_refused(monkeypatch):
    give_stdin(monkeypatch, "")
    with pytest.raises(FormatError, match="standard input: holds no series"):
        read("-")


@pytest.mark.parametrize(("split", "count"), [("train", 50), ("test", 150), (None, 200)])
def test_an_archive_set_is_read_by_name(split, count):
    pytest.importorskip("aeon")
    table = read("GunPoint", split)
    assert (len(table.series), len(table.columns["label"])) == (count, count)
    assert table.series[0].shape == (1, 150)


def test_an_archive_set_of_several_channels_keeps_them():
    pytest.importorskip("aeon")
    assert read("BasicMotions", "train").series[0].shape == (6, 100)


def test_a_name_that_is_neither_file_nor_set_is_refused_with_close_names():
    with pytest.raises(ValueError, match=r"GunPoit: no such file, and no archive has .* closest names: GunPoint"):
        read("GunPoit")


def test_a_folder_without_series_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no files of series"):
        read(str(tmp_path))


def test_of_a_file_with_several_sets_one_is_read(tmp_path):
    np.savez(tmp_path / "set.npz", X_train=np.zeros((3, 4)), X_test=np.zeros((2, 4)))
    assert len(read(str(tmp_path / "set.npz"), "test").series) == 2


# ---- chunks -------------------------------------------------------------------------------------------


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(sources, "CHUNK_SIZE", 2)


@pytest.mark.usefixtures("small_chunks")
def test_a_file_is_read_chunk_by_chunk(tmp_path):
    path = write(tmp_path / "set.csv", "label,a,b\n" + "x,1,2\n" * 5)
    assert [len(chunk.series) for chunk in Source(str(path)).chunks()] == [2, 2, 1]


@pytest.mark.usefixtures("small_chunks")
def test_an_endless_stream_is_read_no_further_than_needed():
    records = (Record(np.ones((1, 3)), "x") for _ in count())
    assert len(next(sources._chunks(records, "endless", keep_missing=False)).series) == 2


@pytest.mark.usefixtures("small_chunks")
def test_the_first_chunk_is_read_on_opening_and_is_part_of_the_stream(tmp_path):
    first, chunks = Source(str(write(tmp_path / "set.csv", "1,2\n3,4\n5,6\n"))).opened()
    assert len(first.series) == 2
    assert [values.tolist() for chunk in chunks for values in chunk.series] == [[[1, 2]], [[3, 4]], [[5, 6]]]


@pytest.mark.usefixtures("small_chunks")
def test_a_bad_series_of_a_later_chunk_is_named_by_its_index_in_the_file(tmp_path):
    path = write(tmp_path / "set.csv", "label,a,b\n" + "x,1,2\n" * 4 + "y,,\n")
    with pytest.raises(FormatError, match=r"set\.csv: series 4: has only NaN"):
        read(str(path))


@pytest.mark.usefixtures("small_chunks")
def test_series_of_other_channels_in_a_later_chunk_are_refused():
    records = iter([*[Record(np.ones((1, 3)))] * 4, Record(np.ones((2, 3)))])
    with pytest.raises(FormatError, match="here: series 4: has 2 channel"):
        list(sources._chunks(records, "here", keep_missing=False))


@pytest.mark.usefixtures("small_chunks")
def test_a_series_without_a_label_has_an_empty_one():
    records = iter([Record(np.ones((1, 3)), label) for label in ("x", None, None, None, "y")])
    chunks = list(sources._chunks(records, "here", keep_missing=False))
    assert Chunk.joined(chunks).columns["label"].tolist() == ["x", "", "", "", "y"]


@pytest.mark.usefixtures("small_chunks")
def test_files_of_parquet_with_their_channels_in_another_order_are_put_in_order(tmp_path):
    pq.write_table(pa.table({"u": [[1.0, 2.0]], "v": [[3.0, 4.0]]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"v": [[7.0, 8.0]], "u": [[5.0, 6.0]]}), tmp_path / "1.parquet")
    assert [values.tolist() for values in read(str(tmp_path)).series] == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    pq.write_table(pa.table({"w": [[7.0, 8.0]], "u": [[5.0, 6.0]]}), tmp_path / "1.parquet")
    with pytest.raises(FormatError, match=r"1\.parquet: differs from .*0\.parquet in its columns"):
        read(str(tmp_path))


def test_a_folder_of_files_is_read_with_file_names_as_ids_and_labels_from_a_table(tmp_path):
    for name in ("b", "a"):
        write(tmp_path / f"{name}.csv", "time,value\n0,1\n1,2\n")
    write(tmp_path / "labels.csv", "file,label\na,run\n")
    table = read(str(tmp_path))
    assert table.columns["id"].tolist() == ["a", "b"]
    assert table.columns["label"].tolist() == ["run", ""]


def test_a_folder_of_parquet_is_a_data_set_unless_it_has_labels(tmp_path, caplog):
    caplog.set_level("INFO")
    runs = tmp_path / "runs"
    runs.mkdir()
    for name in ("a", "b"):
        pq.write_table(pa.table({"t0": [1.0, 2.0, 4.0], "t1": [5.0, 7.0, 8.0]}), runs / f"{name}.parquet")
    assert len(read(str(runs)).series) == 6
    assert caplog.messages == [f"{runs}: a data set of 2 .parquet files; with --labels each is one series"]
    labels = write(tmp_path / "labels.csv", "file,label\nb,run\n")
    each = Chunk.joined(Source(str(runs), {"labels": str(labels)}).chunks())
    assert [values.shape for values in each.series] == [(2, 3), (2, 3)]
    assert each.columns["label"].tolist() == ["", "run"]
    write(runs / "c.csv", "1,2\n")
    with pytest.raises(FormatError, match=r"holds \.parquet and other files such as .*c\.csv; choose by"):
        read(str(runs))


def test_a_folder_is_a_data_set_by_its_visible_files_whatever_the_case_of_their_suffix(tmp_path):
    table = pa.table({"t0": [1.0, 2.0, 3.0], "t1": [4.0, 5.0, 6.0]})
    for folder, name in (("set", "A.PARQUET"), ("runs", ".hidden/a.parquet")):
        (tmp_path / folder / name).parent.mkdir(parents=True)
        pq.write_table(table, tmp_path / folder / name)
    for name in ("set/.hidden.csv", "runs/a.csv"):
        (tmp_path / name).write_text("time,x\n0,1\n1,2\n")
    assert Source(str(tmp_path / "set")).count == 3
    (chunk,) = Source(str(tmp_path / "runs")).chunks()
    assert chunk.data.ids == ["a"]


def test_times_of_a_file_are_kept_on_the_grid(tmp_path):
    table = read(str(write(tmp_path / "set.csv", "id,time,v\np,0,1\np,1,2\np,3,4\nq,5,1\nq,7,2\n")))
    assert [times.tolist() for times in table.data.times] == [[0, 1, 2, 3], [5, 7]]
    assert [values.shape[1] for values in table.series] == [4, 2]


def test_the_number_of_series_of_parquet_is_known_unless_rows_are_points(tmp_path):
    pq.write_table(pa.table({"t0": [1.0, 2.0], "t1": [3.0, 4.0]}), tmp_path / "wide.parquet")
    pq.write_table(pa.table({"time": [1, 2], "value": [3.0, 4.0]}), tmp_path / "long.parquet")
    assert Source(str(tmp_path / "wide.parquet")).count == 2
    assert Source(str(tmp_path / "long.parquet")).count is None


def write_points(folder, *files):
    """Write Parquet files with one row per point, each of the ids given for it."""
    folder.mkdir()
    for index, ids in enumerate(files):
        times = list(range(10 * index, 10 * index + len(ids)))
        table = {"id": list(ids), "time": times, "value": [float(time) for time in times]}
        pq.write_table(pa.table(table), folder / f"part-{index}.parquet")
    return str(folder)


@pytest.mark.parametrize("last", [["b", "c"], ["c", "b"]])
def test_a_series_with_points_in_two_files_of_parquet_is_refused(tmp_path, last):
    address = write_points(tmp_path / "spark", ["a", "a", "b"], ["d"], last)
    with pytest.raises(FormatError) as caught:
        Source(address).pieces  # noqa: B018  (the plan that workers get)
    first, second = f"{address}/part-0.parquet", f"{address}/part-2.parquet"
    assert str(caught.value).startswith(f"{second}: the series 'b' has points in {first} too; repartition")
    with pytest.raises(FormatError, match="the series 'b' has points in"):
        read(address)


def test_files_of_parquet_with_whole_series_are_read_together(tmp_path):
    table = read(write_points(tmp_path / "spark", ["b", "a", "b"], ["c"]))
    assert table.columns["id"].tolist() == ["b", "a", "c"]


def test_an_id_may_come_again_where_rows_of_parquet_are_series(tmp_path):
    for name in ("0", "1"):
        pq.write_table(pa.table({"id": ["p"], "t0": [1.0], "t1": [2.0]}), tmp_path / f"{name}.parquet")
    assert read(str(tmp_path)).columns["id"].tolist() == ["p", "p"]
