"""Who may call a local server: checks of host name, origin and bearer token, shared by the service and the page.

Another web site can make a browser send requests to this machine: under a name of its own that it points here (DNS
rebinding, which the ``Host`` header reveals), or across origins (which the ``Origin`` header reveals).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self
from urllib.parse import urlsplit

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"(?:\[(?P<ipv6>[0-9a-fA-F:.]+)\]|(?P<name>[^:\[\]/@\s]+))(?::\d{1,5})?")


class Refusal(NamedTuple):
    """The HTTP status and the reason for a request that is not answered."""

    status: int
    reason: str


@dataclass(frozen=True)
class Access:
    """Rules that every request must follow.

    Attributes:
        hosts: accepted names in the ``Host`` header, in lower case; None accepts all.
        token: the bearer token that every request must carry; None for no token.
    """

    hosts: frozenset[str] | None
    token: str | None = None

    @classmethod
    def to(cls, address: str, allow_hosts: Iterable[str] = (), token: str | None = None) -> Self:
        """Return the rules of a server that listens on an address.

        On loopback the host names of loopback and ``allow_hosts`` are accepted. On any other address a token is
        required; all host names are accepted unless ``allow_hosts`` are given.
        """
        if address not in LOOPBACK and not token:
            raise ValueError(
                f"{address} can be reached by other machines: a token is required, by --token or NUTIME_TOKEN"
            )
        if token is not None and not re.fullmatch(r"[!-~]+", token):
            raise ValueError("the token must be printable ASCII without spaces")
        named = frozenset(name.lower() for name in allow_hosts)
        if not named and address not in LOOPBACK:
            return cls(None, token)
        return cls(named | {*LOOPBACK, address}, token)

    def refusal(self, headers: Mapping[str, str]) -> Refusal | None:
        """Return why a request with these headers is refused, or None; names are looked up in lower case."""
        host = headers.get("host", "")
        match = _HOST.fullmatch(host)
        name = (match["ipv6"] or match["name"]).lower() if match else None
        if name is None or (self.hosts is not None and name not in self.hosts):
            return Refusal(400, f"host {host[:80]!r} is not served here; use --allow-host to accept it")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return Refusal(403, "requests from pages of other origins are not answered")
        if self.token is not None:
            given = headers.get("authorization", "").encode()
            if not hmac.compare_digest(given, f"Bearer {self.token}".encode()):
                return Refusal(401, "expected the header 'Authorization: Bearer TOKEN' with this server's token")
        return None
