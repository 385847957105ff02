"""``NuTimeEmbedder``: the encoder as a step of a scikit-learn pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from nutime.encoder import DEFAULT_WEIGHTS, NuTime
from nutime.estimators.base import SeriesEstimator


class NuTimeEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SeriesEstimator):  # type: ignore[misc]
    """Turn series into vectors; nothing is learned.

    Args:
        encoder: shipped weights by name, a folder written by :meth:`nutime.NuTime.save`, or an encoder.
        pool: how tokens become an embedding: ``cls``, ``mean`` or ``cls+mean``.

    Attributes:
        n_channels_in_: channels of the series seen by ``fit``.
        n_features_in_: columns of the table seen by ``fit``, if it was a table.
    """

    _n_features_out: int
    _fitted = ("_n_features_out",)

    def __init__(self, encoder: str | Path | NuTime = DEFAULT_WEIGHTS, *, pool: str = "cls+mean") -> None:
        self.encoder = encoder
        self.pool = pool

    def fit(self, X: Any, y: Any = None) -> Self:
        """Load the encoder and note the number of channels."""
        series = self._read_first(X)
        self._n_features_out = self._embed(series[:1]).shape[1]
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return one vector a series, ``(n, d)`` float32."""
        series = self._read(X)
        return self.encoder_.embed(series, pool=self.pool)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags
