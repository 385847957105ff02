"""A model as the files that ``save`` writes, in memory: what is sent to other machines, never a pickle."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nutime.estimators import storage


def pack(model: Any) -> dict[str, bytes]:
    """Return the files of a saved model, by their paths in its folder."""
    with TemporaryDirectory() as folder:
        model.save(folder)
        files = (path for path in Path(folder).rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def unpack(files: dict[str, bytes], device: str = "auto") -> Any:
    """Load a model from what :func:`pack` returned, onto a device."""
    with TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return storage.open_model(folder, device)
