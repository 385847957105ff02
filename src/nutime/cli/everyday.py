"""What the everyday commands share: their options, their progress bars, and how they end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress

    from nutime.data.results import Results
    from nutime.data.series import Array

SHIPPED = "nutime-base"
STANDARD = "-"
AT_A_TIME = 256  # series between two movements of a bar
READ = "a file (.csv .parquet .ts .tsv .arff .npz …), - for CSV from standard input, or a set (GunPoint)"


class Pool(StrEnum):
    """How tokens become an embedding."""

    CLS = "cls"
    MEAN = "mean"
    BOTH = "cls+mean"
    UPPER = "upper"
    LAYERS = "layers"
    RESOLUTIONS = "resolutions"


class Engine(StrEnum):
    """Who does the work on a Parquet data set."""

    LOCAL = "local"
    RAY = "ray"


Input = Annotated[
    str,
    typer.Argument(
        metavar="IN", show_default=False, help=f"Series: {READ}; or a folder or address of Parquet files."
    ),
]
Output = Annotated[
    str,
    typer.Option(
        "--out",
        "-o",
        metavar="OUT",
        show_default=False,
        help="Results: a .csv, .tsv, .parquet or .npz file, - for CSV on standard output, or a folder of Parquet.",
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--label",
        metavar="COLUMN",
        show_default=False,
        help="Labels: name or position (0 first, -1 last) of a column; else label, class, target or y.",
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="COLUMN",
        show_default=False,
        help="Ids, kept in the results: name or position of a column; else id, series or series_id.",
    ),
]
Weights = Annotated[str, typer.Option(metavar="NAME|FOLDER", help="Encoder: a shipped one, or a folder.")]
Save = Annotated[
    str | None,
    typer.Option(metavar="MODEL_DIR", show_default=False, help="Keep the model, for nutime predict."),
]
WhichEngine = Annotated[
    Engine, typer.Option("--engine", help="For Parquet: this machine, piece by piece, or Ray (nutime\\[ray]).")
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, show_default=False, help="For --engine ray: copies of the model, each on a CPU; else all CPUs."
    ),
]
Device = Annotated[
    str | None, typer.Option(show_default=False, help="cpu, cuda …; the best there is unless given.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]


def check_places(out: str, as_json: bool, inputs: Sequence[str | None], save: str | None = None) -> None:
    """Refuse places that results, JSON or a model cannot be written to, before any work is done."""
    from nutime.data.results import check_folder, check_output

    if as_json and out == STANDARD:
        raise typer.BadParameter("results (-o -) and JSON cannot share standard output", param_hint="--json")
    check_output(out, *filter(None, inputs))
    if save:
        check_folder(save)


@contextmanager
def complaints_about(address: str) -> Iterator[None]:
    """Let what is wrong with series begin with where they came from."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{address}: {error}") from None


@contextmanager
def progress_bars(shown: bool = True) -> Iterator[Progress]:
    """Show progress bars on a terminal, on standard error, while the block runs; none are left behind."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    hidden = not (shown and console.is_terminal)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    progress = Progress(*columns, console=console, transient=True, disable=hidden)
    with nullcontext() if hidden else progress:  # older versions of rich end also hidden bars with a new line
        yield progress


def bar(progress: Progress, what: str, total: int | None = None) -> Callable[[int, int], None]:
    """Add a bar; return what to call with the number of things done and to do."""
    task = progress.add_task(what, total=total)
    return lambda done, total: progress.update(task, completed=done, total=total)


def in_chunks(
    answer: Callable[[list[Array]], Results], series: list[Array], report: Callable[[int, int], None]
) -> Results:
    """Ask about a few series at a time; ``report`` hears of series done and to do."""
    import numpy as np

    chunks = []
    for start in range(0, len(series), AT_A_TIME):
        chunk = series[start : start + AT_A_TIME]
        chunks.append(answer(chunk))
        report(start + len(chunk), len(series))
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}


def save_model(estimator: Any, folder: str | None) -> None:
    """Save a fitted estimator, all of it or nothing, where a folder is given."""
    from nutime.atomic import replace_folder

    if folder:
        with replace_folder(folder) as fresh:
            estimator.save(fresh)


def show(document: dict[str, Any], page: Sequence[RenderableType], as_json: bool, out: str) -> None:
    """Print the JSON object, or the page: on standard error where results went to standard output."""
    if as_json:
        print(json.dumps(document, allow_nan=False, ensure_ascii=False))
        return
    from rich.console import Console

    console = Console(stderr=out == STANDARD, markup=False)  # a label may look like markup
    for part in page:
        console.print(part, soft_wrap=isinstance(part, str))
