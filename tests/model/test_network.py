"""The network: every ablation runs, any length fits, and the encoding of a series does not depend on its batch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import NORMALIZATIONS, SCALAR_EMBEDDINGS, SCALES, TINY, WEIGHTINGS, WIDTHS, configs, one_line

from nutime.model.attention import attention_weights
from nutime.model.config import NuTimeConfig
from nutime.model.network import NuTimeNetwork, count_parameters
from nutime.model.noise import Noise
from nutime.model.reading import NETWORK_POOLS, Reading, points_for, pooled_size


def network(config=TINY):
    torch.manual_seed(0)
    return NuTimeNetwork(config)


def random_series(config=TINY, batch=3, length=None):
    torch.manual_seed(1)
    return torch.randn(batch, config.channels, length or config.length)


def noise(seed=0, rows=(0, 1, 2)):
    return Noise(torch.tensor(seed, dtype=torch.int32), torch.tensor(rows, dtype=torch.int32))


def assert_trains(config):
    """Forward and backward, with dropout, are finite and reach every parameter."""
    module = network(config)
    out = module(random_series(config), noise())
    (out * torch.randn_like(out)).sum().backward()
    assert out.shape[0] == 3
    assert out.shape[2] == config.dim
    assert out.isfinite().all()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, f"{name} is never used"
        assert parameter.grad.isfinite().all(), name


# ---- ablations ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_positions_are_precomputed_for_every_token_of_the_configured_length(normalization):
    module = network(TINY.replace(normalization=normalization))
    assert len(module.positions) == module(random_series()).shape[1]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("scalar_embedding", SCALAR_EMBEDDINGS)
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_every_normalisation_trains_with_every_scalar_embedding(normalization, scalar_embedding, channels):
    config = TINY.replace(normalization=normalization, scalar_embedding=scalar_embedding)
    assert_trains(config.replace(channels=channels))


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("scales", SCALES)
def test_every_number_of_scales_trains_with_every_weighting(scales, weighting):
    assert_trains(TINY.replace(scales=scales, scale_weighting=weighting))


@pytest.mark.parametrize("head_dim", [16, 64])
@pytest.mark.parametrize("scalar_dim", WIDTHS)
@pytest.mark.parametrize("window", WIDTHS)
def test_every_window_trains_with_every_scalar_and_head_width(window, scalar_dim, head_dim):
    assert_trains(TINY.replace(window=window, length=256, scalar_dim=scalar_dim, head_dim=head_dim))


@settings(max_examples=40)
@given(configs(small=True))
def test_any_mixture_of_ablations_trains(config):
    assert_trains(config)


@pytest.mark.parametrize("head_dim", [16, 64])
def test_the_number_of_parameters_is_that_of_the_architecture(head_dim):
    dim, inner, mlp, norm = 128, 8 * head_dim, 512, 2 * 128
    layer = norm + dim * 3 * inner + (inner * dim + dim) + norm + (dim * mlp + mlp) + (mlp * dim + dim)
    window = (16 * dim + dim + norm) + 2 * 9 * 32 + ((dim + 32 + 32) * dim + dim + norm)
    assert count_parameters(NuTimeNetwork(NuTimeConfig(head_dim=head_dim))) == 6 * layer + window + dim + norm


@pytest.mark.parametrize(("head_dim", "count"), [(16, 1_215_680), (64, 2_395_328)])
def test_the_papers_model_has_1_2_or_2_4_million_parameters(head_dim, count):
    assert count_parameters(NuTimeNetwork(NuTimeConfig(head_dim=head_dim))) == count


def test_channels_add_one_projection_and_its_norm():
    one, three = (count_parameters(NuTimeNetwork(NuTimeConfig(channels=channels))) for channels in (1, 3))
    assert three - one == 3 * 128 * 128 + 128 + 2 * 128


# ---- what goes in ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [16, 48, 512, 528, 1024, 5120])
def test_any_number_of_windows_is_encoded(length):
    config = TINY.replace(window=16, length=512)
    out = network(config)(random_series(config, length=length))
    assert out.shape == (3, 1 + length // 16, 16)
    assert out.isfinite().all()


@pytest.mark.parametrize("length", [8, 64])
def test_the_configured_length_does_not_limit_the_length(length):
    series = random_series(length=length)
    short, long = network(), network(TINY.replace(length=1024))
    torch.testing.assert_close(short(series), long(series), rtol=0, atol=1e-6)


def test_a_length_that_is_no_multiple_of_the_window_is_refused():
    with pytest.raises(ValueError, match="not a multiple of the window") as caught:
        network()(random_series(length=33))
    one_line(caught)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("scalar_embedding", SCALAR_EMBEDDINGS)
def test_extreme_series_have_a_finite_encoding(normalization, scalar_embedding):
    module = network(TINY.replace(normalization=normalization, scalar_embedding=scalar_embedding))
    wave = torch.sin(torch.arange(32, dtype=torch.float64))
    offsets = torch.tensor([0.0, 0.0, 0.0, 1e300, 1e6, 0.0, -1.7e308], dtype=torch.float64)
    factors = torch.tensor([0.0, 5e-324, 1e-300, 0.0, 1e-3, 1.7e308, 0.0], dtype=torch.float64)
    assert module((offsets[:, None] + factors[:, None] * wave)[:, None]).isfinite().all()


@pytest.mark.parametrize("pieces", [0, 3])
@pytest.mark.parametrize(("largest", "dtype"), [(1.7e308, torch.float64), (3.4e38, torch.float32)])
def test_the_largest_values_are_averaged_to_finite_vectors(largest, dtype, pieces):
    reading = Reading("resolutions", points_for(TINY, "resolutions"), pieces)
    series = torch.tensor([-largest, largest], dtype=dtype).repeat_interleave(reading.points // 2)
    assert network().vectors(series[None, None], reading).isfinite().all()


@settings(max_examples=60)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=8, max_size=8),
    st.sampled_from(NORMALIZATIONS),
    st.sampled_from(SCALAR_EMBEDDINGS),
)
def test_every_finite_series_has_a_finite_encoding(values, normalization, scalar_embedding):
    module = network(TINY.replace(normalization=normalization, scalar_embedding=scalar_embedding))
    assert module(torch.tensor([[values]], dtype=torch.float64)).isfinite().all()


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_parameters_learn_from_series_of_any_magnitude(normalization, scale):
    module = network(TINY.replace(normalization=normalization))
    out = module(scale * random_series().double())
    (out * torch.randn_like(out)).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())


# ---- what comes out -------------------------------------------------------------------------------------


@pytest.mark.parametrize("windows", [1, 8, 20])
def test_cls_depends_on_every_window(windows):
    module = network().double()
    series = random_series(batch=1, length=4 * windows).double()
    before = module(series)[:, 0]
    for window in range(windows):
        changed = series.clone()
        changed[..., 4 * window : 4 * window + 4] = torch.tensor([5.0, -3.0, 4.0, 1.0])
        assert (module(changed)[:, 0] - before).abs().max() > 1e-5


def test_the_order_of_windows_matters():
    module, series = network(), random_series()
    permuted = series.unflatten(-1, (8, 4))[:, :, [3, 1, 2, 0, 4, 5, 6, 7]].flatten(-2)
    assert (module(permuted)[:, 0] - module(series)[:, 0]).abs().max() > 1e-3


def test_an_encoding_does_not_depend_on_batch_or_order():
    config = NuTimeConfig()
    module, series = network(config), random_series(config, batch=6)
    with torch.no_grad():
        together = module(series)
        order = torch.tensor([4, 2, 0, 5, 1, 3])
        torch.testing.assert_close(module(series[order]), together[order], rtol=0, atol=1e-5)
        for size in (1, 2, 4):
            torch.testing.assert_close(module(series[:size]), together[:size], rtol=0, atol=1e-5)


def test_dropout_follows_the_sample_and_not_the_batch():
    module, series = network(), random_series()
    together = module(series, noise())
    alone = module(series[2:], noise(rows=(2,)))
    torch.testing.assert_close(alone, together[2:], rtol=0, atol=1e-5)


def test_dropout_changes_with_the_seed():
    module, series = network(), random_series()
    assert not torch.allclose(module(series, noise(seed=0)), module(series, noise(seed=1)), atol=1e-3)


def test_every_dropout_of_the_network_has_a_mask_of_its_own():
    sites = []

    class Recorded(Noise):
        def row_keys(self, site):
            sites.append(site)
            return super().row_keys(site)

    network()(random_series(), Recorded(noise().seed, noise().rows))
    assert sorted(sites) == list(range(1 + 4 * TINY.depth))


@pytest.mark.parametrize("training", [True, False])
def test_without_noise_there_is_no_dropout_in_either_mode(training):
    module, series = network(), random_series()
    still = network(TINY.replace(dropout=0.0))
    assert torch.equal(module.train(training)(series), still(series))


def test_hidden_holds_every_layer_and_ends_with_the_output():
    module, series = network(), random_series()
    layers = module.hidden(series)
    assert [tokens.shape for tokens in layers] == [(3, 9, 16)] * TINY.depth
    assert torch.equal(layers[-1], module(series))


def test_attention_is_what_the_last_layer_mixes_values_with():
    module, series = network(), random_series()
    last, seen = module.transformer.layers[-1], {}
    last.qkv.register_forward_hook(lambda _module, _inputs, out: seen.update(qkv=out))
    last.attention_out.register_forward_pre_hook(lambda _module, inputs: seen.update(mixed=inputs[0]))
    module(series)
    qkv, mixed = seen["qkv"], seen["mixed"]
    weights = module.attention(series)
    torch.testing.assert_close(weights, attention_weights(qkv, TINY.heads))
    values = qkv.unflatten(-1, (3, TINY.heads, TINY.head_dim))[:, :, 2].transpose(1, 2)
    torch.testing.assert_close((weights @ values).transpose(1, 2).flatten(2), mixed)


def test_pools_are_cls_the_mean_of_the_window_tokens_or_both():
    module, series = network(), random_series()
    tokens = module(series)
    cls, mean = tokens[:, 0], tokens[:, 1:].mean(1)
    torch.testing.assert_close(module.pooled(series, "cls"), cls)
    assert torch.equal(module.pooled(series, "mean"), mean)
    assert torch.equal(module.pooled(series, "cls+mean"), torch.cat([cls, mean], dim=-1))


@pytest.mark.parametrize("channels", [1, 3])
def test_windows_by_their_indices_keep_their_positions(channels):
    config = TINY.replace(channels=channels)
    net, series = network(config), random_series(config)
    count = config.length // config.window
    order = torch.rand(3, count).argsort(1)
    for pool in ("cls", "cls+mean", "upper"):
        torch.testing.assert_close(net.pooled(series, pool, windows=order), net.pooled(series, pool))
    last = torch.tensor([[count - 2, count - 1]]).expand(3, 2)
    tokens = net.tokens(series[..., -2 * config.window :]) + net.positions[[0, count - 1, count]]
    torch.testing.assert_close(net(series, windows=last), net.norm(list(net.transformer(tokens))[-1]))


def test_layers_pools_three_vectors_after_every_layer():
    net, series = network(), random_series()
    expected = []
    for tokens in net.hidden(series):
        expected += [tokens[:, 0], tokens[:, 1:].mean(1), tokens[:, 1:].std(1, unbiased=False)]
    torch.testing.assert_close(net.pooled(series, "layers"), torch.cat(expected, dim=1))
    upper = expected[len(expected) // 2 :]
    torch.testing.assert_close(net.pooled(series, "upper"), torch.cat(upper, dim=1))


def test_tokens_that_are_all_equal_have_a_gradient():
    net = network()
    net.pooled(random_series(length=TINY.window), "upper").sum().backward()  # of one window: the deviation is zero
    assert all(parameter.grad.isfinite().all() for parameter in net.parameters())


def test_resolutions_pools_the_upper_layers_of_three_readings():
    net, series = network(), random_series(length=points_for(TINY, "resolutions"))
    fine, middle, coarse = (series.unflatten(-1, (-1, points)).mean(-1) for points in (1, 4, 16))
    assert middle.shape[-1] == TINY.length
    expected = [net.pooled(reading, "upper") for reading in (fine, middle, coarse)]
    torch.testing.assert_close(net.pooled(series, "resolutions"), torch.cat(expected, dim=1))


@pytest.mark.parametrize("how", NETWORK_POOLS)
def test_the_size_of_a_pooled_vector_is_known_beforehand(how):
    series = random_series(length=points_for(TINY, how))
    assert network().pooled(series, how).shape == (len(series), pooled_size(TINY, how))


def test_an_unknown_pooling_is_refused():
    with pytest.raises(ValueError, match=r"pool must be one of cls, .*, resolutions; got 'max'"):
        network().pooled(random_series(), "max")


@pytest.mark.parametrize("with_noise", [False, True])
def test_cls_alone_is_what_the_whole_network_has_at_position_0_gradients_included(with_noise):
    net, series = network().double(), random_series().double()
    noise = Noise(torch.tensor(3, dtype=torch.int32), torch.arange(3, dtype=torch.int32)) if with_noise else None
    grads = []
    for first in (net.cls(series, noise), net(series, noise)[:, 0]):
        net.zero_grad()
        first.square().sum().backward()
        grads.append((first, *(parameter.grad.clone() for parameter in net.parameters())))
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
