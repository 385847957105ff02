"""What probes read: all of an embedding, or a part that is always the same."""

import numpy as np
import pytest

from nutime.encoder import NuTime
from nutime.estimators.classifier import NuTimeClassifier
from nutime.finetune import features
from nutime.finetune import train as trainer
from waves import waves

FEW = 50


@pytest.fixture
def few_features(monkeypatch):
    monkeypatch.setattr(features, "MOST_FEATURES", FEW)
    monkeypatch.setattr(features, "_ROOM", 300)  # a few series at a time


def many_channels(n=20):
    X, y = waves(n, channels=3)
    return list(X), y


def test_of_few_channels_all_is_read(encoder):
    X, _ = many_channels()
    model = NuTime.from_pretrained(encoder)
    np.testing.assert_array_equal(
        features.probe_features(model, X, "resolutions"), model.embed(X, pool="resolutions")
    )


def test_of_many_channels_always_the_same_part_is_read(encoder, few_features):
    X, _ = many_channels()
    model = NuTime.from_pretrained(encoder)
    whole = model.embed(X, pool="upper")
    part = features.probe_features(model, X, "upper")
    chosen = features.chosen_features(whole.shape[1], FEW)
    assert len(set(chosen)) == FEW
    np.testing.assert_array_equal(part, whole[:, chosen])
    np.testing.assert_array_equal(features.probe_features(model, X[3:5], "upper"), part[3:5])


@pytest.mark.parametrize("strategy", ["probe", "finetune"])
def test_a_classifier_of_many_channels_reads_what_it_was_fitted_on(
    encoder, few_features, strategy, tmp_path, monkeypatch
):
    monkeypatch.setattr(trainer, "LEAST_STEPS", 1)
    X, y = many_channels(40)
    fitted = NuTimeClassifier(strategy, encoder, epochs=3, random_state=0).fit(X[:24], y[:24])
    assert fitted.score(X[24:], y[24:]) > 0.7
    said = fitted.predict_proba(X)
    monkeypatch.setattr(features, "MOST_FEATURES", 2 * FEW)  # as a later version might
    fitted.save(tmp_path)
    np.testing.assert_array_equal(NuTimeClassifier.load(tmp_path).predict_proba(X), said)
