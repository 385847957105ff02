"""The ``nutime`` command: the list of commands, and one place where errors become one line.

Commands import what they need when they run, so that help appears at once.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from nutime.cli import bench, corpus, demo, explore, export, figure, pretrain, serve, transfer

app = typer.Typer(
    help="Embeddings, classifiers, clusters and anomaly scores for time series of any scale.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        from nutime.version import own_version

        print(f"nutime {own_version()}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Tell the version, and end.")
    ] = False,
) -> None:
    pass


app.command("demo")(demo.demo)
for command in (transfer.embed, transfer.fit, transfer.predict, transfer.cluster, transfer.detect):
    app.command()(command)
app.command("explore")(explore.explore)
app.command("export")(export.export)
app.command("serve")(serve.serve)
app.add_typer(corpus.app, name="corpus")
app.command("pretrain")(pretrain.pretrain)
app.add_typer(bench.app, name="bench")
app.add_typer(figure.app, name="figure")


def main() -> None:
    """Run the command line; what the user can mend is told in one line, with exit code 1."""
    try:
        app()
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        print(f"nutime: {' '.join(str(error).split())}", file=sys.stderr)
        raise SystemExit(1) from None
