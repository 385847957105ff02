import numpy as np
import pandas as pd
import pytest

from nutime import NuTime
from nutime.recordings.segmenter import NuTimeSegmenter

POINTS = np.arange(600)
SINE = np.sin(POINTS * 2 * np.pi / 25)
SAW = (POINTS % 25) / 12 - 1
SQUARE = np.sign(SINE)


def noisy(*parts):
    joined = np.concatenate(parts, axis=-1)
    return joined + 0.1 * np.random.default_rng(1).normal(size=joined.shape)


@pytest.fixture(scope="module")
def encoder():
    return NuTime.from_pretrained()


def test_changes_of_shape_are_found_and_a_state_that_returns_has_its_label(encoder):
    segmenter = NuTimeSegmenter(encoder=encoder, n_windows=150)
    found = segmenter.fit_predict(noisy(SINE, SAW, SINE, SQUARE))
    np.testing.assert_allclose(found, [600, 1200, 1800], atol=30)
    assert segmenter.labels_.tolist() == [0, 1, 0, 2]


def test_levels_without_a_period_are_found(encoder):
    found = NuTimeSegmenter(encoder=encoder).fit_predict(noisy(np.repeat([0.0, 3.0, 1.0, 5.0], 500)))
    np.testing.assert_allclose(found, [500, 1000, 1500], atol=10)


def test_a_recording_of_one_state_has_no_change_point(encoder):
    segmenter = NuTimeSegmenter(encoder=encoder, n_windows=150)
    assert segmenter.fit_predict(noisy(SINE, SINE, SINE)).size == 0
    assert segmenter.labels_.tolist() == [0]


@pytest.mark.parametrize(("unit", "uses_encoder"), [(1.0, True), (1.0, False), (1e-9, False)])
def test_a_straight_trend_has_no_change_point(encoder, unit, uses_encoder):
    trend = np.arange(1200) / 60
    segmenter = NuTimeSegmenter(encoder=encoder if uses_encoder else None, n_windows=150)
    noise = noisy(np.zeros(1200))
    for recording in (trend, trend + 5 * noise, trend + noise + np.tile(SINE, 2), trend[:200] + 5 * noise[:200]):
        assert segmenter.fit_predict(unit * recording).size == 0


def test_changes_on_a_trend_are_found(encoder):
    segmenter = NuTimeSegmenter(encoder=encoder, n_windows=150)
    trend, levels = np.arange(1200) / 60, noisy(np.repeat([0.0, 3.0], 600))
    for recording in (noisy(SINE, SAW) + trend, np.stack([noisy(SINE, SINE) + trend, levels])):
        np.testing.assert_allclose(segmenter.fit_predict(recording), [600], atol=30)


@pytest.mark.parametrize("n_steps", [2, 5, 8, 11])
def test_a_staircase_is_no_trend(n_steps):
    recording = noisy(np.repeat(np.arange(n_steps) / 2, 200))
    found = NuTimeSegmenter(encoder=None).fit_predict(recording)
    np.testing.assert_allclose(found, np.arange(200, 200 * n_steps, 200), atol=10)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_as_many_change_points_are_found_as_are_known(count):
    found = NuTimeSegmenter(count, encoder=None).fit_predict(noisy(SINE, SAW, SQUARE))
    assert len(found) == count
    assert found.tolist() == sorted(set(found.tolist()))


def test_a_change_in_one_of_several_channels_is_found(encoder):
    recording = noisy(np.stack([SINE, SAW]), np.stack([SQUARE, SAW]))
    found = NuTimeSegmenter(encoder=encoder, n_windows=100).fit_predict(recording)
    np.testing.assert_allclose(found, [600], atol=30)


def test_scale_and_offset_of_the_recording_do_not_matter():
    recording = noisy(SINE, SAW)
    segmenter = NuTimeSegmenter(encoder=None)
    expected = segmenter.fit_predict(recording).tolist()
    assert expected
    for scale, offset in ((1e6, -3e7), (1e-300, 0), (1e300, 0)):
        assert segmenter.fit_predict(recording * scale + offset).tolist() == expected


@pytest.mark.parametrize("gap", [(0, 150), (200, 450), (580, 780), (1000, 1200)])
def test_a_long_gap_is_no_segment_and_moves_no_change_point(encoder, gap):
    recording = noisy(np.repeat([0.0, 3.0], 600), np.tile(SINE, 2))[:1200]
    recording[slice(*gap)] = np.nan
    found = NuTimeSegmenter(encoder=encoder, n_windows=150).fit_predict(recording)
    assert len(found) == 1
    assert 580 <= found[0] <= 620 or found[0] == gap[1]
    trend = np.where(np.isnan(recording), np.nan, noisy(np.arange(1200) / 60))
    assert NuTimeSegmenter(encoder=encoder, n_windows=150).fit_predict(trend).size == 0


def test_missing_values_are_interpolated_and_move_no_change_point():
    recording = noisy(SINE, SAW)
    expected = NuTimeSegmenter(1, encoder=None).fit_predict(recording)
    recording[:3] = recording[700:703] = np.nan
    np.testing.assert_allclose(NuTimeSegmenter(1, encoder=None).fit_predict(recording), expected, atol=10)


@pytest.mark.parametrize(
    ("parameters", "recording", "message"),
    [
        ({"window": 0}, SINE, "window must be"),
        ({"window": "period"}, SINE, "window must be"),
        ({"n_change_points": -1}, SINE, "n_change_points must be"),
        ({"n_windows": 0}, SINE, "n_windows must be"),
        ({"penalty": "low"}, SINE, "penalty must be"),
        ({}, SINE[:20], "at least 64 points, got 20$"),
        ({}, np.where(POINTS < 550, np.nan, SINE), "at least 64 points, got 50 outside of gaps"),
        ({}, np.stack([SINE, SAW], 1), "transpose"),
        ({}, np.zeros((2, 3, 100)), "one recording"),
        ({}, pd.DataFrame(np.ones((90, 24)), pd.date_range("2024-01-01", periods=90)), "are read as points"),
    ],
)
def test_what_cannot_be_segmented_is_refused_in_one_line(parameters, recording, message):
    with pytest.raises(ValueError, match=message) as error:
        NuTimeSegmenter(encoder=None, **parameters).fit_predict(recording)
    assert "\n" not in str(error.value)


def test_a_constant_recording_has_no_change_point():
    assert NuTimeSegmenter(encoder=None).fit_predict(np.full(500, 3.0)).size == 0


def test_the_times_of_change_points_are_those_of_the_frame():
    frame = pd.DataFrame({"value": noisy(SINE, SAW)}, index=pd.date_range("2026-01-01", periods=1200, freq="1s"))
    segmenter = NuTimeSegmenter(1, encoder=None).fit(frame)
    found = segmenter.change_points_
    np.testing.assert_array_equal(segmenter.times_[found], frame.index[found].to_numpy())
