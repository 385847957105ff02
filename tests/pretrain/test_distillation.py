import dataclasses
import json

import pytest
import torch
from safetensors.torch import load_file
from tiny_recipe import TINY, stop_at

from nutime import NuTime
from nutime.model.network import NuTimeNetwork
from nutime.pretrain.checkpoint import checkpoints
from nutime.pretrain.config import PretrainConfig
from nutime.pretrain.distillation import Distillation
from nutime.pretrain.loop import pretrain

STUDENT = TINY.replace(dim=16, depth=1)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    torch.manual_seed(0)
    return str(NuTime(TINY).save(tmp_path_factory.mktemp("teacher") / "encoder"))


@pytest.fixture
def recipe(teacher):
    return PretrainConfig(network=STUDENT, teacher=teacher, steps=60, batch=16, log_every=10, checkpoint_every=30)


def test_a_network_learns_the_embeddings_of_its_teacher(corpus, recipe, tmp_path):
    before = load_file(f"{recipe.teacher}/model.safetensors")
    assert pretrain(corpus.path, tmp_path / "run", recipe, device="cpu")
    losses = [json.loads(line)["loss"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert losses[-1] < 0.8 * losses[0]
    assert NuTime.from_pretrained(tmp_path / "run" / "model").config == STUDENT
    after = load_file(f"{recipe.teacher}/model.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_stopped_and_resumed_distillation_ends_bit_for_bit_like_one_never_stopped(corpus, recipe, tmp_path):
    assert pretrain(corpus.path, tmp_path / "whole", recipe, device="cpu")
    assert not pretrain(corpus.path, tmp_path / "run", recipe, device="cpu", report=stop_at(20))
    state = load_file(checkpoints(tmp_path / "run" / "checkpoints")[0])
    assert [name for name in state if "teacher" in name] == ["byol.teacher_checksum"]
    assert pretrain(corpus.path, tmp_path / "run", resume=True, device="cpu")
    whole, resumed = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "run"))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_a_distillation_is_not_resumed_with_another_teacher(corpus, recipe, tmp_path):
    torch.manual_seed(1)
    teacher = NuTime(TINY).save(tmp_path / "teacher")
    recipe = dataclasses.replace(recipe, teacher=str(teacher), steps=40)
    assert not pretrain(corpus.path, tmp_path / "run", recipe, device="cpu", report=stop_at(20))
    torch.manual_seed(2)
    NuTime(TINY).save(teacher)
    with pytest.raises(ValueError, match="was started with another teacher"):
        pretrain(corpus.path, tmp_path / "run", resume=True, device="cpu")


def test_targets_do_not_correlate_within_sources():
    torch.manual_seed(0)
    distillation = Distillation(NuTimeNetwork(STUDENT), NuTimeNetwork(TINY))
    crops, sources = torch.randn(400, 1, distillation.points).cumsum(-1), torch.arange(400) % 4
    crops += 100 * sources[:, None, None]
    distillation.fit([(crops[:200], sources[:200]), (crops[200:], sources[200:])])
    targets = (
        (distillation._teacher_embedding(crops) - distillation.mean) / distillation.scale @ distillation.components
    )
    for source in range(4):
        targets[sources == source] -= targets[sources == source].mean(0)
    largest = targets[:, -8:].double()
    torch.testing.assert_close(largest.T.corrcoef(), torch.eye(8, dtype=torch.float64), atol=2e-2, rtol=0)


def test_what_a_teacher_makes_meaningless_is_refused(recipe):
    for changes in ({"masked": 0.5}, {"contrast": 0.2}, {"pool": "cls+mean"}):
        with pytest.raises(ValueError, match="no effect with a teacher"):
            dataclasses.replace(recipe, **changes)
    with pytest.raises(ValueError, match="cannot learn from this teacher"):
        Distillation(NuTimeNetwork(STUDENT.replace(length=72)), NuTimeNetwork(TINY))
