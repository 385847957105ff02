"""The page of a recording in a real browser, and which files are opened there."""

import contextlib
import csv
import dataclasses
import time

import numpy as np
import pytest

from browsing import assert_one_column_on_a_phone, serving, text, watched
from nutime.data.formats.read import holds_recording
from nutime.data.series import SeriesSet

pytest.importorskip("dash", reason="the page needs nutime[explore]")

from nutime import NuTimeScanner, NuTimeSegmenter, find
from nutime.explore.overview import View, overview_figure
from nutime.explore.recording import MATCHES, RecordingAnalysis
from nutime.explore.recording_page import _table, build_recording_app

LENGTH, CHANGE, ODD = 4000, 2000, slice(1000, 1060)
START = np.datetime64("2024-05-01T12:00:00", "us")
REVISION = "document.querySelector('#overview .js-plotly-plot').layout.uirevision"
MARKUP = "<img src=x onerror=alert(1)>"


def recording(names=("x", "y"), dated=True):
    """Return a sine that becomes a saw, and a cosine that is stuck for a minute."""
    points = np.arange(LENGTH)
    x = np.where(points < CHANGE, np.sin(points * 2 * np.pi / 50), (points % 40) / 20 - 1)
    y = 3 * np.cos(points * 2 * np.pi / 50)
    y[ODD] = 8
    values = np.stack([x, y]) + 0.1 * np.random.default_rng(0).normal(size=(2, LENGTH))
    times = [START + points * np.timedelta64(1, "s")] if dated else None
    return SeriesSet([values], channel_names=list(names), times=times)


def analysed(given, name="pump.csv", encoder=None):
    analysis = RecordingAnalysis(name, given, encoder, false_alarm_rate=0.1)
    deadline = time.monotonic() + 60
    while analysis.stage:
        assert time.monotonic() < deadline, analysis.stage
        time.sleep(0.02)
    assert analysis.error == ""
    return analysis


@pytest.fixture(scope="module")
def analysis():
    return analysed(recording(["x", MARKUP]), f"{MARKUP[:4]}b>pump.csv")


@pytest.fixture(scope="module")
def tab(browser, analysis):
    with (
        serving(build_recording_app(analysis)) as address,
        contextlib.closing(browser.new_page()) as tab,
        watched(tab, address),
    ):
        tab.goto(address)
        tab.wait_for_selector("#intervals table")
        tab.wait_for_selector("#overview .js-plotly-plot .main-svg")
        yield tab


@pytest.fixture
def page(tab):
    """Return the page with the whole recording in view."""
    tab.set_viewport_size({"width": 1366, "height": 768})
    tab.click("#table >> text=anomalies")
    revision = tab.evaluate(REVISION)
    tab.click("#whole")
    tab.wait_for_function(f"revision => {REVISION} > revision", arg=revision)
    return tab


def wait_for_view(page, first, last):
    """Wait until the overview shows the points from ``first`` to ``last``."""
    page.wait_for_function(
        """([first, last]) => {
            const axis = document.querySelector("#overview .js-plotly-plot")?._fullLayout?.xaxis;
            return axis && Math.abs(axis.r2l(axis.range[0]) - first) < 1500
                && Math.abs(axis.r2l(axis.range[1]) - last) < 1500;
        }""",
        arg=[milliseconds(first), milliseconds(last)],
    )


def milliseconds(point):
    return float((START - np.datetime64(0, "s")) / np.timedelta64(1, "ms") + 1000 * point)


def place_of(page, point, row=3):
    """Return where on the screen a point is, in the middle of a row of the overview."""
    return page.evaluate(
        """([time, row]) => {
            const plot = document.querySelector("#overview .js-plotly-plot"), box = plot.getBoundingClientRect();
            const {xaxis, [`yaxis${row}`]: yaxis} = plot._fullLayout;
            return [box.left + xaxis._offset + xaxis.l2p(time), box.top + yaxis._offset + yaxis._length / 2];
        }""",
        [milliseconds(point), row],
    )


def wait_for_marks(page, count):
    page.wait_for_function(
        "count => document.querySelector('#overview .js-plotly-plot').layout.shapes.filter("
        "shape => shape.type === 'rect').length === count",
        arg=count,
    )


def exported(page, button):
    with page.expect_download() as download:
        page.click(button)
    with open(download.value.path(), newline="") as file:
        return download.value.suggested_filename, list(csv.DictReader(file))


def test_the_overview_shows_channels_segments_and_scores_along_the_times(page, analysis):
    assert "4,000 points · 2 channels · 2024-05-01 12:00:00 to 2024-05-01 13:06:39" in page.text_content(
        "#summary"
    )
    traces = page.evaluate(
        """() => document.querySelector("#overview .js-plotly-plot")._fullData.map(
            ({type, name, x, y}) => (
                {type, name, first: x[0], highest: Math.max(...y.filter(Number.isFinite))}))"""
    )
    assert [trace["type"] for trace in traces] == ["scatter", "scatter", "heatmap", "scatter", "scatter"]
    assert traces[0]["name"] == "anomaly score"
    assert traces[0]["highest"] == pytest.approx(analysis.scores.max())
    assert traces[3]["highest"] == pytest.approx(analysis.values[0].max())
    assert all(trace["first"].startswith("2024-05-01") for trace in traces)
    assert page.is_hidden("#progress")


