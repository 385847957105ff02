"""Embed the same series with NuTime and with Mantis (random weights, V1 class) and print the ratio.

    pip install -e '.[compare,onnx]'
    python benchmarks/embed_cpu.py

With the extra ``onnx`` installed, onnxruntime runs the same NuTime network in the same batches (its peak
memory includes the export). Each model runs in its own process, so that peak memory is its own. The last line
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


def random_walks() -> np.ndarray:
    steps = np.random.default_rng(0).standard_normal((SERIES, LENGTH), dtype=np.float32)
    return steps.cumsum(axis=1)


@functools.cache
def nutime_encoder() -> Any:
    from nutime import NuTime, NuTimeConfig

    return NuTime(NuTimeConfig(head_dim=64))


def embed_nutime(X: np.ndarray) -> np.ndarray:
    return nutime_encoder().embed(X, batch_size=BATCH)


@functools.cache
def onnx_session() -> Any:
    import onnxruntime

    from nutime.export import export_onnx

    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        export_onnx(nutime_encoder(), file.name)
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
    embed = {"nutime": embed_nutime, "onnx": embed_onnx, "mantis": embed_mantis}[name]
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
    for name in ("nutime", "onnx", "mantis") if has_onnx else ("nutime", "mantis"):
        with multiprocessing.get_context("spawn").Pool(1) as process:
            result[name] = process.apply(measure, (name,))
        print(name, result[name])
    rates = {name: figures["series_per_s"] for name, figures in result.items()}
    result["ratio"] = round(rates["nutime"] / rates["mantis"], 2)
    if "onnx" in rates:
        result["onnx_ratio"] = round(rates["onnx"] / rates["nutime"], 2)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
