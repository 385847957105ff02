"""Pretrain a small encoder for 500 steps on the training splits aeon bundles, on a CPU, and see what it learned.

    python benchmarks/pretrain_probe.py

Prints the linear probe (cross-validated inside training splits) before and after; the last line is JSON.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import torch

from nutime import NuTime, NuTimeConfig
from nutime.data.archives import bundled_sets
from nutime.data.corpus import build_corpus
from nutime.pretrain.loop import PretrainConfig, pretrain
from nutime.pretrain.probe import linear_probe_on, probe_data

NETWORK = NuTimeConfig(depth=3, head_dim=16, mlp_dim=256)
RECIPE = PretrainConfig(
    network=NETWORK,
    steps=500,
    batch=64,
    smallest_crop=0.3,
    pool="cls+mean",
    sampling="uniform",
    momentum=0.99,  # a short run needs a target that follows faster
    log_every=50,
)


def main() -> None:
    probe = linear_probe_on(probe_data("bundled"))
    assert probe, "needs nutime[archives]"
    torch.manual_seed(RECIPE.seed)
    before = probe(NuTime(NETWORK))
    with tempfile.TemporaryDirectory() as scratch:
        corpus = build_corpus(bundled_sets(), Path(scratch, "corpus"))
        start = time.perf_counter()
        pretrain(corpus.path, Path(scratch, "run"), RECIPE, device="cpu", report=print)
        seconds = time.perf_counter() - start
        after = probe(NuTime.from_pretrained(Path(scratch, "run", "model")))
    result = {"before": before, "after": after, "gain_points": 100 * (after - before), "seconds": seconds}
    print(json.dumps({name: round(value, 3) for name, value in result.items()}))


if __name__ == "__main__":
    main()
