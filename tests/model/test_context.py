import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nutime.model.context import Affine, _interpolate, context_of, periods_of


@given(st.integers(0, 2**31), st.integers(2, 60))
def test_interpolation_is_numpys(seed, length):
    rng = np.random.default_rng(seed)
    values, observed = rng.normal(size=length), rng.random(length) < 0.5
    observed[rng.integers(length)] = True
    points = np.arange(length)
    expected = np.interp(points, points[observed], values[observed])
    found = _interpolate(torch.tensor(values)[None], torch.tensor(observed)[None])
    np.testing.assert_allclose(found[0], expected, atol=1e-6)


@pytest.mark.parametrize("period", [7, 24, 60])
def test_the_shortest_period_is_found_beside_a_trend_and_gaps(period):
    rng = np.random.default_rng(period)
    profile = rng.normal(size=period)
    t = np.arange(600)
    values = np.tile(profile, 600)[:600] + 0.01 * t + 0.1 * rng.normal(size=600)
    observed = rng.random(600) < 0.8
    found = periods_of(torch.tensor(np.where(observed, values, 0))[None], torch.tensor(observed)[None])
    assert found[0, 0] == period


def test_noise_has_no_period():
    values = torch.from_numpy(np.random.default_rng(0).normal(size=(1, 800)).cumsum(1))
    assert periods_of(values, torch.ones_like(values, dtype=torch.bool))[0, 0] != 24
    straight = torch.linspace(0, 1, 800)[None]
    assert periods_of(straight, torch.ones_like(straight, dtype=torch.bool)).tolist() == [[0, 0]]


def test_a_periodic_series_is_guessed_from_other_cycles():
    values = torch.from_numpy(np.sin(np.arange(480) * 2 * np.pi / 24))[None].float()
    observed = torch.ones_like(values, dtype=torch.bool)
    observed[:, 200:240] = False
    context = context_of(values, observed, torch.ones_like(observed))
    torch.testing.assert_close(context.guesses[0, 200:240, 2], values[0, 200:240], atol=1e-3, rtol=0)


def test_values_that_are_not_observed_are_not_read():
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.normal(size=(2, 256)).cumsum(1)).float()
    observed = torch.from_numpy(rng.random((2, 256)) < 0.7)
    other = torch.where(observed, values, 1e6)
    for one, two in zip(
        context_of(values, observed, observed), context_of(other, observed, observed), strict=True
    ):
        assert torch.equal(one, two)


@pytest.mark.parametrize("factor", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_compression_is_without_unit(factor, shift):
    values = torch.from_numpy(np.random.default_rng(0).normal(size=(1, 100)).cumsum(1))
    observed = torch.ones_like(values, dtype=torch.bool)
    changed = factor * values + factor * shift
    affine = Affine.fit(changed, observed)
    torch.testing.assert_close(
        affine.compress(changed), Affine.fit(values, observed).compress(values), atol=1e-5, rtol=0
    )
    torch.testing.assert_close(affine.restore(affine.compress(changed)), changed, rtol=1e-6, atol=factor * 1e-5)
