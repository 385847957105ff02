"""What to label next: the series that cover the most uncertainty.

The gain of a series is how much closer it brings the others to a labelled one, each weighted by the model's
uncertainty about it: the sum of u(x) · max(0, k(x, candidate) − max k(x, labelled)) over the pool, with a Gaussian
kernel k on the standardised embedding. Series are chosen greedily, so that a batch is diverse. Without labels all
weights are equal and the choice is typical series of dense regions; with labels it moves to the boundaries between
classes. This is the "uncertainty herding" of Bae et al. (2024), with the margin as uncertainty.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.extmath import softmax
from sklearn.utils.validation import column_or_1d

from nutime.checks import check_number
from nutime.data.series import SeriesLike, is_labelled, unmasked
from nutime.encoder import SMALL_WEIGHTS, NuTime
from nutime.estimators.base import EmbeddedSeries, Float64, check_order
from nutime.estimators.classifier import NuTimeClassifier
from nutime.finetune.linear import fit_logistic, standardise
from nutime.model.reading import AUTO
from nutime.progress import Report

#: Principal components of the standardised embedding that distances and models use.
N_COMPONENTS = 128
#: Of a larger pool, a random part of this size is considered.
MAX_CANDIDATES = 2000
#: Width of the kernel, in medians of the distance between two series.
_WIDTH = 0.5
_TOLERANCE = 1e-4  # of the solver: changes probabilities by less than 0.02, at a third of the time


@dataclass(frozen=True)
class Space:
    """The embedding of all series, labelled or not, in the form that is searched and learned from.

    It is standardised over the whole pool: a handful of labelled series says little about means and deviations.

    Attributes:
        points: ``(n, r)`` principal components of the standardised embedding.
    """

    points: Float64

    @classmethod
    def of(cls, embedding: NDArray[Any]) -> Self:
        """Standardise and rotate an embedding."""
        rows = torch.from_numpy(standardise(embedding, np.ones(len(embedding)))[0])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            _, _, directions = torch.pca_lowrank(rows, min(N_COMPONENTS, *rows.shape), center=False, niter=4)
        return cls((rows @ directions).numpy())

    def fit(
        self,
        labelled: NDArray[np.intp],
        targets: NDArray[np.intp],
        weights: Float64,
        start: tuple[Float64, Float64] | None = None,
    ) -> tuple[Float64, Float64]:
        """Fit logistic regressions to labelled series, one per row of ``weights``.

        Args:
            labelled: indices of the series.
            targets: their classes as integers.
            weights: ``(problems, labelled)``.
            start: an earlier result with the same classes, or without the last one, from which a fit takes fewer
                steps.

        Returns:
            Coefficients ``(problems, classes, r)`` and intercepts ``(problems, classes)``.
        """
        rows = torch.from_numpy(self.points[labelled]).expand(len(weights), -1, -1)
        classes, n_classes = torch.from_numpy(targets).expand(len(weights), -1), int(targets.max()) + 1
        begin = None
        if start is not None and start[0].shape[1] <= n_classes:
            new = n_classes - start[0].shape[1]
            coef, intercept = np.pad(start[0], [(0, 0), (0, new), (0, 0)]), np.pad(start[1], [(0, 0), (0, new)])
            begin = torch.from_numpy(coef), torch.from_numpy(intercept)
        fitted = fit_logistic(
            rows, classes, torch.from_numpy(weights), n_classes, start=begin, tolerance=_TOLERANCE
        )
        return fitted[0].numpy(), fitted[1].numpy()

    def select(
        self, labelled: NDArray[np.intp], uncertainty: Float64, count: int, random_state: int = 0
    ) -> NDArray[np.intp]:
        """Return up to ``count`` unlabelled series that cover the most uncertainty, best first."""
        candidates = np.setdiff1d(np.arange(len(self.points)), labelled)
        if not len(candidates):
            return candidates
        if len(candidates) > MAX_CANDIDATES:
            generator = np.random.default_rng(random_state)
            candidates = np.sort(generator.choice(candidates, MAX_CANDIDATES, replace=False))
        points, weights = self.points[candidates], uncertainty[candidates].astype(np.float32)
        distances = squared_distances(points, points)
        width = _WIDTH**2 * np.median(distances) or 1
        kernel = np.exp(-distances / (2 * width))
        covered = np.zeros(len(points), np.float32)
        if len(labelled):
            covered = np.exp(-squared_distances(self.points[labelled], points).min(0) / (2 * width))
        chosen: list[int] = []
        for _ in range(min(count, len(candidates))):
            gain = np.maximum(kernel - covered, 0) @ weights
            gain[chosen] = -1
            best = int(gain.argmax())
            chosen.append(best)
            covered = np.maximum(covered, kernel[best])
        return candidates[chosen]


def squared_distances(one: Float64, other: Float64) -> NDArray[np.float32]:
    """Return the squared Euclidean distances between two sets of points, ``(len(one), len(other))``."""
    squares = np.square(one).sum(1)[:, None] + np.square(other).sum(1)
    distances: NDArray[np.float32] = np.maximum(squares - 2 * one @ other.T, 0).astype(np.float32)
    return distances


def margin_uncertainty(probabilities: Float64) -> Float64:
    """Return 1 less the difference of the two highest probabilities of each series."""
    second, first = np.partition(probabilities, -2)[:, -2:].T
    return np.asarray(1 - (first - second))


def suggest(
    X: SeriesLike | EmbeddedSeries,
    y: ArrayLike | None = None,
    n_suggestions: int = 10,
    *,
    model: str | Path | NuTime | NuTimeClassifier = SMALL_WEIGHTS,
    random_state: int = 0,
    device: str | torch.device = "auto",
    verbose: bool | Report = False,
) -> NDArray[np.intp]:
    """Return the indices of the series that are most worth a label, best first.

    Label the first few, and call it again with their labels: the choice gets better with every label.

    Args:
        X: labelled and unlabelled series together, in any form of :mod:`nutime.data.series`; or
            :class:`~nutime.EmbeddedSeries`, to embed them once for several calls.
        y: the labels known so far, one per series; None, NaN or "" where there is none. None: no labels yet.
        n_suggestions: number of series to return; fewer if fewer have no label.
        model: the encoder (a shipped name, a folder or the encoder itself), with which a linear model of the
            labels in ``y`` is fitted; or a fitted classifier, whose uncertainty counts instead.
        random_state: seed of the part that is considered of a pool of more than 2,000 series.
        device: where ``X`` is embedded, as for the estimators.
        verbose: as in :meth:`nutime.NuTime.embed`.
    """
    check_number("n_suggestions", n_suggestions, "[1, inf)", integer=True)
    classifier = model if isinstance(model, NuTimeClassifier) else None
    if classifier:
        X = classifier._embedded(X, verbose=verbose)
    elif not isinstance(X, EmbeddedSeries):
        X = EmbeddedSeries.embed(X, model, AUTO, device=device, verbose=verbose)
    check_order(X.source.ids, y=y)
    labelled, labels = known_labels(y, len(X))
    space = Space.of(X.embedding)
    uncertainty = np.ones(len(X))
    classes, targets = np.unique(labels, return_inverse=True)
    if classifier:
        uncertainty = margin_uncertainty(classifier.predict_proba(X))
    elif len(classes) > 1:
        coef, intercept = space.fit(labelled, targets, np.ones((1, len(targets))))
        uncertainty = margin_uncertainty(softmax(space.points @ coef[0].T + intercept[0]))
    return space.select(labelled, uncertainty, n_suggestions, random_state)


def known_labels(y: Any, n_series: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the indices of the labelled series, and their labels as text."""
    given = np.full(n_series, None) if y is None else column_or_1d(unmasked(y), warn=True)
    if len(given) != n_series:
        raise ValueError(f"y has {len(given)} labels but X has {n_series} series")
    labelled = np.flatnonzero(is_labelled(given))
    return labelled, np.array([str(given[index]) for index in labelled], np.str_)
