"""Deletion test of ``explain``: how much the class probability drops when the points ranked first are removed.

    python benchmarks/explain.py DATA [--sets 20] [--series 10]

DATA is a folder of archives (:mod:`nutime.data.archives`). A probe is fitted on the training split. For series of
the test split, 10 % of the points are removed, that is replaced by linear interpolation, and the probability of
the predicted class is computed again. The points are those that ``explain`` ranks first, those in the windows with
the most attention, random single points, or random stretches of the lengths that ``explain`` selects. The sets are
spread evenly over the alphabet, of the UCR sets with equal lengths, no missing values, at most 200 training series
and 60 to 700 points.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nutime.data.archives import available, find_set, load_dataset, sublist
from nutime.estimators.classifier import NuTimeClassifier
from nutime.figures.attention import cls_attention

REMOVED = 0.1
DRAWS = 10  # of random points and stretches


def chosen_sets(data: Path, count: int) -> list[str]:
    entries = [find_set(name) for name in sublist("ucr112")]
    names = [entry.key for entry in entries if entry.train <= 200 and 60 <= entry.length <= 700]
    names = sorted(available(names, data).complete)
    return [names[index] for index in np.linspace(0, len(names) - 1, min(count, len(names))).round().astype(int)]


def remove(values: NDArray[np.float64], removed: NDArray[np.bool_]) -> NDArray[np.float64]:
    points, result = np.arange(len(values)), values.copy()
    result[removed] = np.interp(points[removed], points[~removed], values[~removed])
    return result


def first_points(ranking: NDArray[np.float64], count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return the points ranked first; equal ones in random order."""
    removed = np.zeros(len(ranking), bool)
    removed[np.lexsort((rng.random(len(ranking)), -ranking))[:count]] = True
    return removed


def random_stretches(removed: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return stretches of the lengths of those removed, in random order at random places, without overlap."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], removed, [0]])))
    lengths = rng.permutation(edges[1::2] - edges[::2])
    places = np.sort(rng.integers(0, (~removed).sum() + 1, len(lengths)))
    result = np.zeros(len(removed), bool)
    for start, length in zip(places + np.cumsum(lengths) - lengths, lengths, strict=True):
        result[start : start + length] = True
    return result


def drops(classifier: NuTimeClassifier, values: NDArray[np.float64], rng: np.random.Generator) -> dict[str, float]:
    length = len(values)
    count = max(1, round(REMOVED * length))
    started = time.perf_counter()
    removed = first_points(classifier.explain([values])[0][0], count, rng)
    seconds = time.perf_counter() - started
    attention = cls_attention(classifier.encoder_, [values])[0]
    masks = {
        "explain": [removed],
        "attention": [first_points(attention[np.arange(length) * len(attention) // length], count, rng)],
        "random points": [first_points(np.zeros(length), count, rng) for _ in range(DRAWS)],
        "random stretches": [random_stretches(removed, rng) for _ in range(DRAWS)],
    }
    batch = [values, *(remove(values, mask) for each in masks.values() for mask in each)]
    probabilities = classifier.predict_proba(batch)
    target = probabilities[0].argmax()
    remaining = iter(probabilities[0, target] - probabilities[1:, target])
    result = {name: float(np.mean([next(remaining) for _ in each])) for name, each in masks.items()}
    return result | {"seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--series", type=int, default=10, help="test series per set")
    parser.add_argument("--pool", default="auto", help="of the probe")
    options = parser.parse_args()
    rows = []
    for name in chosen_sets(options.data, options.sets):
        data, rng = load_dataset(name, data_dir=options.data), np.random.default_rng(0)
        classifier = NuTimeClassifier(pool=options.pool).fit(data.X_train, data.y_train)
        picked = rng.permutation(len(data.X_test))[: options.series]
        measured = [drops(classifier, data.X_test[index].astype(np.float64), rng) for index in picked]
        rows.append({column: np.mean([row[column] for row in measured]) for column in measured[0]})
        if len(rows) == 1:
            print(f"{'drop of the class probability':30s}" + "".join(f"{column:>18s}" for column in rows[0]))
        print(f"{name:30s}" + "".join(f"{value:18.3f}" for value in rows[-1].values()), flush=True)
    means = {column: np.mean([row[column] for row in rows]) for column in rows[0]}
    print(f"{f'mean of {len(rows)} sets':30s}" + "".join(f"{value:18.3f}" for value in means.values()))
    for rival in ("attention", "random points", "random stretches"):
        wins = sum(row["explain"] > row[rival] for row in rows)
        print(f"explain / {rival}: {means['explain'] / means[rival]:.1f}; more on {wins} of {len(rows)} sets")


if __name__ == "__main__":
    main()
