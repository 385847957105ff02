"""Training history of fine-tuned classifiers: loss per epoch and, where it was measured, validation accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nutime.figures.curves import draw_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def read_history(folder: str | Path) -> dict[str, Sequence[float]]:
    """Return ``history_`` of a saved classifier: ``loss`` and perhaps ``validation_score``, one value per epoch.

    Raises:
        ValueError: the folder has no saved estimator, or one that was not fine-tuned.
    """
    from nutime.estimators.storage import load

    history: dict[str, Any] | None = getattr(load(folder), "history_", None)
    if not history:
        raise ValueError(f"{folder}: has no training history; fit with the strategy finetune")
    return history


def draw_history(histories: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """Draw one panel per metric and one line per model."""
    runs = {
        name: [
            {"epoch": epoch, **dict(zip(history, values, strict=True))}
            for epoch, values in enumerate(zip(*history.values(), strict=True), start=1)
        ]
        for name, history in histories.items()
    }
    return draw_curves(runs, x="epoch")
