"""What the everyday commands tell: each summary is a JSON object and the lines and tables of a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as Grid

    from nutime.data.results import Results
    from nutime.data.series import SeriesSet
    from nutime.evaluate import Validation

    Summary: TypeAlias = tuple[dict[str, Any], list[RenderableType]]

LARGEST_MATRIX = 12  # classes; a larger confusion matrix does not fit on a screen
SHOWN = 5  # of the most anomalous series, or of the most frequent confusions


def input_line(source: str, series: SeriesSet) -> str:
    """Describe what was read."""
    lengths = [values.shape[1] for values in series.series]
    extent = f"length {lengths[0]}" if len(set(lengths)) == 1 else f"lengths {min(lengths)} to {max(lengths)}"
    channels = len(series.series[0])
    several = f", {channels} channels" if channels > 1 else ""
    return f"{'standard input' if source == '-' else source}: {len(lengths):,} series of {extent}{several}"


def output_line(out: str, columns: Results) -> str:
    """Say where results are and how their columns are called."""
    from nutime.data.results import flatten

    names = list(columns if out.lower().endswith(".npz") else flatten(columns))
    listed = ", ".join(names if len(names) <= 8 else [*names[:4], "…", names[-1]])
    return f"Results: {'standard output' if out == '-' else out}  (columns {listed})"


def model_line(folder: str | None) -> list[RenderableType]:
    """Say where a model is, and what to do with it."""
    return [f"Model: {folder}  (use it: nutime predict {folder} NEW.csv -o OUT.csv)"] if folder else []


def summary_of_validation(measured: Validation | None, method: dict[str, float]) -> Summary:
    """Tell how a classifier did on series it had not seen: in so many ``folds``, or on a ``holdout``."""
    if measured is None:
        return {"accuracy": None}, ["Accuracy: not measured, for every class has a single series."]
    document = {
        **method,
        "validated": len(measured.labels),
        "accuracy": measured.accuracy,
        "macro_f1": measured.macro_f1,
        "confusion": measured.confusion.tolist(),
    }
    if "folds" in method:
        how = f"by {method['folds']}-fold cross-validation"
    else:
        how = f"on {100 * method['holdout']:g} % of every class, held out"
    page: list[RenderableType] = [
        f"Accuracy: {percent(measured.accuracy)} ({measured.correct:,} of {len(measured.labels):,}), "
        f"macro-F1: {percent(measured.macro_f1)}, {how}"
    ]
    if unscored := sorted(set(measured.classes.tolist()) - set(measured.labels.tolist())):
        page.append(f"Not measured, for they have a single series: {', '.join(unscored)}")
    return document, [*page, *_confusions(measured)]


def _confusions(measured: Validation) -> list[RenderableType]:
    classes = measured.classes.tolist()
    if len(classes) <= LARGEST_MATRIX:
        rows = zip(classes, measured.confusion.tolist(), strict=True)
        return [_grid(["true ↓  predicted →", *classes], [[name, *map(str, counts)] for name, counts in rows])]
    pairs = Counter(zip(measured.labels.tolist(), measured.predicted.tolist(), strict=True))
    wrong = [[*pair, str(count)] for pair, count in pairs.most_common() if pair[0] != pair[1]]
    return [_grid(["most often confused", "predicted", "series"], wrong[:SHOWN])] if wrong else []


def summary_of_classes(answers: Results, labels: NDArray[np.str_] | None) -> Summary:
    """Tell which classes were predicted and, where labels are known, how many are right."""
    names = [name.removeprefix("p_") for name in answers if name.startswith("p_")]
    counts = Counter(answers["predicted"].tolist())
    document: dict[str, Any] = {"predicted": {name: counts[name] for name in names}}
    page: list[RenderableType] = [_grid(["predicted", "series"], [[name, f"{counts[name]:,}"] for name in names])]
    if labels is None:
        return document, page
    correct = int((answers["predicted"] == labels).sum())
    document["accuracy"] = correct / len(labels)
    page.append(f"Accuracy: {percent(document['accuracy'])} ({correct:,} of {len(labels):,})")
    if unknown := sorted(set(labels.tolist()) - set(names)):
        document["unknown_labels"] = unknown
        page.append(f"Labels the model has never seen, all counted as wrong: {', '.join(unknown)}")
    return document, page


def summary_of_clusters(labels: NDArray[np.intp], clusters: int) -> Summary:
    """Tell how large the clusters are."""
    sizes = np.bincount(labels, minlength=clusters).tolist()
    rows = [[str(index), f"{size:,}"] for index, size in enumerate(sizes)]
    return {"clusters": clusters, "sizes": sizes}, [_grid(["cluster", "series"], rows)]


def summary_of_anomalies(answers: Results, ids: list[str] | None) -> Summary:
    """Tell how many series are anomalous, and which most of all."""
    scores, marked = answers["score"].tolist(), answers["is_anomaly"].tolist()
    worst = sorted(range(len(scores)), key=lambda index: -scores[index])[:SHOWN]
    top = [{"series": index, **({"id": ids[index]} if ids else {}), "score": scores[index]} for index in worst]
    rows = [
        [str(index), *([ids[index]] if ids else []), f"{scores[index]:.3f}", "yes" if marked[index] else "no"]
        for index in worst
    ]
    page: list[RenderableType] = [
        f"Anomalies: {sum(marked):,} of {len(scores):,}; the most anomalous (series counted from 0):",
        _grid(["series", *(["id"] if ids else []), "score", "anomaly"], rows),
    ]
    return {"anomalies": sum(marked), "top": top}, page


def percent(share: float) -> str:
    """Write a share as people read it."""
    return f"{100 * share:.1f} %"


def _grid(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Grid:
    """Return a table to print, its first column left and all others right."""
    from rich.table import Table

    grid = Table()
    for index, column in enumerate(columns):
        grid.add_column(column, justify="right" if index else "left")
    for row in rows:
        grid.add_row(*row)
    return grid
