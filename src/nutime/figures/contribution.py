"""Series shaded by what their points contribute to a prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nutime.data.series import Array
from nutime.figures.style import COLOURS, INK, grid, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

#: Panels of one figure.
MAX_PANELS = 30
_MAX_ALPHA = 0.6


class ExplainedSeries(NamedTuple):
    """One channel of a series and the contribution of its points from ``start`` on, both ``(length,)``."""

    title: str
    values: Array
    contribution: NDArray[np.float64]
    start: int = 0


@styled
def draw_contributions(explained: Sequence[ExplainedSeries]) -> Figure:
    """Draw one panel per channel: orange for the prediction, blue against it, the stronger the darker."""
    figure, axes = grid(len(explained), width=3.2, height=1.9)
    largest = max(float(np.abs(each.contribution).max()) for each in explained) or 1.0
    for panel, (title, values, contribution, start) in zip(axes, explained, strict=True):
        lefts = np.flatnonzero(np.diff(contribution, prepend=np.nan))  # equal neighbours share a span
        for left, right in zip(lefts, [*lefts[1:], len(values)], strict=True):
            share = contribution[left] / largest
            colour = COLOURS[1] if share > 0 else COLOURS[0]
            span = start + left - 0.5, start + right - 0.5
            panel.axvspan(*span, color=colour, alpha=_MAX_ALPHA * abs(share), linewidth=0)
        points = np.arange(start, start + len(values))
        panel.plot(points, values, color=INK, linewidth=np.clip(300 / len(values), 0.3, 1.3))
        panel.set(xlim=(start - 0.5, points[-1] + 0.5), yticks=[], xlabel="point")
        panel.set_title(title)
    return figure
