import os
import signal

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nutime.encoder import NuTime
from nutime.estimators.base import TrainingSet
from nutime.estimators.classifier import NuTimeClassifier
from nutime.finetune import ensemble as stack
from nutime.finetune import train as trainer
from nutime.finetune.finetuned import FineTuned
from nutime.finetune.train import Trainer
from waves import refusal, waves


def classifier(encoder, **changes):
    usual = {"epochs": 3, "batch_size": 8, "learning_rate": 1e-3, "random_state": 0}
    return NuTimeClassifier("finetune", encoder, **{**usual, **changes})


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(trainer, "LEAST_STEPS", 1)


def parameters(fitted):
    return {name: np.array(array) for name, array in fitted.model_.arrays().items()}


@pytest.mark.parametrize("trained", ["all", "head", "scratch"])
@pytest.mark.parametrize("channels", [1, 3])
def test_slow_and_fast_waves_are_told_apart(encoder, trained, channels):
    X, y = waves(40, channels)
    fitted = classifier(encoder, trained=trained, epochs=20, learning_rate=0.01).fit(X[:24], y[:24])
    assert fitted.score(X[24:], y[24:]) >= 0.9


def test_the_same_seed_gives_the_same_predictions_and_another_does_not(encoder):
    X, y = waves()
    one, again, other = (classifier(encoder, random_state=seed).fit(X, y).predict_proba(X) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_a_saved_ensemble_predicts_bit_for_bit_the_same(encoder, tmp_path):
    X, y = waves(channels=2)
    fitted = classifier(encoder, n_models=2).fit(X, y)
    fitted.save(tmp_path)
    np.testing.assert_array_equal(NuTimeClassifier.load(tmp_path).predict_proba(X), fitted.predict_proba(X))


def test_models_trained_together_end_where_they_would_alone(encoder):
    X, y = waves()
    three, one = (classifier(encoder, n_models=count).fit(X, y) for count in (3, 1))
    together, alone = (fitted.model_.probabilities(fitted.encoder_, X) for fitted in (three, one))
    np.testing.assert_allclose(together[:1], alone, atol=1e-4)
    assert abs(together[1] - alone).max() > 1e-3


def test_before_any_step_a_model_answers_with_the_mean_of_two_probes(encoder):
    X, y = waves()
    y = (y + np.arange(len(y)) % 3 // 2) % 2  # some are wrong: no probability comes near 0 or 1
    started = classifier(encoder, learning_rate=0.0, epochs=1).fit(X, y)
    own = NuTimeClassifier("probe", encoder, pool="upper").fit(X, y)
    read = started.model_.arrays()["probe.weight"][0].any(axis=0)
    assert 0.3 < read.mean() < 0.7
    half = started.encoder_.embed(X, pool="resolutions")[:, read]
    beside = make_pipeline(StandardScaler(), LogisticRegression()).fit(half, y)
    expected = (own.predict_proba(X) + beside.predict_proba(half)) / 2
    np.testing.assert_allclose(started.predict_proba(X), expected, atol=0.02)


def test_models_of_an_ensemble_have_probes_that_read_different_halves(encoder):
    X, y = waves()
    weights = classifier(encoder, n_models=2).fit(X, y).model_.arrays()["probe.weight"]
    assert not np.array_equal(*weights.any(axis=1))


def test_a_network_trained_from_scratch_answers_alone(encoder):
    X, y = waves()
    arrays = classifier(encoder, trained="scratch").fit(X, y).model_.arrays()
    assert not any(name.startswith("probe.") for name in arrays)


def test_an_ensemble_averages_the_probabilities_of_its_models(encoder):
    X, y = waves()
    fitted = classifier(encoder, n_models=3).fit(X, y)
    members = []
    for member in range(3):
        arrays = {name: array[member : member + 1] for name, array in fitted.model_.arrays().items()}
        logits = FineTuned.from_arrays(arrays).logits(fitted.encoder_, X, fitted.get_params(deep=False))
        members.append(np.exp(logits))
    np.testing.assert_allclose(fitted.predict_proba(X), np.mean(members, axis=0), atol=1e-6)
    assert not np.allclose(members[0], members[1], atol=1e-4)


def test_the_encoder_given_is_left_as_it_was(encoder):
    X, y = waves()
    given = NuTime.from_pretrained(encoder)
    before = {name: tensor.clone() for name, tensor in given.state_dict().items()}
    classifier(given).fit(X, y)
    assert all(torch.equal(tensor, before[name]) for name, tensor in given.state_dict().items())


def test_training_the_head_alone_leaves_the_rest_of_every_model_alone(encoder):
    X, y = waves()
    fitted = classifier(encoder, trained="head", n_models=2).fit(X, y)
    for name, tensor in fitted.encoder_.state_dict().items():
        for member in parameters(fitted)[f"encoder.{name}"]:
            np.testing.assert_array_equal(member, tensor.numpy())


def test_pretrained_weights_go_into_a_multivariate_network_except_for_its_channel_projection(encoder):
    X, y = waves(channels=3)
    fitted = classifier(encoder, learning_rate=0.0, epochs=1).fit(X, y)
    learned = parameters(fitted)
    for name, tensor in fitted.encoder_.state_dict().items():
        np.testing.assert_array_equal(learned[f"encoder.{name}"][0], tensor.numpy())
    assert any("channel_projection" in name for name in learned)


def test_a_piece_at_a_time_gives_every_series_a_gradient(encoder, monkeypatch):
    monkeypatch.setattr(stack, "_ROOM", {"cpu": 1})  # one series at a time
    X, y = waves(12)
    assert np.isfinite(classifier(encoder, epochs=1, batch_size=4).fit(X, y).predict_proba(X)).all()


def test_with_a_validation_share_training_stops_when_nothing_gets_better(encoder, monkeypatch):
    X, y = waves(32)
    steps = []
    take = Trainer._take
    monkeypatch.setattr(Trainer, "_take", lambda self: (steps.append(1), take(self))[1])
    classifier(encoder, validation=0.25, patience=2, epochs=200, learning_rate=0.0).fit(X, y)
    assert len(steps) == 3 * 3  # an epoch that is the best so far, and two without a better one


def test_balanced_weights_help_the_rare_class(encoder):
    X, y = waves(60)
    alike = [X[index] for index in np.flatnonzero(y == 0)]
    labels = np.arange(len(alike)) % 10 == 0  # nothing but their number tells the classes apart
    plain, balanced = (
        classifier(encoder, class_weight=weight, trained="head", epochs=30, learning_rate=0.01)
        .fit(alike, labels)
        .predict_proba(alike)[:, 1]
        .mean()
        for weight in (None, "balanced")
    )
    assert plain + 0.1 < balanced


def test_ctrl_c_keeps_what_was_learned(encoder, monkeypatch, ctrl_c):
    X, y = waves()
    steps = []
    take = Trainer._take

    def interrupted(self):
        steps.append(1)
        if len(steps) == 5:
            os.kill(os.getpid(), signal.SIGINT)
        take(self)

    monkeypatch.setattr(Trainer, "_take", interrupted)
    fitted = classifier(encoder, epochs=1000).fit(X, y)
    assert fitted.predict(X).shape == y.shape
    assert len(steps) == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trained": "some"}, "trained must be all, head or scratch; got 'some'"),
        ({"n_models": 0}, "n_models must be a positive integer, got 0"),
        ({"epochs": 1.5}, "epochs must be a positive integer, got 1.5"),
        ({"validation": 1.0}, "validation must be in [0, 1), got 1.0"),
    ],
)
def test_parameters_that_make_no_sense_are_refused_by_fit(encoder, change, message):
    X, y = waves()
    assert refusal(classifier(encoder, **change).fit, X, y) == message


