from copy import copy
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nutime import NuTime, NuTimeAnnotator
from nutime.recordings.annotator import _smooth, point_at

POINTS = np.arange(400)
SHAPES = {
    "sine": np.sin(POINTS * 2 * np.pi / 25),
    "saw": (POINTS % 20) / 10 - 1,
    "square": 2 * np.sign(np.sin(POINTS * 2 * np.pi / 40)),
}


def recording(*labels, seed=0):
    joined = np.concatenate([SHAPES[label] for label in labels])
    return joined + 0.1 * np.random.default_rng(seed).normal(size=joined.shape)


def intervals(name, *labels, leave_out=()):
    return [(name, 400 * i, 400 * (i + 1), label) for i, label in enumerate(labels) if label not in leave_out]


ORDERS = {"a": ("sine", "saw", "square", "sine"), "b": ("square", "sine", "saw"), "c": ("saw", "square", "sine")}
TRAINING = {name: recording(*labels, seed=seed) for seed, (name, labels) in enumerate(ORDERS.items(), 1)}
ROWS = [row for name, labels in ORDERS.items() for row in intervals(name, *labels)]


@pytest.fixture(scope="module")
def encoder():
    return NuTime.from_pretrained()


@pytest.fixture(scope="module")
def annotator(encoder):
    return NuTimeAnnotator(encoder=encoder, max_windows=200).fit(TRAINING, ROWS)


def test_new_recordings_are_cut_and_labelled(annotator):
    found = annotator.predict(recording("saw", "sine", "square", "saw", seed=9))
    assert [annotation.label for annotation in found] == ["saw", "sine", "square", "saw"]
    np.testing.assert_allclose([annotation.start for annotation in found], [0, 400, 800, 1200], atol=50)
    assert [a.end for a in found[:-1]] == [a.start for a in found[1:]]
    assert found[-1].end == 1600
    assert all(0.5 < annotation.confidence <= 1 for annotation in found)


@pytest.mark.parametrize("leave_out", [(), ("saw",)])
def test_a_saved_annotator_finds_the_same(encoder, tmp_path, leave_out):
    rows = [row for row in ROWS if row[-1] not in leave_out]
    fitted = NuTimeAnnotator(encoder=encoder, max_windows=60).fit(TRAINING, rows)
    new = recording("saw", "sine", "square", seed=9)
    loaded = NuTimeAnnotator.load(fitted.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict_proba(new), fitted.predict_proba(new))
    assert loaded.predict(new) == fitted.predict(new)
    (tmp_path / "model" / "annotator.safetensors").write_bytes(b"junk")
    with pytest.raises(ValueError, match="its checksum differs"):
        NuTimeAnnotator.load(tmp_path / "model")


def test_every_point_has_probabilities_of_which_the_largest_is_the_label(annotator):
    new = recording("saw", "sine", seed=9)[:777]
    probabilities = annotator.predict_proba(new)
    assert probabilities.shape == (777, 4)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    labels = [*annotator.classes_, None]
    for annotation in annotator.predict(new):
        part = probabilities[annotation.start : annotation.end]
        assert {labels[code] for code in part.argmax(1)} == {annotation.label}


def test_what_was_never_seen_is_none_of_the_labels(annotator):
    assert not annotator.has_background_
    noise = 3 * np.random.default_rng(0).normal(size=400)
    found = annotator.predict(np.concatenate([recording("sine", seed=9), noise, recording("saw", seed=8)]))
    assert [annotation.label for annotation in found] == ["sine", None, "saw"]


def test_stretches_without_a_label_are_learned_as_none_of_the_labels(encoder):
    rows = [row for name, labels in ORDERS.items() for row in intervals(name, *labels, leave_out=("square",))]
    annotator = NuTimeAnnotator(encoder=encoder, max_windows=200).fit(TRAINING, rows)
    assert annotator.has_background_
    assert annotator.classes_.tolist() == ["saw", "sine"]
    found = annotator.predict(recording("saw", "square", "sine", seed=9))
    assert [annotation.label for annotation in found] == ["saw", None, "sine"]


def test_the_last_points_have_the_label_of_those_before_them(annotator):
    unsmoothed = copy(annotator)
    unsmoothed.penalty_ = 0.0
    length = 800 // annotator.stride_ * annotator.stride_ + 1  # the centre of the last cell is beyond the end
    labels = [annotation.label for annotation in unsmoothed.predict(recording("saw", "square", "square")[:length])]
    assert labels[-1] == "square"


