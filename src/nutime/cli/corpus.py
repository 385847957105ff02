"""``nutime corpus``: build, describe or invent a pretraining corpus."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from nutime.data.corpus.store import Corpus

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
    from nutime.cli.everyday import bar, progress_bars
    from nutime.data.corpus.build import build_corpus

    with progress_bars() as progress:
        report = bar(progress, "reading")
        corpus = build_corpus(sources, out, data_dir=data_dir, overwrite=overwrite, report=report)
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

    from nutime.data.corpus.build import synthesize_corpus

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
    from nutime.data.corpus.store import Corpus

    _print(Corpus.open(path), as_json)


def _print(corpus: Corpus, as_json: bool) -> None:
    description = corpus.describe()
    if as_json:
        print(json.dumps(description))
        return
    from rich.console import Console

    console = Console()
    rows = [(source.name, f"{source.count:,}", f"{source.values:,}") for source in corpus.sources]
    console.print(_table(f"{corpus.path}: {len(corpus):,} series", ("source", "series", "values"), rows))
    quantiles = "  ".join(f"{share} {length:,}" for share, length in description["length_quantiles"].items())
    console.print(f"Lengths: {quantiles}")
    scales = description["scale_histogram"]
    longest = max(scales.values())
    bars = [(scale, f"{count:,}", "█" * max(1, 40 * count // longest)) for scale, count in scales.items()]
    console.print(_table("Scale of the values (root mean square)", ("about", "series", ""), bars))
    if repeats := description.get("repeats"):
        rows = [(row["source"], row["repeats"], f"{row['series']:,}") for row in repeats["details"]]
        title = f"Left out, because they repeat a test series: {repeats['dropped']:,}"
        console.print(_table(title, ("source", "repeats", "series"), rows) if rows else title)
    for skipped in description.get("skipped", []):
        console.print(f"Skipped {skipped['name']}: {skipped['reason']}")


def _table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column in ("series", "values") else "left")
    for row in rows:
        table.add_row(*row)
    return table
