"""Frames of pandas, polars and Arrow, and xarray objects, as series."""

import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nutime.data.series import SeriesSet, align, as_series, is_labelled, read_input

pd = pytest.importorskip("pandas")

DAYS = pd.date_range("2024-01-01", periods=4, freq="D")


def refusal(X, **arguments):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is compared by the caller)
        read_input(X, **arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(params=["pandas", "polars", "pyarrow"])
def frame_of(request):
    library = pytest.importorskip(request.param)
    return library.table if request.param == "pyarrow" else library.DataFrame


# ---- names ----------------------------------------------------------------------------------------------


def test_channels_in_another_order_are_put_in_order(frame_of):
    columns = {"x": [1.0, 2.0], "y": [3.0, 4.0]}
    fitted = read_input([frame_of(columns)])
    assert fitted.channel_names == ["x", "y"]
    given = read_input([frame_of({"y": columns["y"], "x": columns["x"]})], channel_names=fitted.channel_names)
    assert given.channel_names == ["x", "y"]
    np.testing.assert_array_equal(given.series[0], fitted.series[0])


def test_other_channels_are_refused_with_the_difference(frame_of):
    message = refusal([frame_of({"x": [1.0], "w": [2.0]})], channel_names=["x", "y", "z"])
    assert message == "the channels differ from 'x', 'y', 'z': missing 'y', 'z'; unexpected 'w'"


def test_columns_of_a_table_in_another_order_are_put_in_order(frame_of):
    fitted = read_input(frame_of({"t0": [1.0], "t1": [2.0], "t2": [np.nan]}))
    assert (fitted.feature_names, fitted.n_features) == (["t0", "t1", "t2"], 3)
    given = read_input(frame_of({"t2": [np.nan], "t1": [2.0], "t0": [1.0]}), feature_names=fitted.feature_names)
    np.testing.assert_array_equal(given.series[0], fitted.series[0])
    assert "unexpected 't9'" in refusal(frame_of({"t9": [1.0]}), feature_names=["t0"])


def test_unnamed_arrays_are_accepted_whatever_names_are_known():
    X = np.arange(12.0).reshape(2, 2, 3)
    given = read_input(X, channel_names=["x", "y"], feature_names=["a"])
    assert given.channel_names is None
    np.testing.assert_array_equal(np.stack(given.series), X)


@given(st.permutations(["a", "b", "c", "d"]), st.permutations(["a", "b", "c", "d"]))
def test_aligning_makes_order_irrelevant(one, other):
    values = {name: np.array([float(ord(name)), 0.0]) for name in "abcd"}
    sets = [SeriesSet([np.stack([values[name] for name in names])], channel_names=names) for names in (one, other)]
    first, second = (align(given, channel_names=["b", "a", "d", "c"]).series[0] for given in sets)
    np.testing.assert_array_equal(first, second)


def test_a_frame_in_a_list_with_other_columns_is_refused_with_its_index(frame_of):
    assert refusal([frame_of({"x": [1.0]}), frame_of({"z": [1.0]})]).startswith(
        "series 1: the columns differ from 'x': missing 'x'; unexpected 'z'"
    )


def test_channels_with_and_without_names_are_not_mixed(frame_of):
    given = [np.ones((2, 3)), frame_of({"x": [1.0], "y": [2.0]}), frame_of({"y": [2.0], "x": [1.0]})]
    assert refusal(given).startswith("series 2 has names of channels, series 0 has none")
    assert len(read_input([np.ones((1, 3)), frame_of({"x": [1.0]})])) == 2


# ---- lists, dicts, groups -------------------------------------------------------------------------------


def test_each_frame_of_a_list_is_a_series_with_a_channel_per_column(frame_of):
    frames = [frame_of({"x": [1.0, 2.0, 3.0], "y": [4.0, 5.0, 6.0]}), frame_of({"y": [1.0], "x": [0.0]})]
    first, second = as_series(frames)
    assert (first.tolist(), second.tolist()) == ([[1, 2, 3], [4, 5, 6]], [[0], [1]])


def test_the_keys_of_a_dict_are_ids(frame_of):
    given = read_input({"a": frame_of({"x": [1.0, 2.0]}), 7: frame_of({"x": [3.0]})})
    assert (given.ids, [values.tolist() for values in given.series]) == (["a", "7"], [[[1, 2]], [[3]]])
    assert read_input({("a", 7): [1.0, 2.0]}).ids == ["a/7"]


def test_a_column_of_times_is_not_a_channel(frame_of):
    given = read_input([frame_of({"time": [2, 0, 1], "x": [3.0, 1.0, 2.0]})])
    assert (given.channel_names, given.series[0].tolist()) == (["x"], [[1, 2, 3]])
    assert given.times[0].tolist() == [0, 1, 2]


def test_dates_are_times_whatever_the_column_is_called(frame_of):
    dates = [day.to_pydatetime() for day in DAYS]
    given = read_input([frame_of({"when": dates, "x": [1.0, 2.0, 3.0, 4.0]})])
    assert given.channel_names == ["x"]
    assert given.times[0].dtype.kind == "M"


def test_days_without_a_clock_are_times(frame_of):
    given = read_input([frame_of({"date": DAYS.date[[0, 1, 3]].tolist(), "x": [1.0, 2.0, 4.0]})])
    assert given.series[0].tolist() == [[1, 2, 3, 4]]
    np.testing.assert_array_equal(given.times[0], DAYS.to_numpy())


def test_a_column_of_polars_arrays_is_a_channel():
    pl = pytest.importorskip("polars")
    given = read_input(pl.DataFrame({"x": np.arange(6.0).reshape(2, 3)}))
    assert given.channel_names == ["x"]
    assert [values.tolist() for values in given.series] == [[[0, 1, 2]], [[3, 4, 5]]]


def test_a_record_batch_of_arrow_may_have_nulls():
    batch = pytest.importorskip("pyarrow").record_batch({"time": [0, 1, 2], "x": [1, None, 3]})
    assert as_series(batch)[0].tolist() == [[1, 2, 3]]


def test_a_column_may_be_named_like_an_attribute_of_arrow():
    assert read_input([pd.DataFrame({"column_names": [1.0, 2.0]})]).channel_names == ["column_names"]


def test_a_group_is_a_series():
    frame = pd.DataFrame({"who": ["b", "a", "b"], "x": [1.0, 2.0, 3.0]})
    for groups in (frame.groupby("who"), frame.groupby(["who"]), frame.groupby("who")["x"]):
        given = read_input(groups)
        assert (given.ids, [values.tolist() for values in given.series]) == (["a", "b"], [[[2]], [[1, 3]]])


@pytest.mark.parametrize("columns", [["x"], ["ax", "ay", "az"]])
def test_rows_whose_index_repeats_an_id_may_be_points_and_are_refused(columns):
    frame = pd.DataFrame({name: np.arange(4.0) for name in columns}, index=pd.Index([*"aabb"], name="id"))
    with pytest.raises(ValueError, match=r"the same id in the index: give X.groupby\(level=0\) if rows"):
        read_input(frame)
    groups = read_input(frame.groupby(level=0))
    assert (groups.ids, [values.shape for values in groups.series]) == (["a", "b"], 2 * [(len(columns), 2)])
    assert [values.shape for values in as_series(frame.reset_index(drop=True))] == 4 * [(1, len(columns))]


@pytest.mark.parametrize("columns", [range(2), ["0.5", "1"], [f"t{index}" for index in range(17)]])
def test_rows_of_points_may_repeat_an_id_in_the_index(columns):
    frame = pd.DataFrame(np.ones((2, len(columns))), index=pd.Index(["a", "a"], name="id"), columns=columns)
    assert [values.shape for values in as_series(frame)] == 2 * [(1, len(columns))]


def test_the_key_of_a_group_is_no_channel_however_it_is_given():
    pl = pytest.importorskip("polars")
    columns = {"who": [2, 1, 2], "time": [0, 0, 1], "x": [1.0, 2.0, 3.0]}
    frame, other = pd.DataFrame(columns), pl.DataFrame(columns)
    by_pandas = [frame.groupby(frame["who"]), frame.rename(columns={"who": 0}).groupby(0)]
    by_polars = [other.group_by(["who"]), other.group_by(pl.col("who")), other.group_by(person="who")]
    for groups in by_pandas + by_polars:
        given = read_input(groups)
        assert (given.ids, given.channel_names) == (["1", "2"], ["x"])
        assert [values.tolist() for values in given.series] == [[[2]], [[1, 3]]]


@pytest.mark.parametrize("by", [pd.Grouper(key="time", freq="2D"), lambda row: row // 2, np.array([0, 0, 1, 1])])
def test_a_computed_key_leaves_the_columns_as_they_are(by):
    given = read_input(pd.DataFrame({"time": DAYS, "x": [1.0, 2.0, 3.0, 4.0]}).groupby(by))
    assert [values.tolist() for values in given.series] == [[[1, 2]], [[3, 4]]]
    assert np.concatenate(given.times).tolist() == DAYS.to_numpy().tolist()


def test_groups_of_polars_are_sorted_unless_their_order_is_maintained():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"who": ["b", "a", "b"], "x": [1.0, 2.0, 3.0]})
    assert read_input(frame.group_by("who")).ids == ["a", "b"]
    numbered = pl.DataFrame({"who": [*range(1, 13)] * 2, "value": range(24)})
    assert read_input(numbered.group_by("who")).ids == [str(number) for number in range(1, 13)]
    given = read_input(frame.group_by("who", maintain_order=True))
    assert (given.ids, given.channel_names) == (["b", "a"], ["x"])


# ---- one row per point ----------------------------------------------------------------------------------


def test_a_multi_index_of_ids_and_times_is_one_series_per_id():
    index = pd.MultiIndex.from_product([["p", "q"], DAYS], names=["machine", "time"])
    frame = pd.DataFrame({"x": np.arange(8.0), "y": np.arange(8.0) + 10}, index=index)
    given = read_input(frame.sample(frac=1, random_state=0).sort_index(level=1))
    assert (sorted(given.ids), given.channel_names) == (["p", "q"], ["x", "y"])
    by_id = dict(zip(given.ids, given.series, strict=True))
    np.testing.assert_array_equal(by_id["q"], [np.arange(4, 8), np.arange(14, 18)])


def test_a_pandas_series_with_ids_and_times_is_one_series_per_id():
    index = pd.MultiIndex.from_product([["p", "q"], DAYS])
    given = read_input(pd.Series(np.arange(8.0), index=index))
    assert given.ids == ["p", "q"]
    assert [values.tolist() for values in given.series] == [[[0, 1, 2, 3]], [[4, 5, 6, 7]]]


@pytest.mark.parametrize(
    ("index", "ids"),
    [
        (pd.Index(["p", "p", "q", "q"], name="id"), ["p", "q"]),
        (pd.MultiIndex.from_arrays([["p", "p", "q", "q"], [1, 1, 2, 2]], names=["who", "run"]), ["p/1", "q/2"]),
        (pd.MultiIndex.from_product([["p", "q"], [0, 1]]), ["p", "q"]),  # as pd.concat with keys leaves it
        (pd.Index([7, 8, 9, 10], name="id"), None),  # numbers the rows
    ],
)
def test_an_index_beside_a_column_of_times_holds_ids(index, ids):
    given = read_input(pd.DataFrame({"time": DAYS, "x": np.arange(4.0)}, index=index))
    assert (given.ids, len(given), given.channel_names) == (ids, len(ids or [1]), ["x"])


def test_columns_that_are_named_time_are_points_whatever_the_index():
    index = pd.MultiIndex.from_product([[1, 2], [1, 2]], names=["subject", "trial"])
    points = pd.DataFrame(np.arange(12.0).reshape(4, 3), index, columns=pd.RangeIndex(3, name="time"))
    assert [values.tolist() for values in as_series(points)] == [[row] for row in points.to_numpy().tolist()]


def test_columns_of_channels_and_times_are_refused_with_the_remedy():
    columns = pd.MultiIndex.from_product([["x", "y"], [0, 1, 2]], names=[None, "time"])
    frame = pd.DataFrame(np.arange(12.0).reshape(2, 6), ["p", "q"], columns)
    assert refusal(frame).endswith("X.stack()")
    given = read_input(frame.stack(future_stack=True))
    assert (given.ids, given.channel_names) == (["p", "q"], ["x", "y"])
    assert given.series[1].tolist() == [[6, 7, 8], [9, 10, 11]]


@pytest.mark.parametrize("index", [DAYS, DAYS.tz_localize("Europe/Berlin"), DAYS.to_period("D")])
def test_an_index_of_dates_makes_a_frame_one_series(index):
    (series,) = as_series(pd.DataFrame({"x": np.arange(4.0), "y": np.ones(4)}, index=index))
    np.testing.assert_array_equal(series, [[0, 1, 2, 3], [1, 1, 1, 1]])


def test_an_index_of_dates_as_text_holds_times():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"v": [1.0, 2.0, 4.0]}, index=["2024-01-01", "2024-01-02", "2024-01-04"])
    for one in (frame, frame["v"]):
        (series,) = as_series(one)
        assert series.tolist() == [[1, 2, 3, 4]]
    nested = pd.DataFrame({"v": [[1.0, 2.0], [3.0, 4.0]]}, index=frame.index[:2])
    assert len(as_series(nested)) == 2


