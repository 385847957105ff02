"""Timestamps: from cells to times, and from samples at any times to a regular grid.

Times are a numpy array of numbers, ``datetime64`` or ``timedelta64``. The step of the grid is the median step of
the series unless a ``freq`` is given, and the grid starts at the first time. Samples whose distances are
multiples of the step (of the mean step, because a clock may round) keep their values and times exactly, and times
are filled in between; between other samples not more than 1.5 steps apart, values are interpolated linearly. Grid
points in a gap are missing values (NaN). A ``freq`` coarser than the samples takes their mean. Dates at the same
point of every month are monthly, whatever the number of days. Whole numbers that are all dates like 20241231 or
202412312359 are dates.

A few rows with equal times are averaged. Where they are more than a tenth of a series they are refused, because
most likely a column with the id of the series was not recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from math import isnan
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nutime.data.names import MAX_CHANNELS

Times: TypeAlias = NDArray[Any]
Array: TypeAlias = NDArray[np.floating[Any]]

#: Cells of a table, in lower case, that are missing values.
MISSING = frozenset({"", "?", "-", "na", "n/a", "nan", "null", "none"})

_TOLERANCE = 0.05  # of a step, by which regular samples may deviate from the grid
_MAX_DISTANCE = 1.5  # steps between samples that are interpolated
_MIN_CLOCK = 24  # steps that tell a clock of 1.5 s in whole seconds from one of 1 s with gaps
_MAX_DUPLICATES = 0.1  # share of rows
_MAX_GRID = 100  # grid points per sample, beyond 1000: an outlier among the times would fill the memory

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_FREQ = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+|)\s*([a-zµ]+)\s*", re.IGNORECASE)
_NUMERIC_DATE = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4})(?:[ T,]+(.+))?")
_YEAR_FIRST = re.compile(r"(\d{4})[/.](\d{1,2})[/.](\d{1,2})(?:[ T]+(.+))?")
_YEAR_MONTH = re.compile(r"\d{4}-\d{2}")
_NAMED_MONTHS = ("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%b %d %Y", "%d %B %Y", "%B %d, %Y")
#: Names of columns that are times of the day, and names that may be.
_CLOCK_NAME = re.compile(r"(\d+ days? )?\d{1,2}:\d\d(:\d\d(\.\d+)?)?( ?[ap]m)?|\d+ ?[ap]m", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:hour|[th])?[ _]?(\d+) ?h?", re.IGNORECASE)
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")


@dataclass
class TimeReport:
    """Counts what was done to the times of series, for one line to the user."""

    n_series: int = 0
    n_sorted: int = 0
    n_averaged: int = 0
    n_resampled: int = 0
    n_missing: int = 0
    n_with_gaps: int = 0
    n_shifted: int = 0
    n_zoned: int = 0

    def count_zone(self, zone: Any, count: int) -> None:
        """Count times of a time zone, which are changed if it has another name than UTC."""
        if zone is not None:
            self.n_zoned += count
            self.n_shifted += count * (str(zone) != "UTC")

    @property
    def regridded(self) -> bool:
        """Whether the points are no longer the rows of the input."""
        return any((self.n_sorted, self.n_averaged, self.n_resampled, self.n_missing))

    def notes(self) -> list[str]:
        """Return one line, or nothing if all times were regular and in order."""
        parts = (
            (self.n_sorted, "series sorted by time"),
            (self.n_averaged, "rows of equal time averaged"),
            (self.n_resampled, f"of {self.n_series} series put on a regular grid"),
            (self.n_missing, f"missing timestamps in {self.n_with_gaps} series made missing values"),
            (self.n_shifted, "times with a zone changed to UTC, and written without a zone"),
        )
        done = "; ".join(f"{count} {text}" for count, text in parts if count)
        return [f"times: {done}"] if done else []


def to_grid(
    times: Times, values: Array, freq: str | float | None = None, report: TimeReport | None = None
) -> tuple[Times, Array]:
    """Put the samples of one series on a regular grid.

    Args:
        times: ``(n,)`` numbers, ``datetime64`` or ``timedelta64``, in any order.
        values: ``(channels, n)``, NaN where a value is missing.
        freq: the step, as ``"10ms"``, ``"5 min"``, ``"1h"``, or as a number in the unit of the times (seconds
            for dates); the median step unless given.
        report: counts what was done.

    Returns:
        The times of the grid and the values there, ``(channels, m)``.

    Raises:
        ValueError: one line: a time is missing, too many are equal, or the grid would be far too long.
    """
    report = report or TimeReport()
    report.n_series += 1
    missing = np.isnat(times) if times.dtype.kind in "mM" else ~np.isfinite(times)
    if missing.any():
        raise ValueError(f"the time of row {missing.argmax()} is missing")
    times = as_dates(times)
    order = np.argsort(times, kind="stable")
    if not np.array_equal(order, np.arange(len(times))):
        times, values = times[order], values[:, order]
        report.n_sorted += 1
    _check_span(times)
    times, values = _average_duplicates(times, values, report)
    step = None if freq is None else _step_of(freq, times)
    if len(times) < 2:
        return times, values
    ticks = _ticks(times) if freq is None else _numbers(times)
    steps = np.diff(ticks)
    median = float(np.sort(steps)[(len(steps) - 1) // 2])
    step = median if step is None else step
    length = round(float(ticks[-1] - ticks[0]) / step) + 1
    if length > 1000 + _MAX_GRID * len(times):
        raise ValueError(
            f"{len(times)} rows span {length} steps of {_step_text(times, step)}; correct the times, or give freq"
        )
    months = _months(times) if freq is None else None
    counts, is_regular = _count_steps(steps, _clock_step(steps, _MAX_DISTANCE * median) if freq is None else step)
    may_be_clock = freq is None and times.dtype != "datetime64[D]" and len(steps) >= _MIN_CLOCK
    if may_be_clock and steps[steps < 2.1 * median].mean() > 1.34 * median:  # for 1.5 s, half are 1 s, half 2 s
        slower = _count_steps(steps, _clock_step(steps, 2.1 * median))
        counts, is_regular = slower if slower[1] else (counts, is_regular)
    is_median = median / _MAX_DISTANCE < step < _MAX_DISTANCE * median
    if is_median and is_regular:
        places = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        if places[-1] == len(times) - 1:
            return times, values
        grid = np.full((len(values), places[-1] + 1), np.nan, values.dtype)
        grid[:, places] = values
        new_times = _filled(times, places) if months is None else _dates(_filled(months[0], places), months[1])
        new_times[places] = times
    else:
        grid = _resample(ticks - ticks[0], values, step, length, median)
        new_times = _grid_times(times, step, length) if months is None else _month_grid(*months, length)
        report.n_resampled += 1
    gaps = int(np.isnan(grid).all(axis=0).sum())
    report.n_missing += gaps
    report.n_with_gaps += gaps > 0
    return new_times, grid


def _clock_step(steps: NDArray[np.float64], longest: float) -> float:
    """Return the mean step of a clock that rounds, as to 33 and 34 ms; a longer one is a multiple of it."""
    return float(steps.sum() / np.round(steps / steps[steps <= longest].mean()).sum())


def _count_steps(steps: NDArray[np.float64], regular: float) -> tuple[NDArray[np.float64], bool]:
    """Return how many regular steps there are between samples, and whether they are at these places."""
    counts = np.round(steps / regular)
    errors = steps - counts * regular
    is_regular = (np.abs(errors) <= _TOLERANCE * regular).all()
    is_regular |= np.abs(np.cumsum(errors)).max() <= 1.01 * _unit(steps)  # a clock of 120 Hz in whole ms
    return counts, bool(is_regular and counts.all())


def _average_duplicates(times: Times, values: Array, report: TimeReport) -> tuple[Times, Array]:
    fresh = np.concatenate([[True], times[1:] != times[:-1]])
    repeated = len(times) - int(fresh.sum())
    if not repeated:
        return times, values
    if repeated > max(1, _MAX_DUPLICATES * len(times)):
        first = times[1:][~fresh[1:]][0]
        raise ValueError(
            f"{repeated} of {len(times)} rows repeat an earlier time ({first}); "
            "name the column with the ids of the series, or make the times distinct"
        )
    starts = np.flatnonzero(fresh)
    report.n_averaged += repeated + len(np.unique(starts.searchsorted(np.flatnonzero(~fresh))))
    return times[starts], _means(values, starts)


def _means(values: Array, starts: NDArray[np.intp]) -> Array:
    """Return the mean of the known values from each start to the next, NaN where none is known."""
    count = values.shape[1]
    is_known = np.isfinite(values)
    known = np.add.reduceat(is_known, starts, axis=1)
    scaled = np.add.reduceat(np.where(is_known, values, 0) / count, starts, axis=1)  # sums could overflow
    means = np.where(known > 0, scaled / np.maximum(known, 1) * count, np.nan).astype(values.dtype)
    single = np.diff(starts, append=count) == 1
    means[:, single] = values[:, starts[single]]
    return means


def _check_span(times: Times) -> None:
    """Refuse sorted times whose differences overflow: those of floats, or of the integers that dates are."""
    ends = times[[0, -1]]
    first, last = (ends.astype(np.int64) if times.dtype.kind in "mM" else ends).tolist()
    if last - first > (np.finfo(np.float64).max if times.dtype.kind == "f" else np.iinfo(np.int64).max):
        raise ValueError(f"the times from {ends[0]} to {ends[1]} span too much; correct them")


def _resample(ticks: NDArray[np.float64], values: Array, step: float, length: int, median: float) -> Array:
    """Interpolate at multiples of ``step`` or, where it is coarser, take the means around them; NaN in gaps."""
    if step >= _MAX_DISTANCE * median:
        cells = np.minimum(np.round(ticks / step), length - 1).astype(np.intp)
        starts = np.flatnonzero(np.diff(cells, prepend=-1))
        grid = np.full((len(values), length), np.nan, values.dtype)
        grid[:, cells[starts]] = _means(values, starts)
        return grid
    points = np.arange(length) * step
    right = np.clip(np.searchsorted(ticks, points), 1, len(ticks) - 1)
    left = right - 1
    distance = ticks[right] - ticks[left]
    weight = np.clip((points - ticks[left]) / distance, 0, 1)
    mixed = (1 - weight) * values[:, left] + weight * values[:, right]
    nearest = np.where(weight < 0.5, left, right)
    near = np.abs(points - ticks[nearest]) <= step / 2
    grid = np.where(
        distance <= _MAX_DISTANCE * max(step, median), mixed, np.where(near, values[:, nearest], np.nan)
    )
    return grid.astype(values.dtype)


def _unit(steps: NDArray[np.float64]) -> float:
    """Return the power of ten to which a clock rounds its times, 0 if there is none."""
    largest = 10.0 ** np.floor(np.log10(1.01 * steps.min()))  # 0.00099… is a millisecond
    units = (
        unit for unit in (largest, largest / 10) if np.allclose(steps / unit, np.round(steps / unit), 0, 0.01)
    )
    return float(next(units, 0))


def _numbers(times: Times) -> NDArray[np.float64]:
    """Return the times relative to the first, in their own unit."""
    return np.asarray(times - times[0], np.float64)


def _ticks(times: Times) -> NDArray[np.float64]:
    """Return relative times; monthly dates are counted in months of median length."""
    numbers = _numbers(times)
    if (found := _months(times)) is None:
        return numbers
    counts = (found[0] - found[0][0]).astype(np.float64)
    return np.asarray(counts * np.median(np.diff(numbers) / np.diff(counts)))


def _months(times: Times) -> tuple[NDArray[np.datetime64], np.timedelta64] | None:
    """Return the month of each date and the offset from it, if the offset is the same and no month repeats.

    Offsets may differ by the hour of daylight saving, and be negative: the last days of months, also in UTC.
    """
    if times.dtype.kind == "M":
        for late in range(3):
            months = (times + np.timedelta64(late, "D")).astype("datetime64[M]")
            offsets = times - months.astype(times.dtype)
            if np.ptp(offsets) <= np.timedelta64(1, "h") and len(np.unique(months)) == len(months):
                return months, offsets[0]
    return None


def _month_grid(months: NDArray[np.datetime64], offset: np.timedelta64, length: int) -> Times:
    """Return dates in steps of as many months as the median step has."""
    step = np.sort(np.diff(months))[(len(months) - 2) // 2]
    return _dates(months[0] + np.arange(length) * step, offset)


def _dates(months: NDArray[np.datetime64], offset: np.timedelta64) -> Times:
    return np.asarray(months.astype("datetime64[us]") + offset)


def next_times(times: Times, count: int) -> Times:
    """Return the times of the points after a regular grid of at least two points.

    Raises:
        ValueError: a single time has no step.
    """
    if len(times) < 2:
        raise ValueError("has a single time, and so no step; give series of at least two points")
    if (months := _months(times)) is not None:
        return _month_grid(months[0][-2:], months[1], count + 2)[2:]
    elapsed = np.arange(1, count + 1) * (_numbers(times)[-1] / (len(times) - 1))
    return np.asarray(times[-1] + (elapsed if times.dtype.kind == "f" else np.round(elapsed).astype(np.int64)))


def in_seconds(times: Times) -> Times:
    """Return durations as numbers of seconds, other times as they are."""
    return times / np.timedelta64(1, "s") if times.dtype.kind == "m" else times


def time_texts(times: Times) -> list[str]:
    """Return times as text, durations in seconds, dates without fractions of a second where all are zero."""
    if times.dtype.kind == "m":
        return [f"{seconds} s" for seconds in in_seconds(times).tolist()]
    return [text.replace("T", " ").removesuffix(".000000") for text in times.astype(str).tolist()]


def joined_times(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return parts of a column as one; if it is one of times, as text where some are dates and others numbers."""
    if len({part.dtype.kind if part.dtype.kind in "mM" else "" for part in parts}) > 1:
        parts = [np.array(time_texts(part), np.str_) for part in parts]
    return np.concatenate(parts)


