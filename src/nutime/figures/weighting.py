"""The ablation of the weighting of scales (paper, Figure 8): accuracy by number of scales, with and without it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nutime.figures.style import MARKERS, line_style, panels, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def draw_weighting(accuracies: Mapping[str, Mapping[str, Mapping[int, float]]]) -> Figure:
    """Draw one panel per start of training and one line per kind of average over the scales.

    Args:
        accuracies: start (``fine-tuned``) to kind of average (``weighted``) to number of scales to accuracy in
            [0, 1].
    """
    figure, axes = panels(1, len(accuracies), width=3.8, height=2.8)
    for panel, (start, lines) in zip(axes, accuracies.items(), strict=True):
        counts = sorted({count for line in lines.values() for count in line})
        for index, (name, line) in enumerate(lines.items()):
            known = sorted(line)
            panel.plot(
                [counts.index(count) for count in known],
                [100 * line[count] for count in known],
                marker=MARKERS[index],
                label=name,
                **line_style(index),
            )
        panel.set_xticks(range(len(counts)), [str(count) for count in counts])
        panel.set(xlabel="number of scales", title=start)
        panel.grid(True, axis="y")
    axes[0].set_ylabel("mean accuracy, %")
    axes[0].legend(handlelength=3)
    return figure
