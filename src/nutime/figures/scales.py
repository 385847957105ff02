"""Scales of real series (paper, Figure 1), which differ between data sets and within a series."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nutime.data.series import Array
from nutime.figures.style import COLOURS, INK, line_style, panels, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FRACTION = 0.2  # of a series, shown enlarged
_WINDOW = 16  # points


@styled
def draw_scales(series: Mapping[str, Array], varied: tuple[str, Array]) -> Figure:
    """Draw series of different data sets in one logarithmic panel, and one series with its quietest part.

    Args:
        series: one ``(length,)`` series per data set.
        varied: name and values of a series whose parts vary on different scales.
    """
    figure, (left, right) = panels(1, 2, width=4.4, height=3.0)
    for index, (name, values) in enumerate(series.items()):
        spread = float(np.std(values))
        shifted = values - values.min() + 0.1 * spread  # a logarithm needs positive values
        place = np.linspace(0, 1, len(values))
        left.plot(place, shifted, label=f"{name} (std {spread:.2g})", **line_style(index))
    left.set(yscale="log", xlabel="position in the series", ylabel="value, shifted above zero")
    left.set_title("Scales of three data sets" if len(series) == 3 else "Scales of data sets")
    figure.legend(loc="outside lower left", ncols=len(series), handlelength=3)

    name, values = varied
    part = quietest_part(values)
    height = float(np.ptp(values))
    low, high = float(values.min()) - 0.05 * height, float(values.max()) + height
    right.plot(values, color=COLOURS[0])
    right.axvspan(part.start, part.stop - 1, 0, 1.1 * height / (high - low), color=INK, alpha=0.25, linewidth=0)
    right.set(xlabel="point", ylabel="value", ylim=(low, high))
    right.set_title(f"One series of {name}")
    zoom = right.inset_axes((0.13, 0.62, 0.84, 0.26))
    zoom.plot(np.arange(part.start, part.stop), values[part], color=COLOURS[1])
    zoom.set_title(f"its shaded part, {height / float(np.ptp(values[part])):,.0f}× enlarged", fontsize=8)
    zoom.tick_params(labelsize=7)
    return figure


def quietest_part(values: Array) -> slice:
    """Return the fifth of the series with the smallest non-zero range."""
    width = min(len(values), max(4, round(_FRACTION * len(values))))
    ranges = np.ptp(np.lib.stride_tricks.sliding_window_view(values, width), axis=1)
    start = int(np.where(ranges > 0, ranges, np.inf).argmin())
    return slice(start, start + width)


def typical_series(rows: Array) -> Array:
    """Return the row of ``(n, length)`` with the median standard deviation, without padding."""
    spread = np.nanstd(rows, axis=1)
    row: Array = rows[np.argsort(spread, kind="stable")[len(spread) // 2]]
    finite: Array = row[np.isfinite(row)]
    return finite


def most_varied_series(rows: Array) -> tuple[Array, float]:
    """Return the row whose windows' standard deviations span the largest ratio, and that ratio."""
    count = rows.shape[1] // _WINDOW
    if not count:
        return rows[0], 1.0
    spread: NDArray[np.float64] = rows[:, : count * _WINDOW].reshape(len(rows), count, _WINDOW).std(-1)
    smallest = np.where(spread > 0, spread, np.inf).min(1)
    ratio = np.where(np.isfinite(smallest), spread.max(1) / smallest, 1.0)
    ratio[~np.isfinite(rows).all(1)] = 1.0
    best = int(ratio.argmax())
    return rows[best], float(ratio[best])
