"""The sets of TF-C (Zhang et al. 2022), as far as they can be had, and methods repeated on them by seed.

Unusual here: two of the four sets of the paper may stand in a folder without their official test split. Then
something else takes its place, and every result says so:

* ``EMG`` as 204 windows in an unknown order: each seed draws its own stratified 122/41/41;
* ``tfc/Epilepsy`` with the test split of TS-TCC (Eldele et al. 2021): other segments of the same recordings, less
  those that repeat a training series.

Validation splits are left alone: the schedule is fixed, and there is nothing to choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nutime.bench.methods import Answer, Method, Name
from nutime.bench.run import load_local
from nutime.data.archives import Dataset, draw_splits, find_set, load_dataset
from nutime.data.corpus.repeats import RepeatFinder
from nutime.data.series import as_series

#: In the order of the paper's tables.
SETS = ("tfc/Epilepsy", "FD-B", "EMG", "Gesture")


@dataclass(frozen=True)
class Trials:
    """Data of which every seed may have a split of its own.

    Attributes:
        split: seed to training and test data.
        about: what a result must say of them.
    """

    split: Callable[[int], Dataset]
    about: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Repeated:
    """A method run anew, from the split on, for every seed: the paper's mean of five runs."""

    make: Callable[[int], Method]
    runs: int

    def names(self) -> Sequence[Name]:
        """Say what all runs will answer."""
        return [name for seed in range(self.runs) for name in self.make(seed).names()]

    def answer(self, dataset: Dataset | Trials) -> Iterator[Answer]:
        """Run by every seed."""
        trials = dataset if isinstance(dataset, Trials) else Trials(lambda seed: dataset)
        for seed in range(self.runs):
            for answer in self.make(seed).answer(trials.split(seed)):
                yield answer._replace(config=answer.config | trials.about)


def load_trials(name: str, *, data_dir: str | None = None) -> Trials:
    """Load a set from disk, or what can stand in for it.

    Raises:
        ValueError: there is neither.
    """
    key = find_set(name).key
    try:
        official = load_local(key, data_dir=data_dir)
    except ValueError as missing:
        if key not in _STAND_INS:
            raise
        try:
            return _STAND_INS[key](key, data_dir)
        except ValueError:
            raise missing from None
    return Trials(lambda seed: official)


def _drawn_splits(key: str, data_dir: str | None) -> Trials:
    X, y = load_dataset(key, split="unsplit", data_dir=data_dir)
    entry = find_set(key)
    sizes = (entry.train, entry.val, entry.test)

    def split(seed: int) -> Dataset:
        train, _, test = draw_splits(y, sizes, seed)
        return Dataset(X[train], y[train], X[test], y[test])

    return Trials(split, {"split": f"{'/'.join(map(str, sizes))} drawn by seed, official order unknown"})


def _other_test(key: str, data_dir: str | None) -> Trials:
    train, test = (load_dataset(key, split=split, data_dir=data_dir) for split in ("train", "tstcc_test"))
    finder = RepeatFinder()
    finder.hold_out("train", as_series(train.X))
    new = np.array([found is None for found in finder.find([channels[0] for channels in as_series(test.X)])])
    dataset = Dataset(*train, test.X[new], test.y[new])
    about = f"{new.sum()} series of TS-TCC's, {(~new).sum()} repeats of training series dropped; not the official"
    return Trials(lambda seed: dataset, {"test": about})


_STAND_INS: dict[str, Callable[[str, str | None], Trials]] = {
    "EMG": _drawn_splits,
    "tfc/Epilepsy": _other_test,
}
