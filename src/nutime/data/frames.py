"""Tables and labelled arrays of other libraries as series: pandas, polars, Arrow and xarray.

None of these libraries is imported; their objects are recognised by their attributes. A frame is one of

* *wide*: one series per row, one column per point;
* *nested*: one series per row, one column per channel, whose cells hold the values;
* *long*: one row per point in time, one column per channel. A pandas index of dates, also as text, an
  index of several levels (ids, then time), a column of dates or a column named time, timestamp, datetime or date
  makes a frame long, unless the axis of its columns is named so, as after a pivot, or the columns are points
  (:func:`~nutime.data.timeline.are_points`). Rows with the same id (a level of the index, an index named id that
  repeats, or a column named id, series or series_id) are one series; without ids the frame is a single recording.

Each frame of a list or a dict, and each group of a ``groupby``, is one series with time along its rows. Of an
xarray object, also in a list or a dict, the names of the dimensions decide (:data:`DIMENSIONS`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nutime.data.names import ID_NAMES, INDEX_COLUMN, LABEL_NAMES, TIME_NAMES, name_order, quoted
from nutime.data.timeline import (
    TimeReport,
    Times,
    are_points,
    find_date,
    is_missing,
    may_be_channels,
    parse_times,
    to_grid,
)

EXPECTED = (
    "expected an array (n, length) or (n, channels, length), a list of (length,) or (channels, length) "
    "arrays, or a DataFrame with one series per row"
)

_LABELS = "labels; give them as y and the frame without it"

#: Names of the dimensions of an xarray object, in any case.
DIMENSIONS = {
    "case": frozenset({"case", "sample", "instance", "series", "id", "n", "batch"}),
    "channel": frozenset({"channel", "variable", "feature", "sensor", "dim", "dimension"}),
    "time": TIME_NAMES | {"timepoint", "point", "step"},
}


@dataclass
class RawSeries:
    """A :class:`~nutime.data.series.SeriesSet` before it is cleaned.

    ``values`` has one array-like per series, ``(length,)`` or ``(channels, length)``; ``report`` counts what was
    done to the times.
    """

    values: Sequence[Any]
    channel_names: list[str] | None = None
    feature_names: list[str] | None = None
    n_features: int | None = None
    ids: list[str] | None = None
    times: list[Times] | None = None
    report: TimeReport = field(default_factory=TimeReport)


def is_frame(X: Any) -> bool:
    """Whether an object is a table with named columns, as in pandas, polars and Arrow."""
    return hasattr(X, "shape") and hasattr(X, "columns")


def is_xarray(X: Any) -> bool:
    """Whether an object is an xarray DataArray or Dataset."""
    return hasattr(X, "dims") and hasattr(X, "coords") and hasattr(X, "transpose")


def is_groupby(X: Any) -> bool:
    """Whether an object is the result of ``groupby`` of pandas or polars."""
    return type(X).__name__.endswith("GroupBy") and hasattr(X, "__iter__")


def holds_series(table: Any) -> bool:
    """Whether the cells of a frame or of an array are series, and not numbers."""
    if not 1 <= len(table.shape) <= 2:
        return False
    try:
        cells = np.asarray(table.iloc[:1] if hasattr(table, "iloc") else table[:1]).ravel()
    except TypeError:  # numpy has no common type for an Arrow table of dates and numbers
        return False
    return cells.size > 0 and all(map(_is_sequence, cells))


def _is_sequence(cell: Any) -> bool:
    return hasattr(cell, "__len__") and not isinstance(cell, str | bytes)


def as_array(values: Any) -> NDArray[Any]:
    """Return an array, also of a tensor; masked values and pandas' NA become NaN."""
    if isinstance(values, np.ma.MaskedArray):
        return np.ma.filled(values.astype(np.float64), np.nan)
    if hasattr(values, "detach"):  # a tensor; torch itself is not needed here
        values = values.detach().cpu()
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values  # unknown to numpy
    array = np.asarray(values)
    if array.dtype == object and hasattr(values, "iloc") and all(map(is_numeric, np.ravel(values.dtypes))):
        return np.asarray(values.to_numpy(np.float64, na_value=np.nan))
    return array


