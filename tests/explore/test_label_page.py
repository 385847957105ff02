"""The labelling page in a real browser: keys, visitors, a crash, and the exported model."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

from browsing import serving, text, watched

pytest.importorskip("dash", reason="the page needs nutime[explore]")

import nutime
from nutime.data.series import SeriesSet
from nutime.estimators.base import EmbeddedSeries
from nutime.explore.labelling import build_label_app
from nutime.labelling.log import LabelLog
from nutime.labelling.session import Session

KEYS = {"slow": "1", "fast": "2"}


@contextlib.contextmanager
def command(folder, encoder):
    """Run ``nutime label`` on the waves in a folder; yield the process and the address of the page."""
    arguments = ["label", "waves.csv", "--port", "0", "--no-browser", "--weights", str(encoder)]
    run = [sys.executable, "-m", "nutime", *arguments]
    with subprocess.Popen(run, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        yield server, server.stdout.readline().split()[0]
        server.kill()


@pytest.fixture(scope="module")
def port():
    """Return a port for all tests: the browser caches by address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@pytest.fixture
def served(request, encoder, make_waves, tmp_path, port):
    """Serve a session about waves in this process; return the session, the true labels and the address."""
    collection = make_waves(60, channels=getattr(request, "param", 1))
    embedded = EmbeddedSeries.embed(SeriesSet(collection.series, ids=collection.ids), encoder, "upper")
    session = Session(embedded, LabelLog(tmp_path / "waves.labels.jsonl", embedded.series))
    with serving(build_label_app(session, "waves.csv"), port) as address:
        yield session, collection.labels, address
    session.log.close()


@pytest.fixture
def visit(browser, served):
    """Return a function that opens the page in a new tab, as another visitor."""
    with contextlib.ExitStack() as stack:

        def open_tab():
            tab = browser.new_page()
            stack.callback(tab.close)
            stack.enter_context(watched(tab, served[2]))
            tab.goto(served[2])
            shown(tab)
            return tab

        yield open_tab


def shown(tab):
    """Return the index of the selected series, once there is one and the page accepts keys."""
    tab.wait_for_selector("#shown[data-series]", state="attached")
    tab.wait_for_selector("body:not(.pending)")
    return int(tab.get_attribute("#shown", "data-series"))


def labelled(tab, count):
    """Wait until the page counts that many labels and accepts keys."""
    text(tab, "#estimate", f"^{count} of ")
    tab.wait_for_selector("body:not(.pending)")


def label_by_keyboard(tab, truth, count, before=0):
    """Label what the page shows; a class that has no key yet is typed. Return the labels by series."""
    labels = {}
    for done in range(before + 1, before + count + 1):
        series = shown(tab)
        label = labels[series] = str(truth[series])
        if tab.locator(f'#classes [data-label="{label}"]').count():
            tab.keyboard.press(tab.get_attribute(f'#classes [data-label="{label}"]', "data-key"))
        else:
            tab.keyboard.type(label)
            tab.keyboard.press("Enter")
        labelled(tab, done)
    return labels


@pytest.mark.slow
def test_twenty_labels_survive_a_killed_process_and_the_exported_model_predicts(
    browser, encoder, make_waves, tmp_path
):
    waves = make_waves(60)
    table = np.stack([values[0] for values in waves.series])
    np.savetxt(tmp_path / "waves.csv", table, delimiter=",", header=",".join(map(str, range(40))), comments="")
    folder = encoder.save(tmp_path / "encoder")
    with command(tmp_path, folder) as (server, address):
        tab = browser.new_page()
        tab.goto(address)
        labels = label_by_keyboard(tab, waves.labels, 20)
        os.kill(server.pid, signal.SIGKILL)
        tab.close()
    assert len(labels) == 20
    with command(tmp_path, folder) as (_, address):
        tab = browser.new_page()
        with watched(tab, address):
            tab.goto(address)
            labelled(tab, 20)
            labels |= label_by_keyboard(tab, waves.labels, 1, before=20)
            tab.click("text=Export")
            text(tab, "#note", "^Written: ")
        tab.close()
    events = [json.loads(line) for line in (tmp_path / "waves.csv.labels.jsonl").read_text().splitlines()[1:]]
    assert {event["series"][0]: event["label"] for event in events} == labels
    exported = np.loadtxt(tmp_path / "waves.csv.labels.csv", delimiter=",", skiprows=1, dtype=str)
    assert {int(series): label for series, label in exported} == labels
    classifier = nutime.NuTimeClassifier.load(tmp_path / "waves.csv.labels.model")
    assert (classifier.predict(table) == waves.labels).mean() > 0.95


