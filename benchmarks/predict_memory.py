"""Predict many short series in memory with the default classifier: peak memory, and the rate beside another one.

    python benchmarks/predict_memory.py 100000

The series are random walks of length 150, which the default classifier reads once, with 256 points. The
rival reads all series at three resolutions of 2048 points; it predicts the first 256 series, once before and once
after the default classifier predicts the same. Peak memory is that of the whole process, including imports and the
series themselves. The last line is JSON; the exit code is 1 above 1.5 GB.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from typing import Any

import numpy as np

LENGTH, TRAINED, COMPARED, LIMIT_MB = 150, 40, 256, 1500


def seconds(classifier: Any, X: np.ndarray) -> float:
    start = time.perf_counter()
    classifier.predict(X)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("series", type=int)
    args = parser.parse_args()

    from nutime import NuTimeClassifier

    X = np.random.default_rng(0).standard_normal((args.series, LENGTH), dtype=np.float32).cumsum(axis=1)
    train = X[:TRAINED], X[:TRAINED, -1] > 0
    classifier = NuTimeClassifier().fit(*train)
    rival = NuTimeClassifier(encoder="nutime-base", pool="resolutions", length=None).fit(*train)
    before, own, after = (seconds(model, X[:COMPARED]) for model in (rival, classifier, rival))
    total = seconds(classifier, X)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures = {
        "series": args.series,
        "seconds": round(total, 1),
        "series_per_s": round(args.series / total, 1),
        "compared_per_s": round(COMPARED / own, 1),
        "resolutions_per_s": round(2 * COMPARED / (before + after), 1),
        "ratio": round((before + after) / 2 / own, 2),
        "peak_mb": round(peak),
    }
    print(json.dumps(figures))
    sys.exit(peak > LIMIT_MB)


if __name__ == "__main__":
    main()