def is_numeric(dtype: Any) -> bool:
    """Whether a dtype of numpy or pandas is a real number."""
    return getattr(dtype, "kind", "O") in "fiub"


def as_floats(array: NDArray[Any]) -> NDArray[np.floating[Any]]:
    """Return float16 and float32 as float32, every other type as float64."""
    return array.astype(np.float32 if array.dtype.char in "ef" else np.float64, copy=False)


def read_frame(frame: Any, freq: str | float | None = None) -> RawSeries:
    """Return the series of one frame: wide, nested or long."""
    table = _Table(frame)
    if (times := table.first_times()) is not None:
        along_columns = are_points(table.value_names, times)
        if along_columns is None:
            raise ValueError(
                f"columns {quoted(list(map(str, table.value_names)))} beside dates are channels or points: "
                "rename them if each row is a point, leave the dates out if it is a series"
            )
        if not along_columns:
            return _read_long(table, freq)
        if table.time is not None:
            others = [name for name in table.names if name != table.time]
            return read_frame(frame[others] if table.is_pandas else frame.select(others), freq)
    table.refuse(LABEL_NAMES, _LABELS)
    if nested := [name for name in table.names if table.is_nested(name)]:
        return _read_nested(table, nested, freq)
    table.refuse(ID_NAMES, "ids, not points; give the frame without it")
    if len({name[:-1] for name in table.names if isinstance(name, tuple)}) > 1:
        raise ValueError("the columns have levels, perhaps channel and time; give one row per point: X.stack()")
    if {"x", "y"} <= set(table.names):
        raise ValueError("columns 'x' and 'y': give [X] if rows are points, X.to_numpy() if they are series")
    if table.index_ids is not None and may_be_channels(table.names):
        raise ValueError(
            "rows of few values with the same id in the index: give X.groupby(level=0) if rows are points, "
            "X.reset_index(drop=True) if they are series"
        )
    if not any(isinstance(name, str) and len(name) == 1 for name in table.names if name != "y"):
        table.refuse(frozenset({"y"}), _LABELS, min_length=1)  # beside x and z it is a value, beside t0 and t1 not
    for name in table.names:
        if not is_numeric(table.column(name).dtype):
            raise ValueError(f"column {name!r} is not numeric ({table.library_dtype(name)}): {EXPECTED}")
    names = table.names if all(isinstance(name, str) for name in table.names) else None
    return RawSeries(list(as_array(frame)), feature_names=names, n_features=len(table.names))


def read_recordings(items: Iterable[Any], ids: list[str] | None, freq: str | float | None = None) -> RawSeries:
    """Return one series per item: a frame with time along its rows, an xarray object or an array-like."""
    raw = RawSeries([], ids=ids)
    values: list[Any] = []
    times: list[Times] = []
    own_ids: list[str] = []
    named: dict[bool, int] = {}  # the last series with names of channels, and the last without
    for index, item in enumerate(items):
        if not (is_frame(item) or is_xarray(item) or has_time_index(item)):
            named[False] = index
            values.append(item)
            continue
        try:
            one = _read_recording(item, freq, raw.report)
            if one.channel_names is not None and raw.channel_names is not None:
                one.values = [one.values[0][name_order(raw.channel_names, one.channel_names, "columns")]]
        except ValueError as error:
            raise ValueError(f"series {index}: {error}") from None
        named[one.channel_names is not None] = index
        if not values:
            raw.channel_names = one.channel_names
        values.append(one.values[0])
        times += one.times or []
        own_ids += one.ids or []
    if len(named) == 2 and len(values[named[True]]) > 1:
        raise ValueError(
            f"series {named[True]} has names of channels, series {named[False]} has none; "
            "give frames alone, or arrays alone"
        )
    raw.values = values
    raw.times = times if values and len(times) == len(values) else None
    if ids is None and values and len(own_ids) == len(values):
        raw.ids = own_ids
    return raw


