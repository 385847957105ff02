"""Checkpoints that survive crashes: written aside, flushed, renamed; checked when read; a few kept.

Unusual here: a checkpoint is one safetensors file whose header carries the checksum of its tensors, so that it
is either whole and proven or not used at all. Nothing in it is executed on loading.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

_CHECKSUM = "sha256"


def save_checkpoint(folder: Path, step: int, state: Mapping[str, Tensor], keep: int = 3) -> Path:
    """Write the state of ``step`` and remove all but the newest ``keep`` checkpoints.

    Raises:
        OSError: the disk is full or not writable; checkpoints already there are left as they were.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    path = folder / f"step-{step:09d}.safetensors"
    partial = path.with_suffix(".partial")
    try:
        with partial.open("wb") as file:
            file.write(save(tensors, {_CHECKSUM: _checksum(tensors)}))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    for old in checkpoints(folder)[keep:]:
        old.unlink(missing_ok=True)
    return path


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, newest first."""
    return sorted(folder.glob("step-*.safetensors"), reverse=True)


def load_newest(folder: Path) -> dict[str, Tensor] | None:
    """Return the newest state that is whole, or None; a damaged one is passed over with a warning."""
    for path in checkpoints(folder):
        try:
            return _load(path)
        except (OSError, SafetensorError, ValueError) as error:
            warnings.warn(f"{path}: damaged, using the one before ({error})", stacklevel=2)
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
