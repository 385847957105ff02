"""NuTimeRegressor: numbers of any scale, honest intervals, and the way to it from a classifier."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from nutime.encoder import NuTime
from nutime.estimators.base import EmbeddedSeries
from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.regressor import NuTimeRegressor
from nutime.finetune import linear
from nutime.finetune import train as trainer
from nutime.finetune.linear import LinearProbe
from waves import refusal, waves


def tones(n=60, seed=0, noise=0.1):
    """Return waves of unequal length and, as targets, the logarithm of their amplitude with noise."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(-1, 1, n)
    X = [np.exp(target) * np.sin(np.linspace(0, 12, rng.integers(30, 60)) + rng.uniform(0, 6)) for target in y]
    return X, y + rng.normal(0, noise, n)


def tuned(encoder, **changes):
    return NuTimeRegressor("finetune", encoder, **{"epochs": 2, "batch_size": 32, "random_state": 0, **changes})


@pytest.fixture(scope="module", autouse=True)
def few_steps():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "MIN_STEPS", 10)
        yield


@pytest.fixture(scope="module")
def model(encoder):
    return NuTime.from_pretrained(encoder)


@pytest.fixture(scope="module")
def fitted(model):
    return {"probe": NuTimeRegressor(encoder=model).fit(*tones()), "finetune": tuned(model).fit(*tones())}


# ---- predictions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["probe", "finetune"])
def test_most_of_the_variance_of_new_series_is_predicted(fitted, strategy):
    assert fitted[strategy].score(*tones(seed=1)) > 0.7


@pytest.mark.parametrize("make", [lambda model: NuTimeRegressor(encoder=model), tuned], ids=["probe", "finetune"])
def test_a_linear_change_of_the_targets_changes_the_predictions_alike(model, make):
    X, y = tones(30)
    new = tones(20, seed=1)[0]
    plain = make(model).fit(X, y)
    for factor, offset in ((1e9, 1e12), (-1e-9, 3e-6), (1e200, 0.0)):
        changed = make(model).fit(X, factor * y + offset)
        np.testing.assert_allclose((changed.predict(new) - offset) / factor, plain.predict(new), rtol=1e-6)
        np.testing.assert_allclose(
            (changed.predict_interval(new) - offset)[:, :: int(np.sign(factor))] / factor,
            plain.predict_interval(new),
            rtol=1e-6,
        )


def test_a_constant_target_is_predicted_as_it_is(model):
    X, _ = tones(20)
    fitted = NuTimeRegressor(encoder=model).fit(X, np.full(20, 0.1))
    np.testing.assert_allclose(fitted.predict(X), 0.1, rtol=1e-15)
    np.testing.assert_allclose(fitted.predict_interval(X), 0.1, rtol=1e-12)


def test_the_targets_may_be_integers_text_or_a_column(model):
    X, _ = tones(20)
    y = np.arange(20)
    expected = NuTimeRegressor(encoder=model).fit(X, y).predict(X)
    for other in (y.tolist(), y.astype(str), y.astype(object), pd.Series(y)):
        np.testing.assert_array_equal(NuTimeRegressor(encoder=model).fit(X, other).predict(X), expected)


def test_a_weight_counts_as_repetition_and_zero_as_absence(model):
    X, y = tones(20)
    weight = np.arange(20) % 3
    repeated = np.repeat(np.arange(20), weight)
    weighted = NuTimeRegressor(encoder=model, pool="upper").fit(X, y, weight)
    copies = NuTimeRegressor(encoder=model, pool="upper").fit([X[index] for index in repeated], y[repeated])
    np.testing.assert_allclose(weighted.predict(X), copies.predict(X))
    np.testing.assert_allclose(weighted.predict_interval(X, 0.5), copies.predict_interval(X, 0.5))


