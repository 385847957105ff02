"""NuTimeClusterer: k-means on embeddings, with the number of clusters given or found."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.preprocessing import StandardScaler

from nutime.encoder import NuTime
from nutime.estimators import clusterer as module
from nutime.estimators.clusterer import NuTimeClusterer
from waves import refusal, waves


def levels(counts=(8, 8, 8), seed=0):
    """Return the same wave, hardly noisy, on as many far-apart levels as there are counts."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(counts)), counts)
    wave = np.sin(np.linspace(0, 12, 32))
    return [wave + 20 * level + rng.normal(0, 0.01, 32) for level in y], y


def test_the_number_of_clusters_is_found_by_the_best_silhouette(encoder):
    X, _ = levels()
    found = NuTimeClusterer(None, encoder, max_clusters=5, random_state=0).fit(X)
    by_count = {k: NuTimeClusterer(k, encoder, random_state=0).fit(X).silhouette_ for k in range(2, 6)}
    assert len(found.cluster_centers_) == max(by_count, key=by_count.get)
    assert found.silhouette_ == max(by_count.values())


@pytest.mark.parametrize("counts", [(8, 8), (8, 8, 8), (4, 20)], ids=["two", "three", "uneven"])
@pytest.mark.parametrize("given_count", [True, False], ids=["given", "found"])
def test_far_apart_levels_form_a_cluster_each(encoder, counts, given_count):
    X, y = levels(counts)
    labels = NuTimeClusterer(len(counts) if given_count else None, encoder, random_state=0).fit_predict(X)
    assert adjusted_rand_score(y, labels) == 1


def test_a_new_series_joins_the_nearest_centre(encoder):
    clusterer = NuTimeClusterer(3, encoder, random_state=0).fit(levels(seed=0)[0])
    X, y = levels(seed=1)
    distances = clusterer.transform(X)
    assert distances.shape == (len(X), 3)
    np.testing.assert_array_equal(clusterer.predict(X), distances.argmin(axis=1))
    assert adjusted_rand_score(y, clusterer.predict(X)) == 1


def test_the_series_of_fit_are_predicted_as_labelled(encoder):
    X, _ = waves(n=50)
    clusterer = NuTimeClusterer(7, encoder, random_state=0).fit(X)
    np.testing.assert_array_equal(clusterer.predict(X), clusterer.labels_)


def test_the_silhouette_is_that_of_standardised_embeddings(encoder):
    X, _ = levels()
    clusterer = NuTimeClusterer(3, encoder, random_state=0).fit(X)
    points = StandardScaler().fit_transform(NuTime.from_pretrained(encoder).embed(X).astype(float))
    assert clusterer.silhouette_ == pytest.approx(silhouette_score(points, clusterer.labels_))


def test_one_cluster_has_no_silhouette(encoder):
    assert np.isnan(NuTimeClusterer(1, encoder).fit(waves()[0]).silhouette_)


def test_a_sample_of_many_series_gives_about_the_same_silhouette(encoder, monkeypatch):
    X, _ = levels(counts=(40, 40, 40))
    whole = NuTimeClusterer(3, encoder, random_state=0).fit(X).silhouette_
    monkeypatch.setattr(module, "MAX_SILHOUETTE_SERIES", 60)
    sampled = NuTimeClusterer(3, encoder, random_state=0).fit(X).silhouette_
    assert sampled != whole
    assert sampled == pytest.approx(whole, abs=0.05)


def test_the_number_of_clusters_is_found_among_copies_of_few_series(encoder, recwarn):
    X, _ = levels((1, 1, 1))
    clusterer = NuTimeClusterer(None, encoder, random_state=0).fit(X * 5)
    assert len(clusterer.cluster_centers_) == 3
    assert not [str(warning.message) for warning in recwarn]


def test_distances_are_named(encoder):
    clusterer = NuTimeClusterer(2, encoder, random_state=0).fit(waves()[0])
    assert clusterer.get_feature_names_out().tolist() == ["nutimeclusterer0", "nutimeclusterer1"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_clusters": 0}, "n_clusters must be an integer in [1, inf), got 0"),
        ({"n_clusters": 2.5}, "n_clusters must be an integer in [1, inf), got 2.5"),
        ({"n_clusters": 9}, "n_clusters=9 is more than the series given, n_samples=4"),
        ({"n_clusters": None, "max_clusters": 1}, "max_clusters must be an integer in [2, inf), got 1"),
    ],
    ids=["none-at-all", "half-a-cluster", "more-than-series", "no-choice"],
)
def test_numbers_that_make_no_sense_are_refused(encoder, change, message):
    clusterer = NuTimeClusterer(encoder=encoder).set_params(**change)
    assert refusal(clusterer.fit, waves(n=4)[0]) == message


def test_too_few_series_to_choose_from_are_refused(encoder):
    message = refusal(NuTimeClusterer(encoder=encoder).fit, waves(n=2)[0])
    assert message == "choosing n_clusters takes at least 3 series, got n_samples=2"
