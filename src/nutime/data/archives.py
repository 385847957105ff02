"""Published archives by name: the official size of each set, and where to find its files.

Every split that is loaded is checked against ``archives.csv``, so that a partial file is never taken for the
official one. A set found in the user's folder is never completed from another place.

The search order is ``data_dir`` (or the folder named by ``NUTIME_DATA``), the sets bundled with aeon, and the
cache (``NUTIME_CACHE``, else ``~/.cache/nutime``), which aeon fills by download. A folder may hold the
published layouts, directly or one level down (``UCRArchive_2018/Coffee/Coffee_TRAIN.tsv``), TF-C's
``FD-B/train.pt``, or ``ucr/Coffee.npz``, ``uea/Libras.npz``, ``extra/HAR.npz`` with arrays
``X_train, y_train, X_test, …``.

Origin of the numbers in ``archives.csv``:

* UCR: ``DataSummary.csv`` of the 2018 release. Its training splits add up to the paper's 60,555 series. For
  sets of unequal length, ``length`` is the width of the published table.
* UEA: ``DataDimensions.csv`` of the release and, where that differs from the files, the files: DuckDuckGeese
  50/50, ERing 30/270, HandMovementDirection 160/74, InsectWingbeat 25,000/25,000. Split by channel, 28 sets
  have the paper's 1,386,874 training series: all but EigenWorms and InsectWingbeat.
* TF-C: Zhang et al. 2022 and Appendix A of the paper; HAR and FD-A as in TS-TCC (Eldele et al. 2021). A cell
  is blank where nothing is published or, for the length of Gesture, where two values are published.
* ``other_train`` is a second size in circulation that is accepted: MelbournePedestrian with six series
  more than the release, HAR including its validation split.
* ``sublists``: the sets of the paper's result tables. The "41" few-shot sets are 40 in its table, and their
  mean is the average printed there.
"""

from __future__ import annotations

import csv
import difflib
import importlib.util
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, overload
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from nutime.atomic import replace_folder
from nutime.data.formats.arrays import array_names, read_set
from nutime.data.formats.source import InputFile
from nutime.data.series import Array

_Labels: TypeAlias = NDArray[np.str_]
_Folder: TypeAlias = str | os.PathLike[str]

#: Suffixes of the published formats, the preferred one first.
EXTENSIONS = (".ts", ".tsv", ".txt", ".arff")
_SIZES = ("train", "val", "test", "channels", "length", "classes", "other_train")
_NPZ_FOLDERS = {"ucr": "ucr", "uea": "uea", "tfc": "extra"}


class Part(NamedTuple):
    """One split. ``X`` is ``(n, length)`` or ``(n, channels, length)``, NaN-padded; labels are strings."""

    X: Array
    y: _Labels


class Dataset(NamedTuple):
    """Training and test split of a set, in the form of :class:`Part`."""

    X_train: Array
    y_train: _Labels
    X_test: Array
    y_test: _Labels

    def __repr__(self) -> str:
        classes = len(np.unique(self.y_train))
        return f"Dataset(X_train {self.X_train.shape}, X_test {self.X_test.shape}, {classes} classes)"


class Availability(NamedTuple):
    """The sets that are complete on this machine, and for each of the others the reason why it is not."""

    complete: tuple[str, ...]
    missing: dict[str, str]


@dataclass(frozen=True)
class ArchiveSet:
    """Official sizes of one set; 0 where none is published."""

    key: str
    archive: str
    train: int
    val: int
    test: int
    channels: int
    length: int
    classes: int
    equal_length: bool
    other_train: int
    sublists: tuple[str, ...]

    @property
    def name(self) -> str:
        """The published name. It differs from ``key`` only where two archives share a name."""
        return self.key.rpartition("/")[2]


def _read_table() -> dict[str, ArchiveSet]:
    text = resources.files("nutime.data").joinpath("archives.csv").read_text("utf-8")
    return {
        row["key"]: ArchiveSet(
            key=row["key"],
            archive=row["archive"],
            equal_length=row["equal_length"] == "1",
            sublists=tuple(row["sublists"].split()),
            **{column: int(row[column] or 0) for column in _SIZES},
        )
        for row in csv.DictReader(text.splitlines())
    }


