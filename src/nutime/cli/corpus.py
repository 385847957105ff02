"""``nutime corpus``: build, describe or invent a pretraining corpus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from nutime.data.corpus import Corpus

app = typer.Typer(help="Build, describe or invent a pretraining corpus.", no_args_is_help=True)

Output = Annotated[Path, typer.Option("--out", "-o", help="Folder to create.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the folder if it exists.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", envvar="NUTIME_DATA", help="Folder with the archives.")
]


@app.command()
def build(
    sources: Annotated[
        list[str], typer.Argument(help="Archive names (GunPoint, ucr, uea, ucr112 …), files or folders.")
    ],
    out: Output,
    data_dir: DataDir = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Merge the training splits of any sources, without what repeats a test series.

    Example: `nutime corpus build ucr measurements/*.csv -o corpus`
    """
    from rich.console import Console

    from nutime.data.corpus import build_corpus

    with Console(stderr=True).status("reading") as status:
        corpus = build_corpus(sources, out, data_dir=data_dir, overwrite=overwrite, progress=status.update)
    _print(corpus, as_json)


@app.command()
def synth(
    count: Annotated[int, typer.Argument(min=1, help="How many series.")],
    out: Output,
    length: Annotated[int, typer.Option(min=2, help="Points a series.")] = 512,
    seed: Annotated[int, typer.Option(help="Same seed, same series.")] = 0,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Invent series, so that pretraining runs with no data at all.

    Example: `nutime corpus synth 100000 -o corpus`
    """
    from rich.console import Console

    from nutime.data.corpus import synthesize_corpus

    with Console(stderr=True).status("drawing"):
        corpus = synthesize_corpus(count, out, length=length, seed=seed, overwrite=overwrite)
    _print(corpus, as_json)


@app.command()
def info(
    path: Annotated[Path, typer.Argument(metavar="CORPUS", help="A corpus folder.")], as_json: AsJson = False
) -> None:
    """Show sources, counts, lengths and the scales of the values.

    Example: `nutime corpus info corpus`
    """
    from nutime.data.corpus import Corpus

    _print(Corpus.open(path), as_json)


def _print(corpus: Corpus, as_json: bool) -> None:
    description = corpus.describe()
    if as_json:
        print(json.dumps(description))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    sources = Table(title=f"{corpus.path}: {len(corpus):,} series", title_justify="left")
    for column, justify in (("source", "left"), ("series", "right"), ("values", "right")):
        sources.add_column(column, justify=justify)  # type: ignore[arg-type]
    for source in corpus.sources:
        sources.add_row(source.name, f"{source.count:,}", f"{source.values:,}")
    console.print(sources)
    _print_rest(console, description)


def _print_rest(console: Any, description: dict[str, Any]) -> None:
    for title, value in description.items():
        if title != "sources":
            console.print(f"[bold]{title}[/bold]", value)
