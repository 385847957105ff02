"""``nutime figure``: every name draws; numbers come from results that are invented and look it."""

import json
from dataclasses import asdict

import pytest
from typer.testing import CliRunner

from nutime.bench.results import Result
from nutime.cli.figure import app

SETS = ("ucr/ArrowHead", "ucr/Beef", "ucr/Coffee", "ucr/GunPoint", "ucr/Wine", "ucr/Yoga")


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    methods = {"nutime-base": 0.0, "MiniRocket": -0.01, "Mantis": 0.02}
    lines = [
        Result("finetune", name, method, "honest", 0, {"accuracy": 0.1 * place + shift}, 1.0)
        for place, name in enumerate(SETS, 2)
        for method, shift in methods.items()
    ]
    lines += [
        Result("ablation-weighting", SETS[0], variant, "honest", 0, {"accuracy": value}, 1.0)
        for variant, value in (("1 scale, weighted", 0.5), ("9 scales, weighted", 0.6), ("9 scales, plain", 0.4))
    ]
    path = tmp_path_factory.mktemp("results") / "results.jsonl"
    path.write_text("".join(json.dumps(asdict(line)) + "\n" for line in lines))
    return path


def assert_drawn(done, folder, name):
    assert done.exit_code == 0, done.output
    assert [str(folder / f"{name}.{suffix}") for suffix in ("png", "svg")] == done.stdout.split()
    assert all(path.stat().st_size > 5_000 for path in folder.iterdir())


@pytest.mark.parametrize("name", ["scales", "response", pytest.param("attention", marks=pytest.mark.slow)])
def test_figures_are_drawn_from_what_is_at_hand(name, tmp_path):
    pytest.importorskip("aeon")
    assert_drawn(run(name, "-o", tmp_path), tmp_path, name)


def test_a_map_of_a_chosen_set_is_drawn(tmp_path):
    pytest.importorskip("aeon")
    assert_drawn(run("map", "--set", "BasicMotions", "-o", tmp_path), tmp_path, "map")


def test_attention_of_chosen_classes_is_drawn(tmp_path):
    pytest.importorskip("aeon")
    assert_drawn(run("attention", "--set", "GunPoint", "--class", "2", "-o", tmp_path), tmp_path, "attention")


@pytest.mark.parametrize(
    "arguments", [["cd"], ["cd", "--published"], ["scatter"], ["cd", "--protocol", "ucr"]], ids=" ".join
)
def test_results_are_compared(arguments, results, tmp_path):
    assert_drawn(run(*arguments, "--results", results, "-o", tmp_path), tmp_path, arguments[0])


def test_the_weighting_is_drawn_from_results(results, tmp_path):
    assert_drawn(run("weighting", "--results", results, "-o", tmp_path), tmp_path, "weighting")


MISTAKES = {
    "no results": (["cd", "--results", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
    "no results of that selection": (["cd", "--selection", "paper"], "has no paper results of finetune"),
    "a protocol without methods to rank": (["scatter", "--protocol", "anomaly"], "use probe, finetune, uea"),
    "no results of the weighting": (
        ["weighting", "--selection", "paper"],
        "no paper results of ablation-weighting",
    ),
    "an unknown class": (["attention", "--set", "GunPoint", "--class", "3"], "its classes are 1, 2"),
    "classes of several sets": (["attention", "--class", "1"], "name that set with --set"),
    "an unknown set": (["map", "--set", "GunPoit"], "closest names: GunPoint"),
    "unknown weights": (["response", "--weights", "nowhere"], "nutime-base"),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line_and_nothing_is_written(arguments, message, results, tmp_path):
    pytest.importorskip("aeon")
    reads_results = arguments[0] in ("cd", "scatter", "weighting") and "--results" not in arguments
    extra = ["--results", results] if reads_results else []
    done = run(*arguments, *extra, "-o", tmp_path / "out")
    assert isinstance(done.exception, ValueError)
    assert message in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_curves_show_runs_of_one_name_side_by_side(tmp_path):
    for place in ("a", "b"):
        (tmp_path / place / "run").mkdir(parents=True)
        lines = [{"step": step, "loss": 1 / step, "spread": 0.5, "probe": None} for step in (1, 2, 3)]
        (tmp_path / place / "run" / "metrics.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    done = run("curves", tmp_path / "a" / "run", tmp_path / "b" / "run", "-o", tmp_path / "out")
    assert_drawn(done, tmp_path / "out", "curves")


@pytest.mark.parametrize(
    ("text", "about"), [(None, "not the folder of a pretraining run"), ("[]\n", "not the metrics of a run")]
)
def test_curves_of_what_is_no_run_are_refused(text, about, tmp_path):
    if text is not None:
        (tmp_path / "metrics.jsonl").write_text(text)
    done = run("curves", tmp_path, "-o", tmp_path / "out")
    assert isinstance(done.exception, ValueError)
    assert about in str(done.exception)
