"""Embed the same series with NuTime and with Mantis (random weights, V1 class) and print the ratio.

    pip install -e '.[compare]'
    python benchmarks/embed_cpu.py

Each model runs in a process of its own, so that peak memory is its own. The last line is JSON.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import time

import numpy as np

SERIES, LENGTH, REPEATS = 2000, 512, 3


def random_walks() -> np.ndarray:
    steps = np.random.default_rng(0).standard_normal((SERIES, LENGTH), dtype=np.float32)
    return steps.cumsum(axis=1)


def embed_nutime(X: np.ndarray) -> np.ndarray:
    from nutime import NuTime, NuTimeConfig

    return NuTime(NuTimeConfig(head_dim=64)).embed(X)


def embed_mantis(X: np.ndarray) -> np.ndarray:
    import torch
    from mantis.architecture import Mantis8M
    from mantis.trainer import MantisTrainer

    torch.set_grad_enabled(False)
    network = Mantis8M(device="cpu").eval()
    return MantisTrainer(device="cpu", network=network).transform(X[:, None, :])


def measure(name: str) -> dict[str, float]:
    """Run one model a few times; the best run counts, as it was disturbed least."""
    embed = {"nutime": embed_nutime, "mantis": embed_mantis}[name]
    X = random_walks()
    embed(X[:100])
    best = min(_seconds(embed, X) for _ in range(REPEATS))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"series_per_s": round(SERIES / best, 1), "peak_mb": round(peak)}


def _seconds(embed: object, X: np.ndarray) -> float:
    start = time.perf_counter()
    embed(X)  # type: ignore[operator]
    return time.perf_counter() - start


def main() -> None:
    result: dict[str, object] = {}
    for name in ("nutime", "mantis"):
        with multiprocessing.get_context("spawn").Pool(1) as process:
            result[name] = process.apply(measure, (name,))
        print(name, result[name])
    rates = [result[name]["series_per_s"] for name in ("nutime", "mantis")]  # type: ignore[index]
    result["ratio"] = round(rates[0] / rates[1], 2)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
