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
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from nutime.batch.results import STANDARD, Results, flatten
from nutime.cli.text import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import RenderableType
    from rich.table import Table

    from nutime.batch.source import Extent
    from nutime.evaluate import Validation

    #: A JSON object, and the lines and tables to print.
    Pages: TypeAlias = tuple[dict[str, Any], list[RenderableType]]

MAX_MATRIX_CLASSES = 12  # a larger confusion matrix does not fit on a screen
SHOWN = 5  # of the most anomalous series, or of the most frequent confusions


class Report:
    """What is printed about the results of a model, collected chunk by chunk."""

    def __init__(self, model: Any, out: str) -> None:
        self._summary, self._out = _summary_for(model), out
        self._extent: Extent | None = None

    def add(self, extent: Extent, columns: Results) -> int:
        """Add a chunk of results; return the number of series so far."""
        self._extent = extent if self._extent is None else self._extent | extent
        self._columns = columns
        self._summary.add(columns)
        return self._extent.series

    def pages(self, address: str) -> Pages:
        """Return the summary of all chunks, between lines about the input and the output."""
        assert self._extent is not None  # no input is empty
        document, page = self._summary.pages()
        page = [input_line(address, self._extent), *page, output_line(self._out, self._columns)]
        return {"out": self._out, "series": self._extent.series, **document}, page


class _EmbeddingSummary:
    """The number of dimensions."""

    def add(self, columns: Results) -> None:
        self._dimensions = columns["e"].shape[1]

    def pages(self) -> Pages:
        return {"dimensions": self._dimensions}, []


class _ClassSummary:
    """How often each class was predicted, or none, and, where labels are known, how often correctly."""

    def __init__(self) -> None:
        self._classes: list[str] = []
        self._predicted: Counter[str] = Counter()
        self._labels: Counter[str] = Counter()
        self._correct = 0

    def add(self, columns: Results) -> None:
        self._classes = [name.removeprefix("p_") for name in columns if name.startswith("p_")]
        self._predicted.update(columns["predicted"].tolist())
        if "label" in columns:
            accepted = columns["predicted"] != ""
            labels = columns["label"][accepted]
            self._labels.update(filter(None, labels.tolist()))  # "" is a series without a label
            self._correct += int((columns["predicted"][accepted] == labels).sum())

    def pages(self) -> Pages:
        counts = {name: self._predicted[name] for name in self._classes}
        document: dict[str, Any] = {"predicted": counts}
        page: list[RenderableType] = [table(["predicted", "series"], [(n, f"{c:,}") for n, c in counts.items()])]
        if rejected := self._predicted[""]:
            document["rejected"] = rejected
            page.append(f"Rejected, no class predicted: {rejected:,} of {self._predicted.total():,}")
        if labelled := self._labels.total():
            document["accuracy"] = self._correct / labelled
            page.append(f"Accuracy: {percent(self._correct / labelled)} ({self._correct:,} of {labelled:,})")
        if unknown := sorted(set(self._labels) - set(self._classes)):
            document["unknown_labels"] = unknown
            page.append(f"Labels unknown to the model, all counted as wrong: {', '.join(unknown)}")
        return document, page


class _NumberSummary:
    """The range of the predicted numbers and, where the true ones are known, the errors."""

    def __init__(self) -> None:
        self._series, self._mean, self._range = 0, 0.0, (np.inf, -np.inf)
        self._known: list[tuple[NDArray[Any], ...]] = []

    def add(self, columns: Results) -> None:
        predicted = columns["predicted"]
        self._series += len(predicted)
        self._mean += float(np.sum(predicted - self._mean)) / self._series
        self._range = min(self._range[0], predicted.min()), max(self._range[1], predicted.max())
        if "label" in columns:
            labels = as_numbers(columns["label"])
            bounds = [columns[name] for name in ("lower", "upper") if name in columns]
            known = ~np.isnan(labels)
            self._known.append(tuple(values[known] for values in (labels, predicted, *bounds)))

    def pages(self) -> Pages:
        low, high = self._range
        document: dict[str, Any] = {"predicted": {"mean": self._mean, "min": float(low), "max": float(high)}}
        page: list[RenderableType] = [f"Predicted: {low:.4g} to {high:.4g}, mean {self._mean:.4g}"]
        if any(len(chunk[0]) for chunk in self._known):
            labels, predicted, *bounds = (np.concatenate(parts) for parts in zip(*self._known, strict=True))
            errors, line = error_page(labels, predicted)
            document, page = document | errors, [*page, line]
            if bounds:
                document["coverage"] = float(np.mean((bounds[0] <= labels) & (labels <= bounds[1])))
                page.append(f"Inside the interval: {percent(document['coverage'])} of the true numbers")
        return document, page


class _ClusterSummary:
    """The sizes of the clusters."""

    def __init__(self, clusters: int) -> None:
        self._sizes = np.zeros(clusters, np.int64)

    def add(self, columns: Results) -> None:
        self._sizes += np.bincount(columns["cluster"], minlength=len(self._sizes))

    def pages(self) -> Pages:
        sizes = self._sizes.tolist()
        rows = [(str(index), f"{size:,}") for index, size in enumerate(sizes)]
        return {"clusters": len(sizes), "sizes": sizes}, [table(["cluster", "series"], rows)]


class _AnomalySummary:
    """How many series are anomalous, and the most anomalous ones."""

    def __init__(self) -> None:
        self._series = self._anomalies = 0
        self._top: list[dict[str, Any]] = []

    def add(self, columns: Results) -> None:
        names = [name for name in ("id", "score", "is_anomaly") if name in columns]
        rows = zip(*(columns[name].tolist() for name in names), strict=True)
        found = [
            {"series": index, **dict(zip(names, row, strict=True))} for index, row in enumerate(rows, self._series)
        ]
        self._top = heapq.nlargest(SHOWN, [*self._top, *found], key=itemgetter("score"))
        self._series += len(found)
        self._anomalies += int(columns["is_anomaly"].sum())

    def pages(self) -> Pages:
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


