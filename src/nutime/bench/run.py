"""Run a protocol on its sets, in one or several processes; an interrupted run continues after its last result.

The results of a set do not depend on other sets. Only the main process writes them to the file.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import product
from typing import Any

from joblib import Parallel, delayed

from nutime.bench.methods import Evaluation, Method
from nutime.bench.results import Result, ResultFile
from nutime.data.archives import Availability, Dataset, available, find_set, load_dataset

#: Folders of data that belong to no archive of labelled series.
LOCAL_FOLDERS = ("recordings/", "values/")


def load_local(name: str, *, data_dir: str | None = None) -> Dataset:
    """Load a set from disk; a benchmark downloads nothing.

    Raises:
        ValueError: a split is missing or not of the official size.
    """
    if reasons := available([name], data_dir).missing:
        raise ValueError(reasons[name])
    return load_dataset(name, data_dir=data_dir)


def run(
    protocol: str,
    methods: Sequence[Method],
    sets: Iterable[str],
    file: ResultFile,
    *,
    data_dir: str | None = None,
    device: str = "cpu",
    jobs: int = 1,
    load: Callable[..., Any] = load_local,
    report: Callable[[str, str, Sequence[Result]], None] = lambda dataset, method, results: None,
) -> Availability:
    """Run everything that has no result in the file.

    Args:
        protocol: the protocol's name in the file.
        methods: what to run.
        sets: on which sets.
        file: existing results; new ones are appended.
        data_dir: the archive folder.
        device: name of the device, recorded with the results.
        jobs: number of processes; with several, large sets are started first.
        load: loads a set; a ValueError is the reason why a set cannot be run.
        report: called after each method on each set, and for those already finished.

    Returns:
        The sets that could be run, and for the others the reason why not.
    """
    available((), data_dir)  # a missing folder is one error, not one per set
    sets = list(dict.fromkeys(sets))
    entries = {name: find_set(name) for name in sets if not name.startswith(LOCAL_FOLDERS)}
    full_names = {name: name for name in sets}
    full_names |= {name: f"{entry.archive}/{entry.name}" for name, entry in entries.items()}
    order = sorted(sets, key=lambda name: -entries[name].train if name in entries else 0) if jobs > 1 else sets
    missing: dict[str, str] = {}

    def report_if_finished(name: str, method: Method) -> bool:
        keys = [(protocol, full_names[name], *key) for key in method.run_keys()]
        if finished := all(key in file for key in keys):
            report(full_names[name], keys[-1][2], [result for result in file if result.key in keys])
        return finished

    pending = [pair for pair in product(order, methods) if not report_if_finished(*pair)]
    workers = Parallel(jobs, return_as="generator_unordered", batch_size=1)
    calls = (delayed(_evaluate)(index, *pair, load, data_dir, os.getpid()) for index, pair in enumerate(pending))
    outcome: list[Evaluation] | str
    for index, outcome in workers(calls):
        name, method = pending[index]
        if isinstance(outcome, str):
            missing[name] = outcome
            continue
        for key, scores, seconds, config in outcome:
            result = Result(protocol, full_names[name], *key, scores, seconds, config, device)
            if result.key not in file:
                file.append(result)
        report_if_finished(name, method)
    return Availability(tuple(name for name in sets if name not in missing), missing)


def _evaluate(
    index: int, name: str, method: Method, load: Callable[..., Any], data_dir: str | None, parent: int
) -> tuple[int, list[Evaluation] | str]:
    """Return the index with the results, or with the reason why the set cannot be run."""
    if os.getpid() != parent:
        _exit_with(parent)
    try:
        data = load(name, data_dir=data_dir)
    except ValueError as error:
        return index, str(error)
    return index, list(method.evaluate(data))


@cache
def _exit_with(parent: int) -> None:
    """Exit this worker when the main process dies, even by a signal that it cannot handle."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
