"""Features of random convolutions: their number, what they ignore, and what decides about a kernel."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nutime.model.convolutions import (
    SEGMENTS,
    convolution_groups,
    convolution_points,
    convolution_size,
    convolve,
    random_kernels,
)


def walks(count, channels, points, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((count, channels, points)).cumsum(-1))


def features(series, groups=64, scales=None, segments=0):
    scales = None if scales is None else torch.tensor(scales, dtype=torch.float64)
    return convolve(series, random_kernels(series.shape[1], groups), scales, segments)


@given(st.integers(1, 10**6), st.integers(1, 3), st.sampled_from([0, SEGMENTS]))
def test_the_number_of_features_is_known_beforehand(length, channels, segments):
    points, groups = convolution_points(length), convolution_groups(channels)
    size = convolution_size(points, groups) + segments * channels
    assert features(walks(1, channels, points), groups, segments=segments).shape == (1, size)


@pytest.mark.parametrize(("scale", "level"), [(1e-290, 0), (1e-200, 0), (1e-9, 0), (1e9, -1e12), (3, 1e3)])
def test_level_and_scale_have_no_effect(scale, level):
    series = walks(4, 2, 120)
    torch.testing.assert_close(features(scale * series + level), features(series), atol=1e-3, rtol=0)


@given(st.floats(-30, 30), st.floats(-30, 30))
def test_with_scales_the_units_of_channels_and_the_scale_of_a_series_have_no_effect(unit, scale):
    series, units = walks(4, 2, 120), torch.tensor([1.0, 10.0**unit], dtype=torch.float64)
    expected = features(series, scales=[1.0, 1.0], segments=SEGMENTS)
    seen = features(10.0**scale * series * units[:, None], scales=units.tolist(), segments=SEGMENTS)
    torch.testing.assert_close(seen, expected, atol=1e-3, rtol=0)


def test_with_scales_it_counts_how_much_one_channel_varies_relative_to_another():
    series = walks(1, 2, 80)
    louder = series * torch.tensor([[1.0], [5.0]])
    torch.testing.assert_close(features(louder), features(series), atol=1e-3, rtol=0)
    assert not torch.allclose(features(louder, scales=[1, 1]), features(series, scales=[1, 1]), atol=0.05)


def test_with_scales_a_constant_channel_adds_nothing_and_constant_series_are_finite():
    series = walks(2, 2, 80)
    series[0, 1] = 7
    series[1] = 7
    seen = features(series, scales=[1, 1], segments=SEGMENTS)
    assert seen.isfinite().all()
    series[0, 1] = -3
    torch.testing.assert_close(features(series, scales=[1, 1], segments=SEGMENTS), seen)


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


@pytest.mark.parametrize("points", [40, 43])
def test_segments_are_means_of_each_channel_without_its_level_in_one_unit_of_the_series(points):
    series = walks(2, 3, points) * torch.tensor([[1.0], [2.0], [0.5]]) + 100
    deviation = series.std(-1, correction=0)
    unit = deviation.square().mean(1).sqrt()[:, None, None]
    shape = ((series - series.mean(-1, keepdim=True)) / unit).numpy()
    edges = [(points * segment // 4, -(-points * (segment + 1) // 4)) for segment in range(4)]
    expected = np.stack([shape[..., start:end].mean(-1) for start, end in edges], axis=-1)
    found = features(series, scales=[1, 1, 1], segments=4)[:, -12:]
    # The convolutions' own unit has one degree of freedom less.
    np.testing.assert_allclose(found, expected.reshape(2, 12), rtol=0.03, atol=0.01)
    torch.testing.assert_close(
        features(series, scales=[1, 1, 1], segments=4)[:, :-12], features(series, scales=[1, 1, 1])
    )


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