def _summary_for(
    model: Any,
) -> _EmbeddingSummary | _ClassSummary | _NumberSummary | _ClusterSummary | _AnomalySummary:
    """Return an empty summary for the results of a fitted estimator."""
    from nutime import NuTimeClassifier, NuTimeClusterer, NuTimeDetector, NuTimeRegressor

    match model:
        case NuTimeClassifier():
            return _ClassSummary()
        case NuTimeRegressor():
            return _NumberSummary()
        case NuTimeClusterer():
            return _ClusterSummary(len(model.cluster_centers_))
        case NuTimeDetector():
            return _AnomalySummary()
        case _:
            return _EmbeddingSummary()


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
    how = _method(method, " of every class")
    page: list[RenderableType] = [
        f"Accuracy: {percent(measured.accuracy)} ({measured.correct:,} of {len(measured.labels):,}), "
        f"macro-F1: {percent(measured.macro_f1)}, {how}"
    ]
    if unscored := sorted(set(measured.classes.tolist()) - set(measured.labels.tolist())):
        page.append(f"Not measured, because they have a single series: {', '.join(unscored)}")
    return document, [*page, *_confusions(measured)]


def number_pages(measured: Validation | None, method: dict[str, float]) -> Pages:
    """Summarise the errors of predicted numbers on series not trained on; ``method`` as above."""
    if measured is None:
        return {"rmse": None}, ["Errors: not measured, because there is a single series."]
    document, line = error_page(measured.labels, measured.predicted)
    return {**method, "validated": len(measured.labels), **document}, [f"{line}, {_method(method)}"]


def error_page(labels: NDArray[np.float64], predicted: NDArray[np.float64]) -> tuple[dict[str, Any], str]:
    """Return the errors of predicted numbers as JSON and as a line."""
    errors, spread = predicted - labels, float(np.std(labels))
    rmse, mae = float(np.sqrt(np.mean(errors**2))), float(np.mean(np.abs(errors)))
    r2 = 1 - (rmse / spread) ** 2 if spread else None  # not defined for a constant
    line = f"RMSE: {rmse:.4g}, MAE: {mae:.4g}, R²: {'not defined' if r2 is None else f'{r2:.3f}'}"
    return {"rmse": rmse, "mae": mae, "r2": r2}, line


def as_numbers(labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return labels of a file as numbers, NaN for a series without a label."""
    numbers = np.full(len(labels), np.nan)
    for index, text in enumerate(labels.tolist()):
        try:
            numbers[index] = float(text or "nan")
        except ValueError:
            raise ValueError(f"{text!r} is not a number, as the targets of a regressor are") from None
    return numbers


def _method(method: dict[str, float], share_of: str = "") -> str:
    if "folds" in method:
        return f"by {method['folds']}-fold cross-validation"
    return f"on {100 * method['holdout']:g} %{share_of}, held out"


def _confusions(measured: Validation) -> list[RenderableType]:
    classes = measured.classes.tolist()
    if len(classes) <= MAX_MATRIX_CLASSES:
        rows = zip(classes, measured.confusion.tolist(), strict=True)
        return [table(["true ↓  predicted →", *classes], [[name, *map(str, counts)] for name, counts in rows])]
    pairs = Counter(zip(measured.labels.tolist(), measured.predicted.tolist(), strict=True))
    wrong = [[*pair, str(count)] for pair, count in pairs.most_common() if pair[0] != pair[1]]
    return [table(["most often confused", "predicted", "series"], wrong[:SHOWN])] if wrong else []


def input_name(address: str) -> str:
    """Return the address of an input as a person reads it."""
    return "standard input" if address == STANDARD else address


def output_name(address: str) -> str:
    """Return the address of an output as a person reads it."""
    return "standard output" if address == STANDARD else address


def input_line(address: str, extent: Extent) -> str:
    """Describe the input."""
    length = f"length {extent.longest}"
    if extent.shortest < extent.longest:
        length = f"lengths {extent.shortest} to {extent.longest}"
    channels = f", {extent.channels} channels" if extent.channels > 1 else ""
    return f"{input_name(address)}: {extent.series:,} series of {length}{channels}"


def output_line(out: str, columns: Results) -> str:
    """Describe the output and the columns as they are written."""
    names = list(columns if out.lower().endswith(".npz") else flatten(columns))
    listed = ", ".join(names if len(names) <= 8 else [*names[:4], "…", names[-1]])
    return f"Results: {output_name(out)}  (columns {listed})"


def next_steps(what: str, folder: str, commands: Sequence[str]) -> list[str]:
    """Name the folder of what was saved and the commands that use it."""
    return [f"{what}: {folder}", "Next steps:", *(f"  {command}" for command in commands)]


def model_steps(folder: str | None, source: str) -> list[str]:
    """Return the next steps with a saved estimator."""
    if not folder:
        return []
    model = shlex.quote(folder)
    commands = [
        f"nutime predict {model} NEW.csv -o predictions.csv",
        f"nutime export {model} -o model.onnx",
        f"nutime serve {model}",
    ]
    if source != STANDARD:
        commands.append(f"nutime explore {shlex.quote(source)}")
    return next_steps("Model", folder, commands)


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


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None, left: Sequence[int] = (0,)
) -> Table:
    """Return a table to print, with some columns aligned ``left`` and all others right."""
    from rich.table import Table

    result = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        result.add_column(printable(column), justify="left" if index in left else "right")
    for row in rows:
        result.add_row(*map(printable, row))
    return result
