"""Where the encoder looks (paper, Figures 10 and 11): attention of ``[CLS]`` to the windows of a series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nutime.data.series import Array, as_series, resample
from nutime.figures.style import COLOURS, INK, panels, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nutime.encoder import NuTime

_FAINTEST, _STRONGEST = 0.04, 0.6


class AttendedSeries(NamedTuple):
    """A series, ``(length,)``, with the share of attention of each of its windows, and what to call it."""

    title: str
    values: Array
    attention: NDArray[np.float64]


@styled
def draw_attention(rows: Sequence[Sequence[AttendedSeries]]) -> Figure:
    """Draw rows of panels; the more a window is attended to, the deeper its colour and the higher its bar."""
    columns = max(len(row) for row in rows)
    figure, axes = panels(len(rows), columns, width=3.0, height=1.9)
    for index, panel in enumerate(axes):
        row, column = divmod(index, columns)
        if column >= len(rows[row]):
            panel.remove()
            continue
        title, values, attention = rows[row][column]
        edges = np.linspace(0, len(values) - 1, len(attention) + 1)
        strength = attention / attention.max()
        room = max(float(np.ptp(values)), 1e-12)
        floor = float(values.min()) - 0.35 * room
        for left, right, share in zip(edges[:-1], edges[1:], strength, strict=True):
            depth = _FAINTEST + (_STRONGEST - _FAINTEST) * share
            panel.axvspan(left, right, color=COLOURS[0], alpha=depth, linewidth=0)
        panel.bar(edges[:-1], 0.25 * room * strength, np.diff(edges), floor, align="edge", color=COLOURS[1])
        panel.plot(values, color=INK, linewidth=np.clip(300 / len(values), 0.3, 1.3))
        panel.set(ylim=(floor, float(values.max()) + 0.05 * room), xlim=(0, len(values) - 1), yticks=[])
        panel.set_title(title)
    return figure


def cls_attention(encoder: NuTime, X: Any) -> NDArray[np.float64]:
    """Return how ``[CLS]`` spreads its attention in the last layer, ``(n, windows)``, rows summing to 1.

    Heads are averaged, and what ``[CLS]`` gives to itself is left out.

    Raises:
        ValueError: the encoder and the series differ in their number of channels.
    """
    import torch

    series = as_series(X)
    if len(series[0]) != encoder.config.channels:
        raise ValueError(
            f"the encoder reads {encoder.config.channels} channel(s), the series have {len(series[0])}; "
            "attention can be drawn where they agree"
        )
    batch = torch.from_numpy(resample(series, encoder.config.length)).to(encoder.device)
    with torch.inference_mode():
        weights = encoder.attention(batch)[:, :, 0, 1:].mean(1).double().cpu().numpy()
    shares: NDArray[np.float64] = weights / weights.sum(1, keepdims=True)
    return shares
