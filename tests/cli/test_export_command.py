"""The rest of the command is tested where a file is written anyway, in ``tests/test_export.py``."""

import typer
from typer.testing import CliRunner

from nutime.cli.export import export

app = typer.Typer()
app.command()(export)


def test_help_shows_an_example():
    assert "Example: `nutime export" in CliRunner().invoke(app, ["--help"]).stdout


def test_an_output_must_be_named():
    assert CliRunner().invoke(app, ["nutime-base"]).exit_code == 2
