"""Parallel calls return what serial calls return, for every estimator."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from joblib import parallel_backend
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict

from nutime.encoder import NuTime
from nutime.estimators.classifier import NuTimeClassifier
from nutime.finetune import train as trainer
from waves import assert_same_outputs, outputs, waves


@pytest.fixture
def finetuning(encoder, monkeypatch):
    monkeypatch.setattr(trainer, "MIN_STEPS", 1)
    return NuTimeClassifier("finetune", encoder, epochs=3, batch_size=8, learning_rate=0.01, random_state=0)


def in_two_threads(calls):
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda call: call(), calls))


def test_two_fine_tuned_classifiers_in_two_threads_predict_as_they_do_alone(finetuning):
    X, y = waves()
    one, other = clone(finetuning).fit(X, y), clone(finetuning).fit(X, 1 - y)
    expected = [one.predict_proba(X), other.predict_proba(X)] * 30
    found = in_two_threads([lambda: one.predict_proba(X), lambda: other.predict_proba(X)] * 30)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("trained", ["all", "scratch"])
def test_cross_validation_of_fine_tuning_in_threads_equals_the_serial_one(finetuning, trained):
    table = np.stack([np.resize(series, 40) for series in waves()[0]])
    y = waves()[1]
    finetuning.set_params(trained=trained, epochs=2)
    serial = cross_val_predict(finetuning, table, y, cv=3, method="predict_proba")
    with parallel_backend("threading", n_jobs=3):
        parallel = cross_val_predict(finetuning, table, y, cv=3, method="predict_proba", n_jobs=3)
    np.testing.assert_array_equal(parallel, serial)


def test_an_estimator_fitted_and_used_in_threads_equals_the_serial_one(estimator):
    X, y = waves()
    expected = outputs(clone(estimator).fit(X, y), X)
    fitted = in_two_threads([lambda: clone(estimator).fit(X, y)] * 4)
    for found in in_two_threads([lambda one=one: outputs(one, X) for one in fitted] * 3):
        assert_same_outputs(found, expected)


def test_loading_an_encoder_does_not_change_the_global_random_state(encoder):
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    NuTime.from_pretrained(encoder)
    assert torch.equal(torch.rand(3), expected)
