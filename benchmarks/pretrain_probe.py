"""Pretrain a small encoder for 500 steps on the training splits aeon bundles, on a CPU, and see what it learned.

    python benchmarks/pretrain_probe.py

Prints the nearest-neighbour probe (leave one out, training splits only) before and after; last line JSON.
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
from nutime.pretrain.probe import nearest_neighbour_probe, probe_data

NETWORK = NuTimeConfig(dim=64, depth=3, heads=4, head_dim=16, mlp_dim=256)
RECIPE = PretrainConfig(network=NETWORK, steps=500, batch=128, smallest_crop=0.5, sampling="sqrt", momentum=0.99)


def main() -> None:
    probe = nearest_neighbour_probe(probe_data("bundled"))
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
