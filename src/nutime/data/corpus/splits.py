"""Which series of a user's sources may be trained on, and which are held out.

Names decide, before any value is read; where they are ambiguous, the series are held out. ``Name_TEST``,
``val.pt``, files below a folder ``test`` and every array ``X_…`` other than ``X_train`` are held out. So is a
labelled ``.npz`` without splits that has the name of an evaluation set, because an evaluation draws its test
series from it.

A published folder (``Coffee/Coffee_TRAIN.ts``) may hold the same series in several formats, and again by
channel (``ERingDimension2_TRAIN.arff``) or padded (``JapaneseVowels_eq_TRAIN.ts``); they are read once.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Unpack

import numpy as np

from nutime.data.archives import ARCHIVE, EXTENSIONS, find_set, load_dataset, sublist
from nutime.data.corpus.store import CORPUS_INDEX, Corpus, CorpusSource, PathLike
from nutime.data.formats.arrays import LABELS, array_names, read_npz
from nutime.data.formats.read import FORMATS, TABLES, is_many, is_series_file, read_records, series_suffix
from nutime.data.formats.source import InputFile, ReadOptions
from nutime.data.series import Array

_HELD_OUT = ("test", "val", "valid", "validation")
_MARKED = re.compile(rf"(?:(?P<set>.+)[_-])?(?P<split>train|{'|'.join(_HELD_OUT)})", re.IGNORECASE)
_ARCHIVES = frozenset(entry.archive for entry in ARCHIVE.values())
#: Names of sets that an evaluation may draw its test series from.
_EVALUATED = frozenset(entry.name for entry in ARCHIVE.values() if entry.test)
#: The folder of the UCR archive with second, padded versions of fifteen sets.
_PADDED = "Missing_value_and_variable_length_datasets_adjusted"
_CHUNK_SIZE = 4096  # series of a corpus
#: Formats that are also used for documentation.
_PROSE = (".csv", ".txt")


@dataclass(frozen=True)
class SourceSplit:
    """Series that are either trained on or held out.

    Attributes:
        name: of the set they belong to.
        place: the file, and the array in it where there are several.
        held_out: whether they are excluded from training.
        read: opens them; ``(length,)`` or ``(channels, length)`` each, NaN where a value is missing.
        optional: whether they may be missing.
    """

    name: str
    place: str
    held_out: bool
    read: Callable[[], Iterable[Array]]
    optional: bool = False


def find_splits(
    sources: Sequence[PathLike],
    data_dir: PathLike | None = None,
    labels: PathLike | None = None,
    **options: Unpack[ReadOptions],
) -> list[SourceSplit]:
    """List the splits of the sources, each file once, and those held out in ``data_dir``.

    The arguments are those of :func:`~nutime.data.corpus.build.build_corpus`.

    Raises:
        ValueError: a source is unknown or has nothing to train on.
    """
    if not sources:
        raise ValueError("no source given; expected archive names, files or folders")
    found: dict[str, SourceSplit] = {}
    for source in sources:
        splits = list(_of_source(source, data_dir, labels, options))
        if all(split.held_out for split in splits):
            known = f"no file with one of the suffixes {', '.join(FORMATS)}"
            holds = "only test and validation series, or a benchmark without a split" if splits else known
            raise ValueError(f"{source}: nothing to train on; it holds {holds}")
        found |= {split.place: split for split in splits}
    home = data_dir or os.environ.get("NUTIME_DATA")
    beside = _of_path(Path(home).expanduser(), {}) if home else ()
    found |= {split.place: split for split in beside if split.held_out}
    return list(found.values())


def _of_source(
    source: PathLike, data_dir: PathLike | None, labels: PathLike | None, options: ReadOptions
) -> Iterator[SourceSplit]:
    if is_many(source) and (labels is not None or not Path(source).is_dir()):
        records = partial(read_records, source, labels=labels, **options)
        return iter([SourceSplit(str(source), str(source), False, lambda: _values(records()))])
    if not isinstance(source, str):
        return _of_path(Path(source), options)
    if source in _ARCHIVES:
        return _of_sets([key for key, entry in ARCHIVE.items() if entry.archive == source], data_dir)
    if any(source in entry.sublists for entry in ARCHIVE.values()):
        return _of_sets(sublist(source), data_dir)
    try:
        return _of_sets([find_set(source).key], data_dir)
    except ValueError as error:
        path = Path(source).expanduser()
        if not path.exists():
            raise ValueError(f"{source}: no such file or folder, and {error}") from None
        return _of_path(path, options)


def _of_sets(keys: Sequence[str], data_dir: PathLike | None) -> Iterator[SourceSplit]:
    """List the splits of archive sets; in a list of several, a set may be missing."""
    for key in keys:
        for split in ("train", "test"):
            yield SourceSplit(
                name=key,
                place=f"{key} ({split})",
                held_out=split == "test",
                read=partial(_read_set, key, split, data_dir),
                optional=split == "test" or len(keys) > 1,
            )


def _read_set(key: str, split: str, data_dir: PathLike | None) -> Array:
    return load_dataset(key, split=split, data_dir=data_dir).X


def _of_path(path: Path, options: ReadOptions) -> Iterator[SourceSplit]:
    if not path.exists():
        raise ValueError(f"{path}: no such file or folder")
    if (path / CORPUS_INDEX).is_file():
        return _of_corpus(path)
    return _of_folder(path, options) if path.is_dir() else _of_file(path, PurePosixPath(), options)


def _of_corpus(path: Path) -> Iterator[SourceSplit]:
    """List the sources of a corpus: one corpus may be merged into another."""
    corpus = Corpus.open(path)

    def read(source: CorpusSource) -> Iterator[Array]:
        for first in range(source.first, source.first + source.count, _CHUNK_SIZE):
            last = min(first + _CHUNK_SIZE, source.first + source.count)
            part = corpus.take(slice(first, last))
            yield from np.split(part.values.numpy(), part.starts.numpy()[1:])

    for source in corpus.sources:
        yield SourceSplit(source.name, f"{path.resolve()}[{source.name}]", False, partial(read, source))


def _of_folder(root: Path, options: ReadOptions) -> Iterator[SourceSplit]:
    for folder, below, names in os.walk(root, followlinks=True):
        below[:] = sorted(name for name in below if not name.startswith(".") and name != _PADDED)
        home = Path(folder)
        files = [home / name for name in sorted(names) if is_series_file(name) and not name.startswith(".")]
        for path in _without_copies(home, files):
            for split in _of_file(path, PurePosixPath(home.relative_to(root)), options):
                prose = path.suffix.lower() in _PROSE and not _MARKED.fullmatch(_stem(path))
                yield replace(split, optional=prose)


def _without_copies(home: Path, files: list[Path]) -> list[Path]:
    """Leave out the second copies in a published folder."""
    official = re.compile(rf"{re.escape(home.name)}(Dimension\d+|_eq)?_(TRAIN|TEST)")
    chosen: dict[str, Path] = {}
    for path in sorted(files, key=lambda path: EXTENSIONS.index(path.suffix) if path.suffix in EXTENSIONS else 99):
        match = official.fullmatch(_stem(path))
        if match and not match[1]:
            chosen.setdefault(match[2], path)
    if not chosen:
        return files
    return [path for path in files if path in chosen.values() or not official.fullmatch(_stem(path))]


def _of_file(path: Path, home: PurePosixPath, options: ReadOptions) -> Iterator[SourceSplit]:
    """List the splits of a file; ``home`` is its folder relative to the source."""
    options = options if series_suffix(path) in TABLES else {}
    stem = _stem(path)
    own, held_out = stem, any(part.lower() in _HELD_OUT for part in home.parts)
    if marked := _MARKED.fullmatch(stem):
        own = marked["set"] or path.resolve().parent.name
        held_out |= marked["split"].lower() in _HELD_OUT
    name = str(home if home.name == own else home / own)
    place = str(path.resolve())
    if path.suffix.lower() != ".npz":
        yield SourceSplit(name, place, held_out, lambda: _values(read_records(path, **options)))
        return
    with InputFile(path).decoding(), zipfile.ZipFile(path) as archive:
        arrays = array_names(archive)
    sets = [array for array in arrays if array.startswith("X_")]
    for array in sets:
        read = partial(_read_array, path, array.removeprefix("X_"))
        yield SourceSplit(name, f"{place}[{array}]", held_out or array != "X_train", read)
    if not sets:
        undivided = own in _EVALUATED and not set(LABELS).isdisjoint(arrays)
        yield SourceSplit(name, place, held_out or undivided, partial(_read_array, path, None))


def _read_array(path: Path, split: str | None) -> Iterator[Array]:
    return _values(read_npz(InputFile(path, split)))


def _values(records: Iterable[Any]) -> Iterator[Array]:
    return (record.values for record in records)


def _stem(path: Path) -> str:
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem
