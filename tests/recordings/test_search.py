import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nutime


def walk(length, seed, channels=1):
    return np.random.default_rng(seed).normal(size=(channels, length)).cumsum(1)


def normalise(values, scale):
    if scale == "keep":
        return values
    centred = values - values.mean(1, keepdims=True)
    return centred / np.maximum(values.std(1, keepdims=True), 1e-12)


def brute_force(recordings, query, k, scale):
    """The definition: all distances, then the best that overlaps none before it."""
    joined = np.concatenate(recordings, 1)
    mean, deviation = joined.mean(1, keepdims=True), joined.std(1, keepdims=True)
    size = query.shape[1]
    target = normalise((query - mean) / deviation, scale)
    candidates = []
    for index, recording in enumerate(recordings):
        values = (recording - mean) / deviation
        for start in range(recording.shape[1] - size + 1):
            difference = normalise(values[:, start : start + size], scale) - target
            candidates.append((np.sqrt((difference**2).mean()), index, start))
    found = []
    for distance, index, start in sorted(candidates):
        if len(found) < k and all(index != other or abs(start - place) >= size for _, other, place in found):
            found.append((distance, index, start))
    return found


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 1000),
    st.sampled_from([1, 2]),
    st.integers(4, 40),
    st.integers(1, 12),
    st.sampled_from(["keep", "ignore"]),
    st.lists(st.integers(3, 150), min_size=1, max_size=3),
)
def test_matches_are_those_of_a_search_by_the_definition(seed, channels, size, k, scale, lengths):
    recordings = [walk(length, seed + number, channels) for number, length in enumerate([200, *lengths])]
    query = walk(size, seed + 10, channels)
    found = nutime.find(recordings, query, k, scale=scale)
    expected = brute_force(recordings, query, k, scale)
    np.testing.assert_allclose([match.distance for match in found], [item[0] for item in expected], rtol=1e-6)
    assert [(match.recording, match.start) for match in found] == [item[1:] for item in expected]
    assert all(match.end - match.start == size for match in found)


def test_long_recordings_are_searched_in_chunks(monkeypatch):
    recording, query = walk(3000, 0), walk(30, 1)
    expected = nutime.find(recording, query, 5, scale="ignore")
    monkeypatch.setattr("nutime.recordings.search._CHUNK_POINTS", 200)
    found = nutime.find(recording, query, 5, scale="ignore")
    assert [match.start for match in found] == [match.start for match in expected]


@pytest.mark.parametrize("scale", ["keep", "ignore"])
@pytest.mark.parametrize(
    "disturb",
    [
        lambda x: x + 1e9,
        lambda x: np.where(np.arange(3000) == 1530, 1e8, x),
        lambda x: (x + 1e7) * (np.arange(3000) % 700 > 90),
    ],
    ids=["offset", "glitch", "dropouts"],
)
def test_values_millions_of_times_as_large_beside_a_stretch_do_not_change_its_distance(disturb, scale):
    recording = disturb(np.random.default_rng(2).normal(size=3000))[None]
    query = recording[:, 1550:1590]
    found = nutime.find(recording, query, 8, scale=scale)
    expected = brute_force([recording], query, 8, scale)
    assert [match.start for match in found] == [item[2] for item in expected]
    assert found[0][1:4] == (1550, 1590, 0.0)


@pytest.mark.parametrize("scale", ["keep", "ignore"])
def test_nearly_equal_stretches_are_told_apart_beside_values_a_hundred_thousand_times_as_large(scale):
    rng = np.random.default_rng(0)
    query = rng.normal(size=(1, 80))
    parts = []
    for _ in range(10):
        large = np.where(np.arange(30) == rng.integers(30), 1e5, rng.normal(size=30))[None]
        parts += [query + rng.uniform(2e-7, 2e-6) * rng.normal(size=query.shape), large]
    recording = np.concatenate(parts, axis=1)
    found = nutime.find(recording, query, 5, scale=scale)
    expected = brute_force([recording], query, 5, scale)
    assert [match.start for match in found] == [item[2] for item in expected]


