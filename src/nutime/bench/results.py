"""Results as JSON lines that are only ever appended, and their collection into scores by method and data set.

One line is one method on one data set with one seed, with everything needed to reproduce it: the protocol, how the
model was selected (``honest``: nothing on test data; ``paper``: the best epoch on the test set), configuration,
versions, device and time. ``honest`` and ``paper`` results are never combined: every function that collects
results takes the selection.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

from nutime.atomic import Journal, read_lines
from nutime.bench.statistics import Columns, Estimate, common_sets, estimate
from nutime.data.archives import find_set
from nutime.version import versions

SELECTIONS = ("honest", "paper")
#: Protocols that run the same methods on other sets share one name in the file.
_ALIASES = {"ucr": "finetune"}

#: Method to data set to seed to score.
Runs: TypeAlias = dict[str, dict[str, dict[int, float]]]
#: Protocol, data set, method, selection and seed.
ResultKey: TypeAlias = tuple[str, str, str, str, int]


@dataclass(frozen=True)
class Result:
    """The scores of one method on one data set.

    Attributes:
        protocol: name of the protocol, as in ``nutime bench run PROTOCOL``.
        dataset: name of the set, with its archive: ``ucr/GunPoint``.
        method: for example ``nutime-base ×5`` or ``MiniRocket``.
        selection: ``honest`` or ``paper``.
        seed: of everything random in the method.
        scores: by name, for example ``accuracy`` and ``macro_f1``; fractions, not percent.
        seconds: wall time of fitting and predicting.
        config: parameters of the method.
        device: where it ran.
        versions: of nutime (with the commit, from a checkout) and its libraries.
    """

    protocol: str
    dataset: str
    method: str
    selection: str
    seed: int
    scores: dict[str, float]
    seconds: float
    config: dict[str, Any] = field(default_factory=dict)
    device: str = "cpu"
    versions: dict[str, str] = field(default_factory=versions)

    def __post_init__(self) -> None:
        if self.selection not in SELECTIONS:
            raise ValueError(f"selection must be one of {', '.join(SELECTIONS)}; got {self.selection!r}")

    @property
    def key(self) -> ResultKey:
        """Identifies the result; a result with the same key is not computed again."""
        return self.protocol, self.dataset, self.method, self.selection, self.seed


def filed_as(protocol: str) -> str:
    """Return the name that results of a protocol have in the file."""
    return _ALIASES.get(protocol, protocol)


class ResultFile:
    """The results in a file, in the order they were written.

    Args:
        path: the file.
        journal: the same file, to which no other process can append; otherwise it is opened by the first append.
    """

    def __init__(self, path: str | Path, journal: Journal | None = None) -> None:
        self.path, self._journal = Path(path), journal
        lines = journal.lines if journal else read_lines(path) if self.path.exists() else []
        self._results = [_parse(line, self.path, number) for number, line in enumerate(lines, 1) if line.strip()]
        self._keys = {result.key for result in self._results}

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def append(self, result: Result) -> None:
        """Write one line and wait until it is on disk; a second result with the same key is an error."""
        if result.key in self._keys:
            raise ValueError(f"{self.path}: already holds {' / '.join(map(str, result.key))}")
        if self._journal is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._journal = Journal(self.path)
        self._journal.append(json.dumps(asdict(result), ensure_ascii=False))
        self._results.append(result)
        self._keys.add(result.key)


def _parse(line: str, path: Path, number: int) -> Result:
    try:
        document = json.loads(line)
        document["protocol"] = filed_as(document["protocol"])
        return Result(**{field.name: document[field.name] for field in fields(Result)})
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}, line {number}: not a result ({error})") from None


def read_results(paths: Iterable[str | Path]) -> list[Result]:
    """Read one or several files of results.

    Raises:
        ValueError: a file is missing or empty, or two files contain the same result.
    """
    found: dict[ResultKey, Path] = {}
    results = []
    for path in map(Path, paths):
        if not path.is_file():
            raise ValueError(f"{path}: no such file; `nutime bench run PROTOCOL` writes results")
        file = ResultFile(path)
        if not len(file):
            raise ValueError(f"{path}: holds no results")
        for result in file:
            if result.key in found:
                raise ValueError(f"{path}: {' / '.join(map(str, result.key))} is also in {found[result.key]}")
            found[result.key] = path
            results.append(result)
    return results


def set_key(dataset: str) -> str:
    """Return the archive's key of a set (``GunPoint`` for ``ucr/GunPoint``), or the name of an unknown set."""
    try:
        return find_set(dataset).key
    except ValueError:
        return dataset


def select(results: Iterable[Result], protocol: str, selection: str) -> list[Result]:
    """Return the results of one protocol and one selection."""
    return [result for result in results if (result.protocol, result.selection) == (protocol, selection)]


def collect(results: Iterable[Result], protocol: str, selection: str, score: str = "accuracy") -> Runs:
    """Return the runs that have a score, in the order they were written."""
    runs: Runs = {}
    for result in select(results, protocol, selection):
        if score in result.scores:
            by_set = runs.setdefault(result.method, {})
            by_set.setdefault(set_key(result.dataset), {})[result.seed] = result.scores[score]
    return runs


def per_set(runs: Runs) -> dict[str, dict[str, Estimate]]:
    """Return mean and standard deviation over seeds, by method and data set."""
    return {
        method: {name: estimate(seeds.values()) for name, seeds in by_set.items()}
        for method, by_set in runs.items()
    }


def seed_means(runs: Runs) -> dict[str, dict[str, float]]:
    """Return the mean over seeds, by method and data set."""
    return {
        method: {name: value.mean for name, value in by_set.items()} for method, by_set in per_set(runs).items()
    }


def overall(by_set: Mapping[str, Mapping[int, float]], sets: Sequence[str]) -> Estimate:
    """Return the mean over ``sets``, with the standard deviation over seeds if all sets have the same seeds."""
    seeds = {frozenset(by_set[name]) for name in sets}
    if len(seeds) == 1:
        return estimate(mean({name: by_set[name][seed] for name in sets}, sets) for seed in sorted(seeds.pop()))
    return Estimate(mean({name: estimate(by_set[name].values()).mean for name in sets}, sets))


def mean(column: Mapping[str, float], sets: Sequence[str]) -> float:
    """Return the mean over some sets, −inf if there are none."""
    return sum(column[name] for name in sets) / len(sets) if sets else float("-inf")


def is_own(method: str) -> bool:
    """Return whether a method is one of nutime's, by its name."""
    return method.startswith("nutime")


def own_best(columns: Columns) -> str | None:
    """Return the method of nutime with the highest mean over the sets common to its methods, if there is one."""
    own = {method: column for method, column in columns.items() if is_own(method)}
    sets = common_sets(own.values()) if own else ()
    return max(own, key=lambda method: mean(own[method], sets), default=None)


def comparable(columns: Columns) -> tuple[str, ...]:
    """Return the methods that were run on at least half as many sets as the method with the most sets.

    Comparisons use the sets common to all methods; a method tried on a few sets must not reduce them to those.
    """
    most = max(map(len, columns.values()))
    return tuple(method for method, column in columns.items() if 2 * len(column) >= most)
