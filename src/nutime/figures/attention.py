"""Attention of ``[CLS]`` to the windows of a series (paper, Figures 10 and 11)."""

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

_MIN_ALPHA, _MAX_ALPHA = 0.04, 0.6


class AttendedSeries(NamedTuple):
    """A series, ``(length,)``, with its title and the share of attention of each of its windows."""

    title: str
    values: Array
    attention: NDArray[np.float64]


@styled
def draw_attention(rows: Sequence[Sequence[AttendedSeries]]) -> Figure:
    """Draw rows of panels; colour and bar of a window show its attention."""
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
        height = max(float(np.ptp(values)), 1e-12)
        bottom = float(values.min()) - 0.35 * height
        for left, right, share in zip(edges[:-1], edges[1:], strength, strict=True):
            alpha = _MIN_ALPHA + (_MAX_ALPHA - _MIN_ALPHA) * share
            panel.axvspan(left, right, color=COLOURS[0], alpha=alpha, linewidth=0)
        panel.bar(edges[:-1], 0.25 * height * strength, np.diff(edges), bottom, align="edge", color=COLOURS[1])
        panel.plot(values, color=INK, linewidth=np.clip(300 / len(values), 0.3, 1.3))
        panel.set(ylim=(bottom, float(values.max()) + 0.05 * height), xlim=(0, len(values) - 1), yticks=[])
        panel.set_title(title)
    return figure


def cls_attention(encoder: NuTime, X: Any) -> NDArray[np.float64]:
    """Return the attention of ``[CLS]`` to the windows in the last layer, ``(n, windows)``, rows summing to 1.

    It is the mean over heads, without the attention of ``[CLS]`` to itself.

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
