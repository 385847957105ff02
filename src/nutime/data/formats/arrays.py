"""Readers of files with all series in one array: ``.npy``, ``.npz`` and the TF-C ``.pt``.

No pickle that could run code is read, and the header of an array (shape, type, size) is checked before memory is
allocated for it. ``.npy`` and ``.pt`` are mapped into memory; ``.npz`` is decompressed array by array.
"""

from __future__ import annotations

import io
import math
import pickletools
import re
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from mmap import ACCESS_READ, mmap
from typing import IO, Any, Literal

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from nutime.data.formats.source import InputFile, Record, quote
from nutime.data.names import quoted

_npy: Any = npy_format  # an untyped module

_SERIES_KEY = re.compile(r"X(_\w+)?")
_LABELS_OR_IDS_KEY = re.compile(r"(y|ids)(_\w+)?")
#: Names of arrays with labels and with ids; all but the first of each may also name something else.
LABELS, _IDS = ("y", "labels", "label"), ("ids", "id")
_MAX_HEADER = 2**10  # bytes; a header may claim 4 GiB, and numpy needs seconds to parse one of 9000 blanks
_MAX_NAME = 2**9
_TORCH_MAGIC = 0x1950A86A20F9469CFC6C  # begins a file of the older torch format
_MAX_PLAIN_INTEGER = 2**12  # larger integers in a pickle are sizes, which cannot exceed that of the file
#: What a pickle of tensors may name; torch itself permits types that allocate any amount of memory.
_PICKLE_GLOBAL = re.compile(
    r"torch (\w+Storage|device)|torch\._utils _rebuild_(tensor|tensor_v2|parameter)|collections OrderedDict"
)
_NPY_HEADERS = {(1, 0): _npy.read_array_header_1_0, (2, 0): _npy.read_array_header_2_0}


def read_npy(source: InputFile) -> Iterator[Record]:
    """One array ``(n, length)`` or ``(n, channels, length)``."""
    with source.decoding():
        with source.path.open("rb") as file:
            head = io.BytesIO(file.read(_MAX_HEADER))
        shape, fortran_order, dtype = _header(source, "the array", head, source.path.stat().st_size)
        order: Literal["F", "C"] = "F" if fortran_order else "C"
        X: NDArray[Any] = np.memmap(source.path, dtype, "r", head.tell(), shape, order)
        if source.is_recording and X.ndim in (1, 2):
            X = np.atleast_2d(X)[None]
    _check(source, "the array", X, None)
    return _records(source, "the array", X, None)


def read_npz(source: InputFile) -> Iterator[Record]:
    """Arrays ``X``, ``y`` and ``ids``, or ``X_train``, ``y_train``, ``X_test``, ``y_test``.

    Any other ``X_*`` with its ``y_*`` and ``ids_*`` is a set of series as well, and so is an array of another name
    that is alone, apart from labels and ids. Without a split all sets are read, in the order of the file.
    ``labels``, ``label`` and ``id`` mean the same as ``y`` and ``ids`` if they have one cell per series.
    """
    with source.decoding(), zipfile.ZipFile(source.path) as archive:
        sets = _series_arrays(source, archive)
        ids = [_partner(source, archive, _IDS, name) for name in sets]
        if None in ids and (present := next(filter(None, ids), None)):
            missing = f"ids{_suffix(sets[ids.index(None)])}"
            raise source.error(f"has {present} but no {missing}; give the ids of all series")
        for name, key in zip(sets, ids, strict=True):
            X, y = read_set(source, archive, name)
            yield from _records(source, name, X, y, _read_ids(source, archive, key, len(X)) if key else None)


