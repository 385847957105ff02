"""Intervals of recordings as the columns of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nutime.data.series import SeriesSet
from nutime.data.timeline import Times


def interval_columns(
    given: SeriesSet, intervals: Sequence[Any], fields: Mapping[str, type]
) -> dict[str, NDArray[Any]]:
    """Return fields of intervals as columns, with their times where the recordings have times."""
    columns: dict[str, NDArray[Any]] = {
        name: np.array([getattr(row, name) for row in intervals], kind) for name, kind in fields.items()
    }
    if given.times is not None:
        for name in ("start_time", "end_time"):
            columns[name] = _time_column([getattr(row, name) for row in intervals], given.times)
    return columns


def _time_column(cells: Sequence[Any], times: Sequence[Times]) -> NDArray[Any]:
    """Return times in the type common to all recordings, as text where some are dates and others numbers."""
    kinds = {time.dtype.kind if time.dtype.kind in "mM" else "number" for time in times}
    if len(kinds) > 1:
        return np.array([time_texts(np.array([cell]))[0] for cell in cells], np.str_)
    return np.array(cells, np.result_type(*(time.dtype for time in times)))


def table_rows(columns: Mapping[str, NDArray[Any]]) -> list[dict[str, Any]]:
    """Return one dict per row, with dates as text."""
    lists = [time_texts(column) if column.dtype.kind in "mM" else column.tolist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def time_texts(times: Times) -> list[str]:
    """Return times as text, without fractions of a second where all are zero."""
    return [text.replace("T", " ").removesuffix(".000000") for text in times.astype(str).tolist()]
