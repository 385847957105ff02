"""The series a training step draws from: the whole corpus on the device, or a part of it that is renewed.

Unusual here: a corpus too large for the device is not read batch by batch. A random part of it lies on the
device, drawn with the wanted shares of sources; the next part is gathered by a thread while steps run on this
one, and then copied over it in place, so that captured graphs stay valid. Which series are in which part
depends on the seed alone.
"""

from __future__ import annotations

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

# Sites of the noise beyond any dropout's.
_SOURCE, _MEMBER = 1001, 1002


@dataclass(frozen=True)
class Pool:
    """Series on the training device, ordered by source.

    Attributes:
        series: all of them.
        first: ``(sources,)`` the index of each source's first series.
        count: ``(sources,)`` how many series it has.
        share: ``(sources,)`` cumulative probability of drawing from it, ending in 1.
    """

    series: FlatSeries
    first: Tensor
    count: Tensor
    share: Tensor

    def to(self, device: torch.device | str) -> Pool:
        """Copy to a device."""
        return Pool(self.series.to(device), self.first.to(device), self.count.to(device), self.share.to(device))

    def draw(self, noise: Noise) -> Tensor:
        """Choose one series for every row of the noise."""
        source = torch.searchsorted(self.share, noise.uniform(_SOURCE), right=True)
        source = source.clamp(max=len(self.share) - 1)
        count = self.count[source]
        member = (noise.uniform(_MEMBER) * count).long()
        return self.first[source] + torch.minimum(member, count - 1)


def source_shares(counts: NDArray[np.int64], sampling: Sampling) -> NDArray[np.float64]:
    """Return how often each source is drawn from: by its size, the root of it, or all alike."""
    power = {"size": 1.0, "sqrt": 0.5, "uniform": 0.0}[sampling]
    weights = counts.astype(np.float64) ** power
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares


class ResidentPool:
    """The whole corpus, on the device once and for all."""

    def __init__(self, corpus: Corpus, sampling: Sampling, device: torch.device) -> None:
        counts = np.array([source.count for source in corpus.sources])
        self.pool = Pool(
            corpus.flat(),
            torch.tensor([source.first for source in corpus.sources]),
            torch.from_numpy(counts),
            torch.from_numpy(source_shares(counts, sampling).cumsum()),
        ).to(device)

    def prepare(self, step: int) -> None:
        """Nothing to do: every step finds all series."""

    def close(self) -> None:
        """Nothing to stop."""


class StreamingPool:
    """A part of the corpus at a time, renewed after ``steps_a_part`` steps."""

    def __init__(
        self,
        corpus: Corpus,
        sampling: Sampling,
        device: torch.device,
        *,
        part_values: int,
        batch: int,
        seed: int,
    ) -> None:
        self._corpus, self._seed, self._part_values = corpus, seed, part_values
        self._first = np.array([source.first for source in corpus.sources])
        self._counts = np.array([source.count for source in corpus.sources])
        self._shares = source_shares(self._counts, sampling)
        longest = max(1, corpus.longest)
        if longest > part_values:
            raise ValueError(f"a part of {part_values} values cannot hold the longest series, {longest} points")
        mean_length = sum(source.values for source in corpus.sources) / len(corpus)
        self._part_series = max(1, int(part_values / mean_length))
        self._steps_a_part = max(1, self._part_series // batch)
        room = self._part_series
        self.pool = Pool(
            FlatSeries(
                torch.zeros(part_values, device=device),
                torch.zeros(room, dtype=torch.int64, device=device),
                torch.ones(room, dtype=torch.int64, device=device),
            ),
            torch.zeros(1, dtype=torch.int64, device=device),
            torch.ones(1, dtype=torch.int64, device=device),
            torch.ones(1, dtype=torch.float64, device=device),
        )
        self._thread = ThreadPoolExecutor(1, "nutime-corpus")
        self._current = -1
        self._next: tuple[int, Future[FlatSeries]] | None = None

    def prepare(self, step: int) -> None:
        """Have the part that belongs to ``step`` on the device, and the following one on its way."""
        part = step // self._steps_a_part
        if part == self._current:
            return
        if self._next is None or self._next[0] != part:
            self._next = part, self._thread.submit(self._gather, part)
        gathered = self._next[1].result()
        series = self.pool.series
        for place, new in (
            (series.values, gathered.values),
            (series.starts, gathered.starts),
            (series.lengths, gathered.lengths),
        ):
            place[: len(new)].copy_(new, non_blocking=True)
        self.pool.count.fill_(len(gathered))
        self._current = part
        self._next = part + 1, self._thread.submit(self._gather, part + 1)

    def close(self) -> None:
        """Stop the gathering thread."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _gather(self, part: int) -> FlatSeries:
        rng = np.random.default_rng([self._seed, part])
        source = rng.choice(len(self._shares), self._part_series, p=self._shares)
        chosen = self._first[source] + rng.integers(self._counts[source])
        lengths = self._corpus.lengths(chosen)
        fitting = int(np.searchsorted(lengths.cumsum(), self._part_values, side="right"))
        return self._corpus.take(np.sort(chosen[:fitting]))


def pool_for(
    corpus: Corpus, sampling: Sampling, device: torch.device, *, batch: int, seed: int, room: int | None = None
) -> ResidentPool | StreamingPool:
    """Put the corpus on the device if it fits into ``room`` bytes (a good half of them), else stream it."""
    room = room or _free_memory(device) * 6 // 10
    total = sum(source.values for source in corpus.sources)
    if 4 * total + 16 * len(corpus) <= room:
        return ResidentPool(corpus, sampling, device)
    return StreamingPool(corpus, sampling, device, part_values=room // 8, batch=batch, seed=seed)


def _free_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    import os

    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