def read_groups(groups: Any, freq: str | float | None = None) -> RawSeries:
    """Return one series per group of a ``groupby``; its keys are the ids."""
    pairs = [(key if isinstance(key, tuple) else (key,), frame) for key, frame in groups]
    if not getattr(groups, "maintain_order", True):  # polars yields groups in random order
        pairs.sort(key=lambda pair: [(key is not None, key) for key in pair[0]])
    keys = _key_columns(groups)
    frames = [_without(frame, keys) for _, frame in pairs]
    return read_recordings(frames, as_ids(key for key, _ in pairs), freq)


def as_ids(keys: Iterable[Any]) -> list[str]:
    """Return the ids of series from keys of groups or rows of an index; those of several parts are joined."""
    return ["/".join(map(str, key if isinstance(key, tuple) else (key,))) for key in keys]


def _key_columns(groups: Any) -> list[str | int]:
    """Return the columns that are keys of a ``groupby``; other keys are computed, as the day of a time is."""
    if is_pandas := hasattr(groups, "obj"):
        given = [groups.keys]
    else:
        named = getattr(groups, "named_by", {}).values()
        given = [getattr(groups, "by", None), getattr(groups, "group_by", None), *named]
    columns = []
    while given:
        key = given.pop()
        if isinstance(key, list | tuple):
            given += key
        elif isinstance(key, str | int):
            columns.append(key)
        elif hasattr(key, "meta") and key.meta.is_column_selection():  # an expression of polars
            columns.append(key.meta.output_name())
        elif is_pandas and hasattr(key, "iloc") and key.name in groups.obj and key.equals(groups.obj[key.name]):
            columns.append(key.name)
    return columns


def _without(frame: Any, names: list[str | int]) -> Any:
    if not is_frame(frame):
        return frame
    present = [name for name in names if name in list(frame.columns)]
    return frame.drop(columns=present) if hasattr(frame, "iloc") else frame.drop(present)


def read_xarray(X: Any, freq: str | float | None = None, report: TimeReport | None = None) -> RawSeries:
    """Return the series of a DataArray or Dataset by the names of its dimensions."""
    if hasattr(X, "data_vars"):
        if not X.data_vars:
            raise ValueError("the Dataset has no variables")
        if DIMENSIONS["channel"] & {str(name).lower() for name in X.dims}:
            raise ValueError("the Dataset has a channel dimension beside its variables; give one DataArray")
        X = X.to_array("channel")
    roles: dict[str, Any] = {}
    for name in X.dims:
        role = next((role for role, names in DIMENSIONS.items() if str(name).lower() in names), None)
        if role is None or role in roles:
            known = "; ".join(f"{role}: {', '.join(sorted(names))}" for role, names in DIMENSIONS.items())
            raise ValueError(f"dimension {str(name)!r} is not understood; X.rename it to one of {known}")
        roles[role] = name
    if "time" not in roles:
        raise ValueError(
            f"no dimension is time, only {quoted(list(map(str, X.dims)))}; rename one: X.rename(x='time')"
        )

    def coordinate(role: str) -> NDArray[Any] | None:
        return np.asarray(X.coords[roles[role]]) if role in roles and roles[role] in X.coords else None

    cases, channels, time = (coordinate(role) for role in ("case", "channel", "time"))
    ordered = X.transpose(*(roles[role] for role in ("case", "channel", "time") if role in roles))
    values = np.asarray(ordered.values)
    if "case" not in roles:
        values = values[None]
    if "channel" not in roles:
        values = values[:, None]
    raw = RawSeries(
        list(values),
        channel_names=None if channels is None else [str(name) for name in channels],
        ids=None if cases is None else [str(name) for name in cases],
        report=report or TimeReport(),
    )
    if time is not None:
        _put_on_grid(raw, [time] * len(values), freq)
    return raw