@pytest.mark.parametrize(
    "columns",
    [
        [f"{hour}:00" for hour in range(24)],
        [f"{hour} am" for hour in range(12)],
        pd.date_range("2024-01-01", periods=24, freq="h").time,
        pd.timedelta_range(0, periods=24, freq="h"),
        DAYS,
        range(24),
        [f"t{hour}" for hour in range(1, 25)],
        [f"{hour}h" for hour in range(24)],
        [f"hour {hour}" for hour in range(24)],
    ],
)
@pytest.mark.parametrize("index", [DAYS, DAYS.astype(str), DAYS.tz_localize("Europe/Berlin"), DAYS.to_period("D")])
@pytest.mark.filterwarnings("ignore:series of")
def test_each_row_of_a_frame_of_days_and_hours_is_a_series(index, columns):
    frame = pd.DataFrame(np.arange(4.0 * len(columns)).reshape(4, -1), index, columns)
    for X in (frame, frame.reset_index(names="date")):
        np.testing.assert_array_equal(np.concatenate(as_series(X)), frame.to_numpy())
        for recordings in ([X], {"one": X}):
            assert "beside dates are read as points; give one row per point, or rename" in refusal(recordings)
    assert as_series([frame.add_prefix("sensor ")])[0].shape == (len(columns), 4)


