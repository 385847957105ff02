"""The files of a model's folder: JSON documents that state their format and the checksums of the other files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nutime.data.names import quoted

#: More than any document of ours: half a million labels fit.
MAX_BYTES = 2**24
_CHECKSUMS = "sha256"


def checksums(folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """Return what a document states about other files of its folder, so that files of two models never mix."""
    return {_CHECKSUMS: {name: _checksum(folder / name) for name in names}}


def part_of(folder: Path, name: str, document: dict[str, Any] | None = None) -> Path:
    """Return the path of a file in a model's folder.

    Args:
        folder: the folder.
        name: path of the file in it.
        document: the content of the document with its checksum; folders of older versions have none.

    Raises:
        ValueError: it is not a regular file, is a link that leaves the folder, or has another checksum.
    """
    path = folder / name
    home = folder.resolve()
    if home.parent.name == "snapshots":  # the hub's cache, whose files are links to ../../blobs
        home = home.parents[1]
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder")
    if not path.exists():
        present = quoted(sorted(os.listdir(folder))) or "nothing"
        raise ValueError(f"{path}: no such file; the folder holds {present}")
    if not path.is_file() or not path.resolve().is_relative_to(home):
        raise ValueError(f"{path}: not a file, or a link out of the folder of the model")
    stated = (document or {}).get(_CHECKSUMS)
    if stated is not None and (not isinstance(stated, dict) or stated.get(name) != _checksum(path)):
        raise ValueError(f"{path}: not the file that was saved with this model (its checksum differs)")
    return path


def has_part(folder: Path, name: str, document: dict[str, Any]) -> bool:
    """Return whether a folder has an optional file; one that its document does not list is not of the model."""
    stated = document.get(_CHECKSUMS)
    return (folder / name).exists() and (stated is None or name in stated)


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
    """Return the type and message of an error on one line: for errors whose message alone may say little."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def message_of(error: Exception | str) -> str:
    """Return the message of an error on one line; its type, if it has none."""
    return " ".join(str(error).split()) or type(error).__name__
