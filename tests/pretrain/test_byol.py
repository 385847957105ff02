import pytest
import torch
from tiny_recipe import TINY
from torch.nn import functional as F

from nutime.model.network import NuTimeNetwork
from nutime.model.noise import Noise
from nutime.model.windows import split_windows
from nutime.pretrain.byol import BYOL, BatchNorm, Objective


@pytest.fixture
def byol():
    torch.manual_seed(0)
    return BYOL(NuTimeNetwork(TINY))


@pytest.fixture
def views():
    torch.manual_seed(1)
    return torch.randn(2, 8, 1, 64)


def test_batch_norm_is_the_librarys_in_training():
    torch.manual_seed(0)
    x = 3 + 5 * torch.randn(16, 7)
    torch.testing.assert_close(BatchNorm(7)(x), torch.nn.BatchNorm1d(7)(x))


def test_loss_is_two_minus_two_cosines_in_both_directions(byol, views):
    loss, _ = byol(views)
    first, second = (byol.online["network"](view)[:, 0] for view in views)
    predicted = [byol.predictor(byol.online["projector"](z)) for z in (first, second)]
    targets = [byol.target["projector"](byol.target["network"](view)[:, 0]) for view in views]
    cosines = [F.cosine_similarity(predicted[0], targets[1]), F.cosine_similarity(predicted[1], targets[0])]
    expected = sum((2 - 2 * cosine).mean() for cosine in cosines) / 2
    torch.testing.assert_close(loss, expected)


def test_views_are_exchangeable(byol, views):
    torch.testing.assert_close(byol(views)[0], byol(views.flip(0))[0])


def test_the_target_gets_no_gradient_and_everything_else_does(byol, views):
    byol(views)[0].backward()
    assert all(parameter.grad is None for parameter in byol.target.parameters())
    # The last layer's window tokens are not read by [CLS], so only weights, not tokens, must be reached.
    assert all(parameter.grad is not None for parameter in byol.online.parameters())
    assert all(parameter.grad is not None for parameter in byol.predictor.parameters())


def test_the_target_moves_by_one_minus_momentum(byol):
    with torch.no_grad():
        for parameter in byol.online.parameters():
            parameter.add_(1)
    before = [parameter.clone() for parameter in byol.target.parameters()]
    byol.update_target(torch.tensor(0.9))
    for old, new in zip(before, byol.target.parameters(), strict=True):
        torch.testing.assert_close(new, old + 0.1, atol=1e-5, rtol=1e-5)


def test_spread_is_zero_when_all_embeddings_are_alike_and_not_otherwise(byol, views):
    _, spread = byol(views)
    _, collapsed = byol(views[:, :1].expand(2, 8, 1, 64)[:1].expand(2, 8, 1, 64))
    assert spread > 0.05
    assert collapsed < 1e-3


# ---- objectives beyond the paper's ----------------------------------------------------------------------


def byol_with(**objective):
    torch.manual_seed(0)
    return BYOL(NuTimeNetwork(TINY), Objective(**objective))


@pytest.fixture
def noise():
    return Noise(torch.tensor(3, dtype=torch.int32), torch.arange(16, dtype=torch.int32))


def test_contrast_is_the_cross_entropy_of_finding_the_other_view(views):
    contrasted, plain = byol_with(contrast=0.5), byol_with()
    one, other = (
        F.normalize(plain.online["projector"](plain.online["network"](view)[:, 0]), dim=-1) for view in views
    )
    similarity = one @ other.T / 0.1
    right = similarity.diagonal()
    missed = (similarity.logsumexp(1) - right).mean() + (similarity.logsumexp(0) - right).mean()
    torch.testing.assert_close(contrasted(views)[0], plain(views)[0] + 0.5 * missed)


def test_the_online_network_encodes_all_but_the_masked_share_of_the_windows_and_the_target_more(views, noise):
    byol = byol_with(masked=0.5, pool="cls+mean")
    windows = {}
    for name in ("online", "target"):
        network = getattr(byol, name)["network"]
        network.tokens.register_forward_pre_hook(
            lambda module, inputs, name=name: windows.update({name: inputs[0]})
        )
    byol(views, noise)
    every = split_windows(views.flatten(0, 1), TINY.window)[:, 0]
    count = every.shape[1]
    for name, share in (("online", 0.5), ("target", 0.75)):
        encoded = split_windows(windows[name], TINY.window)[:, 0]
        assert encoded.shape[1] == share * count
        found = (encoded[:, :, None] == every[:, None]).all(-1)
        assert (found.sum(-1) == 1).all()
        assert (found.sum(1) <= 1).all()  # no window twice
        assert len(found.int().argmax(-1).sort(1).values.unique(dim=0)) > 1  # others for another series


def test_masking_refuses_windows_that_depend_on_each_other():
    with pytest.raises(ValueError, match="normalization 'window'"):
        BYOL(NuTimeNetwork(TINY.replace(normalization="instance")), Objective(masked=0.5))


@pytest.mark.parametrize("wrong", [{"pool": "max"}, {"masked": 1.0}, {"masked": -0.1}])
def test_an_objective_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Objective(**wrong)
