"""A tiny random encoder, so that no test needs shipped weights."""

import pytest
import torch

from nutime.encoder import NuTime
from nutime.model.config import NuTimeConfig

TINY = NuTimeConfig(window=4, length=32, dim=32, depth=1, heads=2, head_dim=16, mlp_dim=32, scalar_dim=8, scales=3)


@pytest.fixture(scope="session")
def encoder():
    torch.manual_seed(0)
    return NuTime(TINY)
