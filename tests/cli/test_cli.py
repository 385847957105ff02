import json
from importlib.metadata import version

import pytest

from nutime.cli import demo


@pytest.mark.parametrize(
    "command",
    [
        *["", "demo", "embed", "fit", "predict", "cluster", "detect"],
        *["explore", "label", "suggest", "export", "serve"],
        *["corpus", "corpus build", "corpus info", "corpus synth", "pretrain"],
        *["bench", "bench run", "bench report", "figure", "figure cd"],
    ],
)
def test_every_command_has_help(nutime, command):
    done = nutime(*command.split(), "--help")
    assert done.code == 0
    assert "Usage" in done.out
    if command not in ("", "corpus", "bench", "figure"):
        assert "Example" in done.out


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


MISTAKES = {
    "a file that is not there": ["corpus", "build", "nowhere.csv", "-o", "OUT"],
    "a set that does not exist": ["corpus", "build", "GunPoit", "-o", "OUT"],
    "a malformed file": ["corpus", "build", "BAD", "-o", "OUT"],
    "a folder that is no corpus": ["corpus", "info", "."],
    "a corpus that is not there": ["pretrain", "nowhere", "-o", "OUT", "--probe", "none"],
}


@pytest.mark.parametrize("arguments", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_1(nutime, tmp_path, arguments):
    (tmp_path / "bad.csv").write_text("label,a,b\nx,1,2\ny,1,oops\n")
    places = {"OUT": tmp_path / "out", "BAD": tmp_path / "bad.csv"}
    done = nutime(*[places.get(argument, argument) for argument in arguments])
    assert done.code == 1
    assert done.err.startswith("nutime: ")
    assert done.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_malformed_file_is_named_with_its_line(nutime, tmp_path):
    (tmp_path / "bad.csv").write_text("label,a,b\nx,1,2\ny,1,oops\n")
    done = nutime("corpus", "build", tmp_path / "bad.csv", "-o", tmp_path / "out")
    assert f"{tmp_path / 'bad.csv'}:3: " in done.err


@pytest.mark.parametrize("arguments", [["nonsense"], ["pretrain"], ["corpus", "synth", "0", "-o", "x"]])
def test_wrong_usage_is_exit_code_2(nutime, arguments):
    assert nutime(*arguments).code == 2


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


def test_the_version_is_printed(nutime):
    done = nutime("--version")
    assert done.out == f"nutime {version('nutime')}\n"
