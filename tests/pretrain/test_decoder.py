"""Training a decoder for an encoder of one's own."""

import dataclasses

import numpy as np
import pytest
import torch
from tiny_recipe import TINY
from typer.testing import CliRunner

from nutime import NuTime
from nutime.cli.main import app
from nutime.model.context import Affine
from nutime.model.decoder import CONTEXT, Decoder, pinball
from nutime.pretrain.decoder import hide, seasonal_series, train_decoder


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    return NuTime(TINY).eval()


@torch.no_grad()
def loss_of(decoder, encoder):
    """The loss of points hidden in seasonal series that training has not seen."""
    generator = torch.Generator().manual_seed(1)
    values, present = seasonal_series(16, generator), torch.ones(16, CONTEXT, dtype=torch.bool)
    observed = ~hide(present, generator)
    compressed = Affine.fit(values, observed).compress(values).clamp(-8, 8)
    return pinball(decoder(encoder, compressed, observed, present), compressed)[~observed].mean()


def test_training_lowers_the_loss_of_hidden_points(encoder, corpus):
    seen = []
    trained = train_decoder(encoder, corpus, 21, batch=2, report=lambda step, loss: seen.append(step))
    assert seen == [20, 21]
    assert loss_of(trained, encoder) < 0.9 * loss_of(Decoder(TINY), encoder)


def test_the_same_seed_makes_the_same_decoder_and_leaves_the_encoder_alone(encoder, corpus):
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    one, other = (train_decoder(encoder, corpus, 2, batch=2, seed=3).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert all(torch.equal(before[name], tensor) for name, tensor in encoder.state_dict().items())


def test_an_encoder_of_several_channels_is_refused(corpus):
    encoder = NuTime(dataclasses.replace(TINY, channels=2))
    with pytest.raises(ValueError, match="encoder of one channel"):
        train_decoder(encoder, corpus, 1, batch=2)


def test_the_command_writes_an_encoder_that_imputes(encoder, corpus, tmp_path):
    weights = encoder.save(tmp_path / "encoder", decoder=False)
    arguments = ["decoder", str(corpus.path), str(weights), "-o", str(tmp_path / "out"), "--steps=1", "--batch=4"]
    done = CliRunner().invoke(app, [*arguments, "--device=cpu"])
    assert done.exit_code == 0, done.output
    with pytest.raises(ValueError, match="`nutime decoder` trains one"):
        NuTime.from_pretrained(weights).impute([[1.0, np.nan, 3.0]])
    (filled,) = NuTime.from_pretrained(tmp_path / "out").impute([[1.0, np.nan, 3.0]])
    assert np.isfinite(filled).all()
    again = CliRunner().invoke(app, arguments)
    assert isinstance(again.exception, ValueError)
    assert "already exists" in str(again.exception)
