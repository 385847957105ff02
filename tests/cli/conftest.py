import io
import sys
from typing import NamedTuple

import pytest

from nutime.cli import main


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def nutime(capfd, monkeypatch):
    """Run the command line as a process would, without the seconds a process takes to start."""

    def run(*arguments, stdin=""):
        monkeypatch.setattr(sys, "argv", ["nutime", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capfd.readouterr()
        code = None
        try:
            main.main()
        except SystemExit as done:
            code = done.code
        return Done(code or 0, *capfd.readouterr())

    return run
