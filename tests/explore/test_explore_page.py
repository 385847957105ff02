"""The page in a real browser: what a user sees, drops, clicks and types."""

import contextlib
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest

from browsing import assert_one_column_on_a_phone, open_directly, serving, text, watched
from nutime.access import Access
from nutime.explore.state import Analyses

pytest.importorskip("dash", reason="the page needs nutime[explore]")

from nutime.cli.explore import explore
from nutime.explore import layout
from nutime.explore.page import bind, build_app

CSV = "label,a,b,c,d\n" + "".join(f"{'xy'[row % 2]},{row},{row % 3},{row % 5},1\n" for row in range(12))


@pytest.fixture(scope="module")
def served(encoder):
    """Serve many tests from one address: the browser caches by address."""
    analyses = Analyses(encoder)
    with serving(build_app(analyses)) as address:
        yield analyses, address
    analyses.close()


@pytest.fixture(scope="module")
def tab(browser):
    return browser.new_page()


@pytest.fixture
def analyses(served):
    """Return the analyses of the server, without any."""
    analyses, _ = served
    yield analyses
    analyses.close()
    analyses.first = None


@pytest.fixture
def page(tab, analyses, served):
    """Return a tab with the page, without data."""
    with watched(tab, served[1]):
        tab.goto(served[1])
        tab.wait_for_selector("#upload input", state="attached")
        tab.wait_for_load_state("networkidle")
        yield tab
        tab.goto("about:blank")


@pytest.fixture(scope="module")
def waves_tab(browser, served, make_waves, finished):
    """Return a tab that shows waves, and what it shows; it is loaded once."""
    analyses, address = served
    analysis = finished(analyses.open_first(make_waves()))
    tab = browser.new_page()
    tab.goto(address)
    wait_for_map(tab)
    return tab, analysis


@pytest.fixture
def waves(waves_tab, analyses):
    """Return the analysis of the waves, shown to new visitors again."""
    analyses.first = waves_tab[1]
    yield analyses.first
    analyses.first = None


@pytest.fixture
def waves_page(waves_tab, waves, served):
    """Return the tab that shows waves, as it is when it has just been opened."""
    tab, _ = waves_tab
    with watched(tab, served[1]):
        choices = ["#kind >> text=PCA", "#colour >> text=label", "#shading >> text=contribution"]
        if tab.text_content("#selection"):  # another lasso would move its outline
            tab.locator("#map .nsewdrag").first.dblclick(position={"x": 5, "y": 5})
            tab.wait_for_function("() => document.querySelector('#selection').textContent === ''")
        for choice in (*choices, "#drag >> text=moves"):
            tab.click(choice)
        tab.fill("#number", "0")
        text(tab, "#facts", "wave 0 ")
        wait_for_map(tab)
        yield tab


def wait_for_map(page):
    page.wait_for_selector(".rings .chosen")
    page.wait_for_selector("#neighbours img")


def place_of(page, index):
    """Return where on the screen the point of a series lies."""
    return page.evaluate(
        """index => {
            const plot = document.querySelector("#map .js-plotly-plot"), box = plot.getBoundingClientRect();
            const {xaxis, yaxis} = plot._fullLayout;
            const trace = plot._fullData.find(trace => trace.customdata?.includes(index));
            const point = trace.customdata.indexOf(index);
            return [box.left + xaxis._offset + xaxis.l2p(trace.x[point]),
                    box.top + yaxis._offset + yaxis.l2p(trace.y[point])];
        }""",
        index,
    )


def click_on_point(page, index):
    """Click on the point of a series until the page shows it: a map that is being redrawn may miss the pointer."""
    hovered = """index => {
        const {_hoverdata} = document.querySelector("#map .js-plotly-plot");
        return Boolean(_hoverdata?.some(point => point.customdata === index));
    }"""
    for attempt in range(100):
        if page.input_value("#number") == str(index):
            return
        x, y = place_of(page, index)
        page.mouse.move(x + attempt % 2, y)
        page.wait_for_timeout(100)
        if page.evaluate(hovered, index):
            page.mouse.click(x, y)
            page.wait_for_timeout(500)
    pytest.fail(f"the map does not know point {index}")


