"""Many series are predicted some at a time."""

import numpy as np
import pytest

from nutime.estimators import base, detector
from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.detector import NuTimeDetector
from waves import waves


@pytest.mark.parametrize("kind", [NuTimeClassifier, NuTimeDetector])
def test_chunks_do_not_change_predictions(encoder, monkeypatch, kind):
    X, y = waves()
    estimator = kind(encoder=encoder).fit(X, y)
    expected = estimator.decision_function(X)
    monkeypatch.setattr(base, "_CHUNK_SIZE", 7)
    monkeypatch.setattr(detector, "_CHUNK_SIZE", 5)
    np.testing.assert_allclose(estimator.decision_function(X), expected, rtol=1e-4, atol=1e-6)


def test_a_prediction_holds_the_embeddings_of_one_chunk_only(encoder, monkeypatch):
    X, y = waves()
    classifier = NuTimeClassifier(encoder=encoder).fit(X, y)
    embedded = []
    features = NuTimeClassifier._features
    monkeypatch.setattr(base, "_CHUNK_SIZE", 7)
    monkeypatch.setattr(
        NuTimeClassifier, "_features", lambda self, X, *rest: embedded.append(len(X)) or features(self, X, *rest)
    )
    classifier.predict(X)
    assert embedded == [7, 7, 7, 3]
