"""NuTimeDetector: a threshold without labels, and scores that keep their promise."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nutime.estimators.detector import NuTimeDetector, _ranks
from waves import refusal


def normal(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return [np.sin(np.linspace(0, 12, rng.integers(30, 60)) + rng.uniform(0, 6)) for _ in range(n)]


def strange(n=10, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(30, 10, rng.integers(30, 60)) for _ in range(n)]


@pytest.fixture(scope="module")
def detector(encoder):
    return NuTimeDetector(0.1, encoder).fit(normal())


def test_strange_series_are_anomalies(detector):
    assert detector.predict(strange()).tolist() == [-1] * 10


@pytest.mark.parametrize("known", [15, 30, 60])
def test_about_the_stated_share_of_new_normal_series_is_flagged(encoder, known):
    shares = [
        (NuTimeDetector(0.2, encoder).fit(normal(known, seed)).predict(normal(100, seed + 10)) == -1).mean()
        for seed in range(5)
    ]
    assert 0.1 < np.mean(shares) < 0.3


def test_a_known_series_is_judged_as_it_would_be_if_it_were_new(encoder):
    X = normal(40)
    known = NuTimeDetector(0.1, encoder).fit(X).score_samples(X)
    as_new = [NuTimeDetector(0.1, encoder).fit(X[:i] + X[i + 1 :]).score_samples([X[i]])[0] for i in range(40)]
    assert abs(np.mean(known - as_new)) < 0.1 * np.std(as_new)


@pytest.mark.parametrize("contamination", [0.05, 0.1, 0.25, 0.5])
def test_the_stated_share_of_the_training_series_is_flagged(encoder, contamination):
    flagged = NuTimeDetector(contamination, encoder).fit_predict(normal(n=60)) == -1
    assert flagged.sum() == round(60 * contamination)


def test_the_threshold_of_the_anomaly_score_is_one_minus_the_contamination(detector):
    X = normal(seed=2) + strange(seed=2)
    np.testing.assert_array_equal(detector.anomaly_score(X) > 0.9, detector.predict(X) == -1)


def test_anomaly_scores_rank_series_as_the_scores_do_the_other_way_round(detector):
    X = normal(seed=3) + strange(seed=3)
    order = np.argsort(detector.score_samples(X))
    assert (np.diff(detector.anomaly_score(X)[order]) <= 0).all()


def test_anomaly_scores_of_the_training_series_are_spread_evenly(detector):
    scores = np.sort(detector.anomaly_score(normal()))
    np.testing.assert_allclose(scores, np.arange(1, 61) / 61)


def test_beyond_all_training_series_there_is_still_an_order(detector):
    farther = [np.sin(np.linspace(0, 12, 40)) + shift for shift in (0.6, 0.7, 0.8)]
    scores = detector.anomaly_score(farther)
    assert (np.diff(scores) > 0).all()
    assert scores[0] > detector.anomaly_score(normal()).max()
    assert scores[-1] <= 1


def test_the_decision_is_the_score_less_the_offset(detector):
    X = normal(seed=4)
    np.testing.assert_array_equal(detector.decision_function(X), detector.score_samples(X) - detector.offset_)


def test_series_that_are_all_alike_are_all_normal(encoder):
    X = np.tile(np.sin(np.arange(30)), (12, 1))
    detector = NuTimeDetector(0.1, encoder).fit(X)
    assert detector.predict(X).tolist() == [1] * 12
    assert detector.anomaly_score(X).tolist() == [0] * 12


def test_beside_series_that_are_all_alike_whatever_differs_is_an_anomaly(encoder, caplog):
    detector = NuTimeDetector(0.1, encoder).fit(np.zeros((12, 50)))
    assert "the training series are all alike" in caplog.text
    assert detector.predict(np.full((2, 50), 0.0)).tolist() == [1, 1]
    assert detector.predict(strange()).tolist() == [-1] * 10
    np.testing.assert_array_equal(detector.anomaly_score(strange()) > 0.9, True)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.floats(0, 1), st.floats(0, 1))
@example([2e-311], 0.0, 5e-324)
@example([1e-300, 1e-300 + 5e-316], 1e-300, 1e-300 + 5e-316)
def test_the_curve_from_scores_to_shares_rises_from_0_to_1(scores, one, other):
    levels, ranks = _ranks(np.array(scores))
    low, high = np.interp(sorted([one, other]), levels, ranks)
    assert 0 <= low <= high <= 1


@pytest.mark.parametrize("contamination", [0, -0.1, 0.6, np.nan, "auto", None])
def test_a_contamination_that_makes_no_sense_is_refused(encoder, contamination):
    message = refusal(NuTimeDetector(contamination, encoder).fit, normal())
    assert message == f"contamination must be a number in (0, 0.5], got {contamination!r}"


def test_one_series_is_too_few(encoder):
    message = refusal(NuTimeDetector(0.1, encoder).fit, normal(n=1))
    assert message == "a detector needs at least 2 series, got n_samples=1"
