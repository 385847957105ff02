"""Estimators read series as fit has chosen by their length; short events in long series are visible."""

import logging

import numpy as np
import pytest
from sklearn.base import clone

from nutime.encoder import NuTime
from nutime.estimators import storage
from nutime.estimators.base import EmbeddedSeries
from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.embedder import NuTimeEmbedder
from nutime.model.reading import Reading
from waves import assert_same_outputs, outputs, refusal, wave_table, waves

OWN = 32  # points that the tiny encoder reads


@pytest.fixture(scope="module")
def base():
    return NuTime.from_pretrained("nutime-base")


def relative_change(embedder, series, changed):
    one, other = embedder.transform([series, changed])
    return np.linalg.norm(one - other) / np.linalg.norm(one)


def noise(points, seed=0):
    return np.random.default_rng(seed).standard_normal(points).astype(np.float32)


def test_a_burst_in_ten_thousand_points_changes_the_embedding_wherever_it_is(base):
    series = noise(10_000)
    bursts = np.tile(series, (60, 1))
    for row, position in zip(bursts, np.linspace(0, 9990, 60).astype(int), strict=True):
        row[position : position + 10] += 80
    embedding = base.embed([series, *bursts])
    changes = np.linalg.norm(embedding[1:] - embedding[0], axis=1) / np.linalg.norm(embedding[0])
    assert (changes > 1e-3).sum() == 60


@pytest.mark.parametrize("pool", ["cls+mean", "auto"])
def test_a_burst_without_a_mean_is_visible_in_a_piece(base, pool):
    series, burst = noise(10_000), noise(10_000)
    burst[5000:5100] += 20 * (-1) ** np.arange(100)
    embedder = NuTimeEmbedder(base, pool=pool).fit([series])
    assert embedder.reading_.pieces
    assert relative_change(embedder, series, burst) > 5e-3


def test_a_fitted_estimator_reads_series_of_other_lengths_as_it_was_fitted(estimator):
    X, y = waves()
    estimator.set_params(pool="auto").fit([values[:, :6] for values in X], y)
    assert estimator.reading_ == Reading("upper", OWN // 2, convolved=9)
    long = [np.tile(values, 100) for values in X]
    expected = estimator.encoder_.embed(long, reading=estimator.reading_)
    np.testing.assert_array_equal(estimator._features(estimator._read(long)), expected)


def test_a_saved_estimator_keeps_its_reading(estimator, tmp_path):
    X, y = waves()
    long = [np.tile(values, 40) for values in X]
    estimator.fit(long, y)
    assert estimator.reading_.pieces
    again = storage.load(estimator.save(tmp_path / "model"))
    assert again.reading_ == estimator.reading_
    assert_same_outputs(outputs(again, X), outputs(estimator, X))


def test_an_exact_length_is_used(estimator):
    X, y = waves()
    fitted = clone(estimator).set_params(length=128).fit(X, y)
    assert fitted.reading_.length == 128
    assert not fitted.reading_.pieces


def test_a_wrong_length_is_refused(estimator):
    table, y = wave_table()
    assert refusal(clone(estimator).set_params(length="short").fit, table, y).startswith("length must be")
    message = refusal(clone(estimator).set_params(pool="upper", length=30).fit, table, y)
    assert message == "length must be a multiple of 4 for pool upper; got 30"


def test_series_embedded_at_another_length_are_refused(encoder):
    X, y = waves()
    embedded = EmbeddedSeries.embed(X, encoder, "upper", length=64)
    message = refusal(NuTimeClassifier(encoder=encoder, pool="upper", length=32).fit, embedded, y)
    assert message == "X was embedded with pool upper of 64 points, but the estimator has length 32"
    fitted = NuTimeClassifier(encoder=encoder, pool="upper", length=32).fit(X, y)
    assert refusal(fitted.predict, embedded).endswith("was fitted with pool upper of 32 points")


def test_strong_shrinking_is_mentioned_in_one_line(encoder, caplog):
    model = NuTime.from_pretrained(encoder)
    with caplog.at_level(logging.WARNING, "nutime"):
        model.embed([noise(16 * OWN)])
        assert not caplog.messages
        model.embed([noise(16 * OWN + 1)] * 2)
    assert caplog.messages == ["series of up to 513 points are averaged to 32: short events may be lost"]
