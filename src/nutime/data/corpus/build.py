"""Build a corpus from the training series of a user's sources, or from synthetic series."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Unpack

from nutime.data.corpus.repeats import RepeatFinder
from nutime.data.corpus.splits import SourceSplit, find_splits
from nutime.data.corpus.store import Corpus, CorpusWriter, PathLike, clean
from nutime.data.formats.source import ReadOptions
from nutime.data.series import Array

_log = logging.getLogger("nutime")


def build_corpus(
    sources: Sequence[PathLike],
    out: PathLike,
    *,
    data_dir: PathLike | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
    overwrite: bool = False,
    labels: PathLike | None = None,
    **options: Unpack[ReadOptions],
) -> Corpus:
    """Collect the training series of any sources, without those that repeat a test series.

    Args:
        sources: archive sets (``GunPoint``), archives (``ucr``, ``uea``, ``tfc``), sub-lists (``ucr112``),
            files of any format of :data:`nutime.data.formats.read.FORMATS`, folders of them, corpora, or glob
            patterns of files with one series each. Test and validation series are left out;
            :mod:`nutime.data.corpus.splits` describes how they are recognised.
        out: the folder to create.
        data_dir: the folder of the archives, else ``NUTIME_DATA``; its test series are held out, whether or not
            its sets are among the sources.
        report: called with the number of splits read and their total.
        overwrite: whether a corpus at ``out`` may be replaced.
        labels: a file of labels, as of :func:`~nutime.data.formats.read.read_file`: each file of a folder is one
            series. Labels are not stored.
        options: how tables among the sources are read.

    Raises:
        ValueError: one line with the source, file or series that is wrong. No folder is left behind.
    """
    splits = sorted(find_splits(sources, data_dir, labels, **options), key=lambda split: not split.held_out)
    finder = RepeatFinder()
    skipped: list[dict[str, str]] = []
    names: Counter[str] = Counter()
    with CorpusWriter(out, overwrite=overwrite) as writer:
        for done, split in enumerate(splits):  # those held out first
            report(done, len(splits))
            _log.debug("reading %s", split.place)
            if split.held_out:
                finder.hold_out(split.name, _read(split, skipped))
                continue
            names[split.name] += 1
            name = split.name if names[split.name] == 1 else f"{split.name} ({names[split.name]})"
            writer.add_clean(name, finder.drop_repeats(name, chain.from_iterable(_read(split, skipped))))
        report(len(splits), len(splits))
        if not len(writer):
            why = skipped[0]["reason"] if skipped else "every training series repeats a test series"
            raise ValueError(f"{out}: no series left to write: {why}")
        writer.note(repeats=finder.report(), skipped=skipped)
    return Corpus.open(out)


def _read(split: SourceSplit, skipped: list[dict[str, str]]) -> Iterator[Array]:
    """Iterate over the series of a split, ``(channels, length)`` each; an optional one may be missing."""
    try:
        series = iter(split.read())
        first = list(islice(series, 1))
    except ValueError as error:
        if not split.optional:
            raise
        if not split.held_out:
            skipped.append({"name": split.name, "reason": str(error)})
        return
    yield from clean(chain(first, series), split.place)


def synthesize_corpus(
    count: int, out: PathLike, *, length: int = 512, seed: int = 0, overwrite: bool = False
) -> Corpus:
    """Write a corpus of synthetic series; see :mod:`nutime.data.corpus.synthetic`."""
    from nutime.data.corpus.synthetic import stream

    with CorpusWriter(out, overwrite=overwrite) as writer:
        writer.add_clean("synthetic", chain.from_iterable(stream(count, length, seed=seed)))
    return Corpus.open(out)