@pytest.mark.parametrize("scale", [1e-300, 1e-6, 8e307])
def test_the_scale_of_the_weights_does_not_matter(model, scale):
    X, y = tones(20)
    weight = np.random.default_rng(0).uniform(0.5, 2, 20)
    one, other = (NuTimeRegressor(encoder=model).fit(X, y, factor * weight) for factor in (1, scale))
    np.testing.assert_allclose(one.predict(X), other.predict(X))


@pytest.mark.parametrize("strategy", ["probe", "finetune"])
def test_embedded_series_give_the_same_predictions(fitted, model, strategy):
    X, y = tones()
    embedded = EmbeddedSeries.embed(X, model, fitted[strategy].pool)
    again = NuTimeRegressor(**fitted[strategy].get_params()).fit(embedded, y)
    np.testing.assert_allclose(again.predict(embedded), fitted[strategy].predict(X), rtol=1e-6)


@pytest.mark.parametrize("strategy", ["probe", "finetune"])
def test_a_saved_regressor_predicts_the_same(fitted, tmp_path, strategy):
    loaded = NuTimeRegressor.load(fitted[strategy].save(tmp_path / "model"))
    X, _ = tones(seed=1)
    np.testing.assert_array_equal(loaded.predict_interval(X), fitted[strategy].predict_interval(X))
    assert loaded.get_params()["strategy"] == strategy


def test_the_name_of_the_target_is_kept(model, tmp_path):
    X, y = tones(20)
    fitted = NuTimeRegressor(encoder=model).fit(X, pd.Series(y, name="stiffness"))
    assert NuTimeRegressor.load(fitted.save(tmp_path / "model")).target_name_ == "stiffness"


def test_a_column_of_polars_without_a_name_names_no_target(model):
    pl = pytest.importorskip("polars")
    X, y = tones(20)
    assert not hasattr(NuTimeRegressor(encoder=model).fit(X, pl.Series(y)), "target_name_")
    assert NuTimeRegressor(encoder=model).fit(X, pl.Series("stiffness", y)).target_name_ == "stiffness"


# ---- the ridge regression -----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(30, 80), (80, 30)])
def test_the_probe_is_a_ridge_regression_with_the_most_likely_penalty(shape):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape)
    y = X[:, :5].sum(1) + rng.normal(size=len(X))
    rows, *_ = linear.standardise(X, np.ones(len(X)))
    contrasts = np.linalg.qr(np.c_[np.ones(len(X)), rng.normal(size=(len(X), len(X) - 1))])[0][:, 1:]

    def log_likelihood(alpha):
        covariance = contrasts.T @ (np.eye(len(X)) + rows @ rows.T / alpha) @ contrasts
        target = contrasts.T @ y
        scale = target @ np.linalg.solve(covariance, target)
        return -np.linalg.slogdet(covariance)[1] - (len(X) - 1) * np.log(scale)

    best = max(linear._PENALTIES * np.square(rows).sum(), key=log_likelihood)
    probe, _ = LinearProbe.fit_regression(X, y, np.ones(len(X)))
    np.testing.assert_allclose(probe.logits(X)[:, 0], Ridge(best).fit(rows, y).predict(rows), rtol=1e-6)


def test_numbers_that_have_nothing_to_do_with_the_series_are_predicted_near_their_mean(model):
    X, y = tones(40)
    y = np.random.default_rng(1).permutation(y)
    assert NuTimeRegressor(encoder=model).fit(X, y).predict(tones(seed=1)[0]).std() < 0.3 * y.std()


