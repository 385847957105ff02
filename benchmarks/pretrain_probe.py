"""Pretrain a small encoder for 500 steps on the training splits bundled with aeon, on a CPU, and probe it.

    python benchmarks/pretrain_probe.py

Prints the linear probe (cross-validated inside training splits) before and after, for three seeds; the last line
is JSON. The objective is that of `nutime-base` (results/pretraining/LOG.md).
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
import time
from pathlib import Path
from statistics import mean

import torch

from nutime import NuTime, NuTimeConfig
from nutime.data.archives import bundled_sets
from nutime.data.corpus.build import build_corpus
from nutime.pretrain.config import PretrainConfig
from nutime.pretrain.loop import pretrain
from nutime.pretrain.monitor import linear_probe_on, probe_data

NETWORK = NuTimeConfig(depth=3, head_dim=16, mlp_dim=256)
RECIPE = PretrainConfig(
    network=NETWORK,
    steps=500,
    batch=64,
    smallest_crop=0.3,
    rescale=0.35,
    pool="cls+mean",
    masked=0.5,
    contrast=0.2,
    sampling="uniform",
    momentum=0.99,  # a short run needs a faster target network
    log_every=50,
)


SEEDS = (1, 2, 3)


def main() -> None:
    probe = linear_probe_on(probe_data("bundled"))
    assert probe, "needs nutime[archives]"
    runs = []
    with tempfile.TemporaryDirectory() as scratch:
        corpus = build_corpus(bundled_sets(), Path(scratch, "corpus"))
        for seed in SEEDS:
            torch.manual_seed(seed)
            before = probe(NuTime(NETWORK))
            run = Path(scratch, f"run-{seed}")
            start = time.perf_counter()
            pretrain(corpus.path, run, dataclasses.replace(RECIPE, seed=seed), device="cpu")
            seconds = time.perf_counter() - start
            after = probe(NuTime.from_pretrained(run / "model"))
            runs.append({"seed": seed, "before": before, "after": after, "seconds": seconds})
            print(runs[-1], flush=True)
    gains = [100 * (run["after"] - run["before"]) for run in runs]
    print(
        json.dumps(
            {"runs": runs, "gain_points": [round(gain, 2) for gain in gains], "mean": round(mean(gains), 2)}
        )
    )


if __name__ == "__main__":
    main()
