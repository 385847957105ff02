"""Real processes under torchrun, on the gloo backend."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from tiny_recipe import arguments

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")

# Adam's first steps are as long for a gradient of rounding errors as for any other, so losses differ by 1e-7 to
# 1e-4 within 20 steps, depending on the seed. With half of the batch they would differ by 1e-2 to 1e-1.
LAST_DIGITS = 1e-3


def start_two(corpus, run, *options, restarts=0):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    return subprocess.Popen(
        [*launcher, f"--max-restarts={restarts}", "-m", "nutime", *arguments(corpus.path, run, *options)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def assert_two_processes_have_the_losses_of_one(nutime, corpus, folder, *options):
    two = start_two(corpus, folder / "two", *options)
    done = nutime(*arguments(corpus.path, folder / "one", *options))
    _, errors = two.communicate(timeout=300)
    assert done.code == 0, done.err
    assert two.returncode == 0, errors[-2000:]
    assert losses(folder / "two") == pytest.approx(losses(folder / "one"), abs=LAST_DIGITS)


def losses(run):
    return [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one(nutime, corpus, tmp_path):
    assert_two_processes_have_the_losses_of_one(nutime, corpus, tmp_path, "--steps=20")
    assert len(losses(tmp_path / "two")) == 20


def test_two_processes_hide_and_contrast_like_one(nutime, corpus, tmp_path):
    options = ["--steps=8", "--pool=cls+mean", "--masked=0.5", "--contrast=0.1", "--rescale=0.3"]
    assert_two_processes_have_the_losses_of_one(nutime, corpus, tmp_path, *options)


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the workers through /proc")
def test_a_killed_worker_costs_a_restart_from_the_last_checkpoint(corpus, tmp_path):
    run = tmp_path / "run"
    process = start_two(corpus, run, "--steps=60", "--checkpoint-every=5", "--resume", restarts=2)
    while not (run / "metrics.jsonl").exists() or len(losses(run)) < 20:
        assert process.poll() is None, process.stderr.read()[-2000:]
        time.sleep(0.05)
    os.kill(children(process.pid)[-1], signal.SIGKILL)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors[-2000:]
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert steps[-1] == 60
    assert "exitcode: -9" in errors
    assert all(later <= earlier + 1 for earlier, later in pairwise(steps)), "steps were left out"
    assert (run / "model" / "model.safetensors").exists()
