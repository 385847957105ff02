"""Elements and texts of the page; its callbacks are in ``page.py``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dash import dcc, html

from nutime.explore import drawing
from nutime.explore.state import SAMPLE, TSNE_SERIES, Analysis, Collection, Contribution

#: Larger files are opened from the command line: a browser holds several copies of an upload in memory.
UPLOAD_BYTES = 100 * 2**20
NEIGHBOURS = 8
_POLL_MS = 400


class Card(NamedTuple):
    """Content of a neighbour's button, and its description for screen readers."""

    content: list[Any]
    description: str
    hidden: bool


def layout(key: str | None, sets: Sequence[str]) -> html.Div:
    """Return the page of the analysis ``key``, with a list of bundled sets."""
    return html.Div(
        [
            html.Header(
                [
                    html.H1("nutime explore"),
                    html.P("A map of your series, neighbours, clusters and anomalies.", className="tagline"),
                    html.P(id="summary"),
                    _intake(sets),
                ]
            ),
            html.P(id="message", role="alert"),
            html.P(id="trouble", role="alert"),
            html.Div(
                [html.Span(id="stage"), html.Progress(id="bar", **_aria(labelledby="stage"))],
                id="progress",
                role="status",
                hidden=True,
            ),
            html.Main([_map_section(), _series_section(), _neighbour_section()]),
            dcc.Store(id="key", data=key),
            dcc.Store(id="ready"),
            dcc.Store(id="drawn"),
            dcc.Store(id="chosen"),
            dcc.Store(id="marks"),
            dcc.Store(id="selected"),
            dcc.Download(id="download"),
            dcc.Interval(id="clock", interval=_POLL_MS),
        ],
        id="page",
        className="open" if key else "empty",
    )


def _intake(sets: Sequence[str]) -> html.Div:
    limit: Any = {"data-limit": str(UPLOAD_BYTES)}
    return html.Div(
        [
            dcc.Upload(
                html.Button([html.B("Drop a file"), " or browse"], type="button"),
                id="upload",
                multiple=True,
                max_size=UPLOAD_BYTES,
                className="drop",
                className_active="drop dragging",
            ),
            html.Div(
                dcc.Dropdown(
                    list(sets),
                    id="bundled",
                    placeholder="Or open a bundled set" if sets else "Sets come with nutime[archives]",
                    disabled=not sets,
                    clearable=False,
                ),
                className="sets",
            ),
            html.P(
                "A file with one series per row, labels in a column named label: .csv, .tsv, .ts, .arff, "
                ".parquet or .npz. It stays on this machine.",
                className="hint",
            ),
            html.P("Reading …", id="reading", hidden=True, role="status"),
        ],
        id="intake",
        **limit,
    )


def _map_section() -> html.Section:
    return section(
        "map",
        [
            html.H2("Map"),
            dcc.RadioItems(id="kind", value="pca", inline=True, className="choice"),
            html.Span("coloured by", className="hint"),
            dcc.RadioItems(id="colour", inline=True, className="choice"),
            html.Span("dragging", className="hint"),
            choice("drag", pan="moves", lasso="selects"),
        ],
        graph("map", "Map of the embeddings; without a mouse, show a series by its number or id", zoom=True),
        html.P(id="map-note", className="hint"),
        html.Div(
            [
                html.Span(id="selection", role="status"),
                html.Button("Export CSV", id="export", type="button", className="plain"),
            ],
            id="selected-bar",
            className="bar",
            hidden=True,
        ),
    )


def _series_section() -> html.Section:
    return section(
        "series",
        [
            html.H2(html.Label("Series", htmlFor="number")),
            html.Div(
                [
                    html.Button("‹", id="previous", type="button", **_aria(label="previous series")),
                    # Not of type number: Dash does not update the value of such an input.
                    dcc.Input(id="number", type="text", value="0"),
                    html.Button("›", id="next", type="button", **_aria(label="next series")),
                ],
                className="number",
            ),
            html.Div(dcc.Dropdown(id="channel", value=0, clearable=False), id="channels"),
            html.Span("shaded by", className="hint"),
            choice("shading", contribution="contribution", attention="attention"),
            html.Span(id="facts", className="hint"),
        ],
        graph("series", "The selected series, shaded by the contribution of its points or by attention"),
        html.P(id="series-note", className="hint"),
    )


def _neighbour_section() -> html.Section:
    return section(
        "near",
        [html.H2("Nearest neighbours"), html.Span(id="neighbour-note", className="hint")],
        html.Div(
            [html.Button(id={"neighbour": rank}, type="button", hidden=True) for rank in range(NEIGHBOURS)],
            id="neighbours",
        ),
    )


