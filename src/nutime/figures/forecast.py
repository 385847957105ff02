"""Forecasts after the last points of their series, with bands between quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nutime.data.series import Array
from nutime.figures.style import COLOURS, INK, grid, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: More channels than these are not readable in one figure.
MAX_PANELS = 24
_SHOWN_PAST = 4  # horizons


@styled
def draw_forecasts(
    titles: Sequence[str],
    pasts: Sequence[Array],
    predicted: NDArray[np.float64],
    levels: Sequence[float],
) -> Figure:
    """Draw one panel per channel: its past, the median if it is among the levels, and a band per pair of levels.

    Args:
        titles: of the panels.
        pasts: ``(length,)`` each.
        predicted: ``(panels, horizon, levels)``.
        levels: of the predictions; the lowest and the highest bound the widest band.
    """
    horizon = predicted.shape[1]
    steps = np.arange(horizon)
    order = np.argsort(levels)
    figure, axes = grid(len(titles), width=3.6, height=2.2)
    for panel, title, past, values in zip(axes, titles, pasts, predicted[..., order], strict=True):
        shown = past[-_SHOWN_PAST * horizon :]
        panel.plot(np.arange(-len(shown), 0), shown, color=INK)
        for outer in range(len(levels) // 2):
            low, high = values[:, outer], values[:, -1 - outer]
            panel.fill_between(steps, low, high, color=COLOURS[0], alpha=0.25, linewidth=0)
        if len(levels) % 2:
            panel.plot(steps, values[:, len(levels) // 2], color=COLOURS[0])
        panel.set(title=title, xlabel="steps from the last point")
        panel.grid(True)
    return figure
