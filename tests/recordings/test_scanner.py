import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

from nutime import NuTime
from nutime.recordings.scanner import NuTimeScanner


def normal(length, seed, channels=1):
    rng = np.random.default_rng(seed)
    points = np.arange(length)
    wave = np.sin(points * 2 * np.pi / 40) + 0.5 * np.sin(points * 2 * np.pi / 20 + 1)
    return (wave + 0.2 * rng.normal(size=(channels, length))).squeeze()


def correlated(length, seed):
    rng = np.random.default_rng(seed)
    noise = lfilter([1], [1, -0.8], rng.normal(size=length))
    return np.sin(np.arange(length) * 2 * np.pi / 33 + rng.uniform(0, 6)) + 0.3 * noise


@pytest.fixture(scope="module")
def encoder():
    return NuTime.from_pretrained()


@pytest.fixture(scope="module", params=["embedding", "points only"])
def model(request, encoder):
    return encoder if request.param == "embedding" else None


def test_every_point_has_a_score_and_the_strange_stretch_the_highest(model):
    recording = normal(2000, 0)
    recording[1200:1240] = recording[1200:1240][::-1] * 0.2
    scores = NuTimeScanner(encoder=model).fit_predict(recording)
    assert scores.shape == recording.shape
    assert 1180 <= scores.argmax() < 1260


def test_the_interval_of_an_anomaly_names_the_channel_that_did_it(model):
    known_good, new = normal(1000, 0, 3), normal(600, 1, 3)
    new[1, 300:360] += 4
    scanner = NuTimeScanner(encoder=model).fit(known_good)
    best = max(scanner.find_intervals(new), key=lambda interval: interval.score)
    assert best.channel == 1
    assert best.start < 330 < best.end
    assert best.score == scanner.predict(new).max()


def test_false_alarms_on_new_recordings_are_about_as_rare_as_requested():
    rate, alarms = 0.05, []
    for reference in range(6):
        scanner = NuTimeScanner(encoder=None, false_alarm_rate=rate).fit(correlated(6000, reference))
        alarms += [
            (scanner.predict(correlated(2000, seed)) > scanner.threshold_).mean() for seed in (100, 101, 102)
        ]
    assert rate / 2 < np.mean(alarms) < rate * 2


def test_a_recording_that_continues_the_trend_of_its_reference_has_few_alarms():
    alarms = []
    for seed in range(5):
        recording = normal(2000, seed) + np.linspace(0, 16, 2000)
        with pytest.warns(UserWarning, match="the reference has a trend"):
            scanner = NuTimeScanner(encoder=None, false_alarm_rate=0.05).fit(recording[:1000])
        alarms.append((scanner.predict(recording[1000:]) > scanner.threshold_).mean())
    assert np.mean(alarms) < 0.15


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "shift", [np.arange(2000) // 1000, np.arange(2000) // 250 % 2, np.arange(2000) % 500 / 500]
)
def test_a_reference_that_changes_once_or_returns_has_no_trend(shift):
    scanner = NuTimeScanner(encoder=None).fit(normal(2000, 0) + 4 * shift)
    new = normal(2000, 1) + 4 * shift
    new[700:760] -= 6
    assert any(interval.start < 730 < interval.end for interval in scanner.find_intervals(new))


def test_a_clear_anomaly_is_found_without_a_reference(model):
    recording = normal(1000, 0)
    recording[600:640] += 3
    scanner = NuTimeScanner(encoder=model)
    scanner.fit_predict(recording)
    assert len(scanner.intervals_) == 1
    assert scanner.intervals_[0].start < 620 < scanner.intervals_[0].end


def test_recordings_without_anomaly_have_few_alarms_when_compared_with_themselves():
    alarms = []
    for seed in range(12):
        scanner = NuTimeScanner(encoder=None)
        alarms.append((scanner.fit_predict(correlated(1000, seed)) > scanner.threshold_).mean())
    assert np.mean(alarms) < 0.02