def test_hours_beside_a_column_of_days_are_points(frame_of):
    hours = {f"{hour}:00": [1.0, 2.0, 3.0, 4.0] for hour in range(24)}
    given = read_input(frame_of({"date": [day.to_pydatetime() for day in DAYS], **hours}))
    assert (len(given), given.feature_names) == (4, list(hours))


def test_durations_in_the_names_of_channels_are_no_hours_of_the_day():
    frame = pd.DataFrame(np.ones((4, 3)), DAYS, ["1h", "6h", "24h"])
    assert read_input(frame).channel_names == ["1h", "6h", "24h"]


@pytest.mark.parametrize(("n_columns", "freq"), [(25, "D"), (24, "h")])
@pytest.mark.filterwarnings("ignore:series of")
def test_numbered_columns_beside_dates_are_refused_where_they_may_be_both(n_columns, freq):
    frame = pd.DataFrame(np.ones((4, n_columns)), pd.date_range("2024-01-01", periods=4, freq=freq))
    assert "beside dates are channels or points: rename them if each row is a point" in refusal(frame)
    assert len(read_input(frame.add_prefix("sensor")).channel_names) == n_columns
    assert len(read_input(frame.reset_index(drop=True))) == 4
    assert len(read_input(frame.iloc[:, :16])) == 1