def _filled(times: Times, places: NDArray[np.intp]) -> Times:
    """Return the times at every place: those of the samples as they are, and equal steps between them."""
    is_float = times.dtype.kind == "f"
    numbers = times if is_float else times.astype(np.int64)
    counts = np.diff(places)
    left = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(places[-1]) - places[left]
    whole, rest = np.divmod(np.diff(numbers), counts)  # whole numbers stay exact beyond the 53 bits of a float
    part = rest[left] * within / counts[left]
    elapsed = whole[left] * within + (part if is_float else np.round(part).astype(np.int64))
    return np.append(numbers[left] + elapsed, numbers[-1]).astype(times.dtype)


def _grid_times(times: Times, step: float, length: int) -> Times:
    elapsed: Any = np.arange(length) * step
    kind = times.dtype.kind
    if kind in "mM":
        elapsed = np.round(elapsed).astype(f"timedelta64[{np.datetime_data(times.dtype)[0]}]")
    elif kind in "iu" and step.is_integer():
        elapsed = elapsed.astype(f"{kind}8")
    return np.asarray(times[0] + elapsed)


def _unit_seconds(times: Times) -> float | None:
    """Return the seconds of one unit of the times, None for numbers that do not look like a Unix time."""
    if times.dtype.kind in "mM":
        unit: Any = np.datetime_data(times.dtype)[0]
        return float(np.timedelta64(1, unit) / np.timedelta64(1, "s"))
    size = float(np.abs(times).max(initial=0))
    limits = ((1e8, 1e11, 1.0), (1e11, 1e14, 1e-3), (1e14, 1e17, 1e-6), (1e17, 1e20, 1e-9))
    return next((seconds for low, high, seconds in limits if low <= size < high), None)


