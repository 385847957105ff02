"""The page of ``nutime label``: its elements and callbacks.

The labels are shared: what one visitor labels, all see within seconds. The selected series, the colours and what
can be undone belong to a visitor and stay in the browser: undo takes back one's own labels only, also after a
reload. A label is on disk before the page shows the next series.
"""

from __future__ import annotations

from typing import Any

import dash
import numpy as np
from dash import ClientsideFunction, Dash, Input, Output, dcc, html
from dash.exceptions import PreventUpdate

from nutime.explore import drawing
from nutime.explore.layout import choice, graph, section, summary
from nutime.explore.page import new_app
from nutime.explore.state import Collection
from nutime.labelling.session import SUGGESTIONS, Session, State

KEYS = tuple("123456789")
_POLL_MS = 1500
_HELP = (
    "Keys: 1–9 class · Shift 1–9 all similar series · 0 no class · text a new class, then Enter · "
    "Space another suggestion · Ctrl Z undo"
)
_STABLE = "The last labels changed almost no prediction: more would hardly help. Space shows a series anyway."


def build_label_app(session: Session, name: str) -> Dash:
    """Return the page of a session about the data set ``name``."""
    app = new_app(f"nutime label {name}")
    app.layout = lambda: _layout(session, name)
    _follow(app, session)
    _act(app, session)
    _show(app, session)
    return app


def _layout(session: Session, name: str) -> html.Div:
    names = session.embedded.source.channel_names or [
        f"channel {c}" for c in range(len(session.embedded.series[0]))
    ]
    channels = [{"label": name, "value": index} for index, name in enumerate(names)]
    return html.Div(
        [
            html.Header(
                [
                    html.H1("nutime label"),
                    html.P(summary(Collection(name, session.embedded.series)), id="summary"),
                    html.P(id="estimate", role="status"),
                    html.Button("Export", type="button", **_action("export")),
                ]
            ),
            html.P(id="message", role="alert"),
            html.P(id="note", role="status"),
            html.Main(
                [
                    section(
                        "map",
                        [
                            html.H2("Map"),
                            html.Span("coloured by", className="hint"),
                            choice("colour", label="label", prediction="prediction"),
                        ],
                        graph("map", "Map of the embeddings", zoom=True),
                    ),
                    section(
                        "series",
                        [
                            html.H2(id="shown"),
                            html.Div(
                                # Searchable, it would take all keys after the first.
                                dcc.Dropdown(channels, 0, id="channel", clearable=False, searchable=False),
                                id="channels",
                                hidden=len(channels) == 1,
                            ),
                            html.Span(id="facts", className="hint"),
                            html.Button("Undo", type="button", **_action("undo")),
                        ],
                        graph("series", "The selected series"),
                        html.Div(id="classes"),
                        dcc.Input(
                            id="new-class", type="text", placeholder="new class, then Enter", autoComplete="off"
                        ),
                        html.P(_HELP, className="hint"),
                    ),
                    html.Section(
                        [html.H2("Estimated accuracy"), graph("history", "Accuracy by number of labels")],
                        className="accuracy",
                    ),
                    html.Section(id="lists", className="lists"),
                ]
            ),
            dcc.Store(id="action"),
            dcc.Store(id="view", storage_type="session"),  # what belongs to a visitor
            dcc.Store(id="revision"),
            dcc.Store(id="marks"),
            dcc.Interval(id="clock", interval=_POLL_MS),
        ],
        id="page",
        className="open labelling",
    )


def _follow(app: Dash, session: Session) -> None:
    @app.callback(
        Output("revision", "data", allow_duplicate=True),
        Input("clock", "n_intervals"),
        dash.State("revision", "data"),
        prevent_initial_call=True,
    )
    def follow(_: int, known: int | None) -> int:
        """Notice the labels of other visitors."""
        if session.log.revision == known:
            raise PreventUpdate
        return session.log.revision

    @app.callback(
        Output("estimate", "children"),
        Output("history", "figure"),
        Output("map", "figure"),
        Input("revision", "data"),
        Input("colour", "value"),
    )
    def draw(_: int | None, colour: str) -> tuple[Any, ...]:
        """Draw the map and the estimates."""
        state = session.state
        names = np.full(len(session.embedded), "", object)
        if colour == "prediction" and state.predicted is not None:
            names[:] = state.predicted
        names[list(state.labels)] = list(state.labels.values())
        history = drawing.empty_figure("The accuracy is estimated from five labels on, of two classes.")
        if state.history:
            counts = sorted(state.history)
            history = drawing.history_figure(counts, np.array([state.history[count] for count in counts]))
        ids = session.embedded.source.ids or [f"series {index}" for index in range(len(names))]
        figure = drawing.label_figure(session.space.points[:, :2], state.classes, names.astype(np.str_), ids)
        return _estimate_line(session), history, figure


def _act(app: Dash, session: Session) -> None:
    @app.callback(
        Output("view", "data"),
        Output("message", "children"),
        Output("note", "children"),
        Output("new-class", "value"),
        Output("revision", "data"),
        Output("map", "clickData"),
        Input("action", "data"),
        Input("map", "clickData"),
        dash.State("view", "data"),
    )
    def act(action: dict[str, Any] | None, click: Any, view: dict[str, Any] | None) -> tuple[Any, ...]:
        """Carry out the action of a key, a button or a click on the map."""
        message = note = ""
        if view is None or view["key"] != session.log.key:
            view = {"key": session.log.key, "series": _next(session, []), "events": [], "skipped": [], "at": 0}
        elif click:
            view["series"] = click["points"][0]["customdata"]
        elif action:
            view["at"] = action["at"]
            try:
                note = _carry_out(session, action, view)
            except (ValueError, OSError) as error:
                message = str(error)
        # The click is reset, so that the same point can be clicked again later.
        return view, message, note, "", session.log.revision, None

    confirmed = ClientsideFunction("labelling", "confirmed")
    app.clientside_callback(confirmed, Input("shown", "data-at"))  # type: ignore[no-untyped-call]