@given(st.integers(0, 2**32), st.sampled_from([(6, 3), (3, 6), (9, 9)]))
@settings(max_examples=20)
def test_leave_one_out_errors_are_those_of_fits_without_the_series(seed, shape):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=shape)
    y, weight = rows[:, 0] + rng.normal(size=len(rows)), rng.uniform(0.5, 2, len(rows))
    alpha = 0.3
    root = np.sqrt(weight / weight.sum())

    def fit(keep):
        share = (weight * keep) / weight.sum()
        design = np.c_[rows, np.ones(len(rows))]
        penalty = alpha * np.diag([1.0] * shape[1] + [0])
        return np.linalg.solve(design.T * share @ design + penalty, design.T * share @ y)

    left_out = [y[i] - np.r_[rows[i], 1] @ fit(np.arange(len(rows)) != i) for i in range(len(rows))]
    center = np.average(rows, axis=0, weights=weight)
    unit = np.square(root[:, None] * (rows - center)).sum()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "_PENALTIES", [alpha / unit])
        given = (torch.from_numpy(part)[None] for part in (rows, np.stack([y, 2 * y], axis=1), weight))
        errors = linear.fit_ridge(*given)[2][0].numpy()
    np.testing.assert_allclose(errors, np.outer(left_out, [1, 2]), rtol=1e-7)


# ---- intervals ----------------------------------------------------------------------------------------


def test_intervals_contain_the_stated_share_of_new_targets(model):
    X, y = tones(600, noise=0.3)
    embedded = EmbeddedSeries.embed(X, model, NuTimeRegressor().pool)
    coverages, shares = [0.8, 0.9], []
    for seed in range(30):
        order = np.random.default_rng(seed).permutation(600)
        train, test = order[:40], order[40:]
        fitted = NuTimeRegressor(encoder=model).fit(embedded[train], y[train])
        errors = np.abs(y[test] - fitted.predict(embedded[test]))
        shares.append([(errors <= fitted.interval_half_width(coverage)).mean() for coverage in coverages])
    np.testing.assert_allclose(np.mean(shares, axis=0), coverages, atol=0.03)


def test_intervals_of_fine_tuned_models_contain_the_stated_share(model):
    X, y = tones(600, noise=0.3)
    shares = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(600)
        train, test = order[:60], order[60:]
        fitted = tuned(model, random_state=seed).fit([X[i] for i in train], y[train])
        lower, upper = fitted.predict_interval([X[i] for i in test]).T
        shares.append(((lower <= y[test]) & (y[test] <= upper)).mean())
    assert 0.84 < np.mean(shares) < 0.96


def test_more_coverage_means_wider_intervals_around_the_prediction(fitted):
    X, _ = tones(seed=1)
    for regressor in fitted.values():
        narrow, wide = (regressor.predict_interval(X, coverage) for coverage in (0.5, 0.95))
        assert (wide[:, 0] <= narrow[:, 0]).all()
        assert (narrow[:, 1] <= wide[:, 1]).all()
        np.testing.assert_allclose(narrow.mean(1), regressor.predict(X))


def test_a_coverage_that_few_series_cannot_support_is_refused(model):
    X, y = tones(8)
    regressor = NuTimeRegressor(encoder=model).fit(X, y)
    message = refusal(regressor.predict_interval, X, 0.9)
    assert message == "coverage 0.9 needs more series; the 8 of fit give at most 0.89"
    assert len(regressor.predict_interval(X, 8 / 9)) == 8


def test_a_single_fine_tuned_model_has_no_intervals(model):
    X, y = tones(20)
    assert "n_estimators >= 2" in refusal(tuned(model, n_estimators=1).fit(X, y).predict_interval, X)


def test_the_trees_of_a_single_fine_tuned_model_have_the_weight_of_those_of_a_probe(model):
    X, y = tones(20, noise=0.5)
    single, probe = (
        regressor.fit(X, y) for regressor in (tuned(model, n_estimators=1), NuTimeRegressor(encoder=model))
    )
    assert 0 < single.forest_weight_ < 1
    assert single.forest_weight_ == pytest.approx(probe.forest_weight_)


def test_copies_of_a_series_do_not_make_intervals_narrower(model):
    X, y = tones(20, noise=0.5)
    once, twice = NuTimeRegressor(encoder=model).fit(X, y), NuTimeRegressor(encoder=model).fit(X + X, np.r_[y, y])
    np.testing.assert_allclose(twice.interval_half_width(), once.interval_half_width())


