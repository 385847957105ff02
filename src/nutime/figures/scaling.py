"""How seconds grow with the number, the length and the channels of series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from nutime.figures.style import MARKERS, line_style, panels, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = {
    "series": "training series (and as many test series)",
    "length": "points per series",
    "channels": "channels per series",
}


class Measured(NamedTuple):
    """Seconds of fit and predict of a method at a value of the quantity ``varied``, a key of :data:`LABELS`."""

    method: str
    varied: str
    value: int
    seconds: float


@styled
def draw_scaling(measured: Sequence[Measured]) -> Figure:
    """Draw one panel per quantity that was varied, one line per method."""
    varied = dict.fromkeys(one.varied for one in measured)
    figure, axes = panels(1, len(varied), width=3.4, height=3.0)
    for panel, quantity in zip(axes, varied, strict=True):
        for index, method in enumerate(dict.fromkeys(one.method for one in measured)):
            here = [one for one in measured if (one.method, one.varied) == (method, quantity)]
            panel.plot(
                [one.value for one in here],
                [one.seconds for one in here],
                marker=MARKERS[index % len(MARKERS)],
                markersize=4,
                label=method,
                **line_style(index),
            )
        panel.set(xscale="log", yscale="log", xlabel=LABELS[quantity], ylabel="fit and predict, s")
        panel.grid(True)
    axes[0].legend(handlelength=3)
    return figure
