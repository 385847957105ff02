"""Intervals of recordings as the columns of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nutime.data.series import SeriesSet
from nutime.data.timeline import Times, in_seconds


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
            columns[name] = joined_times(
                [*(times[:0] for times in given.times), *found]
            )  # of one type in all files
    return columns


def joined_times(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return parts of a column as one; if it is one of times, as text where some are dates and others numbers."""
    if len({part.dtype.kind if part.dtype.kind in "mM" else "" for part in parts}) > 1:
        parts = [np.array(time_texts(part), np.str_) for part in parts]
    return np.concatenate(parts)


def table_rows(columns: Mapping[str, NDArray[Any]]) -> list[dict[str, Any]]:
    """Return one dict per row, with dates as text."""
    lists = [time_texts(column) if column.dtype.kind in "mM" else column.tolist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def time_texts(times: Times) -> list[str]:
    """Return times as text, durations in seconds, dates without fractions of a second where all are zero."""
    if times.dtype.kind == "m":
        return [f"{seconds} s" for seconds in in_seconds(times).tolist()]
    return [text.replace("T", " ").removesuffix(".000000") for text in times.astype(str).tolist()]
