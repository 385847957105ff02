"""Time one pretraining step: crops, two views, loss, optimizer and target update, length 512.

    python benchmarks/pretrain_step.py                   # GPU: ms per step and the profile's top ten, four recipes
    python benchmarks/pretrain_step.py --batch 128       # CPU: series/s and the ratio to a literal rewrite

The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch
from literal import LiteralBYOL

from nutime import NuTimeConfig
from nutime.data.crops import FlatSeries
from nutime.model.network import NuTimeNetwork
from nutime.pretrain.byol import BYOL, Objective
from nutime.pretrain.config import PretrainConfig
from nutime.pretrain.sampling import Sampler
from nutime.pretrain.schedule import Schedule
from nutime.pretrain.step import PretrainStep

LENGTH = 512
BASE = Objective(pool="cls+mean", masked=0.5, contrast=0.2)
#: The paper's recipe, with dropout and two sizes of heads; that of ``nutime-base``; the same for a larger network.
RECIPES = {
    "paper-16": (NuTimeConfig(head_dim=16), Objective()),
    "paper-64": (NuTimeConfig(head_dim=64), Objective()),
    "base": (NuTimeConfig(dim=256, head_dim=32, mlp_dim=768, dropout=0.0), BASE),
    "large": (NuTimeConfig(dim=384, depth=8, heads=12, head_dim=32, mlp_dim=1536, dropout=0.0), BASE),
}


def random_walks(count: int, device: str) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(count, LENGTH, device=device).cumsum(-1)


def our_step(series: torch.Tensor, batch: int, recipe: str) -> PretrainStep:
    torch.manual_seed(0)
    network, objective = RECIPES[recipe]
    device = series.device
    count = len(series)
    flat = FlatSeries(
        series.flatten(),
        torch.arange(count, device=device) * LENGTH,
        torch.full((count,), LENGTH, device=device),
    )
    first, size = (torch.tensor([value], device=device) for value in (0, count))
    sampler = Sampler(flat, first, size, torch.ones(1, dtype=torch.float64, device=device))
    byol = BYOL(NuTimeNetwork(network), objective).to(device)
    views = {"smallest_crop": 0.3, "rescale": 0.35} if objective == BASE else {}
    return PretrainStep(byol, sampler, Schedule(steps=10_000), PretrainConfig(batch=batch, **views))


def milliseconds(step: object, repeats: int, device: str) -> float:
    """Median over repeats."""
    times = []
    for _ in range(repeats):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        step()  # type: ignore[operator]
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def top_kernels(step: PretrainStep, count: int = 10) -> list[tuple[str, float, int]]:
    """Return (name, ms per step, calls per step) of the most expensive kernels."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(3):
            step()
        torch.cuda.synchronize()
    rows = sorted(profile.key_averages(), key=lambda row: -row.self_device_time_total)
    return [(row.key[:90], row.self_device_time_total / 3000, row.count // 3) for row in rows[:count]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--recipes", default=",".join(RECIPES))
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch = args.batch or (2048 if device == "cuda" else 128)
    repeats = args.repeats or (50 if device == "cuda" else 3)
    series = random_walks(8192 if device == "cuda" else 1024, device)
    result: dict[str, object] = {"device": device, "batch": batch, "torch": torch.__version__}
    if device == "cuda":
        result["gpu"] = torch.cuda.get_device_name()
        for recipe in args.recipes.split(","):
            start = time.perf_counter()
            step = our_step(series, batch, recipe)
            step()
            torch.cuda.synchronize()
            result[f"{recipe}_start_s"] = round(time.perf_counter() - start, 1)
            result[f"{recipe}_ms"] = round(milliseconds(step, repeats, device), 3)
            print(f"{recipe}: {result[f'{recipe}_ms']} ms per step, loss {step.loss.item():.4f}")
            for name, ms, calls in top_kernels(step):
                print(f"  {ms:7.3f} ms  {calls:4d} x  {name}")
    else:
        for name, build in {
            "nutime": lambda: our_step(series, batch, "paper-64"),
            "literal": lambda: LiteralBYOL(series, batch, 64),
        }.items():
            step = build()
            step()
            result[f"{name}_series_per_s"] = round(1000 * batch / milliseconds(step, repeats, device), 1)
        result["ratio"] = round(result["nutime_series_per_s"] / result["literal_series_per_s"], 2)  # type: ignore[operator]
    print(json.dumps(result))


if __name__ == "__main__":
    main()