def array_names(archive: zipfile.ZipFile) -> list[str]:
    """Return the names of the arrays of an ``.npz`` file."""
    return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def read_set(source: InputFile, archive: zipfile.ZipFile, name: str) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return an array of series of an ``.npz`` file, and its labels if there are any."""
    labels = _partner(source, archive, LABELS, name)
    X = _unpack(source, archive, name)
    y = None if labels is None else _unpack(source, archive, labels)
    _check(source, name, X, y)
    return X, y


def _read_ids(source: InputFile, archive: zipfile.ZipFile, key: str, count: int) -> NDArray[Any]:
    ids = _unpack(source, archive, key)
    if ids.shape != (count,) or ids.dtype.kind not in "iuU":
        raise source.error(f"{key}: has dtype {ids.dtype}, shape {ids.shape}; expected {count} texts or integers")
    if (ids == "").any():
        raise source.error(f"{key}: the id of a series is missing")
    return ids


def _partner(source: InputFile, archive: zipfile.ZipFile, kinds: tuple[str, ...], name: str) -> str | None:
    """Return the name of the array with the labels or ids of an array of series, None without one."""
    names, suffix = array_names(archive), _suffix(name)
    surely, *perhaps = (kind + suffix for kind in kinds)
    if surely in names:
        return surely
    count = _shape(source, archive, name)[:1]
    return next((key for key in perhaps if key in names and _shape(source, archive, key) == count), None)


def _suffix(name: str) -> str:
    return name[1:] if _SERIES_KEY.fullmatch(name) else ""


def _series_arrays(source: InputFile, archive: zipfile.ZipFile) -> list[str]:
    names = array_names(archive)
    sets = [name for name in names if _SERIES_KEY.fullmatch(name)]
    rest = [name for name in names if name not in (*LABELS, *_IDS)]
    sets = sets or (rest if len(rest) == 1 else [])
    if not sets:
        raise source.error(f"expected an array X, X_train or X_test, found only {quote(', '.join(names))}")
    known = {*sets, *(_partner(source, archive, kinds, name) for name in sets for kinds in (LABELS, _IDS))}
    others = [name for name in names if name not in known]
    suffix = _suffix(sets[0])
    own = f"the labels of {sets[0]} are named y{suffix}, its ids ids{suffix}"
    if stray := next(filter(_LABELS_OR_IDS_KEY.fullmatch, others), None):
        raise source.error(f"{stray}: has no array of series of this name; {own}")
    if others:
        source.notes.append(f"{source.name}: left out {quoted(others)}; {own}")
    if source.split is None or not any(name.startswith("X_") for name in sets):
        return sets
    if f"X_{source.split}" not in sets:
        raise source.error(f"has no X_{source.split}, only {', '.join(sets)}")
    return [f"X_{source.split}"]


def _unpack(source: InputFile, archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    _header(source, name, _head(source, archive, name), archive.getinfo(f"{name}.npy").file_size)
    with archive.open(f"{name}.npy") as member:
        array: NDArray[Any] = _npy.read_array(member, allow_pickle=False)
        if member.read(1):  # zipfile compares the checksum only at the end
            raise source.error(f"{name}: is longer than its header says")
    return array


def _head(source: InputFile, archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    source.check_expansion(sum(member.file_size for member in archive.infolist()))
    with archive.open(f"{name}.npy") as member:
        return io.BytesIO(member.read(_MAX_HEADER))


def _shape(source: InputFile, archive: zipfile.ZipFile, name: str) -> tuple[int, ...]:
    """Return the shape in the header of an array; the array may have another."""
    head = _head(source, archive, name)
    shape: tuple[int, ...] = _NPY_HEADERS[_npy.read_magic(head)](head)[0]
    return shape


def _header(
    source: InputFile, name: str, head: IO[bytes], size: int
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type of an array if ``size`` bytes, including the header, can hold it."""
    version = _npy.read_magic(head)
    if version not in _NPY_HEADERS:
        raise source.error(f"{name}: npy version {version} is not supported")
    shape, fortran_order, dtype = _NPY_HEADERS[version](head)
    if dtype.hasobject:
        raise source.error(f"{name}: holds pickled Python objects, which are not read; save plain numbers")
    claimed = dtype.itemsize * math.prod(shape)
    if min(shape, default=0) < 0 or claimed > size:
        raise source.error(f"{name}: claims {claimed} bytes in shape {shape}, more than the file has")
    return shape, fortran_order, dtype


