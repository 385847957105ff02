"""Dropout and other randomness as a pure function of (seed, site, row, column).

An integer hash (``hashing.py``) takes the place of a random generator. Therefore

* a sample has the same dropout mask in any batch and process and on any device;
* a fused kernel recomputes the mask in its backward pass instead of storing it;
* dropout needs a :class:`Noise` argument, and there is no train/eval mode.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field

import torch
from torch import Tensor

from nutime.model.hashing import decide, hash32, kept_factor

HAS_TRITON = importlib.util.find_spec("triton") is not None
_SITES = 32  # keys computed together
_BEGIN, _SHARE, _MIXTURE, _WAVES = 1003, 1004, 1005, (1006, 1007, 1008)  # beyond the sites of dropout


@dataclass(frozen=True)
class Noise:
    """The randomness of one forward pass.

    Attributes:
        seed: an int32 scalar, new for every step; or one that broadcasts against ``rows``.
        rows: ``(batch,)`` int32 identifiers of the samples, independent of batch and device.
    """

    seed: Tensor
    rows: Tensor
    _known: dict[int, Tensor] = field(default_factory=dict, init=False, repr=False)

    def row_keys(self, site: int) -> Tensor:
        """Return an int32 key for every row, different at every ``site`` of the network."""
        if torch.compiler.is_compiling():
            return hash32(self.rows ^ hash32(hash32(self.seed) + site))
        first = site - site % _SITES
        if first not in self._known:  # one operation for many sites
            sites = torch.arange(first, first + _SITES, dtype=torch.int32, device=self.rows.device)
            sites = sites.view(-1, *[1] * max(self.rows.dim(), self.seed.dim()))
            self._known[first] = hash32(self.rows ^ hash32(hash32(self.seed) + sites))
        return self._known[first][site - first]

    def uniform(self, site: int) -> Tensor:
        """Return one float64 in [0, 1) for every row."""
        return (self.row_keys(site).double() + 2.0**31) * 2.0**-32

    def stretch(self, smallest: float) -> tuple[Tensor, Tensor]:
        """Return the start and the share of a random crop per row, as arguments of ``data.crops.crop``."""
        return self.uniform(_BEGIN), smallest + (1 - smallest) * self.uniform(_SHARE)

    def warp(self) -> Tensor:
        """Return ``(rows, waves)`` random amplitudes, the argument ``warp`` of ``data.crops.crop``."""
        return torch.stack([2 * self.uniform(site) - 1 for site in _WAVES], dim=-1)

    def mixture(self) -> Tensor:
        """Return the share of each row in its mixture with another one, in (0.5, 1], mostly close to 1."""
        return 1 - self.uniform(_MIXTURE).square() / 2

    def drop(self, x: Tensor, rate: float, site: int) -> Tensor:
        """Apply dropout to ``(batch, ...)``."""
        if rate == 0:
            return x
        if x.is_cuda and HAS_TRITON and not torch.compiler.is_compiling():
            # The compiler fuses the lines below; without it each would be a kernel.
            from nutime.model.drop_kernel import drop

            return drop(x, self.row_keys(site), rate)
        columns = torch.arange(x[0].numel(), dtype=torch.int32, device=x.device).view(x.shape[1:])
        keys = self.row_keys(site).view(-1, *[1] * (x.dim() - 1))
        return x * kept_factor(decide(keys + columns), rate, x.dtype)
