"""Quantiles of intervals: their number, a reference in float64, and what they ignore."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nutime.model.quantiles import interval_quantiles, quantile_points, quantile_size


def walks(count, channels, points, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((count, channels, points)).cumsum(-1))


@given(st.integers(1, 10**6), st.integers(1, 3))
def test_the_number_of_features_is_known_beforehand(length, channels):
    points = quantile_points(length)
    assert interval_quantiles(walks(2, channels, points)).shape == (2, quantile_size(points, channels))


def by_hand(values):
    """Return the quantiles of every interval of a row, absolute ones and those relative to the mean."""
    features, size = [], len(values)
    for _ in range(6):
        starts = range(0, len(values) - size + 1, max(1, size // 2))
        for interval in (values[start : start + size] for start in starts):
            levels = np.linspace(0, 1, size // 4) if size >= 8 else [0.5]
            quantiles = np.quantile(interval, levels)
            features += [*quantiles[::2], *(quantiles[1::2] - interval.mean())]
        size //= 2
    return features


@pytest.mark.parametrize("points", [64, 192])
def test_the_features_are_quantiles_of_the_series_its_differences_and_its_spectrum(points):
    series = walks(1, 1, points)
    x = series[0, 0].numpy()
    first = np.convolve(np.pad(np.diff(x), (3, 2)), np.ones(5), "valid")
    second = np.pad(np.diff(x, n=2), 1)
    spectrum = np.abs(np.fft.rfft(x))[1:]
    expected = np.concatenate([by_hand(row) for row in (x, first, second, spectrum)])
    np.testing.assert_allclose(np.sort(interval_quantiles(series)[0].numpy()), np.sort(expected), atol=1e-9)


def test_each_series_of_a_batch_has_its_own_features():
    series = walks(5, 3, 64)
    alone = torch.cat([interval_quantiles(one[None]) for one in series])
    torch.testing.assert_close(interval_quantiles(series), alone)


def test_another_level_shifts_half_of_the_quantiles_of_the_series_and_nothing_else():
    series = walks(3, 1, 128)
    change = interval_quantiles(series + 10) - interval_quantiles(series)
    shifted = torch.isclose(change, torch.tensor(10.0).double())
    assert 0.1 < shifted.double().mean() < 0.25
    torch.testing.assert_close(change[~shifted], torch.zeros_like(change[~shifted]), atol=1e-9, rtol=0)