def _put_on_grid(raw: RawSeries, times: Sequence[Any], freq: str | float | None) -> None:
    """Replace the values of all series by those on regular grids."""
    grids = []
    for index, (time, values) in enumerate(zip(times, raw.values, strict=True)):
        try:
            grids.append(_on_grid(time, np.asarray(values), freq, raw.report))
        except ValueError as error:
            where = f"series {index}" if raw.ids is None else f"series {raw.ids[index]!r}"
            raise ValueError(f"{where}: {error}") from None
    raw.times, raw.values = [time for time, _ in grids], [values for _, values in grids]


def _on_grid(
    time: Any, values: NDArray[Any], freq: str | float | None, report: TimeReport
) -> tuple[Times, NDArray[Any]]:
    if not is_numeric(values.dtype):
        raise ValueError(f"dtype {values.dtype} is not numeric: {EXPECTED}")
    return to_grid(_as_times(time, report), as_floats(values), freq, report)


def _as_times(time: Any, report: TimeReport) -> Times:
    array = np.asarray(time)
    if array.dtype.kind in "mMiuf":
        return array.astype(np.float64) if array.dtype.kind == "f" else array
    return parse_times(array.tolist(), report=report)


def has_time_index(item: Any) -> bool:
    """Whether an object is a pandas Series indexed by time."""
    return hasattr(item, "iloc") and item.ndim == 1 and (_is_temporal(item.index) or _holds_date_texts(item.index))


def _is_temporal(index: Any) -> bool:
    return type(index).__name__ in ("DatetimeIndex", "PeriodIndex", "TimedeltaIndex")


def _holds_date_texts(index: Any) -> bool:
    """Whether an index holds dates as text; the first decides."""
    return len(index) > 0 and isinstance(index[0], str) and find_date(index[0]) is not None


def _index_times(index: Any, report: TimeReport) -> Times:
    if hasattr(index, "to_timestamp"):  # a PeriodIndex
        index = index.to_timestamp()
    if getattr(index, "tz", None) is not None:
        report.count_zone(index.tz, len(index))
        index = index.tz_convert(None)
    return _as_times(index, report)


