"""Making a corpus: from what a user has, without what must be held out, or from nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import TypeAlias

from nutime.data.corpus.repeats import RepeatFinder
from nutime.data.corpus.splits import SourceSplit, find_splits
from nutime.data.corpus.store import Corpus, CorpusWriter, PathLike, clean
from nutime.data.series import Array

#: Says what is being read; called once for every set.
Progress: TypeAlias = Callable[[str], object]


def build_corpus(
    sources: Sequence[PathLike],
    out: PathLike,
    *,
    data_dir: PathLike | None = None,
    progress: Progress | None = None,
    overwrite: bool = False,
) -> Corpus:
    """Collect the training series of any sources, without those that repeat a test series.

    Args:
        sources: archive sets (``GunPoint``), archives (``ucr``, ``uea``, ``tfc``), sub-lists (``ucr112``),
            files of any format of :data:`nutime.data.formats.read.FORMATS`, folders of them, or corpora. Test
            and validation series never enter; see :mod:`nutime.data.corpus.splits` for how they are told apart.
        out: the folder to create.
        data_dir: the folder of the archives, or else ``NUTIME_DATA``; its test series count, whether or not
            its sets are among the sources.
        progress: called with the name of each set before it is read.
        overwrite: whether a corpus at ``out`` may be replaced.

    Raises:
        ValueError: one line saying which source, file or series is wrong. No folder is left behind.
    """
    splits = find_splits(sources, data_dir)
    report = progress or (lambda name: None)
    finder = RepeatFinder()
    skipped: list[dict[str, str]] = []
    names: Counter[str] = Counter()
    with CorpusWriter(out, overwrite=overwrite) as writer:
        for split in splits:
            if split.held_out:
                report(f"test series of {split.name}")
                finder.hold_out(split.name, _read(split, skipped))
        for split in splits:
            if not split.held_out:
                report(split.name)
                names[split.name] += 1
                name = split.name if names[split.name] == 1 else f"{split.name} ({names[split.name]})"
                writer.add_clean(name, finder.drop_repeats(name, chain.from_iterable(_read(split, skipped))))
        if not len(writer):
            why = skipped[0]["reason"] if skipped else "every training series repeats a test series"
            raise ValueError(f"{out}: no series left to write: {why}")
        writer.note(repeats=finder.report(), skipped=skipped)
    return Corpus.open(out)


def _read(split: SourceSplit, skipped: list[dict[str, str]]) -> Iterator[Array]:
    """Read a split, ``(channels, length)`` a series; one that need not be there is noted if it is not."""
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
    """Write a corpus of series drawn from nothing; see :mod:`nutime.data.corpus.synthetic`."""
    from nutime.data.corpus.synthetic import stream

    with CorpusWriter(out, overwrite=overwrite) as writer:
        writer.add_clean("synthetic", chain.from_iterable(stream(count, length, seed=seed)))
    return Corpus.open(out)
