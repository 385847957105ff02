"""Trees on quantiles of intervals: what they learn, what has no effect on them, and how they are stored."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nutime.data.series import as_series
from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.regressor import NuTimeRegressor
from nutime.finetune import train as trainer
from nutime.finetune.forest import TEMPERATURE, Forest, mean_logits
from waves import refusal, waves


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(trainer, "MIN_STEPS", 5)


def fit(X, y, weights=None, n_classes=2):
    return Forest.fit(as_series(X), y, np.ones(len(y)) if weights is None else weights, n_classes)


@pytest.fixture(scope="module")
def forest():
    return fit(*waves(24))


@pytest.mark.parametrize("channels", [1, 3])
def test_slow_and_fast_waves_are_distinguished(channels):
    X, y = waves(40, channels)
    probabilities = fit(X[:24], y[:24]).probabilities(as_series(X[24:]))
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-6)
    assert (probabilities.argmax(1) == y[24:]).mean() >= 0.9


def test_all_trees_are_right_about_the_series_they_were_grown_on(forest):
    X, y = waves(24)
    np.testing.assert_allclose(forest.probabilities(as_series(X)), np.eye(2)[y], atol=1e-6)


@settings(max_examples=10, deadline=None)
@given(st.floats(-12, 12), st.floats(-1e3, 1e3))
def test_scale_and_level_of_the_data_have_no_effect(exponent, level):
    X, y = waves(24)
    scale = 10**exponent
    other = [scale * (np.asarray(values, np.float64) + level) for values in X]
    expected = fit(X[:16], y[:16]).probabilities(as_series(X))
    # Rounding moves a threshold now and then past a series.
    np.testing.assert_allclose(fit(other[:16], y[:16]).probabilities(as_series(other)), expected, atol=0.05)


def test_a_prediction_does_not_depend_on_the_series_beside_it(forest):
    X = as_series(waves(24)[0])
    alone = np.concatenate([forest.probabilities([values]) for values in X])
    np.testing.assert_array_equal(forest.probabilities(X), alone)


def test_a_series_far_outside_the_training_data_has_probabilities(forest):
    length = 50
    extremes = [np.full((1, length), 1e300), np.resize([-1e308, 1e308], (1, length)), np.zeros((1, 1))]
    probabilities = forest.probabilities(extremes)
    assert np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-6)


def test_series_of_more_weight_decide_between_equal_series():
    X = [np.zeros(20)] * 4
    y = np.array([0, 0, 0, 1])
    for weights, winner in (([1, 1, 1, 1], 0), ([1, 1, 1, 9], 1)):
        probabilities = fit(X, y, np.array(weights, float)).probabilities(as_series(X))
        assert (probabilities.argmax(1) == winner).all()


def test_a_class_without_series_has_probability_zero():
    X, y = waves(12)
    probabilities = fit(X, 2 * y, n_classes=4).probabilities(as_series(X))
    np.testing.assert_array_equal(probabilities[:, [1, 3]], 0)


def test_of_many_channels_some_features_are_read():
    X = np.random.default_rng(0).standard_normal((8, 100, 30))
    y = np.arange(8) % 2
    X[:, 7] += 5 * y[:, None]
    forest = fit(X, y)
    assert len(np.unique(forest.feature)) > 50
    np.testing.assert_allclose(forest.probabilities(list(X)), np.eye(2)[y], atol=1e-6)


def test_rebuilt_from_its_arrays_a_forest_answers_the_same(forest):
    X = as_series(waves(24)[0])
    again = Forest.from_arrays(forest.arrays(), 2, 1)
    np.testing.assert_array_equal(again.probabilities(X), forest.probabilities(X))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": np.array(65)}, "a forest of 2 classes that reads 65 points"),
        ({"n_classes": np.array(3)}, "a forest of 3 classes"),
        ({"depth": np.array(10**9)}, "a forest of 2 classes"),
        ({"center": np.zeros(2)}, "center has the shape (2,), expected (1)"),
        ({"scale": np.array([np.nan])}, "scale has values that are not finite"),
        ({"child": np.full((2, 2), 2)}, "child has the shape (2, 2), expected"),
    ],
)
def test_damaged_arrays_are_refused(forest, change, message):
    assert refusal(Forest.from_arrays, forest.arrays() | change, 2, 1).startswith(message)


@pytest.mark.parametrize("name", ["roots", "child", "feature", "vote"])
@pytest.mark.parametrize("value", [-1, 2**30])
def test_indices_outside_their_arrays_are_refused(forest, name, value):
    arrays = forest.arrays()
    arrays[name] = np.full_like(arrays[name], value)
    assert refusal(Forest.from_arrays, arrays, 2, 1).startswith(f"{name} has values outside 0")


def test_the_mean_with_a_certain_model_is_finite():
    log_probabilities = np.array([[0.0, -2000.0]])
    assert np.isfinite(mean_logits(log_probabilities, np.array([[1.0, 0.0]]))).all()
    mean = np.exp(TEMPERATURE * mean_logits(np.log([[0.2, 0.8]]), np.array([[0.6, 0.4]])))
    np.testing.assert_allclose(mean, [[0.4, 0.6]])


@pytest.mark.parametrize("strategy", ["probe", "finetune"])
def test_a_classifier_averages_its_model_and_its_forest(encoder, strategy):
    X, y = waves(20)
    params = {"epochs": 1, "random_state": 0}
    both = NuTimeClassifier(strategy, encoder, **params).fit(X, y)
    alone = NuTimeClassifier(strategy, encoder, forest=False, **params).fit(X, y)
    assert alone.forest_ is None
    mean = (alone.predict_proba(X) + both.forest_.probabilities(as_series(X))) / 2
    expected = mean ** (1 / TEMPERATURE) / (mean ** (1 / TEMPERATURE)).sum(1, keepdims=True)
    np.testing.assert_allclose(both.predict_proba(X), expected, atol=1e-6)


def test_class_weights_count_for_the_forest_too(encoder):
    X, y = [np.zeros(20)] * 4 + [np.arange(20.0)], np.array([0, 0, 0, 1, 1])
    forest = NuTimeClassifier(encoder=encoder, class_weight={1: 9}).fit(X, y).forest_
    assert forest.probabilities(as_series(X))[0, 1] == 1


def test_growing_trees_does_not_touch_the_warning_filters(monkeypatch):
    def reset():
        raise AssertionError("two threads at once would lose the filters")

    monkeypatch.setattr(warnings, "resetwarnings", reset)
    X, y = waves(12)
    fit(X, y)
    Forest.fit_regression(as_series(X), y.astype(float), np.ones(12))


def test_values_near_the_largest_float64_can_be_learned_from():
    X = [np.full(20, sign * 1.7e308) + np.zeros((1, 20)) for sign in (-1, 1)] * 3
    forest = fit(X, np.arange(6) % 2)
    again = Forest.from_arrays(forest.arrays(), 2, 1)
    np.testing.assert_allclose(again.probabilities(as_series(X)), np.eye(2)[np.arange(6) % 2], atol=1e-6)


@pytest.mark.parametrize("value", [200, "no", None])
@pytest.mark.parametrize("estimator", [NuTimeClassifier, NuTimeRegressor])
def test_a_number_of_trees_is_not_taken_for_yes(encoder, estimator, value):
    message = refusal(estimator(encoder=encoder, forest=value).fit, *waves(12))
    assert message == f"forest must be True or False, got {value!r}"


# ---- numbers ------------------------------------------------------------------------------------------


def levels(n=40, seed=0):
    """Return noise at different levels and, as targets, their standardised squares."""
    rng = np.random.default_rng(seed)
    level = rng.uniform(-2, 2, n)
    squares = level**2
    series = as_series([values + rng.normal(0, 0.1, 50) for values in level])
    return series, (squares - squares.mean()) / squares.std()


def test_numbers_that_no_plane_predicts_are_learned():
    series, targets = levels(100)
    forest, errors = Forest.fit_regression(series[:70], targets[:70], np.ones(70))
    new = targets[70:] - forest.predictions(series[70:])
    assert np.mean(new**2) < 0.1
    assert np.mean(errors**2) < 0.1


def test_errors_are_of_trees_that_have_not_seen_the_series():
    series = as_series(np.random.default_rng(0).standard_normal((30, 50)))
    targets = np.random.default_rng(1).standard_normal(30)
    forest, errors = Forest.fit_regression(series, targets, np.ones(30))
    np.testing.assert_allclose(forest.predictions(series), targets, atol=1e-5)
    assert np.std(errors) > 0.8


@settings(max_examples=4, deadline=None)
@given(st.randoms(use_true_random=False))
def test_neither_rounding_nor_order_of_the_series_decides_a_split(random):
    series, targets = levels()
    expected = Forest.fit_regression(series, targets, np.ones(40))[0].predictions(series)
    order = np.array(random.sample(range(40), 40))
    shuffled = [series[index] for index in order]
    rounded = targets[order] * (1 + 1e-13 * random.random())
    found = Forest.fit_regression(shuffled, rounded, np.ones(40))[0].predictions(series)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_two_series_are_enough_for_numbers():
    series = as_series([np.zeros(20), np.ones(20)])
    forest, errors = Forest.fit_regression(series, np.array([-1.0, 1.0]), np.ones(2))
    np.testing.assert_allclose(forest.predictions(series), [-1, 1])
    np.testing.assert_allclose(errors, [-2, 2])


def test_rebuilt_from_its_arrays_a_forest_predicts_the_same_numbers():
    series, targets = levels()
    forest = Forest.fit_regression(series, targets, np.ones(40))[0]
    again = Forest.from_arrays(forest.arrays(), 0, 1)
    np.testing.assert_array_equal(again.predictions(series), forest.predictions(series))
    damaged = forest.arrays() | {"vote": np.full_like(forest.vote, np.inf)}
    assert refusal(Forest.from_arrays, damaged, 0, 1) == "vote has values that are not finite"


@pytest.mark.parametrize("strategy", ["probe", "finetune"])
def test_a_regressor_averages_its_model_and_its_forest(encoder, strategy):
    X, y = levels()
    params = {"epochs": 1, "random_state": 0}
    both = NuTimeRegressor(strategy, encoder, **params).fit(X, y)
    alone = NuTimeRegressor(strategy, encoder, forest=False, **params).fit(X, y)
    assert alone.forest_ is None
    trees = both.target_mean_ + both.target_scale_ * both.forest_.predictions(X)
    weight = both.forest_weight_
    assert 0.5 < weight <= 1
    np.testing.assert_allclose(both.predict(X), (1 - weight) * alone.predict(X) + weight * trees, atol=1e-6)
    assert both.interval_half_width() < alone.interval_half_width()
