import numpy as np
import pytest

from nutime import NuTime
from nutime.model.config import NuTimeConfig

WAVE = np.sin(np.arange(500) * 2 * np.pi / 25)


@pytest.fixture(scope="module")
def model():
    return NuTime.from_pretrained("nutime-base")


def with_gap(values, start=300, stop=340):
    values = np.array(values, dtype=np.float64)
    values[..., start:stop] = np.nan
    return values


def test_imputing_keeps_every_observed_value(model):
    rng = np.random.default_rng(0)
    given = rng.normal(size=(2, 700)).cumsum(1)
    given[rng.random(given.shape) < 0.3] = np.nan
    filled = model.impute([given])[0]
    known = ~np.isnan(given)
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[known], given[known])


def test_a_gap_in_a_wave_is_filled_with_the_wave(model):
    filled = model.impute([with_gap(WAVE)])[0][0]
    assert np.abs(filled - WAVE).max() < 0.1


def test_a_small_variation_on_a_large_level_is_decoded(model):
    filled = model.impute([with_gap(1e6 + 1e-3 * WAVE)])[0][0]
    assert np.abs(filled - (1e6 + 1e-3 * WAVE)).max() < 1e-4


def test_a_wave_is_forecast(model):
    future = model.forecast([WAVE], 60)
    assert future.shape == (1, 1, 60)
    np.testing.assert_allclose(future[0, 0], np.sin(np.arange(500, 560) * 2 * np.pi / 25), atol=0.15)


@pytest.mark.parametrize("factor", [1e-12, 1e-6, 1e6, 1e12])
@pytest.mark.parametrize("shift", [0.0, 1.0, 1e6])
def test_results_follow_the_scale_and_the_level_of_the_input(model, factor, shift):
    series = np.random.default_rng(1).normal(size=400).cumsum()
    gap = with_gap(series, 200, 260)
    one, other = model.impute([gap, factor * gap + factor * shift])
    forecasts = model.forecast([series, factor * series + factor * shift], 24)[:, 0]
    for plain, changed in ((one[0, 200:260], other[0, 200:260]), forecasts):
        expected = factor * plain + factor * shift
        assert np.median(np.abs(changed - expected)) <= 1e-3 * factor * series.std()


def test_gaps_of_any_length_and_at_the_ends_are_filled(model):
    series = np.sin(np.arange(4000) * 2 * np.pi / 25)
    given = with_gap(series, 1000, 2500)
    given[:20] = given[-20:] = np.nan
    filled = model.impute([given])[0][0]
    assert filled.shape == series.shape
    assert np.isfinite(filled).all()
    assert np.abs(filled).max() < 2


def test_quantiles_are_ascending_and_the_last_axis(model):
    series = np.random.default_rng(2).normal(size=(3, 2, 300)).cumsum(2)
    levels = (0.05, 0.5, 0.93)
    future = model.forecast(series, 30, quantiles=levels)
    assert future.shape == (3, 2, 30, 3)
    assert (np.diff(future) >= 0).all()
    np.testing.assert_array_equal(future[..., 1], model.forecast(series, 30))
    filled = model.impute(with_gap(series, 100, 120), quantiles=levels)
    assert filled[0].shape == (2, 300, 3)
    np.testing.assert_array_equal(filled[1][:, 0, 0], series[1][:, 0])


def test_a_constant_series_stays_constant(model):
    assert (model.forecast([np.full(100, 7e-9)], 10) == 7e-9).all()


def test_long_horizons_roll_on(model):
    future = model.forecast([WAVE], 400)
    assert future.shape == (1, 1, 400)
    assert np.abs(future).max() < 2


@pytest.mark.parametrize(("before", "after"), [(0, 30), (700, 0)])
def test_padding_is_no_part_of_the_past(model, before, after):
    padded = np.pad(WAVE, (before, after), constant_values=np.nan)
    for options in ({}, {"quantiles": (0.1, 0.9)}):
        np.testing.assert_array_equal(model.forecast([padded], 5, **options), model.forecast([WAVE], 5, **options))


def test_a_series_does_not_depend_on_those_beside_it(model):
    rng = np.random.default_rng(3)
    short, long = rng.normal(size=60).cumsum(), rng.normal(size=900).cumsum()
    alone = model.forecast([short], 12)[0]
    np.testing.assert_allclose(model.forecast([short, long], 12)[0], alone, atol=1e-3 * short.std())


@pytest.mark.parametrize("quantiles", [(0.0,), (1.0,), (), (0.5, float("nan"))])
def test_impossible_quantiles_are_refused(model, quantiles):
    with pytest.raises(ValueError, match=r"quantiles must be from 0\.025 to 0\.975"):
        model.forecast([WAVE], 5, quantiles=quantiles)


@pytest.mark.parametrize("horizon", [0, -1, 2.5])
def test_an_impossible_horizon_is_refused(model, horizon):
    with pytest.raises(ValueError, match="horizon must be an integer"):
        model.forecast([WAVE], horizon)


def test_weights_without_a_decoder_say_so():
    encoder = NuTime(NuTimeConfig(dim=16, depth=1, heads=2, head_dim=16, mlp_dim=16))
    with pytest.raises(ValueError, match="no decoder"):
        encoder.impute([WAVE])


def test_a_saved_encoder_keeps_its_decoder(model, tmp_path):
    again = NuTime.from_pretrained(model.save(tmp_path / "copy"))
    np.testing.assert_array_equal(again.forecast([WAVE], 5), model.forecast([WAVE], 5))


