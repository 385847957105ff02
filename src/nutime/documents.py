"""JSON files that state which format they are written in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_document(path: Path, what: str, newest: int) -> dict[str, Any]:
    """Read a JSON object whose ``format`` is at most ``newest``.

    Raises:
        ValueError: one line that names the file: unreadable, not ours, or written by a later version.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"{path}: not a readable {what} ({reason})") from None
    version = document.get("format") if isinstance(document, dict) else None
    if not isinstance(version, int) or version < 1:
        raise ValueError(f"{path}: states no format version; expected a folder written by nutime")
    if version > newest:
        raise ValueError(f"{path}: format {version} is newer than this nutime reads ({newest}); update nutime")
    return dict(document)
