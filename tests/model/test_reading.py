"""The reading of series follows their length: once, at several resolutions, or in pieces as well."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import TINY

from nutime.model.convolutions import SEGMENTS
from nutime.model.network import NuTimeNetwork
from nutime.model.reading import MAX_PIECES, PIECES_FROM, POOLS, Reading, points_for

OWN = TINY.length


def series(*lengths):
    return [np.zeros((1, length)) for length in lengths]


HALF, THREE = OWN // 2, points_for(TINY, "resolutions")


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        (1, Reading("upper", HALF, convolved=9)),
        (2 * OWN // 5, Reading("upper", HALF, convolved=2 * OWN // 5)),
        (2 * OWN // 5 + 1, Reading("resolutions", THREE, convolved=2 * OWN // 5 + 1)),
        (OWN * PIECES_FROM, Reading("resolutions", THREE, convolved=OWN * PIECES_FROM)),
    ],
)
def test_the_work_grows_with_the_length_of_the_series(points, expected):
    assert Reading.choose(TINY, "auto", "auto", series(points)) == expected


def test_a_distilled_network_reads_long_series_once():
    distilled = TINY.replace(resolutions=1)
    assert Reading.choose(distilled, "auto", "auto", series(10)) == Reading("upper", HALF, convolved=10)
    assert Reading.choose(distilled, "auto", "auto", series(OWN)) == Reading("upper", OWN, convolved=OWN)
    long = OWN * PIECES_FROM + 1
    assert Reading.choose(distilled, "auto", "auto", series(long)).pieces == PIECES_FROM + 1


@pytest.mark.parametrize("pool", POOLS)
def test_a_reading_has_the_name_of_its_pool(pool):
    assert Reading.choose(TINY, pool, "auto", series(10)).name == pool


def test_the_median_length_decides():
    assert Reading.choose(TINY, "auto", "auto", series(5, 6, 10**6)).pool == "upper"


def test_long_series_are_read_in_pieces_unless_a_length_is_given():
    long = series(OWN * PIECES_FROM + 1)
    assert Reading.choose(TINY, "mean", "auto", long) == Reading("mean", OWN, PIECES_FROM + 1)
    assert Reading.choose(TINY, "mean", None, long) == Reading("mean", OWN)
    assert Reading.choose(TINY, "mean", 2 * OWN, long) == Reading("mean", 2 * OWN)


def test_several_channels_have_the_median_deviation_of_series_that_vary_as_units_of_convolutions():
    alternating = np.tile([-1.0, 1.0], 10)
    both = [np.stack([scale * alternating, 3 * (scale > 1) * alternating, np.zeros(20)]) for scale in (1, 2, 9)]
    both += both[:1]  # the same series again counts once
    reading = Reading.choose(TINY, "auto", "auto", both)
    assert (reading.scales, reading.segments) == ((2, 3, 1), SEGMENTS)
    assert Reading.choose(TINY, "auto", 2 * OWN, both).scales == (2, 3, 1)
    for without in (
        Reading.choose(TINY, "mean", "auto", both),
        Reading.choose(TINY, "auto", "auto", [values[:1] for values in both]),
    ):
        assert (without.scales, without.segments) == ((), 0)


def test_channels_near_the_largest_float_have_finite_units():
    extreme = [np.tile([-1.7e308, 1.7e308], (2, 5))]
    reading = Reading.choose(TINY, "auto", "auto", extreme)
    assert reading.checked(TINY).scales == (np.finfo(np.float64).max,) * 2


@given(st.integers(1, 10**9), st.sampled_from(["cls", "upper", "resolutions", "auto"]))
def test_the_points_read_are_bounded(points, pool):
    reading = Reading.choose(TINY, pool, "auto", [np.broadcast_to(0.0, (1, points))])
    assert reading.checked(TINY) == reading
    assert reading.points <= MAX_PIECES * OWN


@pytest.mark.parametrize("length", ["long", 0, -8, 2.5, True, 10**12])
def test_a_length_that_is_no_number_of_points_is_refused(length):
    with pytest.raises(ValueError, match=r"^length must be an integer in \[1, \d+\], got .*$"):
        Reading.choose(TINY, "mean", length, series(10))


def test_a_series_in_pieces_has_the_whole_the_mean_and_the_largest_deviation():
    torch.manual_seed(0)
    net, reading = NuTimeNetwork(TINY), Reading("cls+mean", OWN, 3)
    batch = torch.randn(2, 1, reading.points)
    vectors = net.vectors(batch, reading)
    assert vectors.shape[1] == reading.size(TINY, 1)
    whole = net.pooled(batch.reshape(2, 1, OWN, 3).mean(-1), "cls+mean")
    pieces = torch.stack([net.pooled(piece, "cls+mean") for piece in batch.split(OWN, dim=-1)])
    mean = pieces.mean(0)
    expected = torch.cat([whole, mean, (pieces - mean).abs().amax(0)], dim=-1)
    torch.testing.assert_close(vectors, expected)
