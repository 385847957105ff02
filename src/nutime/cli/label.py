"""``nutime label`` and ``nutime suggest``: labels where they help most."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nutime.cli.explore import Host, NoBrowser, Port, serve_page
from nutime.cli.options import SMALL, Device, Input, Weights, reads_series
from nutime.cli.progress import progress_bars
from nutime.cli.shared import check_outputs, load_encoder, needs_extra

if TYPE_CHECKING:
    from nutime.batch.source import SourceOptions

_SUFFIX = ".labels.jsonl"


@reads_series
def label(
    source: Input,
    read: SourceOptions,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help=f"File of the labels, which a later session continues; else IN with the suffix {_SUFFIX}.",
        ),
    ] = None,
    port: Port = 8050,
    host: Host = "127.0.0.1",
    weights: Weights = SMALL,
    no_browser: NoBrowser = False,
    device: Device = None,
) -> None:
    """Label series on a local page that proposes what to label next and shows the accuracy so far.

    Every label is on disk before the page confirms it. The page exports the labels as CSV and a fitted model.
    Labels that the input has already are kept.

    Example: `nutime label series.csv`
    """
    with needs_extra("explore", "the page"):
        from nutime.explore.labelling import build_label_app
    from nutime.batch.source import Chunk, Source
    from nutime.estimators.base import EmbeddedSeries
    from nutime.labelling.log import LabelLog
    from nutime.labelling.selection import known_labels
    from nutime.labelling.session import Session
    from nutime.model.reading import AUTO

    path = Path(out or _beside(source))
    data = Chunk.joined(Source(source, read).opened()[1])
    labelled, labels = known_labels(data.columns.get("label"), len(data.series))
    log = LabelLog(path, data.series, dict(zip(labelled.tolist(), labels.tolist(), strict=True)))
    with progress_bars() as new_bar:
        encoder = load_encoder(weights, device)
        bar = new_bar("embedding", len(data.series))
        session = Session(EmbeddedSeries.embed(data.data, encoder, AUTO, verbose=bar), log)
    serve_page(build_label_app(session, Path(source).name), host, port, no_browser)


@reads_series
def suggest(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A folder saved by fit, or an encoder: then a linear model is fitted to the labels in IN.",
        ),
    ],
    source: Input,
    read: SourceOptions,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Series to suggest.")] = 10,
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="OUT", help="A .csv, .tsv, .parquet or .npz file, or - to print.")
    ] = "-",
    device: Device = None,
) -> None:
    """List the series that are most worth a label, best first: their position in IN from 0, and their id.

    Series of IN that have a label are not suggested.

    Example: `nutime suggest model pool.csv -n 20`
    """
    from nutime.batch.results import write_results
    from nutime.batch.source import Chunk, Source

    check_outputs(out, False, read, source)
    data = Chunk.joined(Source(source, read).opened()[1])

    import nutime
    from nutime.devices import usable_device
    from nutime.estimators.storage import open_model

    loaded = open_model(model, usable_device(device))
    if not isinstance(loaded, nutime.NuTime | nutime.NuTimeClassifier):
        raise ValueError(f"{model}: is a {type(loaded).__name__}; suggestions need a classifier or an encoder")
    with progress_bars() as new_bar:
        bar = new_bar("embedding", len(data.series))
        chosen = nutime.suggest(data.named_series, data.columns.get("label"), count, model=loaded, verbose=bar)
    if not len(chosen):
        logging.getLogger("nutime").warning("%s: every series has a label", source)
    columns = {name: values[chosen] for name, values in data.columns.items() if name != "label"}
    write_results(out, {"series": chosen, **columns})


def _beside(source: str) -> Path:
    """Return the file for the labels of an input."""
    if source == "-" or "://" in source or any(sign in source for sign in "*?["):
        raise typer.BadParameter("name the file of the labels", param_hint="--out")
    return Path(f"{source.rstrip('/')}{_SUFFIX}")
