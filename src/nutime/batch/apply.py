"""A model applied to a stream of series on this machine: memory does not grow with the input."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nutime.batch.results import Results, open_results
from nutime.batch.source import Chunk, Extent
from nutime.data.series import Array, SeriesSet
from nutime.encoder import NuTime
from nutime.estimators.base import EmbeddedSeries
from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.clusterer import NuTimeClusterer
from nutime.estimators.detector import NuTimeDetector
from nutime.estimators.regressor import NuTimeRegressor

#: Called with the extent and the results of every chunk, in the order of the input.
Observe: TypeAlias = Callable[[Extent, Results], None]


def ignore(extent: Extent, columns: Results) -> None:
    """Do nothing with a chunk of results."""


def apply_model(
    model: Any, chunks: Iterable[Chunk], out: str, *, observe: Observe = ignore, **options: Any
) -> None:
    """Apply a model to every chunk, and write the results as :func:`~nutime.batch.results.open_results` does.

    Args:
        model: an encoder or a fitted estimator.
        chunks: the input; one chunk at a time is held in memory.
        out: where results are written.
        options: those of :func:`result_columns`.
        observe: called after every chunk.
    """
    with open_results(out) as write:
        for chunk in chunks:
            columns = chunk_results(model, chunk, **options)
            write(columns, chunk.part)
            observe(Extent.of(chunk.series), columns)


def chunk_results(model: Any, chunk: Chunk, **options: Any) -> Results:
    """Return ids, labels and the model's results for a chunk; an error begins with the address of the chunk."""
    try:
        return {**chunk.columns, **result_columns(model, chunk.named_series, **options)}
    except ValueError as error:  # for example, other channels than the model was fitted with
        raise ValueError(f"{chunk.address}: {error}") from None


def result_columns(
    model: Any,
    series: list[Array] | SeriesSet | EmbeddedSeries,
    *,
    interval: float | None = None,
    reject_below: float = 0,
) -> Results:
    """Return a model's results as columns with one row per series.

    Args:
        model: an encoder (vectors of whole series, ``e``) or a fitted estimator: class and probabilities
            (``predicted``, ``p_…``), a number (``predicted``, and ``lower`` and ``upper``), ``cluster``, ``score``
            and ``is_anomaly``, or vectors.
        series: finite series, as :func:`~nutime.data.series.as_series` returns them; for an estimator they may be
            embedded already.
        interval: for a regressor, the coverage of prediction intervals; none unless given.
        reject_below: for a classifier, the probability below which no class is predicted: ``predicted`` is "".
    """
    match model:
        case NuTime():
            given = series.series if isinstance(series, EmbeddedSeries) else series
            return {"e": model.embed(given)}
        case NuTimeClassifier():
            probabilities = model.predict_proba(series)
            names = _label_texts(model.classes_)
            columns = {f"p_{name}": column for name, column in zip(names, probabilities.T, strict=True)}
            predicted = np.where(probabilities.max(1) < reject_below, "", names[probabilities.argmax(1)])
            return {"predicted": predicted, **columns}
        case NuTimeRegressor():
            numbers = model.predict(series)
            if interval is None:
                return {"predicted": numbers}
            width = model.interval_half_width(interval)
            return {"predicted": numbers, "lower": numbers - width, "upper": numbers + width}
        case NuTimeClusterer():
            return {"cluster": model.predict(series)}
        case NuTimeDetector():
            score = model.anomaly_score(series)
            return {"score": score, "is_anomaly": score > 1 - model.contamination}
        case _:
            return {"e": model.transform(series)}


def _label_texts(classes: NDArray[Any]) -> NDArray[Any]:
    """Return labels as file readers return them: the class 1.0 in Python is the class 1 of a file."""
    integral = classes.dtype.kind == "f" and bool((classes == np.round(classes)).all())
    return (classes.astype(np.int64) if integral else classes).astype(np.str_)