def test_watched_series_choose_each_models_best_epoch_and_change_nothing_else(encoder):
    X, y = waves(40)
    fitted = classifier(encoder, n_models=2, epochs=12, learning_rate=3e-3).fit(X[:16], y[:16])
    params = fitted.get_params(deep=False)
    train, watched = (
        TrainingSet([np.atleast_2d(x) for x in part], labels, np.ones(len(part)), np.ones(2))
        for part, labels in ((X[:16], y[:16]), (X[16:], y[16:]))
    )
    last, best = FineTuned.fit_watching(fitted.encoder_, train, params, watched)
    unwatched = FineTuned.fit(fitted.encoder_, train, params)
    assert all(np.array_equal(array, last.arrays()[name]) for name, array in unwatched.arrays().items())
    errors = [
        (model.probabilities(fitted.encoder_, watched.series).argmax(-1) != watched.codes).sum(1)
        for model in (best, last)
    ]
    assert (errors[0] <= errors[1]).all()


def test_every_model_can_have_series_and_classes_of_its_own(encoder):
    X, y = waves(40)
    series = [np.atleast_2d(x) for x in X]
    codes = np.stack([y, 1 - y])  # the second model calls slow what the first calls fast
    data = TrainingSet(series, codes, np.ones(40), np.ones(2))
    members = np.stack([np.arange(0, 20), np.arange(20, 40)])
    config = trainer.FinetuneConfig(n_models=2, epochs=20, batch_size=8, learning_rate=0.01)
    training = Trainer(NuTime.from_pretrained(encoder), data, config, 0, members=members)
    training.run()
    model = FineTuned(*training.result())
    said = model.probabilities(NuTime.from_pretrained(encoder), series).argmax(-1)
    assert ((said == codes).mean(1) >= 0.9).all()
