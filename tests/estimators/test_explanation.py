"""Contributions of points: where a class or an anomaly is made, in the shape of the series."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.detector import NuTimeDetector
from nutime.estimators.explanation import _divisions, _embed_variants, _occlude
from nutime.estimators.regressor import NuTimeRegressor

BURST = slice(40, 48)  # one of ten stretches of 80 points


def bursts(n=40, channels=1, length=80, seed=0):
    """Return slow waves with, in every second series, a fast wave at one place of the last channel."""
    rng = np.random.default_rng(seed)
    X = np.sin(np.linspace(0, 6, length) + rng.uniform(0, 6, (n, channels, 1)))
    labels = np.arange(n) % 2
    X[labels == 1, -1, BURST] += 3 * np.sin(np.arange(8) * 2)
    return X, labels


def is_at_burst(contribution):
    """Whether the burst of the last channel contributes more than any other stretch of its width."""
    means = np.array([np.convolve(channel, np.ones(8) / 8, "valid") for channel in contribution])
    channel, start = np.unravel_index(means.argmax(), means.shape)
    return channel == len(contribution) - 1 and abs(start - BURST.start) <= 4


@pytest.mark.parametrize(
    ("params", "channels"),
    [({}, 1), ({}, 3), ({"strategy": "finetune", "trained": "head", "epochs": 1, "random_state": 0}, 3)],
    ids=["probe", "probe-channels", "finetune-channels"],
)
def test_the_class_is_explained_by_the_stretch_that_makes_it(encoder, params, channels):
    X, y = bursts(channels=channels)
    classifier = NuTimeClassifier(encoder=encoder, **params).fit(X, y)
    contributions = classifier.explain(X[1:6:2])
    assert [values.shape for values in contributions] == [(channels, 80)] * 3
    assert all(map(is_at_burst, contributions))
    assert min(values[-1, BURST].mean() for values in contributions) > 0


def test_an_anomaly_is_explained_by_the_stretch_that_makes_it(encoder):
    X, y = bursts(n=60)
    detector = NuTimeDetector(encoder=encoder).fit(X[y == 0])
    assert all(map(is_at_burst, detector.explain(X[1:10:2])))


def test_a_number_is_explained_by_the_stretch_that_makes_it(encoder):
    X, y = bursts(channels=2)
    regressor = NuTimeRegressor(encoder=encoder).fit(X, y * 100.0)
    contributions = regressor.explain(X[1:6:2])
    assert all(map(is_at_burst, contributions))
    assert min(values[-1, BURST].mean() for values in contributions) > 1


def test_a_training_series_is_not_explained_by_its_likeness_to_itself(encoder):
    X, y = bursts(n=60)
    known, others = X[y == 0][:1], X[y == 0][1:]
    as_known = NuTimeDetector(encoder=encoder).fit(np.concatenate([known, others])).explain(known)
    as_new = NuTimeDetector(encoder=encoder).fit(others).explain(known)
    np.testing.assert_allclose(as_known, as_new, atol=0.2 * np.ptp(as_new))


def test_the_contribution_is_the_decrease_of_the_log_odds(encoder):
    X, y = bursts()
    classifier = NuTimeClassifier(encoder=encoder).fit(X, y)
    series = X[1]
    constant = np.array([[1.0, 2.0]])  # two points: every stretch of every width is one point
    decrease = classifier.decision_function([constant]) - classifier.decision_function(
        [np.array([[2.0, 2.0]]), np.array([[1.0, 1.0]])]
    )
    sign = 1 if classifier.predict([constant])[0] == 1 else -1
    np.testing.assert_allclose(classifier.explain([constant])[0][0], sign * decrease, rtol=1e-5)
    assert classifier.explain([series])[0].shape == series.shape


def test_series_of_unequal_length_are_explained_each_in_its_own_shape(encoder):
    X, y = bursts()
    classifier = NuTimeClassifier(encoder=encoder).fit(X, y)
    lengths = [1, 2, 7, 80, 500]
    contributions = classifier.explain([np.sin(np.arange(length)) for length in lengths])
    assert [values.shape for values in contributions] == [(1, length) for length in lengths]
    assert all(np.isfinite(values).all() for values in contributions)
    assert not contributions[0].any()  # a single point has no neighbours to replace it


def test_channels_embedded_once_give_what_embedding_all_of_them_gives(encoder):
    X, y = bursts(channels=3)
    classifier = NuTimeClassifier(encoder=encoder).fit(X, y)
    variants = [X[1], *X[1] * np.array([0.5, 1, 1])[:, None] ** np.arange(4)[:, None, None]]
    np.testing.assert_array_equal(_embed_variants(classifier, variants).embedding, classifier._features(variants))


@given(st.integers(1, 3000))
def test_a_division_has_stretches_of_equal_length(length):
    for division, count in zip(_divisions(length), (10, 20, 40), strict=True):
        sizes = np.bincount(division)
        assert len(sizes) == min(count, length)
        assert np.ptp(sizes) <= 1
        assert (np.diff(division) >= 0).all()


@given(st.integers(2, 200), st.data())
def test_an_occluded_stretch_is_a_line_and_the_rest_is_unchanged(length, data):
    division = _divisions(length)[data.draw(st.integers(0, 2))]
    mask = division == data.draw(st.integers(0, division[-1]))
    scale = data.draw(st.sampled_from([1e-300, 1, 1e308]))
    values = scale * np.random.default_rng(length).uniform(-1, 1, (2, length))
    occluded = _occlude(values, 1, mask)
    np.testing.assert_array_equal(occluded[0], values[0])
    np.testing.assert_array_equal(occluded[1, ~mask], values[1, ~mask])
    assert np.abs(np.diff(occluded[1, mask] / scale, 2)).max(initial=0) < 1e-9
