"""What linear probes read of a frozen encoder: its embedding, and of many channels a part of it.

A univariate encoder puts the vectors of all channels side by side, which for a thousand channels are millions of
values a series: too many to keep for a few hundred series, and far more than a probe needs. It then reads a part,
drawn once and for all: which part depends on the two sizes alone, so that nothing has to be saved with a model.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nutime.data.series import Array
from nutime.encoder import NuTime
from nutime.model.config import NuTimeConfig
from nutime.model.network import pooled_size

#: Values of an embedding that a probe reads at most.
MOST_FEATURES = 2**15
#: Values of embeddings that are computed before the part that is read is taken out.
_ROOM = 2**26


def embedding_size(config: NuTimeConfig, pool: str, channels: int) -> int:
    """Return the length of the vector that :meth:`NuTime.embed` makes of a series."""
    return pooled_size(config, pool) * (channels if config.channels == 1 else 1)


def chosen_features(size: int, count: int) -> NDArray[np.intp]:
    """Return which ``count`` of ``size`` values are read, in ascending order."""
    return np.sort(np.random.default_rng(0).choice(size, count, replace=False))


def probe_features(
    encoder: NuTime, series: list[Array], pool: str, count: int | None = None
) -> NDArray[np.float32]:
    """Return ``(n, count)``: all of the embedding, or as much of it as a probe may read.

    Args:
        encoder: the frozen encoder.
        series: checked by :func:`~nutime.data.series.as_series`.
        pool: one of :data:`~nutime.model.network.POOLS`.
        count: what a fitted probe reads; for a new one what it may read at most.
    """
    size = embedding_size(encoder.config, pool, len(series[0]))
    count = min(size, MOST_FEATURES) if count is None else count
    if count == size:
        return encoder.embed(series, pool=pool)
    chosen = chosen_features(size, count)
    at_once = max(1, _ROOM // size)
    parts = (series[start : start + at_once] for start in range(0, len(series), at_once))
    return np.concatenate([encoder.embed(part, pool=pool)[:, chosen] for part in parts])
