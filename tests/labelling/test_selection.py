"""What to label next: typical series first, then uncertain ones, never the same thing twice."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import nutime
from nutime.estimators.base import EmbeddedSeries
from nutime.labelling.selection import MAX_CANDIDATES, Space, known_labels, margin_uncertainty
from waves import refusal, waves


@pytest.fixture
def clusters():
    """Return a pool of three far clusters of 30, 20 and 10 points, and an outlier."""
    rng = np.random.default_rng(0)
    centres = np.repeat([[0, 0, 0], [9, 0, 0], [0, 9, 0], [40, 40, 40]], [30, 20, 10, 1], axis=0)
    return Space.of(centres + rng.normal(size=centres.shape)), np.repeat([0, 1, 2, 3], [30, 20, 10, 1])


def none():
    return np.array([], np.intp)


def test_without_labels_each_cluster_gets_one_largest_first_and_outliers_wait(clusters):
    space, cluster = clusters
    chosen = cluster[space.select(none(), np.ones(61), 4)].tolist()
    assert chosen[:3] == [0, 1, 2]
    assert 3 not in chosen


def test_a_labelled_cluster_is_not_suggested_again(clusters):
    space, cluster = clusters
    labelled = space.select(none(), np.ones(61), 2)
    assert cluster[space.select(labelled, np.ones(61), 1)].tolist() == [2]


def test_certain_series_are_not_worth_a_label(clusters):
    space, cluster = clusters
    assert set(cluster[space.select(none(), (cluster == 2).astype(float), 5)]) == {2}


def test_a_larger_count_returns_all_unlabelled_series(clusters):
    space, _ = clusters
    chosen = space.select(np.arange(50), np.ones(61), 100)
    assert sorted(chosen) == list(range(50, 61))


def test_a_large_pool_is_sampled_by_a_seed():
    space = Space.of(np.random.default_rng(0).normal(size=(MAX_CANDIDATES + 50, 3)))
    ones = np.ones(len(space.points))
    same = [space.select(none(), ones, 3, seed) for seed in (0, 0, 1)]
    assert (same[0] == same[1]).all()
    assert (same[0] != same[2]).any()


def test_equal_series_can_be_suggested():
    assert len(Space.of(np.ones((5, 4))).select(none(), np.ones(5), 3)) == 3


def test_the_margin_is_uncertain_where_two_classes_are_equally_probable():
    probabilities = np.array([[0.5, 0.5, 0], [1, 0, 0], [0.6, 0.3, 0.1]])
    np.testing.assert_allclose(margin_uncertainty(probabilities), [1, 0, 0.7])


def test_both_classes_are_among_the_first_suggestions(encoder):
    series, y = waves(40)
    chosen = nutime.suggest(series, n_suggestions=4, model=encoder)
    assert len(set(chosen)) == 4
    assert set(y[chosen]) == {0, 1}


@pytest.mark.parametrize("missing", [None, "", " ", "?", float("nan"), pd.NA])
def test_labelled_series_are_not_suggested(encoder, missing):
    series, y = waves(20)
    labels = [label if index < 12 else missing for index, label in enumerate(map(str, y))]
    assert set(nutime.suggest(series, labels, 20, model=encoder)) == set(range(12, 20))


@pytest.mark.parametrize(
    "make",
    [pl.Series, pa.array, lambda values: pd.Series(values, dtype="Int64")],
    ids=["polars", "Arrow", "pandas"],
)
def test_integers_that_may_be_missing_keep_their_text(make):
    labelled, labels = known_labels(make([3, None, 4]), 3)
    assert (labelled.tolist(), labels.tolist()) == ([0, 2], ["3", "4"])


def test_nothing_is_suggested_if_all_series_have_a_label(encoder, recwarn):
    series, y = waves(20)
    assert nutime.suggest(series, y, model=encoder).tolist() == []
    assert not recwarn


def test_embedded_series_and_a_fitted_classifier_are_accepted(encoder):
    series, y = waves(20)
    embedded = EmbeddedSeries.embed(series, encoder, "auto")
    assert (
        nutime.suggest(embedded, n_suggestions=3) == nutime.suggest(series, n_suggestions=3, model=encoder)
    ).all()
    classifier = nutime.NuTimeClassifier(encoder=encoder, pool="cls").fit(series[:10], y[:10])
    assert len(nutime.suggest(series, n_suggestions=3, model=classifier)) == 3


def test_wrong_arguments_are_refused_in_one_line(encoder):
    series, y = waves(6)
    assert refusal(nutime.suggest, series, y[:3], model=encoder) == "y has 3 labels but X has 6 series"
    assert "n_suggestions" in refusal(nutime.suggest, series, n_suggestions=0, model=encoder)
    points = {name: pd.DataFrame({"x": np.arange(30.0) % (3 + index)}) for index, name in enumerate("cab")}
    known = pd.Series(["u", "v", None], index=list("abc"))
    classifier = nutime.NuTimeClassifier(encoder=encoder).fit(points, ["u", "v", "u"])
    for model in (encoder, classifier):
        assert "y has the ids of X in another order" in refusal(nutime.suggest, points, known, model=model)
    assert nutime.suggest(points, known[list("cab")], model=encoder).tolist() == [0]
    assert "1d array" in refusal(nutime.suggest, points, known.to_dict(), model=encoder)
