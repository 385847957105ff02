"""Annotators and indexes as folders: ``NAME.json``, its arrays in ``NAME.safetensors``, and ``encoder/``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nutime.atomic import replace_folder
from nutime.devices import usable_device
from nutime.documents import checksums, part_of, read_document
from nutime.encoder import NuTime
from nutime.estimators.storage import ENCODER, ENCODER_CONFIG, read_arrays, write_arrays

#: Raised when what is written can no longer be read by older versions.
FORMAT = 1


def write_folder(
    folder: str | Path,
    name: str,
    document: Mapping[str, Any],
    arrays: dict[str, NDArray[Any]],
    encoder: NuTime | None,
) -> Path:
    """Write a folder with checksums of its files; an error leaves the folder as it was."""
    with replace_folder(folder) as fresh:
        files = [f"{name}.safetensors"]
        write_arrays(fresh / files[0], arrays)
        if encoder is not None:
            encoder.save(fresh / ENCODER, decoder=False)
            files.append(ENCODER_CONFIG)
        text = json.dumps({"format": FORMAT, **document, **checksums(fresh, files)}, indent=2)
        (fresh / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
    return Path(folder)


def read_folder(folder: Path, name: str, device: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]], Any]:
    """Return document, arrays and encoder of a folder, None for an encoder that the document denies."""
    document = read_document(part_of(folder, f"{name}.json"), name, FORMAT)
    arrays = read_arrays(part_of(folder, f"{name}.safetensors", document))
    if not document.get("encoder", True):
        return document, arrays, None
    part_of(folder, ENCODER_CONFIG, document)
    return document, arrays, NuTime.from_pretrained(folder / ENCODER).to(usable_device(device))
