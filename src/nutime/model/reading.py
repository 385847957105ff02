"""How a series becomes a vector: the points it is resized to, the pool, and the pieces of a long series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nutime.checks import check_number
from nutime.model.config import NuTimeConfig
from nutime.model.convolutions import (
    GROUPS,
    MAX_GROUPS,
    MAX_POINTS,
    SEGMENTS,
    convolution_groups,
    convolution_points,
    convolution_size,
)

#: A number of points; ``auto``: it follows the length of the series; or None: the network's own.
Length: TypeAlias = int | Literal["auto"] | None

AUTO: Literal["auto"] = "auto"
#: ``[CLS]``; the mean of the window tokens; both; both and the standard deviation of the tokens, after every layer
#: of the upper half (``upper``) or after all layers (``layers``); ``upper`` at three resolutions.
NETWORK_POOLS = ("cls", "mean", "cls+mean", "upper", "layers", "resolutions")
_CONVOLUTIONS = "+conv"  # after the name of a pool: with the features of random convolutions
#: The pools of which ``auto`` is one: for series of about the network's length, and for longer ones.
AUTO_POOLS = (f"upper{_CONVOLUTIONS}", f"resolutions{_CONVOLUTIONS}")
POOLS = NETWORK_POOLS + AUTO_POOLS
#: Points of the input averaged into one point of each resolution; the middle one has the network's own length.
RESOLUTIONS = (1, 4, 16)
#: Series above this multiple of the network's length are worth the work of all its points and of three
#: resolutions; others are read once with half of its points.
SEVERAL_RESOLUTIONS_FROM = 0.4
#: Series above this multiple of the network's length are read in pieces as well as whole. If more samples than
#: this are averaged into one point, a warning is logged.
PIECES_FROM = 16
#: Points that the pieces of a series have together at most, as a multiple of the network's length.
MAX_PIECES = 128
_MAX_WINDOWS = 2**14


@dataclass(frozen=True)
class Reading:
    """How series are read; it decides the number of values of an embedding.

    Attributes:
        pool: what the network's tokens become, one of :data:`NETWORK_POOLS`.
        length: points of a series, or of a piece, that the network reads.
        pieces: into how many equal pieces a series is cut, to be read beside the whole; 0 for the whole alone.
        convolved: points of a series that random convolutions read; 0 for the network alone.
        groups: of random kernels.
        scales: the unit of each of several channels for convolutions: the median standard deviation of the series
            that the reading was chosen for. Empty: each channel of a series has its own scale.
        segments: of each of several channels, whose means are read beside the convolutions.
    """

    pool: str
    length: int
    pieces: int = 0
    convolved: int = 0
    groups: int = GROUPS
    scales: tuple[float, ...] = ()
    segments: int = 0

    @classmethod
    def choose(cls, config: NuTimeConfig, pool: str, length: Length, series: Sequence[NDArray[Any]]) -> Reading:
        """Return the reading for series of different lengths, of which the median counts.

        Args:
            config: the network.
            pool: one of :data:`POOLS`, or ``auto``: ``upper+conv``, or ``resolutions+conv`` for series longer
                than :data:`SEVERAL_RESOLUTIONS_FROM` times the network's length if the network is one that reads
                them so.
            length: None: the network's own length, or that of the finest resolution; with pool ``auto`` half of it
                for short series; ``auto``: the same, and series of more than :data:`PIECES_FROM` times the
                network's length in pieces as well; or the exact number of points that whole series are resized to.
            series: ``(channels, length)`` each.
        """
        typical: float
        if length is None or length == AUTO:
            typical = median(values.shape[-1] for values in series)
        else:
            check_number("length", length, f"[1, {_MAX_WINDOWS * config.window}]", integer=True)
            typical = length
        short = False
        if pool == AUTO:
            short = typical <= SEVERAL_RESOLUTIONS_FROM * config.length
            pool = AUTO_POOLS[config.resolutions > 1 and not short]
        check_pool(pool)
        convolved = convolution_points(typical) if pool in AUTO_POOLS else 0
        groups = convolution_groups(len(series[0]))
        several = convolved and len(series[0]) > 1
        scales, segments = (_channel_scales(series), SEGMENTS) if several else ((), 0)
        pool = pool.removesuffix(_CONVOLUTIONS)
        if length is not None and length != AUTO:
            return cls(pool, int(length), 0, convolved, groups, scales, segments).checked(config)
        own, pieces = points_for(config, pool), 0
        if short:
            own = math.ceil(own / 2 / config.window) * config.window
        if length == AUTO and typical > PIECES_FROM * config.length:
            pieces = min(MAX_PIECES * config.length // own, math.ceil(typical / own))
        return cls(pool, own, pieces, convolved, groups, scales, segments)

    def checked(self, config: NuTimeConfig) -> Reading:
        """Return the reading if a network can read so; otherwise raise a ValueError."""
        check_pool(self.pool, NETWORK_POOLS)
        check_number("length", self.length, f"[1, {_MAX_WINDOWS * config.window}]", integer=True)
        if self.length % (unit := unit_for(config, self.pool)):
            raise ValueError(f"length must be a multiple of {unit} for pool {self.pool}; got {self.length}")
        check_number("pieces", self.pieces, f"[0, {MAX_PIECES}]", integer=True)
        check_number("convolved", self.convolved, f"[0, {MAX_POINTS}]", integer=True)
        check_number("groups", self.groups, f"[1, {MAX_GROUPS}]", integer=True)
        for scale in self.scales:
            check_number("scales", scale, "(0, inf)")
        check_number("segments", self.segments, f"[0, {self.convolved}]", integer=True)
        return self

    @property
    def name(self) -> str:
        """The pool as an argument, one of :data:`POOLS`."""
        return self.pool + (_CONVOLUTIONS if self.convolved else "")

    @property
    def points(self) -> int:
        """The points that a series is resized to: of all pieces, if there are any."""
        return self.length * max(1, self.pieces)

    def size(self, config: NuTimeConfig, channels: int) -> int:
        """Return the number of values per series; a univariate network reads the channels one by one."""
        return sum(self.sizes(config, channels))

    def sizes(self, config: NuTimeConfig, channels: int) -> tuple[int, int, int]:
        """Return how many values are the network's, those of random convolutions and the means of segments."""
        vectors = (3 if self.pieces else 1) * (channels if config.channels == 1 else 1)
        convolutions = convolution_size(self.convolved, self.groups) if self.convolved else 0
        return vectors * pooled_size(config, self.pool), convolutions, channels * self.segments

    def __str__(self) -> str:
        pieces = f" and {self.pieces} pieces" if self.pieces else ""
        units = ", ".join(f"{scale:.4g}" for scale in self.scales)
        scales = f", channels in units of {units}" if units else ""
        return f"pool {self.name} of {self.length} points{pieces}{scales}"


