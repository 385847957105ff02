"""JSON files that state which format they are written in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: More than any document of ours: half a million labels fit.
MAX_BYTES = 2**24


def read_document(path: Path, what: str, newest: int) -> dict[str, Any]:
    """Read a JSON object whose ``format`` is at most ``newest``.

    Raises:
        ValueError: one line that names the file: unreadable, not ours, or written by a later version.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES} bytes")
        document = json.loads(content.decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a readable {what} ({one_line(error)})") from None
    version = document.get("format") if isinstance(document, dict) else None
    if not isinstance(version, int) or version < 1:
        raise ValueError(f"{path}: states no format version; expected a folder written by nutime")
    if version > newest:
        raise ValueError(f"{path}: format {version} is newer than this nutime reads ({newest}); update nutime")
    return dict(document)


def one_line(error: Exception) -> str:
    """Return what someone else's error says, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
