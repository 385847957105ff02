"""What accuracy costs: accuracy of methods against the seconds that a data set takes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean
from typing import TYPE_CHECKING, NamedTuple

from nutime.figures.style import INK, colour_and_marker, panels, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Cost(NamedTuple):
    """Mean over data sets of a method: its accuracy in [0, 1], and the seconds to fit and predict on a device."""

    method: str
    accuracy: float
    seconds: float
    device: str


@styled
def draw_cost(costs: Sequence[Cost]) -> Figure:
    """Draw one point per method, with a marker per device; up and to the left is better."""
    from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter

    figure, (panel,) = panels(1, 1, width=5.2, height=3.4)
    middle = geometric_mean([min(cost.seconds for cost in costs), max(cost.seconds for cost in costs)])
    for index, device in enumerate(dict.fromkeys(cost.device for cost in costs)):
        here = [cost for cost in costs if cost.device == device]
        colour, marker = colour_and_marker(index)
        x, y = [cost.seconds for cost in here], [100 * cost.accuracy for cost in here]
        panel.scatter(x, y, s=26, color=colour, marker=marker, label=device)
        for cost in here:
            place = (cost.seconds, 100 * cost.accuracy)
            side, offset = ("right", (-5, 4)) if cost.seconds > middle else ("left", (7, -3))  # inside the axes
            panel.annotate(cost.method, place, offset, textcoords="offset points", ha=side, fontsize=8, color=INK)
    panel.set(xscale="log", xlabel="seconds per set, fit and predict", ylabel="accuracy, %")
    panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.xaxis.set_major_formatter(ScalarFormatter())
    panel.xaxis.set_minor_locator(NullLocator())
    panel.margins(x=0.25, y=0.12)
    panel.grid(True)
    panel.legend(loc="lower right")
    return figure
