"""Progress of long work: one callback type, and a bar for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

#: Called with the number of items done and the total.
Report: TypeAlias = Callable[[int, int], None]


def no_report(done: int, total: int) -> None:
    """Ignore progress."""


@contextmanager
def progress(title: str, verbose: bool | Report) -> Iterator[Report]:
    """Yield a callback: the one given, one that draws a bar (True), or one that does nothing (False)."""
    if callable(verbose):
        yield verbose
    elif not verbose:
        yield no_report
    else:
        from rich.progress import Progress

        with Progress() as bar:
            task = bar.add_task(title, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
