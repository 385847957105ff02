"""A model applied to a stream of series on this machine: memory does not grow with the input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from hashlib import sha256
from itertools import groupby
from operator import attrgetter, or_
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nutime.batch.model_files import pack
from nutime.batch.results import (
    Results,
    Write,
    has_part,
    open_folder,
    open_part,
    open_results,
    read_part,
    writes_folder,
)
from nutime.batch.source import Chunk, Extent, Source
from nutime.data.series import Array, SeriesSet
from nutime.encoder import NuTime
from nutime.estimators.base import EmbeddedSeries
from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.clusterer import NuTimeClusterer
from nutime.estimators.detector import NuTimeDetector
from nutime.estimators.regressor import NuTimeRegressor
from nutime.version import versions

#: Called with the extent and the results of every chunk, in the order of the input.
Observe: TypeAlias = Callable[[Extent, Results], None]


def ignore(extent: Extent, columns: Results) -> None:
    """Do nothing with a chunk of results."""


def apply_model(
    model: Any,
    chunks: Iterable[Chunk],
    out: str,
    *,
    source: Source | None = None,
    observe: Observe = ignore,
    **options: Any,
) -> None:
    """Apply a model to every chunk, and write the results as :func:`~nutime.batch.results.open_results` does.

    Args:
        model: an encoder or a fitted estimator.
        chunks: the input; one chunk at a time is held in memory.
        out: where results are written; a folder gets one ``.parquet`` file per part of the input.
        source: where the chunks come from. If a run with the same source, model, options and versions was killed,
            this one keeps the parts that were complete in the folder.
        options: those of :func:`result_columns`.
        observe: called after every chunk, or after a part that was kept, whose vectors are replaced by zeros.
    """
    if not writes_folder(out):
        with open_results(out) as write:
            _apply(model, chunks, write, observe, options)
        return
    with open_folder(out, run_key(lambda: pack(model), source, options) if source else None) as folder:
        for number, part in groupby(chunks, attrgetter("part")):
            apply_to_part(model, part, folder, number, observe=observe, **options)


def apply_to_part(
    model: Any, chunks: Iterable[Chunk], folder: str, number: int, *, observe: Observe, **options: Any
) -> None:
    """Write the results of a part unless it exists; ``observe`` is called as by :func:`apply_model`."""
    if has_part(folder, number):
        observe(reduce(or_, (Extent.of(chunk.series) for chunk in chunks)), read_part(folder, number))
        return
    with open_part(folder, number) as write:
        _apply(model, chunks, write, observe, options)


def run_key(
    read_files: Callable[[], Mapping[str, bytes]], source: Source, options: Mapping[str, Any]
) -> str | None:
    """Return a digest of what results depend on, except the device; None if the input is not a Parquet data set.

    Args:
        read_files: returns the model as :func:`~nutime.batch.model_files.pack` does; called only if needed.
        source: the input.
        options: those of :func:`result_columns`.
    """
    input_files = source.fingerprint
    if input_files is None:
        return None
    digests = [(name, sha256(content).hexdigest()) for name, content in sorted(read_files().items())]
    return sha256(repr((versions(), digests, input_files, sorted(options.items()))).encode()).hexdigest()


def _apply(
    model: Any, chunks: Iterable[Chunk], write: Write, observe: Observe, options: Mapping[str, Any]
) -> None:
    for chunk in chunks:
        try:
            columns = {**chunk.columns, **result_columns(model, chunk.named_series, **options)}
        except ValueError as error:  # for example, other channels than the model was fitted with
            raise ValueError(f"{chunk.address}: {error}") from None
        write(columns)
        observe(Extent.of(chunk.series), columns)


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
            return {"e": np.asarray(model.transform(series))}  # set_output may have asked for frames


def _label_texts(classes: NDArray[Any]) -> NDArray[Any]:
    """Return labels as file readers return them: the class 1.0 in Python is the class 1 of a file."""
    integral = classes.dtype.kind == "f" and bool((classes == np.round(classes)).all())
    return (classes.astype(np.int64) if integral else classes).astype(np.str_)
