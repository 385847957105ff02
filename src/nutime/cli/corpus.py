"""``nutime corpus``: build, generate or describe a pretraining corpus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nutime.cli.options import AsJson, DataDir, reads_series

if TYPE_CHECKING:
    from nutime.batch.source import SourceOptions
    from nutime.data.corpus.store import Corpus

app = typer.Typer(help="Build, generate or describe a pretraining corpus.", no_args_is_help=True)

Output = Annotated[Path, typer.Option("--out", "-o", help="Folder to create.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the folder if it exists.")]


@app.command()
@reads_series
def build(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Archive names (GunPoint, ucr, uea, ucr112 …), files, folders, or patterns (in quotes) of files "
            "with one series each."
        ),
    ],
    out: Output,
    read: SourceOptions,
    data_dir: DataDir = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Merge the training splits of any sources, without series that repeat a test series.

    Example: `nutime corpus build ucr measurements/*.csv -o corpus`
    """
    from nutime.cli.progress import progress_bars
    from nutime.data.corpus.build import build_corpus

    with progress_bars() as new_bar:
        bar = new_bar("reading")
        corpus = build_corpus(sources, out, data_dir=data_dir, overwrite=overwrite, report=bar, **read)
    _print(corpus, as_json)


@app.command()
def synth(
    count: Annotated[int, typer.Argument(min=1, help="Number of series.")],
    out: Output,
    length: Annotated[int, typer.Option(min=2, help="Points per series.")] = 512,
    seed: Annotated[int, typer.Option(help="Same seed, same series.")] = 0,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Generate series, so that pretraining runs without any data.

    Example: `nutime corpus synth 100000 -o corpus`
    """
    from rich.console import Console

    from nutime.data.corpus.build import synthesize_corpus

    with Console(stderr=True).status("generating"):
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

    from nutime.cli.summaries import table

    console = Console()
    rows = [(source.name, f"{source.count:,}", f"{source.values:,}") for source in corpus.sources]
    console.print(table(("source", "series", "values"), rows, f"{corpus.path}: {len(corpus):,} series"))
    quantiles = "  ".join(f"{share} {length:,}" for share, length in description["length_quantiles"].items())
    console.print(f"Lengths: {quantiles}")
    scales = description["scale_histogram"]
    largest = max(scales.values())
    bars = [(scale, f"{count:,}", "█" * max(1, 40 * count // largest)) for scale, count in scales.items()]
    console.print(table(("about", "series", ""), bars, "Scale of the values (root mean square)", (0, 2)))
    if repeats := description.get("repeats"):
        rows = [(row["source"], row["repeats"], f"{row['series']:,}") for row in repeats["details"]]
        title = f"Left out, because they repeat a test series: {repeats['dropped']:,}"
        console.print(table(("source", "repeats", "series"), rows, title) if rows else title)
    for skipped in description.get("skipped", []):
        console.print(f"Skipped {skipped['name']}: {skipped['reason']}")
