"""Buffers that some encodings estimate from data before training: bins of PLE-Q and PLE-T, statistics of z-scores.

They are part of the weights but not trained. The paper's own encoding has none. PLE-T chooses its bins to separate
targets: classes, or the sources of a corpus, which has no classes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from nutime.data.corpus.store import Corpus
from nutime.data.series import Array, resample
from nutime.model.config import NuTimeConfig
from nutime.model.network import NuTimeNetwork
from nutime.model.scalars import PiecewiseLinearEmbedding
from nutime.model.windows import split_windows, window_statistics

#: Series sampled from a corpus; they have 64,000 windows in the paper's network.
SAMPLE = 2000
#: A smaller range cannot be split into bins.
_MIN_RANGE = 1e-290


def needs_fitting(config: NuTimeConfig) -> bool:
    """Return whether a network has buffers to estimate from data."""
    binned = config.scalar_embedding in ("ple-q", "ple-t")
    return config.normalization == "zscore" or (
        binned and config.normalization in ("window", "instance+tokens") and config.embeds_scalars
    )


def fit_to_corpus(network: NuTimeNetwork, corpus: Corpus, seed: int = 0) -> None:
    """Fit to a sample of a corpus."""
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(len(corpus), min(SAMPLE, len(corpus)), replace=False))
    sample = corpus.take(chosen)
    series = [values[None] for values in np.split(sample.values.numpy(), sample.starts.numpy()[1:])]
    firsts = [source.first for source in corpus.sources]
    fit_to_series(network, series, np.searchsorted(firsts, chosen, side="right"))


@torch.no_grad()
def fit_to_series(network: NuTimeNetwork, series: Sequence[Array], targets: NDArray[np.intp]) -> None:
    """Fit to ``(channels, length)`` series and their targets, one per series."""
    config, tokens = network.config, network.tokens
    resized = torch.from_numpy(resample(list(series), config.length)).double()
    if config.normalization == "zscore":
        tokens.corpus_statistics.copy_(torch.tensor([float(resized.mean()), float(resized.std()) or 1.0]))
        return
    whole = config.normalization != "window"
    statistics = window_statistics(resized if whole else split_windows(resized, config.window))
    for module, scalars in zip(tokens.scalar_embeddings, (statistics.mean, statistics.std), strict=True):
        assert isinstance(module, PiecewiseLinearEmbedding)
        values = scalars.flatten().numpy()
        bins = len(module.edges) - 1
        if config.scalar_embedding == "ple-t":
            edges = tree_edges(values, np.repeat(targets, values.size // len(targets)), bins)
        else:
            edges = quantile_edges(values, bins)
        module.set_edges(torch.from_numpy(edges))


def quantile_edges(values: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """Return ``bins + 1`` increasing edges with about as many values in every bin."""
    return _increasing(np.asarray(np.quantile(values, np.linspace(0, 1, bins + 1)), np.float64), bins + 1)


def tree_edges(values: NDArray[np.float64], targets: NDArray[np.intp], bins: int) -> NDArray[np.float64]:
    """Return ``bins + 1`` increasing edges where a decision tree splits to separate targets."""
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(max_leaf_nodes=max(2, bins), random_state=0).fit(values[:, None], targets).tree_
    cuts = tree.threshold[tree.feature >= 0]
    return _increasing(np.concatenate([[values.min()], cuts, [values.max()]]), bins + 1)


def _increasing(edges: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Drop equal edges, and halve the widest bins until there are ``count`` edges."""
    low, high = edges.min(), edges.max()
    size = max(abs(low), abs(high))
    if high - low <= max(1e-9 * size, _MIN_RANGE):  # all values are equal: centre the bins on them
        return np.linspace(low - (0.5 * size or 0.5), high + (0.5 * size or 0.5), count)
    edges = np.unique(edges)
    edges = edges[np.diff(edges, prepend=-np.inf) > 1e-12 * size][:count]
    while len(edges) < count:
        widest = np.diff(edges).argmax()
        edges = np.insert(edges, widest + 1, (edges[widest] + edges[widest + 1]) / 2)
    return edges
