"""Figures of the page.

They work in light and dark mode: backgrounds are transparent, data colours are readable on both, and the colours
of axes and text come from the style sheet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from html import escape
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from nutime.data.series import Array
from nutime.data.timeline import Times, in_seconds
from nutime.explore.state import Analysis

PALETTE = (
    *("#4f86c6", "#f28e2b", "#59a14f", "#e15759", "#9c6fb0"),
    *("#2fa4a0", "#c9a227", "#e377a2", "#8c6d5a", "#7f8fa6"),
)
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross")
SERIES_COLOUR, PLAIN_COLOUR = "#3f7fc4", "#7f8fa6"
WARM, COLD = "245, 158, 11", "56, 132, 255"  # for and against; attention is never negative
ANOMALY_SCALE = ((0, "#8fa9c9"), (0.6, "#8fa9c9"), (0.85, "#f2a541"), (1, "#d7263d"))

#: Maps of more points are drawn with WebGL; smaller ones as SVG, which needs no GPU.
GL_POINTS = 3000
#: Classes with their own colour and symbol; the smallest classes beyond share one.
CLASSES = len(PALETTE) * len(SYMBOLS)
#: Points per line; longer series are drawn through the extremes of equal segments.
LINE_POINTS, SPARK_POINTS = 2000, 240
LABEL_CHARACTERS = 18
SPARK_SIZE = (160, 44)

_FONT = {"family": "system-ui, sans-serif", "size": 12}
_CLEAR = "rgba(0,0,0,0)"
_COLOUR_BAR = {"thickness": 10, "outlinewidth": 0}


class Group(NamedTuple):
    """Series with one colour and symbol."""

    name: str
    members: NDArray[np.intp]


def empty_figure(text: str = "") -> go.Figure:
    """Return a figure with a text only."""
    note = {"text": text, "showarrow": False, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
    return plain_figure(xaxis={"visible": False}, yaxis={"visible": False}, annotations=[note])


def map_figure(
    analysis: Analysis, kind: str, colour: str, drag: str = "pan", selected: Sequence[int] = ()
) -> go.Figure:
    """Draw the map.

    Args:
        analysis: the series.
        kind: one of its maps.
        colour: ``label``, ``cluster`` or ``anomaly``; the map has one colour until these are computed.
        drag: what dragging does, see :func:`drag_layout`.
        selected: the series to emphasise; all if there are none.
    """
    # Changing the colour keeps the zoom, but not the places of the selected series within their groups.
    figure, draw = _map(len(analysis), f"{analysis.key} {kind}", colour)
    figure.update_layout(selectionrevision=f"{analysis.key} {kind} {colour}", **drag_layout(drag))
    names = [analysis.collection.name_of(index) for index in range(len(analysis))]
    if colour == "anomaly" and analysis.scores is not None:
        _draw_scores(draw, analysis.maps[kind], analysis.scores, names)
    else:
        groups = list(_groups(analysis, colour))
        _draw_groups(draw, analysis.maps[kind], groups, names, coloured=len(groups) > 1)
    if len(selected):
        for trace in figure.data:
            trace.selectedpoints = np.flatnonzero(np.isin(trace.customdata, selected))
    return figure


def drag_layout(drag: str) -> dict[str, str]:
    """Return the layout in which dragging moves the map (``pan``), or dragging and clicks select (``lasso``)."""
    return {"dragmode": drag, "clickmode": "event" if drag == "pan" else "event+select"}


def label_figure(
    places: NDArray[Any], classes: Sequence[str], labels: NDArray[np.str_], names: Sequence[str]
) -> go.Figure:
    """Draw the map coloured by class; series without a label ("") are drawn in grey below the others."""
    figure, draw = _map(len(places), "labels", "")
    _draw_groups(draw, places, [Group("no label", np.flatnonzero(labels == ""))], names, coloured=False)
    groups = [Group(name, np.flatnonzero(labels == name)) for name in classes]
    _draw_groups(draw, places, groups, names, coloured=True)
    return figure


def history_figure(counts: Sequence[int], estimates: NDArray[np.float64]) -> go.Figure:
    """Draw estimated accuracies and their intervals, ``(n, 3)``, against the number of labels."""
    figure = plain_figure(
        margin={"l": 48, "r": 8, "t": 8, "b": 36},
        showlegend=False,
        xaxis={"title": _title("labels", standoff=6), "zeroline": False},
        yaxis={"range": [0, 1], "tickformat": ".0%", "zeroline": False},
    )
    accuracy, low, high = estimates.T
    hidden = {"mode": "lines", "line_width": 0, "hoverinfo": "skip"}
    figure.add_scatter(x=counts, y=low, **hidden)
    figure.add_scatter(x=counts, y=high, fill="tonexty", fillcolor="rgba(79, 134, 198, 0.2)", **hidden)
    figure.add_scatter(x=counts, y=accuracy, mode="lines+markers", line_color=SERIES_COLOUR)
    return figure


def series_figure(
    values: Array,
    attention: NDArray[Any] | None = None,
    contribution: NDArray[Any] | None = None,
    times: Times | None = None,
) -> go.Figure:
    """Draw one channel of a series, its windows shaded by attention or its points by their contribution.

    The axis has ``times``, or the numbers of the points without them.
    """
    low, high = padded_range(values)
    has_times = times is not None and len(times) > 1
    axis = in_seconds(times) if times is not None and has_times else np.arange(len(values))
    edges: Callable[[Any], Any] = partial(_between, axis) if has_times else np.asarray
    figure = plain_figure(
        margin={"l": 56, "r": 8, "t": 8, "b": 36},
        hovermode="x",
        showlegend=False,
        xaxis={
            "title": _title("time" if has_times else "point", standoff=6),
            "zeroline": False,
            "range": edges([-0.5, len(values) - 0.5]),
        },
        yaxis={"zeroline": False, "range": [low, high], "exponentformat": "power", "automargin": True},
    )
    bar = {**_COLOUR_BAR, "nticks": 5}
    if attention is not None:
        figure.add_heatmap(
            z=[100 * attention],
            x=edges(np.linspace(0, len(values), len(attention) + 1) - 0.5),
            y=[low, high],
            zmin=0,
            colorscale=[(0, f"rgba({WARM}, 0)"), (1, f"rgba({WARM}, 0.6)")],
            colorbar={**bar, "title": _title("attention", side="right"), "ticksuffix": " %"},
            hovertemplate="attention %{z:.1f} %<extra></extra>",
        )
    if contribution is not None:
        starts = np.flatnonzero(np.diff(contribution, prepend=np.nan))  # equal neighbours share a cell
        largest = float(np.abs(contribution).max()) or 1.0
        figure.add_heatmap(
            z=[contribution[starts]],
            x=edges(np.append(starts, len(values)) - 0.5),
            y=[low, high],
            zmin=-largest,
            zmax=largest,
            colorscale=[
                *((0, f"rgba({COLD}, 0.6)"), (0.5, f"rgba({COLD}, 0)")),
                *((0.5, f"rgba({WARM}, 0)"), (1, f"rgba({WARM}, 0.6)")),
            ],
            colorbar={**bar, "title": _title("contribution", side="right")},
            hovertemplate="contribution %{z:.2f}<extra></extra>",
        )
    points = line_points(values, LINE_POINTS)
    figure.add_scatter(
        x=axis[points],
        y=values[points],
        mode="lines" if len(values) > 1 else "markers",
        line={"color": SERIES_COLOUR, "width": 1.8},
        hovertemplate="%{y:.6g}<extra></extra>",
    )
    return figure


def sparkline(values: Array, behind: Array) -> str:
    """Return the URL of an image of a series over another one, on one scale, each over the full width."""
    low = float(min(values.min(), behind.min()))
    high = float(max(values.max(), behind.max()))
    width, height = SPARK_SIZE
    lines = (
        f'<polyline points="{_corners(behind, low, high)}" stroke="#8b95a5" stroke-opacity=".55"/>'
        f'<polyline points="{_corners(values, low, high)}" stroke="{SERIES_COLOUR}" stroke-width="1.5"/>'
    )
    image = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" preserveAspectRatio="none" '
        'fill="none" stroke-linejoin="round"><style>*{vector-effect:non-scaling-stroke}</style>'
        f"{lines}</svg>"
    )
    return f"data:image/svg+xml,{quote(image)}"


def line_points(values: Array, max_points: int) -> NDArray[np.intp]:
    """Return the indices a line is drawn through: all, or the extremes of ``max_points / 2`` segments."""
    length = len(values)
    if length <= max_points:
        return np.arange(length)
    segment = -(-length // (max_points // 2))
    rows = np.pad(values, (0, -length % segment), mode="edge").reshape(-1, segment)
    starts = segment * np.arange(len(rows))
    extremes = np.concatenate([starts + rows.argmin(axis=1), starts + rows.argmax(axis=1), [0, length - 1]])
    return np.unique(np.minimum(extremes, length - 1))


def plain_figure(**layout: Any) -> go.Figure:
    """Return an empty figure in the style of the page."""
    return go.Figure(
        layout={
            "template": "none",
            "font": _FONT,
            "paper_bgcolor": _CLEAR,
            "plot_bgcolor": _CLEAR,
            "margin": {"l": 0, "r": 0, "t": 0, "b": 0},
            "hoverlabel": {"font": _FONT},
            **layout,
        }
    )


def _map(n_points: int, revision: str, title: str) -> tuple[go.Figure, Callable[..., Any]]:
    """Return an empty map and a function that draws points; maps of equal ``revision`` keep the zoom."""
    figure = plain_figure(
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        dragmode="pan",
        hovermode="closest",
        uirevision=revision,
        xaxis={"visible": False},
        yaxis={"visible": False, "scaleanchor": "x"},
        legend={"itemsizing": "constant", "bgcolor": _CLEAR, "title": _title(title), "y": 1},
    )
    large = n_points > GL_POINTS
    add = figure.add_scattergl if large else figure.add_scatter
    return figure, partial(add, mode="markers", marker_size=4 if large else 7)


def _draw_scores(
    draw: Callable[..., Any], places: NDArray[Any], scores: NDArray[np.float64], names: Sequence[str]
) -> None:
    order = np.argsort(scores, kind="stable")  # the most anomalous are drawn last, on top
    draw(
        **_points(places, order, names),
        hovertemplate="%{text}<br>anomaly score %{marker.color:.2f}<extra></extra>",
        marker_color=scores[order],
        marker_colorscale=ANOMALY_SCALE,
        marker_cmin=0,
        marker_cmax=1,
        marker_colorbar={**_COLOUR_BAR, "title": _title("anomaly score", side="right"), "len": 0.6},
    )


def _draw_groups(
    draw: Callable[..., Any],
    places: NDArray[Any],
    groups: Sequence[Group],
    names: Sequence[str],
    *,
    coloured: bool,
) -> None:
    for index, group in enumerate(groups):
        draw(
            **_points(places, group.members, names),
            name=escape(short_name(group.name)),
            hovertemplate="%{text}<br>%{fullData.name}<extra></extra>",
            marker_color=PALETTE[index % len(PALETTE)] if coloured else PLAIN_COLOUR,
            marker_symbol=SYMBOLS[index // len(PALETTE) % len(SYMBOLS)],
            marker_opacity=0.85,
            showlegend=coloured,
        )


def _points(places: NDArray[Any], members: NDArray[np.intp], names: Sequence[str]) -> dict[str, Any]:
    text = [escape(short_name(names[member])) for member in members]
    # Plotly returns customdata in click events only from a list, not from a typed array.
    return {"x": places[members, 0], "y": places[members, 1], "customdata": members.tolist(), "text": text}


def _between(times: Times, places: Any) -> Times:
    """Return the times of places between points; outside of all points, those of the first and the last."""
    origin = times[0]
    elapsed = (times - origin).astype(np.float64)
    found = np.interp(places, np.arange(len(times)), elapsed)
    return np.asarray(origin + found.astype((times - origin).dtype))


def _title(text: str, **place: Any) -> dict[str, Any]:
    return {"text": text, "font": _FONT, **place}


def _groups(analysis: Analysis, colour: str) -> Iterator[Group]:
    """Yield the groups of a colouring; all series as one group if it is not available."""
    if colour == "label" and analysis.collection.labels is not None:
        names, targets = np.unique(analysis.collection.labels, return_inverse=True)
    elif colour == "cluster" and analysis.clusters is not None:
        numbers, targets = np.unique(analysis.clusters, return_inverse=True)
        names = np.array([f"cluster {number + 1}" for number in numbers])
    else:
        yield Group("series", np.arange(len(analysis)))
        return
    own = np.arange(len(names))
    if len(names) > CLASSES:
        own = np.sort(np.argsort(-np.bincount(targets), kind="stable")[: CLASSES - 1])
    for target in own:
        yield Group(str(names[target]) or "no label", np.flatnonzero(targets == target))
    if len(own) < len(names):
        yield Group(f"{len(names) - len(own)} other classes", np.flatnonzero(~np.isin(targets, own)))


def short_name(name: str) -> str:
    """Return a name without its middle if it is long."""
    half = LABEL_CHARACTERS // 2  # names often differ only in their last characters
    return name if len(name) <= LABEL_CHARACTERS else f"{name[:half]}…{name[1 - half :]}"


def padded_range(values: Array) -> tuple[float, float]:
    """Return a range slightly wider than the values, of positive width also for constant values."""
    low, high = float(values.min()), float(values.max())
    margin = 0.06 * (high / 2 - low / 2) * 2 or max(abs(high) * 0.1, 1e-300)
    return low - margin, high + margin


def _corners(values: Array, low: float, high: float) -> str:
    """Return the points of an SVG polyline in the box of a sparkline."""
    width, height = SPARK_SIZE
    if len(values) == 1:
        values = np.repeat(values, 2)  # a single point is drawn as a horizontal line
    points = line_points(values, SPARK_POINTS)
    span = high / 2 - low / 2  # halves, because the difference of two huge values overflows
    share = (values[points].astype(np.float64) / 2 - low / 2) / span if span else np.full(len(points), 0.5)
    x = (points + 0.5) * (width / len(values))
    y = 2 + (height - 4) * (1 - share)
    return " ".join(f"{left:.1f},{top:.1f}" for left, top in zip(x, y, strict=True))
