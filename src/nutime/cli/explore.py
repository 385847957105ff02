"""``nutime explore``: series in the browser."""

from __future__ import annotations

import secrets
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nutime.access import LOOPBACK, Access
from nutime.cli.options import SHIPPED, Device, reads_series
from nutime.cli.recordings import FalseAlarmRate, Weights, read_recording, weights_or_none
from nutime.cli.shared import errors_about, load_encoder, needs_extra

if TYPE_CHECKING:
    from dash import Dash

    from nutime.batch.source import SourceOptions

Port = Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; 0 for any free one.")]
Host = Annotated[
    str, typer.Option(help="Address to listen on; by default this machine only, others need the printed token.")
]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Only print the address.")]


@reads_series
def explore(
    read: SourceOptions,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="A file of series, a folder or pattern of files with one series each, or an archive name; the "
            "page can open others. Or a recording: a table with one row per point, or one long series.",
        ),
    ] = None,
    recording: Annotated[
        bool | None,
        typer.Option(
            "--recording/--series",
            help="Whether DATA is one recording or a set of series; else one series or a long table of few "
            "columns is a recording.",
        ),
    ] = None,
    false_alarm_rate: FalseAlarmRate = 0.01,
    port: Port = 8050,
    host: Host = "127.0.0.1",
    weights: Weights = SHIPPED,
    no_browser: NoBrowser = False,
    device: Device = None,
) -> None:
    """Show series, their map, neighbours, clusters, anomalies and contributions on a local page.

    Of a recording it shows segments, anomaly scores, and the matches of a stretch.

    Example: `nutime explore measurements.csv`
    """
    from nutime.data.formats.read import holds_recording, is_many, is_series_file, read_records

    # An error in a path or column is found before torch is imported.
    if recording is None and data is not None and is_series_file(data) and not is_many(data):
        recording = holds_recording(data, **read) and "label_column" not in read  # type: ignore[misc]
    elif not recording and data is not None and (is_series_file(data) or is_many(data)):
        next(read_records(data, **read))
    given = read_recording(data, read, "explore") if recording and data else None
    with needs_extra("explore", "the page"):
        from nutime.explore.page import build_app
        from nutime.explore.recording_page import build_recording_app
    from rich.console import Console

    from nutime.explore.recording import RecordingAnalysis
    from nutime.explore.state import Analyses, open_collection

    if data is not None and given is not None:
        encoder = load_encoder(weights, device) if weights_or_none(weights) else None
        with errors_about(data):
            analysis = RecordingAnalysis(Path(data).name, given, encoder, false_alarm_rate)
        serve_page(build_recording_app(analysis), host, port, no_browser)
        return
    analyses = Analyses(load_encoder(weights, device))
    if data is not None:
        with Console(stderr=True).status(f"reading {data}"):
            analyses.open_first(open_collection(data, **read))
    serve_page(build_app(analyses), host, port, no_browser)
    analyses.close()


def serve_page(app: Dash, host: str, port: int, no_browser: bool) -> None:
    """Print the address of a page, open it in the browser, and serve it until it is interrupted."""
    from nutime.explore.page import bind

    token = None if host in LOOPBACK else secrets.token_urlsafe(16)
    server = bind(app, host, port, Access.to(host, token=token))
    address = f"http://{f'[{host}]' if ':' in host else host}:{server.port}"
    if token:
        address += f"/?token={token}"
    print(f"{address} (Ctrl-C ends it)", flush=True)
    if not no_browser:
        webbrowser.open(address)
    server.serve_forever()
