"""Embeddings of scalars: the closed form of NME is its definition, and every finite number has one."""

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiny import SCALES, WEIGHTINGS, one_line

from nutime.model.config import NuTimeConfig
from nutime.model.scalars import (
    MultiScaledEmbedding,
    PeriodicEmbedding,
    PiecewiseLinearEmbedding,
    scalar_embeddings,
)

FINITE = st.floats(allow_nan=False, allow_infinity=False)
EXTREMES = [0.0, 5e-324, -5e-324, 1e-310, 2.2e-308, 1e-300, 1e300, -1e300, 1.7e308, -1.7e308, 1e4, -1e-4]
MAGNITUDES = torch.logspace(-12, 12, 97, dtype=torch.float64)
SCALARS = torch.cat([MAGNITUDES, -MAGNITUDES, torch.zeros(1, dtype=torch.float64)])


def nme(scales=9, dim=32, weighting="weighted", epsilon=0.0):
    torch.manual_seed(100 * scales + dim)
    return MultiScaledEmbedding(NuTimeConfig(scales=scales).scale_values, dim, weighting, epsilon)


def literal_nme(x, weight, bias, scales, weighting, epsilon):
    """The definition, scale by scale: LayerNorm of x·w + k·b, averaged with weights α."""
    blocks, closeness = [], []
    for k, w, b in zip(scales, weight, bias, strict=True):
        z = x[:, None] * w + k * b
        centred = z - z.mean(-1, keepdim=True)
        blocks.append(centred / (centred.square().mean(-1, keepdim=True) + epsilon).sqrt())
        closeness.append(1 / (((x.abs() / k) + 1e-6).log().abs() + 1e-6))
    alpha = torch.stack(closeness)
    if weighting == "plain":
        alpha = torch.ones_like(alpha)
    alpha = alpha / alpha.sum(0)
    return (alpha[..., None] * torch.stack(blocks)).sum(0)


def both(module, x, direction):
    """Return value, gradient of weight and of bias: the module's, and its definition's in float64."""
    module.zero_grad()
    value = module(x)
    (value * direction).sum().backward()
    weight = module.weight.detach().double().requires_grad_()
    bias = module.bias.detach().double().requires_grad_()
    scales = module.scales.tolist()
    literal = literal_nme(x.double(), weight, bias, scales, module.weighting, module.epsilon)
    (literal * direction).sum().backward()
    return (value, module.weight.grad, module.bias.grad), (literal, weight.grad, bias.grad)


def relative_error(ours, literal):
    """Return the largest relative error of a row, by its norm."""
    return ((ours - literal).norm(dim=-1) / literal.norm(dim=-1)).max().item()


# ---- NME ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x_dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("epsilon", [0.0, 1e-5])
@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("dim", [4, 8, 32, 128])
@pytest.mark.parametrize("scales", SCALES[1:])
def test_nme_and_its_gradients_are_the_definitions(scales, dim, weighting, epsilon, x_dtype):
    module = nme(scales, dim, weighting, epsilon)
    direction = torch.randn(len(SCALARS), dim)
    (value, *gradients), (literal, *literal_gradients) = both(module, SCALARS.to(x_dtype), direction)
    assert value.dtype == torch.float32
    assert relative_error(value, literal) <= 1e-5
    for ours, theirs in zip(gradients, literal_gradients, strict=True):
        assert relative_error(ours.flatten(), theirs.flatten()) <= 1e-5


@pytest.mark.parametrize("epsilon", [0.0, 1e-5])
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_nme_in_float64_is_the_definition_to_the_last_digits(weighting, epsilon):
    module = nme(weighting=weighting, epsilon=epsilon).double()
    direction = torch.randn(len(SCALARS), 32, dtype=torch.float64)
    for ours, theirs in zip(*both(module, SCALARS, direction), strict=True):
        assert relative_error(ours, theirs) <= 1e-11


