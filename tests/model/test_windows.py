"""Windows: shape, mean and standard deviation keep their digits at any offset and any magnitude."""

import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from nutime.model.windows import split_windows, window_statistics

FINITE = st.floats(allow_nan=False, allow_infinity=False)
# Normal numbers whose differences are normal too: below, halving costs a digit.
NORMAL = st.one_of(st.just(0.0), st.floats(1e-290, 1e308), st.floats(-1e308, -1e-290))
# A constant is promised to be exact from 1e-300 on: halves of the smallest normal numbers lose a digit.
CONSTANT = st.one_of(
    st.just(0.0), st.floats(1e-300, allow_infinity=False), st.floats(max_value=-1e-300, allow_infinity=False)
)


def float64(values):
    return torch.tensor(values, dtype=torch.float64)


# ---- cutting --------------------------------------------------------------------------------------------


def test_windows_are_cut_in_order_without_overlap():
    assert split_windows(torch.arange(6.0), 2).tolist() == [[0, 1], [2, 3], [4, 5]]


@given(array_shapes(min_dims=0, max_dims=3, max_side=3), st.integers(1, 5), st.integers(1, 8))
def test_leading_dimensions_are_kept(leading, windows, window):
    assert split_windows(torch.zeros(*leading, windows * window), window).shape == (*leading, windows, window)


@pytest.mark.parametrize("length", [0, 1, 15, 17, 33])
def test_a_length_that_is_no_multiple_of_the_window_is_refused(length):
    with pytest.raises(ValueError, match=f"length {length} is not a multiple of the window 16"):
        split_windows(torch.zeros(2, 1, length), 16)


@given(array_shapes(min_dims=1, max_dims=4, max_side=4))
def test_each_window_has_one_shape_one_mean_and_one_std(dims):
    shape, mean, std = window_statistics(torch.zeros(dims))
    assert shape.shape == dims
    assert mean.shape == std.shape == dims[:-1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_statistics_keep_the_precision_of_the_series(dtype):
    assert {part.dtype for part in window_statistics(torch.randn(3, 16, dtype=dtype))} == {dtype}


# ---- values ---------------------------------------------------------------------------------------------


@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=3, min_side=2), elements=st.floats(-1e3, 1e3)))
def test_mean_and_unbiased_std_are_numpys(windows):
    _, mean, std = window_statistics(torch.from_numpy(windows))
    np.testing.assert_allclose(mean, windows.mean(-1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(std, windows.std(-1, ddof=1), rtol=1e-12, atol=1e-12)


@given(arrays(np.float64, (3, 16), elements=st.floats(-1e3, 1e3)))
def test_the_shape_is_the_window_less_its_mean_over_its_std(windows):
    shape, _, _ = window_statistics(torch.from_numpy(windows))
    expected = (windows - windows.mean(-1, keepdims=True)) / (windows.std(-1, ddof=1, keepdims=True) + 1e-8)
    # Where a window hardly varies, numpy's own difference from the mean has lost its digits.
    trusted = windows.std(-1) > 1e-6
    np.testing.assert_allclose(shape[trusted], expected[trusted], rtol=1e-6, atol=1e-6)


@given(st.lists(NORMAL, min_size=2, max_size=16))
@example([1e308, -1e308, 5e307, -5e307])
@example([1e6, 1e6 + 1e-9, 1e6 - 1e-9])
def test_mean_and_std_have_all_their_digits_at_any_magnitude(values):
    _, mean, std = window_statistics(float64(values))
    exact_mean = float(statistics.mean(map(Fraction, values)))
    assert std.item() == pytest.approx(statistics.stdev(map(Fraction, values)), rel=1e-13)
    assert mean.item() == pytest.approx(exact_mean, rel=1e-15, abs=1e-15 * max(map(abs, values)))


@given(CONSTANT, st.integers(1, 128))
def test_a_constant_window_is_exactly_its_mean(value, points):
    shape, mean, std = window_statistics(torch.full((points,), value, dtype=torch.float64))
    assert mean.item() == value
    assert std.item() == 0
    assert not shape.any()


@given(st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False), st.integers(1, 128))
def test_a_constant_window_is_exactly_its_mean_in_float32(value, points):
    shape, mean, std = window_statistics(torch.full((points,), value))
    assert (mean.item(), std.item(), shape.any().item()) == (value, 0, False)


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False), min_size=2, max_size=16))
@example([1.0, 2.0**-24, -1.0])
def test_a_mean_has_all_the_digits_of_float32_where_the_values_cancel(values):
    _, mean, _ = window_statistics(torch.tensor(values))
    exact = float(statistics.mean(map(Fraction, values)))
    assert mean.item() == pytest.approx(exact, rel=1e-7, abs=1e-15 * max(map(abs, values)) + 2.0**-149)


@pytest.mark.parametrize("points", [2, 16, 128])
def test_a_large_offset_costs_the_shape_no_digits(points):
    wave = np.sin(np.linspace(0, 6, points))
    shape, mean, std = window_statistics(torch.from_numpy(1e6 + 1e-3 * wave))
    small = 1e-3 * wave
    expected = (small - small.mean()) / (small.std(ddof=1) + 1e-8)
    np.testing.assert_allclose(shape, expected, rtol=0, atol=1e-6)
    assert mean.item() == pytest.approx(1e6 + small.mean(), rel=1e-15)
    assert std.item() == pytest.approx(small.std(ddof=1), rel=1e-6)


@given(st.lists(FINITE, min_size=1, max_size=16))
@example([1e300, -1e300])
@example([1.7e308, -1.7e308, 1.7e308])
@example([-1.7976931348623157e308, 1.7976931348623157e308])
@example([5e-324, -5e-324, 0.0])
@example([1e300, 1e-300])
def test_statistics_are_finite_for_every_finite_window(values):
    shape, mean, std = window_statistics(float64(values))
    assert shape.isfinite().all()
    assert math.isfinite(mean)
    assert math.isfinite(std)
    assert std >= 0
    # No point is farther from the mean than this many unbiased standard deviations.
    assert shape.abs().max() <= (len(values) - 1) / math.sqrt(len(values)) + 1e-9


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=16))
def test_statistics_are_finite_for_every_finite_window_in_float32(values):
    assert all(part.isfinite().all() for part in window_statistics(torch.tensor(values)))


@given(FINITE)
def test_a_single_point_has_no_deviation(value):
    shape, _, std = window_statistics(float64([value]))
    assert (shape.item(), std.item()) == (0, 0)


def test_every_window_is_normalised_on_its_own():
    windows = torch.randn(5, 16, dtype=torch.float64) * 10.0 ** torch.arange(-4, 6, 2)[:, None]
    together = window_statistics(windows)
    for index, window in enumerate(windows):
        for whole, alone in zip(together, window_statistics(window), strict=True):
            assert torch.equal(whole[index], alone)
