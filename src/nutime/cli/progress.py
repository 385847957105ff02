"""Progress on standard error: bars on a terminal, a plain line now and then where there is none."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

#: Called with the number of things done and, where it is known, of all things.
Report: TypeAlias = Callable[[int, int | None], None]
#: Called with a description and, where it is known, the number of all things.
NewBar: TypeAlias = Callable[..., Report]

LINE_SECONDS = 10.0  # between two lines where there is no terminal


@contextmanager
def progress_bars() -> Iterator[NewBar]:
    """Yield a function that adds a bar; bars disappear when the block ends.

    Where standard error is no terminal, the first line is printed after :data:`LINE_SECONDS`, so that short work
    prints nothing.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines().add
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:

        def add(description: str, total: int | None = None) -> Report:
            task = progress.add_task(description, total=total)
            return lambda done, total: progress.update(task, completed=done, total=total)

        yield add


class _Lines:
    """Progress for log files and pipes; all bars share one clock."""

    def __init__(self) -> None:
        self._printed = time.monotonic()

    def add(self, description: str, total: int | None = None) -> Report:
        def report(done: int, total: int | None) -> None:
            if time.monotonic() - self._printed >= LINE_SECONDS:
                self._printed = time.monotonic()
                share = f" of {total:,} ({done / total:.0%})" if total else ""
                print(f"nutime: {description}: {done:,}{share}", file=sys.stderr, flush=True)

        return report
