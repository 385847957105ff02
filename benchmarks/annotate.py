"""Annotation of recordings of human activity, beside two rivals on the same windows.

    python benchmarks/annotate.py DATA/extra [--only HAR|WISDM|HHAR|watch] [--cache FOLDER]

DATA/extra is a folder as described in the README of the data. Nobody kept the recordings, only windows of them:

* HAR (UCI, 9 channels): windows overlap by half, which joins them to the bouts of an activity they were cut from;
  a recording has the bouts of one person, in random order. Official split: 21 people for training, 9 held out.
* watch (seglearn, 6 channels): windows are stored in order; ten exercises in order are a recording. The last third
  of the recordings is held out.
* WISDM and HHAR (3 channels): windows of a person and activity were shuffled. Bouts are 4 to 12 windows side by
  side; a recording has the bouts of one person, in random order. Every third person is held out.

In "watch, 2 unlabelled" two of the exercises have no label: the right answer there is "none of these".

The rivals are a random forest on statistics of windows and MiniRocket (aeon), with the windows and the averaging
of the annotator and, in a second row, its smoothing. Accuracy and macro-F1 are per point.
"""

from __future__ import annotations

import argparse
import time
from copy import copy
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from aeon.classification.convolution_based import MiniRocketClassifier
from joblib import Memory
from scipy.spatial import cKDTree
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import accuracy_score, f1_score

from nutime.encoder import NuTime
from nutime.recordings import annotator
from nutime.recordings.annotator import NuTimeAnnotator
from nutime.recordings.windows import cut_windows, embed_windows


class Recording(NamedTuple):
    values: np.ndarray  # (channels, length)
    labels: np.ndarray  # one text per point, empty where there is none


def joined(bouts: list[tuple[np.ndarray, str]]) -> Recording:
    labels = [np.full(values.shape[1], label) for values, label in bouts]
    return Recording(np.concatenate([values for values, _ in bouts], 1), np.concatenate(labels))


def chains(X: np.ndarray) -> list[list[int]]:
    """Return the windows that continue each other by half, in order."""
    half = X.shape[-1] // 2
    ends, beginnings = X[..., half:].reshape(len(X), -1), X[..., :half].reshape(len(X), -1)
    following = cKDTree(beginnings[:, ::8]).query(ends[:, ::8])[1]
    following[np.abs(ends - beginnings[following]).max(1) > 1e-3] = -1
    preceded = np.zeros(len(X), bool)
    for index, other in enumerate(following):
        if other >= 0 and preceded[other]:
            following[index] = -1
        elif other >= 0:
            preceded[other] = True
    found = [[int(start)] for start in np.flatnonzero(~preceded)]
    for chain in found:
        while following[chain[-1]] >= 0:
            chain.append(int(following[chain[-1]]))
    return found