#: Every known set by its key: the published name, prefixed by the archive where the name alone is ambiguous.
ARCHIVE: Mapping[str, ArchiveSet] = MappingProxyType(_read_table())


def find_set(name: str) -> ArchiveSet:
    """Return the set called ``name``: ``"GunPoint"``, or ``"uea/Epilepsy"`` with its archive in front.

    Raises:
        ValueError: unknown (with the closest names) or shared by two archives (with both keys).
    """
    if name in ARCHIVE:
        return ARCHIVE[name]
    archive, _, bare = name.rpartition("/")
    namesakes = (entry for entry in ARCHIVE.values() if entry.name == bare)
    candidates = [entry for entry in namesakes if archive in ("", entry.archive)]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise ValueError(f"{name!r} names several sets: use {' or '.join(entry.key for entry in candidates)}")
    by_lower_case = {key.lower(): key for key in ARCHIVE}
    closest = difflib.get_close_matches(name.lower(), by_lower_case, n=3, cutoff=0)
    suggestions = ", ".join(by_lower_case[match] for match in closest)
    raise ValueError(f"no archive has a set called {name!r}; closest names: {suggestions}")


def sublist(name: str) -> tuple[str, ...]:
    """Return the keys of a benchmark's sets: ``ucr112 ucr125 ucr128 uea26 uea29 uea30 fewshot41``."""
    members = tuple(key for key, entry in ARCHIVE.items() if name in entry.sublists)
    if not members:
        known = sorted({label for entry in ARCHIVE.values() for label in entry.sublists})
        raise ValueError(f"no sub-list is called {name!r}; known are {', '.join(known)}")
    return members


def bundled_sets(channels: int | None = None) -> tuple[str, ...]:
    """Return the keys of the sets bundled with aeon (none without aeon), which need no download."""
    folder = _bundled_folder()
    entries = (entry for entry in ARCHIVE.values() if channels in (None, entry.channels))
    return tuple(entry.key for entry in entries if folder and _files_in(folder, entry))


@overload
def load_dataset(name: str, *, split: None = None, data_dir: _Folder | None = None) -> Dataset: ...
@overload
def load_dataset(name: str, *, split: str, data_dir: _Folder | None = None) -> Part: ...
def load_dataset(name: str, *, split: str | None = None, data_dir: _Folder | None = None) -> Dataset | Part:
    """Load an archive set by name, from disk if it is there, else by download.

    Args:
        name: a name :func:`find_set` understands.
        split: None for train and test together; ``"train"``, ``"test"`` or ``"val"`` for one of them;
            ``"unsplit"`` for a file that only has ``X`` and ``y`` (see :func:`draw_splits`); or the name of any
            other split, whose arrays are ``X_name`` and ``y_name`` in an ``.npz`` file.
        data_dir: the folder to search first; the environment variable ``NUTIME_DATA`` if not given.

    Raises:
        ValueError: one line with the set and split that is unknown, missing or of the wrong size, and the
            remedy.
    """
    entry = find_set(name)
    files = _locate(entry, data_dir) or _download(entry, data_dir)
    if split is not None:
        return _load(entry, split, files)
    return Dataset(*_load(entry, "train", files), *_load(entry, "test", files))


def available(names: Iterable[str], data_dir: _Folder | None = None) -> Availability:
    """Find the sets with complete train and test splits on disk, without downloading.

    Every set is read once, so that a file of the wrong size counts as missing.
    """
    local_folder(data_dir)  # a folder that does not exist is one mistake, not one per set
    complete, missing = [], {}
    for name in names:
        entry = find_set(name)
        try:
            files = _locate(entry, data_dir)
            if not files:
                raise ValueError(f"{entry.key}: not found in {_searched(data_dir)}")
            for split in ("train", "test"):
                _load(entry, split, files)
        except ValueError as error:
            missing[name] = str(error)
        else:
            complete.append(name)
    return Availability(tuple(complete), missing)


