"""Tables, wide and long: .csv and .parquet."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from format_files import refusal, values_of, write

from nutime.data.formats.arrow import columns_of
from nutime.data.formats.read import FormatError, read_file, read_recordings, read_records
from nutime.data.formats.source import InputFile

# ---- .csv, wide ---------------------------------------------------------------------------------------


def test_csv_without_names_has_one_series_per_row(tmp_path):
    table = read_file(write(tmp_path / "set.csv", "0,1,4\n3,4,5\n"))
    assert [values.tolist() for values in table.series] == [[[0, 1, 4]], [[3, 4, 5]]]
    assert table.labels is None


def test_csv_without_names_has_labels_first_if_they_are_no_numbers(tmp_path):
    table = read_file(write(tmp_path / "set.csv", "walk,1,2\nrun,3,4\n"))
    assert table.labels.tolist() == ["walk", "run"]
    assert [values.tolist() for values in table.series] == [[[1, 2]], [[3, 4]]]


@pytest.mark.parametrize("name", ["label", "Class", "TARGET", "y", " label "])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_csv_label_column_is_found_by_name_anywhere(tmp_path, name, place):
    header, row = ["t0", "t1"], ["1", "2"]
    header.insert(place, name)
    row.insert(place, "walk")
    table = read_file(write(tmp_path / "set.csv", ",".join(header) + "\n" + ",".join(row) + "\n"))
    assert table.labels.tolist() == ["walk"]
    assert table.series[0].tolist() == [[1, 2]]


@pytest.mark.parametrize(
    "header", ["label,0,1", "label,1,2", "y,0,1", "class,t0,t1"], ids=lambda header: header.replace(",", "-")
)
def test_csv_names_may_be_column_numbers_beside_a_label(tmp_path, header):
    table = read_file(write(tmp_path / "set.csv", f"{header}\nx,0.5,1.5\n"))
    assert (len(table.series), table.labels.tolist()) == (1, ["x"])


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("label,400.0,402.5,405.0", "a,1,2,3"),
        ("class,30,20,10", "a,1,2,3"),
        ("400.0,402.5,398.0,label", "1,2,3,a"),
        (",label,400.0,402.5,405.0", "s0,a,1,2,3"),
        ("id,label,7,3,5", "s0,a,1,2,3"),
    ],
)
def test_csv_names_may_be_wavelengths_beside_a_label(tmp_path, header, row):
    table = read_file(write(tmp_path / "set.csv", f"{header}\n{row}\n"))
    assert ([values.tolist() for values in table.series], table.labels.tolist()) == ([[[1, 2, 3]]], ["a"])


def test_csv_names_may_be_times_beside_an_id(tmp_path):
    table = read_file(write(tmp_path / "set.csv", "id,0,10,20\na,1,2,3\nb,4,5,6\n"))
    assert (table.ids, table.feature_names) == (["a", "b"], ["0", "10", "20"])


def test_csv_names_may_be_depths_beside_times(tmp_path):
    table = read_file(write(tmp_path / "set.csv", "time,0.5,1.5\n0,1,2\n1,3,4\n"))
    assert (table.channel_names, table.series[0].tolist()) == (["0.5", "1.5"], [[1, 3], [2, 4]])


@pytest.mark.parametrize("column", ["quality", "label"])
def test_csv_with_a_chosen_label_has_names(tmp_path, column):
    path = write(tmp_path / "set.csv", f"{column},5,3,9\na,1,2,3\n")
    table = read_file(path, label_column=column)
    assert (table.labels.tolist(), table.feature_names) == (["a"], ["5", "3", "9"])


@pytest.mark.parametrize("first", ["target,5,3,9", "y,1,3,9", "target,5,,", "target,5,nan,9"])
def test_csv_first_series_may_have_a_class_that_is_called_like_a_column(tmp_path, first):
    table = read_file(write(tmp_path / "set.csv", f"{first}\nnoise,1,2,3\n"))
    assert table.labels.tolist() == [first.split(",")[0], "noise"]


def test_csv_id_column_is_kept(tmp_path):
    table = read_file(write(tmp_path / "set.csv", "ID,t0,label\nfirst,1,a\nsecond,2,b\n"))
    assert table.ids == ["first", "second"]


def test_csv_empty_cells_are_nan(tmp_path):
    np.testing.assert_array_equal(values_of(write(tmp_path / "set.csv", "1,,3,\n")), [[[1, np.nan, 3, np.nan]]])


def test_csv_first_row_with_padding_is_a_series(tmp_path):
    assert len(values_of(write(tmp_path / "set.csv", "1,2,,\n1,2,3,4\n"))) == 2


@pytest.mark.parametrize(
    ("semicolons", "commas"),
    [
        ("0;1;2\n3;4;5\n", "0,1,2\n3,4,5\n"),
        ("0,5;1,25\n-2;,75\n", "0.5,1.25\n-2,0.75\n"),
        ("0.5;1.25\n-2;0.75\n", "0.5,1.25\n-2,0.75\n"),
        ("1,5e-3;2\n", "1.5e-3,2\n"),
        ("walk;0,5;\nrun;1,5;2,5\n", "walk,0.5,\nrun,1.5,2.5\n"),
        ('label;t0;t1\n"a,b";0,5;1\n', 'label,t0,t1\n"a,b",0.5,1\n'),
        ("id;time;value\np;0,5;1\np;0,25;2\n", "id,time,value\np,0.5,1\np,0.25,2\n"),
        # Semicolons in a text do not separate.
        ("a;b,1,2\nc;d,3,4\n", "a;b,1,2\nc;d,3,4\n"),
        ('"a;b",1,2\n', '"a;b",1,2\n'),
    ],
)
def test_csv_may_be_separated_by_semicolons_with_decimal_commas(tmp_path, semicolons, commas):
    one, other = (read_file(write(tmp_path / "set.csv", text)) for text in (semicolons, commas))
    np.testing.assert_equal(one.series, other.series)
    assert (one.labels is None) == (other.labels is None)
    assert np.array_equal(one.labels, other.labels)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("sep=;\nlabel;t0;t1\na;0,5;1\n", "label,t0,t1\na,0.5,1\n"),
        ("SEP=,\r\ntime,x\r\n0,1\r\n1,2\r\n", "time,x\n0,1\n1,2\n"),
        ("label\tt0\tt1\na\t1\t2\n", "label,t0,t1\na,1,2\n"),
        ('label,"t\t0"\na,1\n', "label,t\t0\na,1\n"),
        ("# time,x\n0,1\n1,2\n", "time,x\n0,1\n1,2\n"),
        ("time,x,\n0,1,\n1,,\n", "time,x\n0,1\n1,\n"),
        ("time;x;\n0;1\n1;0,5;\n", "time,x\n0,1\n1,0.5\n"),
        ("label,t0,t1\na,1,2,\nb,3,,\n", "label,t0,t1\na,1,2\nb,3,\n"),
    ],
)
def test_csv_may_be_as_spreadsheets_and_loggers_write_it(tmp_path, text, plain):
    one, other = (read_file(write(tmp_path / "set.csv", content)) for content in (text, plain))
    np.testing.assert_equal(one.series, other.series)
    assert (one.channel_names, one.feature_names) == (other.channel_names, other.feature_names)
    assert np.array_equal(one.labels, other.labels)


@pytest.mark.parametrize(
    "text", ["Unnamed: 0,t0,t1\np,1,2\n", "Unnamed: 0,0,1\np,1,2\n", "id,Unnamed: 0,time,x\np,0,0,1\np,1,1,2\n"]
)
def test_csv_index_that_pandas_has_read_back_is_no_value(tmp_path, text):
    table = read_file(write(tmp_path / "set.csv", text))
    assert (table.ids, table.series[0].tolist()) == (["p"], [[1, 2]])


@pytest.mark.parametrize("header", [",Unnamed: 0,t0", ",,t0", "__index_level_0__,__index_level_1__,t0"])
def test_two_columns_of_an_index_are_refused(tmp_path, header):
    assert "may both hold the index" in refusal(write(tmp_path / "set.csv", f"{header}\n0,0,1\n"))


def test_csv_quoted_cells(tmp_path):
    table = read_file(write(tmp_path / "set.csv", 'label,t0\n"a, b","1"\n'))
    assert (table.labels.tolist(), table.series[0].tolist()) == (["a, b"], [[1]])


@pytest.mark.parametrize("labelled", [True, False])
def test_csv_with_the_index_of_pandas_has_ids(tmp_path, labelled):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[0.5, 1.5], [2.5, 3.5]], index=["p", "q"])
    if labelled:
        frame["label"] = ["a", "b"]
    frame.to_csv(tmp_path / "set.csv")
    table = read_file(tmp_path / "set.csv")
    assert table.ids == ["p", "q"]
    np.testing.assert_array_equal(np.concatenate(table.series), [[0.5, 1.5], [2.5, 3.5]])


@pytest.mark.parametrize("header", ["0,1,2,3", "1,2,3,4", "1;2;3;4"])
@pytest.mark.parametrize("row", ["5,6,7,8", "0.5,6,7,8", "a,6,7,8"])
def test_csv_first_row_that_counts_the_columns_is_a_header(tmp_path, header, row):
    text = f"{header}\n{row}\n{row}\n".replace(",", ";") if ";" in header else f"{header}\n{row}\n{row}\n"
    if row.startswith("a"):
        table = read_file(write(tmp_path / "set.csv", text), label_column="0")
        assert table.labels.tolist() == ["a", "a"]
    else:
        table = read_file(write(tmp_path / "set.csv", text))
    assert (len(table), table.series[0][0, -3:].tolist()) == (2, [6, 7, 8])
    assert "is read as a header" in table.notes[0]


def test_csv_row_that_counts_is_a_series_if_it_is_the_only_one(tmp_path):
    assert values_of(write(tmp_path / "set.csv", "1,2,3,4\n")) == [[[1, 2, 3, 4]]]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1,2\n3\n", "2: has 1 cell(s), the first row has 2"),
        ("1,2,x\n", "1: point 2: 'x' is not a number"),
        ("1,2\n3,x\n", "2: point 1: 'x' is not a number"),
        ("1,2\n3,4_5\n", "2: point 1: '4_5' is not a number"),
        ("run,t0\n1_01,5\n", "2: column 'run': '1_01' is not a number"),
        ("time,x\n2024_01_31,5\n", "2: time '2024_01_31' is neither a number nor a date"),
        ("id,t0\np,1\n,2\n", "3: the id is missing"),
        ("label,class,t0\n", "1: columns 'label' and 'class' may both hold the label"),
        ("label,id\n", "1: has no column of values, only 'label, id'"),
        ('label,t0\n"a,1\nb,2\n', "3: unexpected end of data"),
        ('label,t0\n"a\nb",2\n', "3: a quoted cell runs over several lines"),
        ("label,t0\n", " holds no series"),
        ("walk\n", " holds no series"),
        ("1,1e999\n", "1: holds an infinite value"),
        ("0,5;1\n0.5;1\n", "2: has decimal commas and decimal points"),
        ("1.234,5;1\n", "1: point 1: '5;1' is not a number"),
        ("t0;t1\n1;1.234,5\n", "2: column 't1': '1.234,5' is not a number"),
        ("1;2\n3;4;5\n", "2: has 3 cell(s), the first row has 2"),
        ("1,2\n3;4,5\n", "2: point 0: '3;4' is not a number"),
    ],
)
def test_csv_complaints_name_the_line(tmp_path, text, complaint):
    assert refusal(write(tmp_path / "set.csv", text)).startswith(complaint)


# ---- .csv, long ---------------------------------------------------------------------------------------


def test_long_csv_joins_the_rows_of_an_id(tmp_path):
    table = read_file(write(tmp_path / "set.csv", "id,time,value,label\np,0,1,a\np,1,2,a\nq,0,3,b\n"))
    assert [values.tolist() for values in table.series] == [[[1, 2]], [[3]]]
    assert (table.labels.tolist(), table.ids) == (["a", "b"], ["p", "q"])


def test_long_csv_other_columns_are_channels(tmp_path):
    table = read_file(write(tmp_path / "set.csv", "series,t,x,y,z\np,0,1,2,3\np,1,4,5,6\n"))
    assert table.series[0].tolist() == [[1, 4], [2, 5], [3, 6]]
    assert table.labels is None


@pytest.mark.parametrize(
    "times",
    [
        ["3", "2", "1"],
        ["1e1", "5.5", "1"],
        ["2024-03-01", "2024-02-29", "2024-02-28"],
        ["2024-01-01T10:00:00", "2024-01-01 09:59:59", "2024-01-01T09:59:58.000"],
        ["2024-01-01T10:00+02:00", "2024-01-01T07:59Z", "2024-01-01T08:58+01:00"],
        ["1950-02", "1950-01", "1949-12"],
        ["2024-03-31", "2024-02-29", "2024-01-31"],
        ["03/31/2024", "03/30/2024", "03/29/2024"],
        ["01/04/2024", "31/03/2024", "30/03/2024"],
        ["1.4.2024 00:00", "31.3.2024 00:00", "30.3.2024 00:00"],
        ["2024/04/01", "2024/03/31", "2024/03/30"],
        ["1 Apr 2024", "31 Mar 2024", "30 Mar 2024"],
        ["03/31/2024 01:00 PM", "03/31/2024 12:00 PM", "03/31/2024 11:00 AM"],
        ["1700000000002", "1700000000001", "1700000000000"],
    ],
    ids=[
        *("whole", "decimal", "dates", "seconds", "zones", "months", "month ends", "month first", "day first"),
        *("dots", "year first", "month names", "half days", "epoch"),
    ],
)
def test_long_csv_is_sorted_by_time_within_an_id(tmp_path, times):
    text = "id,time,value\n" + "".join(f"p,{time},{value}\n" for time, value in zip(times, "321", strict=True))
    assert values_of(write(tmp_path / "set.csv", text)) == [[[1, 2, 3]]]


def test_long_csv_a_repeated_time_is_averaged(tmp_path):
    table = read_file(write(tmp_path / "set.csv", "id,time,value\np,1,1\np,1,2\np,0,3\np,2,0\n"))
    assert table.series[0].tolist() == [[3, 1.5, 0]]
    assert "2 rows of equal time averaged" in table.notes[0]


def test_long_csv_shuffled_rows_are_sorted_by_id_and_time(tmp_path):
    rows = ["p,0,1", "p,1,2", "q,0,3", "q,1,4", "r,0,5"]
    text = "id,time,value\n" + "\n".join(rows[place] for place in (3, 0, 4, 2, 1)) + "\n"
    table = read_file(write(tmp_path / "set.csv", text))
    assert (table.ids, [values.tolist() for values in table.series]) == (
        ["q", "p", "r"],
        [[[3, 4]], [[1, 2]], [[5]]],
    )


def test_long_csv_ids_are_the_same_with_blanks_around_them(tmp_path):
    table = read_file(write(tmp_path / "set.csv", "id,time,value\na,0,1\nb,0,2\na ,1,3\n"))
    assert (table.ids, [values.tolist() for values in table.series]) == (["a", "b"], [[[1, 3]], [[2]]])


def test_long_csv_without_times_keeps_the_order_of_the_file(tmp_path):
    assert values_of(write(tmp_path / "set.csv", "id,value\np,3\np,1\nq,2\n")) == [[[3, 1]], [[2]]]


def test_long_csv_without_ids_is_one_series(tmp_path):
    table = read_file(write(tmp_path / "set.csv", "timestamp,value\n0,5\n1,6\n"))
    assert ([values.tolist() for values in table.series], table.ids) == ([[[5, 6]]], None)


def test_long_csv_empty_cells_are_nan(tmp_path):
    np.testing.assert_array_equal(
        values_of(write(tmp_path / "set.csv", "id,time,value\np,0,\np,1,2\n")), [[[np.nan, 2]]]
    )


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ("p,0,1,a\np,1,1,b\n", "3: the label changes to 'b' within a series"),
        ("p,0,1,a\np,soon,1,a\n", "3: time 'soon' is neither a number nor a date"),
        ("p,0,1,a\np,,1,a\n", "3: time '' is neither a number nor a date"),
        ("p,0,1,a\np,nan,1,a\n", "3: the time is missing"),
        ("p,0,1,a\np,2024-01-01,1,a\n", "3: series 'p': times cannot be compared"),
        ("p,2024-01-01,1,a\np,2024-01-01T00:00Z,1,a\n", "3: series 'p': times cannot be compared"),
        ("p,0,1,a\n,1,1,a\n", "3: the id is missing"),
        ("p,03/04/2024,1,a\n", "2: time '03/04/2024': is the day or the month first?"),
        ("p,13/04/2024,1,a\np,04/13/2024,1,a\n", "3: time '04/13/2024': day and month change places"),
        ("p,0,1,a\np,0,1,a\np,0,1,a\n", "4: series 'p': 2 of 3 rows repeat an earlier time (0)"),
        ("p,0,1,a\np,1,1,a\np,1e9,1,a\n", "4: series 'p': 3 rows span 1000000001 steps of 1"),
        ("p,0,x,a\n", "2: column 'value': 'x' is not a number"),
        ("p,0,inf,a\n", "2: holds an infinite value"),
        ("p,0,1\n", "2: has 3 cell(s), the first row has 4"),
    ],
)
def test_long_csv_complaints_name_the_line(tmp_path, rows, complaint):
    assert refusal(write(tmp_path / "set.csv", "id,time,value,label\n" + rows)).startswith(complaint)


# ---- .parquet -----------------------------------------------------------------------------------------


@pytest.fixture
def write_parquet(tmp_path):
    def _write(columns, **options):
        pq.write_table(pa.table(columns), tmp_path / "set.parquet", **options)
        return tmp_path / "set.parquet"

    return _write


def test_parquet_list_columns_are_channels(write_parquet):
    columns = {"x": [[1.0, 2.0], [3.0]], "label": [1, 2], "z": [[5.0, None], [6.0]], "id": ["p", "q"]}
    table = read_file(write_parquet(columns))
    np.testing.assert_array_equal(table.series[0], [[1, 2], [5, np.nan]])
    np.testing.assert_array_equal(table.series[1], [[3], [6]])
    assert (table.labels.tolist(), table.ids) == (["1", "2"], ["p", "q"])


@pytest.mark.parametrize("kind", ["list_", "large_list", "fixed"])
@pytest.mark.parametrize("precision", ["float16", "float32", "float64", "int32"])
def test_parquet_lists_of_any_kind_keep_float32(write_parquet, kind, precision):
    value = getattr(pa, precision)()
    type_ = pa.list_(value, 2) if kind == "fixed" else getattr(pa, kind)(value)
    numbers = np.array([[1, 2], [3, 4]], precision)
    table = read_file(write_parquet({"value": pa.array(list(numbers), type_)}))
    assert table.series[1].tolist() == [[3, 4]]
    assert table.series[1].dtype == (np.float32 if precision in ("float16", "float32") else np.float64)


def test_parquet_numeric_columns_are_one_series_per_row(write_parquet):
    table = read_file(write_parquet({"t0": [1, 2], "t1": [3.0, None], "class": ["a", "b"]}))
    np.testing.assert_array_equal(np.concatenate(table.series), [[1, 3], [2, np.nan]])
    assert table.labels.tolist() == ["a", "b"]


def test_parquet_index_of_pandas_is_the_id(tmp_path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"t0": [1.0, 2.0]}, index=[7, 5]).to_parquet(tmp_path / "set.parquet")
    table = read_file(tmp_path / "set.parquet")
    assert (table.ids, table.series[0].tolist()) == (["7", "5"], [[1]])


@pytest.mark.parametrize(
    "times",
    [[2, 1, 1], [0.5, 0.25, 1.0], ["2020-01-02", "2020-01-01", "1999-01-01"]],
)
def test_parquet_long_form_is_grouped_and_sorted(write_parquet, times):
    table = read_file(write_parquet({"id": ["p", "p", "q"], "time": times, "x": [1.0, 2.0, 3.0]}))
    assert [values.tolist() for values in table.series] == [[[2, 1]], [[3]]]


@pytest.mark.parametrize("type_", ["timestamp[ns]", "timestamp[s]", "date32", "date64", "time32[s]", "time64[ns]"])
def test_parquet_times_of_every_type_are_sorted(write_parquet, type_):
    width = 32 if "32" in type_ else 64
    day = 86_400_000 if type_ == "date64" else 1
    time = pa.array([3 * day, 1 * day, 2 * day], f"int{width}").view(type_)
    assert values_of(write_parquet({"t": time, "x": [3.0, 1.0, 2.0]})) == [[[1, 2, 3]]]


def test_parquet_times_with_a_zone_become_utc_which_is_noted(write_parquet):
    times = pa.array([0, 1], pa.timestamp("s", "Europe/Berlin"))
    table = read_file(write_parquet({"time": times, "x": [1.0, 2.0]}))
    assert table.notes == ("times: 2 times with a zone changed to UTC, and written without a zone",)


def test_parquet_long_series_may_run_over_row_groups(write_parquet):
    count = 5000
    path = write_parquet({"id": [1] * count, "value": np.arange(count, dtype=np.float32)}, row_group_size=700)
    (record,) = read_records(path)
    assert record.values.dtype == np.float32
    np.testing.assert_array_equal(record.values, np.arange(count)[None])


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"x": ["a", "b"]}, "column 'x': type string is not numeric"),
        ({"x": [[1.0], None]}, "row 1: lists of [0] values"),
        ({"x": [[1.0], []]}, "row 1: lists of [0] values"),
        ({"x": [[1.0, 2.0]], "z": [[1.0]]}, "row 0: lists of [1, 2] values"),
        ({"x": [[1.0]], "z": [2.0]}, "column 'z': type double is not a list of numbers"),
        ({"x": [["a"]]}, "column 'x': type list<element: string> is not a list of numbers"),
        ({"x": [[[1.0]]]}, "column 'x': type list<element: list<element: double>> is not a list of numbers"),
        ({"x": [[1.0]], "time": [[0.0]]}, "column 'time': times beside lists of values are not supported"),
        ({"x": [1.0, np.inf]}, "rows 0 to 1: holds an infinite value"),
        ({"x": [[1.0], [np.inf]]}, "row 1: holds an infinite value"),
        ({"x": [1.0], "id": [None]}, "the id is missing"),
        ({"x": [1.0], "id": [np.nan]}, "the id is missing"),
        ({"value": [1.0, 2.0], "id": ["p", "p"], "t": [1, None]}, "series 'p': the time is missing"),
        ({"label": ["a"]}, "has no column of values"),
        ({"label": ["a"], "class": ["b"], "x": [1.0]}, "columns 'label' and 'class' may both hold the label"),
        ({"x": np.empty(0)}, "holds no series"),
        ({}, "has no column of values"),
    ],
)
def test_parquet_complaints_name_the_row_or_column(write_parquet, columns, complaint):
    assert refusal(write_parquet(columns)).startswith(f" {complaint}")


def test_parquet_is_read_by_row_groups(write_parquet):
    X = np.random.default_rng(0).normal(size=(8192, 64))
    path = write_parquet({"x": pa.array(list(X))}, row_group_size=512)
    before = pa.total_allocated_bytes()
    peak = max(pa.total_allocated_bytes() - before for _ in read_records(path))
    assert peak < X.nbytes / 2


# ---- an index of pandas that holds dates --------------------------------------------------------------


def write_frame(path, columns, index):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(columns, index=None if index is None else pandas.DatetimeIndex(index))
    frame.to_csv(path) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


DAYS = ["2024-01-03", "2024-01-01", "2024-01-02"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("names", [["load", "heat"], ["x", "y"], ["0", "1"]])
def test_dates_in_an_index_without_a_name_are_times(tmp_path, suffix, names):
    columns = dict(zip(names, ([3.0, 1.0, 2.0], [6.0, 4.0, 5.0]), strict=True))
    table = read_file(write_frame(tmp_path / f"set{suffix}", columns, DAYS))
    assert [values.tolist() for values in table.series] == [[[1, 2, 3], [4, 5, 6]]]
    assert table.times[0].astype("datetime64[D]").astype(str).tolist() == sorted(DAYS)
    assert (table.ids, table.channel_names) == (None, names)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_dates_in_an_index_beside_ids_are_the_times_of_each_series(tmp_path, suffix):
    columns = {"id": ["a", "a", "b", "b"], "load": [2.0, 1.0, 3.0, 4.0]}
    table = read_file(write_frame(tmp_path / f"set{suffix}", columns, [*DAYS[:0:-1], *DAYS[1:]]))
    assert (table.ids, [values.tolist() for values in table.series]) == (["a", "b"], [[[1, 2]], [[3, 4]]])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_dates_in_an_index_beside_labels_are_ids(tmp_path, suffix):
    columns = {"label": ["a", "b", "a"], "t0": [1.0, 2.0, 3.0], "t1": [4.0, 5.0, 6.0]}
    table = read_file(write_frame(tmp_path / f"set{suffix}", columns, DAYS))
    assert (len(table.series), table.labels.tolist()) == (3, ["a", "b", "a"])


HOURS = {
    "clock": [f"{hour}:00" for hour in range(24)],
    "hours": [f"{hour}h" for hour in range(24)],
    "pandas": [f"0 days {hour:02d}:00:00" for hour in range(24)],
    "dates": [f"2025-01-{day:02d}" for day in range(1, 31)],
    "numbers": [str(hour) for hour in range(24)],
    "numbers from 1": [f"h{hour}" for hour in range(1, 25)],
}


def write_days(path, names, days=DAYS):
    return write_frame(path, {name: [1.0, 2.0, 3.0] for name in names}, days)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("names", HOURS.values(), ids=HOURS)
def test_each_row_of_a_table_of_days_and_hours_is_a_series(tmp_path, suffix, names):
    path = write_days(tmp_path / f"set{suffix}", names)
    found = read_file(path)
    assert [values.shape for values in found.series] == [(1, len(names))] * 3
    assert ([identity[:10] for identity in found.ids], found.feature_names) == (DAYS, names)
    with pytest.raises(
        FormatError, match=r"beside dates are read as points; write one row per point, or rename the columns"
    ):
        read_recordings(path)


def test_the_batches_of_a_stream_may_be_days_and_hours():
    columns = {"date": pa.array(DAYS), **{hour: [1.0, 2.0, 3.0] for hour in HOURS["numbers"]}}
    batches = [pa.record_batch(columns)[:0], pa.record_batch(columns)]
    layout, _ = columns_of(InputFile(Path("stream")), batches[0].schema, lambda name: batches)
    assert (layout.is_long, layout.id, layout.names) == (False, 0, HOURS["numbers"])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("other", ["", "id", "label"])
def test_days_beside_hours_may_be_a_column(tmp_path, suffix, other):
    columns = {"date": DAYS, other: ["a", "b", "b"], **{hour: [1.0, 2.0, 3.0] for hour in HOURS["clock"]}}
    found = read_file(write_frame(tmp_path / f"set{suffix}", {k: v for k, v in columns.items() if k}, None))
    assert [values.shape for values in found.series] == [(1, 24)] * 3
    assert found.ids == (["a", "b", "b"] if other == "id" else DAYS)


def test_dates_of_an_index_may_have_the_month_first(tmp_path):
    for first in ("01/02/2024", "12/31/2023"):
        (record,) = read_records(write(tmp_path / "set.csv", f",x,z\n{first},1,2\n01/13/2024,3,4\n"))
        assert record.channel_names == ["x", "z"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("clock", ["", " 06:00"])
def test_numbered_columns_beside_dates_are_refused_where_they_may_be_both(tmp_path, suffix, clock):
    names, days = [str(number) for number in range(24 if clock else 25)], [day + clock for day in DAYS]
    path = write_days(tmp_path / f"set{suffix}", names, days)
    place = str(-1 - len(names)) if suffix == ".csv" else "__index_level_0__"
    with pytest.raises(FormatError, match=f"beside dates are channels or points; choose column '{place}' as the"):
        read_file(path)
    assert read_file(path, id_column=place).series[0].shape == (1, len(names))
    assert read_file(path, time_column=place).series[0].shape == (len(names), 3)
    assert read_recordings(path).series[0].shape == (len(names), 3)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_many_named_columns_beside_dates_are_channels(tmp_path, suffix):
    names = [f"sensor_{number}" for number in range(24)]
    assert read_file(write_days(tmp_path / f"set{suffix}", names)).channel_names == names


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_index_of_dates_can_be_chosen_as_the_id(tmp_path, suffix):
    path = write_frame(tmp_path / f"set{suffix}", {"t0": [1.0, 2.0, 3.0], "t1": [4.0, 5.0, 6.0]}, DAYS)
    table = read_file(path, id_column="0" if suffix == ".csv" else "-1")
    assert (len(table.series), table.channel_names) == (3, None)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_recording_has_the_times_of_an_index_without_a_name(tmp_path, suffix):
    found = read_recordings(write_frame(tmp_path / f"set{suffix}", {"load": [3.0, 1.0, 2.0]}, DAYS))
    assert found.times[0].astype("datetime64[D]").astype(str).tolist() == sorted(DAYS)


def test_an_error_in_a_table_with_an_unnamed_index_names_its_line(tmp_path):
    assert refusal(write(tmp_path / "header.csv", ",x,y\ns0,1,2\n")).startswith("1: ")
    assert refusal(write(tmp_path / "row.csv", ",t0,t1\ns0,1,one\ns1,1,2\n")).startswith("2: ")


def test_a_named_column_alone_is_one_recording(tmp_path):
    (record,) = read_records(write(tmp_path / "one.csv", "x\n1\n2\n4\n"))
    assert (record.values.tolist(), record.channel_names) == ([[1, 2, 4]], ["x"])
