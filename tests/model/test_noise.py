"""Noise: a hash that is the same on every device, and dropout that follows the sample and not the batch."""

import math
import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nutime.model.hashing import decide, hash32, kept_scale, threshold
from nutime.model.noise import Noise

INT32 = st.integers(-(2**31), 2**31 - 1)
ROWS, COLUMNS = 64, 1000


def wrap(x):
    """Return an integer as two's complement int32."""
    return (x + 2**31) % 2**32 - 2**31


def python_decide(x):
    x = x * 0x7FEB352D % 2**32
    return wrap((x ^ x >> 15) * 0x846CA68B)


def python_hash32(x):
    x %= 2**32
    x = python_decide(x ^ x >> 16) % 2**32
    return wrap(x ^ x >> 16)


def int32(values):
    return torch.tensor(values, dtype=torch.int32)


def noise(seed=0, first_row=0, rows=ROWS):
    return Noise(int32(seed), torch.arange(first_row, first_row + rows, dtype=torch.int32))


def kept(seed=0, site=0, first_row=0, rate=0.5, rows=ROWS):
    return noise(seed, first_row, rows).drop(torch.ones(rows, COLUMNS), rate, site) != 0


def correlation(first, second):
    return torch.corrcoef(torch.stack([first.flatten(), second.flatten()]).double())[0, 1].item()


#: Five standard deviations of the correlation of two independent masks.
CHANCE = 5 / math.sqrt(ROWS * COLUMNS)


# ---- the hash -------------------------------------------------------------------------------------------


@given(st.lists(INT32, min_size=1, max_size=50))
def test_the_hash_is_the_32_bit_finaliser(values):
    assert hash32(int32(values)).tolist() == [python_hash32(value) for value in values]


@given(st.lists(INT32, min_size=1, max_size=50))
def test_the_decision_is_the_core_of_the_hash(values):
    assert decide(int32(values)).tolist() == [python_decide(value) for value in values]


def test_the_hash_maps_no_two_numbers_to_one():
    assert len(hash32(torch.arange(-50_000, 50_000, dtype=torch.int32)).unique()) == 100_000


# ---- dropout --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("seed", [0, 1, -(2**31)])
def test_dropout_drops_at_its_rate(rate, seed):
    dropped = (~kept(seed, rate=rate)).sum().item()
    count = ROWS * COLUMNS
    assert abs(dropped - count * rate) <= 5 * math.sqrt(count * rate * (1 - rate))


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_every_column_is_dropped_as_often_as_another(rate):
    rows = 4000
    dropped = (~kept(rate=rate, rows=rows)).sum(0)
    assert ((dropped - rows * rate).abs() <= 5.5 * math.sqrt(rows * rate * (1 - rate))).all()


def test_what_is_kept_is_scaled_and_the_rest_is_zero():
    x = torch.randn(ROWS, COLUMNS)
    dropped = noise().drop(x, 0.25, site=3)
    survives = kept(site=3, rate=0.25)
    torch.testing.assert_close(dropped, torch.where(survives, x / 0.75, 0.0))


def test_the_expectation_is_unchanged():
    x = torch.linspace(-2, 2, 10).expand(40_000, 10)
    mean = noise(rows=40_000).drop(x, 0.1, site=0).mean(0)
    deviation = x[0].abs() * math.sqrt(0.1 / 0.9 / 40_000)
    assert ((mean - x[0]).abs() <= 5 * deviation + 1e-6).all()


def test_the_gradient_passes_where_the_value_does():
    x = torch.randn(ROWS, COLUMNS, requires_grad=True)
    noise().drop(x, 0.1, site=0).sum().backward()
    torch.testing.assert_close(x.grad, kept(rate=0.1) * kept_scale(0.1))


@given(st.permutations(range(12)), st.integers(1, 12))
def test_a_sample_has_the_same_dropout_at_any_position(order, taken):
    chosen = int32(order[:taken])
    x = torch.ones(12, 3, 5)
    together = noise(rows=12).drop(x, 0.5, site=2)
    apart = Noise(int32(0), chosen).drop(x[:taken], 0.5, site=2)
    assert torch.equal(apart, together[chosen.long()])


