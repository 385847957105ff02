"""The ``nutime`` command: the list of commands, and the one place where errors become one line.

Commands import what they need when they run, so that help appears immediately.
"""

from __future__ import annotations

import logging
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from nutime.cli import (
    bench,
    commands,
    corpus,
    demo,
    explain,
    explore,
    export,
    figure,
    label,
    pretrain,
    recordings,
    serve,
    values,
)
from nutime.cli.text import printable
from nutime.documents import message_of

app = typer.Typer(
    help="Embeddings, classifiers, clusters and anomaly scores for time series of any scale.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _print_version(given: bool) -> None:
    if given:
        from nutime.version import own_version

        print(f"nutime {own_version()}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


for command in (
    *(demo.demo, commands.embed, commands.fit, commands.predict, commands.cluster, commands.detect),
    *(values.impute, values.forecast, recordings.segment, recordings.scan, recordings.annotate, recordings.find),
    *(explain.explain, label.label, label.suggest, explore.explore, export.export, serve.serve),
    *(pretrain.pretrain, pretrain.decoder),
):
    app.command()(command)
for name, group in {"corpus": corpus.app, "bench": bench.app, "figure": figure.app}.items():
    app.add_typer(group, name=name)


def main() -> None:
    """Run the command line; an error that the user can correct is one line, with exit code 1."""
    # Raise an exception, so that temporary files and folders are removed on the way out.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with _one_line_messages():
            app()  # Ctrl-C ends with exit code 130
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        print(f"nutime: {printable(message_of(error))}", file=sys.stderr)
        raise SystemExit(1) from None
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _one_line_messages() -> Iterator[None]:
    """Print warnings and log messages of nutime as one line each, and none of other packages."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        print(f"nutime: {printable(message_of(message))}", file=sys.stderr)

    handler = logging.StreamHandler()
    handler.format = lambda record: f"nutime: {printable(record.getMessage())}"  # type: ignore[method-assign]
    logger = logging.getLogger("nutime")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    with warnings.catch_warnings():
        if not sys.warnoptions:  # python -W takes precedence
            warnings.simplefilter("ignore")
            warnings.filterwarnings("default", module="nutime")
        warnings.showwarning = show
        try:
            yield
        finally:
            logger.removeHandler(handler)
