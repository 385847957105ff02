"""Predict many series in memory with the default classifier: rate and peak memory.

    python benchmarks/predict_memory.py 100000

The series are random walks of length 128. Peak memory is that of the whole process, including imports and the
series themselves. The last line is JSON; the exit code is 1 above 1.5 GB.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time

import numpy as np

LENGTH, TRAINED, LIMIT_MB = 128, 40, 1500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("series", type=int)
    args = parser.parse_args()

    from nutime import NuTimeClassifier

    X = np.random.default_rng(0).standard_normal((args.series, LENGTH), dtype=np.float32).cumsum(axis=1)
    classifier = NuTimeClassifier().fit(X[:TRAINED], X[:TRAINED, -1] > 0)
    start = time.perf_counter()
    classifier.predict(X)
    rate = args.series / (time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"series": args.series, "series_per_s": round(rate, 1), "peak_mb": round(peak)}))
    sys.exit(peak > LIMIT_MB)


if __name__ == "__main__":
    main()
