"""NuTimeClassifier: labels of any type, weights, probabilities, and its place in scikit-learn's tools."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from nutime.encoder import NuTime
from nutime.estimators.classifier import NuTimeClassifier
from nutime.finetune import train as trainer
from waves import refusal, wave_table, waves


@pytest.fixture
def classifier(encoder):
    return NuTimeClassifier(encoder=encoder)


def three_classes():
    first, _ = waves(n=30)
    return first, np.arange(30) % 3


@pytest.mark.parametrize(
    "names",
    [
        ["slow", "fast"],
        [7, -3],
        [True, False],
        [0.0, 1.0],
        np.array(["slow", "fast"], dtype=object),
        np.array([3, 10], dtype=object),
        pd.Categorical(["slow", "fast"]),
    ],
    ids=["str", "int", "bool", "float", "object-str", "object-int", "categorical"],
)
def test_labels_come_back_as_they_were_given(classifier, names):
    X, codes = waves()
    y = np.asarray(names)[codes]
    predicted = classifier.fit(X, y).predict(X)
    assert predicted.dtype == y.dtype
    assert predicted.tolist() == y.tolist()
    assert classifier.classes_.tolist() == sorted(np.asarray(names).tolist())


def test_slow_and_fast_waves_are_distinguished(classifier):
    assert classifier.fit(*waves(seed=0)).score(*waves(seed=1)) == 1


@pytest.mark.parametrize("data", [waves, three_classes], ids=["two-classes", "three-classes"])
def test_probabilities_sum_to_one_and_rank_as_the_prediction(classifier, data):
    X, y = data()
    classifier.fit(X, y)
    probabilities = classifier.predict_proba(X)
    assert probabilities.shape == (len(y), len(set(y)))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(classifier.classes_[probabilities.argmax(axis=1)], classifier.predict(X))


def test_the_decision_for_two_classes_is_the_log_odds_of_the_second(classifier):
    X, y = waves()
    classifier.fit(X, y)
    first, second = classifier.predict_proba(X).T
    np.testing.assert_allclose(classifier.decision_function(X), np.log(second / first), rtol=1e-6)


def test_the_decision_for_three_classes_has_a_column_each(classifier):
    X, y = three_classes()
    assert classifier.fit(X, y).decision_function(X).shape == (len(y), 3)


# ---- weights ------------------------------------------------------------------------------------------


def test_a_series_of_weight_zero_counts_as_if_it_were_not_there(classifier):
    X, y = three_classes()
    weighted = classifier.fit(X, y, sample_weight=(y != 2).astype(float))
    assert weighted.classes_.tolist() == [0, 1]
    chance = weighted.predict_proba(X)
    kept = np.flatnonzero(y != 2)
    np.testing.assert_allclose(chance, classifier.fit([X[i] for i in kept], y[kept]).predict_proba(X), rtol=1e-6)


def test_a_heavier_class_is_predicted_more_often(classifier):
    series, _ = waves(n=12)
    X, y = series + series, np.repeat([0, 1], 12)  # the same series in both classes: nothing distinguishes them
    light = classifier.fit(X, y).predict_proba(X)[:, 1]
    heavy = classifier.set_params(class_weight={1: 50}).fit(X, y).predict_proba(X)[:, 1]
    assert (heavy > light + 0.2).all()


def test_huge_weights_act_like_a_weak_penalty(classifier):
    X, y = waves()
    weak = clone(classifier).set_params(C=1e30).fit(X, y).predict_proba(X)
    heavy = classifier.fit(X, y, sample_weight=np.full(len(y), 1e30)).predict_proba(X)
    np.testing.assert_array_equal(heavy, weak)
    classifier.set_params(class_weight=dict.fromkeys(np.unique(y), 1e30))
    np.testing.assert_array_equal(classifier.fit(X, y).predict_proba(X), weak)
    classifier.set_params(class_weight=dict.fromkeys(np.unique(y), 1e300))
    huge = classifier.fit(X, y, sample_weight=np.full(len(y), 1e300)).predict_proba(X)
    np.testing.assert_array_equal(huge.argmax(1), weak.argmax(1))


def test_class_weights_may_name_a_label_of_weight_0(classifier):
    X, y = waves()
    y[0] = 7
    classifier.set_params(class_weight={0: 1, 1: 2, 7: 3}).fit(X, y, sample_weight=y != 7)
    assert 7 not in classifier.classes_


@pytest.mark.parametrize(
    ("names", "dtype", "kind"),
    [([3, 4], "Int64", "i"), ([False, True], "boolean", "b"), (["a", "b"], "string", "O")],
)
def test_labels_of_pandas_that_may_be_missing_keep_their_type(classifier, names, dtype, kind):
    X, y = waves()
    labels = pd.Series([names[code] for code in y], dtype=dtype)
    for _ in range(2):
        classifier.fit(X, labels)
        assert (classifier.classes_.tolist(), classifier.classes_.dtype.kind) == (names, kind)
        assert classifier.score(X, labels) == 1
        labels[0] = pd.NA


@pytest.mark.parametrize("make", [pl.Series, pa.array], ids=["polars", "Arrow"])
@pytest.mark.parametrize("names", [[3, 4], [False, True], ["a", "b"]])
def test_labels_of_polars_and_arrow_that_may_be_missing_keep_their_type(classifier, make, names):
    X, y = waves()
    labels = [names[code] for code in y]
    for _ in range(2):
        classifier.fit(X, make(labels))
        assert [type(name) for name in classifier.classes_.tolist()] == [type(name) for name in names]
        assert classifier.classes_.tolist() == names
        assert classifier.score(X, make(labels)) == 1
        labels[0] = None


def test_labels_of_bytes_are_refused(classifier):
    X, y = waves()
    assert refusal(classifier.fit, X, y.astype("S")).startswith("y holds bytes; expected text or numbers")


def test_balanced_weights_equal_the_dict_that_balances(classifier):
    X, y = waves()
    y[:8] = 0
    counts = np.bincount(y)
    by_hand = {label: len(y) / (2 * count) for label, count in enumerate(counts)}
    balanced = classifier.set_params(class_weight="balanced").fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(balanced, classifier.set_params(class_weight=by_hand).fit(X, y).predict_proba(X))


def test_class_weights_know_labels_of_text(classifier):
    X, codes = waves()
    y = np.array(["slow", "fast"])[codes]
    classifier.set_params(class_weight={"slow": 2.0}).fit(X, y)
    assert classifier.score(X, y) == 1


# ---- among scikit-learn's tools -----------------------------------------------------------------------


def test_a_grid_search_takes_a_list_of_unequal_series(classifier):
    X, y = waves(channels=2)
    search = GridSearchCV(classifier, {"C": [0.01, 1], "pool": ["cls", "mean"]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.9
    assert search.predict(X).shape == y.shape


def test_it_ends_a_pipeline(classifier):
    X, y = wave_table()
    pipeline = make_pipeline(FunctionTransformer(np.tanh), classifier)
    assert cross_val_score(pipeline, X, y, cv=2).mean() > 0.9


@pytest.mark.parametrize("missing", [None, np.nan, "", "?", " NaN "])
@pytest.mark.parametrize("container", [list, lambda y: np.array(y, object)], ids=["list", "objects"])
def test_series_without_a_label_are_left_out_and_counted(classifier, caplog, missing, container):
    X, y = waves(n=12)
    labels = [str(label) for label in y]
    expected = clone(classifier).fit(X[2:], labels[2:])
    given = container([missing, missing, *labels[2:]])
    classifier.fit(X, given)
    assert "2 of 12 series have no label and are left out" in caplog.text
    np.testing.assert_array_equal(classifier.classes_.astype(str), expected.classes_)
    np.testing.assert_array_equal(classifier.predict_proba(X), expected.predict_proba(X))
    assert classifier.score(X, given) == expected.score(X[2:], labels[2:]) > 0


@pytest.mark.parametrize("missing", [None, np.nan])
def test_numbers_without_a_label_are_none_or_nan(classifier, caplog, missing):
    X, y = waves(n=8)
    classifier.fit(X, [missing, *y[1:]])
    assert "1 of 8 series have no label" in caplog.text
    assert classifier.classes_.tolist() == sorted(set(y.tolist()))
    assert classifier.score(X, [missing, *y[1:]]) == classifier.score(X[1:], y[1:]) > 0


def test_labels_that_a_masked_array_hides_are_missing(classifier):
    X, y = waves(n=8)
    masked = np.ma.masked_array(y, [True] + 7 * [False])
    expected = clone(classifier).fit(X[1:], y[1:]).predict_proba(X)
    np.testing.assert_array_equal(classifier.fit(X, masked).predict_proba(X), expected)
    assert classifier.score(X, masked) == classifier.score(X[1:], y[1:])


# ---- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1], "y has 2 labels but X has 4 series"),
        ([1, 1, 1, 1], "y has one class, 1; a classifier needs at least 2 classes"),
        (["a", "a", 1, 2], "y mixes text with int and str; expected labels of one type"),
        (np.array(["a", 1, 2, 3], object), "y mixes int and str; expected labels of one type"),
        (["", "?", None, " "], "y has no labels; a classifier needs at least 2 classes"),
        (["a", None, None, None], "y has one class, 'a'; a classifier needs at least 2 classes"),
        (
            [0.5, 1.5, 2.5, 3.7],
            "Unknown label type: continuous, 4 distinct numbers for 4 series; to predict numbers, use "
            "NuTimeRegressor or nutime fit --target",
        ),
        (None, "a classifier requires y to be passed, but the target y is None"),
    ],
    ids=[
        "other-length",
        "one-class",
        "mixed-list",
        "mixed-objects",
        "blank",
        "one-left",
        "continuous",
        "no-labels",
    ],
)
def test_labels_that_cannot_be_learned_are_refused(classifier, y, message):
    assert refusal(classifier.fit, waves(n=4)[0], y) == message


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 1], "sample_weight has shape (2,) but X has 4 series"),
        ([1, -1, 1, 1], "sample_weight must hold finite numbers that are not negative"),
        ([1, np.nan, 1, 1], "sample_weight must hold finite numbers that are not negative"),
        (["a"] * 4, "sample_weight must hold numbers (could not convert string to float: 'a')"),
        ([0, 0, 0, 0], "sample_weight is all zero; at least one weight must be positive"),
        ([1, 0, 1, 0], "y has one class, 0; a classifier needs at least 2 classes"),
    ],
    ids=["other-length", "negative", "nan", "text", "all-zero", "one-class-left"],
)
def test_weights_that_make_no_sense_are_refused(classifier, weights, message):
    assert refusal(classifier.fit, *waves(n=4), sample_weight=weights) == message


NO_CLASS_WEIGHT = "class_weight must be finite and not negative, and above 0 for at least 2 classes"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strategy": "guess"}, "strategy must be one of probe, finetune; got 'guess'"),
        ({"class_weight": "even"}, "class_weight must be None, 'balanced' or a dict, got 'even'"),
        ({"class_weight": {5: 2}}, "class_weight names 5, which is not a label in y"),
        ({"class_weight": {0: -1.0}}, NO_CLASS_WEIGHT),
        ({"class_weight": {0: np.nan}}, NO_CLASS_WEIGHT),
        ({"class_weight": {0: 0.0}}, NO_CLASS_WEIGHT),
    ],
    ids=["strategy", "class-weight", "class-weight-of-no-class", "negative", "nan", "one-class-left"],
)
def test_parameters_that_make_no_sense_are_refused_by_fit(classifier, change, message):
    assert refusal(classifier.set_params(**change).fit, *waves()) == message


def test_a_probe_reads_a_small_encoder_unless_one_is_chosen(monkeypatch):
    monkeypatch.setattr(trainer, "MIN_STEPS", 1)
    X, y = waves()
    small, base = (NuTime.from_pretrained(name).config for name in ("nutime-small", "nutime-base"))
    assert NuTimeClassifier().fit(X, y).encoder_.config == small
    assert NuTimeClassifier(encoder="nutime-base").fit(X, y).encoder_.config == base
    assert NuTimeClassifier("finetune", trained="head", epochs=1).fit(X, y).encoder_.config == base
