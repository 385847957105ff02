"""Progress on standard error: bars on a terminal, else a plain line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

#: Called with the number of items done, the total (None if unknown) and, optionally, a text to show.
Report: TypeAlias = Callable[..., None]
#: Called with a description and, where it is known, the total.
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
        yield _lines()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    text, state = TextColumn("{task.description}"), TextColumn("{task.fields[state]}")
    columns = text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), state
    with Progress(*columns, console=console, transient=True) as progress:

        def new_bar(description: str, total: int | None = None) -> Report:
            task = progress.add_task(description, total=total, state="")

            def report(done: int, total: int | None, state: str = "") -> None:
                progress.update(task, completed=done, total=total, state=state)

            return report

        yield new_bar


def _lines() -> NewBar:
    """Print lines instead of bars, for log files and pipes; all bars share one clock."""
    printed = time.monotonic()

    def new_bar(description: str, total: int | None = None) -> Report:
        def report(done: int, total: int | None, state: str = "") -> None:
            nonlocal printed
            if time.monotonic() - printed >= LINE_SECONDS:
                printed = time.monotonic()
                share = f" of {total:,} ({done / total:.0%})" if total else ""
                print(f"nutime: {description}: {done:,}{share}  {state}".rstrip(), file=sys.stderr, flush=True)

        return report

    return new_bar
