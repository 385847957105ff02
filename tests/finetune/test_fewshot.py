import numpy as np
import pytest

from nutime.data.series import as_series
from nutime.encoder import NuTime
from nutime.finetune import fewshot
from nutime.finetune import train as trainer
from nutime.finetune.fewshot import draw_task, few_shot
from nutime.model.network import count_parameters
from waves import refusal, waves

QUICK = {"epochs": 15, "learning_rate": 0.01}


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(trainer, "MIN_STEPS", 1)


@pytest.fixture
def model(encoder):
    return NuTime.from_pretrained(encoder)


@pytest.fixture
def task():
    X, y = waves(60)
    return X[:40], y[:40], X[40:], y[40:]


@pytest.fixture
def three_classes():
    X, y = waves(90)
    y = np.where(np.arange(90) % 3 == 0, "flat", np.where(y, "fast", "slow"))
    X = [np.full_like(x, 9.0) if label == "flat" else x for x, label in zip(X, y, strict=True)]
    return X[:45], y[:45], X[45:], y[45:]


def test_slow_and_fast_waves_are_learned_from_five_of_each(model, task):
    accuracies = few_shot(model, *task, episodes=4, **QUICK)
    assert accuracies.shape == (4,)
    assert accuracies.mean() > 0.9


def test_the_same_seed_gives_the_same_episodes_and_another_does_not(model, task):
    shots = {"shots": 1, "episodes": 6, "epochs": 2, "forest": False}
    one, again, other = (few_shot(model, *task, seed=seed, **shots) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_trees_of_a_task_are_grown_on_its_shots(three_classes):
    X, y, X_test, _ = three_classes
    targets = np.unique(y, return_inverse=True)[1]
    rngs = [np.random.default_rng(seed) for seed in (0, 1)]
    tasks = [fewshot.draw_task(targets, targets, 5, 2, rng) for rng in rngs]
    votes = fewshot._forest_votes(as_series(X), as_series(X + X_test), targets, tasks)
    assert votes.shape == (2, 90, 2)
    np.testing.assert_allclose(votes.sum(-1), 1, atol=1e-6)
    for (class_ids, members), of_task in zip(tasks, votes, strict=True):
        np.testing.assert_allclose(of_task[members], np.eye(2)[class_ids[targets[members]]], atol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_episodes_do_not_depend_on_how_many_are_trained_together(model, three_classes, monkeypatch, size):
    shots = {"shots": 1, "epochs": 3, "episodes": 5, "ways": 2}
    usual = few_shot(model, *three_classes, **shots)
    monkeypatch.setitem(fewshot.GROUP_PARAMETERS, "cpu", size * count_parameters(model))
    np.testing.assert_array_equal(few_shot(model, *three_classes, **shots), usual)


def test_fewer_episodes_are_the_first_ones_of_more(model, task):
    shots = {"shots": 1, "epochs": 3}
    many = few_shot(model, *task, episodes=6, **shots)
    np.testing.assert_array_equal(few_shot(model, *task, episodes=2, **shots), many[:2])


def tasks(targets, count, **options):
    options = {"shots": 5, "ways": None, **options}
    return [draw_task(targets, targets, rng=np.random.default_rng(seed), **options) for seed in range(count)]


def test_a_task_has_the_given_number_of_shots_of_every_class():
    targets = np.arange(45) % 3
    drawn = tasks(targets, 3, shots=4)
    for class_ids, members in drawn:
        assert len(set(members)) == 12
        np.testing.assert_array_equal(np.bincount(class_ids[targets[members]]), [4, 4, 4])
    assert len({tuple(members) for _, members in drawn}) == 3


def test_fewer_ways_draw_some_of_the_classes():
    targets = np.arange(45) % 3
    drawn = tasks(targets, 8, ways=2)
    for class_ids, members in drawn:
        assert sorted(class_ids) == [-1, 0, 1]
        assert (class_ids[targets[members]] >= 0).all()
    assert len({tuple(np.unique(targets[members])) for _, members in drawn}) > 1


def test_fewer_ways_are_scored_on_the_drawn_classes_only(model, three_classes):
    assert (few_shot(model, *three_classes, ways=2, shots=5, episodes=4, **QUICK) > 0.6).all()


def test_a_class_with_fewer_series_than_shots_gives_some_of_them_again():
    targets = np.array([0] * 20 + [1] * 2)
    ((_, members),) = tasks(targets, 1)
    rare = members[targets[members] == 1]
    assert len(rare) == 5
    assert len(set(rare)) == 2


def test_ctrl_c_ends_the_measurement_instead_of_shortening_the_training(model, task, ctrl_c_at_step):
    ctrl_c_at_step(2)
    with pytest.raises(KeyboardInterrupt):
        few_shot(model, *task, episodes=1, epochs=50)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shots": 0}, "shots must be an integer in [1, inf), got 0"),
        ({"ways": 3}, "ways must be 2 … 2, the classes of the test series; got 3"),
        (
            {"validation_fraction": 0.2},
            "few-shot models are trained on all their shots: validation_fraction must be 0",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(model, task, change, message):
    assert refusal(few_shot, model, *task, **{"episodes": 1, **change}) == message


def test_a_test_label_that_training_does_not_have_is_named(model, task):
    X, y, X_test, y_test = task
    assert refusal(few_shot, model, X, y, X_test, y_test + 1) == "y_test has the label 2, which y does not have"
