"""Imputation and forecasts beside classical methods, on the same masks and series in one run.

    pip install -e '.[compare]'
    python benchmarks/values.py path/to/values [--decoder folder] [--validation]

``--validation`` reads the parts before the test parts only, for choosing anything. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.interpolate import CubicSpline

from nutime import NuTime

MISSING = (0.125, 0.25, 0.375, 0.5)
BLOCKS = (8, 24, 48)


def hide_blocks(length: int, share: float, block: int, rng: np.random.Generator) -> np.ndarray:
    """Hide whole blocks of an even partition."""
    count = length // block
    hidden = np.zeros(length, bool)
    for index in rng.choice(count, round(share * count), replace=False):
        hidden[index * block : (index + 1) * block] = True
    return hidden


def linear(values: np.ndarray) -> np.ndarray:
    known = ~np.isnan(values)
    return np.interp(np.arange(len(values)), np.flatnonzero(known), values[known])


def cubic(values: np.ndarray) -> np.ndarray:
    known = np.flatnonzero(~np.isnan(values))
    return CubicSpline(known, values[known], bc_type="natural")(np.arange(len(values)).clip(known[0], known[-1]))


def same_hour(values: np.ndarray) -> np.ndarray:
    hour = np.arange(len(values)) % 24
    return np.array([np.nanmean(values[hour == h]) for h in range(24)])[hour]


def imputation(model: NuTime, value: np.ndarray, train: slice, test: slice) -> dict[str, list[float]]:
    standard = (value - value[:, train].mean(1, keepdims=True)) / value[:, train].std(1, keepdims=True)
    part = standard[:, test]
    table: dict[str, list[float]] = {}
    for share in MISSING:
        errors: dict[str, list[float]] = {}
        for block in BLOCKS:
            rng = np.random.default_rng([round(1000 * share), block])
            masks = np.stack([hide_blocks(part.shape[1], share, block, rng) for _ in part])
            given = np.where(masks, np.nan, part)
            filled = {"nutime": np.asarray(model.impute([given])[0])}
            filled |= {m.__name__: np.stack([m(row) for row in given]) for m in (linear, cubic, same_hour)}
            for name, values in filled.items():
                errors.setdefault(name, []).append(float(np.square(values - part)[masks].mean()))
        for name, values in errors.items():
            table.setdefault(name, []).append(float(np.mean(values)))
        print(f"missing {share:.1%}", {k: [round(e, 4) for e in v] for k, v in errors.items()}, flush=True)
    return table


def naive2(past: np.ndarray, horizon: int, period: int) -> np.ndarray:
    """M4's benchmark: the last value, seasonally adjusted by classical decomposition where there is a season."""
    if period == 1 or len(past) < 3 * period or not _seasonal(past, period):
        return np.full(horizon, past[-1])
    kernel = np.r_[0.5, np.ones(period - 1), 0.5] / period if period % 2 == 0 else np.ones(period) / period
    half = len(kernel) // 2
    trend = np.convolve(past, kernel, "valid")
    ratio = past[half : len(past) - half] / trend
    index = np.array([np.mean(ratio[(np.arange(len(ratio)) + half) % period == p]) for p in range(period)])
    index *= period / index.sum()
    adjusted = past[-1] / index[(len(past) - 1) % period]
    return adjusted * index[(len(past) + np.arange(horizon)) % period]


def _seasonal(past: np.ndarray, period: int) -> bool:
    centred = past - past.mean()
    curve = np.array([centred[: len(past) - lag] @ centred[lag:] for lag in range(period + 1)]) / (
        centred @ centred
    )
    return abs(curve[period]) > 1.645 * np.sqrt((1 + 2 * np.square(curve[1:period]).sum()) / len(past))


def smape(future: np.ndarray, predicted: np.ndarray) -> float:
    return float(np.mean(200 * np.abs(future - predicted) / (np.abs(future) + np.abs(predicted))))


def mase(past: np.ndarray, future: np.ndarray, predicted: np.ndarray, period: int) -> float:
    return float(np.mean(np.abs(future - predicted)) / np.mean(np.abs(past[period:] - past[:-period])))


