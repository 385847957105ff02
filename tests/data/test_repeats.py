import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nutime.data.corpus.repeats import RepeatFinder
from nutime.data.series import resample

pytestmark = pytest.mark.filterwarnings("error")


def curve(seed, length=200):
    """A smooth random curve that bends often enough to be distinguished from others."""
    rng = np.random.default_rng(seed)
    order = np.arange(1, 13)
    time = (np.arange(length)[:, None] + 0.5) / length
    return np.cos(np.pi * order * time) @ (rng.standard_normal(12) * order**-0.5)


def finder(*series, name="Test"):
    found = RepeatFinder()
    found.hold_out(name, [np.atleast_2d(one) for one in series])
    return found


def is_repeat(series, *held_out):
    return finder(*held_out).find([series]) == ["Test"]


def resized(series, length):
    return resample([series[None]], length)[0, 0]


def end_to_end(series, length):
    return np.interp(np.linspace(0, len(series) - 1, length), np.arange(len(series)), series)


# What is a repeat.


@given(
    seed=st.integers(0, 2**32 - 1),
    scale=st.floats(1e-6, 1e6),
    sign=st.sampled_from((-1, 1)),
    shift=st.floats(-100, 100),
    length=st.integers(80, 200),
    stretched=st.floats(1, 5),
    resize=st.sampled_from((resized, end_to_end)),
)
def test_scaled_shifted_negated_and_stretched_copies_are_repeats(
    seed, scale, sign, shift, length, stretched, resize
):
    series = curve(seed, length)
    assert is_repeat(sign * scale * (resize(series, int(stretched * length)) + shift), series)


@pytest.mark.parametrize("resize", [resized, end_to_end])
def test_smooth_series_are_repeated_by_shorter_copies(resize):
    series = [curve(seed, 300) for seed in range(20)]
    assert all(is_repeat(resize(one, 150), one) for one in series)


@pytest.mark.parametrize("resize", [resized, end_to_end])
def test_noise_is_repeated_by_longer_copies(resize):
    series = np.random.default_rng(0).standard_normal((20, 100))
    assert all(is_repeat(resize(one, 400), one) for one in series)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(12, 600), st.integers(12, 600))
def test_unrelated_series_are_none(one, other, length, held_out_length):
    if one != other:
        assert not is_repeat(curve(one, length), curve(other, held_out_length))


@given(st.integers(0, 2**32 - 1), st.floats(0.005, 1))
def test_near_but_different_series_of_the_same_length_are_none(seed, weight):
    series = curve(seed)
    change = curve(seed + 1)
    change -= series * (change @ series) / (series @ series)
    assert not is_repeat(series + weight * change * np.std(series) / np.std(change), series)


def test_a_copy_rounded_to_three_decimals_is_a_repeat():
    series = curve(0) / np.std(curve(0))
    assert is_repeat(np.round(series, 3), series)


def test_a_float32_copy_is_a_repeat():
    assert is_repeat((7 * curve(0) + 40).astype(np.float32), curve(0))


def test_noise_repeats_itself_but_no_other_noise():
    noise = np.random.default_rng(0).standard_normal((2, 300))
    assert is_repeat(-noise[0], noise[0])
    assert not is_repeat(noise[1], noise[0])


def test_values_near_the_largest_double_are_compared():
    series = curve(0) / np.abs(curve(0)).max()
    assert is_repeat(1e308 * series, series)


def test_one_channel_of_several_is_repeated():
    channels = np.stack([curve(0), curve(1), curve(2)])
    found = RepeatFinder()
    found.hold_out("Test", [channels])
    assert found.find([curve(1), curve(3)]) == ["Test", None]


def test_channels_laid_end_to_end_are_a_repeat():
    channels = np.stack([5 * curve(0), curve(1) - 30, curve(2)])
    found = RepeatFinder()
    found.hold_out("Test", [channels])
    joined = [(channel - channel.mean()) / channel.std() for channel in channels]
    assert found.find([np.concatenate(joined)]) == ["Test"]


def test_the_repeated_series_is_found_among_others_that_are_nearer_but_distinct():
    series = curve(0, 200)
    stretched = resized(series, 300)
    others = [stretched + 0.002 * curve(seed, 300) for seed in range(1, 4)]
    assert is_repeat(stretched, series, *others)


# What is too simple to be one.


TIME = np.linspace(0, 1, 100)
SIMPLE = {
    "constant": np.full(100, 3.0),
    "zero": np.zeros(100),
    "line": TIME,
    "parabola": TIME**2,
    "step": (TIME > 0.4).astype(float),
    "box": ((TIME > 0.4) & (TIME < 0.6)).astype(float),
    "impulse": (np.arange(100) == 30).astype(float),
    "ramp and rest": np.minimum(TIME, 0.5),
    "rounding about a constant": 1e9 + np.random.default_rng(0).standard_normal(100) * 1e-6,
}


@pytest.mark.parametrize("shape", SIMPLE)
def test_simple_shapes_repeat_nothing(shape):
    assert not is_repeat(SIMPLE[shape], SIMPLE[shape])
    assert not is_repeat(2 * resized(SIMPLE[shape], 150), SIMPLE[shape])


@pytest.mark.parametrize("length", [1, 2, 8, 11])
def test_very_short_series_repeat_nothing(length):
    series = np.random.default_rng(0).standard_normal(length)
    assert not is_repeat(series, series)


def test_twelve_points_of_noise_are_enough():
    series = np.random.default_rng(0).standard_normal(12)
    assert is_repeat(series, series)


def test_a_series_of_another_length_is_not_judged_by_a_slow_part_that_is_small():
    slow, fast = curve(0, 1000), np.sin(2.5 * np.arange(1000)) * np.sin(np.pi * np.arange(1000) / 999)
    assert not is_repeat(0.05 * slow + fast, curve(0, 500))
    assert is_repeat(slow + 0.05 * fast, curve(0, 500))


# Sifting.


def test_dropping_keeps_the_others_in_order():
    found = finder(curve(1), curve(3))
    kept = list(found.drop_repeats("Mine", [curve(seed) for seed in range(5)]))
    np.testing.assert_array_equal(kept, [curve(0), curve(2), curve(4)])


def test_the_report_counts_repeats_by_source_and_by_what_they_repeat():
    found = finder(curve(0), curve(1), name="A")
    found.hold_out("B", [curve(2)[None]])
    list(found.drop_repeats("Mine", [curve(0), -curve(1), curve(9)]))
    list(found.drop_repeats("Yours", [3 + curve(2)]))
    assert found.report() == {
        "splits_compared": 2,
        "series_compared": 3,
        "dropped": 3,
        "details": [
            {"source": "Mine", "repeats": "A", "series": 2},
            {"source": "Yours", "repeats": "B", "series": 1},
        ],
    }


def test_without_anything_held_out_nothing_is_dropped():
    series = [curve(0), curve(1)]
    assert len(list(RepeatFinder().drop_repeats("Mine", series))) == 2


def test_what_is_held_out_later_counts_too():
    found = finder(curve(0))
    assert found.find([curve(1)]) == [None]
    found.hold_out("Later", [curve(1)[None]])
    assert found.find([curve(1)]) == ["Later"]
