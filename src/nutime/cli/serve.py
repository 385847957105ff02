"""``nutime serve``: a model over HTTP, by default for this machine only."""

from __future__ import annotations

import signal
import sys
from typing import Annotated, Any

import typer

from nutime.cli.options import Device
from nutime.serve.limits import Limits

DEFAULTS = Limits()
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL_DIR",
            show_default=False,
            help="Folder saved by fit, cluster or detect; or an encoder: a folder or a shipped one (nutime-base).",
        ),
    ],
    host: Annotated[str, typer.Option(help="Address to listen on; by default this machine only.")] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free one.")] = 8000,
    max_body: Annotated[int, typer.Option(min=1, metavar="BYTES", help="Largest body.")] = DEFAULTS.body_bytes,
    max_series: Annotated[int, typer.Option(min=1, help="Most series per request; channels count.")] = (
        DEFAULTS.series
    ),
    max_length: Annotated[int, typer.Option(min=1, help="Most points per series.")] = DEFAULTS.length,
    max_requests: Annotated[int, typer.Option(min=1, help="Concurrent requests; others get status 429.")] = (
        DEFAULTS.requests
    ),
    timeout: Annotated[float, typer.Option(min=0.001, metavar="SECONDS", help="Longest time for a response.")] = (
        DEFAULTS.seconds
    ),
    batch_series: Annotated[int, typer.Option(min=1, help="Series per call of the model.")] = (
        DEFAULTS.batch_series
    ),
    batch_wait: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="How long a request waits to share a batch."),
    ] = DEFAULTS.batch_seconds,
    device: Device = None,
) -> None:
    """Serve a model: POST series as JSON or Arrow to /embed, /predict or /detect, depending on the model.

    /health names the path, /openapi.json describes it, /metrics counts requests. On SIGTERM, requests in progress
    are completed.

    Example: `nutime serve model --port 8000`
    """
    try:
        import uvicorn

        from nutime.serve.app import create_app
    except ModuleNotFoundError as error:
        raise ValueError(
            f"no module {error.name!r}; install the service with: pip install 'nutime[serve]'"
        ) from None
    from nutime.devices import usable_device
    from nutime.estimators.storage import open_model

    limits = Limits(max_body, max_series, max_length, max_requests, timeout, batch_series, batch_wait)
    app = create_app(open_model(model, usable_device(device)), limits)
    config = uvicorn.Config(
        app, host, port, log_level="warning", access_log=False, timeout_graceful_shutdown=int(timeout) + 1
    )
    listening = _bind(config)
    if host not in LOOPBACK:
        print(f"nutime: everyone who can reach {host} can use the model", file=sys.stderr)
    address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
    print(f"{address}/{app.state.service.question} (Ctrl-C ends it)", flush=True)
    # uvicorn completes open requests and then raises the signal again: the exit code is 0.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        sys.exit(0)


def _bind(config: Any) -> Any:
    """Return a socket that listens on the address of a configuration."""
    import socket

    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        return socket.create_server((config.host, config.port), family=family, backlog=config.backlog)
    except OSError as error:
        raise ValueError(f"{config.host} port {config.port}: {error.strerror or error}") from None