def test_the_times_of_nested_series_count():
    pd = pytest.importorskip("pandas")
    cell = pd.Series([1.0, 2.0, 4.0], pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-04"]))
    found = read_input(pd.DataFrame({"a": [cell, cell], "b": [cell, cell]}))
    assert [series.tolist() for series in found.series] == [[[1, 2, 3, 4]] * 2] * 2
    assert len(found.times[0]) == 4
    nested = np.empty((2, 2), object)
    for place in np.ndindex(2, 2):
        nested[place] = cell
    assert [series.tolist() for series in as_series(nested)] == [[[1, 2, 3, 4]] * 2] * 2
    assert [series.tolist() for series in as_series(nested[0])] == [[[1, 2, 3, 4]]] * 2
    for other in (cell[:2], cell.to_numpy()):
        assert refusal(pd.DataFrame({"a": [cell], "b": [other]})).startswith("series 0: its cells differ in their")


def test_a_frame_with_times_is_one_series_and_with_ids_one_per_id(frame_of):
    columns = {"Time": [0, 1, 0, 1], "x": [1.0, 2.0, 3.0, 4.0]}
    given = read_input(frame_of({"series_id": ["p", "p", "q", "q"], **columns}))
    assert (given.ids, [values.tolist() for values in given.series]) == (["p", "q"], [[[1, 2]], [[3, 4]]])
    assert as_series(frame_of({"timestamp": [0, 1], "x": [1.0, 2.0]}))[0].tolist() == [[1, 2]]


def test_a_pandas_series_with_dates_is_put_on_the_grid():
    dates = pd.DatetimeIndex([*DAYS[:3], pd.Timestamp("2024-01-06")])
    for index in (dates, dates - dates[0]):
        series = pd.Series([1.0, 2.0, 3.0, 6.0], index=index)
        for X in (series, [series]):
            assert as_series(X)[0].tolist() == [[1, 2, 3, 4, 5, 6]]


def test_one_line_says_what_was_done_to_the_times(caplog):
    index = [*DAYS, pd.Timestamp("2024-01-08")]
    with caplog.at_level(logging.WARNING, "nutime"):
        given = read_input(pd.DataFrame({"x": np.arange(5.0)}, index=index))
    assert given.notes == ("times: 3 missing timestamps in 1 series made missing values",)
    assert [record.message for record in caplog.records] == list(given.notes)


@pytest.mark.parametrize(("zone", "n_shifted"), [("Europe/Berlin", 4), ("UTC", 0), (None, 0)])
def test_a_change_to_utc_is_noted(frame_of, zone, n_shifted):
    times = DAYS.tz_localize(zone)
    by_index = pd.DataFrame({"x": np.arange(4.0)}, index=times)
    for X in (by_index, [by_index["x"]], frame_of({"time": times, "x": np.arange(4.0)})):
        given = read_input(X)
        note = f"times: {n_shifted} times with a zone changed to UTC, and written without a zone"
        assert given.notes == ((note,) if n_shifted else ())
        np.testing.assert_array_equal(given.times[0], times.tz_convert(None) if zone else times)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (lambda: pd.DataFrame({"time": [0, 1], "x": ["a", "b"]}), "column 'x' is not numeric"),
        (lambda: pd.DataFrame({"time": [0, 0, 0], "x": [1.0, 2.0, 3.0]}), "series 0: 2 of 3 rows repeat"),
        (lambda: pd.DataFrame({"time": ["now", "then"], "x": [1.0, 2.0]}), "time 'now' is neither"),
        (lambda: pd.DataFrame({"time": [0, 1], "date": [0, 1], "x": [1.0, 2.0]}), "columns 'time' and 'date'"),
        (lambda: pd.DataFrame({"time": [0, 1]}), "has no column of values"),
        (lambda: pd.DataFrame({"time": [0.0, np.nan], "x": [1.0, 2.0]}), "series 0: the time of row 1 is missing"),
        (
            lambda: pd.DataFrame({"time": [0, 1], "id": [None, "p"], "x": [1.0, 2.0]}),
            "column 'id': the id of a row",
        ),
        (
            lambda: pd.DataFrame({"id": pd.Series(["p", pd.NA], dtype=object), "time": [0, 1], "x": [1.0, 2.0]}),
            "column 'id': the id of a row",
        ),
        (
            lambda: pd.DataFrame({"time": pd.Series(["2024", pd.NA], dtype=object), "x": [1.0, 2.0]}),
            "the time is missing",
        ),
        (
            lambda: pd.DataFrame({"Unnamed: 0": [0, 1], "time": [0, 1], "x": [1.0, 2.0]}),
            "column 'Unnamed: 0' holds",
        ),
        (
            lambda: pd.DataFrame({"Unnamed: 0": [0, 1], "t0": [0, 1], "t1": [1.0, 2.0]}),
            "column 'Unnamed: 0' holds",
        ),
        (
            lambda: pd.DataFrame({"x": [1.0, 2.0]}, pd.MultiIndex.from_arrays([["p", None], [0, 1]])),
            "the index: the id of a row",
        ),
        (
            lambda: pd.DataFrame({"time": range(4), "x": range(4)}, DAYS),
            "the index and column 'time' may both hold the time",
        ),
        (
            lambda: pd.DataFrame({"id": [1, 2], "x": [1.0, 2.0]}, pd.MultiIndex.from_arrays([["p", "p"], [0, 1]])),
            "the index and column 'id' may both hold the id",
        ),
        (lambda: [pd.DataFrame({"id": ["p", "q"], "x": [1.0, 2.0]})], "series 0: holds 2 ids"),
        (lambda: [pd.DataFrame({"x": ["a"]})], "series 0: column 'x' is not numeric"),
    ],
)
def test_what_is_wrong_in_a_frame_of_times_is_one_line(frame, message):
    assert refusal(frame()).startswith(message)


