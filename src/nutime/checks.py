"""Checks of numeric parameters, all refused with the same one-line error."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any


def check_number(name: str, value: Any, interval: str, *, integer: bool = False) -> None:
    """Raise ValueError unless ``value`` is a number in ``interval``, which is written like ``(0, 0.5]``."""
    low, high = map(float, interval[1:-1].split(","))
    is_number = isinstance(value, Integral if integer else Real) and not isinstance(value, bool)
    if not is_number or not (
        low < value < high or (value == low and interval[0] == "[") or (value == high and interval[-1] == "]")
    ):
        kind = "an integer" if integer else "a number"
        raise ValueError(f"{name} must be {kind} in {interval}, got {value!r}")
