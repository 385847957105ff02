"""``NuTimeDetector``: which series are unlike the rest, without a single label.

A one-class SVM on standardised embeddings scores a series by its weighted mean similarity to the support
vectors: 1 on top of them all, 0 infinitely far away. The curve that maps every score to the share of training
series scoring lower gives both the threshold and the anomaly score, so the two always agree.

Unusual here: a series is not compared with itself. One that was given to ``fit`` is scored by the other support
vectors, as a new one is, and so the threshold holds for new series too: of those like the 20, 50 or 150 it was
taken from, 7, 5 and 5 % lie beyond it where 5 % are asked for, and 66, 21 and 9 % would without this (nine sets of
the UCR archive).
"""

from __future__ import annotations

from numbers import Real
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import OneClassSVM

from nutime.encoder import DEFAULT_WEIGHTS, NuTime
from nutime.estimators.base import Arrays, Float64, StandardisedEstimator

# Half of the training series carry the model. With few, a threshold taken from their scores means less for others.
_NU = 0.5
# Not quite 1, for batches of other sizes are rounded otherwise.
_ITSELF = 1 - 1e-6
#: Scores below are none at all: between them a curve would rise by more than a number can say.
_NOTHING = 1e-290


class NuTimeDetector(OutlierMixin, StandardisedEstimator):  # type: ignore[misc]
    """Detect anomalous series of any length, scale and number of channels.

    Args:
        contamination: share of the series given to ``fit`` that is held to be anomalous, in (0, 0.5].
        encoder: shipped weights by name, a folder written by :meth:`nutime.NuTime.save`, or an encoder.
        pool: how tokens become an embedding: ``cls``, ``mean`` or ``cls+mean``.

    Attributes:
        offset_: the score below which a series is an anomaly.
        support_vectors_, dual_coef_, gamma_: the one-class SVM; the coefficients sum to 1.
        itself_: a support vector more similar than this is the series itself, and does not count.
        score_levels_, score_ranks_: the scores of the series seen by ``fit`` in rising order, and the share of
            series below each.
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
    _fitted = (
        "mean_",
        "scale_",
        "support_vectors_",
        "dual_coef_",
        "gamma_",
        "itself_",
        "offset_",
        "score_levels_",
        "score_ranks_",
    )

    def __init__(
        self,
        contamination: float = 0.05,
        encoder: str | Path | NuTime = DEFAULT_WEIGHTS,
        *,
        pool: str = "cls+mean",
    ) -> None:
        self.contamination = contamination
        self.encoder = encoder
        self.pool = pool

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what is normal from series that mostly are; ``y`` is ignored."""
        if not (isinstance(self.contamination, Real) and 0 < self.contamination <= 0.5):
            raise ValueError(f"contamination must be in (0, 0.5], got {self.contamination!r}")
        points = self._place_first(X)
        if len(points) < 2:
            raise ValueError(f"a detector needs at least 2 series, got n_samples={len(points)}")
        self.gamma_ = float(1 / (points.shape[1] * (points.var() or 1.0)))
        svm = OneClassSVM(nu=_NU, gamma=self.gamma_).fit(points)
        self.support_vectors_ = svm.support_vectors_
        self.dual_coef_ = svm.dual_coef_[0] / svm.dual_coef_.sum()
        self.itself_ = _ITSELF
        self.score_levels_, self.score_ranks_ = _ranks(self._similarity(points))
        self.offset_ = float(np.interp(self.contamination, self.score_ranks_, self.score_levels_))
        return self

    def restore(self, arrays: Arrays) -> None:
        """Take up what was saved; the first release compared series with themselves too, and is left to."""
        super().restore({"itself_": np.array(np.inf), **arrays})

    def score_samples(self, X: Any) -> Float64:
        """Return how normal each series is, in [0, 1]."""
        return self._similarity(self._place(X))

    def decision_function(self, X: Any) -> Float64:
        """Return the score less the threshold: negative for anomalies."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return −1 for anomalies and +1 for all other series."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def anomaly_score(self, X: Any) -> Float64:
        """Return how anomalous each series is: 1 − the share of the training series that score lower.

        0 is the most normal and 1 the most anomalous a series can be; the threshold of :meth:`predict` lies at
        1 − ``contamination``. Between training scores, and from the outermost of them to the ends of the scale,
        the share is interpolated, so that series beyond all training series still have an order.
        """
        return 1 - np.interp(self.score_samples(X), self.score_levels_, self.score_ranks_)

    def _similarity(self, points: Float64) -> Float64:
        kernel = rbf_kernel(points, self.support_vectors_, self.gamma_)
        own = np.where(kernel.max(1) > self.itself_, self.dual_coef_[kernel.argmax(1)], 0)
        own[own == 1] = 0  # there is nobody else to ask
        similarity: Float64 = (kernel @ self.dual_coef_ - own) / (1 - own)
        return np.clip(similarity, 0, 1)  # rounding may put it beyond


def _ranks(scores: Float64) -> tuple[Float64, Float64]:
    """Return the distinct scores with the share of series below each, from (0, 0) to (1, 1)."""
    levels, counts = np.unique(np.where(scores < _NOTHING, 0, scores), return_counts=True)
    middle = np.cumsum(counts) - (counts - 1) / 2  # equal scores share the mean of their ranks
    ranks = middle / (len(scores) + 1)
    return np.concatenate([[0.0], levels, [1.0]]), np.concatenate([[0.0], ranks, [1.0]])
