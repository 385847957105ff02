"""What the commands print: every summary is a JSON object and the lines and tables of a page.

Summaries of results are made chunk by chunk, because the results themselves may not fit in memory.
"""

from __future__ import annotations

import heapq
import json
import shlex
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from nutime.batch.results import STANDARD, Results, flatten
from nutime.cli.text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from nutime.batch.source import Extent
    from nutime.evaluate import Validation

    #: A JSON object, and the lines and tables to print.
    Pages: TypeAlias = tuple[dict[str, Any], list[RenderableType]]

MAX_MATRIX_CLASSES = 12  # a larger confusion matrix does not fit on a screen
SHOWN = 5  # of the most anomalous series, or of the most frequent confusions


class Summary(Protocol):
    """A summary of results."""

    def add(self, columns: Results) -> None:
        """Add a chunk of results."""

    def pages(self) -> Pages:
        """Return the summary of all chunks."""


class EmbeddingSummary:
    """The number of dimensions."""

    def add(self, columns: Results) -> None:
        """Add a chunk of results."""
        self._dimensions = columns["e"].shape[1]

    def pages(self) -> Pages:
        """Return the summary; on the page the columns of the output say it."""
        return {"dimensions": self._dimensions}, []


class ClassSummary:
    """How often each class was predicted and, where labels are known, how often correctly."""

    def __init__(self) -> None:
        self._classes: list[str] = []
        self._predicted: Counter[str] = Counter()
        self._labels: Counter[str] = Counter()
        self._correct = 0

    def add(self, columns: Results) -> None:
        """Add a chunk of results."""
        self._classes = [name.removeprefix("p_") for name in columns if name.startswith("p_")]
        self._predicted.update(columns["predicted"].tolist())
        if "label" in columns:
            self._labels.update(filter(None, columns["label"].tolist()))  # "" is a series without a label
            self._correct += int((columns["predicted"] == columns["label"]).sum())

    def pages(self) -> Pages:
        """Return the number of series per class and the accuracy."""
        counts = {name: self._predicted[name] for name in self._classes}
        document: dict[str, Any] = {"predicted": counts}
        page: list[RenderableType] = [table(["predicted", "series"], [(n, f"{c:,}") for n, c in counts.items()])]
        if labelled := self._labels.total():
            document["accuracy"] = self._correct / labelled
            page.append(f"Accuracy: {percent(self._correct / labelled)} ({self._correct:,} of {labelled:,})")
        if unknown := sorted(set(self._labels) - set(self._classes)):
            document["unknown_labels"] = unknown
            page.append(f"Labels unknown to the model, all counted as wrong: {', '.join(unknown)}")
        return document, page


class ClusterSummary:
    """The sizes of the clusters."""

    def __init__(self, clusters: int) -> None:
        self._sizes = np.zeros(clusters, np.int64)

    def add(self, columns: Results) -> None:
        """Add a chunk of results."""
        self._sizes += np.bincount(columns["cluster"], minlength=len(self._sizes))

    def pages(self) -> Pages:
        """Return the sizes."""
        sizes = self._sizes.tolist()
        rows = [(str(index), f"{size:,}") for index, size in enumerate(sizes)]
        return {"clusters": len(sizes), "sizes": sizes}, [table(["cluster", "series"], rows)]


class AnomalySummary:
    """How many series are anomalous, and the most anomalous ones."""

    def __init__(self) -> None:
        self._series = self._anomalies = 0
        self._top: list[dict[str, Any]] = []

    def add(self, columns: Results) -> None:
        """Add a chunk of results."""
        names = [name for name in ("id", "score", "is_anomaly") if name in columns]
        rows = zip(*(columns[name].tolist() for name in names), strict=True)
        found = [
            {"series": index, **dict(zip(names, row, strict=True))} for index, row in enumerate(rows, self._series)
        ]
        self._top = heapq.nlargest(SHOWN, [*self._top, *found], key=itemgetter("score"))
        self._series += len(found)
        self._anomalies += int(columns["is_anomaly"].sum())

    def pages(self) -> Pages:
        """Return the number of anomalies and the most anomalous series."""
        names = [name for name in ("series", "id", "score") if name in self._top[0]]
        top = [{name: row[name] for name in names} for row in self._top]
        count = f"{self._anomalies:,} of {self._series:,}"
        rows = [
            [*(str(row[name]) for name in names[:-1]), f"{row['score']:.3f}", "yes" if row["is_anomaly"] else "no"]
            for row in self._top
        ]
        page: list[RenderableType] = [
            f"Anomalies: {count}; the most anomalous (series counted from 0):",
            table([*names, "anomaly"], rows),
        ]
        return {"anomalies": self._anomalies, "top": top}, page


