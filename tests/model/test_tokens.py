"""Tokens: what of a series reaches the transformer, under each normalisation."""

import math

import numpy as np
import pytest
import torch
from tiny import NORMALIZATIONS, TINY, one_line

from nutime.model.tokens import Tokens, sinusoids

CHANNELS = TINY.replace(channels=3)


def tokens(config=TINY):
    torch.manual_seed(0)
    return Tokens(config).double()


def random_series(config=TINY, batch=2, length=32):
    torch.manual_seed(1)
    return torch.randn(batch, config.channels, length, dtype=torch.float64)


def same(first, second, atol=1e-9):
    torch.testing.assert_close(first, second, rtol=0, atol=atol)


# ---- shape ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_there_is_one_token_per_window_and_one_before_them(normalization, channels):
    config = TINY.replace(normalization=normalization, channels=channels)
    statistics = 2 if normalization == "instance+tokens" else 0
    assert tokens(config)(random_series(config)).shape == (2, 1 + 32 // 4 + statistics, 16)


def test_the_first_token_knows_nothing_of_the_series():
    module = tokens()
    same(module(random_series())[:, 0], module.cls.expand(2, -1))


def test_before_any_training_channels_are_rotated_each_in_its_own_way_and_summed():
    projection = tokens(CHANNELS).channel_projection[0]
    blocks = projection.weight.detach().split(TINY.dim, dim=1)
    for block in blocks:
        same(block @ block.T, torch.eye(TINY.dim, dtype=torch.float64) / 3, atol=1e-6)
    assert not torch.allclose(blocks[0], blocks[1])
    assert not projection.bias.any()


@pytest.mark.parametrize("given_channels", [1, 2, 4])
def test_the_wrong_number_of_channels_is_refused(given_channels):
    with pytest.raises(ValueError, match=f"reads 3 channel.*got {given_channels}") as caught:
        tokens(CHANNELS)(torch.zeros(1, given_channels, 32))
    one_line(caught)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_a_length_that_is_no_multiple_of_the_window_is_refused(normalization):
    with pytest.raises(ValueError, match="length 33 is not a multiple of the window 4") as caught:
        tokens(TINY.replace(normalization=normalization))(random_series(length=33))
    one_line(caught)


# ---- normalisations -------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalization", ["window", "zscore", "identity"])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_token_sees_its_own_window_only(normalization, channels):
    config = TINY.replace(normalization=normalization, channels=channels)
    module, series = tokens(config), random_series(config)
    before = module(series)
    series[:, -1, 8:12] = torch.tensor([3.0, -1.0, 2.0, 7.0])
    changed = (module(series) - before).abs().amax((0, 2)) > 1e-6
    assert changed.tolist() == [position == 3 for position in range(9)]


def windowwise_affine(series):
    """Give every window an offset and a positive factor of its own."""
    windows = series.unflatten(-1, (-1, 4))
    count = windows.shape[-2]
    return (windows * torch.linspace(1, 9, count)[:, None] + torch.arange(count)[:, None]).flatten(-2)


def test_without_scalars_a_window_is_its_shape():
    module, series = tokens(TINY.replace(scalar_embedding="none")), random_series()
    same(module(windowwise_affine(series)), module(series), atol=1e-6)


@pytest.mark.parametrize("change", [lambda x: x + 0.1, lambda x: x * 2], ids=["offset", "factor"])
@pytest.mark.parametrize("scalar_embedding", ["nme", "ple-q", "ple-t", "ple-p"])
def test_with_scalars_a_window_is_more_than_its_shape(scalar_embedding, change):
    module, series = tokens(TINY.replace(scalar_embedding=scalar_embedding)), 0.1 * random_series()
    moved = (module(change(series)) - module(series)).abs().amax(-1)
    assert (moved[:, 1:] > 1e-3).all()


def test_instance_normalisation_forgets_offset_and_scale():
    module, series = tokens(TINY.replace(normalization="instance")), random_series()
    same(module(5 + 3 * series), module(series), atol=1e-6)


def test_instance_normalisation_with_tokens_gives_them_back():
    module, series = tokens(TINY.replace(normalization="instance+tokens")), random_series()
    before, after = module(series), module(5 + 3 * series)
    same(after[:, :-2], before[:, :-2], atol=1e-6)
    assert ((after - before)[:, -2:].abs().amax(-1) > 1e-3).all()


def test_zscore_uses_the_statistics_of_the_corpus():
    zscore, identity = (tokens(TINY.replace(normalization=kind)) for kind in ("zscore", "identity"))
    series = random_series()
    same(zscore(series), identity(series))
    zscore.corpus_statistics.copy_(torch.tensor([5.0, 3.0]))
    same(zscore(5 + 3 * series), identity(series))


def test_the_statistics_of_the_corpus_travel_with_the_weights():
    config = TINY.replace(normalization="zscore")
    source, target = Tokens(config), Tokens(config)
    source.corpus_statistics.copy_(torch.tensor([5.0, 3.0]))
    target.load_state_dict(source.state_dict())
    assert target.corpus_statistics.tolist() == [5, 3]


# ---- channels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("order", [[2, 0, 1], [1, 0, 2]])
def test_permuted_channels_with_permuted_projection_columns_are_the_same(normalization, order):
    config = CHANNELS.replace(normalization=normalization)
    module, series = tokens(config), random_series(config)
    before = module(series)
    projection = module.channel_projection[0].weight.data
    projection.copy_(projection.unflatten(1, (3, -1))[:, order].flatten(1))
    same(module(series[:, order]), before)


def test_the_order_of_channels_matters():
    module, series = tokens(CHANNELS), random_series(CHANNELS)
    assert (module(series.flip(1)) - module(series)).abs().max() > 1e-3


def test_channels_share_the_parameters_of_a_window():
    one, three = tokens(), tokens(CHANNELS)
    extra = {name for name, _ in three.named_parameters()} - {name for name, _ in one.named_parameters()}
    assert all(name.startswith("channel_projection.") for name in extra)


# ---- positions ------------------------------------------------------------------------------------------


def test_positions_are_interleaved_sines_and_cosines():
    encoding = sinusoids(50, 16).numpy()
    for position in range(50):
        for pair in range(8):
            angle = position / 10000 ** (2 * pair / 16)
            np.testing.assert_allclose(
                encoding[position, 2 * pair : 2 * pair + 2], [math.sin(angle), math.cos(angle)], atol=1e-7
            )


def test_a_position_does_not_depend_on_how_many_there_are():
    assert torch.equal(sinusoids(321, 128)[:33], sinusoids(33, 128))
