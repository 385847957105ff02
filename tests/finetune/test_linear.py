"""Linear classifiers: the solver, probes, and the features they read."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from nutime.data.series import as_series
from nutime.encoder import NuTime
from nutime.estimators.classifier import NuTimeClassifier
from nutime.finetune import linear
from nutime.finetune import train as trainer
from nutime.finetune.linear import (
    LinearProbe,
    feature_kinds,
    fit_logistic,
    left_out_accuracy,
    probe_columns,
    standardise,
)
from nutime.model.config import NuTimeConfig
from nutime.model.reading import Reading
from waves import waves

FEW = 50
UPPER = Reading("upper", 32)


def problem(n, d, classes=3, seed=0):
    """Return normalised samples on a few directions, uneven classes that overlap, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6)) @ rng.standard_normal((6, d)) + 0.5 * rng.standard_normal((n, d))
    X = (X - X.mean(0)) / X.std(0)
    y = np.digitize(X[:, 0] + rng.standard_normal(n), [0.3, 1.5][: classes - 1])
    return X, y, rng.uniform(0.5, 2, n)


def as_tensors(*problems):
    X, y, weights = (np.stack(parts) for parts in zip(*problems, strict=True))
    return torch.tensor(X), torch.tensor(y), torch.tensor(weights)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    ("n", "d"),
    [(40, 300), (200, 30), (150, 7000)],
    ids=["more-coordinates", "more-samples", "many-coordinates"],
)
def test_the_solution_is_scikit_learns_logistic_regression(n, d, classes):
    X, y, weights = problem(n, d, classes)
    weight, bias = fit_logistic(*as_tensors((X, y, weights)), classes)
    found = torch.softmax(torch.tensor(X) @ weight[0].T + bias[0], dim=1).numpy()
    expected = LogisticRegression(max_iter=20000, tol=1e-10).fit(X, y, sample_weight=weights).predict_proba(X)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_solution_does_not_depend_on_problems_solved_with_it():
    one, other = problem(40, 100), problem(40, 100, seed=1)
    alone, together = (fit_logistic(*as_tensors(*problems), n_classes=3) for problems in ([one], [one, other]))
    for mine, beside in zip(alone, together, strict=True):
        torch.testing.assert_close(mine[0], beside[0], atol=1e-6, rtol=1e-6)


def test_a_class_without_samples_is_never_the_most_probable():
    X, y, weights = problem(40, 100)
    weight, bias = fit_logistic(*as_tensors((X, y, weights)), n_classes=5)
    assert (torch.tensor(X) @ weight[0].T + bias[0]).argmax(1).max() < 3


# ---- probes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
def test_a_probe_has_the_probabilities_of_scikit_learns_logistic_regression(encoder, classes):
    embedding = NuTime.from_pretrained(encoder).embed(as_series(waves(n=30)[0]))
    targets = np.arange(30) % classes
    logits = torch.tensor(LinearProbe.fit(embedding, targets).logits(embedding))
    standardised, *_ = standardise(embedding, np.ones(30))
    expected = LogisticRegression(max_iter=5000, tol=1e-10).fit(standardised, targets).predict_proba(standardised)
    np.testing.assert_allclose(logits.softmax(1).numpy(), expected, atol=1e-4)


def test_a_probe_of_constant_features_predicts_the_shares_of_the_classes():
    targets = np.array([0, 0, 0, 1])
    logits = torch.tensor(LinearProbe.fit(np.ones((4, 3)), targets).logits(np.ones((1, 3))))
    np.testing.assert_allclose(logits.softmax(1).numpy(), [[0.75, 0.25]], atol=1e-4)


def test_features_are_divided_by_their_deviation_unless_they_hardly_vary():
    rng = np.random.default_rng(0)
    embedding = np.concatenate([rng.normal(3, 2, (50, 99)), rng.normal(3, 1e-6, (50, 1))], axis=1)
    weight = rng.integers(1, 4, 50).astype(float)
    standardised, mean, scale = standardise(embedding, weight)
    np.testing.assert_allclose(standardised, (embedding - mean) / scale)
    scaler = StandardScaler().fit(embedding, sample_weight=weight)
    np.testing.assert_allclose(mean, scaler.mean_)
    np.testing.assert_allclose(scale[:99], scaler.scale_[:99], rtol=0.03)
    assert 0.1 < scale[99] < 1


def test_a_feature_that_is_nearly_constant_in_few_series_does_not_decide():
    embedding = np.array([[0.0, 0, 0, 0], [0, 0.1, 0, 1e-6], [1, 1, 1, 0], [1, 0.9, 1, 0]])
    probe = LinearProbe.fit(embedding, np.array([0, 0, 1, 1]))
    assert probe.logits(np.array([[1, 1, 1, 1.0]])).argmax() == 1


