"""Nineteen generators of synthetic series, and the functions they share with the effects.

No covariance matrix is factorised. A stationary Gaussian process is white noise shaped by the square root of
its spectral density, an ARMA process is noise divided by a polynomial on the unit circle, and periodic series
are short tables read at a jittered phase. Each costs O(L log L) at most, vectorised over the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
Ints: TypeAlias = NDArray[np.intp]
#: Draws ``n`` series at the times ``t``, which run from 0 to 1 (exclusive) over the series.
Generator: TypeAlias = Callable[[Rng, int, Floats], Floats]

# Shared functions. Random parameters are columns (n, 1), which broadcast along time.

#: Points of a table of one period.
TABLE = 256


def between(rng: Rng, n: int, low: float, high: float) -> Floats:
    """Uniform on an interval."""
    return rng.uniform(low, high, (n, 1))


def log_between(rng: Rng, n: int, low: float, high: float) -> Floats:
    """Log-uniform on an interval."""
    column: Floats = np.exp(between(rng, n, np.log(low), np.log(high)))
    return column


def some(rng: Rng, n: int, share: float) -> NDArray[np.bool_]:
    """True for a random share of the rows."""
    return rng.random((n, 1)) < share


def pick(rng: Rng, *options: NDArray[Any]) -> NDArray[Any]:
    """Take each row from one of the options, at random."""
    choice = rng.integers(len(options), size=(len(options[-1]), 1))
    return np.choose(choice, np.broadcast_arrays(*options))


def standardise(series: Floats) -> Floats:
    """Zero mean and unit standard deviation; a row that is constant up to rounding becomes zero."""
    centred = series - series.mean(axis=1, keepdims=True)
    std = np.sqrt(np.mean(centred**2, axis=1, keepdims=True))
    constant = std <= 1e-9 * np.abs(series).max(axis=1, keepdims=True)
    return np.where(constant, 0, centred / np.where(constant, 1, std))


def padded_frequencies(length: int) -> tuple[Floats, int]:
    """Cycles per series on a grid of at least twice the length, so that the ends do not wrap around."""
    size = 1 << (2 * length - 1).bit_length()
    return np.fft.rfftfreq(size, 1 / length), size


def _complex_noise(rng: Rng, n: int, size: int) -> NDArray[np.complex128]:
    return rng.standard_normal((n, 2 * size)).view(np.complex128)


def _shape_noise(rng: Rng, n: int, t: Floats, density: Callable[[Floats], Floats]) -> Floats:
    """Sample the stationary Gaussian process with this spectral density over cycles per series.

    The zero frequency has half its power; standardising removes it.
    """
    frequency, size = padded_frequencies(t.size)
    spectrum = np.sqrt(density(frequency)) * _complex_noise(rng, n, frequency.size)
    return np.fft.irfft(spectrum, size)[:, : t.size]


def _cycles(rng: Rng, n: int, t: Floats, most: float = 60) -> Floats:
    return log_between(rng, n, 1, min(max(t.size / 6, 2), most))


def _clock(rng: Rng, n: int, t: Floats, most: float = 60) -> Floats:
    """A phase in cycles, from a random start, with varying speed in half of the rows."""
    jitter = log_between(rng, n, 0.01, 0.4) * some(rng, n, 0.5)
    elapsed = np.cumsum(np.exp(jitter * smooth(rng, n, t, 0.03)), axis=1)
    phase: Floats = between(rng, n, 0, 1) + _cycles(rng, n, t, most) * elapsed / elapsed[:, -1:]
    return phase


def read(table: Floats, phase: Floats) -> Floats:
    """Read each row of a periodic table at its phases, by linear interpolation."""
    points = table.shape[1]
    position = (phase % 1) * points
    left = position.astype(np.intp)
    start = np.take_along_axis(table, left % points, axis=1)
    end = np.take_along_axis(table, (left + 1) % points, axis=1)
    value: Floats = start + (position - left) * (end - start)
    return value


def segments(rng: Rng, n: int, length: int, most: float) -> Ints:
    """Number the segments between random change points, at least one per row."""
    change = rng.random((n, length)) < log_between(rng, n, 0.5, most) / length
    change[np.arange(n), rng.integers(min(1, length - 1), length, size=n)] = True
    return np.cumsum(change, axis=1)


def _bumps(rng: Rng, n: int, t: Floats, most: int, narrowest: float) -> Floats:
    """A sum of peaks of either sign, with long or short tails, centred away from the ends."""
    total = np.zeros((n, t.size))
    for _ in range(most):
        distance = (t - between(rng, n, 0.1, 0.9)) / log_between(rng, n, narrowest, 0.15)
        height = rng.standard_normal((n, 1)) * some(rng, n, 0.8)
        total += height * pick(rng, np.exp(-0.5 * distance**2), 1 / (1 + distance**2) ** 2)
    return total


def _motif(rng: Rng, n: int) -> Floats:
    """A table that starts and ends at zero: peaks as in a heartbeat, or a smooth curve."""
    u = np.arange(TABLE) / TABLE
    taper = np.minimum(1, 5 * np.minimum(u, 1 - u))
    shape: Floats = taper * pick(rng, _bumps(rng, n, u, 5, 0.012), smooth(rng, n, u, 0.03))
    return shape


def _harmonics(rng: Rng, n: int) -> Floats:
    """A table of a periodic Gaussian process, with overtones that decay by a random power."""
    order = np.arange(1, 17)
    spectrum = _complex_noise(rng, n, order.size) * order ** -between(rng, n, 0.5, 4)
    return np.fft.irfft(np.pad(spectrum, ((0, 0), (1, 0))), TABLE)


def _resonate(rng: Rng, innovations: Floats) -> Floats:
    """Filter circularly by random poles (AR) and a zero (MA); the first half is dropped."""
    n, size = innovations.shape
    z = np.exp(-2j * np.pi * np.fft.rfftfreq(size))
    response = 1 + between(rng, n, -0.9, 0.9) * z
    for _ in range(2):
        radius = 1 - log_between(rng, n, 0.003, 1)
        angle = np.pi * log_between(rng, n, 0.01, 1) * some(rng, n, 0.7)
        response = response / (1 - 2 * radius * np.cos(angle) * z + (radius * z) ** 2)
    return np.fft.irfft(np.fft.rfft(innovations) * response, size)[:, size // 2 :]


# Generators: Gaussian processes, each by its spectral density.


def smooth(rng: Rng, n: int, t: Floats, shortest: float = 0.003) -> Floats:
    """A squared exponential kernel, its length scale a fraction of the series."""
    width = log_between(rng, n, shortest, 0.3)
    return standardise(_shape_noise(rng, n, t, lambda f: np.exp(-0.5 * (2 * np.pi * f * width) ** 2)))


def matern(rng: Rng, n: int, t: Floats) -> Floats:
    """A Matérn kernel of random order, from pink noise (0) through Ornstein–Uhlenbeck (½) to nearly smooth."""
    width, order = log_between(rng, n, 0.003, 1), between(rng, n, -0.2, 3)
    return _shape_noise(rng, n, t, lambda f: (1 + (2 * np.pi * f * width) ** 2) ** -(order + 0.5))


def rational_quadratic(rng: Rng, n: int, t: Floats) -> Floats:
    """Several length scales: six draws from a Gamma mixture of squared exponentials."""
    shape = log_between(rng, n, 0.1, 3)
    precision = rng.gamma(shape, 1 / shape, (n, 6)) + 1e-3
    widths = np.hsplit(log_between(rng, n, 0.01, 0.5) / np.sqrt(precision), 6)
    return _shape_noise(
        rng, n, t, lambda f: np.add.reduce([w * np.exp(-0.5 * (2 * np.pi * f * w) ** 2) for w in widths])
    )


def locally_periodic(rng: Rng, n: int, t: Floats) -> Floats:
    """A periodic kernel times a squared exponential: each spectral line becomes a Gaussian."""
    pitch, decay = _cycles(rng, n, t), between(rng, n, 1.5, 5)
    coherence = log_between(rng, n, 0.7, 20) / pitch

    def density(frequency: Floats) -> Floats:
        harmonic = np.maximum(np.round(frequency / pitch), 1)
        distance = 2 * np.pi * coherence * (frequency - harmonic * pitch)
        power: Floats = harmonic**-decay * np.exp(-0.5 * distance**2)
        return power

    return _shape_noise(rng, n, t, density)


# Generators: noise and walks.


def white_noise(rng: Rng, n: int, t: Floats) -> Floats:
    """White noise, with Gaussian to very heavy tails."""
    weight = log_between(rng, n, 0.01, 1) * some(rng, n, 0.5)
    noise: Floats = rng.standard_normal((n, t.size)) * np.exp(weight * rng.standard_normal((n, t.size)))
    return noise


def arma(rng: Rng, n: int, t: Floats) -> Floats:
    """A random ARMA(4, 1) process, from nearly white to ringing."""
    return _resonate(rng, white_noise(rng, n, np.tile(t, 2)))


def shots(rng: Rng, n: int, t: Floats) -> Floats:
    """Rare impulses, each followed by the ringing or decay of a random filter."""
    impulses = rng.random((n, 2 * t.size)) < log_between(rng, n, 1, 30) / t.size
    impulses[np.arange(n), rng.integers(t.size, 2 * t.size, n)] = True
    return _resonate(rng, impulses * rng.lognormal(0, 0.5, impulses.shape))


def returns(rng: Rng, n: int, t: Floats) -> Floats:
    """Noise of varying volatility, as financial returns."""
    volatility = np.exp(between(rng, n, 0, 1) * smooth(rng, n, t, 0.03))
    return volatility * white_noise(rng, n, t)


def random_walk(rng: Rng, n: int, t: Floats) -> Floats:
    """The sum of returns, half of them with a drift: the logarithm of a price."""
    drift = between(rng, n, -3, 3) / np.sqrt(t.size) * some(rng, n, 0.5)
    return np.cumsum(drift + returns(rng, n, t), axis=1)


# Generators: seasons, trends and shapes.


def seasons(rng: Rng, n: int, t: Floats) -> Floats:
    """A periodic pattern and, in half of the rows, a slower one: days, and weeks of days."""
    fast = _clock(rng, n, t)
    slow = fast / rng.choice((2, 4, 7, 12, 24), size=(n, 1))
    mix = np.maximum(0, between(rng, n, -1, 1))
    return (1 - mix) * read(_harmonics(rng, n), fast) + mix * read(_harmonics(rng, n), slow)


def waveform(rng: Rng, n: int, t: Floats) -> Floats:
    """The shapes of a function generator: sawtooth, triangle, rectangle, half sine, decay."""
    phase, duty = _clock(rng, n, t) % 1, between(rng, n, 0.05, 0.95)
    up, down = phase / duty, (1 - phase) / (1 - duty)
    half_sine = np.sin(np.pi * np.minimum(up, 1))
    return pick(rng, phase, np.minimum(up, down), up < 1, half_sine, np.exp(-5 * up))


def chirp(rng: Rng, n: int, t: Floats) -> Floats:
    """A tone that glides from one pitch to another, with growing or decaying amplitude."""
    start, end, curve = _cycles(rng, n, t), _cycles(rng, n, t), log_between(rng, n, 1.3, 4)
    phase = start * t + (end - start) * t**curve / curve
    tone: Floats = np.sin(2 * np.pi * (phase + between(rng, n, 0, 1))) * np.exp(between(rng, n, -3, 3) * t)
    return tone


def trend(rng: Rng, n: int, t: Floats) -> Floats:
    """Polynomial, exponential, logistic or piecewise linear growth or decline."""
    rate, centre = log_between(rng, n, 1, 50), between(rng, n, 0.1, 0.9)
    broken = rng.standard_normal((n, 1)) * t
    for _ in range(4):
        broken += rng.normal(0, 2, (n, 1)) * np.maximum(0, t - between(rng, n, 0, 1))
    power = t ** log_between(rng, n, 0.3, 3)
    growth = pick(rng, power, np.exp(rate / 10 * t), 1 / (1 + np.exp(-rate * (t - centre))), broken)
    return np.where(some(rng, n, 0.5), growth, -growth)


def outline(rng: Rng, n: int, t: Floats) -> Floats:
    """The distance from the centre of a closed contour, once around it: leaves, skulls, bones."""
    order = np.fft.fftfreq(TABLE, 1 / TABLE)
    strength = np.maximum(np.abs(order), 1) ** -between(rng, n, 1.2, 2.5) * (np.abs(order) < 30)
    contour = log_between(rng, n, 0.2, 1) * strength * _complex_noise(rng, n, TABLE)
    contour[:, :2] = (0, 1)  # centre at zero; alone, a circle
    return read(np.abs(np.fft.ifft(contour)), np.tile(t, (n, 1)))


def spectrum(rng: Rng, n: int, t: Floats) -> Floats:
    """Peaks of all widths on a smooth baseline: the spectrum of a food, a chromatogram."""
    return _bumps(rng, n, t, 7, 0.004) + between(rng, n, 0, 1) * smooth(rng, n, t, 0.03)


# Generators: events and states.


def heartbeat(rng: Rng, n: int, t: Floats) -> Floats:
    """A train of one motif, with a jittered period and an amplitude that varies from beat to beat."""
    phase = _clock(rng, n, t, most=30)
    strength = np.take_along_axis(rng.normal(1, 0.15, (n, 32)), phase.astype(np.intp), axis=1)
    return strength * read(_motif(rng, n), phase)


def shapelets(rng: Rng, n: int, t: Floats) -> Floats:
    """Three occurrences of one motif at different widths, zero elsewhere."""
    motif, total = _motif(rng, n), np.zeros((n, t.size))
    for _ in range(3):
        phase = (t - between(rng, n, -0.1, 0.9)) / log_between(rng, n, 0.05, 0.6)
        total += rng.normal(0.5, 1, (n, 1)) * ((phase >= 0) & (phase < 1)) * read(motif, phase)
    return total


def bursts(rng: Rng, n: int, t: Floats) -> Floats:
    """Packets of oscillation with a sharp or soft onset: tremors, calls, knocks."""
    total = np.zeros((n, t.size))
    for share in (1, 0.6, 0.3):
        since, width = t - between(rng, n, 0, 0.9), log_between(rng, n, 0.01, 0.2)
        knock = np.exp(-np.where(since > 0, since, -20 * since) / width)
        envelope = pick(rng, knock, np.exp(-0.5 * (since / width) ** 2))
        pitch = np.minimum(between(rng, n, 1, 10) / width, t.size / 5)
        strength = rng.lognormal(0, 0.7, (n, 1)) * some(rng, n, share)
        total += strength * envelope * np.sin(2 * np.pi * pitch * since)
    return total


def states(rng: Rng, n: int, t: Floats) -> Floats:
    """Jumps between two to five levels, with a little noise."""
    segment = segments(rng, n, t.size, most=30)
    state = rng.integers(rng.integers(2, 6, (n, 1)), size=(n, t.size + 1))
    levels = np.take_along_axis(rng.lognormal(0, 1, (n, 5)), state, axis=1)
    hum = log_between(rng, n, 1e-5, 0.1) * rng.standard_normal((n, t.size))
    return np.take_along_axis(levels, segment, axis=1) * (1 + hum)


GENERATORS: tuple[Generator, ...] = (
    *(smooth, matern, rational_quadratic, locally_periodic),
    *(white_noise, arma, shots, returns, random_walk),
    *(seasons, waveform, chirp, trend, outline, spectrum),
    *(heartbeat, shapelets, bursts, states),
)
