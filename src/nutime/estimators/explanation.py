"""Explanation of a prediction: the contribution of every point of a series, by occlusion.

A stretch of one channel is occluded: replaced by the straight line between its neighbours. The contribution of the
stretch is the decrease of the model's score; that of a point is the mean over the three stretches that contain it,
a tenth, a twentieth and a fortieth of the series long. This won deletion tests on training splits against other
widths, overlapping stretches, gradients, integrated gradients and attention (``results/explain/LOG.md``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nutime.data.series import Array, SeriesLike, SeriesSet
from nutime.estimators.base import EmbeddedSeries, Float64, SeriesEstimator, series_of
from nutime.finetune.linear import probe_columns, probe_size

# A series is divided into so many stretches of equal length.
_STRETCHES = (10, 20, 40)


def explain(
    estimator: SeriesEstimator, X: SeriesLike | EmbeddedSeries, score: Callable[[EmbeddedSeries], Float64]
) -> list[Float64]:
    """Return the contribution of every point to the score of each series, ``(channels, length)`` each.

    Args:
        estimator: a fitted estimator.
        X: series as the estimator reads them.
        score: returns one number for each variant of a series; the first variant is the series itself.
    """
    return [_contributions(estimator, values, score) for values in series_of(estimator._read(X))]


def _contributions(
    estimator: SeriesEstimator, values: Array, score: Callable[[EmbeddedSeries], Float64]
) -> Float64:
    divisions = _divisions(values.shape[1])
    masks = [division == stretch for division in divisions for stretch in range(division[-1] + 1)]
    first = np.cumsum([0, *(division[-1] + 1 for division in divisions)])[:-1]  # stretch of each division
    result = np.empty(values.shape)
    for channel in range(len(values)):  # one by one, because variants take memory
        variants = [values, *(_occlude(values, channel, mask) for mask in masks)]
        scores = score(_embed_variants(estimator, variants))
        drops = scores[0] - scores[1:]
        result[channel] = drops[divisions + first[:, None]].mean(0)
    return result


def _embed_variants(estimator: SeriesEstimator, variants: list[Array]) -> EmbeddedSeries:
    """Embed variants of one series.

    A univariate encoder embeds channels one by one: each distinct channel is embedded once.
    """
    encoder, reading, channels = estimator.encoder_, estimator.reading_, len(variants[0])
    if channels == 1 or encoder.config.channels > 1:
        embedding = estimator._features(variants)
    else:
        distinct, places = np.unique(np.concatenate(variants), axis=0, return_inverse=True)
        by_channel = replace(reading, convolved=0, segments=0)
        width, count = by_channel.size(encoder.config, 1), probe_size(reading, encoder.config, channels)
        of_channels = encoder.embed(list(distinct[:, None]), reading=by_channel)
        columns = probe_columns(reading, encoder.config, channels, count)
        of_all = columns[columns >= channels * width] - channels * width  # columns that read all channels
        channel, column = np.divmod(columns[: len(columns) - len(of_all)], width)
        embedding = of_channels[places.reshape(len(variants), channels)[:, channel], column]
        if reading.convolved:
            convolutions = encoder.convolutions(variants, reading)
            embedding = np.concatenate([embedding, convolutions[:, of_all]], axis=1)
    return EmbeddedSeries(SeriesSet(variants), embedding, encoder, reading)


def _divisions(length: int) -> NDArray[np.intp]:
    """Return the stretch of every point in each division, ``(divisions, length)``."""
    counts = np.minimum(_STRETCHES, length)
    return np.asarray(np.arange(length) * counts[:, None] // length)


def _occlude(values: Array, channel: int, mask: NDArray[np.bool_]) -> Array:
    """Return a copy of a series with one stretch of a channel as a straight line, constant at the ends."""
    result = values.copy()
    if not mask.all():
        points = np.arange(len(mask))
        # Halves, because the slope between two huge values would overflow.
        result[channel, mask] = 2 * np.interp(points[mask], points[~mask], values[channel, ~mask] / 2)
    return result