@pytest.mark.parametrize("unit", [1e-300, 1e300])
def test_the_score_does_not_depend_on_the_unit(model, unit):
    X, y = tones(30)
    expected = NuTimeRegressor(encoder=model).fit(X, y).score(*tones(seed=1))
    X_new, y_new = tones(seed=1)
    score = NuTimeRegressor(encoder=model).fit(X, unit * y).score(X_new, unit * y_new)
    assert score == pytest.approx(expected, rel=1e-6)


# ---- what is refused ----------------------------------------------------------------------------------


DAYS = np.datetime64("2024-01-01") + np.arange(24)


@pytest.mark.parametrize(
    ("y", "reason"),
    [
        (None, "requires y to be passed"),
        (np.ones((24, 2)), "fit one regressor per column"),
        (["a"] * 24, "y must hold numbers; series 0 has 'a'"),
        (np.ma.masked_array(np.ones(24), [1] + 23 * [0]), "y must hold numbers; series 0 has 'None'"),
        (np.full(24, np.nan), "Input y contains NaN"),
        (np.r_[np.inf, np.ones(23)], "contains infinity"),
        (np.ones(23), "y has 23 targets but X has 24 series"),
        (DAYS, "y must hold numbers; series 0 has '2024-01-01"),
        (DAYS.astype("M8[ns]"), "y must hold numbers; series 0 has '2024-01-01"),
        (DAYS.astype(object), "y must hold numbers; series 0 has '2024-01-01"),
        (np.array([*DAYS.astype("M8[ns]"), None])[:-1], "y must hold numbers; series 0 has '2024-01-01"),
        (pd.to_timedelta(np.arange(24), unit="h"), "y holds durations; give numbers"),
    ],
)
def test_targets_that_are_not_one_finite_number_per_series_are_refused(model, y, reason):
    X = waves()[0]
    assert reason in refusal(NuTimeRegressor(encoder=model).fit, X, y)
    assert reason in refusal(NuTimeRegressor(encoder=model).fit(X, np.arange(24)).score, X, y)


def test_an_unknown_strategy_and_a_coverage_of_one_are_refused(model, fitted):
    assert "strategy must be one of" in refusal(NuTimeRegressor("forest", model).fit, *tones(20))
    assert "coverage must be a number in (0, 1)" in refusal(fitted["probe"].predict_interval, tones(20)[0], 1)


MEASURED = {
    "fractions": np.linspace(0, 1, 24),
    "few fractions": np.arange(24) % 3 / 2,
    "fractions as text": np.linspace(0, 1, 24).round(3).astype(str),
    "fractions as objects": np.linspace(0, 1, 24).astype(object),
    "integers with gaps": np.random.default_rng(0).choice(10_000, 24, replace=False),
    "integers with gaps as text": np.random.default_rng(0).choice(10_000, 24, replace=False).astype(str),
}
CODES = {
    "one series per class": np.arange(24),
    "one series per class, as text": np.arange(1, 25).astype(str),
    "a few ids": np.array([1003, 2017, 8001] * 8),
    "versions": np.array(["0.5", "1.5", "2.5"] * 8),
}


@pytest.mark.parametrize("y", MEASURED.values(), ids=MEASURED)
def test_a_classifier_refuses_measured_numbers_and_names_the_regressor(model, y):
    message = refusal(NuTimeClassifier(encoder=model).fit, waves()[0], y)
    assert message.startswith("Unknown label type: continuous")
    assert message.endswith("use NuTimeRegressor or nutime fit --target")


@pytest.mark.parametrize("y", CODES.values(), ids=CODES)
def test_a_classifier_takes_numbers_that_are_codes_of_classes(model, y):
    assert len(NuTimeClassifier(encoder=model).fit(waves()[0], y).classes_) == len(set(y.tolist()))
