"""Critical-difference diagram (paper, Figure 4): average ranks, with bars over methods that do not differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nutime.figures.style import COLOURS, INK, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TOP = 0.5  # inches above the axis
_ROW = 0.26  # inches per label
_BAR = 0.13  # inches per bar
_FONT, _TITLE_FONT = 9.0, 10.0  # points


@styled
def draw_critical_difference(
    ranks: Mapping[str, float], cliques: Sequence[Sequence[str]], title: str, ours: str = ""
) -> Figure:
    """Draw the average ranks of methods, the best on the right.

    Args:
        ranks: average rank of each method.
        cliques: groups of methods without a significant difference; each becomes a bar.
        title: for example the protocol and the number of sets.
        ours: the highlighted method.
    """
    from matplotlib.figure import Figure

    order = sorted(ranks, key=lambda method: ranks[method])
    half = (len(order) + 1) // 2
    low, high = math.floor(min(ranks.values())), math.ceil(max(ranks.values()))
    high = max(high, low + 1)
    first_row = -0.12 - _BAR * len(cliques) - 0.12
    bottom = first_row - _ROW * (half - 1) - 0.15
    line = max(3.5, 0.6 * (high - low), _width(title, _TITLE_FONT))
    side = 0.4 + max(_width(f"0.00  {method}", _FONT) for method in order)
    figure = Figure(figsize=(line + 2 * side, _TOP - bottom))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-side, line + side), ylim=(bottom, _TOP))  # data coordinates are inches
    axes.axis("off")

    def position(rank: float) -> float:
        return line * (high - rank) / (high - low)

    axes.plot([0, line], [0, 0], color=INK, linewidth=1)
    for tick in range(low, high + 1):
        axes.plot([position(tick)] * 2, [0, 0.07], color=INK, linewidth=1)
        axes.text(position(tick), 0.1, str(tick), ha="center", va="bottom", fontsize=8)
    for index, clique in enumerate(cliques):
        ends = [position(ranks[method]) for method in clique]
        height = -0.12 - _BAR * index
        span = [min(ends) - 0.05, max(ends) + 0.05]
        axes.plot(span, [height] * 2, color=INK, linewidth=4, solid_capstyle="butt", alpha=0.75)
    for index, method in enumerate(order):
        best_half = index < half
        row = index if best_half else len(order) - 1 - index
        height, x = first_row - _ROW * row, position(ranks[method])
        end, sign = (line + 0.15, 1) if best_half else (-0.15, -1)
        colour = COLOURS[0] if method == ours else INK
        axes.plot([x, x, end], [0, height, height], color=colour, linewidth=1)
        label = f"{ranks[method]:.2f}  {method}" if best_half else f"{method}  {ranks[method]:.2f}"
        weight = "bold" if method == ours else "normal"
        text = axes.text(end + 0.06 * sign, height, label, color=colour, weight=weight, fontsize=_FONT)
        text.set(ha="left" if best_half else "right", va="center")
    axes.text(line / 2, _TOP - 0.02, title, ha="center", va="top", fontsize=_TITLE_FONT)
    return figure


def _width(text: str, points: float) -> float:
    """Return the width of a bold text in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=points, weight="bold")
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]) / 72
