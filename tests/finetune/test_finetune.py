import os
import signal
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.exceptions import NotFittedError

from nutime.encoder import NuTime
from nutime.estimators.base import EmbeddedSeries
from nutime.estimators.classifier import NuTimeClassifier
from nutime.finetune import ensemble
from nutime.finetune import train as trainer
from nutime.finetune.ensemble import Ensemble
from nutime.finetune.linear import LinearProbe
from nutime.finetune.train import FinetuneConfig, TrainingSet, finetune, split_validation
from waves import refusal, waves


def classifier(encoder, **changes):
    usual = {"epochs": 3, "batch_size": 8, "learning_rate": 1e-3, "random_state": 0}
    return NuTimeClassifier("finetune", encoder, **{**usual, **changes})


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(trainer, "MIN_STEPS", 1)


def parameters(fitted):
    return {name: np.array(array) for name, array in fitted.model_.arrays().items()}


@pytest.mark.parametrize("trained", ["all", "head", "scratch"])
@pytest.mark.parametrize("channels", [1, 3])
def test_slow_and_fast_waves_are_distinguished(encoder, trained, channels):
    X, y = waves(40, channels)
    fitted = classifier(encoder, trained=trained, epochs=20, learning_rate=0.01).fit(X[:24], y[:24])
    assert fitted.score(X[24:], y[24:]) >= 0.9


