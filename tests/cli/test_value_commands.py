"""``nutime impute`` and ``nutime forecast``: tables in, tables out, in the units of the input."""

import csv
import json

import numpy as np
import pytest

WAVE = np.sin(np.arange(240) * 2 * np.pi / 24)


def write_rows(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def read_rows(path):
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture
def wide(tmp_path):
    """Two series, one row each, the second on another scale and with a gap."""
    series = np.stack([WAVE, 1e6 + 1e3 * WAVE])
    cells = [["" if 100 <= point < 110 and row else value for point, value in enumerate(values)]
             for row, values in enumerate(series)]  # fmt: skip
    header = ["id", "label", *[f"h{point}" for point in range(240)]]
    rows = [[f"s{row}", "abc"[row], *values] for row, values in enumerate(cells)]
    return write_rows(tmp_path / "wide.csv", header, rows)


@pytest.fixture
def long(tmp_path):
    """One series of two channels, one row per hour; some cells and three whole rows are missing."""
    times = np.datetime64("2024-01-01T00", "h") + np.arange(240)
    rows = [
        [time, "" if 50 <= point < 60 else value, 5 + 2 * value]
        for point, (time, value) in enumerate(zip(times, WAVE, strict=True))
        if not 120 <= point < 123
    ]
    return write_rows(tmp_path / "long.csv", ["time", "load", "heat"], rows)


def test_imputing_one_row_per_series_keeps_the_table_and_fills_its_gaps(nutime, wide, tmp_path):
    done = nutime("impute", wide, "-o", tmp_path / "filled.csv", "--json")
    assert (done.code, json.loads(done.out)["filled"]) == (0, 10)
    before, after = read_rows(wide), read_rows(tmp_path / "filled.csv")
    assert list(before[0]) == list(after[0])
    for one, other in zip(before, after, strict=True):
        assert (one["id"], one["label"]) == (other["id"], other["label"])
        assert all(float(one[name]) == float(other[name]) for name in list(one)[2:] if one[name])
    filled = [float(after[1][f"h{point}"]) for point in range(100, 110)]
    np.testing.assert_allclose(filled, 1e6 + 1e3 * WAVE[100:110], atol=200)


@pytest.mark.parametrize(
    ("header", "options", "name"),
    [
        (["id", "V", "V", "A"], [], "V"),
        (["time", "V", "V", "A"], [], "V"),
        (["time", "quantile", "V", "A"], ["--quantiles", "0.5"], "quantile"),
        (["clock", "time", "V", "A"], ["--time", "clock", "--channels", "time,V"], "time"),
    ],
)
def test_imputing_columns_of_one_name_is_refused(nutime, tmp_path, header, options, name):
    source = write_rows(tmp_path / "twice.csv", header, [[0, 1, 2, 3], [1, 4, "", 6]])
    done = nutime("impute", source, "-o", tmp_path / "filled.csv", *options)
    reason = f"the results would have 2 columns named {name!r}; rename those of the input"
    assert done.refusal == f"{source}: {reason}"
    assert not (tmp_path / "filled.csv").exists()


def test_imputing_one_row_per_point_adds_the_missing_times(nutime, long, tmp_path):
    done = nutime("impute", long, "-o", tmp_path / "filled.csv")
    assert (done.code, "Filled: 16 of 480 values" in done.out) == (0, True)
    rows = read_rows(tmp_path / "filled.csv")
    assert list(rows[0]) == ["time", "load", "heat"]
    assert [rows[point]["time"] for point in (0, 121, 239)] == [
        "2024-01-01 00:00:00",
        "2024-01-06 01:00:00",
        "2024-01-10 23:00:00",
    ]
    np.testing.assert_allclose([float(row["load"]) for row in rows], WAVE, atol=0.2)
    np.testing.assert_allclose([float(row["heat"]) for row in rows], 5 + 2 * WAVE, atol=0.4)


@pytest.mark.parametrize(("command", "n_rows"), [(["impute"], 40), (["forecast", "--horizon", 2], 4)])
def test_times_of_series_may_be_dates_and_numbers(nutime, tmp_path, command, n_rows):
    times = [("u", day) for day in np.datetime64("2024-01-01") + np.arange(20)] + [("v", n) for n in range(20)]
    source = write_rows(tmp_path / "both.csv", ["id", "time", "x"], [[*time, WAVE[0]] for time in times])
    done = nutime(*command, source, "-o", tmp_path / "out.csv")
    assert done.code == 0, done.err
    rows = read_rows(tmp_path / "out.csv")
    first, last = ("2024-01-01", "19") if n_rows == 40 else ("2024-01-21", "21")
    assert (len(rows), rows[0]["time"], rows[-1]["time"]) == (n_rows, f"{first} 00:00:00", last)


def test_quantiles_of_imputed_values_repeat_the_table(nutime, wide, tmp_path):
    assert nutime("impute", wide, "-o", tmp_path / "filled.csv", "--quantiles", "0.1,0.9").code == 0
    rows = read_rows(tmp_path / "filled.csv")
    assert [(row["quantile"], row["id"]) for row in rows] == [
        ("0.1", "s0"),
        ("0.1", "s1"),
        ("0.9", "s0"),
        ("0.9", "s1"),
    ]
    assert all(float(rows[1][f"h{point}"]) < float(rows[3][f"h{point}"]) for point in range(100, 110))


def test_a_forecast_has_one_row_per_series_and_step(nutime, wide, tmp_path):
    done = nutime("forecast", wide, "--horizon", 30, "-o", tmp_path / "next.csv")
    assert (done.code, done.err) == (0, "")
    rows = read_rows(tmp_path / "next.csv")
    assert list(rows[0]) == ["id", "channel", "step", "predicted"]
    assert [(row["id"], row["step"]) for row in rows[29:31]] == [("s0", "30"), ("s1", "1")]
    future = np.sin(np.arange(240, 270) * 2 * np.pi / 24)
    predicted = np.array([float(row["predicted"]) for row in rows]).reshape(2, 30)
    np.testing.assert_allclose(predicted[0], future, atol=0.2)
    np.testing.assert_allclose(predicted[1], 1e6 + 1e3 * future, atol=200)


def test_a_forecast_continues_the_times_and_is_drawn(nutime, long, tmp_path):
    out = tmp_path / "next.csv"
    done = nutime("forecast", long, "--horizon", 3, "-o", out, "--quantiles", "0.1,0.5,0.9", "--figure", tmp_path)
    assert done.code == 0, done.err
    rows = read_rows(out)
    assert list(rows[0]) == ["id", "channel", "step", "time", "q0.1", "q0.5", "q0.9"]
    assert [row["channel"] for row in rows] == 3 * ["load"] + 3 * ["heat"]
    assert [row["time"] for row in rows[:3]] == [f"2024-01-11 0{hour}:00:00" for hour in range(3)]
    assert all(float(row["q0.1"]) <= float(row["q0.5"]) <= float(row["q0.9"]) for row in rows)
    assert (tmp_path / "forecast.png").stat().st_size > 5_000


def test_a_forecast_begins_after_the_last_observed_point(nutime, tmp_path):
    rows = [[day, value if day < 90 else "", ""] for day, value in enumerate(np.tile(WAVE[:24], 4))]
    rows[0][2] = 1.0
    path = write_rows(tmp_path / "ends.csv", ["time", "a", "b"], rows)
    assert nutime("forecast", path, "--horizon", 2, "-o", tmp_path / "next.csv").code == 0
    assert [row["time"] for row in read_rows(tmp_path / "next.csv")] == ["90", "91"] * 2


MISTAKES = {
    "a level that is not predicted": (["--quantiles", "0.5,1"], 2, "must be from 0.025 to 0.975"),
    "a level that is no number": (["--quantiles", "low"], 2, "could not convert"),
    "weights without a decoder": (["--weights", "nutime-paper"], 1, "have no decoder"),
}


@pytest.mark.parametrize(("arguments", "code", "about"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_explained_and_nothing_is_written(nutime, arguments, code, about, wide, tmp_path):
    done = nutime("impute", wide, "-o", tmp_path / "filled.csv", *arguments)
    assert done.code == code
    assert about in " ".join(done.err.split())
    assert not (tmp_path / "filled.csv").exists()


def test_a_channel_without_any_value_is_named_in_one_line(nutime, tmp_path):
    path = write_rows(tmp_path / "empty.csv", ["time", "a", "b"], [[0, 1, ""], [1, 2, ""]])
    done = nutime("impute", path, "-o", tmp_path / "filled.csv")
    assert done.refusal == f"{path}: series 0: channel 1 ('b') has only NaN; expected at least one value"


def test_a_single_time_cannot_be_continued(nutime, tmp_path):
    path = write_rows(tmp_path / "one.csv", ["time", "a"], [["2024-01-01", 3]])
    done = nutime("forecast", path, "--horizon", 2, "-o", tmp_path / "next.csv")
    assert "series 0: has a single time" in done.refusal


def test_compact_dates_of_a_table_are_days(nutime, tmp_path):
    days = (np.datetime64("2024-01-15") + np.arange(60)).astype(str).tolist()
    rows = [[day.replace("-", ""), "" if point == 20 else WAVE[point]] for point, day in enumerate(days)]
    table = write_rows(tmp_path / "days.csv", ["date", "load"], rows)
    assert nutime("impute", table, "-o", tmp_path / "filled.csv").code == 0
    assert [row["time"][:10] for row in read_rows(tmp_path / "filled.csv")] == days


def test_times_changed_to_utc_are_noted(nutime, tmp_path):
    rows = [[f"2024-01-01T02:{minute:02}+02:00", "" if minute == 20 else WAVE[minute]] for minute in range(60)]
    done = nutime(
        "impute", write_rows(tmp_path / "zone.csv", ["time", "load"], rows), "-o", tmp_path / "filled.csv"
    )
    assert "60 times with a zone changed to UTC" in done.err
    assert read_rows(tmp_path / "filled.csv")[0]["time"] == "2024-01-01 00:00:00"