def test_the_remedy_is_code_of_the_library_of_the_frame():
    columns = {"t0": [1.0], "label": [1.0]}
    assert refusal(pd.DataFrame(columns)).endswith("X.drop(columns=['label'])")
    assert refusal(pytest.importorskip("pyarrow").table(columns)).endswith("X.drop_columns(['label'])")
    assert refusal(pytest.importorskip("polars").DataFrame(columns)).endswith("X.drop('label')")


# ---- xarray ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [("case", "channel", "time"), ("time", "case", "channel")])
def test_the_names_of_dimensions_decide_in_xarray(order):
    xr = pytest.importorskip("xarray")
    values = np.arange(24.0).reshape(2, 3, 4)
    array = xr.DataArray(
        values, dims=("case", "channel", "time"), coords={"channel": ["x", "y", "z"], "case": [7, 8], "time": DAYS}
    )
    given = read_input(array.transpose(*order))
    np.testing.assert_array_equal(np.stack(given.series), values)
    assert (given.channel_names, given.ids) == (["x", "y", "z"], ["7", "8"])


def test_the_names_of_dimensions_decide_in_a_list_of_xarray_objects():
    xr = pytest.importorskip("xarray")
    values = np.arange(8.0).reshape(4, 2)
    later = {"channel": ["y", "x"], "time": DAYS[:1].append(DAYS[2:]).append(DAYS[3:] + DAYS.freq)}
    arrays = [
        xr.DataArray(values, dims=("time", "channel"), coords=coordinates)
        for coordinates in ({"channel": ["x", "y"], "time": DAYS}, later)
    ]
    for X in (arrays, dict(zip("pq", arrays, strict=True))):
        given = read_input(X)
        np.testing.assert_array_equal(given.series[0], values.T)
        np.testing.assert_array_equal(given.series[1], [[1, 2, 3, 5, 7], [0, 1, 2, 4, 6]])
        assert given.channel_names == ["x", "y"]
        assert [len(times) for times in given.times] == [4, 5]
    several = xr.DataArray(values, dims=("case", "time"))
    assert refusal([several]).startswith("series 0: holds 4 series; give it itself instead of a list")