def test_names_with_markup_are_shown_as_text(page):
    assert page.text_content("#summary").startswith("<imgb>pump.csv")
    assert "<img src=" in text(page, "#overview", "onerror|ert")
    assert MARKUP in page.text_content("#intervals")
    assert page.locator("img[src=x]").count() == 0


def test_a_click_selects_a_window_and_marks_its_matches(page, analysis):
    page.mouse.click(*place_of(page, 3000))
    text(page, "#match-note", "best first")
    page.wait_for_function("() => document.querySelector('#query').value.startsWith('29')")
    start, end = map(int, page.input_value("#query").split(":"))
    assert start <= 3000 <= end
    assert end - start == analysis.window
    wait_for_marks(page, MATCHES)
    assert page.locator("#matches tbody tr").count() == MATCHES


def test_a_click_on_an_anomaly_selects_it(page, analysis):
    page.mouse.click(*place_of(page, ODD.start + 30))
    odd = next(interval for interval in analysis.intervals if interval.start <= ODD.start < interval.end)
    page.wait_for_function(
        "query => document.querySelector('#query').value === query", arg=f"{odd.start}:{odd.end}"
    )


def test_a_drag_selects_a_stretch_and_its_matches_are_exported(page, analysis):
    left, right = place_of(page, 3000), place_of(page, 3200)
    page.mouse.move(*left)
    page.mouse.down()
    page.mouse.move(*right, steps=4)
    page.mouse.up()
    page.wait_for_function("() => /^(29|30)[0-9]*:3[12]/.test(document.querySelector('#query').value)")
    start, end = map(int, page.input_value("#query").split(":"))
    assert abs(start - 3000) < 10
    assert abs(end - 3200) < 10
    text(page, "#matches tbody", str(START + np.timedelta64(start, "s")).replace("T", " ")[:19])
    name, rows = exported(page, "#export-matches")
    assert name == "<imgb>pump-matches.csv".replace("<", "_").replace(">", "_")
    expected = find(recording(["x", MARKUP]), analysis.values[:, start:end], MATCHES)
    assert [(int(row["start"]), int(row["end"])) for row in rows] == [(m.start, m.end) for m in expected]
    assert [np.datetime64(row["start_time"]) for row in rows] == [m.start_time for m in expected]


def test_a_stretch_can_be_typed_and_compared_by_shape_alone(page, analysis):
    page.fill("#query", "100:160")
    page.keyboard.press("Enter")
    page.click("#scale >> text=shape alone")
    expected = analysis.matches(100, 160, "ignore")[-1]
    text(page, "#matches tbody tr:last-child", f"{expected.distance:.3f}")
    page.click("#scale >> text=shape and scale")


def test_what_is_typed_during_a_search_is_kept_and_searched(page):
    network = page.context.new_cdp_session(page)
    conditions = {"offline": False, "latency": 300, "downloadThroughput": -1, "uploadThroughput": -1}
    network.send("Network.emulateNetworkConditions", conditions)
    page.fill("#query", "now")
    page.keyboard.press("Enter")
    page.fill("#query", "")
    page.type("#query", "700:760", delay=150)
    text(page, "#message", "within 0:4000")
    page.keyboard.press("Enter")
    network.detach()
    text(page, "#message", "^$")
    text(page, "#matches tbody", "2024-05-01 12:11:40")


@pytest.mark.parametrize("query", ["3990:4010", "60:50", "now", "5:7"])
def test_a_stretch_that_cannot_be_searched_is_refused_in_one_line(page, query):
    page.fill("#query", query)
    page.keyboard.press("Enter")
    assert "\n" not in text(page, "#message", "points" if query == "5:7" else "within 0:4000")
    page.fill("#query", "100:160")
    page.keyboard.press("Enter")
    text(page, "#message", "^$")


def test_the_anomalies_are_exported_with_times_and_channel_names(page, analysis):
    name, rows = exported(page, "#export-intervals")
    assert name.endswith("pump-anomalies.csv")
    assert [int(row["start"]) for row in rows] == [interval.start for interval in analysis.intervals]
    odd = max(rows, key=lambda row: float(row["score"]))
    assert odd["channel"] == MARKUP
    assert np.datetime64(odd["end_time"]) == START + np.timedelta64(int(odd["end"]) - 1, "s")


