"""EmbeddedSeries: embedded once, used by any estimator with the same encoder and pool."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict

from nutime.data.series import as_series
from nutime.encoder import NuTime
from nutime.estimators.base import EmbeddedSeries
from nutime.estimators.classifier import NuTimeClassifier
from nutime.finetune import linear
from nutime.finetune import train as trainer
from waves import assert_same_outputs, outputs, refusal, wave_table, waves


@pytest.fixture
def counted(monkeypatch):
    """Return the numbers of series that were embedded, call by call."""
    sizes = []
    embed = NuTime.embed

    def counting(self, X, **options):
        sizes.append(len(X))
        return embed(self, X, **options)

    monkeypatch.setattr(NuTime, "embed", counting)
    return sizes


@pytest.mark.parametrize("channels", [1, 3])
def test_an_estimator_gives_the_same_with_series_embedded_before_and_embeds_nothing(estimator, counted, channels):
    X, y = waves(channels=channels)
    expected = outputs(clone(estimator).fit(X, y), X)
    embedded = EmbeddedSeries.embed(X, estimator.encoder, estimator.pool)
    counted.clear()
    assert_same_outputs(outputs(clone(estimator).fit(embedded, y), embedded), expected)
    assert counted == []


def test_fine_tuning_gives_the_same_with_series_embedded_before_and_embeds_nothing(encoder, counted, monkeypatch):
    monkeypatch.setattr(trainer, "MIN_STEPS", 1)
    X, y = waves()
    classifier = NuTimeClassifier("finetune", encoder, epochs=2, random_state=0)
    expected = outputs(clone(classifier).fit(X, y), X)
    embedded = EmbeddedSeries.embed(X, encoder, classifier.pool)
    counted.clear()
    assert_same_outputs(outputs(classifier.fit(embedded, y), embedded), expected)
    assert counted == []


def test_some_of_the_series_keep_their_embedding(encoder):
    X, _ = waves(10)
    embedded = EmbeddedSeries.embed(X, encoder)
    part = embedded[[7, 2]]
    assert len(embedded) == 10
    assert len(part) == 2
    np.testing.assert_array_equal(part.embedding, embedded.embedding[[7, 2]])
    np.testing.assert_array_equal(part.series[0], as_series(X)[7])


def test_a_grid_search_over_embedded_series_embeds_nothing(encoder, counted):
    X, y = waves(12)
    embedded = EmbeddedSeries.embed(X, encoder, "cls")
    classifier = NuTimeClassifier(encoder=encoder, pool="cls", forest=False)
    expected = cross_val_predict(classifier, X, y, cv=3, method="predict_proba")
    counted.clear()
    np.testing.assert_allclose(
        cross_val_predict(classifier, embedded, y, cv=3, method="predict_proba"), expected, rtol=1e-4
    )
    search = GridSearchCV(classifier, {"C": [1e-9, 1]}, cv=3, error_score="raise").fit(embedded, y)
    assert search.predict(embedded).shape == (12,)
    assert counted == []


def test_the_columns_of_a_table_are_known(estimator):
    table, y = wave_table(length=40)
    estimator.fit(EmbeddedSeries.embed(table, estimator.encoder, estimator.pool), y)
    assert estimator.n_features_in_ == 40
    assert "41 features" in refusal(outputs, estimator, wave_table(length=41)[0])


def test_columns_embedded_in_another_order_are_refused(estimator):
    table, y = wave_table(length=40)
    frame = pd.DataFrame(table, columns=[f"t{point}" for point in range(40)])
    estimator.fit(frame, y)
    turned = EmbeddedSeries.embed(frame[frame.columns[::-1]], estimator.encoder, estimator.pool)
    assert "other feature names than the estimator was fitted with" in refusal(outputs, estimator, turned)
    outputs(estimator, EmbeddedSeries.embed(frame, estimator.encoder, estimator.pool))


def test_another_pool_is_refused(estimator):
    X, y = waves()
    message = refusal(estimator.fit, EmbeddedSeries.embed(X, estimator.encoder, "mean"), y)
    assert message == f"X was embedded with pool 'mean', but the estimator has pool {estimator.pool!r}"


def test_another_encoder_is_refused(estimator):
    X, y = waves()
    other = NuTime.from_pretrained(estimator.encoder)
    with torch.no_grad():
        other.norm.bias += 1
    message = refusal(estimator.fit, EmbeddedSeries.embed(X, other, estimator.pool), y)
    assert message == "X was embedded by another encoder than the estimator's; embed it again"


def test_of_many_channels_only_the_features_of_a_probe_are_stored(encoder, monkeypatch):
    monkeypatch.setattr(linear, "MAX_FEATURES", 50)
    X, y = waves(channels=3)
    embedded = EmbeddedSeries.embed(X, encoder, "resolutions")
    assert embedded.embedding.shape == (len(y), 50)
    assert embedded.embedding.base is None  # not a view of the whole embedding
    classifier = NuTimeClassifier(encoder=encoder, pool="resolutions")
    expected = clone(classifier).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(classifier.fit(embedded, y).predict_proba(embedded), expected)


def test_progress_is_reported(encoder):
    reported = []
    EmbeddedSeries.embed(waves(100)[0], encoder, verbose=lambda *progress: reported.append(progress))
    assert reported == [(64, 100), (100, 100)]


def test_an_estimator_without_a_chosen_encoder_takes_that_of_the_embedded_series(encoder):
    X, y = waves()
    embedded = EmbeddedSeries.embed(X, encoder, "auto")
    assert NuTimeClassifier().fit(embedded, y).encoder_ is embedded.encoder
