"""Saved annotators and indexes: complete, readable by others, and nothing foreign is read in their place."""

import json
import os
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from nutime import NuTime, NuTimeAnnotator, RecordingIndex
from nutime.model.config import NuTimeConfig
from waves import refusal

TINY = NuTimeConfig(window=4, length=16, dim=8, depth=1, heads=1, head_dim=8, mlp_dim=8, scalar_dim=4, scales=3)
NAMES = ("annotator", "index")
LOAD = {"annotator": NuTimeAnnotator.load, "index": RecordingIndex.load}


def save_both(folder, seed):
    recording = np.random.default_rng(seed).normal(size=(2, 120)).cumsum(1)
    halves = [(0, 60, "a"), (60, 120, "b")]
    NuTimeAnnotator(16, encoder=NuTime(TINY)).fit(recording, halves).save(folder / "annotator")
    RecordingIndex.build({"a": recording}, 20, NuTime(TINY)).save(folder / "index")
    return folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save_both(tmp_path_factory.mktemp("saved"), 0)


@pytest.fixture
def copy(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "copy")


def change(folder, name, arrays=None, **fields):
    """Change arrays or fields as a forger would: without checksums."""
    document = json.loads((folder / f"{name}.json").read_text()) | fields
    del document["sha256"]
    (folder / f"{name}.json").write_text(json.dumps(document))
    path = folder / f"{name}.safetensors"
    path.write_bytes(save(load_file(path) | (arrays or {})))


@pytest.mark.parametrize("name", NAMES)
def test_saved_files_have_the_usual_permissions(saved, tmp_path, name):
    (tmp_path / "plain").touch()
    usual = (tmp_path / "plain").stat().st_mode
    assert {path.stat().st_mode for path in (saved / name).rglob("*") if path.is_file()} == {usual}


@pytest.mark.parametrize("name", NAMES)
def test_files_of_two_models_do_not_mix(copy, tmp_path, name):
    other = save_both(tmp_path / "other", 1)
    for part in (f"{name}.safetensors", "encoder/model.safetensors"):
        shutil.copy(other / name / part, copy / name / part)
        assert "its checksum differs" in refusal(LOAD[name], copy / name)


@pytest.mark.parametrize("name", NAMES)
def test_links_out_of_the_folder_are_not_followed_and_pipes_not_waited_for(saved, copy, name):
    for part in (f"{name}.safetensors", f"{name}.json"):
        (copy / name / part).unlink()
        (copy / name / part).symlink_to(saved / name / part)
        assert "a link out of the folder" in refusal(LOAD[name], copy / name)
    (copy / name / part).unlink()
    os.mkfifo(copy / name / part)
    assert f"{part}: not a file" in refusal(LOAD[name], copy / name)


DAMAGE = {
    "NaN": ("annotator", {"arrays": {"probe.intercept": np.array([0.0, np.nan])}}, "not finite"),
    "a class more": ("annotator", {"arrays": {"probe.intercept": np.zeros(3)}}, "probe.intercept has the shape"),
    "a channel less": ("annotator", {"arrays": {"mean": np.zeros((1, 1))}}, "mean has the shape"),
    "labels of gigabytes": (
        "annotator",
        {"classes": {"dtype": "<U1000000000", "values": ["a"]}},
        "or damaged",
    ),
    "no threshold": ("annotator", {"threshold": "high"}, "threshold must be a number"),
    "another recording": ("index", {"arrays": {"recording_0": np.full(21, 7)}}, "windows of other recordings"),
    "another start": ("index", {"arrays": {"start_0": np.full(21, 2**63 - 1)}}, "not within their recordings"),
    "another size": ("index", {"windows": [121]}, "windows must be an integer"),
    "no size": ("index", {"windows": []}, "no windows"),
    "more recordings": ("index", {"n_recordings": 10**9}, "1 recordings"),
    "other channels": ("index", {"arrays": {"values_0": np.zeros((3, 120))}}, "mean_0|mean has the shape"),
    "another scale": ("index", {"scale": ["keep"]}, "scale must be one of"),
    "a name less": ("index", {"ids": []}, "names that are not those"),
    "a dict of names": ("index", {"ids": {"a": 1}}, "names that are not those"),
}


@pytest.mark.parametrize(("name", "changes", "reason"), DAMAGE.values(), ids=DAMAGE)
def test_what_does_not_fit_is_refused(copy, name, changes, reason):
    change(copy / name, name, **changes)
    message = refusal(LOAD[name], copy / name)
    assert str(copy / name) in message
    assert any(part in message for part in reason.split("|"))