class _Table:
    """Columns of a frame of any library, with the levels of a pandas index that are ids or times."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.is_pandas = hasattr(frame, "iloc")
        self.is_arrow = not self.is_pandas and hasattr(frame, "column_names")  # whose ``columns`` are not names
        self.names: list[Any] = list(frame.column_names if self.is_arrow else frame.columns)
        self.refuse(frozenset({INDEX_COLUMN}), "the index of a file; give the frame without it")
        self.time = self._find(TIME_NAMES, dates=True)
        self.id = self._find(ID_NAMES)
        self.index_time: Any = None
        self.index_ids: list[str] | None = None
        if self.is_pandas and not any(_means(name, TIME_NAMES) for name in frame.columns.names):
            self._read_index(frame.index)

    def first_times(self) -> Any:
        """Return the times of the first rows, None without times."""
        if self.time is not None:
            return self._library_column(self.time, 2)
        return None if self.index_time is None else self.index_time[:2]

    @property
    def value_names(self) -> list[Any]:
        """The columns of a frame with times that are channels or points."""
        return [name for name in self.names if name not in (self.time, self.id)]

    def _read_index(self, index: Any) -> None:
        levels = [index.get_level_values(level) for level in range(index.nlevels)]
        timed = [i for i, level in enumerate(levels) if _is_temporal(level) or _means(level.name, TIME_NAMES)]
        if _holds_date_texts(index) and not (timed or _means(index.name, ID_NAMES) or holds_series(self.frame)):
            timed = [0]
        if timed or (index.nlevels > 1 and self.time is None):
            self.index_time = levels.pop(timed[-1] if timed else -1)
        elif index.nlevels > 1 and index.is_unique:  # the last level numbers the rows, as concat with keys does
            levels.pop()
        if index.nlevels > 1 or (levels and _means(index.name, ID_NAMES) and not index.is_unique):
            if any(level.hasnans for level in levels):
                raise ValueError("the index: the id of a row is missing")
            self.index_ids = as_ids(zip(*levels, strict=True))
        for role, level, column in (("time", self.index_time, self.time), ("id", self.index_ids, self.id)):
            if level is not None and column is not None:
                raise ValueError(f"the index and column {column!r} may both hold the {role}; drop one of them")

    def _find(self, names: frozenset[str], *, dates: bool = False) -> Any:
        found = [name for name in self.names if _means(name, names)]
        if dates and not found:
            found = [name for name in self.names if self.is_date(name)]
        if len(found) > 1:
            raise ValueError(
                f"columns {found[0]!r} and {found[1]!r} may both hold the {'time' if dates else 'id'}"
            )
        return found[0] if found else None

    def is_date(self, name: Any) -> bool:
        """Whether a column holds dates, by its type alone."""
        if self.is_pandas:
            dtype = self.library_dtype(name)
            return getattr(dtype, "kind", "") == "M" or str(dtype).startswith(("datetime64", "period"))
        return self.column(name, rows=0).dtype.kind == "M"

    def column(self, name: Any, rows: int | None = None) -> NDArray[Any]:
        """Return a column as an array; missing numbers are NaN, dates have no time zone."""
        column = self._library_column(name, rows)
        if not self.is_pandas:
            return np.asarray(column)
        if str(column.dtype).startswith("period"):
            column = column.dt.to_timestamp()
        if getattr(column.dtype, "tz", None) is not None:
            column = column.dt.tz_convert(None)
        return as_array(column)

    def library_dtype(self, name: Any) -> Any:
        """Return the type of a column, as an object of its library."""
        column = self._library_column(name, rows=0)
        return column.type if self.is_arrow else column.dtype

    def _library_column(self, name: Any, rows: int | None) -> Any:
        place = self.names.index(name)
        if self.is_pandas:
            return self.frame.iloc[:rows, place]
        column = self.frame.column(place) if self.is_arrow else self.frame[name]
        return column if rows is None else column[:rows]

    def is_nested(self, name: Any) -> bool:
        cells = self.column(name, rows=1)
        return cells.ndim > 1 or (cells.dtype == object and cells.size == 1 and _is_sequence(cells[0]))

    def refuse(self, names: frozenset[str], what: str, min_length: int = 2) -> None:
        """Refuse a column with one of the names, with the code of the caller's library that removes it."""
        arrow_or_polars = "drop_columns([{!r}])" if self.is_arrow else "drop({!r})"
        drop = "drop(columns=[{!r}])" if self.is_pandas else arrow_or_polars
        for name in self.names:
            if _means(name, names, min_length):
                raise ValueError(f"column {name!r} holds {what}: X.{drop.format(name)}")

    def channels(self) -> tuple[list[str], NDArray[Any]]:
        """Return names and values, ``(channels, rows)``, of the columns of a long frame that are channels."""
        self.refuse(LABEL_NAMES, _LABELS)
        names = self.value_names
        texts = [str(name) for name in names]
        if not names:
            raise ValueError(f"has no column of values, only {quoted(list(map(str, self.names)))}")
        if len(set(texts)) < len(texts):
            raise ValueError(f"columns have the same name: {quoted(texts)}")
        columns = [self.column(name) for name in names]
        for name, column in zip(names, columns, strict=True):
            if not is_numeric(column.dtype):
                raise ValueError(
                    f"column {name!r} is not numeric ({self.library_dtype(name)}); expected a number per channel"
                )
        return texts, as_floats(np.stack(columns))

    def times(self, report: TimeReport) -> Times | None:
        """Return the times of the rows, in UTC if they have a time zone."""
        if self.index_time is not None:
            return _index_times(self.index_time, report)
        if self.time is None:
            return None
        column, dtype = self.column(self.time), self.library_dtype(self.time)
        report.count_zone(getattr(dtype, "tz", None) or getattr(dtype, "time_zone", None), len(column))
        return _as_times(column, report)

    def ids(self) -> list[str] | None:
        if self.id is None:
            return self.index_ids
        cells = self.column(self.id).tolist()
        if any(is_missing(cell) or cell == "" for cell in cells):
            raise ValueError(f"column {self.id!r}: the id of a row is missing")
        return list(map(str, cells))


