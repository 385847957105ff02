"""A labelling session: what is known after each label."""

import csv

import numpy as np
import pytest

import nutime
from nutime.data.series import SeriesSet
from nutime.estimators.base import EmbeddedSeries
from nutime.labelling.log import LabelLog
from nutime.labelling.session import Session
from waves import refusal, waves

NAMES = np.array(["slow", "fast"])


@pytest.fixture
def new_session(encoder, tmp_path):
    """Return a function that opens a session about 60 waves, and their true labels."""
    series, y = waves(60)
    source = SeriesSet(series, ids=[f"wave {index}" for index in range(60)])
    embedded = EmbeddedSeries.embed(source, encoder, "upper")
    logs = []

    def open_session():
        for log in logs:
            log.close()
        logs.append(LabelLog(tmp_path / "waves.labels.jsonl", embedded.series))
        return Session(embedded, logs[-1]), NAMES[y]

    return open_session


def label_suggestions(session, truth, count):
    for _ in range(count):
        series = session.state.suggestions[0]
        session.label([series], truth[series])


def test_a_session_begins_with_suggestions_alone(new_session):
    session, _ = new_session()
    assert session.state.suggestions
    assert session.state.predicted is None
    assert session.state.estimate is None
    assert "two classes" in refusal(session.classifier)


def test_few_labels_of_suggested_series_predict_the_others(new_session):
    session, truth = new_session()
    label_suggestions(session, truth, 12)
    state = session.state
    assert (state.predicted == truth).mean() > 0.95
    assert state.estimate.low <= state.estimate.accuracy <= state.estimate.high
    assert not set(state.labels) & set(state.suggestions)


def test_reopening_restores_labels_predictions_and_the_history(new_session):
    session, truth = new_session()
    label_suggestions(session, truth, 12)
    before = session.state
    session, _ = new_session()
    assert session.state.labels == before.labels
    np.testing.assert_array_equal(session.state.predicted, before.predicted)
    assert session.state.estimate == before.estimate
    assert set(session.state.history) <= set(before.history)


def test_undo_restores_the_state_before(new_session):
    session, truth = new_session()
    label_suggestions(session, truth, 8)
    before = session.state
    event = session.label([before.suggestions[0]], "another")
    assert session.undo(event) == [before.suggestions[0]]
    assert session.state.labels == before.labels
    np.testing.assert_array_equal(session.state.predicted, before.predicted)
    assert max(session.state.history) == 8


def test_a_wrong_label_is_among_the_likely_mistakes(new_session):
    session, truth = new_session()
    session.label(np.flatnonzero(truth == "slow")[:20].tolist(), "slow")
    session.label(np.flatnonzero(truth == "fast")[:20].tolist(), "fast")
    session.label([0], "fast")
    assert [mistake.series for mistake in session.state.mistakes] == [0]
    assert session.state.mistakes[0].predicted == "slow"


def test_a_cluster_has_the_series_and_unlabelled_ones_of_its_kind(new_session):
    session, truth = new_session()
    members = session.cluster_of(0)
    assert 0 in members
    session.label(members, "slow")
    assert session.cluster_of(0) == [0]
    assert (truth[members] == "slow").mean() > 0.8


def test_more_labels_are_not_asked_for_when_they_change_nothing(new_session):
    session, truth = new_session()
    label_suggestions(session, truth, 6)
    assert not session.state.stable
    label_suggestions(session, truth, 30)
    assert session.state.stable


@pytest.mark.parametrize("name", ["series.jsonl", "labels.csv", "labels.model", "other.jsonl"])
def test_an_export_that_would_replace_the_series_or_the_log_is_refused_from_the_start(tmp_path, name):
    data = tmp_path / "series.csv"
    data.write_text("t0,t1\n1,2\n")
    (tmp_path / "other.model").write_text("of another program")
    embedded = EmbeddedSeries.embed(np.eye(4, 40), "nutime-small", "auto")
    with pytest.raises(ValueError, match="export"):
        Session(embedded, LabelLog(tmp_path / name, embedded.series))
    assert data.read_text() == "t0,t1\n1,2\n"


def test_labels_and_a_model_are_exported(new_session):
    session, truth = new_session()
    label_suggestions(session, truth, 12)
    labels, folder = session.export()
    with labels.open() as file:
        rows = list(csv.DictReader(file))
    assert {int(row["series"]): row["label"] for row in rows} == session.state.labels
    assert rows[0]["id"] == f"wave {rows[0]['series']}"
    classifier = nutime.NuTimeClassifier.load(folder)
    assert (classifier.predict(session.embedded.series) == truth).mean() > 0.95
