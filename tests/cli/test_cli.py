import json
from importlib.metadata import version

import pytest
import typer

from nutime.cli import demo, main


def commands(group, *path):
    """Yield the words of every command of a group, and the names of those below it."""
    below = getattr(group, "commands", {})
    yield path, list(below)
    for name, command in below.items():
        yield from commands(command, *path, name)


@pytest.mark.parametrize(("command", "below"), list(commands(typer.main.get_command(main.app))))
def test_every_command_has_help_with_an_example_and_every_group_lists_its_commands(nutime, command, below):
    done = nutime(*command, "--help")
    assert (done.code, done.err) == (0, "")
    assert "Usage" in done.out
    assert all(name in done.out for name in below or [f"Example: nutime {' '.join(command)}"])
    assert max(done.out) < "\U0001f000", "text between colons became an emoji"


def test_a_corpus_is_generated_and_described(nutime, tmp_path):
    assert nutime("corpus", "synth", 50, "-o", tmp_path / "c", "--length", 40).code == 0
    described = json.loads(nutime("corpus", "info", tmp_path / "c", "--json").out)
    assert described["series"] == 50
    assert described["sources"][0]["name"] == "synthetic"
    assert "50 series" in nutime("corpus", "info", tmp_path / "c").out


def test_a_corpus_is_built_from_a_file(nutime, tmp_path):
    (tmp_path / "mine.csv").write_text("label,a,b,c,d\nx,1,2,3,4\ny,4,3,1,1\n")
    done = nutime("corpus", "build", tmp_path / "mine.csv", "-o", tmp_path / "c", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["values"] == 8


def test_a_corpus_is_built_from_one_file_per_series(nutime, tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    for name in ("a", "b"):
        (runs / f"{name}.csv").write_text("clock,x,note\n0,1,5\n1,2,5\n3,4,5\n")
    (tmp_path / "states.csv").write_text("file,label\na,on\n")
    options = ["--time", "clock", "--channels", "x", "--json"]
    for source, labels in ((runs, ["--labels", tmp_path / "states.csv"]), (f"{runs}/*.csv", []), (runs, [])):
        done = nutime("corpus", "build", source, *labels, *options, "-o", tmp_path / "c", "--overwrite")
        assert done.code == 0, done.err
        described = json.loads(done.out)
        assert (described["series"], described["values"]) == (2, 8)  # a gap is filled, the note is no channel


@pytest.mark.parametrize(
    "sets", [("GunPoint", "BasicMotions"), pytest.param(demo._SETS, marks=pytest.mark.slow)], ids=["two", "all"]
)
def test_the_demo_prints_accuracies_and_draws(nutime, tmp_path, monkeypatch, sets):
    pytest.importorskip("aeon")
    monkeypatch.setattr(demo, "_SETS", sets)
    done = nutime("demo", "-o", tmp_path)
    assert done.code == 0, done.err
    assert all(name in done.out for name in sets)
    assert (tmp_path / "demo.png").stat().st_size > 20_000


@pytest.mark.parametrize(
    "command", [["demo"], ["bench", "report", "absent.jsonl"], ["figure", "scatter", "--results", "absent.jsonl"]]
)
def test_a_file_given_as_the_folder_is_refused_before_the_work(nutime, tmp_path, command):
    (tmp_path / "taken").write_text("")
    done = nutime(*command, "-o", tmp_path / "taken")
    assert "taken: is a file; name a folder" in done.refusal
    assert not done.out


def test_the_version_is_printed(nutime):
    done = nutime("--version")
    assert done.out == f"nutime {version('nutime')}\n"
