"""How far apart in time points are: it must agree between series that are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from nutime.data.timeline import Times, in_seconds

Range: TypeAlias = tuple[float, float]

#: Steps or durations that differ by a larger factor are not the same.
_MAX_RATIO = 1.1
_ADVICE = "bring both to one step (frame.resample, --freq), or give arrays without times"


class Step(NamedTuple):
    """The time from one point to the next: in seconds of dates and durations, else in the unit of the times."""

    size: float
    unit: str

    def __str__(self) -> str:
        return f"{self.size:g} {self.unit}".rstrip()


class Sampling(NamedTuple):
    """Of several series with times, the smallest and the largest step, and the shortest and longest duration."""

    unit: str
    steps: Range
    durations: Range


def step_of(times: Times | None) -> Step | None:
    """Return the mean step of a series, None if it has no times."""
    if times is None or len(times) < 2:
        return None
    elapsed = float(in_seconds(times[-1] - times[0]))
    return Step(elapsed / (len(times) - 1), "s" if times.dtype.kind in "mM" else "")


def check_step(step: Step | None, known: Step | None, name: str, known_name: str) -> None:
    """Raise ValueError if the points of two recordings, compared one by one, are not as far apart in time."""
    if step is None or known is None or step.unit != known.unit:
        return
    if _is_outside(step.size, (known.size, known.size)):
        raise ValueError(f"{name} has a point every {step}, {known_name} one every {known}; {_ADVICE}")


def sampling_of(times: Sequence[Times] | None) -> Sampling | None:
    """Return the sampling of series, None if none has times or their units differ."""
    found = list(_steps_and_durations(times))
    if len({step.unit for _, step, _ in found}) != 1:
        return None
    sizes, durations = [step.size for _, step, _ in found], [duration for *_, duration in found]
    return Sampling(found[0][1].unit, (min(sizes), max(sizes)), (min(durations), max(durations)))


def check_sampling(times: Sequence[Times] | None, known: Sampling | None, ids: Sequence[str] | None) -> None:
    """Raise ValueError if both the step and the duration of a series are unlike those of ``fit``.

    A model resizes series: those of one duration may have any step, and those of one step any duration.
    """
    if known is None:
        return
    unit, steps, durations = known
    for index, step, duration in _steps_and_durations(times):
        if step.unit == unit and _is_outside(step.size, steps) and _is_outside(duration, durations):
            name = index if ids is None else repr(ids[index])
            raise ValueError(
                f"series {name} has a point every {step} over {_text((duration, duration), unit)}, those of fit "
                f"had one every {_text(steps, unit)} over {_text(durations, unit)}; {_ADVICE}"
            )


def _steps_and_durations(times: Sequence[Times] | None) -> Iterator[tuple[int, Step, float]]:
    for index, own in enumerate(times or ()):
        if (step := step_of(own)) is not None:
            yield index, step, step.size * (len(own) - 1)


def _is_outside(value: float, known: Range) -> bool:
    smallest, largest = known
    return not (smallest <= _MAX_RATIO * value and value <= _MAX_RATIO * largest)


def _text(known: Range, unit: str) -> str:
    smallest, largest = (f"{value:g}" for value in known)
    return f"{smallest if smallest == largest else f'{smallest} to {largest}'} {unit}".rstrip()