def test_two_visitors_share_labels_but_neither_selection_nor_undo(visit, served):
    _, truth, _ = served
    one, other = visit(), visit()
    (series,) = label_by_keyboard(one, truth, 1)
    labelled(other, 1)
    assert shown(other) == series  # what one visitor labels does not move the other's selection
    assert shown(one) != series
    other.keyboard.press("Control+z")
    text(other, "#note", "no label of yours")
    labelled(one, 1)
    one.keyboard.press("Control+z")
    labelled(one, 0)
    labelled(other, 0)


def test_undo_shows_the_series_again_also_after_a_reload(visit, served):
    tab = visit()
    series = list(label_by_keyboard(tab, served[1], 3))
    tab.reload()
    shown(tab)
    tab.keyboard.press("Control+z")
    labelled(tab, 2)
    assert shown(tab) == series[-1]


def test_undo_by_keys_leaves_the_keys_to_the_page_after_a_class_was_typed(visit, served):
    tab = visit()
    (series,) = label_by_keyboard(tab, served[1], 1)
    tab.keyboard.press("Control+z")
    labelled(tab, 0)
    assert shown(tab) == series
    tab.keyboard.type("-1")
    tab.keyboard.press("Enter")
    labelled(tab, 1)
    assert served[0].state.labels == {series: "-1"}


def test_keys_mean_the_same_after_the_mouse_was_used(visit, served):
    tab = visit()
    label_by_keyboard(tab, served[1], 3)
    tab.click("text=Undo")
    labelled(tab, 2)
    series = shown(tab)
    tab.keyboard.press("Space")
    tab.wait_for_function(f"() => document.getElementById('shown').dataset.series !== '{series}'")
    labelled(tab, 2)
    tab.click("#colour >> text=prediction")
    tab.keyboard.press("1")
    labelled(tab, 3)


@pytest.mark.parametrize("served", [2], indirect=True)
def test_keys_label_after_a_channel_was_chosen(visit, served):
    tab = visit()
    label_by_keyboard(tab, served[1], 1)
    tab.click("#channel")
    tab.click(".dash-dropdown-options >> text=channel 1")
    text(tab, "#channel", "channel 1")
    for count in (2, 3):
        shown(tab)
        tab.keyboard.press("1")
        labelled(tab, count)


def test_a_class_named_by_a_digit_has_its_key(visit, served):
    served[0].label([0], "0")
    served[0].label([1], "1")
    tab = visit()
    series = shown(tab)
    tab.keyboard.press("1")
    labelled(tab, 3)
    assert served[0].state.labels[series] == "1"


def test_shift_and_a_key_label_all_similar_series(visit, served):
    session, truth, _ = served
    tab = visit()
    label_by_keyboard(tab, truth, 1)
    members = session.cluster_of(shown(tab))
    tab.keyboard.press("Shift+Digit1")
    labelled(tab, 1 + len(members))
    assert set(members) <= set(session.state.labels)


def test_space_skips_a_suggestion(visit):
    tab = visit()
    first = shown(tab)
    tab.keyboard.press("Space")
    tab.wait_for_function(f"() => document.getElementById('shown').dataset.series !== '{first}'")


def test_a_likely_mistake_is_listed_and_shown_by_a_click(visit, served):
    session, truth, _ = served
    for name in KEYS:
        session.label(np.flatnonzero(truth == name)[:20].tolist(), name)
    session.label([0], "fast")
    tab = visit()
    tab.click('#lists [data-show="0"]')
    text(tab, "#shown", "^Series 0$")
    text(tab, "#facts", "label fast · predicted")
    tab.keyboard.press("0")
    labelled(tab, 39)
    assert 0 not in session.state.labels


@pytest.mark.slow
def test_the_map_and_the_history_are_drawn(visit, served):
    tab = visit()
    label_by_keyboard(tab, served[1], 6)
    tab.wait_for_selector("#history .scatterlayer .point")
    assert tab.locator("#map .scatterlayer .point").count() == 60
    tab.click("#colour >> text=prediction")
    tab.wait_for_function(
        "() => document.querySelector('#map .js-plotly-plot')._fullData.every((trace, index) =>"
        " Boolean(trace.x.length) === (index > 0))"  # no series is without a class
    )
