"""The input contract: what counts as a series, what comes out, and what is refused."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from nutime.data.series import as_series, resample

FINITE = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
MODERATE = st.floats(-1e6, 1e6)


def refusal(X):
    """Return the message with which X is refused; it is always a single line."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the message is what the tests look at
        as_series(X)
    message = str(caught.value)
    assert "\n" not in message
    return message


# ---- what is accepted ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "shapes"),
    [
        (np.ones((3, 5)), [(1, 5)] * 3),
        (np.ones((3, 2, 5)), [(2, 5)] * 3),
        ([np.ones(4), np.ones(7)], [(1, 4), (1, 7)]),
        ((np.ones((2, 4)), np.ones((2, 7))), [(2, 4), (2, 7)]),
        ([[1, 2, 3], [4, 5]], [(1, 3), (1, 2)]),
        ([[[1, 2], [3, 4]]], [(2, 2)]),
        ([np.ones(3), np.ones((1, 4))], [(1, 3), (1, 4)]),
        (np.ones((2, 1)), [(1, 1)] * 2),
    ],
    ids=["matrix", "cube", "list-1d", "tuple-2d", "nested-lists", "nested-channels", "mixed-ranks", "one-point"],
)
def test_every_accepted_shape_becomes_channels_by_length(X, shapes):
    assert [values.shape for values in as_series(X)] == shapes


def test_a_list_of_series_keeps_order_and_values():
    first, second = as_series([[1.0, 2.0], [3.0, 4.0, 5.0]])
    np.testing.assert_array_equal(first, [[1, 2]])
    np.testing.assert_array_equal(second, [[3, 4, 5]])


@pytest.mark.parametrize(
    ("given_dtype", "dtype"),
    [
        (np.float32, np.float32),
        (np.float16, np.float32),
        (np.float64, np.float64),
        (np.int64, np.float64),
        (np.uint8, np.float64),
        (np.bool_, np.float64),
        (">f4", np.float32),
        (">f8", np.float64),
    ],
)
def test_float32_stays_and_everything_else_becomes_float64(given_dtype, dtype):
    (values,) = as_series(np.array([[0, 1, 1]], given_dtype))
    assert values.dtype == dtype
    np.testing.assert_array_equal(values, [[0, 1, 1]])


def test_large_integers_keep_every_digit_that_float64_has():
    (values,) = as_series(np.array([[2**53 - 1, 1]]))
    assert values[0, 0] == 2**53 - 1


def test_series_of_both_precisions_keep_their_own():
    assert [v.dtype for v in as_series([np.ones(2, np.float32), np.ones(2)])] == [np.float32, np.float64]


def test_a_dataframe_has_one_series_per_row():
    pandas = pytest.importorskip("pandas")
    series = as_series(pandas.DataFrame({"b": [1, 2], "a": [3.0, np.nan]}))
    np.testing.assert_array_equal(series[0], [[1, 3]])
    np.testing.assert_array_equal(series[1], [[2]])


def test_nullable_columns_of_a_dataframe_have_missing_values():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": [None, 5.5], "c": [True, None], "d": [4, 9]}).convert_dtypes()
    assert [values.tolist() for values in as_series(frame)] == [[[1, 1, 1, 4]], [[2, 5.5, 7.25, 9]]]
    assert as_series([frame["b"]])[0].tolist() == [[5.5]]


@pytest.fixture(params=["pyarrow.table", "polars.DataFrame", "pandas.DataFrame"])
def frame_of(request):
    """Return what makes a frame of columns, in each library that has such."""
    library, _, name = request.param.partition(".")
    return getattr(pytest.importorskip(library), name)


def test_frames_of_every_library_have_one_series_per_row(frame_of):
    series = as_series(frame_of({"b": [1, 2], "a": [None, 4.0], "c": [5, 7]}))
    assert [values.tolist() for values in series] == [[[1, 3, 5]], [[2, 4, 7]]]


