"""The linear classifier every frozen embedding is judged by.

Fitting is left to scikit-learn; what is kept are four plain arrays, so that a saved probe needs no pickle and
does not depend on the version of scikit-learn that fitted it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self
from warnings import catch_warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from nutime.data.series import Array
from nutime.encoder import NuTime
from nutime.estimators.base import Arrays, Float64, TrainingSet
from nutime.finetune.features import probe_features


def _logistic_regression(C: float) -> Any:
    # At the usual tolerance of 1e-4 very uneven weights stop the solver long before they have had their effect.
    return LogisticRegression(C=C, max_iter=500, tol=1e-5)


@dataclass(frozen=True)
class LinearProbe:
    """A fitted probe: the strategy that leaves the encoder as it is.

    Attributes:
        mean, scale: what standardises an embedding, ``(d,)``.
        coef, intercept: one row a class, ``(classes, d)`` and ``(classes,)``.
    """

    mean: Float64
    scale: Float64
    coef: Float64
    intercept: Float64

    @classmethod
    def fit(cls, encoder: NuTime, training_set: TrainingSet, params: Mapping[str, Any]) -> Self:
        """Fit a linear classifier on the embedding. Class weights move the classes, not the standardisation."""
        weight = training_set.sample_weight
        embedding = probe_features(encoder, training_set.series, params["pool"]).astype(np.float64)
        scaler = StandardScaler().fit(embedding, sample_weight=weight)
        # The solver makes thousands of small products, for which BLAS threads cost more than they bring: on a
        # busy machine 20 times more. One thread also gives the same digits on any number of cores.
        # With thousands of samples it is stopped before it has converged: the last digits are not worth the time.
        with threadpool_limits(1, "blas"), catch_warnings(action="ignore", category=ConvergenceWarning):
            places, basis = _in_their_span(scaler.transform(embedding))
            linear = _logistic_regression(params["C"]).fit(
                places, training_set.codes, sample_weight=weight * training_set.class_weight[training_set.codes]
            )
            coef, intercept = linear.coef_ @ basis, linear.intercept_
        if len(coef) == 1:  # two classes: scikit-learn keeps the second one's row only, relative to the first
            coef = np.concatenate([np.zeros_like(coef), coef])
            intercept = np.concatenate([np.zeros_like(intercept), intercept])
        return cls(scaler.mean_, scaler.scale_, coef, intercept)

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Rebuild a probe; a ``KeyError`` names what is missing."""
        return cls(arrays["mean"], arrays["scale"], arrays["coef"], arrays["intercept"])

    def arrays(self) -> Arrays:
        """Return the four arrays by name."""
        return asdict(self)

    def logits(self, encoder: NuTime, series: list[Array], params: Mapping[str, Any]) -> Float64:
        """Return ``(n, classes)`` scores."""
        embedding = probe_features(encoder, series, params["pool"], self.coef.shape[1])
        scores: Float64 = (embedding - self.mean) / self.scale @ self.coef.T + self.intercept
        return scores


def _in_their_span(rows: Float64) -> tuple[Float64, Float64]:
    """Return coordinates of the rows in an orthonormal basis of their span, and the basis.

    A penalised linear model never leaves the span of its samples, so this changes nothing but the time: there are
    mostly far fewer samples than coordinates.
    """
    if len(rows) >= rows.shape[1]:
        return rows, np.eye(rows.shape[1])
    left, singular, basis = np.linalg.svd(rows, full_matrices=False)
    return left * singular, basis