def draw_splits(y: NDArray[Any], sizes: Sequence[int], seed: int) -> tuple[NDArray[np.intp], ...]:
    """Draw disjoint stratified index sets of the given sizes, which must add up to ``len(y)``.

    For sets whose official order is lost: TF-C's EMG is 204 windows to be split 122/41/41. Scores on such a
    split are comparable to published ones only as a mean over several seeds, and should be reported as such.
    """
    from sklearn.model_selection import train_test_split

    if sum(sizes) != len(y):
        raise ValueError(f"sizes {tuple(sizes)} add up to {sum(sizes)}, expected the {len(y)} labels given")
    rest, parts = np.arange(len(y)), []
    for size in sizes[:-1]:
        part, rest = train_test_split(rest, train_size=size, stratify=y[rest], random_state=seed)
        parts.append(part)
    return (*parts, rest)


def local_folder(data_dir: _Folder | None) -> Path | None:
    """Return the user's data folder: ``data_dir``, else the one named by ``NUTIME_DATA``, else None."""
    given = data_dir or os.environ.get("NUTIME_DATA")
    if not given:
        return None
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise ValueError(f"data folder {folder} does not exist; correct data_dir or NUTIME_DATA")
    return folder


def _bundled_folder() -> Path | None:
    spec = importlib.util.find_spec("aeon")  # aeon takes seconds to import; its folder is enough
    locations = spec.submodule_search_locations if spec else None
    return Path(locations[0], "datasets", "data") if locations else None


def _cache_folder() -> Path:
    return Path(os.environ.get("NUTIME_CACHE") or "~/.cache/nutime").expanduser()


def _searched(data_dir: _Folder | None) -> str:
    local, others = local_folder(data_dir), f"the sets bundled with aeon or {_cache_folder()}"
    return f"{local}, {others}" if local else f"{others} (NUTIME_DATA is not set)"


def _locate(entry: ArchiveSet, data_dir: _Folder | None) -> dict[str, Path]:
    """Return the file of each split, all from the first folder that holds anything of the set."""
    for folder in (local_folder(data_dir), _bundled_folder(), _cache_folder()):
        if folder and (files := _files_in(folder, entry)):
            return files
    return {}


def _files_in(folder: Path, entry: ArchiveSet) -> dict[str, Path]:
    for npz in (folder / _NPZ_FOLDERS[entry.archive] / f"{entry.name}.npz", folder / f"{entry.name}.npz"):
        if npz.is_file():
            return dict.fromkeys(_npz_splits(npz), npz)
    if entry.archive == "tfc":
        names = {split: [f"{split}.pt"] for split in ("train", "val", "test")}
    else:
        names = {
            split: [f"{entry.name}_{split.upper()}{extension}" for extension in EXTENSIONS]
            for split in ("train", "test")
        }
    for home in (folder / entry.name, *sorted(folder.glob(f"*/{entry.name}"))):
        files = {}
        for split, choices in names.items():
            if path := next((home / name for name in choices if (home / name).is_file()), None):
                files[split] = path
        if files:
            return files
    return {}


def _npz_splits(path: Path) -> list[str]:
    with _open_npz(path) as (source, archive):
        names = array_names(archive)
        splits = [name.removeprefix("X_") for name in names if name.startswith("X_")]
        splits += ["unsplit"] if "X" in names else []
        if not splits:
            raise source.error("has no array X, X_train or X_test; replace it")
    return splits


@contextmanager
def _open_npz(path: Path) -> Iterator[tuple[InputFile, ZipFile]]:
    source = InputFile(path)
    with source.decoding(), ZipFile(path) as archive:
        yield source, archive


def _load(entry: ArchiveSet, split: str, files: dict[str, Path]) -> Part:
    if split not in files:
        present, path = next(iter(files.items()))
        raise ValueError(
            f"{entry.key}: no {split} split in {path if path.suffix == '.npz' else path.parent}, only "
            f"{', '.join(files)}; add the official file there, or load split={present!r}"
        )
    path = files[split]
    part = _read_npz(path, split) if path.suffix == ".npz" else _read_published(path)
    _check_size(entry, split, part, path)
    short = entry.length - part.X.shape[-1]
    if short <= 0:
        return part
    # Both splits of a set of unequal lengths are padded to the width of the published table.
    return Part(np.pad(part.X, [(0, 0)] * (part.X.ndim - 1) + [(0, short)], constant_values=np.nan), part.y)