def summary_for(model: Any) -> Summary:
    """Return an empty summary for the results of an encoder or a fitted estimator."""
    from nutime import NuTimeClassifier, NuTimeClusterer, NuTimeDetector

    match model:
        case NuTimeClassifier():
            return ClassSummary()
        case NuTimeClusterer():
            return ClusterSummary(len(model.cluster_centers_))
        case NuTimeDetector():
            return AnomalySummary()
        case _:
            return EmbeddingSummary()


def validation_pages(measured: Validation | None, method: dict[str, float]) -> Pages:
    """Summarise the accuracy on series not trained on; ``method`` has ``folds`` or ``holdout``."""
    if measured is None:
        return {"accuracy": None}, ["Accuracy: not measured, because every class has a single series."]
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
        page.append(f"Not measured, because they have a single series: {', '.join(unscored)}")
    return document, [*page, *_confusions(measured)]


def _confusions(measured: Validation) -> list[RenderableType]:
    classes = measured.classes.tolist()
    if len(classes) <= MAX_MATRIX_CLASSES:
        rows = zip(classes, measured.confusion.tolist(), strict=True)
        return [table(["true ↓  predicted →", *classes], [[name, *map(str, counts)] for name, counts in rows])]
    pairs = Counter(zip(measured.labels.tolist(), measured.predicted.tolist(), strict=True))
    wrong = [[*pair, str(count)] for pair, count in pairs.most_common() if pair[0] != pair[1]]
    return [table(["most often confused", "predicted", "series"], wrong[:SHOWN])] if wrong else []


def input_line(address: str, extent: Extent) -> str:
    """Describe the input."""
    length = f"length {extent.longest}"
    if extent.shortest < extent.longest:
        length = f"lengths {extent.shortest} to {extent.longest}"
    channels = f", {extent.channels} channels" if extent.channels > 1 else ""
    return (
        f"{'standard input' if address == STANDARD else address}: {extent.series:,} series of {length}{channels}"
    )


def column_names(out: str, columns: Results) -> list[str]:
    """Return the names of the columns as they are written."""
    return list(columns if out.lower().endswith(".npz") else flatten(columns))


def output_line(out: str, names: list[str]) -> str:
    """Describe the output."""
    listed = ", ".join(names if len(names) <= 8 else [*names[:4], "…", names[-1]])
    return f"Results: {'standard output' if out == STANDARD else out}  (columns {listed})"


def next_steps(folder: str | None, source: str) -> list[str]:
    """Name the folder of a model and the commands that use it."""
    if not folder:
        return []
    model = shlex.quote(folder)
    steps = [
        f"nutime predict {model} NEW.csv -o predictions.csv",
        f"nutime export {model} -o model.onnx",
        f"nutime serve {model}",
    ]
    if source != STANDARD:
        steps.append(f"nutime explore {shlex.quote(source)}")
    return [f"Model: {folder}", "Next steps:", *(f"  {step}" for step in steps)]


def show(document: dict[str, Any], page: Sequence[RenderableType], as_json: bool, out: str) -> None:
    """Print the JSON object, or the page: on standard error where results went to standard output."""
    if as_json:
        print(json.dumps(document, allow_nan=False, ensure_ascii=False))
        return
    from rich.console import Console

    console = Console(stderr=out == STANDARD, markup=False, highlight=False)  # a label may look like markup
    for part in page:
        if isinstance(part, str):
            console.print(printable(part), soft_wrap=True)
        else:
            console.print(part)


def percent(share: float) -> str:
    """Format a share as a percentage."""
    return f"{100 * share:.1f} %"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> Table:
    """Return a table to print, its first column aligned left and all others right."""
    from rich.table import Table

    result = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        result.add_column(printable(column), justify="right" if index else "left")
    for row in rows:
        result.add_row(*map(printable, row))
    return result