def _step_of(freq: str | float, times: Times) -> float:
    """Return a ``freq`` in the unit of the times."""
    seconds = freq_seconds(freq) if isinstance(freq, str) else None
    if seconds is None:
        unit = _unit_seconds(times) if times.dtype.kind in "mM" else None
        return float(freq) / (unit or 1.0)
    unit = _unit_seconds(times)
    if unit is None:
        raise ValueError(f"freq {freq!r} needs dates, but the times are plain numbers; give the step as a number")
    return seconds / unit


def freq_seconds(freq: str) -> float | None:
    """Return the seconds of a ``freq`` such as ``"10ms"``, None if it is a plain number.

    Raises:
        ValueError: it is neither, or not positive.
    """
    try:
        number = float(freq)
    except ValueError:
        match = _FREQ.fullmatch(freq)
        seconds = _UNITS.get(match[2].lower()) if match else None
        if match is None or seconds is None or float(match[1] or 1) == 0:
            raise ValueError(
                f"freq {freq!r} is not a step; expected a number and one of {', '.join(_UNITS)}, as in '10ms'"
            ) from None
        return float(match[1] or 1) * seconds
    if not 0 < number < np.inf:
        raise ValueError(f"freq {freq!r} is not a step; expected a positive number")
    return None


def _step_text(times: Times, step: float) -> str:
    unit = _unit_seconds(times) if times.dtype.kind in "mM" else None
    return f"{step:g}" if unit is None else f"{step * unit:g} s"


