import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nutime.data.crops import FlatSeries, crop
from nutime.data.series import resample


def flat(*series):
    lengths = torch.tensor([len(values) for values in series])
    values = torch.cat([torch.as_tensor(values, dtype=torch.float32) for values in series])
    return FlatSeries(values, lengths.cumsum(0) - lengths, lengths)


def crop_one(series, index, begin, share, points, samples=1, warp=None):
    chosen, begins, shares = torch.tensor([index]), torch.tensor([begin]), torch.tensor([share])
    return crop(series, chosen, begins, shares, points, samples, None if warp is None else torch.tensor([warp]))[0]


@given(st.integers(1, 300), st.integers(0, 300), st.sampled_from([1, 4]))
def test_the_whole_series_is_enlarged_as_the_input_contract_enlarges(length, more, samples):
    points = length + more
    values = np.random.default_rng(length).standard_normal(length).astype(np.float32)
    expected = resample([values[None]], points)[0, 0]
    seen = crop_one(flat([9.0], values, [9.0]), 1, 0.3, 1.0, points, samples)
    np.testing.assert_allclose(seen, expected, atol=1e-4)


@pytest.mark.parametrize("samples", [2, 4])
def test_with_as_many_samples_as_it_is_shrunk_a_crop_is_averaged_as_the_input_contract_averages(samples):
    values = np.random.default_rng(0).standard_normal(samples * 50).astype(np.float32)
    seen = crop_one(flat(values), 0, 0.0, 1.0, 50, samples)
    np.testing.assert_allclose(seen, resample([values[None]], 50)[0, 0], atol=1e-4)


@given(st.integers(1, 200), st.floats(0, 1), st.floats(0.01, 1))
def test_a_crop_never_shows_a_neighbour(length, begin, share):
    inside = torch.linspace(0, 1, length)
    seen = crop_one(flat([50.0] * 7, inside, [-50.0] * 7), 1, begin, share, 64)
    assert seen.min() >= 0
    assert seen.max() <= 1


@pytest.mark.parametrize(("begin", "first", "last"), [(0.0, 0, 50), (1.0, 50, 100), (0.5, 25, 75)])
def test_begin_moves_the_crop_from_left_to_right(begin, first, last):
    ramp = torch.arange(100) + 0.5
    seen = crop_one(flat(ramp), 0, begin, 0.5, 10)
    assert seen[0] == pytest.approx(first + 2.5)
    assert seen[-1] == pytest.approx(last - 2.5)


def test_constants_stay_constant():
    assert (crop_one(flat([0.1] * 7), 0, 0.37, 0.83, 512) == torch.tensor(0.1)).all()


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=4), st.floats(0, 1), st.floats(0.1, 1))
def test_warped_time_never_runs_backwards_and_stays_within_the_crop(warp, begin, share):
    ramp = torch.arange(1000.0)
    straight = crop_one(flat(ramp), 0, begin, share, 100)
    warped = crop_one(flat(ramp), 0, begin, share, 100, warp=warp)
    assert (warped.diff() >= -1e-3).all()
    assert warped.min() >= straight.min() - 10 * share
    assert warped.max() <= straight.max() + 10 * share


def test_a_warp_makes_time_run_faster_at_first_and_slower_later():
    warped = crop_one(flat(torch.arange(1000.0)), 0, 0.0, 1.0, 100, warp=[1.0]).diff()
    assert warped[:10].mean() > 15
    assert warped[-10:].mean() < 5
