"""How pretraining went: loss, spread of the embedding and, where it was measured, accuracy of the probe."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nutime.figures.style import COLOURS, LINES, panels, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What a panel shows, by its name in a run's metrics.
_PANELS = {"loss": "loss", "spread": "spread of the embedding", "probe": "accuracy of the probe"}


def read_metrics(run: str | Path) -> list[dict[str, Any]]:
    """Return what a run's folder tells about its steps.

    Raises:
        ValueError: the folder is no run, or a line cannot be read.
    """
    path = Path(run, "metrics.jsonl")
    if not path.is_file():
        raise ValueError(f"{run}: no folder of a pretraining run; it should hold a metrics.jsonl")
    lines = path.read_text(encoding="utf-8").splitlines()
    try:
        metrics = [json.loads(line) for line in lines]
        if not all("step" in line for line in metrics):
            raise ValueError("a line without a step")
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: no metrics of a run ({error})") from None
    return metrics


@styled
def draw_curves(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """Draw one line a run; ``runs`` are lines of metrics by name."""
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
                [line["step"] for line in known],
                [line[name] for line in known],
                color=COLOURS[index % len(COLOURS)],
                linestyle=LINES[index % len(LINES)],
            )
        panel.set(xlabel="step", title=title)
        panel.grid(True)
        panel.locator_params(axis="x", nbins=5)
    axes[0].set_yscale("log" if "loss" in shown else "linear")
    axes[0].legend(axes[0].get_lines(), list(runs), handlelength=3)
    return figure
