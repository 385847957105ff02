"""Curves of pretraining runs: loss, spread of the embedding and, where it was measured, accuracy of the probe."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nutime.atomic import read_lines
from nutime.figures.style import line_style, panels, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Titles of the panels by the name of the metric.
_PANELS = {
    "loss": "loss",
    "spread": "spread of the embedding",
    "probe": "accuracy of the probe",
    "validation_score": "accuracy on the validation series",
}


def read_metrics(run: str | Path) -> list[dict[str, Any]]:
    """Return the metrics of a run's steps; of steps that were repeated after a crash, those of the last time.

    Raises:
        ValueError: the folder is not a run, or a line cannot be read.
    """
    path = Path(run, "metrics.jsonl")
    if not path.is_file():
        raise ValueError(f"{run}: not the folder of a pretraining run; expected a metrics.jsonl")
    try:
        metrics = [json.loads(line) for line in read_lines(path)]
        if not all("step" in line for line in metrics):
            raise ValueError("a line without a step")
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: not the metrics of a run ({error})") from None
    return list({line["step"]: line for line in metrics}.values())


@styled
def draw_curves(runs: Mapping[str, Sequence[Mapping[str, Any]]], x: str = "step") -> Figure:
    """Draw one panel per metric and one line per run, against the metric ``x``."""
    shown = {
        name: title
        for name, title in _PANELS.items()
        if any(line.get(name) is not None for run in runs.values() for line in run)
    }
    figure, axes = panels(1, max(1, len(shown)), width=3.6, height=2.7)
    for panel, (name, title) in zip(axes, shown.items(), strict=False):
        for index, run in enumerate(runs.values()):
            known = [line for line in run if line.get(name) is not None]
            panel.plot(
                [line[x] for line in known],
                [line[name] for line in known],
                **line_style(index),
            )
        panel.set(xlabel=x, title=title)
        panel.grid(True)
        panel.locator_params(axis="x", nbins=5)
    axes[0].set_yscale("log" if "loss" in shown else "linear")
    axes[0].legend(axes[0].get_lines(), list(runs), handlelength=3)
    return figure