def _read_npz(path: Path, split: str) -> Part:
    suffix = "" if split == "unsplit" else f"_{split}"
    with _open_npz(path) as (source, archive):
        X, y = read_set(source, archive, f"X{suffix}")
        if y is None:
            raise source.error(f"has X{suffix} but no y{suffix}; expected labels beside the series")
        labels = y.astype(np.str_)
    return Part(X[:, 0] if X.ndim == 3 and X.shape[1] == 1 else X, labels)


def _read_published(path: Path) -> Part:
    from nutime.data.formats.read import read_file

    table = read_file(path)
    if table.labels is None or "" in table.labels:
        raise ValueError(f"{path}: has no labels; expected an archive file with a class for every series")
    return Part(_dense(table.series, path), table.labels)


def _dense(series: Sequence[Array], path: Path) -> Array:
    """Stack ``(channels, length)`` series, padded with NaN; one channel loses its axis."""
    shape = (len(series), max(len(values) for values in series), max(values.shape[1] for values in series))
    InputFile(path).check_expansion(8 * math.prod(shape))
    X = np.full(shape, np.nan, np.result_type(*{values.dtype for values in series}))
    for row, values in zip(X, series, strict=True):
        row[: len(values), : values.shape[1]] = values
    return X[:, 0] if X.shape[1] == 1 else X


def _check_size(entry: ArchiveSet, split: str, part: Part, path: Path) -> None:
    """Compare a split with the official sizes that are published."""
    stack = part.X if part.X.ndim == 3 else part.X[:, None]
    counts = _official_counts(entry, split)
    known = np.flatnonzero(np.isfinite(stack).any(axis=(0, 1)))
    length = int(known[-1]) + 1 if known.size else 0  # a published table may be wider than its series
    right_length = length == entry.length if entry.equal_length else length <= entry.length
    if (
        (len(stack) in counts or not counts)
        and stack.shape[1] == entry.channels
        and (right_length or not entry.length)
    ):
        return
    count = " or ".join(map(str, sorted(counts))) or "any number of"
    bound = "" if entry.equal_length else "at most "
    raise ValueError(
        f"{entry.key} {split}: found {len(stack)} series, {len(part.y)} labels, {stack.shape[1]} channel(s), "
        f"length {length}; expected {count} series, {entry.channels} channel(s), length "
        f"{bound}{entry.length or 'any'}; replace {path}, which is partial or another release"
    )


def _official_counts(entry: ArchiveSet, split: str) -> set[int]:
    """Return the accepted numbers of series; empty where none is published."""
    parts = {"train": entry.train, "val": entry.val, "test": entry.test}
    if split == "unsplit":
        return {sum(parts.values())} if all(parts.values()) else set()
    accepted = {parts.get(split, 0)} | ({entry.other_train} if split == "train" else set())
    return accepted - {0}


def _download(entry: ArchiveSet, data_dir: _Folder | None) -> dict[str, Path]:
    """Download a set into the cache by aeon; the cache never holds half a set."""
    advice = "put its files into a folder and name it by data_dir or NUTIME_DATA"
    where = f"{entry.key}: not found in {_searched(data_dir)}"
    if entry.archive == "tfc":
        raise ValueError(f"{where}; TF-C sets cannot be downloaded by name: {advice}")
    try:
        from aeon.datasets import load_classification
    except ImportError:
        raise ValueError(f"{where}; the download needs nutime[archives]; install that, or {advice}") from None
    cache = _cache_folder()
    try:
        with replace_folder(cache / entry.name) as fresh:
            load_classification(entry.name, split="train", extract_path=str(fresh))
            for file in (fresh / entry.name).iterdir():
                file.rename(fresh / file.name)
            (fresh / entry.name).rmdir()
    except Exception as error:  # aeon raises any type of error of the network, the server or the file
        reason = " ".join(str(error).split())
        raise ValueError(f"{where}; the download failed ({reason}); {advice}") from error
    return _files_in(cache, entry)
