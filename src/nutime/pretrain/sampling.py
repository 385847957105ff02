"""Drawing training series from a corpus on the device.

A corpus too large for the device is streamed: a random subset, drawn with the requested shares of sources, is
resident at any time. A thread gathers the next subset during training and copies it in place, so that captured
graphs stay valid. The seed alone determines which series are in which subset.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nutime.data.corpus.store import Corpus
from nutime.data.crops import FlatSeries
from nutime.model.noise import Noise

Sampling = Literal["size", "sqrt", "uniform"]

_SOURCE_SITE, _MEMBER_SITE = 1001, 1002  # beyond the sites of dropout


@dataclass(frozen=True)
class Sampler:
    """Series on the training device, ordered by source.

    Attributes:
        series: their values.
        first: ``(sources,)`` index of the first series of each source.
        count: ``(sources,)`` number of series of each source.
        share: ``(sources,)`` cumulative probability of the sources, ending in 1.
    """

    series: FlatSeries
    first: Tensor
    count: Tensor
    share: Tensor

    def to(self, device: torch.device | str) -> Sampler:
        """Copy to a device."""
        return Sampler(self.series.to(device), self.first.to(device), self.count.to(device), self.share.to(device))

    def draw(self, noise: Noise) -> Tensor:
        """Choose one series for every row of the noise."""
        source = torch.searchsorted(self.share, noise.uniform(_SOURCE_SITE), right=True)
        source = source.clamp(max=len(self.share) - 1)
        count = self.count[source]
        member = (noise.uniform(_MEMBER_SITE) * count).long()
        return self.first[source] + torch.minimum(member, count - 1)


def source_shares(counts: NDArray[np.int64], sampling: Sampling) -> NDArray[np.float64]:
    """Return the probability of each source: proportional to its size, to the root of it, or uniform."""
    power = {"size": 1.0, "sqrt": 0.5, "uniform": 0.0}[sampling]
    weights = counts.astype(np.float64) ** power
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares


class ResidentCorpus:
    """The whole corpus, resident on the device."""

    def __init__(self, corpus: Corpus, sampling: Sampling, device: torch.device) -> None:
        counts = np.array([source.count for source in corpus.sources])
        self.sampler = Sampler(
            corpus.flat(),
            torch.tensor([source.first for source in corpus.sources]),
            torch.from_numpy(counts),
            torch.from_numpy(source_shares(counts, sampling).cumsum()),
        ).to(device)

    def prepare(self, step: int) -> None:
        """Do nothing: all series are resident."""

    def corpus_indices(self, drawn: Tensor) -> list[int]:
        """Return the position in the corpus of series that the sampler drew."""
        return drawn.tolist()

    def close(self) -> None:
        """Do nothing: there is no thread to stop."""


class StreamedCorpus:
    """A random subset of the corpus, replaced after a fixed number of steps."""

    def __init__(
        self,
        corpus: Corpus,
        sampling: Sampling,
        device: torch.device,
        *,
        subset_values: int,
        batch: int,
        seed: int,
    ) -> None:
        self._corpus, self._seed, self._subset_values = corpus, seed, subset_values
        self._first = np.array([source.first for source in corpus.sources])
        self._counts = np.array([source.count for source in corpus.sources])
        self._shares = source_shares(self._counts, sampling)
        longest = max(1, corpus.longest)
        if longest > subset_values:
            raise ValueError(f"a subset of {subset_values} values cannot hold a series of {longest} points")
        mean_length = sum(source.values for source in corpus.sources) / len(corpus)
        self._subset_series = max(1, int(subset_values / mean_length))
        self._steps_per_subset = max(1, self._subset_series // batch)
        self.sampler = Sampler(
            FlatSeries(
                torch.zeros(subset_values, device=device),
                torch.zeros(self._subset_series, dtype=torch.int64, device=device),
                torch.ones(self._subset_series, dtype=torch.int64, device=device),
            ),
            torch.zeros(1, dtype=torch.int64, device=device),
            torch.ones(1, dtype=torch.int64, device=device),
            torch.ones(1, dtype=torch.float64, device=device),
        )
        self._thread = ThreadPoolExecutor(1, "nutime-corpus")
        self._current = -1
        self._next: tuple[int, Future[FlatSeries]] | None = None

    def prepare(self, step: int) -> None:
        """Make the subset of ``step`` resident and start gathering the next one."""
        subset = step // self._steps_per_subset
        if subset == self._current:
            return
        if self._next is None or self._next[0] != subset:
            self._next = subset, self._thread.submit(self._gather, subset)
        gathered = self._next[1].result()
        for resident, new in zip(vars(self.sampler.series).values(), vars(gathered).values(), strict=True):
            resident[: len(new)].copy_(new, non_blocking=True)
        self.sampler.count.fill_(len(gathered))
        self._current = subset
        self._next = subset + 1, self._thread.submit(self._gather, subset + 1)

    def corpus_indices(self, drawn: Tensor) -> list[int]:
        """Return the position in the corpus of series that the sampler drew from the resident subset."""
        indices: list[int] = self._choose(self._current)[drawn.cpu().numpy()].tolist()
        return indices

    def close(self) -> None:
        """Stop the gathering thread."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _gather(self, subset: int) -> FlatSeries:
        return self._corpus.take(self._choose(subset))

    def _choose(self, subset: int) -> NDArray[np.int64]:
        """Return the series of a subset, as many as fit, in the order of the corpus."""
        rng = np.random.default_rng([self._seed, subset])
        source = rng.choice(len(self._shares), self._subset_series, p=self._shares)
        chosen = self._first[source] + rng.integers(self._counts[source])
        fitting = int(np.searchsorted(self._corpus.lengths(chosen).cumsum(), self._subset_values, side="right"))
        return np.sort(chosen[:fitting])


def load_corpus(
    corpus: Corpus, sampling: Sampling, device: torch.device, *, batch: int, seed: int, budget: int | None = None
) -> ResidentCorpus | StreamedCorpus:
    """Load the corpus onto the device if it fits into ``budget`` bytes (60 % of free memory), else stream it."""
    if budget is None:
        budget = _free_memory(device) * 6 // 10
    total = sum(source.values for source in corpus.sources)
    if 4 * total + 16 * len(corpus) <= budget:
        return ResidentCorpus(corpus, sampling, device)
    return StreamedCorpus(corpus, sampling, device, subset_values=budget // 8, batch=batch, seed=seed)


def _free_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
