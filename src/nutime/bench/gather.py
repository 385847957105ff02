"""From lines of results to columns of scores: one protocol, one selection and one score at a time.

``honest`` and ``paper`` results never meet: every function takes the selection it works on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from nutime.bench import published
from nutime.bench.results import Result, ResultFile
from nutime.bench.statistics import Estimate, common_sets, estimate
from nutime.data.archives import find_set

#: Method to data set to seed to score.
Runs: TypeAlias = dict[str, dict[str, dict[int, float]]]

_OWN_METHODS = "nutime"
PRINTED_DECIMALS = 3


def read_results(paths: Iterable[str | Path]) -> list[Result]:
    """Read one or several files of results.

    Raises:
        ValueError: a file is missing, holds nothing, or repeats a result of another one.
    """
    found: dict[tuple[str, str, str, str, int], Path] = {}
    results = []
    for path in map(Path, paths):
        if not path.is_file():
            raise ValueError(f"{path}: no such file; `nutime bench run PROTOCOL` writes results")
        lines = ResultFile(path)
        if not len(lines):
            raise ValueError(f"{path}: holds no results")
        for result in lines:
            if result.key in found:
                raise ValueError(f"{path}: {' / '.join(map(str, result.key))} is also in {found[result.key]}")
            found[result.key] = path
            results.append(result)
    return results


def set_key(dataset: str) -> str:
    """Return the archive's key of a set (``GunPoint`` for ``ucr/GunPoint``), or the name if it has none."""
    try:
        return find_set(dataset).key
    except ValueError:
        return dataset


def filed(results: Iterable[Result], protocol: str, selection: str) -> list[Result]:
    """Return the results of one protocol and one selection."""
    return [result for result in results if (result.protocol, result.selection) == (protocol, selection)]


def collect(results: Iterable[Result], protocol: str, selection: str, score: str = "accuracy") -> Runs:
    """Return the runs that have a score, in the order they were written."""
    runs: Runs = {}
    for result in filed(results, protocol, selection):
        if score in result.scores:
            by_set = runs.setdefault(result.method, {})
            by_set.setdefault(set_key(result.dataset), {})[result.seed] = result.scores[score]
    return runs


def per_set(runs: Runs) -> dict[str, dict[str, Estimate]]:
    """Average over seeds: method to data set to mean and deviation."""
    return {
        method: {name: estimate(seeds.values()) for name, seeds in by_set.items()}
        for method, by_set in runs.items()
    }


def seed_means(runs: Runs) -> dict[str, dict[str, float]]:
    """Return :func:`per_set` without the deviations."""
    return {
        method: {name: value.mean for name, value in by_set.items()} for method, by_set in per_set(runs).items()
    }


def overall(by_set: Mapping[str, Mapping[int, float]], sets: Sequence[str]) -> Estimate:
    """Return the mean over ``sets``; its deviation is that of the seeds' means where all sets have the same."""
    seeds = {frozenset(by_set[name]) for name in sets}
    if len(seeds) == 1:
        return estimate(sum(by_set[name][seed] for name in sets) / len(sets) for seed in sorted(next(iter(seeds))))
    means = [estimate(by_set[name].values()).mean for name in sets]
    return Estimate(sum(means) / len(means))


def is_own(method: str) -> bool:
    """Tell nutime's methods from its peers, by their names."""
    return method.startswith(_OWN_METHODS)


def own_best(columns: Mapping[str, Mapping[str, float]]) -> str | None:
    """Return the method of nutime with the best mean over the sets all of its methods have, if there is one."""
    own = {method: column for method, column in columns.items() if is_own(method)}
    sets = common_sets(own.values()) if own else ()
    return max(own, key=lambda method: mean(own[method], sets), default=None)


def mean(column: Mapping[str, float], sets: Sequence[str]) -> float:
    """Return the mean over some sets; that over none is lower than any."""
    return sum(column[name] for name in sets) / len(sets) if sets else float("-inf")


def comparable(columns: Mapping[str, Mapping[str, float]]) -> tuple[str, ...]:
    """Return the methods that have at least half the sets of the widest one.

    All numbers are over the sets that all methods share; one that was tried on a few must not leave only those.
    """
    widest = max(map(len, columns.values()))
    return tuple(method for method, column in columns.items() if 2 * len(column) >= widest)


def beside_published(
    columns: Mapping[str, Mapping[str, float]], table: str, selection: str
) -> dict[str, dict[str, float]]:
    """Return columns together with those of a published table, on the sets of that table.

    Ours are rounded like the printed ones, so that ties are ties. The paper's own column was selected on test
    data: it joins ``paper`` results only.
    """
    printed = published.columns(table)
    sets = printed[published.OWN]
    joined = {
        method: {name: round(value, PRINTED_DECIMALS) for name, value in column.items() if name in sets}
        for method, column in columns.items()
    }
    for method, column in printed.items():
        if method != published.OWN or selection == "paper":
            joined[f"{method} (published)"] = dict(column)
    return joined