def test_frames_of_every_library_may_have_series_in_their_cells(frame_of):
    first, second = as_series(frame_of({"x": [[1.0, 2.0], [3.0]], "y": [[4.0, 5.0], [6.0]]}))
    assert (first.tolist(), second.tolist()) == ([[1, 2], [4, 5]], [[3], [6]])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"label": [0, 1]}, "column 'label' holds labels; give them as y"),
        ({"Series": [0.0, 1.0]}, "column 'Series' holds ids"),
        ({"who": ["Ann", "Bob"]}, "column 'who' is not numeric"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_frames_of_every_library_are_refused_columns_that_are_no_points(frame_of, column, message):
    assert refusal(frame_of({"t0": [1.0, 2.0], **column})).startswith(message)


def test_a_frame_of_series_has_one_channel_per_column():
    pandas = pytest.importorskip("pandas")
    rows = [
        [np.arange(3.0), np.ones(3)],
        [pandas.Series([1.0, np.nan, 3.0, 4.0], index=list("dcba")), [0, 0, 0, 0]],
    ]
    first, second = as_series(pandas.DataFrame(rows, columns=["x", "y"], index=[7, 7]))
    np.testing.assert_array_equal(first, [[0, 1, 2], [1, 1, 1]])
    np.testing.assert_array_equal(second, [[1, 2, 3, 4], [0, 0, 0, 0]])


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([[np.ones(3), np.ones(4)]], "series 0: channels of unequal length"),
        ([[np.ones(3)], [None]], "series 1: dtype object is not numeric"),
        ([[np.ones(3)], ["abc"]], "series 1: dtype"),
        ([[np.ones(3), 1.0]], "column 1 holds single values"),
        ([[np.ones(3), "abc"]], "column 1 holds single values"),
        ([[np.ones(3)], [np.ones(0)]], "series 1: is empty"),
    ],
    ids=["unequal", "missing", "text", "number beside", "text beside", "empty"],
)
def test_what_is_wrong_in_a_frame_of_series_is_named(cells, message):
    pandas = pytest.importorskip("pandas")
    assert refusal(pandas.DataFrame(cells)).startswith(message)


def array_of(*cells, shape=None):
    """Return an array of objects; numpy would rather make one of numbers where it can."""
    return np.fromiter(cells, object, len(cells)).reshape(shape or -1)


@pytest.mark.parametrize("lengths", [(3, 2), (3, 3)])
def test_an_array_of_series_is_a_list_of_series(lengths):
    given = [np.arange(float(length)) for length in lengths]
    series = as_series(array_of(*given))
    assert [values.tolist() for values in series] == [[values.tolist()] for values in given]


def test_a_table_of_series_has_one_channel_per_column():
    first, second = as_series(array_of(np.ones(3), np.zeros(3), [1, 2], [3, 4], shape=(2, 2)))
    np.testing.assert_array_equal(first, [[1, 1, 1], [0, 0, 0]])
    np.testing.assert_array_equal(second, [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (array_of(np.ones(3), None), "series 1: dtype object is not numeric"),
        (array_of(np.ones(3), "abc"), "series 1: dtype <U3 is not numeric"),
        (array_of(1.0, 2.0), "got 1 dimension(s)"),
        (array_of("abc", "de"), "got 1 dimension(s)"),
        (array_of(np.ones(3), np.ones(4), shape=(1, 2)), "series 0: channels of unequal length"),
    ],
    ids=["missing", "text beside", "numbers", "text", "unequal"],
)
def test_what_is_wrong_in_an_array_of_series_is_named(array, message):
    assert refusal(array).startswith(message)


def test_a_tensor_is_an_array_whether_or_not_it_is_being_trained():
    tensor = torch.arange(6.0).reshape(2, 3).requires_grad_()
    for form in (tensor, list(tensor), array_of(*tensor), tensor.bfloat16(), list(tensor.bfloat16())):
        np.testing.assert_array_equal(np.stack(as_series(form)), [[[0, 1, 2]], [[3, 4, 5]]])


def test_a_pandas_series_of_arrays_is_a_list_of_series():
    pandas = pytest.importorskip("pandas")
    series = as_series(pandas.Series([np.ones(3), np.ones((1, 2))], index=[7, 8]))
    assert [values.shape for values in series] == [(1, 3), (1, 2)]


# ---- missing values and padding -----------------------------------------------------------------------


def test_nan_at_both_ends_is_trimmed():
    (values,) = as_series([[np.nan, np.nan, 1.0, 2.0, np.nan]])
    np.testing.assert_array_equal(values, [[1, 2]])


def test_none_is_missing_too():
    (one_channel,) = as_series([[None, 1, None, np.float32(3.5), np.int64(4)]])
    np.testing.assert_array_equal(one_channel, [[1, 2.25, 3.5, 4]])
    (two_channels,) = as_series([[[1, 2], [None, 4.0]]])
    np.testing.assert_array_equal(two_channels, [[1, 2], [4, 4]])


def test_nan_between_two_values_is_interpolated():
    (values,) = as_series([[1.0, np.nan, np.nan, 4.0]])
    np.testing.assert_allclose(values, [[1, 2, 3, 4]])


