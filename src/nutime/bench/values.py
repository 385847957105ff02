"""Imputation and forecasts beside classical methods, on the same masks and the same pasts.

The sets are ``.npz`` files in the folder ``values`` of the data: ``ETTh1`` with ``value`` ``(channels, length)``,
of which the last 20 % are the test part, and ``M4_Hourly`` and ``M4_Weekly`` with ``past`` and ``future``, padded
with NaN. All choices are made on ``validation`` data: the 20 % before the test part, the ends of pasts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from nutime.bench.methods import Config, Scores, SingleRun
from nutime.data.archives import local_folder
from nutime.data.series import Array
from nutime.encoder import NuTime

Float64: TypeAlias = NDArray[np.float64]

#: Shares of missing points, and lengths of the blocks they are hidden in.
MISSING, BLOCKS = (0.125, 0.25, 0.375, 0.5), (8, 24, 48)
IMPUTATION_SETS = ("values/ETTh1",)
FORECAST_SETS = ("values/M4_Hourly", "values/M4_Weekly", "values/ETTh1")
_DAY = 24  # points of a day in hourly series
_CONTEXT, _HORIZON = 1024, 96  # points of ETTh1 before and after every second half of a horizon
_SIGNIFICANT = 1.645  # standard errors of an autocorrelation, at 90 %


class Futures(NamedTuple):
    """Pasts and what followed.

    Attributes:
        pasts: one array of points each.
        futures: ``(n, horizon)``.
        period: points of a season, 1 for none.
        standardised: whether values are standardised, and errors need no scale.
    """

    pasts: list[Float64]
    futures: Float64
    period: int
    standardised: bool


# ---- data --------------------------------------------------------------------------------------------------


def load_imputation(name: str, *, data_dir: str | None = None, validation: bool = False) -> Float64:
    """Return the standardised test part of a set, ``(channels, length)``."""
    values, start, stop = _standardised(_open(name, data_dir)["value"], validation)
    return values[:, start:stop]


def load_futures(
    name: str, *, data_dir: str | None = None, validation: bool = False, count: int | None = None
) -> Futures:
    """Return pasts and futures of a set; ``count`` takes about as many of its series, evenly."""
    data = _open(name, data_dir)
    if "value" in data:
        values, start, stop = _standardised(data["value"], validation)
        origins = range(start, stop - _HORIZON + 1, _HORIZON // 2)
        pasts = [row for origin in origins for row in values[:, max(0, origin - _CONTEXT) : origin]]
        futures = np.concatenate([values[:, origin : origin + _HORIZON] for origin in origins])
        return Futures(pasts, futures, _DAY, True)
    pasts, ends = ([row[~np.isnan(row)].astype(np.float64) for row in data[part]] for part in ("past", "future"))
    horizon = len(ends[0])
    if validation:
        pasts, ends = [past[:-horizon] for past in pasts], [past[-horizon:] for past in pasts]
    step = 1 if count is None else max(1, len(pasts) // count)
    return Futures(pasts[::step], np.stack(ends[::step]), _DAY if name.endswith("Hourly") else 1, False)


def _open(name: str, data_dir: str | None) -> dict[str, Array]:
    path = Path(local_folder(data_dir) or ".", f"{name}.npz")
    if not path.is_file():
        raise ValueError(f"{name}: no file {path}; name the data folder by data_dir or NUTIME_DATA")
    with np.load(path) as file:
        return {key: file[key] for key in ("value", "past", "future") if key in file}


def _standardised(values: Array, validation: bool) -> tuple[Float64, int, int]:
    """Return values in units of the first 60 %, and the start and the stop of the part to measure on."""
    length = values.shape[1]
    first, second = round(0.6 * length), round(0.8 * length)
    known = values.astype(np.float64)
    train = known[:, :first]
    scaled = (known - train.mean(1, keepdims=True)) / train.std(1, keepdims=True)
    return scaled, *((first, second) if validation else (second, length))


# ---- imputation --------------------------------------------------------------------------------------------


def hide_blocks(length: int, share: float, block: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return a mask of whole blocks of an even partition."""
    count = length // block
    hidden = np.zeros(length, bool)
    for index in rng.choice(count, round(share * count), replace=False):
        hidden[index * block : (index + 1) * block] = True
    return hidden


def linear(values: Float64) -> Float64:
    """Interpolate linearly."""
    known = ~np.isnan(values)
    filled: Float64 = np.interp(np.arange(len(values)), np.flatnonzero(known), values[known])
    return filled


def cubic_spline(values: Float64) -> Float64:
    """Interpolate by a natural cubic spline, constant beyond its ends."""
    known = np.flatnonzero(~np.isnan(values))
    spline = CubicSpline(known, values[known], bc_type="natural")
    filled: Float64 = spline(np.arange(len(values)).clip(known[0], known[-1]))
    return filled


def same_hour(values: Float64) -> Float64:
    """Take the mean of the same hour of all days."""
    hour = np.arange(len(values)) % _DAY
    filled: Float64 = np.array([np.nanmean(values[hour == h]) for h in range(_DAY)])[hour]
    return filled


