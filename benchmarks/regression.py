"""Predict numbers with NuTime, ridge regression on raw values and MiniRocket: RMSE on official test splits.

    pip install -e '.[archives]'
    python benchmarks/regression.py                                             # Covid3Month, CardanoSentiment
    python benchmarks/regression.py --sets EthanolLevel --data-dir ARCHIVES     # its classes read as numbers

NuTime is ``NuTimeRegressor()`` with its defaults, or with ``--strategy finetune``. ``cross-validated`` is the RMSE
of 10 folds of the training split, the only figure by which anything was chosen. ``covered`` is the share of
held-out numbers inside intervals of 90 %: of the test split, and the mean over 50 random thirds of the training
split. ``--no-test`` does not read the test split.
The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nutime import NuTime, NuTimeRegressor, load_dataset
from nutime.estimators.base import EmbeddedSeries
from nutime.estimators.supervised import default_weights

BUNDLED = {"Covid3Month": "load_covid_3month", "CardanoSentiment": "load_cardano_sentiment"}
#: Published RMSE on the default split.
PUBLISHED = {
    "Covid3Month": {"FreshPRINCE": 0.0402, "DrCIF": 0.0430, "ROCKET": 0.0389},
    "CardanoSentiment": {"FreshPRINCE": 0.2895, "DrCIF": 0.3134, "ROCKET": 0.2984},
}
COVERAGE = 0.9
ALPHAS = np.logspace(-3, 9, 49)


def load(name: str, split: str, data_dir: Path | None) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return series ``(n, channels, length)`` and their numbers."""
    if name in BUNDLED:
        import aeon.datasets

        X, y = getattr(aeon.datasets, BUNDLED[name])(split=split)
        return X, y.astype(np.float64)
    part = load_dataset(name, split=split, data_dir=data_dir)
    return np.stack([np.atleast_2d(values) for values in part.X]), part.y.astype(np.float64)


class Flat:
    """A scikit-learn regressor of all values of a series side by side."""

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    def fit(self, X: NDArray[Any], y: NDArray[np.float64]) -> Flat:
        self.regressor.fit(X.reshape(len(X), -1), y)
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[np.float64]:
        predicted: NDArray[np.float64] = self.regressor.predict(X.reshape(len(X), -1))
        return predicted


def minirocket() -> Any:
    from aeon.regression.convolution_based import MiniRocketRegressor

    return MiniRocketRegressor(random_state=0)


RIVALS = {
    "mean": lambda: Flat(DummyRegressor()),
    "ridge on raw values": lambda: Flat(make_pipeline(StandardScaler(), RidgeCV(ALPHAS))),
    "MiniRocket": minirocket,
}


def rmse(y: NDArray[np.float64], predicted: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean((y - predicted) ** 2)))


def cross_validated(make: Any, X: Any, y: NDArray[np.float64]) -> float:
    predicted = np.empty(len(y))
    for train, test in KFold(10, shuffle=True, random_state=0).split(y):
        predicted[test] = make().fit(X[train], y[train]).predict(X[test])
    return rmse(y, predicted)


def covered(regressor: NuTimeRegressor, X: Any, y: NDArray[np.float64]) -> float:
    lower, upper = regressor.predict_interval(X, COVERAGE).T
    return float(((lower <= y) & (y <= upper)).mean())


def run(name: str, options: argparse.Namespace, encoder: NuTime) -> dict[str, Any]:
    X, y = load(name, "train", options.data_dir)
    X_test, y_test = (None, None) if options.no_test else load(name, "test", options.data_dir)
    rows: dict[str, dict[str, Any]] = {}

    def ours() -> NuTimeRegressor:
        return NuTimeRegressor(options.strategy, encoder, random_state=0)

    begin = time.perf_counter()
    embedded = EmbeddedSeries.embed(X, encoder, ours().pool)
    row: dict[str, Any] = {"cross-validated": cross_validated(ours, embedded, y)}
    if options.strategy == "probe":
        splits = ShuffleSplit(50, test_size=1 / 3, random_state=0).split(y)
        shares = [covered(ours().fit(embedded[a], y[a]), embedded[b], y[b]) for a, b in splits]
        row["covered in training splits"] = float(np.mean(shares))
    if X_test is not None:
        regressor = ours().fit(embedded, y)
        row |= {"test": rmse(y_test, regressor.predict(X_test)), "covered": covered(regressor, X_test, y_test)}
    rows[f"NuTime {options.strategy}"] = row | {"seconds": time.perf_counter() - begin}
    for rival, make in RIVALS.items():
        begin = time.perf_counter()
        row = {"cross-validated": cross_validated(make, X, y)}
        if X_test is not None:
            row["test"] = rmse(y_test, make().fit(X, y).predict(X_test))
        rows[rival] = row | {"seconds": time.perf_counter() - begin}
    rows |= {f"{rival} (published)": {"test": value} for rival, value in PUBLISHED.get(name, {}).items()}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(BUNDLED))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--strategy", choices=["probe", "finetune"], default="probe")
    parser.add_argument("--no-test", action="store_true")
    options = parser.parse_args()
    encoder = NuTime.from_pretrained(default_weights(options.strategy))
    results = {name: run(name, options, encoder) for name in options.sets.split(",")}
    columns = ("cross-validated", "test", "covered", "covered in training splits", "seconds")
    for name, rows in results.items():
        print(f"{name:26}" + "".join(f"{column:>{len(column) + 3}}" for column in columns))
        for method, row in rows.items():
            cells = (f"{row[c]:.4f}" if c in row else "" for c in columns)
            print(f"  {method:24}" + "".join(f"{v:>{len(c) + 3}}" for c, v in zip(columns, cells, strict=True)))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
