"""The archive formats with one series per line: .ts, .tsv, .txt and .arff."""

import numpy as np
import pytest
from format_files import refusal, values_of, write

from nutime.data.formats.read import Record, read_file, read_records

TS = "@univariate true\n@equalLength true\n@seriesLength 3\n@classLabel true a b\n@data\n"
TS_TWO = "@univariate false\n@dimensions 2\n@equalLength false\n@classLabel true a b\n@data\n"
ARFF = "@relation r\n@attribute t0 numeric\n@attribute t1 real\n@attribute class {a,b}\n@data\n"
ARFF_TWO = (
    "@relation r\n@attribute bag relational\n@attribute t0 numeric\n@attribute t1 numeric\n@end bag\n"
    "@attribute class {a,b}\n@data\n"
)


# ---- .ts ----------------------------------------------------------------------------------------------


def test_ts_channels_are_separated_by_colons(tmp_path):
    (record, _) = read_records(write(tmp_path / "set.ts", TS_TWO + "1,2:3,4:a\n5:6:b\n"))
    assert (record.values.tolist(), record.label) == ([[1, 2], [3, 4]], "a")


def test_ts_series_may_have_unequal_lengths(tmp_path):
    assert [np.shape(v) for v in values_of(write(tmp_path / "set.ts", TS_TWO + "1,2:3,4:a\n5:6:b\n"))] == [
        (2, 2),
        (2, 1),
    ]


@pytest.mark.parametrize("missing", ["?", "NaN", "nan", " ? "])
def test_ts_missing_values_are_nan(tmp_path, missing):
    np.testing.assert_array_equal(
        values_of(write(tmp_path / "set.ts", TS + f"1,{missing},3:a\n")), [[[1, np.nan, 3]]]
    )


def test_ts_without_labels(tmp_path):
    (record,) = read_records(write(tmp_path / "set.ts", "@univariate true\n@classLabel false\n@data\n1,2\n"))
    assert record == Record(record.values, None, None)


def test_ts_regression_targets_are_labels(tmp_path):
    text = "@univariate true\n@targetLabel true\n@data\n1,2:0.25\n"
    assert read_file(write(tmp_path / "set.ts", text)).labels.tolist() == ["0.25"]


def test_ts_comments_and_blank_lines_are_skipped(tmp_path):
    path = write(tmp_path / "set.ts", f"# about\n%\n\n{TS}\n1,2,3:a\n\n# more\n4,5,6:b\n")
    assert len(values_of(path)) == 2


def test_ts_tags_are_read_in_any_case(tmp_path):
    assert len(values_of(write(tmp_path / "set.ts", TS.upper().replace("A B", "a b") + "1,2,3:a\n"))) == 1


def test_ts_declared_classes_match_however_the_number_is_written(tmp_path):
    text = "@univariate true\n@classLabel true 0.0 1\n@data\n1,2:0\n1,2:1.0\n"
    assert read_file(write(tmp_path / "set.ts", text)).labels.tolist() == ["0", "1"]


# ---- .tsv, .txt ---------------------------------------------------------------------------------------


def test_tsv_padding_is_kept_as_nan(tmp_path):
    np.testing.assert_array_equal(values_of(write(tmp_path / "set.tsv", "1\t5\tNaN\n2\t6\t7\n"))[0], [[5, np.nan]])


@pytest.mark.parametrize(
    ("written", "label"),
    [
        ("1", "1"),
        ("1.0", "1"),
        ("-1.0", "-1"),
        ("1.0000000e+00", "1"),
        ("3.", "3"),
        ("1.5", "1.5"),
        ("01", "01"),
        ("1e5", "1e5"),
        ("walk", "walk"),
    ],
)
def test_whole_numbers_are_one_label_however_they_are_written(tmp_path, written, label):
    assert read_file(write(tmp_path / "set.tsv", f"{written}\t5\n")).labels.tolist() == [label]


def test_txt_of_the_older_layout(tmp_path):
    table = read_file(
        write(tmp_path / "set.txt", "  1.0000000e+00  -6.4e-01   2.5\n  2.0000000e+00   1.0e+00  -1\n")
    )
    assert table.labels.tolist() == ["1", "2"]
    np.testing.assert_array_equal(np.concatenate(table.series), [[-0.64, 2.5], [1, -1]])


# ---- .arff --------------------------------------------------------------------------------------------


def test_arff_numeric_attributes_are_one_series(tmp_path):
    (record,) = read_records(write(tmp_path / "set.arff", ARFF + "1,?,b\n"))
    np.testing.assert_array_equal(record.values, [[1, np.nan]])
    assert record.label == "b"


@pytest.mark.parametrize("mark", ["'", '"'])
def test_arff_relational_attribute_has_a_channel_per_line_of_its_text(tmp_path, mark):
    (record,) = read_records(write(tmp_path / "set.arff", ARFF_TWO + f"{mark}1,2\\n3,4\\n5,6{mark},a\n"))
    assert (record.values.tolist(), record.label) == ([[1, 2], [3, 4], [5, 6]], "a")


def test_arff_labels_may_be_quoted(tmp_path):
    text = ARFF.replace("{a,b}", "{'no, thanks', \"b c\", d}") + "1,2,'no, thanks'\n3,4,\"b c\"\n5,6,d\n"
    assert read_file(write(tmp_path / "set.arff", text)).labels.tolist() == ["no, thanks", "b c", "d"]


