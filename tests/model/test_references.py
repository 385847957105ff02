"""The network gives the stored outputs of the paper's formulas (see ``make_references.py``)."""

from pathlib import Path

import numpy as np
import pytest
import torch
from make_references import Literal

from nutime.model.config import NuTimeConfig
from nutime.model.network import NuTimeNetwork

FILES = sorted((Path(__file__).parent / "references").glob("*.npz"))


def load(path):
    """Return the config, the series, the outputs and the weights of a reference."""
    with np.load(path) as stored:
        contents = dict(stored)
    config = NuTimeConfig.from_json(contents.pop("config").item())
    return config, contents.pop("series"), contents.pop("outputs"), contents


def encode(path, dtype):
    config, series, outputs, weights = load(path)
    network = NuTimeNetwork(config)
    network.load_state_dict({name: torch.from_numpy(values) for name, values in weights.items()})
    with torch.no_grad():
        return network.to(dtype)(torch.from_numpy(series)).double().numpy(), outputs


def test_references_are_stored_for_one_channel_and_for_several():
    assert [path.stem for path in FILES] == ["channels1", "channels3"]
    assert all(path.stat().st_size <= 50_000 for path in FILES)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_network_gives_the_stored_outputs(path, dtype, tolerance):
    ours, stored = encode(path, dtype)
    np.testing.assert_allclose(ours, stored, rtol=0, atol=tolerance)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_stored_outputs_are_those_of_the_formulas(path):
    config, series, outputs, weights = load(path)
    literal = Literal(vars(config), weights)
    np.testing.assert_allclose([literal(one) for one in series], outputs, rtol=0, atol=1e-12)
