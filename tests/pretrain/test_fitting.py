import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tiny_recipe import TINY

from nutime.model.network import NuTimeNetwork
from nutime.pretrain.fitting import fit_to_corpus, fit_to_series, needs_fitting, quantile_edges, tree_edges

VALUES = arrays.arrays(np.float64, st.integers(2, 60), elements=st.floats(-1e30, 1e30))


@given(VALUES, st.integers(1, 40))
def test_quantile_edges_increase_and_have_the_given_number(values, bins):
    edges = quantile_edges(values, bins)
    assert edges.shape == (bins + 1,)
    assert (np.diff(edges) > 0).all()


@given(VALUES, st.integers(1, 40))
def test_tree_edges_increase_and_have_the_given_number(values, bins):
    edges = tree_edges(values, np.arange(len(values)) % 3, bins)
    assert edges.shape == (bins + 1,)
    assert (np.diff(edges) > 0).all()


def test_a_range_too_small_to_split_still_has_increasing_edges():
    values = np.array([0.0, 5e-324])
    for edges in (quantile_edges(values, 2), tree_edges(values, np.arange(2), 2)):
        assert (np.diff(edges) > 0).all()


def test_quantile_edges_put_as_many_values_into_every_bin():
    values = np.exp(np.random.default_rng(0).normal(size=8000))
    counts = np.histogram(values, quantile_edges(values, 8))[0]
    np.testing.assert_allclose(counts, 1000, atol=2)


def test_tree_edges_lie_where_targets_change():
    values = np.linspace(0, 1, 1001)
    edges = tree_edges(values, (values > 0.3).astype(int) + (values > 0.7), 3)
    np.testing.assert_allclose(edges, [0, 0.3, 0.7, 1], atol=1e-3)


def test_z_scores_take_mean_and_deviation_of_all_values():
    network = NuTimeNetwork(TINY.replace(normalization="zscore"))
    rng = np.random.default_rng(0)
    fit_to_series(network, [rng.normal(5, 3, (1, 64)) for _ in range(500)], np.zeros(500, int))
    torch.testing.assert_close(
        network.tokens.corpus_statistics, torch.tensor([5.0, 3.0]).double(), atol=0.1, rtol=0
    )


@pytest.mark.parametrize("normalization", ["window", "instance+tokens"])
@pytest.mark.parametrize("scalar_embedding", ["ple-q", "ple-t"])
def test_means_and_deviations_have_bins_of_their_own(corpus, normalization, scalar_embedding):
    network = NuTimeNetwork(TINY.replace(normalization=normalization, scalar_embedding=scalar_embedding))
    before = [module.edges.clone() for module in network.tokens.scalar_embeddings]
    fit_to_corpus(network, corpus)
    means, deviations = (module.edges for module in network.tokens.scalar_embeddings)
    assert means[0] < 0 <= deviations[0]
    assert not any(torch.equal(a, b) for a, b in zip((means, deviations), before, strict=True))


def test_fitting_a_corpus_is_reproducible(corpus):
    edges = []
    for _ in range(2):
        network = NuTimeNetwork(TINY.replace(scalar_embedding="ple-t"))
        fit_to_corpus(network, corpus)
        edges.append(network.tokens.scalar_embeddings[0].edges)
    assert torch.equal(*edges)


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({}, False),
        ({"normalization": "zscore"}, True),
        ({"normalization": "instance"}, False),
        ({"normalization": "instance", "scalar_embedding": "ple-q"}, False),
        ({"scalar_embedding": "ple-t"}, True),
        ({"scalar_embedding": "ple-p"}, False),
    ],
)
def test_only_bins_and_z_scores_need_data(changes, needed):
    assert needs_fitting(TINY.replace(**changes)) is needed
