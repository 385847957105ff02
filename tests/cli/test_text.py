"""Labels and file names on a terminal are text, whatever bytes they have."""

import sys

import numpy as np
import pytest

from nutime.cli import main
from nutime.cli.summaries import _ClassSummary, show

HOSTILE = "a\x1b]0;title\x07\x1b[2J\x9b31m"


def test_escape_bytes_of_labels_do_not_reach_the_terminal(capsys):
    summary = _ClassSummary()
    columns = {"predicted": [HOSTILE], f"p_{HOSTILE}": [1.0], "label": [f"other{HOSTILE}"]}
    summary.add({name: np.array(values) for name, values in columns.items()})
    show(*summary.pages(), False, "out.csv")
    printed = capsys.readouterr().out
    assert "\\x1b" in printed
    assert not {"\x1b", "\x07", "\x9b"} & set(printed)


def test_escape_bytes_in_an_error_do_not_reach_the_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["nutime", "embed", f"{HOSTILE}.csv", "-o", "out.csv"])
    with pytest.raises(SystemExit):
        main.main()
    printed = capsys.readouterr().err
    assert printed.startswith("nutime: ")
    assert "\x1b" not in printed