def test_the_segments_are_shown_and_exported(page):
    page.click("#table >> text=segments")
    text(page, "#intervals th:last-child", "state")
    _, rows = exported(page, "#export-intervals")
    expected = NuTimeSegmenter(encoder=None).fit(recording()).segments_
    assert [(int(row["start"]), int(row["end"]), int(row["state"])) for row in rows] == [s[:3] for s in expected]
    assert page.locator("#intervals tbody tr").count() == len(rows)


def test_a_click_on_a_row_zooms_to_its_interval(page, analysis):
    highest = max(analysis.intervals, key=lambda interval: interval.score)
    page.locator("#intervals button").first.click()
    margin = 4 * (highest.end - highest.start)
    wait_for_view(page, max(0, highest.start - margin), min(highest.end + margin, LENGTH) - 1)


def test_the_wheel_zooms_and_more_points_are_drawn_there(page):
    page.mouse.move(*place_of(page, 1030))
    for _ in range(16):
        page.mouse.wheel(0, -300)
    page.wait_for_function(
        """() => {
            const plot = document.querySelector("#overview .js-plotly-plot"), axis = plot._fullLayout.xaxis;
            const [first, last] = axis.range.map(place => axis.r2l(place));
            const drawn = plot._fullData[3].x.filter(x => axis.d2l(x) >= first && axis.d2l(x) <= last).length;
            const points = (last - first) / 1000;
            return points < 2000 && drawn > points - 2;
        }"""
    )


def test_on_a_phone_all_is_in_one_column(page):
    assert_one_column_on_a_phone(page, "#overview", "#intervals", "#matches")


# ---- without a browser --------------------------------------------------------------------------------


def test_a_recording_is_analysed_by_an_encoder_too(encoder):
    analysis = analysed(recording(), encoder=encoder)
    assert analysis.ready == ["segments", "scores"]
    assert len(analysis.scores) == LENGTH


def test_a_long_gap_is_no_anomaly_and_no_match():
    given = recording()
    given.series[0][:, 3000:3600] = np.nan
    analysis = analysed(given)
    expected = NuTimeScanner(encoder=None, false_alarm_rate=0.1)
    np.testing.assert_array_equal(analysis.scores, expected.fit_predict(given))
    assert analysis.intervals == expected.intervals_
    matches = analysis.matches(3200, 3250, "keep")  # a straight line, as filled
    assert not any(match.start >= 3000 and match.end <= 3600 for match in matches)
    assert np.isfinite(analysis.values).all()


@pytest.mark.parametrize(("length", "stretch"), [(50, (34, 50)), (9, (0, 9))])
def test_a_recording_too_short_to_compare_is_reported_and_drawn(length, stretch):
    analysis = RecordingAnalysis("short.csv", SeriesSet([np.arange(float(length))[None]]), None)
    while analysis.stage:
        time.sleep(0.01)
    assert analysis.error == f"short.csv: a recording needs at least 64 points, got {length}"
    assert len(overview_figure(analysis, [0], View(0, length), "select").data) == 1
    assert analysis.stretch_at(length - 1) == stretch


def test_times_in_tables_have_all_their_digits():
    times = np.arange(LENGTH) / 8192
    analysis = analysed(dataclasses.replace(recording(dated=False), times=[times]))
    columns = analysis.columns("matches", analysis.matches(1000, 1060, "keep"))
    assert str(times[1000]) in str(_table(columns, "matches"))


@pytest.mark.parametrize(
    ("times", "place", "point"),
    [
        (None, 7.2, 8),
        ([0.5 * np.arange(LENGTH)], 3.5, 7),
        ([np.arange(LENGTH) * np.timedelta64(250, "ms")], 1.75, 7),
        ([START + np.arange(LENGTH) * np.timedelta64(1, "s")], "2024-05-01 12:00:06.5", 7),
    ],
)
def test_a_place_on_the_axis_is_a_point_of_the_recording(times, place, point):
    analysis = RecordingAnalysis("a.csv", SeriesSet([np.zeros((1, LENGTH))], times=times), None)
    assert analysis.point(place) == point
    assert analysis.point(analysis.axis[0]) == 0


ROWS = "".join(f"{value},{value % 7}\n" for value in range(2000))
NO_RECORDING = "".join(f"x,{value},{value % 7}\n" for value in range(2000))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("points.csv", f"a,b\n{ROWS}", True),
        ("few.csv", f"a,b\n{ROWS[:390]}", False),
        ("labelled.csv", f"label,a,b\n{NO_RECORDING}", False),
        ("timed.csv", "time,x\n" + "".join(f"{value},{value % 7}\n" for value in range(200)), True),
        ("row.csv", ",".join(map(str, range(300))) + "\n", True),
        ("short.csv", ",".join(map(str, range(30))) + "\n", False),
        ("series.ts", "@univariate true\n@classLabel false\n@data\n1,2,3\n4,5,6\n", False),
    ],
)
def test_a_recording_is_distinguished_from_series_by_its_columns(tmp_path, name, content, expected):
    path = tmp_path / name
    path.write_text(content)
    assert holds_recording(path) == expected