# From cells to times.


def parse_times(cells: Sequence[Any], day_first: bool | None = None, report: TimeReport | None = None) -> Times:
    """Parse a column of times: numbers, ISO dates or other common dates.

    Args:
        cells: the column; cells that are already parsed are accepted.
        day_first: the order of day and month, where it is known from other cells.
        report: counts the times of other zones than UTC, which become UTC.

    Raises:
        ValueError: one line: a cell is not a time, the order of day and month is ambiguous, or numbers and dates,
            or dates with and without a time zone, are mixed.
    """
    if day_first is None:
        day_first = find_day_first(cell for cell in cells if isinstance(cell, str))
    parsed = [parse_time(cell, day_first) for cell in cells]
    dates = [time for time in parsed if isinstance(time, datetime)]
    if not dates:
        array = np.array(parsed)
        if array.dtype.kind in "mMiuf":
            return array
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError("times are neither numbers nor dates") from None
    if len(dates) < len(parsed) or len({date.tzinfo is None for date in dates}) > 1:
        raise ValueError(
            "times cannot be compared; write all as numbers, or all as dates, with or without a time zone"
        )
    if report:
        report.n_shifted += sum(bool(date.utcoffset()) for date in dates)
        report.n_zoned += sum(date.tzinfo is not None for date in dates)
    naive = [date if date.tzinfo is None else date.astimezone(UTC).replace(tzinfo=None) for date in dates]
    return np.array(naive, "datetime64[us]")