def wait_for_ring(page, index):
    """Wait until the bold ring lies around the point of a series."""
    page.wait_for_function(
        "([x, y]) => { const ring = document.querySelector('.rings .chosen').getBoundingClientRect();"
        "return Math.hypot(ring.x + ring.width / 2 - x, ring.y + ring.height / 2 - y) < 2 }",
        arg=place_of(page, index),
    )


def upload(page, name, content):
    page.set_input_files("#upload input", [{"name": name, "mimeType": "text/csv", "buffer": content}])


def test_without_data_the_page_asks_for_some(page):
    assert page.is_visible("#bundled")
    assert not page.is_visible("main")


def test_the_data_of_the_command_line_is_shown(waves_page):
    assert text(waves_page, "#summary", "waves") == "waves.csv 30 series · length 40 · 2 classes"
    assert waves_page.text_content("#facts").startswith("wave 0 · label slow · cluster ")
    assert waves_page.locator("#map .scatterlayer .point").count() == 30
    assert waves_page.is_hidden("#progress")


def test_a_dropped_file_is_shown(page):
    page.evaluate(
        """content => {
            const files = new DataTransfer();
            files.items.add(new File([content], "dropped.csv"));
            document.querySelector("#upload button")
                .dispatchEvent(new DragEvent("drop", {dataTransfer: files, bubbles: true, cancelable: true}));
        }""",
        CSV,
    )
    assert text(page, "#summary", "dropped") == "dropped.csv 12 series · length 4 · 2 classes"
    wait_for_map(page)


def test_a_chosen_npz_file_is_shown(page):
    buffer = io.BytesIO()
    np.savez(buffer, X=np.random.default_rng(0).normal(size=(5, 3, 20)))
    upload(page, "mine.npz", buffer.getvalue())
    assert text(page, "#summary", "mine") == "mine.npz 5 series · length 20 · 3 channels"
    wait_for_map(page)
    page.click("#channel")
    page.get_by_text("channel 2").click()
    text(page, "#channel", "channel 2")


def test_a_bundled_set_is_opened_from_the_list(page):
    pytest.importorskip("aeon")
    page.click("#bundled")
    page.get_by_text("GunPoint").click()
    text(page, "#summary", "GunPoint 200 series")


def test_a_bad_file_is_reported_in_one_line_and_the_open_one_stays(page):
    upload(page, "good.csv", CSV.encode())
    text(page, "#summary", "good.csv")
    upload(page, "bad.csv", b"label,a,b\nx,1,2\ny,1,oops\n")
    message = text(page, "#message", "bad.csv")
    assert message.startswith("bad.csv:3: ")
    assert "\n" not in message
    assert page.text_content("#summary").startswith("good.csv")


def test_the_message_on_a_bad_file_goes_with_the_next_good_one(page):
    upload(page, "bad.csv", b"label,a,b\nx,1,2\ny,1,oops\n")
    text(page, "#message", "bad.csv")
    upload(page, "good.csv", CSV.encode())
    text(page, "#summary", "good.csv")
    assert page.text_content("#message") == ""


def test_a_file_too_large_for_the_page_is_refused_with_advice(page, tmp_path):
    with open(tmp_path / "large.csv", "wb") as file:
        file.truncate(layout.UPLOAD_BYTES + 1)
    page.set_input_files("#upload input", tmp_path / "large.csv")
    assert text(page, "#message", "large").endswith("open it with: nutime explore large.csv")


def test_several_files_at_once_are_refused(page):
    files = [{"name": name, "mimeType": "text/csv", "buffer": CSV.encode()} for name in ("a.csv", "b.csv")]
    page.set_input_files("#upload input", files)
    assert text(page, "#message", "dropped") == "2 files were dropped; the page shows one at a time"


