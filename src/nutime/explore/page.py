"""The page: what happens on it, and the server behind it.

Unusual here: the browser is told as little as possible. It remembers which analysis it looks at and which
series was chosen, and asks now and then how far the work is; a click on the map of 50,000 series moves a few
rings and fetches one series, and nothing else. Everything is served from this process: no address outside of
it is ever asked for.
"""

from __future__ import annotations

import base64
import logging
import socket
from pathlib import Path
from typing import Any

from dash import ALL, ClientsideFunction, Dash, Input, Output, State, ctx, no_update
from dash.exceptions import PreventUpdate
from werkzeug.serving import BaseWSGIServer, make_server

from nutime.data.archives import bundled_sets
from nutime.explore import drawing, layout
from nutime.explore.state import Collection, Desk, open_collection, read_upload

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def bind(desk: Desk, host: str, port: int) -> BaseWSGIServer:
    """Return a server of the page that listens already, but does not answer before ``serve_forever``."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        reason = error.strerror
        raise ValueError(f"cannot listen on {host}, port {port}: {reason}; try another --port") from None
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # one line a request is noise
    app = build_app(desk)
    if host in LOOPBACK:
        # Other sites in the same browser could point a name of theirs at this machine.
        app.server.config["TRUSTED_HOSTS"] = [f"[{name}]" if ":" in name else name for name in LOOPBACK]
    with listener:
        return make_server(host, port, app.server, threaded=True, fd=listener.fileno())


def build_app(desk: Desk) -> Dash:
    """Return the page over what lies on the desk."""
    app = Dash(
        "nutime.explore",
        assets_folder=str(Path(__file__).parent / "assets"),
        title="nutime explore",
        update_title="",  # or the title would flicker at every look at progress
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )
    app.server.config["MAX_CONTENT_LENGTH"] = 2 * layout.UPLOAD_BYTES  # in transit a file is a third larger
    sets = bundled_sets()  # looks for files: once, not at every visit
    app.layout = lambda: layout.layout(desk.current.key if desk.current else None, sets)
    _open_data(app, desk)
    _follow_progress(app, desk)
    _draw_map(app, desk)
    _choose_series(app, desk)
    return app


def _open_data(app: Dash, desk: Desk) -> None:
    @app.callback(
        Output("key", "data"),
        Output("message", "children"),
        Output("upload", "contents"),
        Output("bundled", "value"),
        Input("upload", "contents"),
        Input("bundled", "value"),
        State("upload", "filename"),
        prevent_initial_call=True,
        running=[(Output("reading", "hidden"), False, True)],
    )
    def open_data(contents: list[str] | None, name: str | None, files: list[str] | None) -> tuple[Any, ...]:
        """Read a dropped file or a bundled set; if something is wrong with it, what was open stays open."""
        uploaded = ctx.triggered_id == "upload"
        if not (contents if uploaded else name):
            raise PreventUpdate
        try:
            collection = _read_drop(contents or [], files or []) if uploaded else open_collection(str(name))
            key = desk.open(collection).key
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
        analysis = desk.find(key)
        if analysis is None:
            return "empty", "", *[no_update] * 8
        collection = analysis.collection
        kinds = [
            {"label": "PCA", "value": "pca"},
            {"label": "t-SNE", "value": "tsne", "disabled": not analysis.allows_tsne},
        ]
        colours = ["cluster", "anomaly"] if collection.labels is None else ["label", "cluster", "anomaly"]
        channels = [{"label": f"channel {index}", "value": index} for index in range(collection.channels)]
        alone = collection.channels == 1
        return (
            *("open", layout.summary(collection), channels, 0, alone),
            *(kinds, "pca", colours, colours[0], layout.map_note(analysis)),
        )


def _follow_progress(app: Dash, desk: Desk) -> None:
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
        """Tell how far the work is, and rest when it is done."""
        analysis = desk.find(key)
        if analysis is None:
            gone = "This data set is no longer open; reload the page to see what is." if key else ""
            return "", None, None, True, gone, no_update, True
        if kind == "tsne":
            analysis.request_tsne()
        progress = analysis.progress  # before the parts: when this is None, no part is still to come
        ready = [analysis.key, *analysis.ready]
        news = no_update if ready == known else ready
        if progress is None:
            return "", None, None, True, analysis.error, news, True
        count = f" {progress.done:,} of {progress.total:,}" if progress.total else " …"
        share = (progress.done, progress.total) if progress.total else (None, None)
        return f"{progress.stage.capitalize()}{count}", *share, False, "", news, False


def _draw_map(app: Dash, desk: Desk) -> None:
    @app.callback(
        Output("map", "figure"),
        Output("drawn", "data"),
        Input("ready", "data"),
        Input("kind", "value"),
        Input("colour", "value"),
        State("drawn", "data"),
    )
    def draw(ready: list[str] | None, kind: str, colour: str, drawn: list[str] | None) -> tuple[Any, ...]:
        """Draw the map anew, but only if another picture is wanted and can be had."""
        analysis = desk.find(ready[0]) if ready else None
        if analysis is None or "pca" not in analysis.maps:
            return drawing.empty_figure("The map appears when all series are embedded."), None
        shown = [
            analysis.key,
            kind if kind in analysis.maps else "pca",
            colour if colour in ("label", *analysis.ready) else "",
        ]
        if shown == drawn:
            raise PreventUpdate
        return drawing.map_figure(analysis, *shown[1:]), shown

    @app.callback(Output("marks", "data"), Input("chosen", "data"), Input("drawn", "data"))
    def mark(chosen: list[Any] | None, drawn: list[str] | None) -> list[list[float]]:
        """Tell where on the map the chosen series is, and then its neighbours."""
        if not (chosen and drawn) or (analysis := desk.find(chosen[0])) is None or drawn[0] != analysis.key:
            return []
        near = [neighbour.series for neighbour in analysis.neighbours(chosen[1], layout.NEIGHBOURS)]
        places: list[list[float]] = analysis.maps[drawn[1]][[chosen[1], *near]].tolist()
        return places

    ring = ClientsideFunction("explore", "ring")
    app.clientside_callback(ring, Input("marks", "data"))  # type: ignore[no-untyped-call]


def _choose_series(app: Dash, desk: Desk) -> None:
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
        """Take a series by a click on the map, a press on a button, or its number; the first of new data."""
        number, key, last = rest[-3:]
        by, analysis = ctx.triggered_id, desk.find(key)
        index = 0
        if by == "map":
            index = click["points"][0].get("customdata", -1) if click else -1
        elif by == "number":
            index = int(number) if number.strip().isdecimal() else -1
        elif by in ("previous", "next"):
            index = last[1] + (1 if by == "next" else -1)
        elif isinstance(by, dict) and analysis:
            index = analysis.neighbours(last[1], layout.NEIGHBOURS)[by["neighbour"]].series
        if key is None or index < 0 or (analysis and index >= len(analysis)):
            raise PreventUpdate
        # A click is forgotten, so that the same point can be clicked again after something else was chosen.
        return [key, index], str(index), None

    @app.callback(
        Output("series", "figure"),
        Output("facts", "children"),
        Output("series-note", "children"),
        Output("neighbour-note", "children"),
        Output({"neighbour": ALL}, "children"),
        Output({"neighbour": ALL}, "aria-label"),
        Output({"neighbour": ALL}, "hidden"),
        Input("chosen", "data"),
        Input("channel", "value"),
        Input("ready", "data"),
    )
    def show(chosen: list[Any] | None, channel: int, _: Any) -> tuple[Any, ...]:
        """Draw the chosen series and its neighbours."""
        if not chosen or (analysis := desk.find(chosen[0])) is None:
            raise PreventUpdate
        index: int = chosen[1]
        channel = min(channel, analysis.collection.channels - 1)
        values = analysis.collection.series[index][channel]
        figure = drawing.series_figure(values, analysis.attention(index, channel))
        figure.update_layout(uirevision=f"{analysis.key} {index} {channel}")
        note = layout.series_note(len(values))
        cards = zip(*layout.cards(analysis, index, channel), strict=True)
        return figure, layout.facts(analysis, index), note, layout.neighbour_note(analysis), *map(list, cards)


def _read_drop(contents: list[str], names: list[str]) -> Collection:
    if len(contents) > 1:
        raise ValueError(f"{len(contents)} files were dropped; the page shows one at a time")
    return read_upload(names[0], base64.b64decode(contents[0].partition(",")[2]))
