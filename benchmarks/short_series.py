"""Short series read by default and as three resolutions of 2048 points: series per second and accuracy.

    python benchmarks/short_series.py --data-dir ARCHIVES --max-series 60

Runs ``NuTimeClassifier`` on all UCR sets of 24 to 150 points that are in the folder; of training and test part the
first ``--max-series`` of a fixed shuffle. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from nutime import NuTimeClassifier
from nutime.data.archives import load_dataset

READINGS = {"resolutions": {"encoder": "nutime-base", "pool": "resolutions"}, "default": {}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data-dir", required=True, help="archive folder with a folder ucr")
    parser.add_argument("--max-series", type=int, default=10**9, help="training and test series used at most")
    args = parser.parse_args()
    seconds, accuracy = dict.fromkeys(READINGS, 0.0), {name: [] for name in READINGS}
    n_series = 0
    for path in sorted(Path(args.data_dir, "ucr").glob("*.npz")):
        try:
            data = load_dataset(path.stem, data_dir=args.data_dir)
        except ValueError:  # without a complete test part
            continue
        if not 24 <= np.shape(data.X_train[0])[-1] <= 150:
            continue
        train, test = (
            np.random.default_rng(0).permutation(len(y))[: args.max_series] for y in (data.y_train, data.y_test)
        )
        if len(np.unique(data.y_train[train])) < 2:
            continue
        n_series += len(test)
        for name, params in READINGS.items():
            classifier = NuTimeClassifier(**params).fit(data.X_train[train], data.y_train[train])
            start = time.perf_counter()
            predictions = classifier.predict(data.X_test[test])
            seconds[name] += time.perf_counter() - start
            accuracy[name].append(100 * np.mean(predictions == data.y_test[test]))
        print(f"{path.stem:30}", *(f"{name} {values[-1]:6.2f}" for name, values in accuracy.items()), flush=True)
    result = {
        name: {"series_per_s": round(n_series / seconds[name], 1), "accuracy": round(np.mean(accuracy[name]), 2)}
        for name in READINGS
    }
    ratio = round(seconds["resolutions"] / seconds["default"], 2)
    print(json.dumps({"sets": len(accuracy["default"]), "ratio": ratio, **result}))


if __name__ == "__main__":
    main()