def test_a_click_on_a_point_shows_its_series_and_neighbours(waves_page, waves):
    click_on_point(waves_page, 17)
    text(waves_page, "#facts", "wave 17 ")
    assert waves_page.input_value("#number") == "17"
    expected = [
        f"wave {series}{waves.collection.labels[series]}{distance:.2f}"
        for series, distance in waves.neighbours(17, layout.NEIGHBOURS)
    ]
    assert waves_page.locator("#neighbours button").all_text_contents() == expected
    wait_for_ring(waves_page, 17)


def test_the_rings_move_with_the_map(waves_page):
    x, y = place_of(waves_page, 0)
    waves_page.mouse.move(x, y + 30)
    waves_page.mouse.down()
    waves_page.mouse.move(x + 40, y + 80, steps=3)
    waves_page.mouse.up()
    wait_for_ring(waves_page, 0)
    moved = place_of(waves_page, 0)
    assert moved == pytest.approx([x + 40, y + 50], abs=2)


def test_the_same_point_can_be_clicked_again(waves_page):
    click_on_point(waves_page, 17)
    text(waves_page, "#facts", "wave 17 ")
    waves_page.fill("#number", "4")
    text(waves_page, "#facts", "wave 4 ")
    click_on_point(waves_page, 17)
    text(waves_page, "#facts", "wave 17 ")


def test_a_neighbour_is_chosen_with_the_keyboard(waves_page, waves):
    nearest = waves.neighbours(0, 1)[0].series
    waves_page.focus("#neighbours button")
    waves_page.keyboard.press("Enter")
    text(waves_page, "#facts", f"wave {nearest} ")


def test_buttons_show_the_previous_and_the_next_series(waves_page):
    waves_page.click("#next")
    text(waves_page, "#facts", "wave 1 ")
    waves_page.click("#previous")
    text(waves_page, "#facts", "wave 0 ")


@pytest.mark.parametrize("number", ["30", "-1", "2.5", "x", ""])
def test_an_invalid_series_number_changes_nothing(waves_page, number):
    waves_page.fill("#number", number)
    waves_page.wait_for_timeout(150)
    assert waves_page.text_content("#facts").startswith("wave 0 ")


def test_a_series_is_shown_by_its_id(waves_page):
    waves_page.fill("#number", "wave 12")
    text(waves_page, "#facts", "wave 12 ")


def test_an_id_is_typed_also_if_it_begins_like_another(waves_page):
    waves_page.fill("#number", "")
    waves_page.locator("#number").press_sequentially("wave 12", delay=150)
    text(waves_page, "#facts", "wave 12 ")
    assert waves_page.input_value("#number") == "wave 12"


def test_the_map_names_the_series_under_the_pointer(waves_page):
    click_on_point(waves_page, 17)
    assert "wave 17" in text(waves_page, "#map .hoverlayer", "wave")


def lasso(page):
    """Draw a loop around the right half of the map; return the series in it."""
    page.click("#drag >> text=selects")
    wait_for_lasso(page)
    box = page.locator("#map .nsewdrag").first.bounding_box()
    middle, right = box["x"] + box["width"] / 2, box["x"] + box["width"] - 3
    top, bottom = box["y"] + 3, box["y"] + box["height"] - 3
    places = [place_of(page, index) for index in range(30)]
    inside = [index for index, (x, y) in enumerate(places) if middle < x < right and top < y < bottom]
    page.mouse.move(middle, top)
    page.mouse.down()
    for corner in [(right, top), (right, bottom), (middle, bottom), (middle, top + 1)]:
        page.mouse.move(*corner, steps=5)
    page.mouse.up()
    return inside


def wait_for_lasso(page):
    page.wait_for_function("() => document.querySelector('#map .js-plotly-plot')._fullLayout.dragmode === 'lasso'")


