"""Labels needed to reach 95 % of the accuracy of all labels: series proposed by ``suggest`` against random ones.

    python benchmarks/active_labelling.py DATA/ucr [--cache FOLDER] [--out results/labelling] [--minutes 60]

For each of 30 UCR sets and 10 seeds, nine tenths of the training split are the pool. Labels are revealed in steps
of a sixth of those known, in random order or in the order that ``suggest`` proposes; both train the linear probe
of ``NuTimeClassifier`` on the embedding that the labelling page computes. The accuracy on the test split, averaged
over the seeds, is compared with that of a probe trained on the whole training split. A set ends when both have
reached 95 % of it.

The sets are all UCR sets with complete splits at hand, 100 to 1,000 training series and at least 20 per class; of
sets that share their recordings (Cricket, phalanx outlines, GunPoint, EOG, gestures) one each. The method was
chosen on the training splits of 13 other sets: see results/labelling/LOG.md.

Results are kept by set: a run that was interrupted, or ended by ``--minutes``, continues. ``nutime bench report``
draws them.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.utils.extmath import softmax

from nutime.atomic import replace_file
from nutime.encoder import SMALL_WEIGHTS
from nutime.estimators.base import EmbeddedSeries
from nutime.figures.labelling import SHARE, labels_needed
from nutime.finetune.linear import LinearProbe, feature_kinds, fit_logistic, standardise
from nutime.labelling.selection import Space, margin_uncertainty

SETS = (
    *("AllGestureWiimoteX", "ChlorineConcentration", "Computers", "CricketX", "DistalPhalanxOutlineAgeGroup"),
    *("ECG200", "ECG5000", "EOGHorizontalSignal", "Earthquakes", "EthanolLevel", "FaceAll", "Fish"),
    *("FreezerRegularTrain", "GesturePebbleZ1", "GunPointAgeSpan", "Ham", "MedicalImages"),
    *("MiddlePhalanxOutlineCorrect", "OSULeaf", "PLAID", "ProximalPhalanxTW", "ScreenType"),
    *("SmallKitchenAppliances", "SmoothSubspace", "Strawberry", "SwedishLeaf", "SyntheticControl", "Trace"),
    *("TwoPatterns", "WormsTwoClass"),
)
SEEDS, POOL_SHARE, STEP = 10, 0.9, 6
TOLERANCE = 1e-6  # of the solver: a class without a label has no finite solution


class Simulation:
    """The labelling of one pool, in random order or by suggestion."""

    def __init__(self, train, targets, seed, by_suggestion):
        generator = np.random.default_rng(seed)
        members = generator.permutation(len(train))[: int(POOL_SHARE * len(train))]
        self.embedding, self.targets = train[members], targets[members]
        self.order = None if by_suggestion else generator.permutation(len(members))
        self.space = Space.of(self.embedding) if by_suggestion else None
        self.labelled = np.array([], np.intp)
        self.uncertainty = np.ones(len(members))

    def label(self, count):
        """Label until there are ``count`` labels."""
        if self.order is not None:
            self.labelled = self.order[:count]
        else:
            chosen = self.space.select(self.labelled, self.uncertainty, count - len(self.labelled))
            self.labelled = np.concatenate([self.labelled, chosen])

    def standardised(self, kind):
        """Return the labelled embeddings as the probe of a classifier reads them, with their mean and scale."""
        return standardise(self.embedding[self.labelled][:, kind], np.ones(len(self.labelled)))


def fit(rows, simulations, n_classes):
    """Fit one model per simulation, all at once."""
    targets = torch.from_numpy(np.stack([one.targets[one.labelled] for one in simulations]))
    weights = torch.ones(targets.shape, dtype=torch.float64)
    models = fit_logistic(torch.from_numpy(np.stack(rows)), targets, weights, n_classes, tolerance=TOLERANCE)
    return [part.numpy() for part in models]


def advance(simulations, count, n_classes, test, y_test, kinds):
    """Label ``count`` series in all simulations; return the mean accuracy of their probes on the test split."""
    for one in simulations:
        one.label(count)
    if simulations[0].space:
        models = fit([one.space.points[one.labelled] for one in simulations], simulations, n_classes)
        for one, coef, intercept in zip(simulations, *models, strict=True):
            one.uncertainty = margin_uncertainty(softmax(one.space.points @ coef.T + intercept))
    logits = np.zeros((len(simulations), len(test), n_classes))
    for kind in kinds:
        rows, means, scales = zip(*(one.standardised(kind) for one in simulations), strict=True)
        for seed, parts in enumerate(zip(means, scales, *fit(rows, simulations, n_classes), strict=True)):
            logits[seed] += LinearProbe(*parts).logits(test[:, kind])
    return float((logits.argmax(-1) == y_test).mean())


def simulate(train, y_train, test, y_test, kinds):
    """Return the accuracy of all labels, and both mean curves by number of labels."""
    n_classes = int(y_train.max()) + 1
    full = float((LinearProbe.fit(train, y_train, kinds=kinds).logits(test).argmax(1) == y_test).mean())
    runs = {
        method: [Simulation(train, y_train, seed, method == "suggest") for seed in range(SEEDS)]
        for method in ("random", "suggest")
    }
    counts, curves, count = [], {method: [] for method in runs}, 2
    while count <= int(POOL_SHARE * len(train)):
        counts.append(count)
        for method, simulations in runs.items():
            curves[method].append(advance(simulations, count, n_classes, test, y_test, kinds))
        if all(max(curve) >= SHARE * full for curve in curves.values()):
            break
        count += max(1, count // STEP)
    return {"full": full, "n_classes": n_classes, "n_train": len(train), "labels": counts, **curves}


def summarise(results):
    """Return a table as Markdown."""
    lines = ["| set | training series | classes | accuracy, all labels | random | suggest | ratio |"]
    lines.append("| --- " * 7 + "|")
    ratios = []
    for name, result in sorted(results.items()):
        random, chosen = labels_needed(result, "random"), labels_needed(result, "suggest")
        ratios.append(chosen / random)
        facts = f"{result['n_train']} | {result['n_classes']} | {result['full']:.3f}"
        lines.append(f"| {name} | {facts} | {random:.0f} | {chosen:.0f} | {ratios[-1]:.2f} |")
    median, fewer = np.median(ratios), np.sum(np.array(ratios) < 1)
    lines.append(
        f"\nLabels to {SHARE:.0%} of the accuracy of all labels, {SEEDS} seeds: median ratio {median:.2f} "
        f"({1 - median:.0%} fewer labels), fewer labels on {fewer} of {len(ratios)} sets."
    )
    return "\n".join(lines) + "\n"


def embed(name, data, cache):
    """Return the embeddings of both splits, computed once if there is a cache, and their kinds of features."""
    path = cache and cache / f"{name}.npz"
    if path and path.is_file():
        stored = np.load(path)
        return stored["train"], stored["test"], [slice(*edges) for edges in stored["kinds"].tolist()]
    train = EmbeddedSeries.embed(data["X_train"].astype(np.float64), SMALL_WEIGHTS, "auto")
    test = train.encoder.embed(data["X_test"].astype(np.float64), reading=train.reading)
    kinds = feature_kinds(train.reading, train.encoder.config, 1, test.shape[1])
    if path:
        np.savez(path, train=train.embedding, test=test, kinds=[(kind.start, kind.stop) for kind in kinds])
    return train.embedding, test, kinds


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/labelling"))
    parser.add_argument("--minutes", type=float, default=np.inf)
    given = parser.parse_args()
    start = time.monotonic()
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "active_labelling.json"
    results = json.loads(path.read_text()) if path.is_file() else {}
    for name in SETS:
        if name in results or time.monotonic() - start > 60 * given.minutes:
            continue
        data = np.load(given.data / f"{name}.npz")
        _, targets = np.unique(np.concatenate([data["y_train"], data["y_test"]]), return_inverse=True)
        train, test, kinds = embed(name, data, given.cache)
        results[name] = simulate(train, targets[: len(train)], test, targets[len(train) :], kinds)
        with replace_file(path) as file:
            file.write(json.dumps(results).encode())
        print(name, f"{time.monotonic() - start:.0f} s", flush=True)
    table = summarise(results)
    (given.out / "active_labelling.md").write_text(table)
    print(table)


if __name__ == "__main__":
    main()
