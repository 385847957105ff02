"""Fine-tuning on a device that is too small: pieces of a batch halve, and training goes on."""

import numpy as np
import pytest
import torch

from nutime.encoder import NuTime
from nutime.estimators.classifier import NuTimeClassifier
from nutime.finetune import train as trainer
from nutime.model.config import NuTimeConfig

TINY = NuTimeConfig(window=4, length=16, dim=8, depth=1, heads=1, head_dim=8, mlp_dim=8, scalar_dim=4, scales=3)


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(trainer, "MIN_STEPS", 4)


@pytest.fixture
def limit_memory(monkeypatch):
    """Return a function that limits how many series fit a pass, and the sizes that were tried since."""
    tried = []
    forward = trainer.training_outputs

    def limit(series):
        def failing(config, state, views, seeds, **options):
            tried.append(views.shape[1])
            if views.shape[1] > series:
                raise torch.OutOfMemoryError("out of memory")
            return forward(config, state, views, seeds, **options)

        monkeypatch.setattr(trainer, "training_outputs", failing)
        return tried

    return limit


@pytest.fixture
def waves():
    rng = np.random.default_rng(0)
    return rng.normal(size=(16, 20)) + np.repeat([0, 5], 8)[:, None], np.repeat(["low", "high"], 8)


def classifier():
    torch.manual_seed(0)
    return NuTimeClassifier("finetune", NuTime(TINY), epochs=1, batch_size=16, random_state=0)


def test_pieces_halve_until_they_fit_and_stay_so(limit_memory, waves):
    tried = limit_memory(5)
    classifier().fit(*waves)
    assert tried[:2] == [16, 8]
    first = next(index for index, size in enumerate(tried) if size <= 5)
    assert max(tried[first:]) <= 5


def test_a_step_taken_again_is_the_step_that_pieces_of_that_size_take(limit_memory, waves, monkeypatch):
    limit_memory(4)
    halved = classifier().fit(*waves).predict_proba(waves[0])
    monkeypatch.undo()
    monkeypatch.setattr(trainer, "MIN_STEPS", 4)
    monkeypatch.setattr(trainer, "max_batch", lambda *given: 4)
    assert np.allclose(classifier().fit(*waves).predict_proba(waves[0]), halved)


def test_where_not_even_one_series_fits_the_error_is_raised(limit_memory, waves):
    limit_memory(0)
    with pytest.raises(torch.OutOfMemoryError):
        classifier().fit(*waves)
