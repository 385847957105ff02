"""``NuTimeDetector``: anomalous series, found without labels.

A one-class SVM on standardised embeddings scores a series by its weighted mean similarity to the support
vectors: 1 if it equals all of them, 0 infinitely far away. The curve that maps every score to the share of
training series with lower scores gives both the threshold and the anomaly score, so the two always agree.

A series is not compared with itself. A training series is scored by the other support vectors, like a new one, and
so the threshold holds for new series too: of series like the 20, 50 or 150 in training, 7, 5 and 5 % are beyond a
threshold for 5 %; they would be 66, 21 and 9 % without this (nine sets of the UCR archive).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import OutlierMixin
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import OneClassSVM

from nutime.checks import check_number
from nutime.data.series import SeriesLike
from nutime.encoder import DEFAULT_WEIGHTS, NuTime
from nutime.estimators.base import Arrays, EmbeddedSeries, Float64, StandardisedEstimator
from nutime.estimators.explanation import explain
from nutime.model.reading import AUTO, Length

# Share of the training series that are support vectors: with fewer, their scores represent new series less well.
_NU = 0.5
# Similarity above which two series are taken to be equal; below 1 because rounding depends on the batch.
EQUAL = 1 - 1e-6
# Variance of standardised embeddings below which there is nothing but rounding.
_MIN_VARIANCE = 1e-8
# Scores below count as 0: interpolation between subnormal numbers would overflow.
_MIN_SCORE = 1e-290
_log = logging.getLogger("nutime")
_CHUNK_SIZE = 4096  # series compared with the support vectors together


class NuTimeDetector(OutlierMixin, StandardisedEstimator):  # type: ignore[misc]
    """Detect anomalous series of any length, scale and number of channels.

    Args:
        contamination: share of the training series assumed to be anomalous, in (0, 0.5].
        encoder: shipped weights by name, a folder written by :meth:`nutime.NuTime.save`, or an encoder.
        pool: how tokens become an embedding, as in :meth:`nutime.NuTime.embed`.
        length: points every series is resized to; ``auto`` follows the series, as in :meth:`nutime.NuTime.embed`.
        device: ``auto`` is CUDA if there is one, else the CPU, and an encoder object's own device.

    Attributes:
        offset_: the score below which a series is an anomaly.
        support_vectors_, dual_coef_, gamma_: the one-class SVM; the coefficients sum to 1.
        itself_: a support vector more similar than this is the series itself, and does not count.
        score_levels_, score_ranks_: the scores of the training series in ascending order, and the share of
            series below each.
        reading_: how series are read, chosen by the series seen by ``fit`` and used for all later ones.
        n_channels_in_: channels of the series seen by ``fit``.
        n_features_in_: columns of the table seen by ``fit``, if it was a table.
    """

    offset_: float
    support_vectors_: Float64
    dual_coef_: Float64
    gamma_: float
    itself_: float
    score_levels_: Float64
    score_ranks_: Float64
    _shapes: ClassVar = {
        "mean_": "d",
        "scale_": "d",
        "support_vectors_": "vd",
        "dual_coef_": "v",
        "gamma_": "",
        "offset_": "",
        "score_levels_": "r",
        "score_ranks_": "r",
    }
    _fitted = (*_shapes, "itself_")

    def __init__(
        self,
        contamination: float = 0.05,
        encoder: str | Path | NuTime = DEFAULT_WEIGHTS,
        *,
        pool: str = "cls+mean",
        length: Length = AUTO,
        device: str | torch.device = "auto",
    ) -> None:
        self.contamination = contamination
        self.encoder = encoder
        self.pool = pool
        self.length = length
        self.device = device

    def fit(self, X: SeriesLike | EmbeddedSeries, y: Any = None) -> Self:
        """Learn from series most of which are normal; ``y`` is ignored."""
        check_number("contamination", self.contamination, "(0, 0.5]")
        points = self._fit_points(X)
        if len(points) < 2:
            raise ValueError(f"a detector needs at least 2 series, got n_samples={len(points)}")
        variance = points.var()
        self.gamma_ = float(1 / (points.shape[1] * (variance if variance > _MIN_VARIANCE else 1)))
        svm = OneClassSVM(nu=_NU, gamma=self.gamma_).fit(points)
        self.support_vectors_ = svm.support_vectors_
        self.dual_coef_ = svm.dual_coef_[0] / svm.dual_coef_.sum()
        self.itself_ = EQUAL
        self.score_levels_, self.score_ranks_ = _ranks(self._similarity(points))
        if variance <= _MIN_VARIANCE:
            _log.warning("the training series are all alike: any series that differs from them is an anomaly")
            self.score_levels_ = np.array([0, EQUAL, 1])
            self.score_ranks_ = np.array([0, self.contamination, 1])
        self.offset_ = float(np.interp(self.contamination, self.score_ranks_, self.score_levels_))
        return self

    def _restore(self, arrays: Arrays) -> None:
        # Detectors of the first release compared series with themselves too, and still do.
        super()._restore({"itself_": np.array(np.inf), **arrays})

    def score_samples(self, X: SeriesLike | EmbeddedSeries) -> Float64:
        """Return how normal each series is, in [0, 1]."""
        return self._similarity(self._points(X))

    def decision_function(self, X: SeriesLike | EmbeddedSeries) -> Float64:
        """Return the score minus the threshold: negative for anomalies."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: SeriesLike | EmbeddedSeries) -> NDArray[np.intp]:
        """Return −1 for anomalies and +1 for normal series."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def anomaly_score(self, X: SeriesLike | EmbeddedSeries) -> Float64:
        """Return how anomalous each series is: 1 − the share of the training series that score lower.

        0 is the most normal and 1 the most anomalous value; the threshold of :meth:`predict` is
        1 − ``contamination``. Between training scores, and from the outermost of them to the ends of the scale,
        the share is interpolated, so that series beyond all training series are still ordered.
        """
        return 1 - np.interp(self.score_samples(X), self.score_levels_, self.score_ranks_)

    def explain(self, X: SeriesLike | EmbeddedSeries) -> list[Float64]:
        """Return what every point contributes to the anomaly of each series, ``(channels, length)`` each.

        A contribution is the decrease of ``-log(score_samples)`` when the stretch around the point becomes a
        straight line: positive where the series is unlike the training series. Padding is not part of a series.
        """
        return explain(self, X, self._negative_log_similarity)

    def _negative_log_similarity(self, variants: EmbeddedSeries) -> Float64:
        kernel = rbf_kernel(self._points(variants), self.support_vectors_, self.gamma_)
        weights = self.dual_coef_.copy()
        own = kernel[0].argmax()
        if kernel[0, own] > self.itself_ and weights[own] < 1:
            weights[own] = 0  # also the variants of a training series are not compared with it
        similarity = kernel @ weights / weights.sum()
        return np.asarray(-np.log(np.maximum(similarity, _MIN_SCORE)))

    def _similarity(self, points: Float64) -> Float64:
        # The kernel has one row per series and one column per support vector.
        parts = np.split(points, range(_CHUNK_SIZE, len(points), _CHUNK_SIZE))
        return np.concatenate([self._chunk_similarity(part) for part in parts])

    def _chunk_similarity(self, points: Float64) -> Float64:
        kernel = rbf_kernel(points, self.support_vectors_, self.gamma_)
        own = np.where(kernel.max(1) > self.itself_, self.dual_coef_[kernel.argmax(1)], 0)
        own[own == 1] = 0  # a single support vector has no others
        similarity: Float64 = (kernel @ self.dual_coef_ - own) / (1 - own)
        return np.where(similarity > EQUAL, 1, np.maximum(similarity, 0))  # rounding may move it beyond 0 or 1


def _ranks(scores: Float64) -> tuple[Float64, Float64]:
    """Return the distinct scores with the share of series below each, from (0, 0) to (1, 1)."""
    levels, counts = np.unique(np.where(scores < _MIN_SCORE, 0, scores), return_counts=True)
    middle = np.cumsum(counts) - (counts - 1) / 2  # equal scores share the mean of their ranks
    ranks = middle / (len(scores) + 1)
    return np.concatenate([[0.0], levels, [1.0]]), np.concatenate([[0.0], ranks, [1.0]])