@pytest.mark.parametrize("apart", [1e-1, 1e-2, 1e-3, 1e-4])
def test_nme_degrades_gently_where_weight_and_bias_nearly_cancel(apart):
    module = nme(scales=1)
    with torch.no_grad():
        module.weight.copy_(apart * module.weight - module.bias)
    x = torch.tensor([1.0, 1.001, 0.999, -1.0, 0.5])
    (value, *_), (literal, *_) = both(module, x, torch.ones(len(x), 32))
    assert relative_error(value, literal) <= 1e-6 / apart


@settings(max_examples=200)
@given(
    st.lists(FINITE, min_size=1, max_size=20),
    st.sampled_from(SCALES[1:]),
    st.sampled_from(WEIGHTINGS),
    st.sampled_from([0.0, 1e-5]),
)
@example(EXTREMES, 9, "weighted", 0.0)
@example(EXTREMES, 9, "plain", 1e-5)
def test_nme_is_finite_and_bounded_for_every_finite_number(values, scales, weighting, epsilon):
    embedded = nme(scales, 8, weighting, epsilon)(torch.tensor(values, dtype=torch.float64))
    assert embedded.isfinite().all()
    assert (embedded.norm(dim=-1) <= math.sqrt(8) * 1.0001).all()  # an average of LayerNorms


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_nme_is_finite_for_every_finite_float32(values):
    assert nme()(torch.tensor(values)).isfinite().all()


@pytest.mark.parametrize("x_dtype", [torch.float32, torch.float64])
def test_gradients_of_nme_are_finite_at_the_extremes(x_dtype):
    module = nme()
    x = (
        torch.tensor(EXTREMES, dtype=torch.float64).to(x_dtype).nan_to_num()
    )  # what is too large becomes the largest
    module(x).sum().backward()
    assert module.weight.grad.isfinite().all()
    assert module.bias.grad.isfinite().all()


def test_far_above_its_scale_a_block_encodes_only_the_sign():
    module = nme(scales=1)
    centred = module.weight - module.weight.mean()
    limit = centred / centred.square().mean().sqrt()
    x = torch.tensor([1e9, -1e12], dtype=torch.float64)
    torch.testing.assert_close(module(x), torch.cat([limit, -limit]), rtol=0, atol=1e-5)


def test_far_below_its_scale_a_block_is_constant():
    module = nme(scales=1)
    centred = module.bias - module.bias.mean()
    limit = centred / centred.square().mean().sqrt()
    x = torch.tensor([1e-9, -1e-12, 0.0], dtype=torch.float64)
    torch.testing.assert_close(module(x), limit.expand(3, -1), rtol=0, atol=1e-5)


def test_nine_scales_distinguish_what_one_scale_cannot():
    near, far = torch.tensor([1e-4], dtype=torch.float64), torch.tensor([1e-3], dtype=torch.float64)
    one, nine = nme(scales=1), nme(scales=9)
    assert (one(near) - one(far)).norm() < 0.01
    assert (nine(near) - nine(far)).norm() > 0.1


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (0,)])
@pytest.mark.parametrize("module", [nme(dim=8), PiecewiseLinearEmbedding(8), PeriodicEmbedding(8)])
def test_the_embedding_is_a_new_last_dimension(module, shape):
    assert module(torch.zeros(shape)).shape == (*shape, 8)


# ---- PLE ------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=10))
def test_ple_is_the_share_of_each_bin_below_x(values):
    edges = np.array([-3.0, -1.0, 0.0, 0.5, 8.0])
    module = PiecewiseLinearEmbedding(4)
    module.set_edges(torch.from_numpy(edges))
    x = np.array(values)
    expected = np.clip((x[:, None] - edges[:-1]) / np.diff(edges), 0, 1)
    np.testing.assert_allclose(module(torch.from_numpy(x)), expected, atol=1e-7)