def test_nan_at_the_end_of_one_channel_is_held_constant():
    (values,) = as_series([[[np.nan, 1.0, 2.0, np.nan], [5.0, 6.0, 7.0, 8.0]]])
    np.testing.assert_array_equal(values, [[1, 1, 2, 2], [5, 6, 7, 8]])


def test_nan_is_padding_only_where_all_channels_have_it():
    (values,) = as_series([[[1.0, np.nan, np.nan], [1.0, 2.0, np.nan]]])
    assert values.shape == (2, 2)


@given(
    arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=MODERATE),
    st.integers(0, 4),
    st.integers(0, 4),
)
def test_padding_on_either_side_changes_nothing(values, before, after):
    padded = np.pad(values, [(0, 0), (before, after)], constant_values=np.nan)
    np.testing.assert_array_equal(as_series([padded])[0], values)


@given(
    arrays(np.float64, st.integers(1, 12), elements=st.floats(-1e150, 1e150) | st.just(np.nan)).filter(
        lambda row: np.isfinite(row).any()
    )
)
def test_known_values_survive_and_the_rest_lies_between_them(row):
    (values,) = as_series([row])
    known = np.flatnonzero(np.isfinite(row))
    kept = row[known[0] : known[-1] + 1]
    assert np.isfinite(values).all()
    np.testing.assert_array_equal(values[0][np.isfinite(kept)], kept[np.isfinite(kept)])
    slack = 1e-12 * np.abs(kept[np.isfinite(kept)]).max()
    assert values.min() >= np.nanmin(row) - slack
    assert values.max() <= np.nanmax(row) + slack


def test_a_gap_between_huge_values_is_filled_with_finite_ones():
    (values,) = as_series([[-1.7e308, np.nan, 1.7e308]])
    assert np.isfinite(values).all()


def test_what_a_masked_array_hides_is_missing():
    (values,) = as_series(np.ma.MaskedArray([[1, 99, 3]], mask=[[False, True, False]]))
    np.testing.assert_array_equal(values, [[1, 2, 3]])


# ---- the input is only read ---------------------------------------------------------------------------


@pytest.mark.parametrize("hole", [1.5, np.nan])
def test_read_only_input_is_accepted_and_not_modified(hole):
    X = np.arange(24.0).reshape(2, 2, 6)
    X[0, 0, 2] = hole
    before = X.copy()
    X.flags.writeable = False
    as_series(X)
    np.testing.assert_array_equal(X, before)


def test_filling_gaps_does_not_write_into_the_input():
    X = np.array([[1.0, np.nan, 3.0]])
    as_series(X)
    assert np.isnan(X[0, 1])


@pytest.mark.parametrize("view", [np.s_[:, :, ::-1], np.s_[:, ::-1, ::2], np.s_[::-1]])
def test_non_contiguous_input_gives_contiguous_series_with_the_same_values(view):
    X = np.arange(24.0).reshape(2, 2, 6)[view]
    for values, expected in zip(as_series(X), X, strict=True):
        assert values.flags.c_contiguous
        np.testing.assert_array_equal(values, expected)


def test_fortran_order_is_accepted():
    X = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    np.testing.assert_array_equal(np.concatenate(as_series(X)), X)


# ---- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize("X", [[], (), np.empty((0, 5)), np.empty((0, 2, 5))], ids=repr)
def test_no_series_at_all_is_refused(X):
    assert refusal(X).startswith("no series given")


@pytest.mark.parametrize("empty", [[], np.empty((2, 0)), np.empty((0, 3))], ids=repr)
def test_an_empty_series_is_refused_with_its_index(empty):
    assert refusal([np.ones((2, 3)), empty]).startswith("series 1: is empty, shape")


def test_a_series_of_nan_alone_is_refused_with_its_index():
    assert refusal([[1.0], [np.nan, np.nan]]).startswith("series 1: has only NaN")


def test_a_channel_of_nan_alone_is_refused_with_its_number():
    assert refusal([[[1.0, 2.0], [np.nan, np.nan]]]).startswith("series 0: channel 1 has only NaN")


@pytest.mark.parametrize("infinity", [np.inf, -np.inf])
def test_an_infinite_value_is_refused_with_its_place(infinity):
    message = refusal([[[1.0, 2.0, 3.0], [1.0, np.nan, infinity]]])
    assert message.startswith("series 0: infinite value at channel 1, point 2;")


def test_series_with_different_numbers_of_channels_are_refused():
    message = refusal([np.ones((2, 4)), np.ones((2, 4)), np.ones((3, 4))])
    assert message.startswith("series 2: has 3 channel(s) but series 0 has 2;")