def har(folder: Path) -> tuple[list[Recording], list[Recording]]:
    data, rng, parts = np.load(folder / "HAR.npz"), np.random.default_rng(0), []
    for part in ("train", "test"):
        X, y, subject = (data[f"{name}_{part}"] for name in ("X", "y", "subject"))
        recordings = []
        for person in np.unique(subject):
            rows = np.flatnonzero(subject == person)
            bouts = []
            for chain in chains(X[rows]):
                first, *others = rows[chain]
                values = np.concatenate([X[first], *(X[row][:, X.shape[-1] // 2 :] for row in others)], 1)
                bouts.append((values, str(y[first])))
            recordings.append(joined([bouts[i] for i in rng.permutation(len(bouts))]))
        parts.append(recordings)
    return parts[0], parts[1]


def shuffled(folder: Path, name: str) -> tuple[list[Recording], list[Recording]]:
    data, rng = np.load(folder / f"{name}.npz"), np.random.default_rng(0)
    X, y, subject = data["X"], data["y"], data["subject"]
    training, held_out = [], []
    for number, person in enumerate(np.unique(subject)):
        bouts = []
        for label in np.unique(y):
            rows = np.flatnonzero((subject == person) & (y == label))
            while len(rows):
                count = int(rng.integers(4, 13))
                bouts.append((np.concatenate(list(X[rows[:count]]), 1), str(label)))
                rows = rows[count:]
        recording = joined([bouts[i] for i in rng.permutation(len(bouts))])
        (held_out if number % 3 == 2 else training).append(recording)
    return training, held_out


def watch(folder: Path, unlabelled: tuple[str, ...] = ()) -> tuple[list[Recording], list[Recording]]:
    data = np.load(folder / "seglearn_watch.npz")
    X, y = data["X"], data["y"]
    runs = np.split(np.arange(len(y)), np.flatnonzero(np.diff(y)) + 1)
    texts = ["" if str(y[run[0]]) in unlabelled else str(y[run[0]]) for run in runs]
    bouts = [(np.concatenate(list(X[run]), 1), text) for run, text in zip(runs, texts, strict=True)]
    recordings = [joined(bouts[first : first + 10]) for first in range(0, len(bouts), 10)]
    n_training = len(recordings) * 2 // 3
    return recordings[:n_training], recordings[n_training:]


def intervals(recordings: list[Recording]) -> list[tuple[int, int, int, str]]:
    rows = []
    for index, recording in enumerate(recordings):
        start = 0
        for label, group in groupby(recording.labels):
            end = start + len(list(group))
            if label:
                rows.append((index, start, end, str(label)))
            start = end
    return rows


def statistics(windows: np.ndarray) -> np.ndarray:
    """Return 11 statistics per channel, and the correlations of channels."""
    steps = np.diff(windows, axis=-1)
    centred = windows - windows.mean(-1, keepdims=True)
    deviation = centred.std(-1) + 1e-9
    products = np.einsum("nct,ndt->ncd", centred, centred) / windows.shape[-1]
    products /= deviation[:, :, None] * deviation[:, None]
    first, second = np.triu_indices(windows.shape[1], 1)
    quantiles = np.quantile(windows, [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1], axis=-1)
    moments = windows.mean(-1), deviation, np.abs(steps).mean(-1), steps.std(-1)
    return np.concatenate([*moments, *quantiles, products[:, first, second]], 1)


def rival(kind: str, ours: NuTimeAnnotator, training: list[Recording], held_out: list[Recording]) -> list[Any]:
    """Return the labels of the held-out points by a rival, without and with smoothing."""

    def features(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
        windows = cut_windows(values.astype(np.float64), starts, ours.window_)
        return statistics(windows) if kind == "random forest" else windows

    def probabilities(model: Any, rows: np.ndarray) -> np.ndarray:
        found = np.zeros((len(rows), len(ours.classes_) + 1))
        found[:, model.classes_] = model.predict_proba(rows)
        return found

    def fitted(rows: np.ndarray, target: np.ndarray) -> Any:
        forest = RandomForestClassifier(500, random_state=0)
        model = forest if kind == "random forest" else MiniRocketClassifier(random_state=0)
        return model.fit(rows, target)

    codes = [*ours.classes_, ""]
    targets = [np.array([codes.index(label) for label in recording.labels]) for recording in training]
    windows = ours._training_windows(targets)
    rows = np.concatenate(
        [features(recording.values, windows.start[windows.recording == i]) for i, recording in enumerate(training)]
    )
    left_out = np.zeros((len(rows), len(codes)))
    for others, fold in annotator._folds(windows):
        left_out[fold] = probabilities(fitted(rows[others], windows.target[others]), rows[fold])
    smoothed = copy(ours)
    smoothed._choose_penalty(left_out, windows, targets)
    model = fitted(rows, windows.target)
    results = []
    for penalty in (0.0, smoothed.penalty_):
        found = []
        for recording in held_out:
            length = recording.values.shape[1]
            starts = ours._starts(length)
            cells = ours._cells(probabilities(model, features(recording.values, starts)), starts, length)
            labels = annotator._smooth(cells, penalty).argmax(1)
            found.append(np.array(codes)[np.repeat(labels, ours.stride_)[:length]])
        results.append(np.concatenate(found))
    return results


def show(name: str, truth: np.ndarray, found: np.ndarray) -> None:
    accuracy, f1 = accuracy_score(truth, found), f1_score(truth, found, average="macro", labels=np.unique(truth))
    print(f"    {name:28s} accuracy {accuracy:.3f}   macro-F1 {f1:.3f}", flush=True)


def compare(name: str, training: list[Recording], held_out: list[Recording], encoder: NuTime) -> None:
    start = time.perf_counter()
    ours = NuTimeAnnotator(encoder=encoder)
    ours.fit([recording.values for recording in training], intervals(training))
    truth = np.concatenate([recording.labels for recording in held_out])
    codes = np.array([*ours.classes_, ""])
    smooth = [codes[ours.predict_proba(recording.values).argmax(1)] for recording in held_out]
    print(
        f"{name}: {len(training)} recordings for training, {len(held_out)} of {len(truth)} points held out; "
        f"window {ours.window_}, penalty {ours.penalty_:g}, {time.perf_counter() - start:.0f} s"
    )
    show("nutime", truth, np.concatenate(smooth))
    for kind in ("random forest", "MiniRocket"):
        for suffix, found in zip(("", ", smoothed"), rival(kind, ours, training, held_out), strict=True):
            show(kind + suffix, truth, found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--cache", type=Path, help="keep embeddings of windows here between runs")
    options = parser.parse_args()
    if options.cache:
        cached = Memory(options.cache, verbose=0).cache(embed_windows, ignore=["encoder"])
        annotator.embed_windows = cached  # type: ignore[attr-defined]
    encoder = NuTime.from_pretrained()
    sets = {
        "HAR": lambda: har(options.data),
        "WISDM": lambda: shuffled(options.data, "WISDM"),
        "HHAR": lambda: shuffled(options.data, "HHAR_SA_subset"),
        "watch": lambda: watch(options.data),
        "watch, 2 unlabelled": lambda: watch(options.data, ("2", "5")),
    }
    for name, load in sets.items():
        if not options.only or name in options.only:
            compare(name, *load(), encoder)


if __name__ == "__main__":
    main()