@pytest.mark.parametrize("scale", ["keep", "ignore"])
@pytest.mark.parametrize("sentinel", [-1e30, 9.97e36, 1e200, np.finfo(np.float64).max])
def test_values_that_stand_for_missing_ones_hide_no_stretch_beside_them(sentinel, scale):
    recording = np.random.default_rng(2).normal(size=3000)
    query = recording[1550:1590]
    expected = nutime.find(recording, query, 6, scale=scale)
    used = [point for match in expected for point in range(match.start, match.end)]
    recording[np.setdiff1d([1545, 1595, 2900], used)] = sentinel
    found = nutime.find(recording, query, 6, scale=scale)
    assert [match.start for match in found] == [match.start for match in expected]
    assert [match.distance for match in found] == sorted({match.distance for match in found})


def test_a_constant_channel_at_another_level_than_that_of_the_query_hides_no_match():
    recording, query = (np.stack([walk(2000, 0)[0], np.full(2000, level)]) for level in (0.1, 0.2))
    assert nutime.find(recording, query[:, 300:340], 1)[0].start == 300


@pytest.mark.parametrize("unit", [1e-300, 1e300])
def test_matches_do_not_depend_on_the_unit(unit):
    recording = walk(2000, 0) / 100
    for scale in ("keep", "ignore"):
        expected = nutime.find(recording, recording[:, 300:340], 5, scale=scale)
        found = nutime.find(unit * recording, unit * recording[:, 300:340], 5, scale=scale)
        assert [match.start for match in found] == [match.start for match in expected]
        np.testing.assert_allclose([match[3] for match in found], [match[3] for match in expected], atol=1e-7)


def test_a_stretch_of_another_level_and_amplitude_is_found_by_shape_alone():
    recording, query = walk(2000, 0), walk(50, 1)
    recording[:, 700:750] = 30 + 0.1 * query
    best = nutime.find(recording, query, 1, scale="ignore")[0]
    assert (best.start, best.end) == (700, 750)
    assert best.distance < 1e-6
    assert nutime.find(recording, query, 1, scale="keep")[0].start != 700


def test_matches_carry_the_name_of_the_recording_and_its_times():
    frame = pd.DataFrame({"load": walk(500, 0)[0]}, index=pd.date_range("2026-01-01", periods=500, freq="1h"))
    best = nutime.find({"north": walk(500, 1)[0], "south": frame["load"].to_numpy()}, frame[100:150], 1)[0]
    assert best[:3] == ("south", 100, 150)
    best = nutime.find({"south": frame}, frame[100:150], 1)[0]
    assert (best.start_time, best.end_time) == (frame.index[100], frame.index[149])


def test_constant_stretches_have_no_shape_and_match_each_other():
    recording = walk(400, 0)
    recording[:, 100:160] = 7
    best = nutime.find(recording, np.full(40, -3.0), 1, scale="ignore")[0]
    assert best.distance == 0
    assert 100 <= best.start <= 120


def test_a_query_may_have_more_channels_than_points():
    frame = pd.DataFrame(walk(500, 0, 12).T, columns=[f"sensor {number}" for number in range(12)])
    best = nutime.find([frame], frame[100:108], 1)[0]
    assert best[:4] == (0, 100, 108, 0.0)
    with pytest.raises(ValueError, match="at least 4 points"):
        nutime.find([frame], frame[100:103])


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        (np.zeros((2, 10)), {}, "query has 2 channel"),
        (np.zeros(3), {}, "at least 4 points"),
        (np.zeros(10), {"k": 0}, "k must be"),
        (np.zeros(10), {"scale": "shape"}, "scale must be one of keep, ignore"),
    ],
)
def test_what_cannot_be_searched_for_is_refused_in_one_line(query, options, message):
    with pytest.raises(ValueError, match=message) as error:
        nutime.find(walk(100, 0), query, **options)
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module", params=["points", "embedding"])
def encoder(request):
    return None if request.param == "points" else nutime.NuTime.from_pretrained()


