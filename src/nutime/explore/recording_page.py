"""The page of one recording: its elements and callbacks.

The browser stores the view and the query, so that every visitor has their own; scores, segments and the
matches of a stretch are computed once for all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dash import ALL, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.exceptions import PreventUpdate

from nutime.batch.results import Results, csv_text
from nutime.data.timeline import time_texts
from nutime.explore.layout import choice, graph, section
from nutime.explore.overview import View, overview_figure
from nutime.explore.page import new_app
from nutime.explore.recording import RecordingAnalysis
from nutime.recordings.search import Match
from nutime.recordings.tables import table_rows

#: Channels drawn at first; more fit only on a large screen.
CHANNELS = 4
#: Rows of a table on the page; the file has all.
ROWS = 50
_CONTEXT = 4  # lengths of an interval that are shown on each side of it
_POLL_MS = 400
_HELP = (
    "Drag to select a stretch; a click selects the anomaly there, or else a window around the point. Matches are "
    "marked in blue. Scroll to zoom. The strip shows the segments, one colour per state."
)


def build_recording_app(analysis: RecordingAnalysis) -> Dash:
    """Return the page of a recording."""
    app = new_app("nutime explore")
    app.layout = lambda: _layout(analysis)
    _follow(app, analysis)
    _navigate(app, analysis)
    _search(app, analysis)
    _show(app, analysis)
    return app


def _layout(analysis: RecordingAnalysis) -> html.Div:
    names = [{"label": name, "value": index} for index, name in enumerate(analysis.channel_names)]
    shown = list(range(len(names)))[:CHANNELS]
    channels = dcc.Dropdown(names, shown, id="channels-shown", multi=True, clearable=False)
    sections = [
        section(
            "map",
            [
                html.H2("Recording"),
                html.Button("Whole recording", id="whole", type="button"),
                html.Span("dragging", className="hint"),
                choice("drag", select="selects", zoom="zooms", pan="moves"),
                html.Div(channels, className="wide", hidden=len(names) == 1),
            ],
            graph("overview", "The recording, its segments and its anomaly scores", zoom=True),
            html.P(_HELP, className="hint"),
        ),
        section(
            "series",
            [
                html.H2("Intervals"),
                choice("table", anomalies="anomalies", segments="segments"),
                html.Button("Export CSV", id="export-intervals", type="button"),
            ],
            html.P(id="interval-note", className="hint"),
            html.Div(id="intervals", className="table"),
        ),
        section(
            "near",
            [
                html.H2(html.Label("Matches of", htmlFor="query")),
                dcc.Input(id="query", type="text", placeholder="start:end, in points", debounce=True),
                html.Span("compare", className="hint"),
                choice("scale", keep="shape and scale", ignore="shape alone"),
                html.Button("Export CSV", id="export-matches", type="button", disabled=True),
            ],
            html.P(id="match-note", className="hint"),
            html.Div(id="matches", className="table"),
        ),
    ]
    return html.Div(
        [
            html.Header([html.H1("nutime explore"), html.P(_summary(analysis), id="summary")]),
            html.P(id="message", role="alert"),
            html.P(id="trouble", role="alert"),
            html.Div([html.Span(id="stage"), html.Progress()], id="progress", role="status"),
            html.Main(sections),
            dcc.Store(id="ready"),
            dcc.Store(id="view", data=View(0, len(analysis))),
            dcc.Store(id="found"),
            dcc.Download(id="download"),
            dcc.Interval(id="clock", interval=_POLL_MS),
        ],
        id="page",
        className="open recording",
    )


def _summary(analysis: RecordingAnalysis) -> list[Any]:
    facts = [f"{len(analysis):,} points"]
    if len(analysis.channel_names) > 1:
        facts.append(f"{len(analysis.channel_names):,} channels")
    if analysis.has_times:
        facts.append(" to ".join(time_texts(analysis.axis[[0, -1]])))
    if analysis.n_missing:
        facts.append(f"{analysis.n_missing:,} missing values interpolated")
    return [html.B(analysis.name), f" {' · '.join(facts)}"]


def _follow(app: Dash, analysis: RecordingAnalysis) -> None:
    @app.callback(
        Output("stage", "children"),
        Output("progress", "hidden"),
        Output("trouble", "children"),
        Output("ready", "data"),
        Output("clock", "disabled"),
        Input("clock", "n_intervals"),
        State("ready", "data"),
    )
    def follow(_: int, known: list[str] | None) -> tuple[Any, ...]:
        """Show the progress; stop polling when all is finished."""
        stage, ready = analysis.stage, analysis.ready  # in this order: without a stage, all parts are finished
        news = no_update if ready == known else ready
        return f"{stage.capitalize()} …", not stage, analysis.error, news, not stage


def _navigate(app: Dash, analysis: RecordingAnalysis) -> None:
    # One callback for each thing that changes the view or the query: Dash drops the answer of a callback that is
    # called again meanwhile, and the figure reports a change whenever it is redrawn or resized.
    shown, view = Output("view", "data", allow_duplicate=True), State("view", "data")

    @app.callback(shown, Input("overview", "relayoutData"), view, prevent_initial_call=True)
    def move(moved: dict[str, Any] | None, view: Sequence[int]) -> View:
        """Show what was zoomed or moved to, with as many points as fit."""
        moved = moved or {}
        edges = moved.get("xaxis.range") or [moved.get(f"xaxis.range[{index}]") for index in (0, 1)]
        if None in edges:
            raise PreventUpdate
        first, last = map(analysis.point, edges)
        return View(first, max(last, first + 1) + 1, view[2])

    @app.callback(shown, Input("whole", "n_clicks"), view, prevent_initial_call=True)
    def show_all(_: int, view: Sequence[int]) -> View:
        return View(0, len(analysis), view[2] + 1)

    @app.callback(shown, Input({"interval": ALL, "table": ALL}, "n_clicks"), view, prevent_initial_call=True)
    def show_row(_: list[int | None], view: Sequence[int]) -> View:
        """Show a row of a table with some of what is around it."""
        start, end = _stretch_of_row()
        margin = _CONTEXT * (end - start)
        return View(max(0, start - margin), min(end + margin, len(analysis)), view[2] + 1)


def _search(app: Dash, analysis: RecordingAnalysis) -> None:
    query = Output("query", "value", allow_duplicate=True)

    @app.callback(query, Input({"interval": ALL, "table": "intervals"}, "n_clicks"), prevent_initial_call=True)
    def select_row(_: list[int | None]) -> str:
        return _query_of(_stretch_of_row())

    @app.callback(
        query, Output("overview", "clickData"), Input("overview", "clickData"), prevent_initial_call=True
    )
    def select_point(click: Any) -> tuple[str, None]:
        """Select the anomaly at a point, or else a window around it. The click is reset, to be repeatable."""
        if not click:
            raise PreventUpdate
        return _query_of(analysis.stretch_at(analysis.point(click["points"][0]["x"]))), None

    @app.callback(
        query, Output("overview", "selectedData"), Input("overview", "selectedData"), prevent_initial_call=True
    )
    def select_range(selected: Any) -> tuple[str, None]:
        if not selected or "x" not in selected.get("range", {}):
            raise PreventUpdate
        first, last = sorted(map(analysis.point, selected["range"]["x"]))
        return _query_of((first, last + 1)), None

    @app.callback(
        Output("found", "data"),
        Output("message", "children"),
        Input("query", "value"),
        Input("scale", "value"),
        prevent_initial_call=True,
    )
    def search(query: str | None, scale: str) -> tuple[Any, ...]:
        """Find the matches of the selected stretch; the last ones stay after an error."""
        if not query:
            raise PreventUpdate
        match = re.fullmatch(r"\s*(\d{1,15})\s*:\s*(\d{1,15})\s*", query)
        start, end = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 0 <= start < end <= len(analysis):
            return no_update, f"A stretch is written as start:end, within 0:{len(analysis)}."
        try:
            analysis.matches(start, end, scale)
        except ValueError as error:
            return no_update, str(error)
        return [start, end, scale], ""


def _query_of(stretch: tuple[int, int]) -> str:
    return f"{stretch[0]}:{stretch[1]}"


def _stretch_of_row() -> tuple[int, int]:
    """Return the stretch of the row that was clicked."""
    if not ctx.triggered[0]["value"]:  # the rows are new
        raise PreventUpdate
    start, end = map(int, ctx.triggered_id["interval"].split(":"))
    return start, end


def _show(app: Dash, analysis: RecordingAnalysis) -> None:
    def matches_of(found: list[Any] | None) -> list[Match]:
        return analysis.matches(*found) if found else []

    @app.callback(
        Output("overview", "figure"),
        Input("ready", "data"),
        Input("view", "data"),
        Input("found", "data"),
        Input("channels-shown", "value"),
        Input("drag", "value"),
    )
    def draw(_: Any, view: list[int], found: list[Any] | None, channels: list[int], drag: str) -> Any:
        """Draw the view."""
        stretch = (found[0], found[1]) if found else None
        return overview_figure(analysis, sorted(channels), View(*view), drag, stretch, matches_of(found))

    @app.callback(
        Output("intervals", "children"),
        Output("interval-note", "children"),
        Output("export-intervals", "disabled"),
        Input("ready", "data"),
        Input("table", "value"),
    )
    def list_intervals(_: Any, table: str) -> tuple[Any, ...]:
        """Show the anomalies, the highest first, or the segments."""
        if (analysis.scores if table == "anomalies" else analysis.segments) is None:
            return [], "", True
        columns = analysis.columns(table)
        note = "Segments of the same state have the same number."
        if table == "anomalies":
            order = (-columns["score"]).argsort(kind="stable")
            columns = {name: column[order] for name, column in columns.items()}
            note = f"Stretches with a score above {analysis.threshold:.2f}, the highest first; 1 is ordinary."
            if not analysis.intervals and analysis.scores is not None:
                peak = int(analysis.scores.argmax())
                highest = f"the highest is {analysis.scores[peak]:.2f} at {time_texts(analysis.axis[[peak]])[0]}"
                note = f"No score is above {analysis.threshold:.2f}; {highest}."
                return [], f"{note} A higher --false-alarm-rate finds more.", False
        return _table(columns, "intervals"), note, False

    @app.callback(
        Output("matches", "children"),
        Output("match-note", "children"),
        Output("export-matches", "disabled"),
        Input("found", "data"),
    )
    def list_matches(found: list[Any] | None) -> tuple[Any, ...]:
        """Show the matches of the selected stretch."""
        if not found:
            return [], "Select a stretch of the recording, or one of the intervals.", True
        note = "The best first; they do not overlap, and the stretch itself is one of them."
        return _table(analysis.columns("matches", matches_of(found)), "matches"), note, False

    @app.callback(
        Output("download", "data"),
        Input("export-intervals", "n_clicks"),
        Input("export-matches", "n_clicks"),
        State("table", "value"),
        State("found", "data"),
        prevent_initial_call=True,
    )
    def export(_: Any, __: Any, table: str, found: list[Any] | None) -> dict[str, Any]:
        """Download a table as CSV, with all its rows."""
        kind = "matches" if ctx.triggered_id == "export-matches" else table
        name = f"{Path(analysis.name).stem}-{kind}.csv"
        return {"content": csv_text(analysis.columns(kind, matches_of(found))), "filename": name}


def _table(columns: Results, name: str) -> list[Any]:
    """Return the first rows as a table whose first cells are buttons; times take the place of points."""
    edges = ("start_time", "end_time") if "start_time" in columns else ("start", "end")
    others = [column for column in columns if not column.startswith(("start", "end"))]
    rows = []
    for row in table_rows({column: values[:ROWS] for column, values in columns.items()}):
        first, last = (str(row[edge]) for edge in edges)
        values = [row[column] for column in others]
        cells = [last, *(f"{value:.3f}" if isinstance(value, float) else str(value) for value in values)]
        button = html.Button(first, id={"interval": f"{row['start']}:{row['end']}", "table": name}, type="button")
        rows.append(html.Tr([html.Td(button), *map(html.Td, cells)]))
    head = html.Thead(html.Tr([html.Th(heading) for heading in ("from", "to", *others)]))
    more = len(columns["start"]) - len(rows)
    note = [html.P(f"… and {more:,} more, in the export", className="hint")] if more else []
    return [html.Table([head, html.Tbody(rows)]), *note]
