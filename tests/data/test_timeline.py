"""Samples at any times on a regular grid."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nutime.data.timeline import TimeReport, as_dates, next_times, parse_times, to_grid

DAY = np.datetime64("2024-01-01", "ns")


def grid(times, values, freq=None):
    report = TimeReport()
    new_times, new_values = to_grid(np.asarray(times), np.atleast_2d(np.asarray(values, float)), freq, report)
    return new_times, new_values[0], report


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.floats(1e-3, 1e3), st.randoms())
def test_regular_samples_keep_every_value_in_any_order(values, step, random):
    rows = list(enumerate(values))
    random.shuffle(rows)
    times = np.array([index * step for index, _ in rows])
    _, found, report = grid(times, [value for _, value in rows])
    assert found.tolist() == values
    assert report.n_resampled == report.n_missing == 0


@pytest.mark.parametrize(
    "times",
    [
        np.array([-1e308, 0, 1e308]),
        np.array([-(2**62), 0, 2**62 + 1]),
        np.array(["1678-01-01", "2000-01-01", "2262-01-01"], "datetime64[ns]"),
    ],
)
def test_times_whose_differences_overflow_are_refused(times):
    with pytest.raises(ValueError, match=r"the times from .* to .* span too much; correct them"):
        grid(times, [1, 2, 3])


def test_a_gap_becomes_missing_values():
    times, values, report = grid([0, 1, 2, 6, 7], [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(values, [1, 2, 3, np.nan, np.nan, np.nan, 4, 5])
    assert times.tolist() == list(range(8))
    assert report.notes() == ["times: 3 missing timestamps in 1 series made missing values"]


def test_samples_of_a_rounded_clock_keep_their_times_around_a_gap():
    clock = np.round(np.arange(9000) * 1000 / 30).astype(int)
    for times in (clock, clock / 1000, DAY + clock * np.timedelta64(1, "ms")):
        known = np.delete(times, 100)
        found, values, _ = grid(known, np.zeros(len(known)))
        assert found.dtype == times.dtype
        assert found[~np.isnan(values)].tolist() == known.tolist()
        assert known[99] < found[100] < known[100]


@pytest.mark.parametrize("hertz", [30, 60])
def test_a_long_gap_of_a_rounded_clock_has_as_many_points_as_are_missing(hertz):
    clock = np.round(np.arange(9000) * 1000 / hertz).astype(int)
    for times in (clock, clock / 1000, DAY + clock * np.timedelta64(1, "ms")):
        known = np.delete(times, slice(1000, 7000))
        found, values, report = grid(known, np.arange(3000.0))
        assert np.flatnonzero(np.isnan(values)).tolist() == list(range(1000, 7000))
        assert found[~np.isnan(values)].tolist() == known.tolist()
        assert report.n_resampled == 0


@pytest.mark.parametrize("hertz", [120, 240, 400, 512])
@pytest.mark.parametrize("rounded", [np.round, np.floor])
def test_a_fast_clock_in_whole_milliseconds_has_its_own_rate(hertz, rounded):
    clock = rounded(np.arange(9000) * 1000 / hertz).astype(int)
    for times in (clock, clock / 1000, DAY + clock * np.timedelta64(1, "ms")):
        found, values, report = grid(np.delete(times, slice(1000, 1100)), np.arange(8900.0))
        assert np.flatnonzero(np.isnan(values)).tolist() == list(range(1000, 1100))
        assert (len(found), report.n_resampled) == (9000, 0)


@pytest.mark.parametrize("step", [1.4, 1.5, 1.6, 1.9, 2.5])
@pytest.mark.parametrize("rounded", [np.round, np.floor, np.ceil])
@pytest.mark.parametrize("count", [25, 40, 41])
def test_a_clock_of_less_than_two_units_has_no_gaps(step, rounded, count):
    seconds = rounded(np.arange(count) * step).astype(int)
    for times in (seconds, seconds / 1000, DAY + seconds * np.timedelta64(1, "s")):
        found, values, report = grid(times, np.arange(count))
        assert (found.tolist(), values.tolist(), report.notes()) == (times.tolist(), list(range(count)), [])


def test_a_clock_of_less_than_two_units_may_have_a_gap():
    seconds = np.delete(np.floor(np.arange(400) * 1.5).astype(int), slice(100, 150))
    _, values, _ = grid(seconds, np.zeros(350))
    assert np.flatnonzero(np.isnan(values)).tolist() == list(range(100, 150))


def test_lost_samples_are_gaps_and_not_a_slower_clock():
    random = np.flatnonzero(np.random.default_rng(0).uniform(size=200) < 0.6)
    days = np.datetime64("2024-01-01") + np.flatnonzero(np.arange(60) % 3)  # two days on, one day off
    for times in (random, np.array([0, 1, 3, 4, 6]), days, days.astype("datetime64[ns]")):
        places = (times - times[0]) // (times[1:] - times[:-1]).min()
        assert np.flatnonzero(~np.isnan(grid(times, np.zeros(len(times)))[1])).tolist() == places.tolist()


@pytest.mark.parametrize("kind", ["int64", "uint64", "datetime64[ns]"])
def test_whole_times_stay_whole_and_exact(kind):
    times = (1_714_550_417_123_456_789 + 3_600_000_000_001 * np.arange(9000)).astype(kind)
    known = np.delete(times, slice(100, 8000))
    found, _, _ = grid(known, np.zeros(len(known)))
    assert (found.dtype, found.tolist()) == (times.dtype, times.tolist())
    irregular = np.array([0, 1000, 1500, 2500, 3500, 4500]).astype(kind)
    found, _, report = grid(irregular, np.zeros(6))
    assert report.n_resampled == 1
    assert found.astype(int).tolist() == [0, 1000, 2000, 3000, 4000]
    assert found.dtype == times.dtype


@given(st.integers(0, 2**32))
def test_a_line_sampled_at_irregular_times_stays_a_line(seed):
    rng = np.random.default_rng(seed)
    times = np.sort(np.arange(40) + rng.uniform(-0.2, 0.2, 40))
    new_times, values, report = grid(times, 2 * times + 1)
    assert report.n_resampled == 1
    known = np.isfinite(values)
    expected = 2 * new_times + 1
    assert np.isclose(values, expected).mean() > 0.8
    step = new_times[1] - new_times[0]
    # At a gap, the nearest sample is taken: at most half a step away, on a line of slope 2.
    np.testing.assert_allclose(values[known], expected[known], atol=1.001 * step)
    assert len(np.unique(np.round(np.diff(new_times), 6))) == 1


def test_small_jitter_is_not_resampled():
    _, values, report = grid([0, 1.01, 1.99, 3.0], [5, 6, 7, 8])
    assert (values.tolist(), report.notes()) == ([5, 6, 7, 8], [])


def test_a_coarser_step_takes_means():
    _, values, _ = grid(np.arange(12.0), np.repeat([1.0, 2.0, 3.0], 4), freq=4)
    assert len(values) == 4
    np.testing.assert_allclose(values, [1, 2, 3, 3], atol=0.6)


@pytest.mark.parametrize(("freq", "length"), [("12h", 5), ("1d", 3), ("2 D", 2), (43200, 5), ("720min", 5)])
def test_the_step_may_be_given(freq, length):
    times = DAY + np.arange(3) * np.timedelta64(1, "D")
    assert len(grid(times, [1, 2, 3], freq)[1]) == length


def test_the_step_of_a_unix_time_may_have_a_unit():
    assert len(grid(1_700_000_000 + np.arange(3), [1, 2, 3], "500ms")[1]) == 5
    assert len(grid(1_700_000_000_000 + 1000 * np.arange(3), [1, 2, 3], "500ms")[1]) == 5


@pytest.mark.parametrize(
    ("freq", "message"),
    [("10 parsecs", "is not a step"), ("0s", "is not a step"), ("-1", "is not a step"), ("1s", "needs dates")],
)
def test_a_step_that_is_none_is_refused(freq, message):
    with pytest.raises(ValueError, match=message):
        grid([0, 1, 2], [1, 2, 3], freq)


def test_nanoseconds_are_kept():
    times = np.datetime64("2024-01-01T00:00:00.000000001", "ns") + np.arange(5) * np.timedelta64(3, "ns")
    new_times, values, report = grid(times, range(5))
    assert (values.tolist(), report.notes()) == ([0, 1, 2, 3, 4], [])
    assert new_times.tolist() == times.tolist()


@pytest.mark.parametrize("month_end", [False, True])
def test_months_are_regular(month_end):
    months = np.datetime64("2023-11", "M") + np.arange(8)
    days = (months + month_end).astype("datetime64[D]") - month_end
    _, values, report = grid(days, range(8))
    assert (values.tolist(), report.notes()) == (list(range(8)), [])
    _, values, report = grid(np.delete(days, 3), range(7))
    assert np.isnan(values).tolist() == [False] * 3 + [True] + [False] * 4


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Tokyo"])
@pytest.mark.parametrize("offset", ["MonthBegin", "MonthEnd", "QuarterBegin"])
def test_months_of_a_zone_are_regular(zone, offset):
    pd = pytest.importorskip("pandas")
    local = pd.date_range("2022-01-01", periods=14, freq=getattr(pd.offsets, offset)(), tz=zone)
    times = local.tz_convert(None).to_numpy()
    _, values, report = grid(times, range(14))
    assert (values.tolist(), report.notes()) == (list(range(14)), [])
    found, values, _ = grid(np.delete(times, 3), range(13))
    assert np.flatnonzero(np.isnan(values)).tolist() == [3]
    assert np.delete(found, 3).tolist() == np.delete(times, 3).tolist()
    assert abs(found[3] - times[3]) <= np.timedelta64(1, "h")
    assert abs(next_times(times, 1)[0] - (local + local.freq)[-1].tz_convert(None)) <= np.timedelta64(1, "h")


def test_few_repeated_times_are_averaged_and_many_refused():
    _, values, report = grid([0, 1, 1, 2], [1.0, 2.0, 4.0, 5.0])
    assert (values.tolist(), report.n_averaged) == ([1, 3, 5], 2)
    _, _, report = grid([0, *range(20), 19], range(22))
    assert report.n_averaged == 4
    with pytest.raises(ValueError, match="2 of 4 rows repeat an earlier time"):
        grid([0, 0, 1, 1], [1, 2, 3, 4])


def test_an_outlier_among_the_times_is_refused_before_memory_is_allocated():
    with pytest.raises(ValueError, match=r"span .* steps of 86400 s"):
        grid(np.array(["1970-01-01", "2024-01-01", "2024-01-02", "2024-01-03"], "datetime64[ns]"), [1, 2, 3, 4])


def test_times_with_and_without_zone_are_not_mixed():
    with pytest.raises(ValueError, match="times cannot be compared"):
        parse_times(["2024-01-01", "2024-01-01T00:00Z"])


@pytest.mark.parametrize(
    ("zone", "notes"),
    [
        ("+02:00", ["times: 2 times with a zone changed to UTC, and written without a zone"]),
        ("+00:00", []),
        ("Z", []),
        ("", []),
    ],
)
def test_a_change_of_times_to_utc_is_noted(zone, notes):
    report = TimeReport()
    parse_times([f"2024-01-01T12:00{zone}", f"2024-01-01T13:00{zone}"], report=report)
    assert report.notes() == notes


def test_compact_dates_are_dates():
    days = np.arange(np.datetime64("2024-01-15"), np.datetime64("2024-03-15"))
    texts = [day.replace("-", "") for day in days.astype(str).tolist()]
    for times in (parse_times(texts), np.array(texts).astype(np.uint32)):
        found, _, report = grid(times, np.zeros(60))
        assert (found == days).all()
        assert report.notes() == []


@pytest.mark.parametrize("digits", [10, 12, 14])
def test_compact_dates_may_have_a_clock(digits):
    hours = np.arange(np.datetime64("2024-02-28T00"), np.datetime64("2024-03-02T00"))
    texts = [f"{hour:%Y%m%d%H%M%S}"[:digits] for hour in hours.tolist()]
    found, _, report = grid(parse_times(texts), np.zeros(72))
    assert (found == hours).all()
    assert report.notes() == []
    assert as_dates(other := np.array([int(texts[0]), 2024022824 * 10 ** (digits - 10)])) is other


def test_a_day_off_every_week_is_a_gap_and_not_a_slower_clock():
    known = np.flatnonzero(np.arange(70) % 7)
    _, values, _ = grid(known, np.zeros(60))
    assert np.flatnonzero(np.isnan(values)).tolist() == list(range(6, 69, 7))


@pytest.mark.parametrize("other", [20240230, 20240100, 20241301, 20240001, 18991231, 21010101, 2024, 202401311])
def test_numbers_among_which_one_is_no_date_stay_numbers(other):
    times = np.array([20240128, 20240129, 20240130, 20240131, other])
    assert as_dates(times) is times


@pytest.mark.parametrize(
    ("times", "following"),
    [
        ([0, 2, 4], [6, 8]),
        ([0.0, 0.5, 1.0], [1.5, 2.0]),
        (["2024-01-01", "2024-02-01", "2024-03-01"], ["2024-04-01", "2024-05-01"]),
        (["2023-11-30", "2023-12-31", "2024-01-31"], ["2024-02-29", "2024-03-31"]),
        (["2024-02-27", "2024-02-28"], ["2024-02-29", "2024-03-01"]),
        (["2022-01-01", "2023-01-01", "2024-01-01"], ["2025-01-01", "2026-01-01"]),
        ([0, 33, 67, 100, 133, 167, 200], [233, 267]),
    ],
)
def test_the_grid_is_continued(times, following):
    dtype = "datetime64[us]" if isinstance(times[0], str) else None
    assert next_times(np.array(times, dtype), 2).tolist() == np.array(following, dtype).tolist()


def test_missing_months_keep_their_dates():
    times = np.array(["2023-12-01", "2024-01-01", "2024-02-01", "2024-05-01"], "datetime64[us]")
    found, values, _ = grid(times, [1, 2, 3, 4])
    assert found.astype("datetime64[D]").astype(str).tolist()[3:] == ["2024-03-01", "2024-04-01", "2024-05-01"]
    np.testing.assert_array_equal(values[3:], [np.nan, np.nan, 4])