def section(area: str, bar: list[Any], *content: Any) -> html.Section:
    """Return a section of the page: a bar of controls above its content."""
    return html.Section([html.Div(bar, className="bar"), *content], className=area)


def choice(name: str, **labels: str) -> dcc.RadioItems:
    """Return radio buttons with a label for each value, the first one selected."""
    return dcc.RadioItems(labels, next(iter(labels)), id=name, inline=True, className="choice")


def graph(name: str, description: str, zoom: bool = False) -> html.Div:
    """Return a place for a figure, which only the mouse wheel zooms."""
    config: Any = {"displayModeBar": False, "scrollZoom": zoom}  # the mode bar would cover the legend
    graph = dcc.Graph(id=name, figure=drawing.empty_figure(), config=config, responsive=True)
    return html.Div(graph, role="figure", className="graph", **_aria(label=description))


def summary(collection: Collection) -> list[Any]:
    """Return one line about the data."""
    shortest, longest = collection.lengths
    length = f"length {longest:,}" if shortest == longest else f"lengths {shortest:,} to {longest:,}"
    facts = [f"{len(collection.series):,} series", length]
    if collection.channels > 1:
        facts.append(f"{collection.channels:,} channels")
    if collection.labels is not None:
        facts.append(f"{len(set(collection.labels.tolist()) - {''}):,} classes")
    if collection.interpolated:
        facts.append(f"{collection.interpolated:,} missing values interpolated")
    return [html.B(collection.name), f" {' · '.join(facts)}"]


def map_note(analysis: Analysis) -> str:
    """Return how to use the map, and its limits."""
    notes = ["Click a point for its series; scroll to zoom, double-click to see all, or to end a selection."]
    if analysis.sampled:
        notes.append(f"Clusters and anomaly scores are fitted on {SAMPLE:,} of {len(analysis):,} series.")
    if not analysis.allows_tsne:
        notes.append(f"t-SNE takes 4 to {TSNE_SERIES:,} series.")
    return " ".join(notes)


def selection_note(analysis: Analysis, members: Sequence[int]) -> str:
    """Return how many series are selected, and which."""
    names = [drawing.short_name(analysis.collection.name_of(index)) for index in members[:NEIGHBOURS]]
    return f"{len(members):,} selected: {', '.join(names)}{', …' * (len(members) > len(names))}"


def series_note(length: int, shading: str, contribution: Contribution | None) -> str:
    """Return the legend of the figure of a series."""
    if shading == "attention":
        note = "Shading: the share of [CLS]'s attention that falls on each window, in the last layer."
        note += " It does not explain a prediction."
    elif contribution is None:
        note = "Contributions appear when the series are embedded and a model is fitted."
    else:
        note = f"Shading: what each stretch contributes to {contribution.target}; blue speaks against it."
    if length > drawing.LINE_POINTS:
        note += f" Drawn through the extremes of {length:,} points."
    return note


def facts(analysis: Analysis, index: int) -> str:
    """Return id, label, cluster and anomaly score of a series, as far as available."""
    collection = analysis.collection
    known = []
    if collection.ids is not None:
        known.append(collection.ids[index])
    if collection.labels is not None:
        known.append(f"label {collection.labels[index]}" if collection.labels[index] else "no label")
    if analysis.clusters is not None:
        known.append(f"cluster {analysis.clusters[index] + 1}")
    if analysis.scores is not None:
        known.append(f"anomaly score {analysis.scores[index]:.2f}")
    return " · ".join(known)


def neighbour_note(analysis: Analysis) -> str:
    """Return the legend of the neighbours' figures."""
    if analysis.points is None:
        return "appear together with the map"
    facts = "distance" if analysis.collection.labels is None else "label and distance"
    return f"{facts}; the selected series in grey, on one scale"


def cards(analysis: Analysis, index: int, channel: int) -> list[Card]:
    """Return one card per neighbour, then blank ones: the number of buttons is fixed, so that focus is kept."""
    labels, series = analysis.collection.labels, analysis.collection.series
    filled = []
    for other, distance in analysis.neighbours(index, NEIGHBOURS):
        name, label = analysis.collection.name_of(other), "" if labels is None else str(labels[other])
        content = [
            html.Img(src=drawing.sparkline(series[other][channel], series[index][channel]), alt=""),
            html.Span(name, className="name", title=name),
            html.Span(label, className="label", title=label),
            html.Span(f"{distance:.2f}", className="distance"),
        ]
        filled.append(Card(content, f"{name} {label} at distance {distance:.2f}", hidden=False))
    return filled + [Card([], "", hidden=True)] * (NEIGHBOURS - len(filled))


def _aria(**attributes: str) -> dict[str, Any]:
    return {f"aria-{name}": value for name, value in attributes.items()}