def as_dates(times: Times) -> Times:
    """Return times as dates if all are whole numbers such as 20241231 or 202412312359, of 1900 to 2100."""
    digits = len(str(times.max(initial=0))) if times.dtype.kind in "iu" else 0
    year = 10 ** max(digits - 4, 0)
    if digits not in (8, 10, 12, 14) or times.min() < 1900 * year or times.max() >= 2101 * year:
        return times
    try:
        dates = [datetime.fromisoformat(f"{text[:8]}T{text[8:] or '00'}") for text in map(str, times.tolist())]
    except ValueError:
        return times
    return np.array(dates, "datetime64[us]")


def find_day_first(cells: Iterable[str]) -> bool | None:
    """Return whether dates such as 31/12/2024 have the day first; None if no date decides it."""
    found = None
    for cell in cells:
        match = _NUMERIC_DATE.fullmatch(cell.strip())
        if match and match[2] != ".":
            decided = True if int(match[1]) > 12 else False if int(match[3]) > 12 else None
            if None not in (found, decided) and found != decided:
                raise ValueError(f"time {cell.strip()!r}: day and month change places; write dates as 2024-12-31")
            found = decided if found is None else found
    return found


def parse_time(cell: Any, day_first: bool | None = None) -> Any:
    """Parse one cell to a number or a datetime.

    Raises:
        ValueError: one line; the cell is missing, not a time, or ambiguous.
    """
    if not isinstance(cell, str):
        if is_missing(cell):
            raise ValueError("the time is missing")
        return datetime(cell.year, cell.month, cell.day) if type(cell) is date else cell
    text = cell.strip()
    try:
        number = int(text) if text.isdecimal() else parse_number(text)
    except ValueError:
        return _parse_date(text, day_first)
    if isnan(number):
        raise ValueError("the time is missing")
    return number