def read_pt(source: InputFile) -> Iterator[Record]:
    """The TF-C files: a dict of tensors, ``samples`` and ``labels``."""
    import torch

    with source.decoding():
        mapped = zipfile.is_zipfile(source.path)  # the older torch format cannot be mapped
        _check_pickles(source, mapped)
        content = torch.load(source.path, map_location="cpu", weights_only=True, mmap=mapped)
        tensors = content if isinstance(content, dict) else {}
        samples, labels = tensors.get("samples"), tensors.get("labels")
        if not isinstance(samples, torch.Tensor) or not isinstance(labels, torch.Tensor | None):
            raise source.error("expected a dict with tensors 'samples' and 'labels'")
        if samples.nbytes > source.path.stat().st_size:
            raise source.error(f"samples: claims {samples.nbytes} bytes, more than the file has")
        X = samples.detach().numpy()
        y = None if labels is None else labels.detach().numpy()
    _check(source, "samples", X, y)
    return _records(source, "samples", X, y)


def _check_pickles(source: InputFile, zipped: bool) -> None:
    """Refuse pickles that name more than tensors, have long names (slow to refuse in torch) or claim sizes."""
    stored = source.path.stat().st_size
    pickles: list[Any]
    with ExitStack() as stack:
        if zipped:
            archive = stack.enter_context(zipfile.ZipFile(source.path))
            members = archive.infolist()
            source.check_expansion(sum(member.file_size for member in members))
            pickles = [
                stack.enter_context(archive.open(member)) for member in members if member.filename.endswith(".pkl")
            ]
        else:  # a number, a version, a description, the tensors, and the keys of their values
            file = stack.enter_context(source.path.open("rb"))
            # Mapped, because a read of a file allocates as many bytes as the pickle claims.
            pickles = [stack.enter_context(closing(mmap(file.fileno(), 0, access=ACCESS_READ)))] * 5
        for stream in pickles:
            for code, value, _ in pickletools.genops(stream):
                if isinstance(value, str) and len(value) > _MAX_NAME:
                    raise source.error(f"names something by {len(value)} characters, as no file of tensors does")
                if code.name in ("STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4") or (
                    code.name == "GLOBAL" and not _PICKLE_GLOBAL.fullmatch(str(value))
                ):
                    raise source.error(f"names {quote(str(value or code.name))}, which is no part of a tensor")
                if type(value) is int and value > max(stored, _MAX_PLAIN_INTEGER) and value != _TORCH_MAGIC:
                    raise source.error(f"claims a size of {value}, more than the file has")


def _check(source: InputFile, name: str, X: NDArray[Any], y: NDArray[Any] | None) -> None:
    if X.dtype.kind not in "fiub":
        raise source.error(f"{name}: dtype {X.dtype} is not numeric")
    if X.ndim not in (2, 3) or 0 in X.shape:
        raise source.error(f"{name}: has shape {X.shape}, expected (n, length) or (n, channels, length)")
    if y is not None and y.shape != X.shape[:1]:
        raise source.error(f"{name}: has {len(X)} series but the labels have shape {y.shape}")
    if y is not None and y.dtype.kind not in "fiubUS":
        raise source.error(f"{name}: labels of dtype {y.dtype}, expected text or numbers")


def _records(
    source: InputFile, name: str, X: NDArray[Any], y: NDArray[Any] | None, ids: NDArray[Any] | None = None
) -> Iterator[Record]:
    for index, values in enumerate(X):
        where = f"{name}: series {index}: "
        label = None if y is None else source.label(y[index])
        identity = None if ids is None else str(ids[index])
        source.check_text(len(identity or ""))
        # A copy, so that one series does not keep the whole array (or file) in memory.
        yield Record(source.floating(np.array(np.atleast_2d(values)), where), label, identity)
