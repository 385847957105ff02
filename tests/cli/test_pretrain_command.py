"""Options of ``nutime pretrain``: with --resume they are those of the run, or refused."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from nutime.cli.main import app
from nutime.cli.pretrain import _state
from nutime.data.corpus.build import synthesize_corpus
from nutime.pretrain.loop import StepMetrics

TINY = {"window": 4, "length": 16, "dim": 8, "depth": 1, "heads": 1, "head_dim": 8, "mlp_dim": 8, "scalar_dim": 4}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a function that continues a finished run of two steps, and the folder of that run."""
    folder = tmp_path_factory.mktemp("run")
    synthesize_corpus(32, folder / "corpus", length=16, seed=0)

    def pretrain(*options):
        fixed = [str(folder / "corpus"), "-o", str(folder / "run"), "--device=cpu", "--probe=none"]
        return CliRunner().invoke(app, ["pretrain", *fixed, *map(str, options)])

    network = [f"--network={name}={value}" for name, value in TINY.items()]
    done = pretrain("--steps", 2, "--batch", 16, *network)
    assert done.exit_code == 0, done.output
    return pretrain, folder / "run"


def test_a_run_is_resumed_without_repeating_its_options(run):
    assert run[0]("--resume").exit_code == 0


def test_options_equal_to_those_of_the_run_are_accepted(run):
    assert run[0]("--resume", "--steps", 2, "--batch", 16, "--network", "dim=8").exit_code == 0


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--epochs", "200.0"),
        ("--steps", "300"),
        ("--learning-rate", "0.1"),
        ("--seed", "1"),
        ("--network", "dim=16"),
        ("--checkpoint-every", "7"),
    ],
)
def test_an_option_that_differs_from_the_run_is_refused_in_one_line(run, option, value):
    pretrain, folder = run
    before = (folder / "run.json").read_bytes()
    done = pretrain("--resume", option, value)
    assert isinstance(done.exception, ValueError)
    message = str(done.exception)
    assert message.startswith(f"{option} {value}: the run in {folder} ")
    assert "\n" not in message
    assert (folder / "run.json").read_bytes() == before
    assert json.loads(before)["config"]["steps"] == 2


@pytest.mark.parametrize(
    "options",
    [
        ["--steps", "0"],
        ["--epochs", "0"],
        ["--batch", "0"],
        ["--log-every", "0"],
        ["--learning-rate", "-1"],
        ["--smallest-crop", "5"],
        ["--sampling", "largest"],
        ["--pool", "mean"],
        ["--steps", "2", "--epochs", "1"],
    ],
    ids=" ".join,
)
def test_no_work_at_all_is_wrong_usage(tmp_path, options):
    done = CliRunner().invoke(app, ["pretrain", str(tmp_path / "corpus"), "-o", str(tmp_path / "run"), *options])
    assert done.exit_code == 2
    assert not list(tmp_path.iterdir())


def test_progress_shows_no_rate_before_one_is_measured():
    metrics = StepMetrics(step=20, steps=40, loss=0.5, learning_rate=1e-3, spread=0.7, series_per_s=0.0)
    assert "series/s" not in _state(metrics)
    assert "32 series/s" in _state(replace(metrics, series_per_s=32.0))
