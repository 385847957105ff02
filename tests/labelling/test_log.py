"""Labels on disk: what was confirmed survives, and nothing is applied to other series."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nutime.data.series import is_labelled
from nutime.labelling.log import LabelLog
from waves import refusal

SERIES = [np.arange(4.0)[None] + index for index in range(6)]
EVENTS = st.lists(
    st.one_of(
        st.tuples(
            st.lists(st.integers(0, 5), min_size=1, max_size=3),
            st.none() | st.text(min_size=1, max_size=200).filter(lambda text: is_labelled([text])[0]),
        ),
        st.integers(2, 12),  # the line of an event to undo
    ),
    max_size=12,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "labels.jsonl"


@settings(max_examples=40)
@given(events=EVENTS)
def test_reopening_continues_where_the_last_session_ended(tmp_path_factory, events):
    path = tmp_path_factory.mktemp("log") / "labels.jsonl"
    log = LabelLog(path, SERIES)
    for event in events:
        log.undo(event) if isinstance(event, int) else log.label(*event)
    log.close()
    again = LabelLog(path, SERIES)
    assert list(again.labels.items()) == list(log.labels.items())
    assert again.classes == log.classes
    again.close()


@settings(max_examples=20)
@given(cut=st.integers(2, 30))
def test_a_line_torn_by_a_crash_is_ignored_and_the_next_label_replaces_it(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("log") / "labels.jsonl"
    log = LabelLog(path, SERIES)
    log.label([0], "a")
    log.label([1], "b")
    log.close()
    path.write_bytes(path.read_bytes()[:-cut])
    log = LabelLog(path, SERIES)
    assert log.labels == {0: "a"}
    log.label([2], "c")
    log.close()
    assert LabelLog(path, SERIES).labels == {0: "a", 2: "c"}


def test_a_last_line_whose_end_an_editor_removed_is_kept(path):
    log = LabelLog(path, SERIES)
    log.label([0], "a")
    log.label([1], "b")
    log.close()
    path.write_text(path.read_text().rstrip("\n"))
    LabelLog(path, SERIES).close()
    log = LabelLog(path, SERIES)
    assert log.labels == {0: "a", 1: "b"}
    log.close()
    path.write_text(path.read_text() + '\n{"series": [9], "label": "c"}')
    assert refusal(LabelLog, path, SERIES) == f"{path}:4: there is no series 9"


def test_undo_takes_back_one_event_and_its_class(path):
    log = LabelLog(path, SERIES)
    first = log.label([0], "a")
    log.label([0, 1], "b")
    assert log.undo(first) == [0]
    assert log.undo(first) == []
    assert log.labels == {0: "b", 1: "b"}
    assert log.classes == ["b"]


def test_labels_of_the_input_come_first_and_can_be_changed(path):
    log = LabelLog(path, SERIES, given={3: "z", 4: "a"})
    assert log.classes == ["a", "z"]
    event = log.label([3], None)
    assert log.labels == {4: "a"}
    log.undo(event)
    assert log.labels == {3: "z", 4: "a"}


def test_a_second_process_is_refused(path):
    log = LabelLog(path, SERIES)
    code = "import sys; from nutime.atomic import Journal; Journal(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, path], check=False, capture_output=True, text=True)
    assert "is open in another process; close that one first" in done.stderr.splitlines()[-1]
    log.close()
    subprocess.run([sys.executable, "-c", code, path], check=True)


def test_a_killed_process_loses_no_confirmed_label(path):
    code = (
        "import sys, numpy as np; from nutime.labelling.log import LabelLog\n"
        "log = LabelLog(sys.argv[1], [np.arange(4.0)[None] + index for index in range(6)])\n"
        "for count in range(10**6):\n    log.label([count % 6], str(count)); print(count, flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True) as writer:
        for _ in range(20):
            confirmed = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
    labels = LabelLog(path, SERIES).labels
    assert max(map(int, labels.values())) >= confirmed


def test_labels_of_other_series_are_refused(path):
    LabelLog(path, SERIES).close()
    others = [*SERIES[:-1], SERIES[-1] + 1]
    assert "has the labels of other series" in refusal(LabelLog, path, others)
    assert "has the labels of other series" in refusal(LabelLog, path, SERIES[:-1])


@pytest.mark.parametrize("content", ["label,a,b\nx,1,2\ny,3", '{"wave 1": "slow"}', "1\n2"])
def test_a_file_of_something_else_is_refused_and_left_as_it_is(path, content):
    path.write_text(content)
    assert refusal(LabelLog, path, SERIES) == f"{path}: is not a file of labels; name another one"
    assert path.read_text() == content


@pytest.mark.parametrize(
    ("series", "label"), [([6], "a"), ([-1], "a"), ([0], " "), ([0], "?"), ([0], "NaN"), ([0], "x" * 500)]
)
def test_what_cannot_be_a_label_is_refused_before_it_is_written(path, series, label):
    log = LabelLog(path, SERIES)
    refusal(log.label, series, label)
    assert log.labels == {}
    assert len(path.read_text().splitlines()) == 1


def test_the_file_has_one_line_of_json_per_event(path):
    log = LabelLog(path, SERIES)
    log.undo(log.label([1, 2], " fast \n wave "))
    _, event, undone = map(json.loads, path.read_text().splitlines())
    assert (event, undone) == ({"series": [1, 2], "label": "fast wave"}, {"undo": 2})


NO_EVENTS = ["nonsense", "[]", "[" * 10**5, '{"series": [0]}', '"undo"']
NO_EVENTS += ['{"undo": 2}', '{"undo": 9}']  # of lines that are no events: lines above were removed
NO_EVENTS += ['{"series": [1e999], "label": "a"}', '{"series": [0], "label": 3}']


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        *((line, "is not an event; was the file edited?") for line in NO_EVENTS),
        ('{"series": [9], "label": "a"}', "there is no series 9"),
    ],
)
def test_a_damaged_line_is_refused_with_its_number(path, line, reason):
    LabelLog(path, SERIES).close()
    with path.open("a") as file:
        file.write(line + "\n")
    assert refusal(LabelLog, path, SERIES) == f"{path}:2: {reason}"


def test_a_pipe_is_no_file_of_labels(path):
    os.mkfifo(path)
    assert refusal(LabelLog, path, SERIES) == f"{path}: is not a regular file; name another one"
