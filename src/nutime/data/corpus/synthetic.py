"""Synthetic series: a corpus for pretraining without data.

A batch is made in four steps, each vectorised over its rows. *Choose* a recipe per row: up to three components
and how they are joined. *Render* the components with their generators. *Disturb* the result: warped time,
changing regimes, noise, clipping, rounding. *Finish* with a level and a scale over eight decades.

Batch ``k`` depends on ``(seed, k, length)`` only, so that batches may be drawn in any order and in any process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from nutime.data.corpus.generators import (
    GENERATORS,
    Floats,
    Ints,
    between,
    log_between,
    padded_frequencies,
    pick,
    read,
    segments,
    smooth,
    some,
    standardise,
)

#: Joins two sets of standardised series into one.
Operator: TypeAlias = Callable[[Rng, Floats, Floats], Floats]
#: Changes a set of standardised series.
Effect: TypeAlias = Callable[[Rng, Floats], Floats]

#: Series per batch; a seed defines series only together with it, so it is not an option.
BATCH = 256


def synthesize(count: int, length: int = 512, *, seed: int = 0) -> NDArray[np.float32]:
    """Draw ``count`` diverse series of ``length`` points: ``(count, length)``, finite.

    A larger ``count`` with the same seed and length appends series and changes none.
    """
    batches = list(stream(count, length, seed=seed))
    return np.concatenate(batches) if batches else np.empty((0, length), np.float32)


def stream(count: int, length: int = 512, *, seed: int = 0) -> Iterator[NDArray[np.float32]]:
    """Yield the series of :func:`synthesize` in batches of :data:`BATCH`, the last one shorter."""
    if count < 0:
        raise ValueError(f"count is {count}; expected the number of series to draw, 0 or more")
    for index in range(-(-count // BATCH)):
        yield draw_batch(index, length, seed=seed)[: count - index * BATCH]


def draw_batch(index: int, length: int = 512, *, seed: int = 0) -> NDArray[np.float32]:
    """Draw batch ``index`` of the stream of ``seed``, whole: ``(BATCH, length)``."""
    if length < 1:
        raise ValueError(f"length is {length}; expected the number of points per series, 1 or more")
    rng = np.random.default_rng([seed, index])
    recipe = choose(rng, BATCH)
    return finish(rng, disturb(rng, render(rng, recipe, length)))


# The four steps.


class Recipe(NamedTuple):
    """The recipe of each row: indices into :data:`GENERATORS` and :data:`OPERATORS`."""

    components: Ints  # (n, 3); −1 where there is none
    operators: Ints  # (n, 2); how the second and the third component join; −1 where there is none


def choose(rng: Rng, n: int) -> Recipe:
    """Draw recipes: of five rows, two have a single component, two have two, and one has three."""
    size = rng.choice((1, 1, 2, 2, 3), size=(n, 1))
    components = rng.integers(len(GENERATORS), size=(n, 3))
    operators = rng.integers(len(OPERATORS), size=(n, 2))
    return Recipe(np.where(np.arange(3) < size, components, -1), np.where(np.arange(1, 3) < size, operators, -1))


def render(rng: Rng, recipe: Recipe, length: int) -> Floats:
    """Generate the components and join them, one standardised row per recipe."""
    t = np.arange(length) / length
    parts = np.empty((*recipe.components.shape, length))
    for index, generator in enumerate(GENERATORS):
        chosen = recipe.components == index
        parts[chosen] = standardise(generator(rng, int(chosen.sum()), t))
    series = parts[:, 0]
    for join, operators in enumerate(recipe.operators.T, start=1):
        for index, operator in enumerate(OPERATORS):
            rows = np.flatnonzero(operators == index)
            series[rows] = standardise(operator(rng, series[rows], parts[rows, join]))
    return series


def disturb(rng: Rng, series: Floats) -> Floats:
    """Apply the effects to three rows in four, each effect with its own probability."""
    disturbed = rng.random(len(series)) < 0.75
    for effect, probability in EFFECTS:
        rows = np.flatnonzero(disturbed & (rng.random(len(series)) < probability))
        series[rows] = standardise(effect(rng, series[rows]))
    return series


def finish(rng: Rng, series: Floats) -> NDArray[np.float32]:
    """Set level and scale: three rows in ten stay z-normalised as in the archives, the rest span decades.

    Constant rows (one or two in a thousand) are replaced by white noise first.
    """
    n, length = series.shape
    constant = ~series.any(axis=1)
    series[constant] = standardise(rng.standard_normal((int(constant.sum()), length)))
    scale = log_between(rng, n, 1e-4, 1e4)
    # The level in standard deviations: 0, or up to 100 (as air pressure has), more often above zero.
    level = log_between(rng, n, 1e-2, 1e2) * rng.choice((-1, 0, 1), size=(n, 1), p=(0.2, 0.2, 0.6))
    as_archived = rng.random((n, 1)) < 0.3
    return np.where(as_archived, series, scale * (series + level)).astype(np.float32)


# Operators.


def add(rng: Rng, one: Floats, other: Floats) -> Floats:
    """The sum, the second with a tenth to all of the weight of the first."""
    return one + log_between(rng, len(one), 0.1, 1) * other


def multiply(rng: Rng, one: Floats, other: Floats) -> Floats:
    """The product: the second modulates the first, lightly or until it changes sign."""
    return one * (1 + log_between(rng, len(one), 0.3, 3) * other)


def switch(rng: Rng, one: Floats, other: Floats) -> Floats:
    """Segments of the one and the other in turn, the other with its own level and strength."""
    n, length = one.shape
    other = rng.lognormal(0, 0.7, (n, 1)) * other + rng.standard_normal((n, 1)) * some(rng, n, 0.5)
    return np.where(segments(rng, n, length, most=5) % 2, one, other)


OPERATORS: tuple[Operator, ...] = (add, add, multiply, switch)  # sums are twice as frequent


# Effects, in the order of the physical process and then the sensor.


def warp(rng: Rng, series: Floats) -> Floats:
    """Warp time, smoothly or by jumps of the pace; most rows show only a part of the series."""
    n, length = series.shape
    jumps = np.take_along_axis(rng.standard_normal((n, length + 1)), segments(rng, n, length, most=4), axis=1)
    pace = pick(rng, jumps, smooth(rng, n, np.linspace(0, 1, length), 0.1))
    elapsed = np.cumsum(np.exp(between(rng, n, 0.1, 0.8) * pace), axis=1)
    part = np.minimum(1, log_between(rng, n, 0.1, 2)) * (1 - 1 / length)
    return read(series, part * elapsed / elapsed[:, -1:])


def change_regime(rng: Rng, series: Floats) -> Floats:
    """Mean and variance change at random points."""
    n, length = series.shape
    segment = segments(rng, n, length, most=6)
    gain = np.exp(between(rng, n, 0, 1.2) * rng.standard_normal((n, length + 1)))
    shift = between(rng, n, 0, 3) * rng.standard_normal((n, length + 1))
    return np.take_along_axis(gain, segment, axis=1) * series + np.take_along_axis(shift, segment, axis=1)


def bend(rng: Rng, series: Floats) -> Floats:
    """Apply a nonlinear function to the values."""
    return pick(rng, np.tanh(3 * series), np.exp(np.clip(series, -5, 3)), np.abs(series), series**2)


def lag(rng: Rng, series: Floats) -> Floats:
    """Low-pass filter: exponential decay or Gaussian blur."""
    n, length = series.shape
    frequency, size = padded_frequencies(length)
    turn = 2 * np.pi * frequency * log_between(rng, n, 0.003, 0.1)
    response = pick(rng, 1 / (1 + 1j * turn), np.exp(-0.5 * turn**2))
    before = (size - length) // 2  # constant padding, or the two ends would blur into each other
    padded = np.pad(series, ((0, 0), (before, size - length - before)), mode="edge")
    return np.fft.irfft(np.fft.rfft(padded) * response, size)[:, before : before + length]


def add_noise(rng: Rng, series: Floats) -> Floats:
    """Sensor noise, from a thousandth to half of the signal."""
    return series + log_between(rng, len(series), 1e-3, 0.5) * rng.standard_normal(series.shape)


def clip(rng: Rng, series: Floats) -> Floats:
    """Clip to the range of the sensor, below, above or on both sides."""
    below, above = (log_between(rng, len(series), 0.3, 10) for _ in range(2))
    return np.clip(series, -below, above)


def digitise(rng: Rng, series: Floats) -> Floats:
    """Round the values, or hold each sample for several points."""
    now, step = np.arange(series.shape[1]), rng.integers(2, 33, (len(series), 1))
    held = np.take_along_axis(series, now - now % step, axis=1)
    return pick(rng, np.round(series * log_between(rng, len(series), 1, 30)), held)


def tally(rng: Rng, series: Floats) -> Floats:
    """Events per interval, at a rate that follows the series."""
    rate = log_between(rng, len(series), 0.2, 100) * np.exp(np.clip(0.7 * series, -5, 3))
    return np.asarray(rng.poisson(rate), np.float64)


def interrupt(rng: Rng, series: Floats) -> Floats:
    """Replace some segments by the minimum: a sensor switched off."""
    n, length = series.shape
    off = segments(rng, n, length, most=10) % 2
    return np.where(off, series.min(axis=1, keepdims=True), series)


def pad(rng: Rng, series: Floats) -> Floats:
    """Pad with constants before and after."""
    n, length = series.shape
    inside = np.clip(np.arange(length) / length, between(rng, n, 0, 0.3), between(rng, n, 0.6, 1))
    return np.take_along_axis(series, (inside * length).astype(np.intp), axis=1)


EFFECTS: tuple[tuple[Effect, float], ...] = (
    *((warp, 0.35), (change_regime, 0.1), (bend, 0.12), (lag, 0.3), (add_noise, 0.35)),
    *((clip, 0.07), (digitise, 0.12), (tally, 0.05), (interrupt, 0.06), (pad, 0.06)),
)
