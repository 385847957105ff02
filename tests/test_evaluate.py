"""Cross-validation and hold-out: what is trained on, what is scored, and the measures."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score

from nutime.data.series import as_series
from nutime.estimators.base import EmbeddedSeries
from nutime.estimators.classifier import NuTimeClassifier
from nutime.evaluate import ALWAYS_TRAINED, Validation, deal_folds, hold_out, validate
from waves import waves

LABELS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=60).map(np.array)


def members_of(labels):
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


@given(LABELS, st.integers(2, 9), st.integers(0, 3))
def test_every_class_is_trained_on_in_every_round(labels, folds, seed):
    for parts in (deal_folds(labels, folds, seed), hold_out(labels, 0.3, seed)):
        for part in set(parts.tolist()) - {ALWAYS_TRAINED}:
            assert set(labels[parts != part]) == set(labels)


@given(LABELS, st.integers(2, 9), st.integers(0, 3))
def test_every_series_that_has_another_of_its_class_is_in_one_fold(labels, folds, seed):
    parts = deal_folds(labels, folds, seed)
    for members in members_of(labels):
        assert (parts[members] >= 0).all() == (len(members) > 1)
    assert parts.max() < folds


@given(LABELS, st.integers(2, 9))
def test_folds_are_equally_large_as_a_whole_and_in_every_class(labels, folds):
    parts = deal_folds(labels, folds, seed=0)
    dealt = parts[parts >= 0]
    assert np.ptp(np.bincount(dealt, minlength=folds)) <= 1
    for members in members_of(labels):
        if len(members) > 1:
            assert np.ptp(np.bincount(parts[members], minlength=folds)) <= 1


@given(LABELS, st.floats(0.01, 0.99))
def test_a_hold_out_takes_its_share_of_every_class_but_one_at_least_and_never_all(labels, share):
    held_out = hold_out(labels, share, seed=0) == 0
    for members in members_of(labels):
        count = held_out[members].sum()
        assert count < len(members)
        assert abs(count - share * len(members)) <= 1 or count == 1
        assert count or len(members) == 1


def test_the_seed_decides_who_is_in_which_fold():
    labels = np.array(["a", "b"] * 20)
    np.testing.assert_array_equal(deal_folds(labels, 5, seed=1), deal_folds(labels, 5, seed=1))
    assert (deal_folds(labels, 5, seed=1) != deal_folds(labels, 5, seed=2)).any()


@pytest.mark.parametrize("share", [0, 1, -0.5, float("nan")])
def test_a_share_must_lie_between_0_and_1(share):
    with pytest.raises(ValueError, match="between 0 and 1"):
        hold_out(np.array(["a", "b"]), share, seed=0)


def test_one_fold_is_refused():
    with pytest.raises(ValueError, match="at least 2 folds"):
        deal_folds(np.array(["a", "b"]), 1, seed=0)


def test_a_validation_predicts_what_a_classifier_trained_on_the_rest_predicts(encoder):
    X, y = waves()
    series, labels = as_series(X), y.astype(str)
    parts = deal_folds(labels, 3, seed=0)
    embedded = EmbeddedSeries.embed(series, encoder, NuTimeClassifier().pool)
    found = validate(lambda: NuTimeClassifier(encoder=encoder), embedded, labels, parts)
    for part in range(3):
        train, test = np.flatnonzero(parts != part), np.flatnonzero(parts == part)
        one = NuTimeClassifier(encoder=encoder).fit([X[index] for index in train], labels[train])
        np.testing.assert_array_equal(found.predicted[test], one.predict([X[index] for index in test]))
    np.testing.assert_array_equal(found.labels, labels)


def test_the_only_series_of_a_class_is_not_scored(encoder):
    X, y = waves(9)
    labels = np.array([*y[:8].astype(str), "alone"])
    parts = deal_folds(labels, 2, seed=0)
    found = validate(lambda: NuTimeClassifier(encoder=encoder), as_series(X), labels, parts)
    assert len(found.labels) == 8
    assert found.classes.tolist() == ["0", "1", "alone"]


def test_there_is_no_result_where_every_class_has_one_series(encoder):
    X, _ = waves(2)
    labels = np.array(["a", "b"])
    parts = deal_folds(labels, 5, seed=0)
    assert validate(lambda: NuTimeClassifier(encoder=encoder), as_series(X), labels, parts) is None


def test_rounds_are_reported(encoder):
    X, y = waves(12)
    reported = []
    parts = deal_folds(y, 3, seed=0)
    validate(lambda: NuTimeClassifier(encoder=encoder), as_series(X), y, parts, lambda *of: reported.append(of))
    assert reported == [(1, 3), (2, 3), (3, 3)]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abcd")), min_size=1, max_size=30))
def test_the_measures_are_those_of_scikit_learn(pairs):
    labels, predicted = (np.array(column) for column in zip(*pairs, strict=True))
    classes = np.array(list("abcd"))
    found = Validation(classes, labels, predicted)
    assert found.accuracy == accuracy_score(labels, predicted)
    scored = np.unique(labels)
    assert found.macro_f1 == f1_score(labels, predicted, labels=scored, average="macro", zero_division=0)
    np.testing.assert_array_equal(found.confusion, confusion_matrix(labels, predicted, labels=classes))