def test_a_probe_of_two_kinds_of_features_is_the_mean_of_two_probes():
    rng = np.random.default_rng(0)
    embedding, weight = rng.normal(size=(20, 7)), rng.integers(1, 4, 20).astype(float)
    kinds, classes, numbers = [slice(0, 4), slice(4, 7)], np.arange(20) % 3, rng.normal(size=20)
    both = LinearProbe.fit(embedding, classes, weight, kinds=kinds).logits(embedding)
    parts = [LinearProbe.fit(embedding[:, kind], classes, weight).logits(embedding[:, kind]) for kind in kinds]
    np.testing.assert_allclose(both, np.mean(parts, axis=0))
    probe, errors = LinearProbe.fit_regression(embedding, numbers, weight, kinds)
    alone = [LinearProbe.fit_regression(embedding[:, kind], numbers, weight) for kind in kinds]
    outputs = [one.logits(embedding[:, kind]) for (one, _), kind in zip(alone, kinds, strict=True)]
    np.testing.assert_allclose(probe.logits(embedding), np.mean(outputs, axis=0))
    np.testing.assert_allclose(errors, np.mean([left_out for _, left_out in alone], axis=0))


def three_kinds(n=60, seed=0):
    """Return two kinds of features that tell nothing and one that tells the class, and the classes."""
    rng = np.random.default_rng(seed)
    classes = np.arange(n) % 3
    telling = 3 * np.eye(3)[classes] + rng.normal(size=(n, 3))
    return np.concatenate([rng.normal(size=(n, 300)), telling], axis=1), classes


KINDS = [slice(0, 200), slice(200, 300), slice(300, 303)]


def test_of_three_kinds_of_features_those_that_tell_nothing_hardly_count():
    embedding, classes = three_kinds()
    new, expected = three_kinds(300, seed=1)
    telling = LinearProbe.fit(embedding[:, KINDS[2]], classes).logits(new[:, KINDS[2]])
    right = (LinearProbe.fit(embedding, classes, kinds=KINDS).logits(new).argmax(1) == expected).mean()
    equally = [LinearProbe.fit(embedding[:, kind], classes).logits(new[:, kind]) for kind in KINDS]
    assert (np.mean(equally, axis=0).argmax(1) == expected).mean() < right - 0.03
    assert right > (telling.argmax(1) == expected).mean() - 0.03


def test_numbers_are_predicted_by_the_kind_of_features_that_tells_them():
    embedding, _ = three_kinds()
    numbers = embedding[:, 300] - embedding[:, 301]
    probe, errors = LinearProbe.fit_regression(embedding, numbers, np.ones(60), KINDS)
    new, _ = three_kinds(300, seed=1)
    residuals = new[:, 300] - new[:, 301] - probe.logits(new)[:, 0]
    assert residuals.std() < 0.1
    assert errors.std() < 0.1


@pytest.mark.parametrize("n", [30, 1500])
def test_the_leave_one_out_accuracy_is_that_of_new_series(n):
    embedding, classes = (torch.from_numpy(part)[None] for part in three_kinds(n))
    new, expected = three_kinds(3000, seed=1)
    weights = torch.ones(1, n, dtype=torch.float64)
    noise, telling = embedding[..., KINDS[0]], embedding[..., KINDS[2]]
    most_frequent = np.bincount(classes[0]).max() / n
    assert most_frequent <= left_out_accuracy(noise, classes, weights) < 0.5
    truth = (new[:, KINDS[2]].argmax(1) == expected).mean()
    assert left_out_accuracy(telling, classes, weights).item() == pytest.approx(truth, abs=0.1)


def test_features_that_tell_nothing_are_as_good_as_guessing():
    rows = torch.randn(2, 100, 10, generator=torch.Generator().manual_seed(0)).double()
    rows = (rows - rows.mean(1, keepdim=True)).reshape(1, 200, 10)  # both classes have the same mean
    classes = torch.arange(200)[None] // 100
    weights = torch.ones(1, 200, dtype=torch.float64)
    indicators = torch.nn.functional.one_hot(classes).double()
    predicted = indicators - linear.fit_ridge(rows, indicators, weights)[2]
    assert (predicted.argmax(-1) == classes).double().mean() < 0.1
    assert left_out_accuracy(rows, classes, weights) == 0.5


def test_series_of_weight_0_have_no_effect_on_the_leave_one_out_accuracy():
    embedding, classes = (torch.from_numpy(part)[None] for part in three_kinds(40))
    weights = torch.ones(1, 40, dtype=torch.float64)
    weights[:, 30:] = 0
    found = left_out_accuracy(embedding[..., KINDS[2]], classes, weights)
    alone = left_out_accuracy(embedding[:, :30, KINDS[2]], classes[:, :30], weights[:, :30])
    torch.testing.assert_close(found, alone, rtol=1e-6, atol=0)


