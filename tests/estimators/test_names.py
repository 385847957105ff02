"""Names of channels and columns go with an estimator: reordered input is put in order, other names are refused."""

import numpy as np
import pandas as pd
import pytest

from nutime.estimators.base import EmbeddedSeries
from nutime.estimators.classifier import NuTimeClassifier

SENSORS = ["vibration", "temperature", "load"]


def recordings(n=12, length=40):
    """Return one frame per machine; a bad bearing shows in the vibration alone."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    scale = np.ones((n, 3, 1))
    scale[y == 1, 0] = 30
    values = rng.normal(size=(n, 3, length)) * scale + np.array([0.0, 300.0, 7.0])[:, None]
    return [pd.DataFrame(series.T, columns=SENSORS) for series in values], np.where(y, "bearing", "ok")


@pytest.fixture
def fitted(encoder):
    X, y = recordings()
    return NuTimeClassifier(encoder=encoder).fit(X, y), X


def test_sensors_in_another_order_change_nothing(fitted):
    classifier, X = fitted
    assert classifier.channel_names_in_.tolist() == SENSORS
    shuffled = [frame[["load", "vibration", "temperature"]] for frame in X]
    np.testing.assert_array_equal(classifier.predict_proba(shuffled), classifier.predict_proba(X))


def test_other_sensors_are_refused_and_the_difference_is_named(fitted):
    classifier, X = fitted
    with pytest.raises(ValueError, match=r"load.*pressure|pressure.*load") as caught:
        classifier.predict([frame.rename(columns={"load": "pressure"}) for frame in X])
    assert "\n" not in str(caught.value)


def test_unnamed_arrays_are_accepted_as_they_are(fitted):
    classifier, X = fitted
    arrays = [frame.to_numpy().T for frame in X]
    np.testing.assert_array_equal(classifier.predict_proba(arrays), classifier.predict_proba(X))


def test_names_are_saved_with_the_model(fitted, tmp_path):
    classifier, X = fitted
    again = NuTimeClassifier.load(classifier.save(tmp_path / "model"))
    assert again.channel_names_in_.tolist() == SENSORS
    shuffled = [frame[SENSORS[::-1]] for frame in X]
    np.testing.assert_array_equal(again.predict_proba(shuffled), classifier.predict_proba(X))


def test_columns_of_a_table_are_put_in_order_too(encoder):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(10, 30)).cumsum(1), columns=[f"point {n}" for n in range(30)])
    classifier = NuTimeClassifier(encoder=encoder).fit(table, np.arange(10) % 2)
    assert classifier.feature_names_in_.tolist() == list(table.columns)
    np.testing.assert_array_equal(
        classifier.predict_proba(table[table.columns[::-1]]), classifier.predict_proba(table)
    )


def test_series_embedded_once_keep_their_names(encoder):
    X, y = recordings()
    embedded = EmbeddedSeries.embed(X, encoder, NuTimeClassifier().pool)
    assert NuTimeClassifier(encoder=encoder).fit(embedded, y).channel_names_in_.tolist() == SENSORS


def test_one_recording_with_a_time_index_is_one_series(encoder):
    X, y = recordings()
    classifier = NuTimeClassifier(encoder=encoder).fit(X, y)
    times = pd.date_range("2026-01-01", periods=len(X[0]), freq="min")
    assert classifier.predict(X[0].set_index(times)).shape == (1,)
