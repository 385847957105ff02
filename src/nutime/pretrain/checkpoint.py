"""Checkpoints that survive crashes: safetensors files, written atomically, with a checksum in the header."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from nutime.atomic import replace_file

_CHECKSUM = "sha256"


def save_checkpoint(folder: Path, step: int, state: Mapping[str, Tensor], keep: int = 3) -> Path:
    """Write the state of ``step`` and remove all but the newest ``keep`` checkpoints.

    Raises:
        OSError: the disk is full or not writable; existing checkpoints are unchanged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    path = folder / f"step-{step:09d}.safetensors"
    with replace_file(path) as file:
        file.write(save(tensors, {_CHECKSUM: _checksum(tensors)}))
    for old in checkpoints(folder)[keep:]:
        old.unlink(missing_ok=True)
    return path


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, newest first."""
    return sorted(folder.glob("step-*.safetensors"), reverse=True)


def load_newest(folder: Path) -> dict[str, Tensor] | None:
    """Return the newest undamaged state, or None; a damaged one is skipped with a warning."""
    for path in checkpoints(folder):
        try:
            return _load(path)
        except (OSError, SafetensorError, ValueError) as error:
            warnings.warn(f"{path}: damaged, using the previous one ({error})", stacklevel=2)
    return None


def _load(path: Path) -> dict[str, Tensor]:
    with safe_open(path, framework="pt") as file:
        expected = (file.metadata() or {}).get(_CHECKSUM)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    if _checksum(tensors) != expected:
        raise ValueError("checksum differs")
    return tensors


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