def test_arff_comments_are_skipped(tmp_path):
    assert len(values_of(write(tmp_path / "set.arff", "% about\n" + ARFF + "% more\n1,2,a\n"))) == 1


def test_arff_without_a_class_has_no_labels(tmp_path):
    table = read_file(write(tmp_path / "set.arff", "@relation r\n@attribute t0 numeric\n@data\n1\n2\n"))
    assert (len(table.series), table.labels) == (2, None)


def test_arff_numeric_class_is_a_label(tmp_path):
    text = ARFF.replace("{a,b}", "numeric") + "1,2,0\n"
    assert read_file(write(tmp_path / "set.arff", text)).labels.tolist() == ["0"]


# ---- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("set.ts", TS + "1,2,3:a\n1,2:b\n", "7: has 2 value(s) per channel, expected 3"),
        ("set.ts", TS + "1,2,3:a\n1,2,3:4,5,6:b\n", "7: has 2 channel(s), expected 1"),
        ("set.ts", TS + "1,x,3:a\n", "6: point 1: 'x' is not a number"),
        ("set.ts", TS + "1,,3:a\n", "6: point 1: '' is not a number"),
        ("set.ts", TS + "1,2,3:c\n", "6: label 'c' is not one of the classes in the header"),
        ("set.ts", TS + "1,2,3\n", "6: has no label after the last ':'"),
        ("set.ts", TS + "(0,1),(1,2),(2,3):a\n", "6: series of (time, value) pairs are not supported"),
        ("set.ts", TS + "1,inf,3:a\n", "6: holds an infinite value"),
        ("set.ts", "@timeStamps true\n" + TS, "1: series of (time, value) pairs are not supported"),
        ("set.ts", TS.replace("@data\n", "") + "1,2,3:a\n", "5: expected a header line such as '@data'"),
        ("set.ts", TS.replace("@data\n", ""), "4: has no line '@data'"),
        ("set.ts", TS, " holds no series"),
        ("set.ts", "@univariate maybe\n", "1: expected true or false"),
        ("set.ts", "@dimensions two\n", "1: expected a positive whole number"),
        ("set.ts", "@seriesLength 0\n", "1: expected a positive whole number"),
        ("set.ts", "@univariate true\n@dimensions 2\n", "2: has 2 channel(s), expected 1"),
        ("set.ts", "@data 1,2,3\n", "1: expected a header line such as '@data'"),
        ("set.ts", TS_TWO + "1,2:3,4:a\n1,2:a\n", "7: has 1 channel(s), expected 2"),
        ("set.ts", TS_TWO + "1,2:3:a\n", "6: channels of unequal length: [1, 2]"),
        ("set.ts", TS_TWO + "1,2:3,x:a\n", "6: channel 1: point 1: 'x' is not a number"),
        ("set.ts", "@univariate false\n@data\n1:2\n1:2:3\n", "4: has 3 channel(s), expected 2"),
        ("set.ts", "@univariate true\n@equalLength true\n@data\n1,2\n1\n", "5: has 1 value(s) per channel"),
        ("set.tsv", "a\t1\t2\nb\t1\n", "2: has 1 value(s) per channel, expected 2"),
        ("set.tsv", "a\t1\t\n", "1: point 1: '' is not a number"),
        ("set.tsv", "a,1,2\n", "1: expected a label and then values"),
        ("set.tsv", "label\tt0\n", "1: point 0: 't0' is not a number"),
        ("set.txt", "1 2 3\n1 2\n", "2: has 1 value(s) per channel, expected 2"),
        ("set.txt", "Once upon a time\n", "1: point 0: 'upon' is not a number"),
        ("set.arff", ARFF + "1,2,3,a\n", "6: has 3 value(s) per channel, expected 2"),
        ("set.arff", ARFF + "1,2,c\n", "6: label 'c' is not one of the classes in the header"),
        ("set.arff", ARFF + "1,x,a\n", "6: point 1: 'x' is not a number"),
        ("set.arff", ARFF + "a\n", "6: expected values, a comma and a label"),
        ("set.arff", ARFF + "1,2,'a\n", '6: label "\'a" is not one of the classes in the header'),
        ("set.arff", ARFF + "'\n", "6: expected values, a comma and a label"),
        ("set.arff", ARFF.replace("@data\n", ""), "4: has no line '@data'"),
        ("set.arff", ARFF.replace("real", "date"), "3: attribute 't1' of type 'date' is not supported here"),
        ("set.arff", ARFF.replace("t1 real", "t1 {a,b}"), "4: the class must be the last attribute"),
        ("set.arff", "@relation r\n@data\n", "2: has no numeric attribute"),
        ("set.arff", "hello\n", "1: expected @relation, @attribute or @data, got 'hello'"),
        ("set.arff", ARFF_TWO + "'1,2\\n3',a\n", "8: channels of unequal length: [1, 2]"),
        ("set.arff", ARFF_TWO + "'1\\n3',a\n", "8: has 1 value(s) per channel, expected 2"),
        ("set.arff", ARFF_TWO + "'1,2',a\n'1,2\\n3,4',a\n", "9: has 2 channel(s), expected 1"),
        ("set.arff", ARFF_TWO + "1,2,a\n", "8: expected the relational attribute between quotes"),
    ],
)
def test_text_complaints_name_the_line(tmp_path, name, text, complaint):
    assert refusal(write(tmp_path / name, text)).startswith(complaint)
