"""Embeddings of labelled series in two dimensions (paper, Figure 7), by t-SNE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nutime.figures.style import colour_and_marker, grid, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEGEND_CLASSES = 10


class Map(NamedTuple):
    """Points, ``(n, 2)``, and the class of each."""

    points: NDArray[np.floating[Any]]
    labels: NDArray[Any]


@styled
def draw_embedding_map(maps: Mapping[str, Map]) -> Figure:
    """Draw one panel per data set, with one colour and marker per class."""
    figure, axes = grid(len(maps), width=3.4, height=3.4)
    for panel, (name, (points, labels)) in zip(axes, maps.items(), strict=True):
        classes = np.unique(labels)
        for index, label in enumerate(classes):
            x, y = points[labels == label].T
            colour, marker = colour_and_marker(index)
            panel.scatter(x, y, s=16, color=colour, marker=marker, alpha=0.8, linewidth=0, label=label)
        panel.set(xticks=[], yticks=[])
        panel.set_title(f"{name}: {len(points)} series, {len(classes)} classes")
        if len(classes) <= _LEGEND_CLASSES:
            panel.legend(
                loc="upper center",
                bbox_to_anchor=(0.5, -0.01),
                ncols=min(len(classes), 6),
                handletextpad=0.1,
                columnspacing=0.8,
            )
    return figure


def project(embedding: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Project standardised embeddings to two dimensions by t-SNE."""
    from sklearn.manifold import TSNE
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    if len(embedding) < 3:
        raise ValueError(f"a map needs at least 3 series, got {len(embedding)}")
    perplexity = min(30.0, (len(embedding) - 1) / 3)
    tsne = TSNE(2, perplexity=perplexity, init="pca", random_state=0)
    with threadpool_limits(1):  # threads slow it down on so few points
        points: NDArray[np.float32] = tsne.fit_transform(StandardScaler().fit_transform(embedding))
    return points
