import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nutime.data.corpus import generators as _generators
from nutime.data.corpus import synthetic
from nutime.data.corpus.synthetic import BATCH, EFFECTS, GENERATORS, OPERATORS, draw_batch, stream, synthesize

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(scope="module")
def corpus():
    return synthesize(8 * BATCH).astype(np.float64)


@pytest.fixture(scope="module")
def standardised(corpus):
    return (corpus - corpus.mean(axis=1, keepdims=True)) / corpus.std(axis=1, keepdims=True)


def named(functions):
    return pytest.mark.parametrize("function", functions, ids=lambda function: function.__name__)


# What a seed means.


def test_the_same_seed_gives_the_same_series_and_another_others():
    one, again, other = (synthesize(20, 100, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any(axis=1).all()


@pytest.mark.parametrize("count", [0, 1, BATCH, BATCH + 1])
def test_fewer_series_are_the_first_of_more(count):
    fewer = synthesize(count, 64)
    assert fewer.shape == (count, 64)
    assert fewer.dtype == np.float32
    np.testing.assert_array_equal(fewer, synthesize(2 * BATCH, 64)[:count])


def test_a_batch_drawn_alone_is_the_one_of_the_stream():
    alone = draw_batch(2, 64, seed=5)
    np.testing.assert_array_equal(alone, list(stream(3 * BATCH, 64, seed=5))[2])


def test_batches_differ_from_each_other():
    assert (draw_batch(0, 64) != draw_batch(1, 64)).any(axis=1).all()


def test_batch_one_of_a_seed_is_not_batch_zero_of_the_next():
    assert (draw_batch(1, 64, seed=0) != draw_batch(0, 64, seed=1)).any(axis=1).all()


# Every series is usable.


@settings(max_examples=15, deadline=None)
@given(length=st.integers(1, 5000), index=st.integers(0, 2**40), seed=st.integers(0, 2**70))
def test_series_of_any_length_are_finite(length, index, seed):
    batch = draw_batch(index, length, seed=seed)
    assert batch.shape == (BATCH, length)
    assert np.isfinite(batch).all()


@pytest.mark.parametrize("length", [2, 3, 16, 512])
def test_no_series_is_constant(length):
    assert (np.ptp(synthesize(4 * BATCH, length), axis=1) > 0).all()


def test_a_row_made_constant_becomes_noise():
    finished = synthetic.finish(np.random.default_rng(0), np.zeros((5, 100)))
    assert (finished.std(axis=1) > 0).all()


def test_no_two_series_are_equal(corpus):
    assert len(np.unique(corpus, axis=0)) == len(corpus)


@pytest.mark.parametrize("length", [0, -1])
def test_length_below_one_is_refused(length):
    with pytest.raises(ValueError, match=f"length is {length}; expected"):
        synthesize(1, length)


def test_negative_count_is_refused():
    with pytest.raises(ValueError, match="count is -1; expected"):
        synthesize(-1)


# The corpus is broad.


def test_scales_cover_eight_decades(corpus):
    low, high = np.quantile(np.log10(corpus.std(axis=1)), [0.01, 0.99])
    assert low < -3.7
    assert high > 3.7


def test_every_decade_of_scale_has_its_share(corpus):
    shares = np.histogram(np.log10(corpus.std(axis=1)), bins=8, range=(-4, 4))[0] / len(corpus)
    assert shares.min() > 0.05


def test_levels_run_from_none_to_many_times_the_spread(corpus):
    ratio = np.abs(corpus.mean(axis=1)) / corpus.std(axis=1)
    assert np.quantile(ratio, 0.2) < 1e-3
    assert np.quantile(ratio, 0.95) > 10


def test_a_share_is_z_normalised(corpus):
    normal = (np.abs(corpus.mean(axis=1)) < 1e-4) & (np.abs(corpus.std(axis=1) - 1) < 1e-4)
    assert 0.2 < normal.mean() < 0.4


def test_lag_one_correlations_run_from_noise_to_smoothness(standardised):
    correlation = (standardised[:, 1:] * standardised[:, :-1]).mean(axis=1)
    low, high = np.quantile(correlation, [0.03, 0.9])
    assert low < 0.1
    assert high > 0.99


def test_spectral_entropies_run_from_lines_to_white(standardised):
    power = np.abs(np.fft.rfft(standardised)[:, 1:]) ** 2
    power /= power.sum(axis=1, keepdims=True)
    entropy = -(power * np.log(power + 1e-300)).sum(axis=1) / np.log(power.shape[1])
    low, middle, high = np.quantile(entropy, [0.05, 0.5, 0.95])
    assert low < 0.2
    assert 0.3 < middle < 0.6
    assert high > 0.8


def test_some_series_have_rare_extremes_and_some_have_flat_tops(standardised):
    low, high = np.quantile(np.abs(standardised).max(axis=1), [0.1, 0.95])
    assert low < 2
    assert high > 6


def test_every_family_and_every_operator_is_chosen():
    recipe = synthetic.choose(np.random.default_rng(0), 2 * BATCH)
    assert set(recipe.components[:, 0]) == set(range(len(GENERATORS)))
    assert set(recipe.operators.ravel()) == {-1, *range(len(OPERATORS))}


# The vocabulary.


@named(GENERATORS)
@pytest.mark.parametrize("length", [1, 2, 7, 512])
def test_a_generator_draws_one_finite_row_for_each_series(function, length):
    drawn = function(np.random.default_rng(0), 300, np.arange(length) / length)
    assert drawn.shape == (300, length)
    assert np.isfinite(drawn).all()


@named(GENERATORS)
def test_no_two_draws_of_a_generator_have_the_same_shape(function):
    drawn = function(np.random.default_rng(0), 300, np.arange(512) / 512)
    shapes = (drawn - drawn.mean(axis=1, keepdims=True)) / drawn.std(axis=1, keepdims=True)
    assert len(np.unique(shapes.round(6), axis=0)) == 300


@named([*GENERATORS, *OPERATORS, *(effect for effect, _ in EFFECTS)])
def test_nothing_may_be_asked_for(function):
    nothing = np.empty((0, 30))
    if function in GENERATORS:
        assert function(np.random.default_rng(0), 0, np.arange(30) / 30).shape == (0, 30)
    elif function in OPERATORS:
        assert function(np.random.default_rng(0), nothing, nothing).shape == (0, 30)
    else:
        assert function(np.random.default_rng(0), nothing).shape == (0, 30)


@named(OPERATORS)
def test_an_operator_uses_both_series(function):
    one, other = np.random.default_rng(0).standard_normal((2, 50, 100))
    joined = function(np.random.default_rng(1), one, other)
    assert (joined != function(np.random.default_rng(1), -one, other)).any(axis=1).all()
    assert (joined != function(np.random.default_rng(1), one, -other)).any(axis=1).all()


@named([effect for effect, _ in EFFECTS])
def test_an_effect_changes_most_rows_and_leaves_its_argument_alone(function):
    series = np.random.default_rng(0).standard_normal((50, 100))
    before = series.copy()
    changed = function(np.random.default_rng(1), series)
    np.testing.assert_array_equal(series, before)
    assert (changed != series).any(axis=1).mean() > 0.5


def test_spectral_sampling_has_the_variogram_of_the_kernel():
    t, width = np.arange(64) / 64, 0.15
    drawn = _generators._shape_noise(
        np.random.default_rng(0), 50_000, t, lambda f: np.exp(-0.5 * (2 * np.pi * f * width) ** 2)
    )
    variogram = np.mean((drawn - drawn[:, :1]) ** 2, axis=0)
    np.testing.assert_allclose(variogram / variogram[-1], 1 - np.exp(-0.5 * (t / width) ** 2), atol=0.02)


def test_arma_filter_answers_an_impulse_at_once_and_not_before():
    innovations = np.zeros((100, 32_000))  # long enough for the slowest filter to fade
    innovations[:, 17_000] = 1
    response = _generators._resonate(np.random.default_rng(0), innovations)
    np.testing.assert_allclose(response[:, :1000], 0, atol=1e-6)
    np.testing.assert_allclose(response[:, 1000], 1, atol=1e-6)


def test_lag_does_not_carry_the_end_of_a_series_to_its_start():
    series = np.repeat([[0.0, 1.0]], 100, axis=1).repeat(50, axis=0)
    lagged = synthetic.lag(np.random.default_rng(0), series)
    np.testing.assert_allclose(lagged[:, 0], 0, atol=0.02)
    np.testing.assert_allclose(lagged[:, -1], 1, atol=0.02)