def test_series_are_selected_on_the_map_and_exported(waves_page, waves):
    inside = lasso(waves_page)
    assert 1 < len(inside) < 30
    note = text(waves_page, "#selection", "selected")
    assert note.startswith(f"{len(inside)} selected: wave {inside[0]}, wave {inside[1]}")
    with waves_page.expect_download() as download:
        waves_page.click("#export")
    assert download.value.suggested_filename == "waves-selected.csv"
    with open(download.value.path(), newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [f"wave {index}" for index in inside]
    assert [int(row["series"]) for row in rows] == inside
    assert [row["label"] for row in rows] == waves.collection.labels[inside].tolist()
    assert [row["prediction"] for row in rows] == waves.predictions[inside].tolist()
    assert [float(row["anomaly_score"]) for row in rows] == waves.scores[inside].tolist()
    assert [int(row["cluster"]) for row in rows] == (waves.clusters[inside] + 1).tolist()


def test_a_selection_is_kept_in_other_colours(waves_page):
    inside = lasso(waves_page)
    text(waves_page, "#selection", f"^{len(inside)} selected")
    waves_page.click("#colour >> text=anomaly")
    waves_page.wait_for_selector("#map >> text=anomaly score")
    emphasised = waves_page.evaluate(
        """() => {
            const [trace] = document.querySelector("#map .js-plotly-plot")._fullData;
            return Array.from(trace.selectedpoints, point => trace.customdata[point]);
        }"""
    )
    assert sorted(emphasised) == inside


def test_a_selection_ends_with_the_data_set(page):
    upload(page, "first.csv", CSV.encode())
    wait_for_map(page)
    page.evaluate("() => dash_clientside.set_props('map', {selectedData: {points: [{customdata: 3}]}})")
    text(page, "#selection", "1 selected: series 3")
    upload(page, "second.csv", CSV.encode())
    text(page, "#summary", "second.csv")
    page.wait_for_function("() => document.querySelector('#selection').textContent === ''")
    assert page.is_hidden("#export")


def test_a_recording_is_refused_with_the_command_that_opens_it(page):
    upload(page, "pump.csv", ("a,b\n" + "1,2\n" * 2000).encode())
    expected = "pump.csv: is one recording; open it with: nutime explore pump.csv"
    assert text(page, "#message", "pump") == expected


def test_the_axis_of_a_series_has_its_times(page):
    days = range(1, 10)
    rows = "".join(f"{name},2024-05-0{day},{day * n}\n" for n, name in enumerate("abc") for day in days)
    upload(page, "days.csv", f"id,date,value\n{rows}".encode())
    text(page, "#facts", "^a")
    text(page, "#series .infolayer", "time")
    text(page, "#series .xaxislayer-above", "May")


def test_on_a_phone_all_is_in_one_column(waves_page):
    assert_one_column_on_a_phone(waves_page, "#map", "#series", "#neighbours")
    waves_page.set_viewport_size({"width": 1366, "height": 768})
    wait_for_map(waves_page)


def shading(page):
    """Return the values by which the series is shaded."""
    return page.evaluate(
        "() => Array.from(document.querySelector('#series .js-plotly-plot')._fullData"
        ".find(trace => trace.type === 'heatmap').z[0])"
    )


def test_the_series_is_shaded_by_the_contribution_of_its_points_to_its_class(waves_page, waves):
    text(waves_page, "#series-note", "contributes to class slow")
    waves_page.wait_for_selector("#series >> text=contribution")
    values = waves.contribution(0).values[0]
    expected = values[np.flatnonzero(np.diff(values, prepend=np.nan))]
    np.testing.assert_allclose(shading(waves_page), expected, rtol=1e-4)


def test_the_series_can_be_shaded_by_attention_instead(waves_page, waves):
    waves_page.click("#shading >> text=attention")
    assert text(waves_page, "#series-note", "attention").endswith("It does not explain a prediction.")
    waves_page.wait_for_selector("#series >> text=attention")
    np.testing.assert_allclose(shading(waves_page), 100 * waves.attention(0, channel=0), rtol=1e-4)


@pytest.mark.parametrize(("colour", "words"), [("cluster", "cluster 1"), ("anomaly", "anomaly score")])
def test_the_map_can_be_coloured_by_cluster_or_anomaly_score(waves_page, colour, words):
    waves_page.click(f"#colour >> text={colour}")
    waves_page.wait_for_selector(f"#map >> text={words}")
    wait_for_map(waves_page)


def test_a_tsne_map_is_drawn_on_request(waves_page):
    before = place_of(waves_page, 3)
    waves_page.click("#kind >> text=t-SNE")
    waves_page.wait_for_function(
        "() => document.querySelector('#map .js-plotly-plot').layout.uirevision.endsWith('tsne')"
    )
    wait_for_map(waves_page)
    assert place_of(waves_page, 3) != before


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
def test_page_and_pictures_follow_the_colour_scheme(waves_page, scheme, is_dark):
    waves_page.emulate_media(color_scheme=scheme)
    colour = "(selector, property) => getComputedStyle(document.querySelector(selector))[property]"
    card = waves_page.evaluate(f"() => ({colour})('section.map', 'backgroundColor')")
    ink = waves_page.evaluate(f"() => ({colour})('#series .xtick text', 'fill')")
    brightness = [sum(map(int, re.findall(r"\d+", value)[:3])) / 3 for value in (card, ink)]
    assert (brightness[0] < brightness[1]) == is_dark
    assert abs(brightness[0] - brightness[1]) > 120


def test_every_control_is_reached_with_the_tab_key(waves_page):
    seen = set()
    for _ in range(40):
        waves_page.keyboard.press("Tab")
        seen.add(waves_page.evaluate("() => document.activeElement.closest('[id]')?.id ?? ''"))
    assert {"upload", "bundled", "kind", "colour", "number"} <= {name.split("-")[0] for name in seen}, seen
    assert any("neighbour" in name for name in seen)


def test_the_file_dialog_opens_with_the_keyboard(page):
    with page.expect_file_chooser():
        page.locator("#upload button").press("Enter")


def test_progress_is_shown_while_the_series_are_embedded(page, analyses, make_waves):
    analyses.open_first(make_waves(60_000))
    page.reload()
    assert re.fullmatch(r"Embedding [\d,]+ of 60,000", text(page, "#stage", "Embedding"))
    assert page.is_visible("progress")
    text(page, "#facts", "wave 0 ")  # the series themselves need no embedding


def test_a_tab_with_closed_data_says_so(page, analyses):
    upload(page, "mine.csv", CSV.encode())
    wait_for_map(page)
    for key in list(analyses._open):
        analyses._open.pop(key).cancel()
    page.fill("#number", "3")
    assert text(page, "#trouble", "open") == "This data set is no longer open; open it again."


def test_every_visitor_has_a_data_set_of_their_own(page, browser, served):
    with contextlib.closing(browser.new_page()) as other:
        other.goto(served[1])
        other.wait_for_selector("#upload input", state="attached")
        upload(page, "mine.csv", CSV.encode())
        upload(other, "theirs.csv", CSV.encode())
        text(page, "#summary", "mine.csv")
        text(other, "#summary", "theirs.csv")
        for tab in (page, other):
            wait_for_map(tab)
            tab.click("#next")
            assert text(tab, "#facts", "label y")
        assert page.text_content("#trouble") == other.text_content("#trouble") == ""


def test_markup_in_names_and_labels_is_shown_as_text(page):
    bad = "<img src=x onerror=alert(1)>"
    rows = "".join(f'"{bad}{row}","{bad}{row % 2}",{row},{row % 3},{row % 5}\n' for row in range(8))
    upload(page, "mine.csv", f"id,label,a,b,c\n{rows}".encode())
    wait_for_map(page)
    assert bad in text(page, "#facts", "img")
    assert page.locator("img[src=x]").count() == 0


def request_set(address, name):
    """Send what the list of bundled sets sends, with any name; return the response."""
    outputs = ["key.data", "message.children", "upload.contents", "bundled.value"]
    body = {
        "output": f"..{'...'.join(outputs)}..",
        "outputs": [dict(zip(("id", "property"), output.split("."), strict=True)) for output in outputs],
        "inputs": [
            {"id": "upload", "property": "contents"},
            {"id": "bundled", "property": "value", "value": name},
        ],
        "changedPropIds": ["bundled.value"],
        "state": [{"id": "upload", "property": "filename"}, {"id": "key", "property": "data"}],
    }
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{address}/_dash-update-component", json.dumps(body).encode(), headers)
    with open_directly(request) as response:
        return json.load(response)["response"]


@pytest.mark.parametrize("kind", ["file", "download"])
def test_only_bundled_sets_are_opened_by_name(served, tmp_path, monkeypatch, kind):
    def download(*arguments):
        raise AssertionError("a name must not start a download")

    monkeypatch.setattr("nutime.data.archives._download", download)
    (tmp_path / "secret.csv").write_text(CSV)
    response = request_set(served[1], str(tmp_path / "secret.csv") if kind == "file" else "Adiac")
    assert response["message"]["children"] == "this is not the name of a bundled set"
    assert "key" not in response


def test_a_rebound_host_name_is_refused(served):
    _, address = served
    request = urllib.request.Request(address, headers={"Host": "elsewhere.example"})
    with pytest.raises(urllib.error.HTTPError) as caught:
        open_directly(request)
    assert caught.value.code == 400


def test_a_page_of_another_origin_is_refused(served):
    request = urllib.request.Request(served[1], headers={"Origin": "http://elsewhere.example"})
    with pytest.raises(urllib.error.HTTPError) as caught:
        open_directly(request)
    assert caught.value.code == 403


def test_a_token_in_the_address_becomes_a_cookie(encoder):
    access = Access.to("127.0.0.1", token="secret")
    cookies = urllib.request.HTTPCookieProcessor()
    with serving(build_app(Analyses(encoder)), access=access) as address:
        for wrong in (address, f"{address}/?token=wrong"):
            with pytest.raises(urllib.error.HTTPError) as caught:
                open_directly(wrong)
            assert caught.value.code == 401
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies).open
        with opener(f"{address}/?token=secret") as response:
            assert "token" not in response.url
            assert b"nutime explore" in response.read()
        assert opener(f"{address}/_dash-layout").status == 200


def test_a_port_in_use_is_reported_in_one_line(served):
    analyses, address = served
    port = int(address.rpartition(":")[2])
    with pytest.raises(ValueError, match=rf"^cannot listen on 127\.0\.0\.1, port {port}: .*; try another --port$"):
        bind(build_app(analyses), "127.0.0.1", port)


@pytest.mark.slow
def test_the_command_serves_until_it_is_interrupted(tmp_path, encoder):
    (tmp_path / "mine.csv").write_text(CSV)
    arguments = ["mine.csv", "--port", "0", "--no-browser", "--weights", encoder.save(tmp_path / "encoder")]
    command = [sys.executable, "-c", "import typer; from nutime.cli.explore import explore; typer.run(explore)"]
    with subprocess.Popen(
        [*command, *map(str, arguments)], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as server:
        address = server.stdout.readline().split()[0]
        assert b"nutime explore" in open_directly(address).read()
        os.kill(server.pid, signal.SIGINT)
        assert server.wait(20) == 0


def test_the_command_refuses_missing_data():
    with pytest.raises(ValueError, match=r"nowhere\.csv"):
        explore(data="nowhere.csv", port=0, host="127.0.0.1", weights="nutime-base", no_browser=True)
