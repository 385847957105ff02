"""A fitted estimator as a folder that any later version reads and that executes nothing.

::

    estimator.json          format, class, parameters, labels, checksums of the other files
    estimator.safetensors   the fitted state, as arrays
    encoder/                the encoder, as written by NuTime.save

The folder is complete: it depends neither on the weights the encoder came from nor on scikit-learn's version.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file
from safetensors.numpy import save as as_safetensors

from nutime.atomic import replace_folder
from nutime.checks import check_number
from nutime.data.sampling import Sampling
from nutime.devices import usable_device
from nutime.documents import checksums, one_line, part_of, read_document
from nutime.encoder import NuTime, shipped_weights
from nutime.model.config import NuTimeConfig
from nutime.model.convolutions import MAX_GROUPS
from nutime.model.reading import Reading, points_for

if TYPE_CHECKING:
    import torch


#: Raised when what is written can no longer be read by older versions.
FORMAT = 7
DOCUMENT, _ARRAYS = "estimator.json", "estimator.safetensors"
#: The folder of the encoder in a model's folder, and the file in it that has the checksum of its weights.
ENCODER = "encoder"
ENCODER_CONFIG = f"{ENCODER}/config.json"
_HOMES = {
    "NuTimeClassifier": "nutime.estimators.classifier",
    "NuTimeClusterer": "nutime.estimators.clusterer",
    "NuTimeDetector": "nutime.estimators.detector",
    "NuTimeEmbedder": "nutime.estimators.embedder",
    "NuTimeRegressor": "nutime.estimators.regressor",
}
#: Parameters by their names in format 1.
_RENAMED = {"n_models": "n_estimators", "validation": "validation_fraction", "patience": "n_iter_no_change"}
#: Parameters that are not saved: the encoder has its own folder, the others belong to the running process.
_NOT_SAVED = ("encoder", "device", "verbose")
_LABEL_KINDS = "biufUO"
_MAX_LABEL_BYTES = 2**28  # a text dtype in a damaged file may claim gigabytes per label
#: What reading a damaged document may raise.
DAMAGE = (KeyError, TypeError, ValueError, AttributeError, OverflowError)


class Storable(Protocol):
    """What :func:`save` requires of an estimator."""

    encoder_: NuTime
    reading_: Reading
    n_channels_in_: int
    _sampling: Sampling | None

    def get_params(self, deep: bool = ...) -> dict[str, Any]:
        """Return the parameters by name."""
        ...

    def _names_in(self) -> dict[str, list[str]]: ...
    def _arrays(self) -> Mapping[str, NDArray[Any]]: ...


def save(estimator: Storable, folder: str | Path) -> Path:
    """Write a fitted estimator and its encoder as ``folder``; an error leaves the folder as it was."""
    params = {
        name: _plain(value, f"parameter {name}")
        for name, value in estimator.get_params(deep=False).items()
        if name not in _NOT_SAVED
    }
    document = {
        "format": FORMAT,
        "class": type(estimator).__name__,
        "params": params,
        "n_channels_in": estimator.n_channels_in_,
        "n_features_in": getattr(estimator, "n_features_in_", None),
        "reading": asdict(estimator.reading_),
        "sampling": estimator._sampling,
        **{f"{kind}_in": names for kind, names in estimator._names_in().items()},
    }
    if hasattr(estimator, "classes_"):
        document["classes"] = encode_labels(estimator.classes_)
    if hasattr(estimator, "target_name_"):
        document["target_name"] = estimator.target_name_
    if output := getattr(estimator, "_sklearn_output_config", None):  # by set_output
        document["output"] = output
    with replace_folder(folder) as fresh:
        estimator.encoder_.save(fresh / ENCODER, decoder=False)
        write_arrays(fresh / _ARRAYS, estimator._arrays())
        document |= checksums(fresh, [_ARRAYS, ENCODER_CONFIG])
        (fresh / DOCUMENT).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return Path(folder)


def load(folder: str | Path, device: torch.device | str = "auto") -> Any:
    """Load the estimator saved in ``folder``, of any class, onto a device."""
    folder = Path(folder)
    path = part_of(folder, DOCUMENT)
    document = read_document(path, "estimator", FORMAT)
    if document["format"] < 2:
        warnings.warn(
            f"{folder}: fitted by a version that resized series without averaging; predictions for series longer "
            "than the encoder's length may differ from that version's. Fit it again",
            stacklevel=2,
        )
    arrays = read_arrays(part_of(folder, _ARRAYS, document))
    part_of(folder, ENCODER_CONFIG, document)
    encoder = NuTime.from_pretrained(folder / ENCODER).to(usable_device(device))
    try:
        home = import_module(_HOMES[document["class"]])
        params = {_RENAMED.get(name, name): _from_plain(value) for name, value in document["params"].items()}
        estimator: Any = getattr(home, document["class"])(encoder=encoder, device=device, **params)
        estimator.encoder_ = encoder
        estimator.reading_ = _reading(document, encoder.config)
        estimator._sampling = _sampling(document.get("sampling"))
        estimator.n_channels_in_ = int(document["n_channels_in"])
        if document["n_features_in"] is not None:
            estimator.n_features_in_ = int(document["n_features_in"])
        for kind in ("channel_names_in", "feature_names_in"):
            if kind in document:
                setattr(estimator, f"{kind}_", np.array([str(name) for name in document[kind]], dtype=object))
        if "classes" in document:
            estimator.classes_ = decode_labels(document["classes"])
        if "target_name" in document:
            estimator.target_name_ = str(document["target_name"])
        if "output" in document:
            estimator.set_output(**document["output"])
    except DAMAGE as error:
        raise ValueError(f"{path}: not written by nutime, or damaged ({one_line(error)})") from None
    try:
        estimator._restore(arrays)
    except DAMAGE as error:
        raise ValueError(f"{folder / _ARRAYS}: does not fit {DOCUMENT} ({one_line(error)})") from None
    return estimator


def open_model(name: str | Path, device: torch.device | str = "auto") -> Any:
    """Load an encoder by shipped name, folder or hub id, or an estimator from its folder, onto a device."""
    fitted = str(name) not in shipped_weights() and Path(name, DOCUMENT).is_file()
    return load(name, device) if fitted else NuTime.from_pretrained(name).to(usable_device(device))


def check_names(names: Any, count: int) -> None:
    """Raise ValueError unless loaded names are None or a list of ``count`` texts."""
    if names is None:
        return
    if not isinstance(names, list) or len(names) != count or not all(isinstance(name, str) for name in names):
        raise ValueError(f"names that are not those of {count} channels or recordings")


def _reading(document: dict[str, Any], config: NuTimeConfig) -> Reading:
    """Return how a saved model reads series; before format 3 its pool decided, for fine-tuned ones a fixed one."""
    if document["format"] >= 3:
        # Before format 4 all series were read by the same number of groups, before format 6 without scales,
        # before format 7 without segments.
        reading = Reading(**({"groups": MAX_GROUPS} | document["reading"]))
        if len(reading.scales) not in (0, document["n_channels_in"]):
            raise ValueError(f"{len(reading.scales)} scales of {document['n_channels_in']} channels")
        return replace(reading, scales=tuple(reading.scales)).checked(config)
    params = document["params"]
    pool = "resolutions" if params.get("strategy") == "finetune" else params["pool"]
    return Reading(pool, points_for(config, pool)).checked(config)


def _sampling(saved: Any) -> Sampling | None:
    """Return the steps and durations of the training series; before format 7 they were not saved."""
    if saved is None:
        return None
    unit, steps, durations = saved
    for smallest, largest in (steps, durations):
        check_number("sampling", smallest, f"(0, {largest}]")
        check_number("sampling", largest, "(0, inf)")
    return Sampling(str(unit), tuple(steps), tuple(durations))


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays as safetensors, readable by others: ``save_file`` would make them private to their owner."""
    path.write_bytes(as_safetensors({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read what :func:`write_arrays` wrote.

    Raises:
        ValueError: one line that names the file.
    """
    try:
        return dict(load_file(path))
    except (OSError, SafetensorError, *DAMAGE) as error:
        raise ValueError(f"{path}: not readable as safetensors ({one_line(error)})") from None


def _plain(value: Any, where: str) -> Any:
    """Return a value for JSON; a dict becomes pairs, because JSON's keys can only be text."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {"pairs": [[_plain(key, where), _plain(item, where)] for key, item in value.items()]}
    if value is None or isinstance(value, str | int | float):
        return value
    kind = type(value).__name__
    raise ValueError(f"{where} cannot be saved: {kind} is neither text, number, bool nor dict; use one of these")


def _from_plain(value: Any) -> Any:
    return dict(value["pairs"]) if isinstance(value, dict) else value


def encode_labels(labels: NDArray[Any]) -> dict[str, Any]:
    """Return labels of any type as a JSON object."""
    if labels.dtype.kind not in _LABEL_KINDS:
        raise ValueError(f"labels of dtype {labels.dtype} cannot be saved; use text, integers, bools or floats")
    return {"dtype": labels.dtype.str, "values": [_plain(label, "a label") for label in labels.tolist()]}


def decode_labels(document: dict[str, Any]) -> NDArray[Any]:
    """Return the labels of :func:`encode_labels`; what is not one raises one of :data:`DAMAGE`."""
    dtype, values = np.dtype(document["dtype"]), document["values"]
    if dtype.kind not in _LABEL_KINDS or not 0 <= dtype.itemsize * len(values) <= _MAX_LABEL_BYTES:
        raise ValueError(f"{len(values)} labels of dtype {dtype}")
    labels = np.array(values, dtype)
    if labels.ndim != 1:
        raise ValueError(f"labels of shape {labels.shape}")
    return labels
