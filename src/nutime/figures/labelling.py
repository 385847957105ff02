"""Simulated labelling: accuracy against number of labels, for series chosen by ``suggest`` and at random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from nutime.figures.style import COLOURS, line_style, panels, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Of one data set: the accuracy of all labels (``full``), ``n_classes``, the numbers of ``labels``, and the mean
#: accuracy at each of them by method (``random``, ``suggest``).
Simulation: TypeAlias = Mapping[str, Any]

SHARE = 0.95  # of the accuracy of all labels that is to be reached


def labels_needed(simulation: Simulation, method: str) -> float:
    """Return the labels with which a method first reaches the share; all of them if it never does."""
    labels, curve, target = simulation["labels"], simulation[method], SHARE * simulation["full"]
    reached = np.array(curve) >= target
    if not reached.any():
        return float(labels[-1])
    first = reached.argmax()
    around = slice(max(first - 1, 0), first + 1)
    return float(np.interp(target, curve[around], labels[around]))


@styled
def draw_labelling(simulations: Mapping[str, Simulation]) -> Figure:
    """Draw the mean accuracy against labels per class, and the labels needed on each set.

    Args:
        simulations: one per data set, as written by ``benchmarks/active_labelling.py``.
    """
    figure, (curves, pairs) = panels(1, 2, width=4, height=3.2)
    grid = np.geomspace(1, 30, 60)
    for index, method in enumerate(("suggest", "random")):
        shares = [
            np.interp(grid * one["n_classes"], one["labels"], np.array(one[method]) / one["full"])
            for one in simulations.values()
        ]
        curves.plot(grid, np.mean(shares, axis=0), label=method, **line_style(index))
    curves.axhline(SHARE, linewidth=0.6, color=COLOURS[3])
    curves.set(xscale="log", xlabel="labels per class", title="test accuracy / accuracy of all labels, mean")
    curves.grid(True)
    curves.legend()
    random, chosen = (
        np.array([labels_needed(one, method) for one in simulations.values()]) for method in ("random", "suggest")
    )
    pairs.scatter(random, chosen, s=14, color=COLOURS[0])
    ends = [1.5, 1.2 * max(random.max(), chosen.max())]
    pairs.plot(ends, ends, linewidth=0.6, color=COLOURS[3])
    pairs.set(xscale="log", yscale="log", xlabel="labels by random choice", ylabel="labels by suggest")
    pairs.set_title(f"labels to {SHARE:.0%} of it, one point per set")
    return figure