def waves(length, seed):
    """A recording in which shapes of 64 points return with noise."""
    rng = np.random.default_rng(seed)
    shapes = np.random.default_rng(0).normal(size=(6, 64)).cumsum(1)
    joined = np.concatenate([shapes[rng.integers(6)] for _ in range(length // 64)])
    return joined + 0.3 * rng.normal(size=joined.shape), shapes


def test_an_index_finds_what_a_complete_search_finds(encoder):
    recording, shapes = waves(3200, 1)
    for scale in ("keep", "ignore"):
        index = nutime.RecordingIndex.build(recording, 64, encoder, scale=scale)
        found = nutime.find(index, shapes[2], 5, scale=scale)
        expected = nutime.find(recording, shapes[2], 5, scale=scale)
        assert len({match.start for match in found} & {match.start for match in expected}) >= 4
        assert found[0] == expected[0]


@pytest.mark.parametrize(
    "times",
    [pd.date_range("2026-01-01", periods=1600, freq="1min"), pd.timedelta_range("0s", periods=1600, freq="1s")],
    ids=["dates", "durations"],
)
def test_an_index_is_the_same_after_saving_and_loading(tmp_path, encoder, times):
    recording, shapes = waves(1600, 1)
    frame = pd.DataFrame({"load": recording}, index=times)
    index = nutime.RecordingIndex.build({"south": frame}, [40, 80], encoder)
    loaded = nutime.RecordingIndex.load(index.save(tmp_path / "index"))
    assert loaded.search(shapes[0], 4) == index.search(shapes[0], 4)
    assert loaded.search(shapes[0], 1)[0].recording == "south"


def test_the_windows_of_an_index_are_multiples_of_the_period_unless_given():
    wave = np.sin(np.arange(2000) * 2 * np.pi / 50)
    index = nutime.RecordingIndex.build(wave, encoder=None)
    assert index.search(wave[300:400], 1)[0].distance < 1e-6
    with pytest.raises(ValueError, match="windows of the index 50, 100, 200"):
        index.search(wave[:600])


def test_a_search_of_another_scale_or_a_damaged_index_is_refused(tmp_path):
    recording, shapes = waves(1600, 1)
    index = nutime.RecordingIndex.build(recording, 64, None)
    with pytest.raises(ValueError, match="built with scale='keep'"):
        nutime.find(index, shapes[0], scale="ignore")
    folder = index.save(tmp_path / "index")
    (folder / "index.safetensors").write_bytes(b"damaged")
    with pytest.raises(ValueError, match="its checksum differs"):
        nutime.RecordingIndex.load(folder)


def test_points_at_another_step_of_time_are_not_compared():
    times = pd.date_range("2026-01-01", periods=600, freq="5min")
    frame = pd.DataFrame({"load": walk(600, 0)[0]}, index=times)
    slower = frame.iloc[::3]
    message = "the query has a point every 900 s, the recording has one every 300 s; bring both to one step"
    for recordings in (frame, nutime.RecordingIndex.build(frame, 30, encoder=None)):
        with pytest.raises(ValueError, match=message):
            nutime.find(recordings, slower.iloc[10:40])
    with pytest.raises(ValueError, match="recording 1 has a point every 900 s, recording 0 has one every 300 s"):
        nutime.find({"a": frame, "b": slower}, frame.iloc[10:40])
    assert nutime.find(frame, slower["load"].to_numpy()[10:40], k=1)[0].distance > 0  # an array has no times
    jitter = frame.set_axis(times + pd.to_timedelta(np.random.default_rng(0).integers(0, 9, 600), unit="s"))
    assert nutime.find(frame, jitter.iloc[10:40], k=1)[0].start == 10


@pytest.mark.parametrize("indexed", ["no", "built", "loaded"])
def test_what_is_interpolated_over_a_gap_is_no_match(tmp_path, indexed):
    values = walk(600, 0)[0]
    values[300:] += 500
    values[250:350] = np.nan
    values[100:104] = np.nan  # short: interpolated
    ramp = np.linspace(values[249], values[350], 101)[30:60]  # as the gap is filled
    recordings = values
    if indexed != "no":
        recordings = nutime.RecordingIndex.build(values, 30, encoder=None)
    if indexed == "loaded":
        recordings = nutime.RecordingIndex.load(recordings.save(tmp_path / "index"))
    found = nutime.find(recordings, ramp, k=5)
    assert found
    assert not any(match.start < 335 and match.end > 265 for match in found)
    assert nutime.find(recordings, values[104:134], k=1)[0].start == 104
    if indexed != "no":  # no candidate is wasted on a window within the gap
        assert recordings.search(ramp, 1, n_candidates=1)


def test_an_error_has_the_name_of_the_recording_and_of_the_channel():
    good = pd.DataFrame({"volt": walk(90, 0)[0], "ampere": walk(90, 1)[0]})
    with pytest.raises(ValueError, match=r"series 1 \('south'\): channel 1 \('ampere'\) has only NaN"):
        nutime.find({"north": good, "south": good.assign(ampere=np.nan)}, good.iloc[10:30])