@pytest.mark.parametrize(
    ("X", "start"),
    [
        ([["a", "b"]], "series 0: dtype <U1 is not numeric"),
        ([[1.0], [None, "x"]], "series 1: dtype object is not numeric"),
        (np.array([[1, "x"]], dtype=object), "series 0: dtype object is not numeric"),
        (np.ones((2, 3), complex), "series 0: dtype complex128 is not numeric"),
        (np.zeros((2, 3), "datetime64[s]"), "series 0: dtype datetime64[s] is not numeric"),
        ([[[1, 2], [3]]], "series 0: channels of unequal length"),
        ([np.ones((2, 3, 4))], "series 0: has 3 dimension(s)"),
        ([1.0, 2.0], "series 0: has 0 dimension(s)"),
        (np.ones((2, 3, 4, 5)), "got 4 dimension(s)"),
        (3.0, "got float: "),
        ("GunPoint", "got str: "),
        (None, "got NoneType: "),
        pytest.param(iter([np.ones(5)]), "got list_iterator: ", id="iterator"),
    ],
    ids=repr,
)
def test_anything_else_is_refused_with_what_was_expected(X, start):
    message = refusal(X)
    assert message.startswith(start)
    assert "expected an array (n, length)" in message


def test_an_integer_beyond_all_floats_is_refused():
    assert refusal([[1.0, 10**400]]).startswith("series 0: dtype object is not numeric")


def test_a_single_flat_series_is_refused_with_the_remedy():
    assert refusal(np.ones(5)).endswith("put a single series into a list")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([" label ", "t0", "t1"], "column ' label ' holds labels"),
        (["t0", "t1", "target"], "column 'target' holds labels"),
        (["time", "t1", "target"], "column 'target' holds labels"),
    ],
)
def test_a_dataframe_with_a_column_that_is_no_point_is_refused_by_name(columns, message):
    pandas = pytest.importorskip("pandas")
    assert refusal(pandas.DataFrame(np.ones((4, len(columns))), columns=columns)).startswith(message)


def test_columns_of_one_letter_and_numbers_are_points():
    pandas = pytest.importorskip("pandas")
    assert len(as_series(pandas.DataFrame(np.ones((4, 4)), columns=["t", "y", 0, ("label", 1)]))) == 4


@pytest.mark.parametrize("names", [["t0", "t1", "y"], [0, 1, "y"]], ids=["names", "numbers"])
def test_a_column_y_beside_points_is_refused_as_labels(names):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=r"column 'y' holds labels; .*: X\.drop\(columns=\['y'\]\)"):
        as_series(pandas.DataFrame(np.ones((4, 3)), columns=names))


def test_columns_x_and_y_may_be_channels_and_are_refused_with_the_remedy():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.ones((4, 3)), columns=["x", "y", "z"])
    with pytest.raises(ValueError, match=r"columns 'x' and 'y': give \[X\] if rows are points, X\.to_numpy"):
        as_series(frame)
    assert as_series([frame])[0].shape == (3, 4)
    assert len(as_series(frame.to_numpy())) == 4


@pytest.mark.parametrize("column", [["x", "y"], ["2020-01-01", "2020-01-02"]])
def test_a_dataframe_with_a_text_column_is_refused_by_name(column):
    pandas = pytest.importorskip("pandas")
    assert refusal(pandas.DataFrame({"t0": [1.0, 2.0], "who": column})).startswith("column 'who' is not numeric")


# ---- resample -----------------------------------------------------------------------------------------


@given(
    arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=8), elements=FINITE)
    | arrays(
        np.float32,
        array_shapes(min_dims=2, max_dims=2, max_side=8),
        elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
    )
)
def test_resampling_to_the_same_length_is_the_identity(values):
    out = resample([values], values.shape[1])
    assert out.dtype == values.dtype
    np.testing.assert_array_equal(out[0], values)


@example(constant=1e308, old=2, new=3)
@example(constant=-1.7976931348623157e308, old=7, new=5)
@given(FINITE, st.integers(1, 40), st.integers(1, 40))
def test_a_constant_stays_exactly_constant(constant, old, new):
    out = resample([np.full((1, old), constant)], new)
    assert out.shape == (1, 1, new)
    assert (out == constant).all()


@pytest.mark.parametrize("constant", [5e-324, np.float32(1e-45)])
def test_a_subnormal_constant_stays_exactly_constant(constant):
    assert (resample([np.full((1, 3), constant)], 5) == constant).all()