def test_numbers_in_columns_of_times_are_times(encoder):
    frame = pd.DataFrame({"time": 0.5 * np.arange(1600), "load": recording(*ORDERS["a"], seed=1)})
    edges = np.array([0, 400, 800, 1200])
    points = pd.DataFrame({"start": edges, "end": edges + 400, "label": ORDERS["a"]})
    times = pd.DataFrame({"start_time": 0.5 * edges, "end_time": 0.5 * (edges + 399), "label": ORDERS["a"]})
    one, other = (NuTimeAnnotator(encoder=encoder, max_windows=60).fit(frame, rows) for rows in (points, times))
    np.testing.assert_array_equal(one.predict_proba(frame), other.predict_proba(frame))


def test_intervals_in_points_beside_irregular_times_cause_a_warning(encoder, caplog):
    times = pd.date_range("2026-01-01", periods=1700, freq="1s")
    whole = pd.DataFrame({"load": recording(*ORDERS["a"], seed=1)}, index=times[:1600])
    gappy = whole.set_axis(times.delete(np.arange(100, 200)))
    rows = [row[1:] for row in ROWS[:4]]
    for frame, warns in ((whole, False), (gappy, True)):
        caplog.clear()
        NuTimeAnnotator(encoder=encoder, max_windows=60).fit(frame, rows)
        assert ("points of intervals are those of the regular grid" in caplog.text) == warns
    caplog.clear()
    timed = [(str(frame.index[start]), str(frame.index[end - 1]), label) for start, end, label in rows]
    NuTimeAnnotator(encoder=encoder, max_windows=60).fit(gappy, timed)
    assert "points of intervals" not in caplog.text


def test_intervals_may_be_a_frame_with_times_and_annotations_can_be_learned_from(encoder):
    times = pd.date_range("2026-01-01", periods=1600, freq="1s")
    frame = pd.DataFrame({"load": recording(*ORDERS["a"], seed=1)}, index=times)
    rows = pd.DataFrame(
        {
            "start_time": times[[0, 400, 800, 1200]],
            "end_time": times[[399, 799, 1199, 1599]],
            "label": [1, 2, 3, 1],
        }
    )
    annotator = NuTimeAnnotator(encoder=encoder, max_windows=100).fit(frame, rows)
    found = annotator.predict(frame)
    assert [annotation.label for annotation in found] == [1, 2, 3, 1]
    assert found[1].start_time == times[found[1].start]
    assert found[1].end_time == times[found[1].end - 1]
    assert all(isinstance(annotation.label, int) for annotation in found)
    again = NuTimeAnnotator(encoder=encoder, max_windows=100).fit(frame, pd.DataFrame(found))
    assert again.classes_.tolist() == [1, 2, 3]


def test_an_edge_such_as_20240103_is_a_time_like_those_of_the_recording():
    days = np.arange(np.datetime64("2024-01-01", "us"), np.datetime64("2024-02-01", "us"), np.timedelta64(1, "D"))
    assert point_at("20240103", days, "left") == 2
    assert point_at("20240103", np.arange(20240100, 20240200), "left") == 3


def test_times_with_and_without_a_zone_are_never_mixed(encoder):
    times = pd.date_range("2026-01-01", periods=1600, freq="1min", tz="Europe/Berlin")
    frame = pd.DataFrame({"load": recording(*ORDERS["a"], seed=1)}, index=times)
    rows = pd.DataFrame(
        {"start_time": times[[0, 400, 800]], "end_time": times[[399, 799, 1199]], "label": [1, 2, 3]}
    )
    naive = rows.assign(start_time=rows.start_time.dt.tz_localize(None))
    NuTimeAnnotator(encoder=encoder, max_windows=60).fit(frame, rows)
    with pytest.raises(
        ValueError, match="interval 0: 2026-01-01 00:00:00 has no time zone, the recording has one"
    ):
        NuTimeAnnotator(encoder=encoder).fit(frame, naive)
    with pytest.raises(ValueError, match="has a time zone, and the times of the recording have none"):
        NuTimeAnnotator(encoder=encoder).fit(frame.tz_localize(None), rows)
    utc = frame.tz_convert("UTC")
    with pytest.raises(ValueError, match="write 2026-01-01T00:00:00\\+00:00 if it is UTC"):
        point_at("01.01.2026", utc.index.tz_localize(None).to_numpy(), "left", zoned=True)
    for edge in (times[5], str(times[5]), np.datetime64(times[5].tz_convert(None))):
        assert point_at(edge, utc.index.tz_localize(None).to_numpy(), "left", zoned=True) == 5