def test_dropout_at_rate_zero_is_nothing():
    x = torch.randn(2, 3)
    assert torch.equal(noise(rows=2).drop(x, 0.0, site=0), x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_the_mask_does_not_depend_on_the_precision(dtype):
    dropped = noise().drop(torch.ones(ROWS, COLUMNS, dtype=dtype), 0.5, site=0)
    assert dropped.dtype == dtype
    assert torch.equal(dropped != 0, kept())


# ---- independence ---------------------------------------------------------------------------------------


def test_the_same_seed_site_and_row_give_the_same_mask():
    assert torch.equal(kept(5, 3), kept(5, 3))


@pytest.mark.parametrize("seed", [1, 2, 12345, -1])
def test_seeds_are_independent(seed):
    assert abs(correlation(kept(), kept(seed))) < CHANCE


@pytest.mark.parametrize("first_row", [1, 1000, 2**20])
def test_rows_are_independent(first_row):
    assert abs(correlation(kept(), kept(first_row=first_row))) < CHANCE


@pytest.mark.parametrize("site", range(1, 26))
def test_sites_are_independent(site):
    assert abs(correlation(kept(), kept(site=site))) < CHANCE


def test_the_next_site_is_not_the_next_seed():
    assert abs(correlation(kept(seed=7, site=3), kept(seed=8, site=2))) < CHANCE


@pytest.mark.parametrize("lag", [1, 2, 3, 4, 8, 16, 33, 64, 128, 512])
def test_neighbouring_columns_are_independent(lag):
    mask = kept()
    assert abs(correlation(mask[:, lag:], mask[:, :-lag])) < 1.2 * CHANCE


@pytest.mark.parametrize("lag", [1, 2, 4, 8, 16, 32])
def test_neighbouring_rows_are_independent(lag):
    mask = kept()
    assert abs(correlation(mask[lag:], mask[:-lag])) < 1.5 * CHANCE


# ---- numbers --------------------------------------------------------------------------------------------


@given(INT32, st.lists(INT32, min_size=1, max_size=20), st.integers(0, 100))
def test_uniform_lies_from_zero_to_below_one(seed, rows, site):
    drawn = Noise(int32(seed), int32(rows)).uniform(site)
    assert drawn.dtype == torch.float64
    assert ((drawn >= 0) & (drawn < 1)).all()


@pytest.mark.parametrize("seed", [0, 1, 99])
def test_uniform_is_uniform(seed):
    count = 20_000
    drawn = noise(seed, rows=count).uniform(site=0).sort().values
    even = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    assert (drawn - even).abs().max() < 1.95 / math.sqrt(count)  # Kolmogorov–Smirnov at 0.001


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.999])
def test_the_threshold_parts_the_int32_by_the_rate(rate):
    assert (threshold(rate) + 2**31) / 2**32 == pytest.approx(rate, abs=2**-32)
    assert kept_scale(rate) * (1 - rate) == pytest.approx(1)


# ---- dropout in one kernel ------------------------------------------------------------------------------


@pytest.fixture
def drop():
    pytest.importorskip("triton")
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("with a GPU the kernel is compiled; set TRITON_INTERPRET=1 to interpret it")
    from nutime.model.drop_kernel import drop

    return drop


@pytest.mark.parametrize("columns", [1, 7, 1500])
def test_the_kernel_drops_what_the_definition_drops(drop, columns):
    x = torch.randn(3, columns, 2, requires_grad=True)
    ours = drop(x, noise(rows=3).row_keys(5), 0.3)
    assert torch.equal(ours, noise(rows=3).drop(x, 0.3, site=5))
    (gradient,) = torch.autograd.grad(ours.sum(), x)
    assert torch.equal(gradient, noise(rows=3).drop(torch.ones_like(x), 0.3, site=5))


def test_the_kernel_serves_several_models_at_once(drop):
    x = torch.randn(4, 3, 10)
    keys = torch.stack([noise(seed, rows=3).row_keys(1) for seed in range(4)])
    together = torch.func.vmap(lambda x, keys: drop(x, keys, 0.5))(x, keys)
    apart = torch.stack([noise(seed, rows=3).drop(x[seed], 0.5, site=1) for seed in range(4)])
    assert torch.equal(together, apart)
