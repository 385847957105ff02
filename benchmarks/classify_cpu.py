"""Fit and predict with NuTime, MiniRocket, MultiRocket-Hydra and Mantis on the same sets: seconds and ratios.

    pip install -e '.[compare,archives]'
    python benchmarks/classify_cpu.py --data-dir ARCHIVES
    python benchmarks/classify_cpu.py --sets GunPoint,ArrowHead      # sets bundled with aeon
    python benchmarks/classify_cpu.py --scaling --max-series 100000  # curves instead of sets

NuTime is ``NuTimeClassifier()`` with its defaults. Mantis has random weights, a StandardScaler and ridge
regression: compare its time, not its accuracy; it is skipped if ``mantis-tsfm`` is not installed. Methods run one
after another on every set, after a first fit that is not counted (compilation, loading).

``--scaling`` varies number, length and channels of random walks and writes ``classify_cpu.csv`` and a figure into
``results/speed``; a method stops at the first point that takes longer than ``--limit`` seconds. The last line is
JSON.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nutime import NuTimeClassifier
from nutime.atomic import replace_file
from nutime.bench.methods import equal_lengths, make_peer
from nutime.bench.report import read_scaling
from nutime.data.archives import Dataset, load_dataset
from nutime.data.series import as_series, resample
from nutime.figures.scaling import draw_scaling
from nutime.figures.style import save

SETS = (
    "ItalyPowerDemand", "GunPoint", "ECG200", "ArrowHead", "OSULeaf", "SyntheticControl", "CBF", "Plane",
    "FaceFour", "Trace", "Computers", "ECG5000", "Adiac",
)  # fmt: skip
OURS, BASELINE = "NuTime", "MiniRocket"
#: Number, length and channels of series at which each of them is varied; the other two have the first value.
SCALING = {
    "series": (100, 300, 1000, 3000, 10_000, 30_000, 100_000),
    "length": (128, 64, 256, 512, 1024, 2048, 4096),
    "channels": (1, 2, 4, 8, 16, 32),
}
SCALING_SERIES = 300  # where length and channels are varied


class Timing(NamedTuple):
    """Seconds of fit and predict, and the accuracy on the test series."""

    fit: float
    predict: float
    accuracy: float


class MantisRidge:
    """Mantis with random weights, and a linear classifier on its embedding."""

    def __init__(self) -> None:
        import torch
        from mantis.architecture import Mantis8M
        from mantis.trainer import MantisTrainer
        from sklearn.linear_model import RidgeClassifierCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        torch.manual_seed(0)
        self.mantis = MantisTrainer(device="cpu", network=Mantis8M(device="cpu").eval())
        self.classifier = make_pipeline(StandardScaler(), RidgeClassifierCV(np.logspace(-3, 3, 10)))

    def embed(self, X: np.ndarray) -> np.ndarray:
        return self.mantis.transform(resample(as_series(X), 512))

    def fit(self, X: np.ndarray, y: np.ndarray) -> MantisRidge:
        self.classifier.fit(self.embed(X), y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classifier.predict(self.embed(X))


def classifiers() -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {OURS: NuTimeClassifier}
    if find_spec("aeon"):
        found |= {name: partial(make_peer, name) for name in (BASELINE, "MultiRocket-Hydra")}
    else:
        print("MiniRocket and MultiRocket-Hydra skipped: aeon is not installed")
    if find_spec("mantis"):
        found["Mantis (random weights)"] = MantisRidge
    else:
        print("Mantis skipped: mantis-tsfm is not installed")
    return found


def measure(make: Callable[[], Any], data: Dataset) -> Timing:
    start = time.perf_counter()
    classifier = make().fit(data.X_train, data.y_train)
    fitted = time.perf_counter()
    predictions = np.asarray(classifier.predict(data.X_test))
    end = time.perf_counter()
    return Timing(fitted - start, end - fitted, float(np.mean(predictions == data.y_test)))


def random_walks(series: int, length: int, channels: int = 1) -> Dataset:
    """Return as many training as test series, in two classes of different step size."""
    rng = np.random.default_rng(0)
    y = np.arange(series) % 2
    steps = rng.standard_normal((2, series, channels, length), dtype=np.float32)
    X = (steps * (1 + y)[:, None, None]).cumsum(-1)
    return Dataset(X[0], y, X[1], y)


def run_sets(names: list[str], data_dir: str | None, makes: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Print one line per set and method; return totals and ratios."""
    totals = {name: np.zeros(3) for name in makes}
    print(f"{'set':20} {'method':24} {'fit s':>8} {'predict s':>10} {'accuracy':>9}")
    for name in names:
        data = load_dataset(name, data_dir=data_dir)
        X_train, X_test = equal_lengths(data.X_train, data.X_test)
        data = Dataset(X_train, data.y_train, X_test, data.y_test)
        for method, make in makes.items():
            timing = measure(make, data)
            totals[method] += timing
            numbers = f"{timing.fit:8.2f} {timing.predict:10.2f} {timing.accuracy:9.3f}"
            print(f"{name:20} {method:24} {numbers}", flush=True)
    result: dict[str, Any] = {"sets": len(names)}
    for method, (fit, predict, accuracy) in totals.items():
        result[method] = {"fit_s": round(fit, 2), "predict_s": round(predict, 2)}
        result[method]["mean_accuracy"] = round(accuracy / len(names), 4)
    if BASELINE in totals:
        for method, (fit, predict, _) in totals.items():
            base_fit, base_predict, _ = totals[BASELINE]
            ratios = {"fit": fit / base_fit, "predict": predict / base_predict}
            ratios["total"] = (fit + predict) / (base_fit + base_predict)
            result[method]["times_MiniRocket"] = {part: round(float(ratio), 2) for part, ratio in ratios.items()}
            print(f"{method:24}", *(f"{part} {ratio:.2f}×" for part, ratio in ratios.items()), f"of {BASELINE}")
    return result