def find_date(cell: Any) -> datetime | None:
    """Return the date that a cell holds, None if it holds something else."""
    try:
        text = str(cell)
        time = parse_time(text, day_first=find_day_first([text]) is not False)
    except ValueError:
        return None
    return time if isinstance(time, datetime) else None


def are_points(names: Iterable[Any], times: Iterable[Any]) -> bool | None:
    """Whether the columns of a table whose first rows have these times are points, and each row is a series.

    Columns named by clock times or dates are points. Consecutive numbers, also of hours (1h may as well be a
    duration), beside dates are channels if they are few; 24 of them beside whole days are the hours of the day;
    otherwise it cannot be told, and the result is None.
    """
    texts = list(map(str, names))
    if len(texts) > 1 and all(_CLOCK_NAME.fullmatch(text) or find_date(text) for text in texts):
        return True
    found = [match for match in map(_NUMBERED.fullmatch, texts) if match]
    dates = [date for date in map(find_date, times) if date]
    if not dates or len(found) <= MAX_CHANNELS or len(found) < len(texts):
        return False
    numbers = [int(match[1]) for match in found]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return False
    are_days = all(f"{date:%H%M%S}" == "000000" for date in dates)
    return True if are_days and len(numbers) == 24 and numbers[0] < 2 else None


def may_be_channels(names: Sequence[Any]) -> bool:
    """Whether the columns of a table without times may well be channels: few, and not all named by numbers."""
    return len(names) <= MAX_CHANNELS and not all(is_number(str(name)) for name in names)


def is_missing(cell: Any) -> bool:
    """Whether a cell is None, NaN, NaT or pandas' NA, which is neither equal to itself nor different."""
    return cell is None or type(cell).__name__ == "NAType" or bool(cell != cell)  # noqa: PLR0124


def is_number(cell: str) -> bool:
    """Whether a cell parses as a number or is a missing value."""
    if cell.strip().lower() in MISSING:
        return True
    try:
        parse_number(cell)
    except ValueError:
        return False
    return True


def parse_number(text: str) -> float:
    """Parse a number as other programs do: 2024_12 is one in Python only, and in a table a name or a date."""
    if "_" in text:
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def _parse_date(text: str, day_first: bool | None) -> datetime:
    try:
        return datetime.fromisoformat(f"{text}-01" if _YEAR_MONTH.fullmatch(text) else text)
    except ValueError:
        pass
    date, clock = text, ""
    if match := _YEAR_FIRST.fullmatch(text):
        date, clock = f"{int(match[2]):02d} {int(match[3]):02d} {match[1]}", match[4] or ""
        formats: Sequence[str] = ("%m %d %Y",)
    elif match := _NUMERIC_DATE.fullmatch(text):
        first = True if match[2] == "." else day_first
        if first is None and match[1] != match[3]:
            raise ValueError(f"time {text!r}: is the day or the month first? write dates as 2024-12-31")
        date, clock = f"{match[1]} {match[3]} {match[4]}", match[5] or ""
        formats = ("%d %m %Y",) if first else ("%m %d %Y",)
    else:
        formats = _NAMED_MONTHS
    for form in formats:
        for clock_form in _CLOCKS:
            try:
                return datetime.strptime(f"{date} {clock}".strip(), form + clock_form)
            except ValueError:
                continue
    shown = text if len(text) <= 40 else text[:40] + "…"
    raise ValueError(f"time {shown!r} is neither a number nor a date; write dates as 2024-12-31 23:59:59")
