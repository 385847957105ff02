"""``nutime explore``: series in the browser."""

from __future__ import annotations

import secrets
import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer

from nutime.access import LOOPBACK, Access
from nutime.cli.options import SHIPPED, Device, Weights, reads_series

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
            "page can open others.",
        ),
    ] = None,
    port: Port = 8050,
    host: Host = "127.0.0.1",
    weights: Weights = SHIPPED,
    no_browser: NoBrowser = False,
    device: Device = None,
) -> None:
    """Show series, their map, neighbours, clusters, anomalies and contributions on a local page.

    Example: `nutime explore measurements.csv`
    """
    from nutime.data.formats.read import is_many, is_series_file, read_records

    if data is not None and (is_series_file(data) or is_many(data)):
        next(read_records(data, **read))  # an error in a path or column is found before torch is imported
    try:
        from nutime.explore.page import build_app
    except ModuleNotFoundError as error:
        raise ValueError(
            f"no module {error.name!r}; install the page with: pip install 'nutime[explore]'"
        ) from None
    from rich.console import Console

    from nutime.devices import usable_device
    from nutime.encoder import NuTime
    from nutime.explore.state import Analyses, open_collection

    analyses = Analyses(NuTime.from_pretrained(weights).to(usable_device(device)))
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
