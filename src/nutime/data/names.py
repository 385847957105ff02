"""Names of columns and channels: the role a name implies, and how the names of two inputs are matched."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

#: Names, in any case, of columns that hold no values of the series.
LABEL_NAMES = frozenset({"label", "class", "target", "y"})
ID_NAMES = frozenset({"id", "series", "series_id"})
TIME_NAMES = frozenset({"time", "timestamp", "datetime", "t", "date"})
#: Columns without names of their own that may well be channels; more are rather the points of a series per row.
MAX_CHANNELS = 16
#: What pandas calls an index without a name that it has read from a CSV.
INDEX_COLUMN = "unnamed: 0"

_SHOWN = 5  # names in an error message
_NUMBERED = re.compile(r"(\D*)\d+")  # t0, t1, …


def name_order(expected: Sequence[str], given: Sequence[str], what: str) -> list[int]:
    """Return the indices that put the names ``given`` into the order ``expected``.

    Args:
        expected: the names known from ``fit``, or of the first series.
        given: the names of the input.
        what: the plural that an error calls them: ``"channels"``, ``"columns"``.

    Raises:
        ValueError: the names differ, or repeat in another order; one line with the difference.
    """
    if list(expected) == list(given):
        return list(range(len(given)))
    differences = []
    if missing := [name for name in expected if name not in set(given)]:
        differences.append(f"missing {quoted(missing)}")
    if unexpected := [name for name in given if name not in set(expected)]:
        differences.append(f"unexpected {quoted(unexpected)}")
    if not differences and len(set(expected)) == len(expected) == len(given):
        places = {name: index for index, name in enumerate(given)}
        return [places[name] for name in expected]
    if not differences:
        differences.append("names occur more than once, in another order")
    raise ValueError(f"the {what} differ from {quoted(expected)}: {'; '.join(differences)}")


def odd_points(names: Sequence[str]) -> list[str]:
    """Return the columns without a number among points that are mostly numbered under one name (t0, t1, …)."""
    stems = Counter(match[1] for match in map(_NUMBERED.fullmatch, names) if match)
    if not stems or max(stems.values()) <= len(names) / 2:
        return []
    return [name for name in names if not re.search(r"\d", name)]


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean …?"`` where a known name is similar, else nothing."""
    lower = {other.strip().lower(): other for other in known}
    close = get_close_matches(name.strip().lower(), lower, n=1)
    return f"; did you mean {lower[close[0]]!r}?" if close else ""


def quoted(names: Sequence[str]) -> str:
    """Return names for an error message, in quotes, not more than a few."""
    shown = ", ".join(repr(name[:40]) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown}, … ({len(names)} in total)"
