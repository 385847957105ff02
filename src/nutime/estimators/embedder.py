"""``NuTimeEmbedder``: the encoder as a step of a scikit-learn pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from nutime.data.series import SeriesLike
from nutime.encoder import DEFAULT_WEIGHTS, NuTime
from nutime.estimators.base import EmbeddedSeries, SeriesEstimator, SeriesTransformer
from nutime.model.reading import AUTO, Length


class NuTimeEmbedder(SeriesTransformer, SeriesEstimator):
    """Embed series; ``fit`` chooses how they are read, and learns nothing else.

    Args:
        encoder: shipped weights by name, a folder written by :meth:`nutime.NuTime.save`, or an encoder.
        pool: how tokens become an embedding, as in :meth:`nutime.NuTime.embed`.
        length: points every series is resized to; ``auto`` follows the series, as in :meth:`nutime.NuTime.embed`.
        device: ``auto`` is CUDA if there is one, else the CPU, and an encoder object's own device.

    Attributes:
        reading_: how series are read, chosen by the series seen by ``fit`` and used for all later ones.
        n_channels_in_: channels of the series seen by ``fit``.
        n_features_in_: columns of the table seen by ``fit``, if it was a table.
    """

    _n_features_out: int
    _fitted = ("_n_features_out",)

    def __init__(
        self,
        encoder: str | Path | NuTime = DEFAULT_WEIGHTS,
        *,
        pool: str = "cls+mean",
        length: Length = AUTO,
        device: str | torch.device = "auto",
    ) -> None:
        self.encoder = encoder
        self.pool = pool
        self.length = length
        self.device = device

    def fit(self, X: SeriesLike | EmbeddedSeries, y: Any = None) -> Self:
        """Load the encoder; record the number of channels and how series are read."""
        self._start_fit(X)
        self._n_features_out = self.reading_.size(self.encoder_.config, self.n_channels_in_)
        return self

    def transform(self, X: SeriesLike | EmbeddedSeries) -> NDArray[np.float32]:
        """Return one vector per series, ``(n, d)`` float32."""
        given, ids = self._read_with_ids(X)
        return self._by_series(self._features(given, self._n_features_out), X, ids)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags
