import pytest
from tiny_recipe import TINY

from nutime.data.corpus.build import synthesize_corpus
from nutime.pretrain.config import PretrainConfig


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "synthetic"
    return synthesize_corpus(300, path, length=100, seed=1)


@pytest.fixture(scope="session")
def recipe():
    return PretrainConfig(network=TINY, steps=12, batch=16, log_every=2, checkpoint_every=4)
