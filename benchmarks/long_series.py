"""Long series: time, memory and whether a short event is found.

    python benchmarks/long_series.py
    python benchmarks/long_series.py --series 100 --points 1000000

Half of the series (white noise, float32) contain a jump of 50 standard deviations over 200 samples. Printed are
the time and the memory, beyond that of the data, of embedding all series as the default classifier does, and the
cross-validated accuracy of its probe with 20 series per class; with one reading of the whole series beside it.
"""

from __future__ import annotations

import argparse
import json
import resource
import time

import numpy as np

from nutime import NuTime
from nutime.encoder import SMALL_WEIGHTS
from nutime.estimators.base import EmbeddedSeries
from nutime.estimators.classifier import NuTimeClassifier
from nutime.evaluate import deal_folds, validate

JUMP, JUMP_SAMPLES = 50, 200


def jumps(series: int, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return noise, every second series with a jump at a random position, and whether it has one."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((series, points), dtype=np.float32)
    y = np.arange(series) % 2
    for row in X[1::2]:
        start = rng.integers(points - JUMP_SAMPLES)
        row[start : start + JUMP_SAMPLES] += JUMP
    return X, y


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(
    X: np.ndarray, y: np.ndarray, pool: str, length: int | str | None, per_class: int
) -> dict[str, object]:
    start, before = time.perf_counter(), peak_mb()
    embedded = EmbeddedSeries.embed(X, SMALL_WEIGHTS, pool, length=length, device="cpu")
    seconds, megabytes = time.perf_counter() - start, peak_mb() - before
    few = embedded[np.arange(2 * per_class)]
    labels = y[: 2 * per_class].astype(str)

    def make() -> NuTimeClassifier:
        return NuTimeClassifier(encoder=embedded.encoder, pool=pool, length=length)

    result = validate(make, few, labels, deal_folds(labels, 5, 0))
    assert result is not None
    row = {"reading": str(embedded.reading), "seconds": round(seconds, 1), "MB": round(megabytes)}
    return {**row, "accuracy": round(result.accuracy, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--series", type=int, default=100)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--per-class", type=int, default=20)
    args = parser.parse_args()
    X, y = jumps(args.series, args.points)
    NuTime.from_pretrained().embed(X[:2, :1000])  # libraries are loaded, threads started
    print(f"{args.series} series of {args.points:,} points: {X.nbytes / 2**20:.0f} MB")
    rows = [measure(X, y, pool, length, args.per_class) for pool, length in (("upper", 512), ("auto", "auto"))]
    for row in rows:
        print(f"{row['reading']:45} {row['seconds']:8} s {row['MB']:6} MB  accuracy {row['accuracy']}", flush=True)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