def test_the_variables_of_a_dataset_are_channels():
    xr = pytest.importorskip("xarray")
    data = xr.Dataset({"x": ("time", [1.0, 2.0]), "y": ("time", [3.0, 4.0])})
    given = read_input(data)
    assert (given.channel_names, given.series[0].tolist()) == (["x", "y"], [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("dims", "message"),
    [(("case", "when"), "dimension 'when' is not understood"), (("case", "channel"), "no dimension is")],
)
def test_unknown_dimensions_are_refused(dims, message):
    xr = pytest.importorskip("xarray")
    assert refusal(xr.DataArray(np.ones((2, 3)), dims=dims)).startswith(message)


# ---- channels last, labels ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 60, 3), (5, 100, 1), (1, 70, 16)])
def test_an_array_with_channels_last_is_warned_about_with_the_remedy(shape):
    with pytest.warns(UserWarning, match=r"give X\.transpose\(0, 2, 1\)"):
        as_series(np.ones(shape))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shape", [(2, 3, 60), (5, 144, 62), (5, 963, 144), (3, 12, 7)])
def test_an_array_with_channels_first_is_not_warned_about(shape):
    as_series(np.ones(shape))


@pytest.mark.parametrize(
    ("y", "labelled"),
    [
        (["a", "", " ", "?", "b"], [1, 0, 0, 0, 1]),
        ([1.0, np.nan], [1, 0]),
        ([1, 0], [1, 1]),
        (np.ma.masked_array([1, 2, 3], [0, 1, 0]), [1, 0, 1]),
        (np.ma.masked_array(["a", "b"], [0, 1]), [1, 0]),
        (np.array(["a", None, np.nan, 3, pd.NaT, pd.NA], object), [1, 0, 0, 1, 0, 0]),
        (np.array(["2024-01-01", "NaT"], "datetime64[D]"), [1, 0]),
    ],
)
def test_blank_question_mark_and_nan_mean_unlabelled(y, labelled):
    assert is_labelled(y).tolist() == list(map(bool, labelled))
