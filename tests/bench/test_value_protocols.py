"""The protocols ``impute`` and ``forecast``, and the formulas of the classical methods beside them."""

import numpy as np
import pytest

from nutime.bench.protocols import PROTOCOLS, Request
from nutime.bench.report import build_report
from nutime.bench.results import ResultFile
from nutime.bench.run import run
from nutime.bench.values import (
    Futures,
    cubic_spline,
    forecast_scores,
    hide_blocks,
    linear,
    load_futures,
    load_imputation,
    naive2,
    same_hour,
    seasonal_naive,
)

DAYS = np.tile(np.sin(np.arange(24) * 2 * np.pi / 24) + 2, 50)


@pytest.fixture
def folder(tmp_path):
    values = tmp_path / "values"
    values.mkdir()
    noise = np.random.default_rng(0).normal(0, 0.1, (2, len(DAYS)))
    np.savez(values / "ETTh1.npz", value=np.stack([DAYS, 5 - 3 * DAYS]) + noise)
    past = np.full((3, 400), np.nan)
    for row, length in enumerate((400, 350, 300)):
        past[row, :length] = (DAYS + noise[0])[:length] * 10.0**row
    np.savez(values / "M4_Hourly.npz", past=past, future=np.ones((3, 48)))
    return tmp_path


@pytest.mark.parametrize(
    ("protocol", "name", "scores"),
    [
        ("impute", "values/ETTh1", {"mse_12.5", "mse_25", "mse_37.5", "mse_50"}),
        ("forecast", "values/ETTh1", {"mse", "mae"}),
        ("forecast", "values/M4_Hourly", {"owa", "smape", "mase"}),
    ],
)
def test_methods_run_side_by_side_and_are_reported(protocol, name, scores, folder, tmp_path):
    chosen = PROTOCOLS[protocol]
    file = ResultFile(tmp_path / "results.jsonl")
    run(protocol, chosen.methods(Request()), [name], file, data_dir=str(folder), load=chosen.load)
    found = {result.method: result.scores for result in file}
    assert len(found) >= 3
    assert all(set(by_score) - {"coverage_80"} == scores for by_score in found.values())
    assert 0 <= found["nutime-base"].get("coverage_80", 0) <= 1
    text = build_report(list(file)).markdown()
    assert all(f"| {method} |" in text for method in found)


def test_validation_never_reads_the_test_part(folder):
    data = np.load(folder / "values" / "ETTh1.npz")["value"]
    length = data.shape[1]
    data[:, round(0.8 * length) :] = np.nan
    np.savez(folder / "values" / "ETTh1.npz", value=data)
    options = {"data_dir": str(folder), "validation": True}
    assert np.isfinite(load_imputation("values/ETTh1", **options)).all()
    assert np.isfinite(load_futures("values/ETTh1", **options).futures).all()
    hourly = load_futures("values/M4_Hourly", **options)
    past = np.load(folder / "values" / "M4_Hourly.npz")["past"]
    np.testing.assert_array_equal(hourly.futures[1], past[1, 302:350])
    assert len(hourly.pasts[1]) == 302


def test_a_missing_set_is_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"values/ETTh1: no file .*NUTIME_DATA"):
        load_imputation("values/ETTh1", data_dir=str(tmp_path))


def test_blocks_are_hidden_in_the_given_share():
    hidden = hide_blocks(960, 0.25, 24, np.random.default_rng(0))
    assert hidden.mean() == 0.25
    assert set(hidden.reshape(-1, 24).sum(1)) == {0, 24}


def test_classical_fillings_keep_what_they_are_exact_for():
    line, days = np.arange(96.0), DAYS[:96].copy()
    line[30:40] = days[30:40] = np.nan
    np.testing.assert_allclose(linear(line), np.arange(96))
    np.testing.assert_allclose(cubic_spline(line), np.arange(96))
    np.testing.assert_allclose(same_hour(days), DAYS[:96])


def test_naive_forecasts_of_a_season_repeat_it():
    for predict in (naive2, seasonal_naive):
        np.testing.assert_allclose(predict(DAYS[:250], 48, 24), DAYS[250:298], rtol=1e-6)
    walk = np.random.default_rng(0).normal(size=50)
    assert (naive2(walk, 5, 24) == walk[-1]).all()


def test_naive2_takes_no_ratios_of_values_around_zero():
    days = DAYS[:250] - DAYS.mean()
    assert (naive2(days, 48, 24) == days[-1]).all()


def test_naive2_has_an_owa_of_one():
    pasts = [np.random.default_rng(seed).normal(10, 1, 200) for seed in range(3)]
    predicted = np.stack([naive2(past, 8, 24) for past in pasts])
    assert forecast_scores(Futures(pasts, predicted + 1, 24, False), predicted)["owa"] == pytest.approx(1)