@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=9), elements=FINITE), st.integers(1, 40))
def test_resampled_values_are_finite_and_within_the_range_of_their_channel(values, length):
    (out,) = resample([values], length)
    assert np.isfinite(out).all()
    for row, new in zip(values.tolist(), out.tolist(), strict=True):
        slack = 1e-12 * max(map(abs, row))
        assert min(row) - min(new) <= slack
        assert max(new) - max(row) <= slack


def test_sample_centres_are_aligned():
    (out,) = resample([np.array([[0.0, 4.0]])], 4)
    np.testing.assert_allclose(out, [[0, 1, 3, 4]])


def test_halving_the_length_averages_neighbours():
    (out,) = resample([np.array([[1.0, 3.0, 5.0, 9.0]])], 2)
    np.testing.assert_allclose(out, [[2, 7]])


def mean_of_parts(row, length):
    """Return the mean of each part, one sample after the other."""
    scale = len(row) / length
    shares = [
        [max(0.0, min((part + 1) * scale, index + 1) - max(part * scale, index)) for index in range(len(row))]
        for part in range(length)
    ]
    return np.array(shares) @ row / scale


@given(arrays(np.float64, st.integers(2, 40), elements=MODERATE), st.data())
def test_a_shrunk_point_is_the_mean_of_its_part_of_the_series(row, data):
    length = data.draw(st.integers(1, len(row) - 1))
    slack = 1e-12 * max(1.0, np.abs(row).max())
    np.testing.assert_allclose(resample([row[None]], length)[0, 0], mean_of_parts(row, length), atol=slack)


@pytest.mark.parametrize("start", range(0, 9_990, 333))
def test_no_burst_is_lost_by_shrinking(start):
    values = np.zeros((1, 10_000))
    values[:, start : start + 10] = 80
    np.testing.assert_allclose(resample([values], 512).sum(), 80 * 10 * 512 / 10_000)


def test_digits_survive_far_from_zero():
    wave = np.sin(np.arange(100_000) / 3000)
    near, far = (resample([(wave + level)[None]], 512)[0, 0] - level for level in (0, 1e9))
    np.testing.assert_allclose(far, near, atol=1e-6)


@pytest.mark.parametrize("place", [0, 500, 999])
def test_digits_survive_beside_a_huge_value(place):
    values = np.sin(np.arange(1000) / 30)
    values[place] = 1e20
    expected = values.reshape(100, 10).mean(axis=1)
    np.testing.assert_allclose(resample([values[None]], 100)[0, 0], expected, rtol=1e-12)


def test_long_series_are_resampled_in_bounded_memory():
    series = [np.ones((1, 10**6), np.float32)] * 40
    tracemalloc.start()
    resample(series, 512)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6


@given(arrays(np.float64, st.integers(1, 12), elements=MODERATE), st.integers(1, 30))
def test_resampling_a_reversed_series_gives_the_reversed_result(row, length):
    forth, back = resample([row[None], row[None, ::-1]], length)
    np.testing.assert_allclose(back[:, ::-1], forth, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(row).max()))


@given(
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from([np.float32, np.float64])), min_size=1, max_size=6),
    st.integers(1, 12),
)
def test_each_series_is_resampled_by_itself(kinds, new):
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(2, length)).astype(dtype) for length, dtype in kinds]
    together = resample(series, new)
    for values, out in zip(series, together, strict=True):
        np.testing.assert_array_equal(resample([values], new)[0], out)


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        ([np.float32, np.float32], np.float32),
        ([np.float32, np.float64], np.float64),
        ([np.float64], np.float64),
    ],
)
def test_the_result_has_the_highest_precision_given(dtypes, expected):
    assert resample([np.ones((1, 3), dtype) for dtype in dtypes], 5).dtype == expected


def test_resampling_does_not_modify_read_only_series():
    values = np.arange(4.0)[None]
    values.flags.writeable = False
    out = resample([values], 4)
    out[:] = -1
    np.testing.assert_array_equal(values, [[0, 1, 2, 3]])


def test_an_error_has_the_id_of_the_series_and_the_name_of_the_channel():
    frames = {name: pd.DataFrame({"volt": np.arange(9.0), "ampere": 1.0}) for name in ("fan", "pump")}
    frames["pump"]["ampere"] = np.nan
    assert refusal(frames).startswith("series 1 ('pump'): channel 1 ('ampere') has only NaN")
    frames["pump"].loc[3, "ampere"] = np.inf
    assert refusal(frames).startswith("series 1 ('pump'): infinite value at channel 1 ('ampere'), point 3")
