"""``nutime serve``: a model over HTTP, on this machine only by default."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from nutime.access import Access
from nutime.cli.options import Device
from nutime.cli.shared import needs_extra
from nutime.serve.limits import Limits

DEFAULTS = Limits()


def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL_DIR|NAME=MODEL_DIR…",
            help="Folder saved by fit, cluster or detect; or an encoder: a folder or a shipped one (nutime-base). "
            "Several models have names: NAME=MODEL_DIR.",
        ),
    ],
    host: Annotated[str, typer.Option(help="Address to listen on; by default this machine only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free one.")] = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Also accept this name in the Host header, e.g. behind a proxy; repeatable."),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(envvar="NUTIME_TOKEN", help="Bearer token of every request; required beyond loopback."),
    ] = None,
    max_body: Annotated[int, typer.Option(min=1, metavar="BYTES", help="Largest body.")] = DEFAULTS.body_bytes,
    max_series: Annotated[int, typer.Option(min=1, help="Most series per request; channels count.")] = (
        DEFAULTS.series
    ),
    max_length: Annotated[int, typer.Option(min=1, help="Most points per series.")] = DEFAULTS.length,
    max_points: Annotated[int, typer.Option(min=1, help="Most values per request.")] = DEFAULTS.points,
    max_requests: Annotated[int, typer.Option(min=1, help="Requests in progress; more are answered 429.")] = (
        DEFAULTS.requests
    ),
    max_connections: Annotated[int, typer.Option(min=1, help="Open connections; more are answered 503.")] = (
        DEFAULTS.connections
    ),
    timeout: Annotated[float, typer.Option(min=0.001, metavar="SECONDS", help="Longest time for a response.")] = (
        DEFAULTS.seconds
    ),
    header_timeout: Annotated[
        float, typer.Option(min=0.001, metavar="SECONDS", help="Longest time for the headers of a request.")
    ] = DEFAULTS.header_seconds,
    batch_series: Annotated[int, typer.Option(min=1, help="Series per call of the model.")] = (
        DEFAULTS.batch_series
    ),
    batch_wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long a request waits for others to join it.")
    ] = DEFAULTS.batch_seconds,
    device: Device = None,
) -> None:
    """Serve a model over HTTP: POST series as JSON or Arrow to /embed, /predict or /detect, as fits the model.

    Several models, NAME=MODEL_DIR each, are at /models/NAME/predict and so on.
    /docs describes the endpoints. SIGTERM or Ctrl-C lets requests in progress finish.

    Example: `nutime serve model --port 8000`
    """
    folders = _by_name(models)
    access = Access.to(host, allow_host or (), token)
    with needs_extra("serve", "the service"):
        from nutime.serve.server import run
    from nutime.devices import usable_device
    from nutime.estimators.storage import open_model

    limits = Limits(
        body_bytes=max_body,
        series=max_series,
        length=max_length,
        points=max_points,
        requests=max_requests,
        seconds=timeout,
        batch_series=batch_series,
        batch_seconds=batch_wait,
        connections=max_connections,
        header_seconds=header_timeout,
    )
    opened = {name: open_model(folder, usable_device(device)) for name, folder in folders.items()}
    run(opened, host, port, limits, access)


def _by_name(models: list[str]) -> dict[str, str]:
    """Return the folders of models by name; a single model may have none."""
    if len(models) == 1 and ("=" not in models[0] or Path(models[0]).exists()):
        return {"": models[0]}
    pairs = [re.fullmatch(r"(\w[\w.-]*)=(.+)", model, re.ASCII) for model in models]
    folders = {pair[1]: pair[2] for pair in pairs if pair}
    if len(folders) < len(models):
        raise typer.BadParameter(
            "several models need different names, each NAME=MODEL_DIR", param_hint="MODEL_DIR"
        )
    return folders