def test_phases_of_new_recordings_raise_no_alarm():
    scanner = NuTimeScanner(window=40, encoder=None).fit(normal(4000, 0))
    alarms = [(scanner.predict(normal(2000, 1)[shift:]) > scanner.threshold_).mean() for shift in range(0, 40, 7)]
    assert np.mean(alarms) < 0.03


def test_ordinary_points_score_about_one(model):
    scores = NuTimeScanner(encoder=model).fit_predict(normal(2000, 0))
    assert np.median(scores) == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize(("scale", "offset"), [(1e5, 7e5), (1e-300, 0), (1e300, 0)])
def test_scale_and_offset_of_the_recording_do_not_matter(scale, offset):
    recording = normal(1000, 0)
    scores = NuTimeScanner(encoder=None).fit_predict(recording)
    scaled = NuTimeScanner(encoder=None).fit_predict(recording * scale + offset)
    np.testing.assert_allclose(scaled, scores, rtol=1e-3)


def test_a_reference_of_more_windows_than_allowed_is_thinned():
    scanner = NuTimeScanner(encoder=None, max_windows=50)
    recording = normal(4000, 0)
    recording[3000:3050] += 3
    assert 2960 <= scanner.fit_predict(recording).argmax() < 3090
    assert all(len(reference.starts) <= 50 for reference in scanner._references)


@pytest.mark.parametrize("wild", [1e9, 1e20, 9.97e36, -1e300])
def test_a_wild_value_raises_the_score_of_its_own_windows_only(wild):
    scanner = NuTimeScanner(encoder=None).fit(normal(4000, seed=0))
    recording = normal(4000, seed=1)
    recording[3000:3100] = 5
    expected = scanner.predict(recording)
    recording[1000] = wild
    scores = scanner.predict(recording)
    assert scores[1000] > 1e3
    far = np.abs(np.arange(4000) - 1000) > 2 * scanner.delay_
    np.testing.assert_allclose(scores[far], expected[far], rtol=1e-6)


def test_a_chunk_is_read_like_a_recording_and_never_a_transposed_frame():
    scanner = NuTimeScanner(encoder=None).fit(normal(1000, 0, 2))
    recording = np.ma.masked_greater(normal(500, 1, 2), 1)
    scores = np.concatenate(
        [scanner.update(recording[:, :200]), scanner.update(recording[:, 200:]), scanner.finish()]
    )
    np.testing.assert_allclose(scores, scanner.predict(recording))
    with pytest.raises(ValueError, match=r"must be an array \(channels, n\)"):
        scanner.update(pd.DataFrame(recording[:, :2].T, columns=["x", "y"]))
    with pytest.raises(ValueError, match="expected one recording"):
        scanner.update(np.zeros((2, 1, 5)))


def test_none_is_a_missing_value():
    recording = normal(500, 0)
    recording[100] = np.nan
    given = [None if np.isnan(value) else value for value in recording.tolist()]
    scanner = NuTimeScanner(encoder=None)
    scores = scanner.fit_predict(recording)
    np.testing.assert_array_equal(scanner.fit_predict(given), scores)
    np.testing.assert_array_equal(scanner.fit_predict([given]), scores)
    assert scanner.update(given).shape == (500 - scanner.delay_,)


def test_gaps_at_the_ends_keep_their_points():
    recording = normal(500, 0)
    recording[:20] = recording[-5:] = np.nan
    scores = NuTimeScanner(encoder=None).fit_predict(recording)
    assert scores.shape == (500,)
    assert np.isfinite(scores).all()


def test_a_constant_recording_has_no_anomaly():
    scanner = NuTimeScanner(encoder=None)
    assert np.isfinite(scanner.fit_predict(np.full(500, 2.0))).all()
    assert scanner.intervals_ == []


