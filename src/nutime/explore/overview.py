"""The figure of a recording: channels, segments and anomaly scores along one axis, a stretch and its matches."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from nutime.data.series import Array
from nutime.explore.drawing import (
    COLD,
    LINE_POINTS,
    PALETTE,
    PLAIN_COLOUR,
    SERIES_COLOUR,
    WARM,
    line_points,
    padded_range,
    plain_figure,
    short_name,
)
from nutime.explore.recording import RecordingAnalysis
from nutime.recordings.search import Match

ANOMALY_COLOUR = "#d7263d"
_SCORES, _SEGMENTS = 0.7, 0.15  # heights of rows, of that of a channel
_GAP = 0.06  # above every row, for its name, of the height of the figure
_OUTSIDE_POINTS = 200  # drawn on each side of the view, visible only until the next figure arrives


class View(NamedTuple):
    """The points shown; views of one ``revision`` keep the zoom of the browser."""

    first: int
    last: int
    revision: int = 0


def overview_figure(
    analysis: RecordingAnalysis,
    channels: Sequence[int],
    view: View,
    drag: str,
    stretch: tuple[int, int] | None = None,
    matches: Sequence[Match] = (),
) -> go.Figure:
    """Draw the points of a view; where there are many, through the extremes of equal parts.

    Args:
        analysis: the recording; scores and segments are drawn when they are computed.
        channels: the channels to draw, each in a row of its own.
        view: the points to draw.
        drag: what dragging does: ``select``, ``zoom`` or ``pan``.
        stretch: the selected points.
        matches: the stretches to mark.
    """
    marks = [_mark(analysis, *stretch, WARM)] if stretch else []
    marks += [_mark(analysis, match.start, match.end, COLD) for match in matches if match[1:3] != stretch]
    places = [place(analysis, view.first), place(analysis, view.last - 1)]
    figure = plain_figure(
        margin={"l": 52, "r": 8, "t": 4, "b": 44},
        dragmode=drag,
        selectdirection="h",
        selectionrevision=str(stretch),
        hovermode="x",
        hoversubplots="axis",
        showlegend=False,
        uirevision=view.revision,
        xaxis={"range": places, "zeroline": False, "anchor": "free", "position": 0},
        shapes=marks,
    )
    rows = {"": _SCORES, "2": _SEGMENTS, **{str(3 + index): 1.0 for index in reversed(range(len(channels)))}}
    bottom = 0.0
    for row, height in rows.items():
        top = bottom + _GAP + height / sum(rows.values()) * (1 - _GAP * len(rows))
        axis = {"domain": [bottom, min(top, 1) - _GAP], "fixedrange": True, "zeroline": False, "nticks": 4}
        figure.update_layout({f"yaxis{row}": {**axis, "exponentformat": "power"}})
        bottom = top
    _add_scores(figure, analysis, "", view)
    _add_segments(figure, analysis, "2")
    for index, channel in enumerate(channels):
        row, values = str(3 + index), analysis.values[channel]
        points = _shown_points(values, view)
        name = escape(short_name(analysis.channel_names[channel]))
        _add_line(figure, analysis, row, points, values[points], name, SERIES_COLOUR)
        _add_name(figure, row, name)
        figure.update_layout({f"yaxis{row}.range": padded_range(values[view.first : view.last])})
    return figure


def place(analysis: RecordingAnalysis, point: int) -> Any:
    """Return where on the axis a point is, in the form that Plotly reads."""
    value = analysis.axis[min(point, len(analysis) - 1)]
    return str(value) if analysis.has_dates else float(value)


def _shown_points(values: Array, view: View) -> NDArray[np.intp]:
    first, last, _ = view
    inside = first + line_points(values[first:last], LINE_POINTS)
    before = line_points(values[:first], _OUTSIDE_POINTS)
    return np.concatenate([before, inside, last + line_points(values[last:], _OUTSIDE_POINTS)])


def _add_line(
    figure: go.Figure,
    analysis: RecordingAnalysis,
    row: str,
    points: NDArray[np.intp],
    values: Array,
    name: str,
    colour: str,
) -> None:
    figure.add_scatter(
        x=analysis.axis[points],
        y=values,
        yaxis=f"y{row}",
        mode="lines",
        line={"color": colour, "width": 1.4},
        name=name,
        hovertemplate="%{fullData.name} %{y:.6g}<extra></extra>",
    )


def _add_name(figure: go.Figure, row: str, name: str) -> None:
    figure.add_annotation(
        text=name, x=0, y=1, xref="paper", yref=f"y{row} domain", xanchor="left", yanchor="bottom", showarrow=False
    )


def _add_segments(figure: go.Figure, analysis: RecordingAnalysis, row: str) -> None:
    figure.update_layout({f"yaxis{row}.visible": False})
    if analysis.segments is None:
        return
    states = [segment.state for segment in analysis.segments]
    colours = [PALETTE[state % len(PALETTE)] for state in range(max(states) + 1)]
    edges = np.arange(len(colours) + 1) / len(colours)
    figure.add_heatmap(
        z=[states],
        x=[place(analysis, point) for point in [*(segment.start for segment in analysis.segments), len(analysis)]],
        y=[0, 1],
        yaxis=f"y{row}",
        zmin=-0.5,
        zmax=len(colours) - 0.5,
        colorscale=[
            (edge, colour) for index, colour in enumerate(colours) for edge in edges[index : index + 2].tolist()
        ],
        showscale=False,
        hovertemplate="state %{z}<extra></extra>",
    )


def _add_scores(figure: go.Figure, analysis: RecordingAnalysis, row: str, view: View) -> None:
    name = "anomaly score"
    if analysis.scores is None:
        _add_name(figure, row, f"{name} …")
        return
    points = _shown_points(analysis.scores, view)
    scores, threshold = analysis.scores[points], analysis.threshold
    _add_line(figure, analysis, row, points, scores, name, PLAIN_COLOUR)
    figure.add_scatter(
        x=analysis.axis[points],
        y=np.where(scores > threshold, scores, np.nan),
        yaxis=f"y{row}",
        mode="lines+markers",
        line={"color": ANOMALY_COLOUR, "width": 1.6},
        marker_size=2,  # a peak of one drawn point has no line
        hoverinfo="skip",
    )
    figure.add_hline(threshold, yref=f"y{row}", line={"color": ANOMALY_COLOUR, "width": 1, "dash": "dot"})
    _add_name(figure, row, name)


def _mark(analysis: RecordingAnalysis, start: int, end: int, colour: str) -> dict[str, Any]:
    return {
        "type": "rect",
        **{"x0": place(analysis, start), "x1": place(analysis, end), "yref": "paper", "y0": 0, "y1": 1},
        **{"layer": "below", "fillcolor": f"rgba({colour}, 0.25)"},
        "line": {"color": f"rgb({colour})", "width": 1},  # seen also where the stretch is less than a pixel
    }
