import dataclasses

import pytest
import torch
from tiny_recipe import TINY

from nutime.data.crops import FlatSeries
from nutime.model.network import NuTimeNetwork
from nutime.pretrain.byol import BYOL
from nutime.pretrain.config import PretrainConfig
from nutime.pretrain.sampling import ResidentCorpus
from nutime.pretrain.schedule import Schedule
from nutime.pretrain.step import PretrainStep, _compile_options


@pytest.fixture
def sampler(corpus):
    return ResidentCorpus(corpus, "size", torch.device("cpu")).sampler


def make_step(sampler, seed=0, rescale=0.0, **processes):
    torch.manual_seed(0)
    config = PretrainConfig(batch=16, seed=seed, rescale=rescale)
    return PretrainStep(BYOL(NuTimeNetwork(TINY)), sampler, Schedule(steps=20), config, **processes)


def losses(step, count):
    values = []
    for _ in range(count):
        step()
        values.append(float(step.loss))
    return values


def test_the_loss_falls(sampler):
    seen = losses(make_step(sampler), 10)
    assert seen[-1] < 0.7 * seen[0]


def test_the_same_seed_gives_the_same_losses_and_another_others(sampler):
    first, again, other = (losses(make_step(sampler, seed), 3) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_a_state_taken_over_continues_bit_for_bit(sampler):
    straight = make_step(sampler)
    losses(straight, 3)
    saved = {name: tensor.clone() for name, tensor in straight.state().items()}
    expected = losses(straight, 3)
    fresh = make_step(sampler)
    fresh.load(saved)
    assert losses(fresh, 3) == expected
    assert all(torch.equal(tensor, straight.state()[name]) for name, tensor in fresh.state().items())


def test_a_state_of_another_network_is_refused(sampler):
    with pytest.raises(ValueError, match="does not fit"):
        make_step(sampler).load({"step": torch.tensor(0)})


def test_processes_share_the_batch_that_one_would_draw(sampler):
    whole = make_step(sampler).batch_of(5)
    parts = [make_step(sampler, rank=rank, world=2).batch_of(5) for rank in (0, 1)]
    assert torch.equal(torch.cat(parts), whole)


def test_a_batch_that_processes_cannot_share_is_refused(sampler):
    with pytest.raises(ValueError, match="cannot be shared by 3 processes"):
        make_step(sampler, world=3)


def test_a_non_finite_loss_is_remembered_with_its_step(sampler):
    series = sampler.series
    poisoned = FlatSeries(torch.full_like(series.values, torch.nan), series.starts, series.lengths)
    step = make_step(sampler)
    losses(step, 2)
    step.sampler = dataclasses.replace(sampler, series=poisoned)
    losses(step, 2)
    assert int(step.failed_at) == 2


def test_rescaling_changes_level_and_scale_and_leaves_the_shape(sampler):
    def views(rescale):
        step = make_step(sampler, rescale=rescale)
        return step._views(step.step, step._rows)[0].flatten(0, 2).double()

    plain, rescaled = views(0.0), views(0.5)
    shapes = [(x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True) for x in (plain, rescaled)]
    torch.testing.assert_close(*shapes, atol=1e-3, rtol=1e-3)
    factor = rescaled.std(1) / plain.std(1)
    assert factor.log().std() == pytest.approx(0.5, rel=0.5)
    assert not torch.allclose(rescaled.mean(1), factor * plain.mean(1))


@pytest.mark.parametrize("dim", [256, 384])
def test_the_compiler_accepts_its_options(dim):
    compiled = torch.compile(lambda x: x + 1, options=_compile_options(dim))
    assert callable(compiled)
