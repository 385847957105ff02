"""Callbacks of the page, and its server.

The browser stores only the key of its analysis and the index of the selected series, and polls the progress; a
click on a map of 50,000 series moves a few rings and loads one series. Everything is served by this process.
"""

from __future__ import annotations

import base64
import logging
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dash import ALL, ClientsideFunction, Dash, Input, Output, Patch, State, ctx, no_update
from dash.exceptions import PreventUpdate
from werkzeug.serving import BaseWSGIServer, make_server
from werkzeug.utils import redirect
from werkzeug.wrappers import Request, Response

from nutime.access import Access
from nutime.batch.results import csv_text
from nutime.data.archives import bundled_sets
from nutime.explore import drawing, layout
from nutime.explore.state import Analyses, Analysis, Collection, open_set, read_upload

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_COOKIE = "nutime_token"


def bind(app: Dash, host: str, port: int, access: Access | None = None) -> BaseWSGIServer:
    """Return a server of a page that accepts connections and responds after ``serve_forever``.

    Args:
        app: the page.
        host, port: the address to listen on.
        access: who may use the page; by default the rules for ``host`` without a token.
    """
    access = access or Access.to(host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ValueError(f"cannot listen on {host}, port {port}: {error.strerror}; try another --port") from None
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # no line per request
    guarded = _guard(app.server.wsgi_app, access)
    with listener:
        return make_server(host, port, guarded, threaded=True, fd=listener.fileno())


def _guard(app: WSGIApplication, access: Access) -> WSGIApplication:
    """Apply access rules to a WSGI application; a token in the query of the first request becomes a cookie."""

    def guarded(environ: WSGIEnvironment, start_response: StartResponse) -> Any:
        request = Request(environ)
        headers = {name.lower(): value for name, value in request.headers.items()}
        named = request.args.get("token")
        token = named or request.cookies.get(_COOKIE)
        if token:
            headers["authorization"] = f"Bearer {token}"
        refusal = access.refusal(headers)
        if refusal:
            return Response(refusal.reason, refusal.status)(environ, start_response)
        if named and access.token:
            response = redirect(request.path)
            response.set_cookie(_COOKIE, named, httponly=True, samesite="Strict")
            return response(environ, start_response)
        return app(environ, start_response)

    return guarded


def new_app(title: str) -> Dash:
    """Return a page without content; it has the style sheet and the scripts of all pages."""
    return Dash(
        "nutime.explore",
        assets_folder=str(Path(__file__).parent / "assets"),
        title=title,
        update_title="",  # the title would flicker at every poll
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )


def build_app(analyses: Analyses) -> Dash:
    """Return the page."""
    app = new_app("nutime explore")
    app.server.config["MAX_CONTENT_LENGTH"] = 2 * layout.UPLOAD_BYTES  # base64 makes a file a third larger
    sets = bundled_sets()
    app.layout = lambda: layout.layout(analyses.first.key if analyses.first else None, sets)
    _open_data(app, analyses, sets)
    _follow_progress(app, analyses)
    _draw_map(app, analyses)
    _choose_series(app, analyses)
    _select_series(app, analyses)
    return app


def _open_data(app: Dash, analyses: Analyses, sets: Sequence[str]) -> None:
    @app.callback(
        Output("key", "data"),
        Output("message", "children"),
        Output("upload", "contents"),
        Output("bundled", "value"),
        Input("upload", "contents"),
        Input("bundled", "value"),
        State("upload", "filename"),
        State("key", "data"),
        prevent_initial_call=True,
        running=[(Output("reading", "hidden"), False, True)],
    )
    def open_data(
        contents: list[str] | None, name: str | None, files: list[str] | None, key: str | None
    ) -> tuple[Any, ...]:
        """Read an uploaded file or a bundled set; after an error the open data set stays."""
        uploaded = ctx.triggered_id == "upload"
        if not (contents if uploaded else name):
            raise PreventUpdate
        try:
            if uploaded:
                collection = _read_drop(contents or [], files or [])
            elif name in sets:  # a request may hold any text: no paths, and no names that start a download
                collection = open_set(str(name))
            else:
                raise ValueError("this is not the name of a bundled set")
            key = analyses.open(collection, replaces=key).key
        except ValueError as error:
            return no_update, str(error), None, None
        return key, "", None, None if uploaded else name

    @app.callback(
        Output("page", "className"),
        Output("summary", "children"),
        Output("channel", "options"),
        Output("channel", "value"),
        Output("channels", "hidden"),
        Output("kind", "options"),
        Output("kind", "value"),
        Output("colour", "options"),
        Output("colour", "value"),
        Output("map-note", "children"),
        Input("key", "data"),
    )
    def introduce(key: str | None) -> tuple[Any, ...]:
        """Fit the controls to the data."""
        analysis = analyses.find(key)
        if analysis is None:
            return "empty", "", *[no_update] * 8
        collection = analysis.collection
        kinds = [
            {"label": "PCA", "value": "pca"},
            {"label": "t-SNE", "value": "tsne", "disabled": not analysis.allows_tsne},
        ]
        colours = ["cluster", "anomaly"] if collection.labels is None else ["label", "cluster", "anomaly"]
        channels = [{"label": name, "value": index} for index, name in enumerate(collection.channel_names)]
        alone = collection.channels == 1
        return (
            *("open", layout.summary(collection), channels, 0, alone),
            *(kinds, "pca", colours, colours[0], layout.map_note(analysis)),
        )


def _follow_progress(app: Dash, analyses: Analyses) -> None:
    @app.callback(
        Output("stage", "children"),
        Output("bar", "value"),
        Output("bar", "max"),
        Output("progress", "hidden"),
        Output("trouble", "children"),
        Output("ready", "data"),
        Output("clock", "disabled"),
        Input("clock", "n_intervals"),
        Input("key", "data"),
        Input("kind", "value"),
        Input("chosen", "data"),
        State("ready", "data"),
    )
    def follow(_: int, key: str | None, kind: str, __: Any, known: list[str] | None) -> tuple[Any, ...]:
        """Show the progress; stop polling when all is finished."""
        analysis = analyses.find(key)
        if analysis is None:
            gone = "This data set is no longer open; open it again." if key else ""
            return "", None, None, True, gone, no_update, True
        if kind == "tsne":
            analysis.request_tsne()
        progress = analysis.progress  # read before the parts: if it is None, all parts are finished
        ready = [analysis.key, *analysis.ready]
        news = no_update if ready == known else ready
        if progress is None:
            return "", None, None, True, analysis.error, news, True
        count = f" {progress.done:,} of {progress.total:,}" if progress.total else " …"
        share = (progress.done, progress.total) if progress.total else (None, None)
        return f"{progress.stage.capitalize()}{count}", *share, False, "", news, False


def _draw_map(app: Dash, analyses: Analyses) -> None:
    @app.callback(
        Output("map", "figure"),
        Output("drawn", "data"),
        Input("ready", "data"),
        Input("kind", "value"),
        Input("colour", "value"),
        State("drawn", "data"),
        State("drag", "value"),
        State("selected", "data"),
    )
    def draw(
        ready: list[str] | None, kind: str, colour: str, drawn: list[str] | None, drag: str, selected: Any
    ) -> tuple[Any, ...]:
        """Draw the map if another map or colour is requested and available."""
        analysis = analyses.find(ready[0]) if ready else None
        if analysis is None or "pca" not in analysis.maps:
            return drawing.empty_figure("The map appears when all series are embedded."), None
        shown = [
            analysis.key,
            kind if kind in analysis.maps else "pca",
            colour if colour in ("label", *analysis.ready) else "",
        ]
        if shown == drawn:
            raise PreventUpdate
        members = _members(selected, analysis)
        return drawing.map_figure(analysis, shown[1], shown[2], drag, members), shown

    @app.callback(Output("marks", "data"), Input("chosen", "data"), Input("drawn", "data"))
    def mark(chosen: list[Any] | None, drawn: list[str] | None) -> list[list[float]]:
        """Return the positions on the map of the selected series and of its neighbours."""
        if not (chosen and drawn) or (analysis := analyses.find(chosen[0])) is None or drawn[0] != analysis.key:
            return []
        near = [neighbour.series for neighbour in analysis.neighbours(chosen[1], layout.NEIGHBOURS)]
        places: list[list[float]] = analysis.maps[drawn[1]][[chosen[1], *near]].tolist()
        return places

    ring = ClientsideFunction("explore", "ring")
    app.clientside_callback(ring, Input("marks", "data"))  # type: ignore[no-untyped-call]


def _choose_series(app: Dash, analyses: Analyses) -> None:
    @app.callback(
        Output("chosen", "data"),
        Output("number", "value"),
        Output("map", "clickData"),
        Input("map", "clickData"),
        Input({"neighbour": ALL}, "n_clicks"),
        Input("previous", "n_clicks"),
        Input("next", "n_clicks"),
        Input("number", "value"),
        Input("key", "data"),
        State("chosen", "data"),
    )
    def choose(click: Any, *rest: Any) -> tuple[Any, ...]:
        """Select a series by a click on the map, a button or its number; the first one of new data."""
        number, key, last = rest[-3:]
        by, analysis = ctx.triggered_id, analyses.find(key)
        index = 0
        if by == "map":
            index = click["points"][0].get("customdata", -1) if click else -1
        elif by == "number":
            ids = analysis.collection.ids if analysis else None
            index = int(number) if number.strip().isdecimal() else -1
            if ids is not None and number in ids:
                index = list(ids).index(number)
        elif by in ("previous", "next"):
            index = last[1] + (1 if by == "next" else -1)
        elif isinstance(by, dict) and analysis:
            index = analysis.neighbours(last[1], layout.NEIGHBOURS)[by["neighbour"]].series
        if key is None or index < 0 or (analysis and index >= len(analysis)):
            raise PreventUpdate
        # What is being typed stays: the beginning of an id may be another id. The click is reset, so that the same
        # point can be clicked again later.
        return [key, index], no_update if by == "number" else str(index), None

    @app.callback(
        Output("facts", "children"),
        Output("neighbour-note", "children"),
        Output({"neighbour": ALL}, "children"),
        Output({"neighbour": ALL}, "aria-label"),
        Output({"neighbour": ALL}, "hidden"),
        Input("chosen", "data"),
        Input("channel", "value"),
        Input("ready", "data"),
    )
    def show(chosen: list[Any] | None, channel: int, _: Any) -> tuple[Any, ...]:
        """Show the selected series' facts and its neighbours."""
        if not chosen or (analysis := analyses.find(chosen[0])) is None:
            raise PreventUpdate
        index: int = chosen[1]
        channel = min(channel, analysis.collection.channels - 1)
        cards = zip(*layout.cards(analysis, index, channel), strict=True)
        return layout.facts(analysis, index), layout.neighbour_note(analysis), *map(list, cards)

    @app.callback(
        Output("series", "figure"),
        Output("series-note", "children"),
        Input("chosen", "data"),
        Input("channel", "value"),
        Input("shading", "value"),
        Input("ready", "data"),
    )
    def shade(chosen: list[Any] | None, channel: int, shading: str, _: Any) -> tuple[Any, ...]:
        """Draw the selected series with its shading, which may take a second."""
        if not chosen or (analysis := analyses.find(chosen[0])) is None:
            raise PreventUpdate
        index: int = chosen[1]
        channel = min(channel, analysis.collection.channels - 1)
        values = analysis.collection.series[index][channel]
        times = analysis.collection.times[index] if analysis.collection.times else None
        attention = analysis.attention(index, channel) if shading == "attention" else None
        contribution = analysis.contribution(index) if shading == "contribution" else None
        shares = contribution.values[channel] if contribution else None
        figure = drawing.series_figure(values, attention, shares, times)
        figure.update_layout(uirevision=f"{analysis.key} {index} {channel}")
        return figure, layout.series_note(len(values), shading, contribution)


def _select_series(app: Dash, analyses: Analyses) -> None:
    @app.callback(Output("map", "figure", allow_duplicate=True), Input("drag", "value"), prevent_initial_call=True)
    def drag(drag: str) -> Any:
        """Change what dragging does, without drawing the points again."""
        patch = Patch()
        for name, value in drawing.drag_layout(drag).items():
            patch["layout"][name] = value
        return patch

    selected = ClientsideFunction("explore", "selected")
    app.clientside_callback(  # type: ignore[no-untyped-call]
        selected, Output("selected", "data"), Input("map", "selectedData"), State("key", "data")
    )

    @app.callback(
        Output("selection", "children"),
        Output("selected-bar", "hidden"),
        Input("selected", "data"),
        Input("key", "data"),
    )
    def count(selected: Any, key: str | None) -> tuple[Any, ...]:
        """Show which series are selected."""
        analysis = analyses.find(key)
        members = _members(selected, analysis)
        return layout.selection_note(analysis, members) if analysis and members else "", not members

    @app.callback(
        Output("download", "data"),
        Input("export", "n_clicks"),
        State("selected", "data"),
        State("key", "data"),
        prevent_initial_call=True,
    )
    def export(_: int, selected: Any, key: str | None) -> dict[str, str]:
        """Download what is known of the selected series as CSV."""
        analysis = analyses.find(key)
        if analysis is None:
            raise PreventUpdate
        name = f"{Path(analysis.collection.name).stem}-selected.csv"
        return {"content": csv_text(analysis.columns(_members(selected, analysis))), "filename": name}


def _members(selected: Any, analysis: Analysis | None) -> list[int]:
    """Return the selected series of an analysis; a selection in an earlier data set of the page is none."""
    return sorted(selected[1]) if selected and analysis and selected[0] == analysis.key else []


def _read_drop(contents: list[str], names: list[str]) -> Collection:
    if len(contents) > 1:
        raise ValueError(f"{len(contents)} files were dropped; the page shows one at a time")
    return read_upload(names[0], base64.b64decode(contents[0].partition(",")[2]))