def _channel_scales(series: Sequence[NDArray[Any]]) -> tuple[float, ...]:
    """Return the median standard deviation per channel, of series that vary in it; 1 if none does.

    Series that are equal count once, as if they had a weight instead.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # of values near the largest float64
        deviations = np.transpose([values.std(axis=1, dtype=np.float64) for values in series])
    varying = (np.unique(channel[channel > 0]) for channel in np.nan_to_num(deviations))
    return tuple(float(np.median(channel)) if len(channel) else 1.0 for channel in varying)


def check_pool(pool: str, pools: Sequence[str] = POOLS) -> None:
    """Raise a ValueError unless ``pool`` is one of the ``pools``."""
    if pool not in pools:
        raise ValueError(f"pool must be one of {', '.join(pools)}; got {pool!r}")


def unit_for(config: NuTimeConfig, pool: str) -> int:
    """Return what the length of a series must be a multiple of: a window of the coarsest resolution."""
    return config.window * (RESOLUTIONS[-1] if pool == "resolutions" else 1)


def points_for(config: NuTimeConfig, pool: str) -> int:
    """Return the default length of a series: the network's own, or that of the finest resolution."""
    if pool != "resolutions":
        return config.length
    _, own, _ = RESOLUTIONS
    unit = unit_for(config, pool)
    return -(-own * config.length // unit) * unit


def pooled_size(config: NuTimeConfig, pool: str) -> int:
    """Return the size of the vector that :meth:`~nutime.model.network.NuTimeNetwork.pooled` returns."""
    check_pool(pool, NETWORK_POOLS)
    upper = 3 * (config.depth - config.depth // 2)
    parts = {"cls": 1, "mean": 1, "cls+mean": 2, "upper": upper, "layers": 3 * config.depth}
    return config.dim * (len(RESOLUTIONS) * upper if pool == "resolutions" else parts[pool])
