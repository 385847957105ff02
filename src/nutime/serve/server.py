"""The HTTP server of the service: uvicorn, with limits on connections that it does not have itself."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from typing import Any, ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from nutime.access import Access
from nutime.serve.app import create_app
from nutime.serve.limits import Limits

_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
    b'connection: close\r\ncontent-length: 33\r\n\r\n{"detail":"too many connections"}'
)
_BUSY = object()


def run(model: Any, host: str, port: int, limits: Limits, access: Access) -> None:
    """Serve models until SIGINT or SIGTERM; requests in progress are finished before the process exits.

    The addresses are printed once connections are accepted.
    """
    app = create_app(model, limits, access)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        http=type("BoundedProtocol", (_BoundedProtocol,), {"limits": limits}),
        ws="none",
        timeout_graceful_shutdown=int(limits.seconds) + 1,
    )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=config.backlog)
    except OSError as error:
        raise ValueError(f"{host} port {port}: {error.strerror or error}") from None
    # Connections inherit it; asyncio sets it on its own sockets only. Without it a body waits 40 ms for the
    # acknowledgement of its headers.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
    for served in app.state.service.models.values():
        print(f"{address}{served.path} (Ctrl-C ends it)", flush=True)
    # After a graceful stop uvicorn raises the signal again, which is then a normal exit.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        sys.exit(0)


class _BoundedProtocol(H11Protocol):
    limits: ClassVar[Limits]

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None
        if len(self.connections) > self.limits.connections:
            transport.write(_FULL)
            transport.close()
        else:
            self._check_headers(_BUSY)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer:
            self._timer.cancel()
        super().connection_lost(exc)

    def _check_headers(self, last: object) -> None:
        """Close the connection if it still waits for the headers that it waited for at the last check."""
        waits_for = self.cycle if self.conn.their_state is h11.IDLE else _BUSY
        if waits_for is last is not _BUSY:
            self.transport.close()
        else:
            self._timer = self.loop.call_later(self.limits.header_seconds / 2, self._check_headers, waits_for)
