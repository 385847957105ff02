"""The linear probe: four arrays that say what scikit-learn's pipeline says."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nutime.data.series import as_series
from nutime.encoder import NuTime
from nutime.estimators.base import TrainingSet
from nutime.finetune.probe import LinearProbe
from waves import waves

PARAMS = {"C": 1.0, "pool": "cls+mean"}


@pytest.mark.parametrize("classes", [2, 3])
def test_its_arrays_give_the_probabilities_of_the_pipeline(encoder, classes):
    model = NuTime.from_pretrained(encoder)
    series = as_series(waves(n=30)[0])
    codes = np.arange(30) % classes
    probe = LinearProbe.fit(model, TrainingSet(series, codes, np.ones(30), np.ones(classes)), PARAMS)
    embedding = model.embed(series).astype(float)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000, tol=1e-8)).fit(embedding, codes)
    odds = np.exp(probe.logits(model, series, PARAMS))
    expected = pipeline.predict_proba(embedding)
    np.testing.assert_allclose(odds / odds.sum(axis=1, keepdims=True), expected, atol=1e-4)


def test_its_arrays_are_all_it_is_made_of(encoder):
    model = NuTime.from_pretrained(encoder)
    series = as_series(waves(n=8)[0])
    probe = LinearProbe.fit(model, TrainingSet(series, np.arange(8) % 2, np.ones(8), np.ones(2)), PARAMS)
    again = LinearProbe.from_arrays(probe.arrays())
    np.testing.assert_array_equal(probe.logits(model, series, PARAMS), again.logits(model, series, PARAMS))
