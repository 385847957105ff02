"""``nutime bench report``: results as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nutime.cli.shared import writable_folder

RESULTS = Path("results/benchmark/results.jsonl")
LABELLING = Path("results/labelling/active_labelling.json")
SCALING = Path("results/speed/classify_cpu.csv")


def report(
    results: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RESULTS]...",
            help=f"Files of results; {RESULTS}, with {LABELLING} and {SCALING} if they exist, unless given.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the page.", callback=writable_folder)
    ] = Path("results/benchmark"),
) -> None:
    """Write results as one HTML page and as Markdown, beside the tables of the paper.

    Example: `nutime bench report -o results/benchmark`
    """
    from nutime.bench.report import write_report

    labelling, scaling = (path if not results and path.is_file() else None for path in (LABELLING, SCALING))
    page, markdown = write_report(results or [RESULTS], out, labelling, scaling)
    print(f"page: {page}\nmarkdown: {markdown}")
