"""Scores of two methods on each data set (paper, Figures 5, 6 and 9), with a band of ±5 points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from nutime.figures.style import COLOURS, INK, grid, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BAND = 0.05
_TIE = 1e-9
_OUTCOMES = ((COLOURS[0], "o"), (INK, "s"), (COLOURS[1], "v"))  # wins, ties, losses


@styled
def draw_scatter(name: str, ours: Mapping[str, float], rivals: Mapping[str, Mapping[str, float]]) -> Figure:
    """Draw one panel per rival and one point per data set; above the diagonal ``ours`` is better.

    Args:
        name: of our method.
        ours: its score by data set, in [0, 1].
        rivals: name to scores by data set; only common sets are drawn, and counted in the title.
    """
    figure, axes = grid(len(rivals), width=3.1, height=3.3)
    for panel, (rival, theirs) in zip(axes, rivals.items(), strict=True):
        sets = [key for key in ours if key in theirs]
        x, y = (np.array([column[key] for key in sets]) for column in (theirs, ours))
        outcome = np.where(np.abs(y - x) < _TIE, 1, np.where(y > x, 0, 2))
        low = min(0.95, float(min(x.min(), y.min())) - 0.03)
        limits = np.array([low, 1.02])
        panel.plot(limits, limits, color=INK, linewidth=1)
        for shift in (-BAND, BAND):
            panel.plot(limits, limits + shift, color=INK, linewidth=1, linestyle=":")
        for index, (colour, marker) in enumerate(_OUTCOMES):
            here = outcome == index
            panel.scatter(x[here], y[here], s=18, color=colour, marker=marker, alpha=0.8, linewidth=0)
        panel.set(xlim=limits, ylim=limits, xlabel=rival, ylabel=name, aspect="equal")
        ticks = np.arange(10, 10 * low, -2 if low < 0.5 else -1) / 10
        panel.set(xticks=ticks, yticks=ticks)
        counts = "/".join(map(str, np.bincount(outcome, minlength=3)))
        panel.set_title(f"win/tie/loss {counts} on {len(sets)} sets")
    return figure
