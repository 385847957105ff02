"""Run a protocol set by set; whatever stops it, the next run goes on after the last finished set.

Several processes can run sets side by side. The results of a set depend on no other set, and one process alone
writes them down.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

from joblib import Parallel, delayed

from nutime.bench.methods import Method
from nutime.bench.results import Result, ResultFile
from nutime.data.archives import Availability, Dataset, available, find_set, load_dataset


def load_local(name: str, *, data_dir: str | None = None) -> Dataset:
    """Load a set that is on disk; a benchmark downloads nothing.

    Raises:
        ValueError: a split is missing or not of the official size.
    """
    if reasons := available([name], data_dir).missing:
        raise ValueError(reasons[name])
    return load_dataset(name, data_dir=data_dir)


class _Task(NamedTuple):
    """One method on one set: all that a process needs to run it."""

    protocol: str
    dataset: str
    filed: str
    method: Method

    @property
    def keys(self) -> set[tuple[str, str, str, str, int]]:
        """What the results will be filed under."""
        return {(self.protocol, self.filed, *name) for name in self.method.names()}


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
    """Run what is not in the file yet.

    Args:
        protocol: under which name results are filed.
        methods: what to run.
        sets: where.
        file: what is done, and where the rest goes.
        data_dir: the archive folder.
        device: what to write down as the device.
        jobs: processes at work; with several, those sets come first that take longest.
        load: how to get a set's data; a ValueError says why a set cannot be run.
        report: called after each method on each set, and for those found finished.

    Returns:
        The sets that could be run, and for the others the reason why not.
    """
    available((), data_dir)  # a folder that does not exist is one mistake, not one for each set
    entries = {name: find_set(name) for name in sets}
    order = sorted(entries, key=lambda name: -entries[name].train) if jobs > 1 else list(entries)
    filed = {name: f"{entry.archive}/{entry.name}" for name, entry in entries.items()}
    tasks = [_Task(protocol, name, filed[name], method) for name in order for method in methods]

    def tell(task: _Task) -> None:
        report(task.filed, task.method.names()[-1].method, [result for result in file if result.key in task.keys])

    waiting = []
    for task in tasks:
        if all(key in file for key in task.keys):
            tell(task)
        else:
            waiting.append(task)
    missing: dict[str, str] = {}
    work = Parallel(jobs, return_as="generator_unordered", batch_size=1)
    calls = (delayed(_carry_out)(number, task, load, data_dir, device) for number, task in enumerate(waiting))
    for number, outcome in work(calls):
        task = waiting[number]
        if isinstance(outcome, str):
            missing[task.dataset] = outcome
            continue
        for result in outcome:
            if result.key not in file:
                file.append(result)
        tell(task)
    return Availability(tuple(name for name in entries if name not in missing), missing)


def _carry_out(
    number: int, task: _Task, load: Callable[..., Any], data_dir: str | None, device: str
) -> tuple[int, list[Result] | str]:
    """Return the number of the task with its results, or with the reason why its set cannot be run."""
    try:
        data = load(task.dataset, data_dir=data_dir)
    except ValueError as error:
        return number, str(error)
    results = []
    with _interruptions() as interruptions:
        for answer in task.method.answer(data):
            # Fine-tuning takes Ctrl-C for "good enough"; a benchmark must not.
            if interruptions:
                raise KeyboardInterrupt
            named = (task.protocol, task.filed, *answer.name)
            results.append(Result(*named, answer.scores, answer.seconds, answer.config, device))
    return number, results


@contextmanager
def _interruptions() -> Iterator[list[int]]:
    """Take down every SIGINT while it does what it always does."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.default_int_handler(number, frame)

    try:
        before = signal.signal(signal.SIGINT, note)
    except ValueError:  # not the main thread, which alone hears of signals
        yield received
        return
    try:
        yield received
    finally:
        signal.signal(signal.SIGINT, before)