def test_rounding_of_a_constant_channel_is_no_anomaly(model):
    known_good, new = np.stack([normal(1000, 0), np.full(1000, 0.1)]), normal(600, 1)
    scanner = NuTimeScanner(encoder=model).fit(known_good)
    expected = scanner.predict(np.stack([new, np.full(600, 0.1)]))
    for level in (np.nextafter(0.1, 1), np.float32(0.1)):
        scores = scanner.predict(np.stack([new, np.full(600, level)]))
        np.testing.assert_allclose(scores, expected, rtol=1e-3)


def test_what_cannot_be_scanned_is_refused_in_one_line():
    scanner = NuTimeScanner(encoder=None).fit(normal(1000, 0))
    for recording, message in (
        (normal(1000, 0, 2), "2 channel"),
        (np.zeros(5), "fewer than one window"),
        (np.full(500, np.nan), "only NaN"),
        (np.full(500, np.inf), "infinite"),
    ):
        with pytest.raises(ValueError, match=message):
            scanner.predict(recording)
    with pytest.raises(ValueError, match="false_alarm_rate"):
        NuTimeScanner(encoder=None, false_alarm_rate=1.5).fit(normal(1000, 0))
    with pytest.raises(ValueError, match="max_windows must be"):
        NuTimeScanner(encoder=None, max_windows=0).fit(normal(1000, 0))
    with pytest.raises(ValueError, match="at least 128 points"):
        NuTimeScanner(encoder=None).fit(normal(100, 0))


def streamed(scanner, recording, cuts):
    chunks = np.split(recording, sorted(cuts), axis=-1)
    return np.concatenate([*(scanner.update(chunk) for chunk in chunks), scanner.finish()])