def correlated(rng, length=600):
    """Return a slow wave with steps that repeat in no period, and another channel that is a multiple of it."""
    slow = np.repeat(rng.normal(size=length // 10), 10) + rng.normal(0, 0.02, length)
    return np.stack([slow, 1e6 - 1e3 * slow])


def test_a_channel_is_filled_from_another_one_that_explains_it(model):
    series = correlated(np.random.default_rng(4))
    given = series.copy()
    given[0, 300:330] = np.nan
    alone, jointly = model.impute([given[0]])[0][0], model.impute([given])[0][0]
    error = np.abs(np.stack([alone, jointly]) - series[0])[:, 300:330].mean(1)
    assert error[1] < 0.2 * error[0]


def test_a_channel_is_filled_alone_where_no_other_one_is_observed(model):
    given = with_gap(correlated(np.random.default_rng(5)))
    given[0, 100:130] = np.nan
    alone = np.stack([model.impute([given[channel]])[0][0] for channel in (0, 1)])
    np.testing.assert_allclose(model.impute([given])[0][:, 300:340], alone[:, 300:340], rtol=1e-4)


def test_a_channel_that_explains_nothing_changes_nothing(model):
    rng = np.random.default_rng(6)
    given = np.stack([with_gap(WAVE), rng.normal(size=500)])
    np.testing.assert_allclose(model.impute([given])[0][0], model.impute([given[0]])[0][0], atol=1e-4)


def test_joint_results_follow_the_scale_of_every_channel(model):
    series = correlated(np.random.default_rng(7))
    series[0, 300:330] = np.nan
    one, other = model.impute([series, series * [[1e9], [1e-9]]])
    np.testing.assert_allclose(other[0], 1e9 * one[0], atol=1e6)


def test_intervals_are_narrower_after_a_past_that_was_predictable(model):
    rng = np.random.default_rng(8)
    calm = np.append(WAVE, WAVE)
    wild = calm + np.append(np.zeros(500), rng.normal(0, 0.5, 500))
    width = np.diff(model.forecast([calm, wild], 24, quantiles=(0.1, 0.9))[:, 0])[..., 0].mean(1)
    assert width[0] < width[1] / 3


def test_a_past_without_a_season_is_cut_to_its_last_points(model):
    noise = np.random.default_rng(9).normal(size=600)
    np.testing.assert_array_equal(model.forecast([noise], 20), model.forecast([noise[-128:]], 20))
    np.testing.assert_array_equal(model.forecast([noise], 100), model.forecast([noise[-200:]], 100))


def test_a_long_season_seen_in_three_cycles_is_forecast(model):
    slow = np.sin(np.arange(1000) * 2 * np.pi / 300)
    future = model.forecast([slow], 100)[0, 0]
    np.testing.assert_allclose(future, np.sin(np.arange(1000, 1100) * 2 * np.pi / 300), atol=0.2)


def test_a_channel_that_ends_early_is_forecast_from_its_own_last_points(model):
    walk = np.random.default_rng(10).normal(1e3, 1, 600).cumsum()
    ended = walk.copy()
    ended[300:] = np.nan
    future = model.forecast([np.stack([walk, ended])], 5)[0, 1]
    assert np.abs(future - walk[299]).max() < np.abs(np.ptp(walk[:300]))
    assert np.isfinite(future).all()


def test_quantiles_of_a_long_gap_cover_what_was_there(model):
    rng = np.random.default_rng(0)
    truth = np.sin(np.arange(1500) * 2 * np.pi / 24) + rng.normal(0, 0.3, 1500)
    low, high = model.impute([with_gap(truth, 400, 1000)], quantiles=(0.1, 0.9))[0][0, 400:1000].T
    assert 0.7 < ((low <= truth[400:1000]) & (truth[400:1000] <= high)).mean() < 0.95


@pytest.mark.parametrize("horizon", [48, 192, 400])
def test_a_channel_that_ended_long_ago_is_forecast_at_its_own_level(model, horizon):
    series = np.tile(100 + np.sin(np.arange(2000) * 2 * np.pi / 24), (2, 1))
    series[1, 900:] = np.nan
    low, high = np.moveaxis(model.forecast([series], horizon, quantiles=(0.1, 0.9))[0, 1], -1, 0)
    assert ((low > 95) & (low < high) & (high < 105)).all()


@pytest.mark.parametrize("factor", [1e-290, 1e-200, 1e200, 1e300])
def test_values_of_any_magnitude_are_decoded(model, factor):
    series = np.stack([with_gap(WAVE), WAVE[::-1]])
    expected, filled = (model.impute([unit * series])[0] / unit for unit in (1, factor))
    np.testing.assert_allclose(filled, expected, rtol=1e-6, atol=1e-9)
    expected, future = (model.forecast([unit * WAVE], 8) / unit for unit in (1, factor))
    np.testing.assert_allclose(future, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("observed", [slice(0, 240), slice(760, 1000)])
def test_a_channel_observed_in_one_part_of_a_series_is_filled_everywhere(model, observed):
    series = np.random.default_rng(0).normal(size=(2, 1000)).cumsum(1)
    series[1] = np.where(np.isin(np.arange(1000), np.arange(1000)[observed]), series[1], np.nan)
    assert np.isfinite(model.impute([series])[0]).all()