def points(max_series: int) -> Iterator[tuple[str, int, tuple[int, int, int]]]:
    """Yield the varied quantity, its value, and the (series, length, channels) to measure."""
    length, channels = SCALING["length"][0], SCALING["channels"][0]
    for value in SCALING["series"]:
        if value <= max_series:
            yield "series", value, (value, length, channels)
    for value in sorted(SCALING["length"]):
        yield "length", value, (min(SCALING_SERIES, max_series), value, channels)
    for value in SCALING["channels"]:
        yield "channels", value, (min(SCALING_SERIES, max_series), length, value)


def run_scaling(
    makes: dict[str, Callable[[], Any]], max_series: int, limit: float, folder: Path
) -> list[dict[str, Any]]:
    """Measure every method at every point, and write the CSV file and the figure."""
    rows: list[dict[str, Any]] = []
    stopped: set[tuple[str, str]] = set()
    for quantity, value, shape in points(max_series):
        data = random_walks(*shape)
        for method, make in makes.items():
            if (quantity, method) in stopped:
                continue
            timing = measure(make, data)
            if timing.fit + timing.predict > limit:
                stopped.add((quantity, method))
            seconds = {"fit_s": round(timing.fit, 3), "predict_s": round(timing.predict, 3)}
            names = ("series", "length", "channels")
            rows.append({"varied": quantity, "method": method, **dict(zip(names, shape, strict=True)), **seconds})
            print(f"{quantity:9} {value:7} {method:24} {timing.fit:8.2f} {timing.predict:8.2f}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path = folder / "classify_cpu.csv"
    with replace_file(path) as file:
        file.write(text.getvalue().encode())
    print(*save(draw_scaling(read_scaling(path)), folder, "classify_cpu"), path, sep="\n")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sets", default=",".join(SETS), help="archive sets, comma-separated")
    parser.add_argument("--data-dir", help="archive folder; NUTIME_DATA unless given")
    parser.add_argument("--methods", help="some of the methods, comma-separated; all unless given")
    parser.add_argument("--scaling", action="store_true", help="measure scaling curves instead of sets")
    parser.add_argument("--max-series", type=int, default=10_000, help="largest number of series of the curves")
    parser.add_argument("--limit", type=float, default=600, help="seconds after which a method's curve ends")
    parser.add_argument("--out", type=Path, default=Path("results/speed"), help="folder for the curves")
    args = parser.parse_args()
    makes = classifiers()
    if args.methods:
        makes = {name: makes[name] for name in args.methods.split(",")}
    for channels in (1, 2) if args.scaling else (1,):  # aeon compiles other code for several channels
        for make in makes.values():
            measure(make, random_walks(20, 64, channels))
    if args.scaling:
        print(json.dumps({"scaling": run_scaling(makes, args.max_series, args.limit, args.out)}))
    else:
        print(json.dumps(run_sets(args.sets.split(","), args.data_dir, makes)))


if __name__ == "__main__":
    main()
