"""Embed the same series with the shipped encoders and with Mantis (random weights, V1 class) and print the ratios.

    pip install -e '.[compare,onnx]'
    python benchmarks/embed_cpu.py

With the extra ``onnx`` installed, onnxruntime runs ``nutime-small`` in the same batches (its peak memory
includes the export). Each model runs in its own process, so that peak memory is its own. The last line
is JSON.
"""

from __future__ import annotations

import functools
import json
import multiprocessing
import resource
import tempfile
import time
from importlib.util import find_spec
from typing import Any

import numpy as np

SERIES, LENGTH, REPEATS, BATCH = 2000, 512, 3, 64
SMALL, ONNX, MANTIS = "nutime-small", "nutime-small, onnxruntime", "mantis"


def random_walks() -> np.ndarray:
    steps = np.random.default_rng(0).standard_normal((SERIES, LENGTH), dtype=np.float32)
    return steps.cumsum(axis=1)


@functools.cache
def encoder(weights: str) -> Any:
    from nutime import NuTime

    return NuTime.from_pretrained(weights)


def embed_nutime(weights: str, X: np.ndarray) -> np.ndarray:
    return encoder(weights).embed(X, batch_size=BATCH)


@functools.cache
def onnx_session() -> Any:
    import onnxruntime

    from nutime.export import export_onnx

    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        export_onnx(encoder(SMALL), file.name)
        return onnxruntime.InferenceSession(file.name, providers=["CPUExecutionProvider"])


def embed_onnx(X: np.ndarray) -> np.ndarray:
    batches = [X[start : start + BATCH, None] for start in range(0, len(X), BATCH)]
    return np.concatenate([onnx_session().run(["embedding"], {"series": batch})[0] for batch in batches])


def embed_mantis(X: np.ndarray) -> np.ndarray:
    import torch
    from mantis.architecture import Mantis8M
    from mantis.trainer import MantisTrainer

    torch.set_grad_enabled(False)
    network = Mantis8M(device="cpu").eval()
    return MantisTrainer(device="cpu", network=network).transform(X[:, None, :])


def measure(name: str) -> dict[str, float]:
    """Run one model a few times; the fastest run counts."""
    embed = {ONNX: embed_onnx, MANTIS: embed_mantis}.get(name, functools.partial(embed_nutime, name))
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
    result: dict[str, Any] = {}
    has_onnx = all(map(find_spec, ("onnx", "onnxscript", "onnxruntime")))
    for name in (SMALL, "nutime-paper", "nutime-base", *[ONNX] * has_onnx, MANTIS):
        with multiprocessing.get_context("spawn").Pool(1) as process:
            result[name] = process.apply(measure, (name,))
        print(name, result[name])
    for figures in result.values():
        figures["times_mantis"] = round(figures["series_per_s"] / result[MANTIS]["series_per_s"], 2)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