def test_an_interval_of_times_has_the_points_between_them():
    for times in (np.arange(100), np.datetime64("2024-01-01", "s") + np.arange(100)):
        half = "20.5" if times.dtype.kind == "i" else "2024-01-01T00:00:20.5"
        assert point_at(half, times, "left") == point_at(half, times, "right") == 21


def test_durations_are_times_of_a_recording_that_has_durations():
    seconds = np.arange(100) * np.timedelta64(1, "s").astype("timedelta64[us]")
    for edge in (seconds[20], timedelta(seconds=20), pd.Timedelta("20s")):
        assert point_at(edge, seconds, "left") == 20
        with pytest.raises(ValueError, match="not a time like those of the recording"):
            point_at(edge, np.arange(100.0), "left")
    with pytest.raises(ValueError, match="not a time like those of the recording"):
        point_at("20", seconds, "left")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("d", 0, 400, "sine")], "no recording 'd'"),
        ([("a", 0, 4000, "sine")], "not within the 1600 points"),
        ([("a", 400, 400, "sine")], "not within"),
        ([("a", 0, 400, "sine"), ("a", 300, 500, "saw")], "overlaps one of another label"),
        ([("a", 0, 400)], r"expected \(recording, start, end, label\)"),
        ([("a", "noon", 400, "sine")], "has no times"),
        ([("a", 0, 400, None)], "no interval has a label"),
        ([("a", 0, 400, 1), ("a", 400, 800, "saw")], "the label of intervals mixes text with int and str"),
        ([("a", 0, 10, "sine")], "no window of 16 points is within 'sine'"),
        (pd.DataFrame({"recording": ["a"], "start": [0], "stop": [4], "label": ["x"]}), "no column 'end'"),
    ],
)
def test_intervals_that_cannot_be_understood_are_refused_in_one_line(rows, message, encoder):
    with pytest.raises(ValueError, match=message) as error:
        NuTimeAnnotator(encoder=encoder).fit(TRAINING, rows)
    assert "\n" not in str(error.value)


def test_a_number_of_windows_below_one_is_refused(encoder):
    with pytest.raises(ValueError, match="max_windows must be"):
        NuTimeAnnotator(encoder=encoder, max_windows=0).fit(TRAINING, ROWS)


def test_several_recordings_are_refused_where_one_is_read(annotator):
    for several in (TRAINING, list(TRAINING.values())):
        with pytest.raises(ValueError, match=r"expected one recording, got (3|several)"):
            annotator.predict(several)


def test_recordings_that_do_not_fit_the_training_are_refused(annotator):
    for new, message in ((np.zeros((2, 500)), "2 channel"), (np.zeros(20), "fewer than one window")):
        with pytest.raises(ValueError, match=message):
            annotator.predict(new)


def test_a_recording_at_another_step_of_time_than_the_training_is_refused(encoder, tmp_path):
    frame = pd.DataFrame({"load": recording(*ORDERS["a"])}, index=pd.date_range("2024", periods=1600, freq="s"))
    fitted = NuTimeAnnotator(encoder=encoder, max_windows=60).fit(frame, [row[1:] for row in ROWS[:4]])
    for annotator in (fitted, NuTimeAnnotator.load(fitted.save(tmp_path / "model"))):
        with pytest.raises(
            ValueError, match="the recording has a point every 3 s, the training had one every 1 s"
        ):
            annotator.predict(frame.iloc[::3])
        assert annotator.predict(frame)


def exhaustive(likelihood, penalty):
    """Posterior probabilities from the sum over all sequences of labels."""
    n, labels = likelihood.shape
    total = np.zeros_like(likelihood)
    for path in np.ndindex(*[labels] * n):
        weight = np.prod(likelihood[np.arange(n), path]) * np.exp(-penalty * np.count_nonzero(np.diff(path)))
        total[np.arange(n), path] += weight
    return total / total.sum(1, keepdims=True)


@settings(deadline=None, max_examples=25)
@given(arrays(float, (5, 3), elements=st.floats(0.01, 1)), st.floats(0, 10))
def test_smoothing_is_the_sum_over_all_sequences_of_labels(likelihood, penalty):
    np.testing.assert_allclose(_smooth(likelihood, penalty), exhaustive(likelihood, penalty))
