"""A model as batch work and services see it: opened by name, asked one question, sent elsewhere as its files.

Unusual here: a model never travels as a pickle. :func:`pack` takes the files that ``save`` writes, which hold
arrays and JSON only, and :func:`unpack` loads them as any user would.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nutime.data.results import Results
from nutime.encoder import NuTime
from nutime.estimators import storage
from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.clusterer import NuTimeClusterer
from nutime.estimators.detector import NuTimeDetector

DEFAULT_POOL = "cls+mean"


def answers(model: Any, series: Any, pool: str = DEFAULT_POOL) -> Results:
    """Return what a model says of series, as columns with a row a series.

    Args:
        model: an encoder (vectors, ``e``) or a fitted estimator: class and probabilities (``predicted``,
            ``p_…``), ``cluster``, or ``score`` and ``is_anomaly``.
        series: finite series, as :func:`~nutime.data.series.as_series` returns them.
        pool: for an encoder, what to keep of its tokens; an estimator has its own.
    """
    match model:
        case NuTime():
            return {"e": model.embed(series, pool=pool)}
        case NuTimeClassifier():
            probabilities = model.predict_proba(series)
            names = _label_texts(model.classes_)
            columns = {f"p_{name}": column for name, column in zip(names, probabilities.T, strict=True)}
            return {"predicted": names[probabilities.argmax(axis=1)], **columns}
        case NuTimeClusterer():
            return {"cluster": model.predict(series)}
        case NuTimeDetector():
            score = model.anomaly_score(series)
            return {"score": score, "is_anomaly": score > 1 - model.contamination}
        case _:
            return {"e": model.transform(series)}


def pack(model: Any) -> dict[str, bytes]:
    """Return the files of a saved model, by their paths in its folder."""
    with TemporaryDirectory() as folder:
        model.save(folder)
        files = (path for path in Path(folder).rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def unpack(files: dict[str, bytes]) -> Any:
    """Load a model from what :func:`pack` returned."""
    with TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return storage.open_model(folder)


def _label_texts(classes: NDArray[Any]) -> NDArray[Any]:
    """Return labels as readers return them: the class 1.0 of Python is the class 1 of a file."""
    whole = classes.dtype.kind == "f" and bool((classes == np.round(classes)).all())
    return (classes.astype(np.int64) if whole else classes).astype(np.str_)
