"""Run a protocol set by set; whatever stops it, the next run goes on after the last finished set."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

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


def run(
    protocol: str,
    methods: Sequence[Method],
    sets: Iterable[str],
    file: ResultFile,
    *,
    data_dir: str | None = None,
    device: str = "cpu",
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
        load: how to get a set's data; a ValueError says why a set cannot be run.
        report: called after each method on each set, also for those found finished.

    Returns:
        The sets that could be run, and for the others the reason why not.
    """
    available((), data_dir)  # a folder that does not exist is one mistake, not one for each set
    entries = {name: find_set(name) for name in sets}
    missing: dict[str, str] = {}
    for dataset, entry in entries.items():
        filed = f"{entry.archive}/{entry.name}"
        keys = [[(protocol, filed, *name) for name in method.names()] for method in methods]
        data = None
        for method, own_keys in zip(methods, keys, strict=True):
            if not all(key in file for key in own_keys):
                try:
                    data = data or load(dataset, data_dir=data_dir)
                except ValueError as error:
                    missing[dataset] = str(error)
                    break
                for result in _results(method, data, protocol, filed, device):
                    if result.key not in file:
                        file.append(result)
            report(filed, method.names()[-1].method, [result for result in file if result.key in own_keys])
    return Availability(tuple(name for name in entries if name not in missing), missing)


def _results(method: Method, data: Any, protocol: str, filed: str, device: str) -> Iterator[Result]:
    """Yield the results of whole runs: fine-tuning takes Ctrl-C for "good enough", a benchmark must not."""
    with _interruptions() as interruptions:
        for answer in method.answer(data):
            if interruptions:
                raise KeyboardInterrupt
            yield Result(protocol, filed, *answer.name, answer.scores, answer.seconds, answer.config, device)


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