def _carry_out(session: Session, action: dict[str, Any], view: dict[str, Any]) -> str:
    """Apply an action to the labels and the view; return what was done."""
    kind, series = action["kind"], action["series"]
    if kind in ("label", "cluster"):
        label = action["label"]
        members = session.cluster_of(series) if kind == "cluster" else [series]
        view["events"].append(session.label(members, label))
        if not session.state.stable:
            view["series"] = _next(session, view["skipped"], series)
        return f"{_numbers(members)}: {'no label' if label is None else label}"
    if kind == "undo":
        undone = session.undo(view["events"].pop()) if view["events"] else []
        view["series"] = undone[0] if undone else series
        return f"{_numbers(undone)}: undone" if undone else "There is no label of yours to undo."
    if kind == "skip":
        view["skipped"] = [*view["skipped"], series][-SUGGESTIONS // 2 :]
        view["series"] = _next(session, view["skipped"], series)
    elif kind == "show":
        view["series"] = series
    elif kind == "export":
        labels, model = session.export()
        return f"Written: {labels} and {model}. Next: nutime predict {model} NEW.csv -o predictions.csv"
    return ""


def _next(session: Session, skipped: list[int], series: int = 0) -> int:
    """Return the first suggestion that was not skipped; ``series`` if there is none."""
    return next((index for index in session.state.suggestions if index not in skipped), series)


def _show(app: Dash, session: Session) -> None:
    @app.callback(
        Output("shown", "children"),
        Output("shown", "data-series"),
        Output("shown", "data-at"),
        Output("facts", "children"),
        Output("series", "figure"),
        Output("classes", "children"),
        Output("lists", "children"),
        Output("marks", "data"),
        Input("view", "data"),
        Input("channel", "value"),
        Input("revision", "data"),
    )
    def show(view: dict[str, Any] | None, channel: int, _: Any) -> tuple[Any, ...]:
        """Draw the selected series and what can be done with it."""
        if view is None or view["key"] != session.log.key:
            raise PreventUpdate
        series, state = view["series"], session.state
        values = session.embedded.series[series][channel]
        figure = drawing.series_figure(values)
        figure.update_layout(uirevision=f"{series} {channel}")
        return (
            f"Series {series}",
            str(series),
            str(view["at"]),
            _facts(session, series),
            figure,
            [_class_button(state, *item) for item in _keys(state.classes).items()],
            _lists(session, series, channel),
            session.space.points[[series], :2].tolist(),
        )

    ring = ClientsideFunction("explore", "ring")
    app.clientside_callback(ring, Input("marks", "data"))  # type: ignore[no-untyped-call]


def _keys(classes: list[str]) -> dict[str, str]:
    """Return the key of each class: its own name if that is a key, else the next one that is free, or none."""
    free = iter([key for key in KEYS if key not in classes])
    return {name: name if name in KEYS else next(free, "") for name in classes}


def _class_button(state: State, name: str, key: str) -> html.Button:
    count = sum(label == name for label in state.labels.values())
    content: list[Any] = [html.Kbd(key), f"{name} ", html.Span(f"{count}", className="hint")]
    return html.Button(content, type="button", **_action("label", label=name, key=key))


def _facts(session: Session, series: int) -> str:
    state, facts = session.state, []
    if session.embedded.source.ids is not None:
        facts.append(str(session.embedded.source.ids[series]))
    if series in state.labels:
        facts.append(f"label {state.labels[series]}")
    if state.predicted is not None and state.confidence is not None:
        facts.append(f"predicted {state.predicted[series]} ({state.confidence[series]:.0%})")
    return " · ".join(facts)


def _estimate_line(session: Session) -> str:
    state = session.state
    line = f"{len(state.labels):,} of {len(session.embedded):,} labelled"
    if state.estimate:
        line += f" · estimated accuracy {state.estimate.accuracy:.0%}"
        line += f" ({state.estimate.low:.0%} to {state.estimate.high:.0%})"
    return line


def _lists(session: Session, series: int, channel: int) -> list[Any]:
    """Return the suggestions, the similar series and the likely mistakes, as lists of buttons."""
    state = session.state
    everything = session.embedded.series

    def card(index: int, note: str) -> html.Button:
        image = drawing.sparkline(everything[index][channel], everything[series][channel])
        return html.Button(
            [html.Img(src=image, alt=""), html.Span(f"#{index} {note}")],
            type="button",
            **_action("show", show=str(index)),
        )

    def predicted(index: int) -> str:
        return "" if state.predicted is None else str(state.predicted[index])

    similar = [index for index in session.cluster_of(series) if index != series]
    sections = [
        ("Suggestions", _STABLE if state.stable else [card(i, predicted(i)) for i in state.suggestions]),
        (f"{len(similar)} similar series without a label", [card(i, predicted(i)) for i in similar[:SUGGESTIONS]]),
        ("Likely mistakes", [card(m.series, f"{state.labels[m.series]}? {m.predicted}") for m in state.mistakes]),
    ]
    return [
        html.Div([html.H2(title), html.Div(content, className="cards")]) for title, content in sections if content
    ]


def _numbers(series: list[int]) -> str:
    return f"Series {series[0]}" if len(series) == 1 else f"{len(series)} series"


def _action(kind: str, **data: str) -> dict[str, Any]:
    """Return the attributes of a button from which the script makes an action."""
    return {"data-action": kind, **{f"data-{name}": value for name, value in data.items()}}