def m4(
    model: NuTime, pasts: list[np.ndarray], futures: list[np.ndarray], period: int, rivals: bool
) -> dict[str, object]:
    horizon = len(futures[0])
    bands = model.forecast(pasts, horizon, quantiles=(0.1, 0.5, 0.9))[:, 0]
    predicted: dict[str, list[np.ndarray]] = {
        "naive2": [naive2(past, horizon, period) for past in pasts],
        "nutime": list(bands[..., 1]),
    }
    if rivals:
        predicted |= classical(pasts, horizon, period)
    scores = {
        name: (
            np.mean([smape(f, p) for f, p in zip(futures, values, strict=True)]),
            np.mean([mase(x, f, p, period) for x, f, p in zip(pasts, futures, values, strict=True)]),
        )
        for name, values in predicted.items()
    }
    base = scores["naive2"]
    inside = [(f >= b[:, 0]) & (f <= b[:, 2]) for f, b in zip(futures, bands, strict=True)]
    return {
        **{f"owa_{name}": round(float((s / base[0] + m / base[1]) / 2), 4) for name, (s, m) in scores.items()},
        "coverage_80": round(float(np.mean(inside)), 4),
    }


def classical(pasts: list[np.ndarray], horizon: int, period: int) -> dict[str, list[np.ndarray]]:
    from statsforecast.models import AutoETS, AutoTheta

    return {
        type(method).__name__: [method.forecast(y=past, h=horizon)["mean"] for past in pasts]
        for method in (AutoTheta(season_length=period), AutoETS(season_length=period))
    }


def read_m4(path: Path, validation: bool, count: int | None) -> tuple[list[np.ndarray], list[np.ndarray]]:
    data = np.load(path)
    pasts = [row[~np.isnan(row)].astype(np.float64) for row in data["past"]]
    futures = [row[~np.isnan(row)].astype(np.float64) for row in data["future"]]
    if validation:
        horizon = len(futures[0])
        futures, pasts = [past[-horizon:] for past in pasts], [past[:-horizon] for past in pasts]
    step = 1 if count is None else max(1, len(pasts) // count)
    return pasts[::step], futures[::step]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--encoder", default="nutime-base")
    parser.add_argument("--validation", action="store_true")
    parser.add_argument("--count", type=int)
    parser.add_argument("--rivals", action="store_true")
    arguments = parser.parse_args()
    model = NuTime.from_pretrained(arguments.encoder)
    result: dict[str, object] = {}
    etth1 = np.load(arguments.folder / "ETTh1.npz")["value"].astype(np.float64)
    length = etth1.shape[1]
    train = slice(0, round(0.6 * length))
    test = (
        slice(round(0.6 * length), round(0.8 * length))
        if arguments.validation
        else slice(round(0.8 * length), None)
    )
    table = imputation(model, etth1, train, test)
    ratios = [ours / base for ours, base in zip(table["nutime"], table["linear"], strict=True)]
    result["impute_etth1"] = {
        **{k: np.round(v, 4).tolist() for k, v in table.items()},
        "ratio": np.round(ratios, 3).tolist(),
    }
    print(result["impute_etth1"], flush=True)
    result["forecast_etth1_96"] = etth1_forecast(model, etth1, train, test)
    print(result["forecast_etth1_96"], flush=True)
    for name, period in (("Hourly", 24), ("Weekly", 1)):
        pasts, futures = read_m4(arguments.folder / f"M4_{name}.npz", arguments.validation, arguments.count)
        result[name] = m4(model, pasts, futures, period, arguments.rivals)
        print(name, result[name], flush=True)
    print(json.dumps(result))


def etth1_forecast(
    model: NuTime, value: np.ndarray, train: slice, test: slice, horizon: int = 96
) -> dict[str, float]:
    standard = (value - value[:, train].mean(1, keepdims=True)) / value[:, train].std(1, keepdims=True)
    stop = test.stop or value.shape[1]
    origins = range(test.start, stop - horizon + 1, horizon // 2)
    pasts = [standard[:, max(0, origin - 1024) : origin] for origin in origins]
    futures = np.stack([standard[:, origin : origin + horizon] for origin in origins])
    bands = model.forecast(pasts, horizon, quantiles=(0.1, 0.5, 0.9))
    naive = np.stack([np.tile(past[:, -24:], horizon // 24) for past in pasts])
    inside = (futures >= bands[..., 0]) & (futures <= bands[..., 2])
    scores = {"nutime": bands[..., 1], "seasonal_naive": naive}
    return {
        **{f"mse_{name}": round(float(np.square(p - futures).mean()), 4) for name, p in scores.items()},
        **{f"mae_{name}": round(float(np.abs(p - futures).mean()), 4) for name, p in scores.items()},
        "coverage_80": round(float(inside.mean()), 4),
    }


if __name__ == "__main__":
    main()