@dataclass(frozen=True)
class Imputation(SingleRun):
    """Mean squared error at hidden points, for each share of missing points the mean over lengths of blocks."""

    fill: Callable[[Float64], Float64]

    def _run(self, dataset: Float64) -> tuple[Scores, Config]:
        scores = {}
        for share in MISSING:
            errors = []
            for block in BLOCKS:
                rng = np.random.default_rng([round(1000 * share), block])
                masks = np.stack([hide_blocks(dataset.shape[1], share, block, rng) for _ in dataset])
                filled = self.fill(np.where(masks, np.nan, dataset))
                errors.append(float(np.square(filled - dataset)[masks].mean()))
            scores[f"mse_{100 * share:g}"] = float(np.mean(errors))
        return scores, {"blocks": BLOCKS}


def imputations(encoders: Sequence[tuple[str, NuTime]]) -> list[Imputation]:
    """Return nutime and the classical methods."""
    own = [Imputation(name, partial(_impute, encoder)) for name, encoder in encoders]
    rivals = {"linear interpolation": linear, "cubic spline": cubic_spline, "mean of the same hour": same_hour}
    return [*own, *(Imputation(name, partial(np.apply_along_axis, fill, 1)) for name, fill in rivals.items())]


def _impute(encoder: NuTime, values: Float64) -> Float64:
    return np.asarray(encoder.impute([values])[0], np.float64)


# ---- forecasts ---------------------------------------------------------------------------------------------


def naive2(past: Float64, horizon: int, period: int) -> Float64:
    """M4's benchmark: the last value, adjusted by multiplicative decomposition where values > 0 have a season."""
    if period == 1 or len(past) < 3 * period or past.min() <= 0 or not _is_seasonal(past, period):
        return np.full(horizon, past[-1])
    kernel = np.r_[0.5, np.ones(period - 1), 0.5] / period if period % 2 == 0 else np.ones(period) / period
    half = len(kernel) // 2
    trend = np.convolve(past, kernel, "valid")
    ratio = past[half : len(past) - half] / trend
    index = np.array([np.mean(ratio[(np.arange(len(ratio)) + half) % period == p]) for p in range(period)])
    index *= period / index.sum()
    adjusted = past[-1] / index[(len(past) - 1) % period]
    predicted: Float64 = adjusted * index[(len(past) + np.arange(horizon)) % period]
    return predicted


def _is_seasonal(past: Float64, period: int) -> bool:
    centred = past - past.mean()
    curve = np.array([centred[: len(past) - lag] @ centred[lag:] for lag in range(period + 1)]) / (
        centred @ centred
    )
    limit = _SIGNIFICANT * np.sqrt((1 + 2 * np.square(curve[1:period]).sum()) / len(past))
    return bool(abs(curve[period]) > limit)


def seasonal_naive(past: Float64, horizon: int, period: int) -> Float64:
    """Repeat the last season."""
    return np.resize(past[-period:], horizon)


def smape(future: Float64, predicted: Float64) -> float:
    """Return M4's symmetric error, in percent."""
    return float(np.mean(200 * np.abs(future - predicted) / (np.abs(future) + np.abs(predicted))))


def mase(past: Float64, future: Float64, predicted: Float64, period: int) -> float:
    """Return the error in units of the seasonal naive one on the past."""
    return float(np.mean(np.abs(future - predicted)) / np.mean(np.abs(past[period:] - past[:-period])))


def forecast_scores(data: Futures, predicted: Float64) -> Scores:
    """Return MSE and MAE of standardised values, else sMAPE, MASE and OWA: the mean of both relative to Naive2."""
    pasts, futures, period, standardised = data
    if standardised:
        error = predicted - futures
        return {"mse": float(np.square(error).mean()), "mae": float(np.abs(error).mean())}

    def errors(values: Float64) -> tuple[float, float]:
        pairs = list(zip(pasts, futures, values, strict=True))
        return (
            float(np.mean([smape(future, one) for _, future, one in pairs])),
            float(np.mean([mase(past, future, one, period) for past, future, one in pairs])),
        )

    own = errors(predicted)
    base = errors(np.stack([naive2(past, futures.shape[1], period) for past in pasts]))
    return {"smape": own[0], "mase": own[1], "owa": (own[0] / base[0] + own[1] / base[1]) / 2}


@dataclass(frozen=True)
class Forecast(SingleRun):
    """nutime's medians, and how many points its 80 % intervals cover."""

    encoder: NuTime

    def _run(self, dataset: Futures) -> tuple[Scores, Config]:
        futures = dataset.futures
        bands = self.encoder.forecast(dataset.pasts, futures.shape[1], quantiles=(0.1, 0.5, 0.9))[:, 0]
        inside = (futures >= bands[..., 0]) & (futures <= bands[..., 2])
        return {**forecast_scores(dataset, bands[..., 1]), "coverage_80": float(inside.mean())}, {}


@dataclass(frozen=True)
class ClassicalForecast(SingleRun):
    """A function from past, horizon and period to a forecast."""

    predict: Callable[[Float64, int, int], Float64]

    def _run(self, dataset: Futures) -> tuple[Scores, Config]:
        horizon, period = dataset.futures.shape[1], dataset.period
        predicted = np.stack([self.predict(past, horizon, period) for past in dataset.pasts])
        return forecast_scores(dataset, predicted), {"period": period}


def forecasts(encoders: Sequence[tuple[str, NuTime]]) -> list[SingleRun]:
    """Return nutime and the classical methods."""
    own = [Forecast(name, encoder) for name, encoder in encoders]
    return [*own, ClassicalForecast("Naive2", naive2), ClassicalForecast("seasonal naive", seasonal_naive)]
