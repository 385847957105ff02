"""Features of random convolutions: their number, what they ignore, and what decides about a kernel."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nutime.model.convolutions import (
    convolution_groups,
    convolution_points,
    convolution_size,
    convolve,
    random_kernels,
)


def walks(count, channels, points, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((count, channels, points)).cumsum(-1))


def features(series, groups=64):
    return convolve(series, random_kernels(series.shape[1], groups))


@given(st.integers(1, 10**6), st.integers(1, 3))
def test_the_number_of_features_is_known_beforehand(length, channels):
    points, groups = convolution_points(length), convolution_groups(channels)
    assert features(walks(1, channels, points), groups).shape == (1, convolution_size(points, groups))


@pytest.mark.parametrize(("scale", "level"), [(1e-9, 0), (1e9, -1e12), (3, 1e3)])
def test_level_and_scale_have_no_effect(scale, level):
    series = walks(4, 2, 120)
    torch.testing.assert_close(features(scale * series + level), features(series), atol=1e-3, rtol=0)


@pytest.mark.parametrize("points", [9, 100])
def test_a_constant_series_has_finite_features(points):
    assert features(torch.full((2, 1, points), 1e6)).isfinite().all()


def test_features_are_those_of_kernels_that_compete_in_groups():
    series = walks(1, 1, 60).double()
    shape = ((series - series.mean()) / series.std()).numpy()[0, 0]
    kernels = random_kernels(1, 64)[1].double().numpy().reshape(64, 8, 9)
    padded = np.pad(shape, 8)
    responses = np.stack([[np.dot(k, padded[t : t + 17 : 2]) for t in range(60)] for k in kernels.reshape(-1, 9)])
    responses = responses.reshape(64, 8, 60)
    is_highest = responses == responses.max(1, keepdims=True)
    sums = np.sqrt(np.maximum((responses * is_highest).mean(-1), 0))
    counts = np.sqrt((responses == responses.min(1, keepdims=True)).mean(-1))
    found = features(series)[0, 1024:2048].reshape(2, 64, 8)
    # Two kernels that are equal up to 1e-3 both count: a few features differ.
    differs = np.abs(found.numpy() - np.stack([sums, counts])) > 1e-3
    assert differs.mean() < 0.1


def test_each_series_of_a_batch_has_its_own_features():
    series = walks(5, 3, 80)
    alone = torch.cat([features(one[None]) for one in series])
    torch.testing.assert_close(features(series), alone, atol=1e-3, rtol=0)


def test_the_order_of_channels_counts():
    series = walks(1, 2, 80)
    assert not torch.allclose(features(series), features(series.flip(1)), atol=0.05)


def test_fewer_groups_are_the_first_of_more():
    series = walks(2, 1, 20)  # read at two dilations
    more = features(series).reshape(2, 2, 2, 64, 8)
    torch.testing.assert_close(features(series, 32).reshape(2, 2, 2, 32, 8), more[:, :, :, :32])
