import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_recipe import TINY, arguments, stop_at

from nutime import NuTime
from nutime.atomic import Journal, locked
from nutime.data.corpus.build import synthesize_corpus
from nutime.data.corpus.store import CorpusWriter
from nutime.figures.curves import read_metrics
from nutime.pretrain.checkpoint import checkpoints
from nutime.pretrain.config import PretrainConfig
from nutime.pretrain.loop import NonFiniteLossError, pretrain
from nutime.pretrain.step import PretrainStep


def weights(run):
    return load_file(run / "model" / "model.safetensors")


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def uninterrupted(corpus, recipe, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "uninterrupted"
    assert pretrain(corpus.path, run, recipe, device="cpu", probe=lambda network: 0.5)
    return run


def test_a_run_leaves_an_encoder_its_config_and_its_metrics(uninterrupted):
    assert NuTime.from_pretrained(uninterrupted / "model").config == TINY
    document = json.loads((uninterrupted / "run.json").read_text())
    assert document["config"]["seed"] == 0
    assert {"nutime", "torch", "numpy", "python"} <= document["versions"].keys()
    assert [line["step"] for line in metrics(uninterrupted)] == [2, 4, 6, 8, 10, 12]
    assert {"loss", "learning_rate", "spread", "series_per_s"} <= metrics(uninterrupted)[0].keys()
    assert metrics(uninterrupted)[-1]["probe"] == 0.5


def test_a_stopped_and_resumed_run_ends_bit_for_bit_like_one_never_stopped(
    corpus, recipe, uninterrupted, tmp_path
):
    run = tmp_path / "run"
    assert not pretrain(corpus.path, run, recipe, device="cpu", report=stop_at(6))
    assert checkpoints(run / "checkpoints")[0].stem == "step-000000006"
    assert pretrain(corpus.path, run, resume=True, device="cpu")
    assert equal(weights(run), weights(uninterrupted))


def test_a_truncated_checkpoint_costs_the_steps_since_the_one_before(corpus, recipe, uninterrupted, tmp_path):
    run = tmp_path / "run"
    pretrain(corpus.path, run, recipe, device="cpu", report=stop_at(10, signal.SIGINT))
    newest = checkpoints(run / "checkpoints")[0]
    newest.write_bytes(newest.read_bytes()[:-100])
    with pytest.warns(UserWarning, match="damaged"):
        assert pretrain(corpus.path, run, resume=True, device="cpu")
    assert equal(weights(run), weights(uninterrupted))


def test_resuming_what_never_began_begins(corpus, recipe, uninterrupted, tmp_path):
    assert pretrain(corpus.path, tmp_path / "run", recipe, resume=True, device="cpu")
    assert equal(weights(tmp_path / "run"), weights(uninterrupted))


def test_a_streamed_corpus_trains_and_resumes_bit_for_bit(corpus, recipe, tmp_path):
    streamed = {"device": "cpu", "budget": 40_000}
    assert pretrain(corpus.path, tmp_path / "straight", recipe, **streamed)
    assert not pretrain(corpus.path, tmp_path / "stopped", recipe, report=stop_at(6), **streamed)
    assert pretrain(corpus.path, tmp_path / "stopped", resume=True, **streamed)
    assert equal(weights(tmp_path / "stopped"), weights(tmp_path / "straight"))


def test_a_folder_in_use_is_not_overwritten(corpus, recipe, uninterrupted):
    with pytest.raises(ValueError, match="already exists; resume it"):
        pretrain(corpus.path, uninterrupted, recipe, device="cpu")


def test_a_run_is_not_resumed_on_another_corpus(recipe, uninterrupted, tmp_path):
    other = synthesize_corpus(20, tmp_path / "other", length=50)
    with pytest.raises(ValueError, match="another corpus"):
        pretrain(other.path, uninterrupted, resume=True, device="cpu")


def test_a_run_is_not_resumed_on_the_same_series_in_another_scale(corpus, uninterrupted, tmp_path):
    series = corpus.flat()
    with CorpusWriter(tmp_path / "scaled") as writer:
        writer.add("synthetic", [1000 * one.numpy() for one in series.values.split(series.lengths.tolist())])
    with pytest.raises(ValueError, match="another corpus"):
        pretrain(tmp_path / "scaled", uninterrupted, resume=True, device="cpu")


def test_a_run_of_an_older_version_is_resumed(corpus, uninterrupted, tmp_path):
    run = shutil.copytree(uninterrupted, tmp_path / "run")
    document = json.loads((run / "run.json").read_text())
    document["corpus"] = {name: document["corpus"][name] for name in ("series", "values")}
    (run / "run.json").write_text(json.dumps(document))
    assert pretrain(corpus.path, run, resume=True, device="cpu")


def test_a_run_that_could_not_start_is_started_in_the_same_folder(corpus, recipe, tmp_path):
    mistaken = dataclasses.replace(recipe, teacher="nutime-bass")
    with pytest.raises(ValueError, match="no weights 'nutime-bass'"):
        pretrain(corpus.path, tmp_path / "run", mistaken, device="cpu")
    assert pretrain(corpus.path, tmp_path / "run", recipe, device="cpu")


def test_a_run_that_fails_closes_its_metrics_and_a_torn_line_is_replaced(corpus, recipe, uninterrupted, tmp_path):
    def fail(metrics):
        raise OSError("no space left")

    run = tmp_path / "run"
    with pytest.raises(OSError, match="no space left"):
        pretrain(corpus.path, run, recipe, device="cpu", report=fail)
    opened = {os.path.realpath(path) for path in Path("/proc/self/fd").glob("*")}
    assert not any(path.startswith(str(run.resolve())) for path in opened)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')
    assert pretrain(corpus.path, run, resume=True, device="cpu")
    assert [line["step"] for line in metrics(run)] == [2, 2, 4, 6, 8, 10, 12]
    assert [line["loss"] for line in read_metrics(run)] == [line["loss"] for line in metrics(uninterrupted)]


@pytest.mark.parametrize(
    "change",
    [
        {"steps": 0},
        {"steps": 1.5},
        {"epochs": 0.0},
        {"batch": 0},
        {"learning_rate": -1.0},
        {"learning_rate": float("nan")},
        {"warmup": 2.0},
        {"momentum": 5.0},
        {"weight_decay": -0.1},
        {"smallest_crop": 5.0},
        {"smallest_crop": 0.0},
        {"masked": 1.0},
        {"seed": -1},
        {"seed": 2**31},
        {"sampling": "largest"},
    ],
    ids=str,
)
def test_a_parameter_out_of_its_range_is_refused(change):
    with pytest.raises(ValueError, match=f"^{next(iter(change))} must be "):
        PretrainConfig(**change)


@pytest.mark.parametrize("content", ["{}", "[]", "", '{"config": {}, "corpus": {}}', '{"config": {"network": 3}}'])
def test_a_damaged_run_is_refused_in_one_line(corpus, tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(ValueError, match=r"run.json: not written by nutime, or damaged \(.+\)$"):
        pretrain(corpus.path, tmp_path, resume=True, device="cpu")


def test_a_run_that_states_the_lengths_of_its_views_is_resumed(corpus, uninterrupted, tmp_path):
    run = shutil.copytree(uninterrupted, tmp_path / "run")
    document = json.loads((run / "run.json").read_text())
    document["config"]["lengths"] = []
    (run / "run.json").write_text(json.dumps(document))
    assert pretrain(corpus.path, run, resume=True, device="cpu")


def test_a_run_in_use_is_not_resumed_by_another_process(corpus, uninterrupted):
    with locked(uninterrupted), pytest.raises(ValueError, match="another process is using it"):
        pretrain(corpus.path, uninterrupted, resume=True, device="cpu")


def test_a_non_finite_loss_stops_the_run_and_names_the_batch(recipe, tmp_path):
    with CorpusWriter(tmp_path / "corpus") as writer:
        writer.add("huge", (torch.full((50,), 3e38).numpy() * (-1) ** torch.arange(50).numpy() for _ in range(20)))
    poisoned = dataclasses.replace(recipe, learning_rate=1e38)
    with pytest.raises(NonFiniteLossError, match=r"loss of step \d+ is not finite; its batch starts with series"):
        pretrain(tmp_path / "corpus", tmp_path / "run", poisoned, device="cpu")


def test_a_run_whose_log_cannot_be_opened_leaves_no_file_open(corpus, recipe, tmp_path):
    pytest.importorskip("tensorboard")
    run = tmp_path / "run"
    run.mkdir()
    (run / "tensorboard").write_text("")  # a file where the folder should go
    with pytest.raises(FileExistsError) as caught:
        pretrain(corpus.path, run, recipe, resume=True, device="cpu")
    assert caught.value.__traceback__  # which holds on to what was opened
    Journal(run / "metrics.jsonl").close()  # another process can append to it


def test_an_unwritable_checkpoint_midway_is_a_warning_and_the_run_goes_on(corpus, recipe, tmp_path):
    run = tmp_path / "run"
    blocked = run / "checkpoints" / "step-000000004.safetensors"
    blocked.mkdir(parents=True)  # a folder where the file should go: writing fails, even for root
    with pytest.warns(UserWarning, match="checkpoint of step 4 not saved"):
        assert pretrain(corpus.path, run, recipe, resume=True, device="cpu")


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_stops_gently_exits_0_and_prints_how_to_resume(nutime, corpus, tmp_path, monkeypatch, number):
    step, steps = PretrainStep.__call__, []

    def stopped(self):
        steps.append(1)
        if len(steps) == 3:
            os.kill(os.getpid(), number)
        step(self)

    monkeypatch.setattr(PretrainStep, "__call__", stopped)
    done = nutime(*arguments(corpus.path, tmp_path / "run", "--steps=100000"))
    assert (done.code, len(steps)) == (0, 3)
    assert f"nutime pretrain {corpus.path} -o {tmp_path / 'run'} --resume" in done.err
    assert checkpoints(tmp_path / "run" / "checkpoints")


def start(corpus, run, *options):
    command = [sys.executable, "-m", "nutime", *arguments(corpus.path, run, *options)]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def steps_done(run):
    return len(metrics(run)) if (run / "metrics.jsonl").exists() else 0


def wait_for(condition, process, seconds=120):
    end = time.monotonic() + seconds
    while not condition() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)


@pytest.mark.slow
def test_a_run_killed_five_times_ends_bit_for_bit_like_one_never_killed(corpus, tmp_path):
    options = ["--steps=300", "--checkpoint-every=10"]
    start(corpus, tmp_path / "straight", *options).communicate()
    chance = random.Random(0)
    run = tmp_path / "killed"
    for _ in range(5):
        process = start(corpus, run, *options, "--resume")
        goal = steps_done(run) + chance.randint(15, 50)
        wait_for(lambda goal=goal: steps_done(run) >= goal, process)
        assert process.poll() is None, "the run ended before it could be killed"
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert start(corpus, run, *options, "--resume").wait() == 0
    assert equal(weights(run), weights(tmp_path / "straight"))