@given(FINITE)
def test_ple_is_between_zero_and_one_for_every_finite_number(value):
    embedded = PiecewiseLinearEmbedding(8)(torch.tensor([value], dtype=torch.float64))
    assert ((embedded >= 0) & (embedded <= 1)).all()


@pytest.mark.parametrize(("value", "filled"), [(-1e300, 0), (-9.0, 0), (9.0, 1), (1e300, 1)])
def test_ple_saturates_beyond_its_bins(value, filled):
    embedded = PiecewiseLinearEmbedding(8)(torch.tensor([value], dtype=torch.float64))
    assert embedded.tolist() == [[filled] * 8]


def test_ple_starts_with_increasing_edges():
    edges = PiecewiseLinearEmbedding(128).edges
    assert edges.isfinite().all()
    assert (edges.diff() > 0).all()


@pytest.mark.parametrize(
    "edges",
    [
        [0.0, 1.0, 2.0, 3.0],
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
        [0.0, 1.0, 1.0, 2.0, 3.0],
        [4.0, 3.0, 2.0, 1.0, 0.0],
        [0.0, 1.0, math.nan, 2.0, 3.0],
        [-math.inf, 0.0, 1.0, 2.0, 3.0],
        [0.0, 1.0, 2.0, 3.0, math.inf],
    ],
    ids=["too-few", "too-many", "equal", "falling", "nan", "minus-infinity", "infinity"],
)
def test_wrong_edges_are_refused_and_the_old_ones_kept(edges):
    module = PiecewiseLinearEmbedding(4)
    before = module.edges.clone()
    with pytest.raises(ValueError, match="expected 5 ") as caught:
        module.set_edges(torch.tensor(edges, dtype=torch.float64))
    one_line(caught)
    assert torch.equal(module.edges, before)


def test_edges_closer_than_float32_resolves_still_embed_float32():
    module = PiecewiseLinearEmbedding(4)
    module.set_edges(torch.linspace(1e6, 1e6 + 1e-3, 5, dtype=torch.float64))
    assert module(torch.tensor([0.0, 1e6, 2e6])).tolist() == [[0] * 4, [0] * 4, [1] * 4]


def test_edges_travel_with_the_weights():
    source, target = PiecewiseLinearEmbedding(4), PiecewiseLinearEmbedding(4)
    source.set_edges(torch.arange(5, dtype=torch.float64))
    target.load_state_dict(source.state_dict())
    assert target.edges.tolist() == [0, 1, 2, 3, 4]


# ---- periodic -------------------------------------------------------------------------------------------


def test_the_periodic_embedding_is_sines_and_cosines_of_its_frequencies():
    module = PeriodicEmbedding(8)
    x = torch.linspace(-2, 2, 9, dtype=torch.float64)
    angle = 2 * math.pi * x.numpy()[:, None] * module.frequency.detach().double().numpy()
    expected = np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)
    np.testing.assert_allclose(module(x).detach(), expected, atol=1e-6)


@given(FINITE)
@example(1.7e308)
def test_the_periodic_embedding_is_bounded_for_every_finite_number(value):
    assert (PeriodicEmbedding(8)(torch.tensor([value], dtype=torch.float64)).abs() <= 1).all()


# ---- which module serves which config -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scalar_embedding", "scales", "kinds"),
    [
        ("nme", 9, [MultiScaledEmbedding]),
        ("ple-q", 9, [PiecewiseLinearEmbedding] * 2),
        ("ple-t", 9, [PiecewiseLinearEmbedding] * 2),
        ("ple-p", 9, [PeriodicEmbedding]),
        ("none", 9, []),
        ("nme", 0, []),
    ],
)
def test_mean_and_std_share_a_module_unless_its_bins_come_from_data(scalar_embedding, scales, kinds):
    modules = scalar_embeddings(NuTimeConfig(scalar_embedding=scalar_embedding, scales=scales))
    assert [type(module) for module in modules] == kinds