def _means(name: Any, names: frozenset[str], min_length: int = 2) -> bool:
    """Whether a column has one of the names; those of one letter are ambiguous in a frame."""
    return isinstance(name, str) and len(name.strip()) >= min_length and name.strip().lower() in names


def _read_long(table: _Table, freq: str | float | None) -> RawSeries:
    names, values = table.channels()
    ids = table.ids()
    if not values.shape[1]:
        raise ValueError(f"no series given: {EXPECTED}")
    groups: dict[Any, Any] = {} if ids else {None: slice(None)}
    for row, identity in enumerate(ids or ()):
        groups.setdefault(identity, []).append(row)
    series = [values[:, rows] for rows in groups.values()]
    raw = RawSeries(series, channel_names=names, ids=list(groups) if ids else None)
    times = table.times(raw.report)
    if times is not None:
        _put_on_grid(raw, [times[rows] for rows in groups.values()], freq)
    return raw


def _read_recording(frame: Any, freq: str | float | None, report: TimeReport) -> RawSeries:
    """Read a frame or an xarray object that is a single series."""
    if is_xarray(frame):
        raw = read_xarray(frame, freq, report)
        if len(raw.values) != 1:
            raise ValueError(
                f"holds {len(raw.values)} series; give it itself instead of a list, or one per series"
            )
        return raw
    if has_time_index(frame):
        grid, values = _on_grid(_index_times(frame.index, report), as_array(frame)[None], freq, report)
        return RawSeries([values], times=[grid])
    table = _Table(frame)
    first_times = table.first_times()
    if first_times is not None and are_points(table.value_names, first_times):
        raise ValueError(
            f"columns {quoted(list(map(str, table.value_names)))} beside dates are read as points; "
            "give one row per point, or rename the columns if they are channels"
        )
    names, values = table.channels()
    ids = table.ids()
    if ids and len(set(ids)) > 1:
        raise ValueError(
            f"holds {len(set(ids))} ids; give the frame itself instead of a list, or one frame per series"
        )
    raw = RawSeries([values], channel_names=names, ids=ids[:1] if ids else None)
    times = table.times(report)
    if times is not None and len(times):
        grid, values = _on_grid(times, values, freq, report)
        raw.times, raw.values = [grid], [values]
    return raw


def _read_nested(table: _Table, nested: list[Any], freq: str | float | None) -> RawSeries:
    for name in table.names:
        if name not in nested and name != table.id:
            raise ValueError(
                f"column {name!r} holds single values beside columns of series; give the frame without it"
            )
    rows = list(zip(*(table.column(name) for name in nested), strict=True))
    raw = read_cells(rows, freq)
    raw.channel_names = list(map(str, nested))
    raw.ids = table.ids() if table.id is not None else None
    return raw


def read_cells(rows: Iterable[Sequence[Any]], freq: str | float | None = None) -> RawSeries:
    """Return one series per row, whose cells are the values of a channel each."""
    raw = RawSeries([[as_array(cell) for cell in row] for row in rows])
    if any(has_time_index(cell) for row in rows for cell in row):
        for number, row in enumerate(rows):
            if not all(has_time_index(cell) and cell.index.equals(row[0].index) for cell in row):
                raise ValueError(
                    f"series {number}: its cells differ in their times; give a list of frames, one per series"
                )
        _put_on_grid(raw, [_index_times(row[0].index, raw.report) for row in rows], freq)
    return raw


def read_mapping(X: Mapping[Any, Any], freq: str | float | None = None) -> RawSeries:
    """Return one series per value of a dict; its keys are the ids."""
    return read_recordings(X.values(), as_ids(X), freq)
