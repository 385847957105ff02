"""Columns of a table chosen by name or position."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from format_files import write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nutime.data.formats.read import FormatError, read_file

LABELLED = "kind,t0,t1,t2\nwalk,1,2,3\nrun,4,5,6\n"


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


# ---- labels that nobody named ------------------------------------------------------------------------------


def note_of(path, **options):
    found = read_file(path, **options)
    return found, [note.removeprefix(f"{path}: ") for note in found.notes]


@pytest.mark.parametrize("name", ["class", "Target", "y"])
@pytest.mark.parametrize("cells", [("a", "b"), ("0", "1"), ("1.0", "2.0")])
def test_a_label_column_that_nobody_named_is_mentioned(tmp_path, name, cells):
    path = write(tmp_path / "set.csv", f"t0,t1,{name}\n1,2,{cells[0]}\n3,4,{cells[1]}\n")
    found, notes = note_of(path)
    assert list(found.labels) == [cell.removesuffix(".0") for cell in cells]
    assert notes == [f"column '{name}' is read as the label"]


def test_a_column_named_label_or_chosen_needs_no_mention(tmp_path):
    assert note_of(write(tmp_path / "one.csv", "label,t0\na,1\n"))[1] == []
    assert note_of(write(tmp_path / "two.csv", "class,t0\na,1\n"), label_column="class")[1] == []


@pytest.mark.parametrize("name", ["class", "target", "y"])
def test_decimal_numbers_that_nobody_named_are_no_labels(tmp_path, name):
    path = write(tmp_path / "set.csv", f"t0,t1,{name}\n1,2,1\n3,4,0.53\n")
    with pytest.raises(FormatError, match=f"set.csv:3: column '{name}': '0.53' is no class; name it as the label"):
        read_file(path)
    assert list(read_file(path, label_column=name).labels) == ["1", "0.53"]


def test_columns_x_and_y_may_be_channels_and_are_refused(tmp_path):
    path = write(tmp_path / "set.csv", "x,y,z\n1,2,3\n4,5,6\n")
    with pytest.raises(
        FormatError, match="columns 'x' and 'y': name the label column or, if rows are points, the"
    ):
        read_file(path)
    assert read_file(path, channel_columns=["x", "y", "z"]).series[0].shape == (3, 2)
    assert list(read_file(path, label_column="y").labels) == ["2", "5"]


@pytest.mark.parametrize("channels", [["x"], ["ax", "ay", "az"]])
@pytest.mark.parametrize("order", [["a", "a", "b", "b"], ["a", "b", "a", "b"]])
def test_rows_with_the_same_id_may_be_points_and_are_refused(tmp_path, channels, order):
    columns = {"id": order, **{name: np.arange(4.0) for name in channels}}
    rows = "".join(",".join(map(str, row)) + "\n" for row in [columns, *zip(*columns.values(), strict=True)])
    write(tmp_path / "set.csv", rows)
    pq.write_table(pa.table(columns), tmp_path / "set.parquet")
    for path in (tmp_path / "set.csv", tmp_path / "set.parquet"):
        with pytest.raises(FormatError, match="id 'a' is that of several rows; choose the channels"):
            read_file(path)
        assert [values.shape for values in read_file(path, channel_columns=channels).series] == 2 * [
            (len(channels), 2)
        ]


@pytest.mark.parametrize("names", [["0", "1"], [f"t{index}" for index in range(17)]])
def test_rows_of_columns_that_are_points_may_have_the_same_id(tmp_path, names):
    row = ",".join(map(str, range(len(names))))
    path = write(tmp_path / "set.csv", f"id,{','.join(names)}\na,{row}\na,{row}\n")
    assert read_file(path).ids == ["a", "a"]


@pytest.mark.parametrize("name", ["y", "target"])
def test_lists_are_channels_whatever_their_name(tmp_path, name):
    pq.write_table(pa.table({"x": [[1.0, 2.0]], name: [[3.0, 4.0]], "label": ["a"]}), tmp_path / "set.parquet")
    found = read_file(tmp_path / "set.parquet")
    assert found.channel_names == ["x", name]
    assert list(found.labels) == ["a"]


@pytest.mark.parametrize("name", ["label", "class", "id"])
def test_lists_are_no_labels_or_ids(tmp_path, name):
    pq.write_table(pa.table({"x": [[1.0, 2.0]], name: [[3.0, 4.0]]}), tmp_path / "set.parquet")
    with pytest.raises(FormatError, match=f"column '{name}': type .* is not one value per row; rename it"):
        read_file(tmp_path / "set.parquet")


def test_one_number_beside_lists_is_a_label_and_mentioned(tmp_path):
    pq.write_table(pa.table({"x": [[1.0, 2.0], [3.0, 4.0]], "y": [0, 1]}), tmp_path / "set.parquet")
    found, notes = note_of(tmp_path / "set.parquet")
    assert list(found.labels) == ["0", "1"]
    assert notes == ["column 'y' is read as the label"]
