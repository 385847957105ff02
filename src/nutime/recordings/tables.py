"""Intervals of recordings as the columns of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nutime.data.series import SeriesSet
from nutime.data.timeline import joined_times, time_texts


def interval_columns(
    given: SeriesSet, intervals: Sequence[Any], fields: Mapping[str, type]
) -> dict[str, NDArray[Any]]:
    """Return fields of intervals as columns, with their times where the recordings have times."""
    columns: dict[str, NDArray[Any]] = {
        name: np.array([getattr(row, name) for row in intervals], kind) for name, kind in fields.items()
    }
    if given.times is not None:
        for name in ("start_time", "end_time"):
            found = [np.array([getattr(row, name)]) for row in intervals]
            # The empty parts give the column one type, also without intervals.
            columns[name] = joined_times([*(times[:0] for times in given.times), *found])
    return columns


def table_rows(columns: Mapping[str, NDArray[Any]]) -> list[dict[str, Any]]:
    """Return one dict per row, with dates as text."""
    lists = [time_texts(column) if column.dtype.kind in "mM" else column.tolist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
