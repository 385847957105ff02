"""Checks of numeric parameters and of loaded arrays, all refused in one line."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray


def check_number(name: str, value: Any, interval: str, *, integer: bool = False) -> None:
    """Raise ValueError unless ``value`` is a number in ``interval``, which is written like ``(0, 0.5]``."""
    low, high = map(float, interval[1:-1].split(","))
    is_number = isinstance(value, Integral if integer else Real) and not isinstance(value, bool)
    if not is_number or not (
        low < value < high or (value == low and interval[0] == "[") or (value == high and interval[-1] == "]")
    ):
        kind = "an integer" if integer else "a number"
        raise ValueError(f"{name} must be {kind} in {interval}, got {value!r}")


def check_arrays(arrays: Mapping[str, NDArray[Any]], shapes: Mapping[str, str], **sizes: int) -> None:
    """Check that loaded arrays are finite and that their shapes agree.

    Args:
        arrays: the arrays.
        shapes: one letter per axis by name of the array; axes with the same letter have the same size.
        sizes: sizes that are known, by letter.

    Raises:
        ValueError: one line that names the array. A ``KeyError`` names a missing one.
    """
    for name, axes in shapes.items():
        shape = arrays[name].shape
        agree = len(shape) == len(axes) and all(
            sizes.setdefault(axis, size) == size for axis, size in zip(axes, shape, strict=True)
        )
        if not agree:
            expected = ", ".join(str(sizes.get(axis, axis)) for axis in axes)
            raise ValueError(f"{name} has the shape {shape}, expected ({expected})")
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name} has values that are not finite")
