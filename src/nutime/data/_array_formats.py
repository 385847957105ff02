"""Readers of files that hold all series in one array: ``.npy``, ``.npz`` and the TF-C ``.pt``.

Nothing is unpickled that could run code, and no array is allocated before its header has been checked: shape,
type and size. ``.npy`` and ``.pt`` are mapped into memory; ``.npz`` is decompressed an array at a time.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from nutime.data._source import Record, Source, quote

npy: Any = npy_format  # numpy leaves this module untyped
MAX_ARRAY_BYTES = 2**33  # a compressed array may claim any size; more than 8 GiB is taken for an attack

SERIES_KEY = re.compile(r"X(_\w+)?")
NPY_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_npy(source: Source) -> Iterator[Record]:
    """One array ``(n, length)`` or ``(n, channels, length)``."""
    with source.decoding():
        X = npy.open_memmap(source.path, mode="r")
    return _records(source, "the array", X, None)


def read_npz(source: Source) -> Iterator[Record]:
    """Arrays ``X`` and ``y``, or ``X_train``, ``y_train``, ``X_test``, ``y_test``, or a single array.

    Any other ``X_*`` with its ``y_*`` is a set of series as well. Without a split all sets are read, in the
    order of the file.
    """
    with source.decoding(), zipfile.ZipFile(source.path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        for name in _wanted(source, names):
            labels = "y" + name.removeprefix("X")
            X = _unpack(source, archive, name)
            y = _unpack(source, archive, labels) if labels in names else None
            yield from _records(source, name, X, y)


def _wanted(source: Source, names: list[str]) -> list[str]:
    sets = [name for name in names if SERIES_KEY.fullmatch(name)] or (names if len(names) == 1 else [])
    if not sets:
        raise source.error(f"expected an array X, X_train or X_test, found only {quote(', '.join(names))}")
    if source.split is None or not any(name.startswith("X_") for name in sets):
        return sets
    if f"X_{source.split}" not in sets:
        raise source.error(f"has no X_{source.split}, only {', '.join(sets)}")
    return [f"X_{source.split}"]


def _unpack(source: Source, archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    with archive.open(f"{name}.npy") as member:
        version = npy.read_magic(member)
        if version not in NPY_HEADERS:
            raise source.error(f"{name}: npy version {version} is not supported")
        shape, _, dtype = NPY_HEADERS[version](member)
    if dtype.hasobject:
        raise source.error(f"{name}: holds pickled Python objects, which are not read; save plain numbers")
    size = dtype.itemsize * int(np.prod(shape, dtype=object))
    if size > MAX_ARRAY_BYTES:
        raise source.error(f"{name}: claims {size} bytes, the limit is {MAX_ARRAY_BYTES}")
    with archive.open(f"{name}.npy") as member:
        array: NDArray[Any] = npy.read_array(member, allow_pickle=False)
        if member.read(1):  # also makes zipfile compare the checksum, which it does at the end only
            raise source.error(f"{name}: is longer than its header says")
    return array


def read_pt(source: Source) -> Iterator[Record]:
    """The TF-C files: a dict of tensors, ``samples`` and ``labels``."""
    import torch

    with source.decoding():
        mapped = zipfile.is_zipfile(source.path)  # the older torch format cannot be mapped
        content = torch.load(source.path, map_location="cpu", weights_only=True, mmap=mapped)
        tensors = content if isinstance(content, dict) else {}
        samples, labels = tensors.get("samples"), tensors.get("labels")
        if not isinstance(samples, torch.Tensor) or not isinstance(labels, torch.Tensor | None):
            raise source.error("expected a dict with tensors 'samples' and 'labels'")
        if samples.nbytes > source.path.stat().st_size:
            raise source.error(f"samples: claims {samples.nbytes} bytes, more than the file has")
        X = samples.detach().numpy()
        y = None if labels is None else labels.detach().numpy()
    return _records(source, "samples", X, y)


def _records(source: Source, name: str, X: NDArray[Any], y: NDArray[Any] | None) -> Iterator[Record]:
    if X.dtype.kind not in "fiub":
        raise source.error(f"{name}: dtype {X.dtype} is not numeric")
    if X.ndim not in (2, 3) or 0 in X.shape:
        raise source.error(f"{name}: has shape {X.shape}, expected (n, length) or (n, channels, length)")
    if y is not None and y.shape != X.shape[:1]:
        raise source.error(f"{name}: has {len(X)} series but the labels have shape {y.shape}")
    if y is not None and y.dtype.kind not in "fiubUS":
        raise source.error(f"{name}: labels of dtype {y.dtype}, expected text or numbers")
    for index, values in enumerate(X):
        where = f"{name}: series {index}: "
        label = None if y is None else source.label(y[index], where)
        # A copy of its own, so that a series kept alive does not keep the whole array (or file) with it.
        yield Record(source.floating(np.array(np.atleast_2d(values)), where), label)