def test_if_all_series_that_are_left_out_have_weight_0_they_count_equally():
    embedding, classes = (torch.from_numpy(part)[None] for part in three_kinds(1500))
    weights = torch.ones(1, 1500, dtype=torch.float64)
    expected = left_out_accuracy(embedding[..., KINDS[2]], classes, weights)
    weights[:, linear.selected_features(1500, 1000)] = 0
    torch.testing.assert_close(left_out_accuracy(embedding[..., KINDS[2]], classes, weights), expected)


def test_a_class_without_series_has_no_effect_on_the_leave_one_out_accuracy():
    embedding, classes = (torch.from_numpy(part)[None] for part in three_kinds(40))
    weights = torch.ones(1, 40, dtype=torch.float64)
    expected = left_out_accuracy(embedding, classes, weights)
    torch.testing.assert_close(left_out_accuracy(embedding, 2 * classes, weights), expected)


@pytest.mark.parametrize("count", [100, 50])
def test_the_kinds_of_features_are_where_they_are_selected_from(count):
    reading = Reading("cls", 32, convolved=9, segments=8)
    config = NuTimeConfig(dim=16, length=32)
    size = reading.size(config, 3)
    columns = probe_columns(reading, config, 3, count)
    assert len(set(columns)) == count
    network, convolutions, segments = feature_kinds(reading, config, 3, count)
    assert (columns[network] < 48).all()
    assert ((columns[convolutions] >= 48) & (columns[convolutions] < size - 24)).all()
    np.testing.assert_array_equal(columns[segments], np.arange(size - 24, size))
    whole = [slice(0, 48), slice(48, size - 24), slice(size - 24, size)]
    assert feature_kinds(reading, config, 3, size) == whole
    assert feature_kinds(Reading("cls", 32), config, 3, 48) == [slice(0, 48)]


# ---- features -----------------------------------------------------------------------------------------


@pytest.fixture
def few_features(monkeypatch):
    monkeypatch.setattr(linear, "MAX_FEATURES", FEW)
    monkeypatch.setattr(linear, "_MEMORY_BUDGET", 300)  # a few series per chunk


def many_channels(n=20):
    X, y = waves(n, channels=3)
    return list(X), y


def test_of_few_channels_all_is_read(encoder):
    X, _ = many_channels()
    model = NuTime.from_pretrained(encoder)
    reading = Reading("resolutions", 128)
    np.testing.assert_array_equal(linear.probe_features(model, X, reading), model.embed(X, reading=reading))


def test_of_many_channels_always_the_same_part_is_read(encoder, few_features):
    X, _ = many_channels()
    model = NuTime.from_pretrained(encoder)
    whole = model.embed(X, pool="upper")
    part = linear.probe_features(model, X, UPPER)
    chosen = linear.selected_features(whole.shape[1], FEW)
    assert len(set(chosen)) == FEW
    np.testing.assert_array_equal(part, whole[:, chosen])
    np.testing.assert_array_equal(linear.probe_features(model, X[3:5], UPPER), part[3:5])


@pytest.mark.parametrize("strategy", ["probe", "finetune"])
def test_a_classifier_of_many_channels_reads_what_it_was_fitted_on(
    encoder, few_features, strategy, tmp_path, monkeypatch
):
    monkeypatch.setattr(trainer, "MIN_STEPS", 1)
    X, y = many_channels(40)
    fitted = NuTimeClassifier(strategy, encoder, epochs=3, random_state=0).fit(X[:24], y[:24])
    assert fitted.score(X[24:], y[24:]) > 0.7
    probabilities = fitted.predict_proba(X)
    monkeypatch.setattr(linear, "MAX_FEATURES", 2 * FEW)  # as a later version might
    fitted.save(tmp_path)
    np.testing.assert_array_equal(NuTimeClassifier.load(tmp_path).predict_proba(X), probabilities)


def test_problems_that_are_solved_early_or_have_one_class_do_not_disturb_others():
    rows, targets, _ = as_tensors(problem(20, 40, classes=2))
    weights = torch.ones(3, 20, dtype=torch.float64)
    weights[1, targets[0] == 0] = 0
    weights[2, 0] = 0
    together = fit_logistic(rows.expand(3, -1, -1), targets.expand(3, -1), weights, 2)
    assert all(part.isfinite().all() for part in together)
    for index in (0, 2):
        alone = fit_logistic(rows, targets, weights[index : index + 1], 2)
        for one, other in zip(together, alone, strict=True):
            torch.testing.assert_close(one[index], other[0], rtol=1e-9, atol=1e-9)


def test_a_start_where_probabilities_are_saturated_leads_to_the_same_solution():
    rows, targets, weights = as_tensors(problem(20, 40, classes=2))
    from_zero = fit_logistic(rows, targets, weights, 2)
    one_class = weights * (targets == 0)
    start = fit_logistic(rows, targets, one_class, 2)
    for one, other in zip(fit_logistic(rows, targets, weights, 2, start=start), from_zero, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8)
