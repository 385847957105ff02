import pytest
import torch

from nutime.pretrain.schedule import Schedule

schedule = Schedule(steps=1000)


def rate(step):
    return float(schedule.learning_rate_at(torch.tensor(float(step))))


def test_rate_rises_linearly_over_the_first_tenth():
    assert rate(49) == pytest.approx(1e-3)
    assert rate(99) == pytest.approx(2e-3)


def test_rate_falls_to_zero_on_a_cosine():
    assert rate(550) == pytest.approx(1e-3, rel=1e-3)
    assert rate(1000) == pytest.approx(0, abs=1e-9)


def test_momentum_goes_from_its_base_to_one():
    momenta = [float(schedule.momentum_at(torch.tensor(float(step)))) for step in (0, 500, 1000)]
    assert momenta == pytest.approx([0.999, 0.9995, 1.0])
