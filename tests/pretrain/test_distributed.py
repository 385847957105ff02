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
from tiny_recipe import TINY

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")

# Adam's first steps are as long for a gradient of rounding errors as for any other, so that losses come apart:
# by 1e-7 to 1e-4 within 20 steps, as the seed will have it. Half of the batch alone makes 1e-2 to 1e-1.
LAST_DIGITS = 1e-3


def command(corpus, run, *options, processes=1, restarts=0):
    launcher = [sys.executable, "-m", "nutime"]
    if processes > 1:
        launcher = [
            *[sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"],
            *[f"--max-restarts={restarts}", "-m", "nutime"],
        ]
    fields = [f"--network={name}={getattr(TINY, name)}" for name in vars(TINY)]
    fixed = ["--device=cpu", "--batch=16", "--log-every=1", "--probe=none", *fields]
    return [*launcher, "pretrain", str(corpus.path), "-o", str(run), *fixed, *options]


def run_to_end(*arguments, **options):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        command(*arguments, **options), env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr[-2000:]


def losses(run):
    return [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one(corpus, tmp_path):
    run_to_end(corpus, tmp_path / "one", "--steps=20")
    run_to_end(corpus, tmp_path / "two", "--steps=20", processes=2)
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), abs=LAST_DIGITS)
    assert len(losses(tmp_path / "two")) == 20


def test_two_processes_hide_and_contrast_like_one(corpus, tmp_path):
    options = ["--steps=8", "--pool=cls+mean", "--masked=0.5", "--contrast=0.1", "--rescale=0.3"]
    run_to_end(corpus, tmp_path / "one", *options)
    run_to_end(corpus, tmp_path / "two", *options, processes=2)
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), abs=LAST_DIGITS)


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the workers through /proc")
def test_a_killed_worker_costs_a_restart_from_the_last_checkpoint(corpus, tmp_path):
    run = tmp_path / "run"
    options = ["--steps=60", "--checkpoint-every=5", "--resume"]
    launch = command(corpus, run, *options, processes=2, restarts=2)
    process = subprocess.Popen(
        launch, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
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
