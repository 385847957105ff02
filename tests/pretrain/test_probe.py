import numpy as np
import pytest
import torch
from tiny_recipe import TINY

from nutime import NuTime
from nutime.data.archives import Part
from nutime.pretrain.monitor import linear_probe_on, probe_data


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    return NuTime(TINY)


def sines_and_noise(labels):
    rng = np.random.default_rng(0)
    wave = np.sin(np.linspace(0, 20, 64))
    return np.stack([wave * rng.uniform(1, 2) if label else rng.standard_normal(64) for label in labels])


def test_what_is_easy_to_tell_apart_scores_high_and_what_cannot_be_told_apart_low(encoder):
    labels = np.arange(40) % 2
    X = sines_and_noise(labels)
    shuffled = np.random.default_rng(1).permutation(labels)
    assert linear_probe_on([Part(X, labels)])(encoder) > 0.9
    assert linear_probe_on([Part(X, shuffled)])(encoder) < 0.75


def test_a_class_of_one_is_refused(encoder):
    labels = np.array([0, 0, 0, 1])
    with pytest.raises(ValueError, match="two series of every class"):
        linear_probe_on([Part(sines_and_noise(labels), labels)])(encoder)


def test_without_sets_there_is_no_probe():
    assert linear_probe_on([]) is None


def test_bundled_means_the_univariate_training_splits_of_aeon():
    pytest.importorskip("aeon")
    sets = probe_data("bundled")
    assert len(sets) >= 5
    assert all(X.ndim == 2 and len(X) == len(y) for X, y in sets)