STREAMING = {channels: NuTimeScanner(encoder=None).fit(normal(2000, 0, channels)) for channels in (1, 2)}


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from([1, 2]),
    st.integers(40, 900),
    st.lists(st.integers(0, 900), max_size=8),
    st.lists(st.tuples(st.integers(0, 890), st.integers(1, 60)), max_size=4),
)
def test_streamed_scores_are_those_of_the_whole_recording(channels, length, cuts, gaps):
    scanner = STREAMING[channels]
    recording = np.atleast_2d(normal(length, 3, channels))
    for number, (start, width) in enumerate(gaps):
        recording[number % channels, start : start + width] = np.nan
    recording[:, length // 2] = 0.5
    streaming = streamed(scanner, recording, [cut for cut in cuts if cut < length])
    np.testing.assert_allclose(streaming, scanner.predict(recording), rtol=1e-5)


@pytest.mark.parametrize("gap", [slice(0, 100), slice(1000, 2100), slice(3900, 4000)])
def test_a_gap_is_no_anomaly_and_hides_none(gap):
    recording = normal(4000, 0)
    recording[2500:2540] += 3 * np.sin(np.arange(40))
    scanner = NuTimeScanner(encoder=None)
    scanner.fit_predict(recording)
    (expected,), threshold = scanner.intervals_, scanner.threshold_
    recording[gap] = np.nan
    scores = scanner.fit_predict(recording)
    assert (scores[gap] == 0).all()
    assert scanner.threshold_ == pytest.approx(threshold, rel=0.2)
    (found,) = scanner.intervals_
    np.testing.assert_allclose(found[:2], expected[:2], atol=32)
    new = scanner.fit(normal(4000, 0)).find_intervals(recording)
    assert [interval for interval in new if interval.end <= gap.start or interval.start >= gap.stop] == new


def test_a_channel_that_ends_early_hides_nothing_in_the_others():
    recording = normal(4000, 0, 2)
    recording[1, 1500:] = np.nan
    recording[0, 2500:2540] += 3 * np.sin(np.arange(40))
    scanner = NuTimeScanner(encoder=None)
    scanner.fit_predict(recording)
    (found,) = scanner.intervals_
    assert found.channel == 0
    assert found.start < 2540 < found.end + 40


def test_a_recording_of_gaps_is_refused():
    recording = normal(4000, 0)
    recording[np.arange(4000) % 60 > 10] = np.nan
    with pytest.raises(
        ValueError, match="have no gap of 40 missing values; give a shorter window, or fill the gaps"
    ):
        NuTimeScanner(encoder=None).fit(recording)


def test_embedded_windows_are_streamed_too(encoder):
    scanner = NuTimeScanner(encoder=encoder).fit(normal(1000, 0))
    recording = normal(600, 1)
    np.testing.assert_allclose(streamed(scanner, recording, [7, 250]), scanner.predict(recording), rtol=1e-3)


def test_a_score_is_returned_once_delay_points_have_followed():
    scanner = NuTimeScanner(encoder=None).fit(normal(2000, 0))
    recording = normal(600, 1)
    returned = np.cumsum([len(scanner.update(recording[[point]])) for point in range(600)])
    np.testing.assert_array_equal(returned, np.maximum(np.arange(1, 601) - scanner.delay_, 0))


def test_a_stream_does_not_keep_old_points():
    scanner = NuTimeScanner(encoder=None).fit(normal(2000, 0))
    for seed in range(20):
        scanner.update(normal(500, seed))
        assert scanner._stream.values.shape[1] <= scanner.delay_


def test_a_recording_in_chunks_has_the_scores_of_the_recording_at_once(monkeypatch):
    scanner = NuTimeScanner(encoder=None).fit(normal(2000, 0))
    recording = normal(1500, 1)
    expected = scanner.predict(recording)
    monkeypatch.setattr("nutime.recordings.scanner._CHUNK_POINTS", 100)
    np.testing.assert_allclose(scanner.predict(recording), expected, rtol=1e-5)


def test_a_stream_of_other_channels_or_of_too_few_points_is_refused():
    scanner = NuTimeScanner(encoder=None).fit(normal(2000, 0))
    with pytest.raises(ValueError, match="2 channel"):
        scanner.update(np.zeros((2, 10)))
    scanner.update(np.zeros(5))
    with pytest.raises(ValueError, match="5 points, fewer than one window"):
        scanner.finish()
    assert scanner.finish().size == 0


def test_intervals_have_the_times_of_the_recording():
    frame = pd.DataFrame({"load": normal(1000, 1)}, index=pd.date_range("2026-01-01", periods=1000, freq="1min"))
    frame.iloc[500:560, 0] += 4
    scanner = NuTimeScanner(encoder=None).fit(normal(2000, 0))
    interval = max(scanner.find_intervals(frame), key=lambda interval: interval.score)
    assert interval.start_time == frame.index[interval.start]
    assert interval.end_time == frame.index[interval.end - 1]
    np.testing.assert_array_equal(scanner.times_, frame.index)


def test_channels_in_another_order_are_put_in_order_by_name():
    first, second = normal(1500, 0), correlated(1500, 0)
    scanner = NuTimeScanner(encoder=None).fit(pd.DataFrame({"a": first, "b": second}))
    new = pd.DataFrame({"b": second[:500], "a": first[:500]})
    np.testing.assert_array_equal(scanner.predict(new), scanner.predict(new[["a", "b"]]))


def test_a_recording_at_another_step_of_time_than_the_reference_is_refused():
    times = pd.date_range("2026-01-01", periods=1500, freq="1min")
    frame = pd.DataFrame({"load": normal(1500, 0)}, index=times)
    scanner = NuTimeScanner(encoder=None).fit(frame)
    with pytest.raises(
        ValueError, match="the recording has a point every 180 s, the reference has one every 60 s"
    ):
        scanner.predict(frame.iloc[::3])
    seconds = frame.set_axis(np.arange(1500) * 60.0).rename_axis("time")  # numbers of an unknown unit
    np.testing.assert_array_equal(scanner.predict(seconds), scanner.predict(frame))