def test_the_same_seed_gives_the_same_predictions_and_another_does_not(encoder):
    X, y = waves()
    one, again, other = (classifier(encoder, random_state=seed).fit(X, y).predict_proba(X) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_a_random_state_that_scikit_learn_does_not_take_is_refused(encoder):
    message = refusal(classifier(encoder, random_state=np.random.default_rng(0)).fit, *waves())
    assert message.endswith("cannot be used to seed a numpy.random.RandomState instance")


def test_a_saved_ensemble_predicts_bit_for_bit_the_same(encoder, tmp_path):
    X, y = waves(channels=2)
    fitted = classifier(encoder, n_estimators=2).fit(X, y)
    fitted.save(tmp_path)
    np.testing.assert_array_equal(NuTimeClassifier.load(tmp_path).predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize("channels", [1, 2])
def test_models_trained_together_end_where_they_would_alone(encoder, channels):
    X, y = waves(channels=channels)
    three, one = (classifier(encoder, n_estimators=count).fit(X, y) for count in (3, 1))
    together, alone = (np.exp(fitted.model_.log_probabilities(fitted.encoder_, X)) for fitted in (three, one))
    np.testing.assert_allclose(together[:1], alone, atol=1e-4)
    assert abs(together[1] - alone).max() > 1e-3


def test_series_of_several_channels_are_mixed_with_their_targets(encoder):
    X, y = waves(24, channels=2)
    doubled = [values[:1].repeat(2, axis=0) for values in X]
    one, two = (
        classifier(encoder, epochs=40, learning_rate=0.01).fit(given, y).history_["loss"][-10:].mean()
        for given in ([values[:1] for values in X], doubled)
    )
    assert one < 0.05  # of a target, all is learned
    assert 0.2 < two < np.log(2)  # of a mixture of two, the share is unknown


def test_before_any_step_a_model_answers_with_the_mean_of_two_probes(encoder):
    X, y = waves()
    y = (y + np.arange(len(y)) % 3 // 2) % 2  # some are wrong: no probability comes near 0 or 1
    started = classifier(encoder, learning_rate=0.0, epochs=1, forest=False).fit(X, y)
    own = NuTimeClassifier("probe", encoder, pool="upper", forest=False).fit(X, y)
    read = started.model_.arrays()["probe.weight"][0].any(axis=0)
    assert 0.3 < read.mean() < 0.7
    features = started.encoder_.embed(X, reading=started.reading_)
    network = started.reading_.sizes(started.encoder_.config, 1)[0]
    halves = [features[:, :network][:, read[:network]], features[:, network:][:, read[network:]]]
    beside = np.mean([LinearProbe.fit(half, y).logits(half) for half in halves], axis=0)
    expected = (own.predict_proba(X) + softmax(beside, axis=1)) / 2
    np.testing.assert_allclose(started.predict_proba(X), expected, atol=0.02)


def test_models_of_an_ensemble_have_probes_that_read_different_halves(encoder):
    X, y = waves()
    weights = classifier(encoder, n_estimators=2).fit(X, y).model_.arrays()["probe.weight"]
    assert not np.array_equal(*weights.any(axis=1))


def test_a_network_trained_from_scratch_answers_alone(encoder):
    X, y = waves()
    arrays = classifier(encoder, trained="scratch").fit(X, y).model_.arrays()
    assert not any(name.startswith("probe.") for name in arrays)


def test_a_network_trained_from_scratch_has_no_probe_of_embedded_series_either(encoder):
    X, y = waves()
    alone, embedded = (
        classifier(encoder, trained="scratch").fit(given, y)
        for given in (X, EmbeddedSeries.embed(X, encoder, NuTimeClassifier().pool))
    )
    assert "probe.weight" not in embedded.model_.arrays()
    np.testing.assert_array_equal(embedded.predict_proba(X), alone.predict_proba(X))


def test_an_ensemble_averages_the_probabilities_of_its_models(encoder):
    X, y = waves()
    fitted = classifier(encoder, n_estimators=3, forest=False).fit(X, y)
    members = []
    for member in range(3):
        arrays = {name: array[member : member + 1] for name, array in fitted.model_.arrays().items()}
        members.append(np.exp(Ensemble.from_arrays(arrays, fitted.reading_).logits(fitted.encoder_, X)))
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
    fitted = classifier(encoder, trained="head", n_estimators=2).fit(X, y)
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
    monkeypatch.setattr(ensemble, "_MEMORY_BUDGET", {"cpu": 1})  # one series at a time
    X, y = waves(12)
    assert np.isfinite(classifier(encoder, epochs=1, batch_size=4).fit(X, y).predict_proba(X)).all()


def test_with_a_validation_fraction_training_stops_when_nothing_improves(encoder):
    X, y = waves(32)
    stopping = classifier(encoder, validation_fraction=0.25, n_iter_no_change=2, epochs=200, learning_rate=0.0)
    stopping.fit(X, y)
    assert stopping.n_epochs_ == 3  # one epoch that is the best so far, and two without a better one
    assert stopping.stopped_early_


def test_without_a_validation_fraction_training_does_not_stop_early(encoder):
    X, y = waves(32)
    fitted = classifier(encoder, n_iter_no_change=1, epochs=5, learning_rate=0.0).fit(X, y)
    assert fitted.n_epochs_ == 5
    assert not fitted.stopped_early_


def test_the_history_has_a_loss_and_a_validation_score_per_epoch_and_is_saved(encoder, tmp_path):
    X, y = waves(32)
    fitted = classifier(encoder, validation_fraction=0.25, epochs=6, learning_rate=0.01).fit(X, y)
    assert {name: values.shape for name, values in fitted.history_.items()} == {
        "loss": (6,),
        "validation_score": (6,),
    }
    assert fitted.history_["loss"][-1] < fitted.history_["loss"][0]
    assert ((fitted.history_["validation_score"] >= 0) & (fitted.history_["validation_score"] <= 1)).all()
    loaded = NuTimeClassifier.load(fitted.save(tmp_path))
    assert (loaded.n_epochs_, loaded.stopped_early_) == (6, False)
    for name, values in fitted.history_.items():
        np.testing.assert_array_equal(loaded.history_[name], values)


def test_a_validation_fraction_works_with_four_series_of_each_of_five_classes(encoder):
    X, _ = waves(20)
    y = np.arange(20) % 5
    fitted = classifier(encoder, validation_fraction=0.2).fit(X, y)
    assert fitted.predict_proba(X).shape == (20, 5)


@given(
    st.lists(st.integers(0, 5), min_size=2, max_size=60).map(np.array),
    st.floats(0.01, 0.99),
    st.integers(0, 3),
)
def test_every_class_stays_in_training_whatever_is_held_out(targets, fraction, seed):
    targets = np.unique(targets, return_inverse=True)[1]
    counts = np.bincount(targets)
    if counts.max() == 1:
        assert "one series" in refusal(split_validation, targets, fraction, seed)
        return
    train, held_out = split_validation(targets, fraction, seed)
    assert sorted([*train, *held_out]) == list(range(len(targets)))
    assert set(targets[train]) == set(targets)
    expected = max(1, round(fraction * len(targets)))
    assert len(held_out) == min(expected, len(targets) - len(counts))


def test_held_out_series_are_stratified():
    targets = np.repeat([0, 1], [90, 10])
    _, held_out = split_validation(targets, 0.2, seed=0)
    assert np.bincount(targets[held_out]).tolist() == [18, 2]


def test_balanced_weights_help_the_rare_class(encoder):
    X, y = waves(60)
    alike = [X[index] for index in np.flatnonzero(y == 0)]
    labels = np.arange(len(alike)) % 10 == 0  # only their counts distinguish the classes
    plain, balanced = (
        classifier(encoder, class_weight=weight, trained="head", epochs=30, learning_rate=0.01, forest=False)
        .fit(alike, labels)
        .predict_proba(alike)[:, 1]
        .mean()
        for weight in (None, "balanced")
    )
    assert plain + 0.1 < balanced


def interrupt_at(step):
    def report(done, total):
        if done == step:
            os.kill(os.getpid(), signal.SIGINT)

    return report


def test_ctrl_c_interrupts_fit_and_leaves_no_fitted_model(encoder, ctrl_c):
    X, y = waves()
    fitted = classifier(encoder).fit(X, y)
    fitted.set_params(epochs=1000, verbose=interrupt_at(5))
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(X, y)
    with pytest.raises(NotFittedError):
        fitted.predict(X)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trained": "some"}, "trained must be all, head or scratch; got 'some'"),
        ({"n_estimators": 0}, "n_estimators must be an integer in [1, inf), got 0"),
        ({"epochs": 1.5}, "epochs must be an integer in [1, inf), got 1.5"),
        ({"batch_size": True}, "batch_size must be an integer in [1, inf), got True"),
        ({"validation_fraction": 1.0}, "validation_fraction must be a number in [0, 1), got 1.0"),
        ({"learning_rate": -1}, "learning_rate must be a number in [0, inf), got -1"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number in [0, inf), got nan"),
        ({"learning_rate": float("inf")}, "learning_rate must be a number in [0, inf), got inf"),
        ({"learning_rate": "fast"}, "learning_rate must be a number in [0, inf), got 'fast'"),
        ({"C": 0.0}, "C must be a number in (0, inf), got 0.0"),
    ],
)
def test_parameters_that_make_no_sense_are_refused_by_fit(encoder, change, message):
    X, y = waves()
    assert refusal(classifier(encoder, **change).fit, X, y) == message


def test_validation_series_select_each_models_best_epoch_and_change_nothing_else(encoder):
    X, y = waves(40)
    model = NuTime.from_pretrained(encoder)
    config = FinetuneConfig(n_estimators=2, epochs=12, batch_size=8, learning_rate=3e-3)
    train, validation = (
        TrainingSet([np.atleast_2d(x) for x in part], labels, np.ones(len(part)), np.ones(2))
        for part, labels in ((X[:16], y[:16]), (X[16:], y[16:]))
    )
    result = finetune(model, train, config, 0, validation=validation)
    without = finetune(model, train, config, 0).last.arrays()
    assert all(np.array_equal(array, without[name]) for name, array in result.last.arrays().items())
    errors = [
        (models.log_probabilities(model, validation.series).argmax(-1) != validation.targets).sum(1)
        for models in (result.best, result.last)
    ]
    assert (errors[0] <= errors[1]).all()


def test_every_model_can_have_series_and_classes_of_its_own(encoder):
    X, y = waves(40)
    series = [np.atleast_2d(x) for x in X]
    targets = np.stack([y, 1 - y])  # the classes of the second model are swapped
    data = TrainingSet(series, targets, np.ones(40), np.ones(2))
    members = np.stack([np.arange(0, 20), np.arange(20, 40)])
    config = FinetuneConfig(n_estimators=2, epochs=20, batch_size=8, learning_rate=0.01)
    model = NuTime.from_pretrained(encoder)
    models = finetune(model, data, config, 0, members=members).last
    predictions = models.log_probabilities(model, series).argmax(-1)
    assert ((predictions == targets).mean(1) >= 0.9).all()


def test_a_certain_classifier_has_finite_decisions_without_a_warning(encoder):
    X, y = waves(40)
    fitted = classifier(encoder, trained="scratch").fit(X, y)
    arrays = fitted.model_.arrays()
    fitted.model_ = Ensemble.from_arrays(arrays | {"head.weight": 1e6 * arrays["head.weight"]}, fitted.reading_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decisions = fitted.decision_function(X)
    assert np.isfinite(decisions).all()
    assert abs(decisions).max() > 1000


def test_training_that_diverges_is_an_error_and_not_a_model(encoder):
    message = refusal(classifier(encoder, learning_rate=1e30).fit, *waves())
    assert message == "fine-tuning diverged: the loss of epoch 1 is not finite; try a lower learning_rate"


def test_casting_many_tensors_at_once_equals_casting_each():
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(shape, generator=generator, requires_grad=True) for shape in [(3, 4), (5,), (2, 2, 2)]]
    factors = [torch.randn(tensor.shape, generator=generator).bfloat16() for tensor in tensors]
    together, each = ensemble._Bfloat16.apply(*tensors), [tensor.bfloat16() for tensor in tensors]
    gradients = []
    for cast in (together, each):
        loss = sum((value * factor).sum() for value, factor in zip(cast, factors, strict=True))
        gradients.append(torch.autograd.grad(loss, tensors))
    torch.testing.assert_close(together, tuple(each), rtol=0, atol=0)
    torch.testing.assert_close(*gradients, rtol=0, atol=0)
    assert all(gradient.dtype == torch.float32 for gradient in gradients[0])


def test_half_precision_leaves_heads_and_embeddings_of_scalars_as_they_are(monkeypatch):
    monkeypatch.setattr(ensemble, "_has_fast_bfloat16", lambda device: True)
    names = [
        "encoder.transformer.w",
        "encoder.tokens.cls",
        "encoder.tokens.scalar_embeddings.0.weight",
        "head.weight",
    ]
    cast = ensemble.in_training_precision({name: torch.ones(1, 2) for name in names})
    assert [cast[name].dtype for name in names] == [torch.bfloat16, torch.bfloat16, torch.float32, torch.float32]


@pytest.mark.parametrize(("batch_size", "epochs"), [(24, 7), (2, 4), (1, 2)])
def test_automatic_epochs_are_fewer_where_a_pass_takes_many_steps(encoder, monkeypatch, batch_size, epochs):
    monkeypatch.setattr(trainer, "_AUTO_EPOCHS", 7)
    monkeypatch.setattr(trainer, "_AUTO_STEPS", 48)
    fitted = classifier(encoder, trained="head", epochs="auto", batch_size=batch_size).fit(*waves(24))
    assert len(fitted.history_["loss"]) == fitted.n_epochs_ == epochs
