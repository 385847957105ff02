"""What happens when the machine fails: existing files are not harmed, and the message is one line.

Faults of pretraining runs (a full disk, a kill, a truncated checkpoint) are in ``tests/pretrain``, truncated
shards in ``tests/data/test_corpus.py``. ``docs/promises.md`` lists all of them.
"""

import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

import nutime
from nutime.atomic import replace_folder
from nutime.batch.results import check_folder, check_output, open_results
from nutime.data.corpus.store import Corpus, CorpusWriter
from nutime.encoder import NuTime
from nutime.estimators.detector import NuTimeDetector
from nutime.model.config import NuTimeConfig
from nutime.pretrain.checkpoint import checkpoints, load_newest, save_checkpoint

TINY = NuTimeConfig(window=4, length=16, dim=8, depth=1, heads=1, head_dim=8, mlp_dim=8, scalar_dim=4, scales=3)


@contextmanager
def full_disk(size):
    """Let no file grow beyond ``size`` bytes: writing more is an OSError, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def write_table(columns, out):
    with open_results(out) as write:
        write(columns)


def everything_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---- a full disk ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_a_disk_that_fills_up_leaves_the_table_that_was_there(tmp_path, suffix):
    out = tmp_path / f"out{suffix}"
    write_table({"e": np.zeros((2, 3))}, str(out))
    before = everything_in(tmp_path)
    with full_disk(20_000), pytest.raises(OSError):  # noqa: PT011 (its number differs between writers)
        write_table({"e": np.random.default_rng(0).normal(size=(100, 300))}, str(out))
    assert everything_in(tmp_path) == before


def test_a_disk_that_fills_up_leaves_the_model_that_was_there(tmp_path):
    folder = tmp_path / "model"
    NuTime(TINY).save(folder)
    before = everything_in(tmp_path)
    with full_disk(2_000), pytest.raises(OSError), replace_folder(folder) as fresh:  # noqa: PT011
        NuTime(TINY).save(fresh)
    assert everything_in(tmp_path) == before


def test_a_disk_that_fills_up_leaves_the_estimator_that_was_there(tmp_path):
    X = np.random.default_rng(0).normal(size=(20, 30))
    folder = NuTimeDetector(encoder=NuTime(TINY)).fit(X).save(tmp_path / "model")
    before, expected = everything_in(tmp_path), NuTimeDetector.load(folder).predict(X)
    sizes = sorted(len(content) for content in before.values())
    for size in (100, sizes[1], sizes[-1] - 1):  # the first, a middle and the last file
        with full_disk(size), pytest.raises(OSError):  # noqa: PT011
            NuTimeDetector(encoder=NuTime(TINY)).fit(X + 1).save(folder)
        assert everything_in(tmp_path) == before
    assert (NuTimeDetector.load(folder).predict(X) == expected).all()


def test_a_disk_that_fills_up_leaves_no_part_of_a_corpus(tmp_path):
    with full_disk(20_000), pytest.raises(OSError), CorpusWriter(tmp_path / "corpus") as writer:  # noqa: PT011
        writer.add("noise", np.random.default_rng(0).normal(size=(10, 5000)))
    assert not list(tmp_path.iterdir())


# ---- a folder that may only be read ----------------------------------------------------------------------


@pytest.fixture
def read_only(tmp_path):
    folder = tmp_path / "read_only"
    folder.mkdir()
    folder.chmod(0o500)
    if os.access(folder, os.W_OK):
        pytest.skip("whoever runs the tests may write everywhere")
    yield folder
    folder.chmod(0o700)


def test_a_read_only_folder_is_refused_before_any_work_is_done(read_only):
    with pytest.raises(ValueError, match=r"^\S+: the folder \S+ is not writable$"):
        check_output(str(read_only / "out.csv"))
    with pytest.raises(ValueError, match=r"^\S+: the folder \S+ is not writable$"):
        check_folder(read_only / "model")


def test_a_place_that_cannot_be_a_folder_is_refused_before_any_work_is_done(tmp_path):
    (tmp_path / "file").write_text("something")
    with pytest.raises(ValueError, match="is a file; name a folder"):
        check_folder(tmp_path / "file")


# ---- a killed process ------------------------------------------------------------------------------------

WRITE_SLOWLY = """
import sys, time
import numpy as np
from nutime.data.corpus.store import CorpusWriter
def series():
    for index in range(10**6):
        yield np.ones(5000)
        if index == 100:
            print("writing", flush=True)
        if index > 100:
            time.sleep(0.01)
with CorpusWriter(sys.argv[1], overwrite=True, shard_bytes=40_000) as writer:
    writer.add("slow", series())
"""


def test_a_killed_build_leaves_the_corpus_that_was_there(tmp_path):
    with CorpusWriter(tmp_path / "corpus") as writer:
        writer.add("first", np.random.default_rng(0).normal(size=(4, 9)))
    process = subprocess.Popen([sys.executable, "-c", WRITE_SLOWLY, tmp_path / "corpus"], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    process.kill()
    process.communicate()
    assert [source.name for source in Corpus.open(tmp_path / "corpus").sources] == ["first"]


# ---- a clock that jumps ----------------------------------------------------------------------------------


def test_the_newest_checkpoint_is_the_one_of_the_last_step_whatever_its_time(tmp_path):
    for step in (1, 2):
        save_checkpoint(tmp_path, step, {"step": torch.tensor(step)})
    os.utime(checkpoints(tmp_path)[0], (0, 0))  # written after the clock was set back
    assert int(load_newest(tmp_path)["step"]) == 2


def test_no_duration_is_taken_from_the_wall_clock():
    sources = Path(nutime.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if "time.time()" in path.read_text(encoding="utf-8")] == []


def test_files_dated_in_the_future_are_read(tmp_path):
    folder = NuTime(TINY).save(tmp_path / "model")
    for path in folder.iterdir():
        os.utime(path, (time.time() + 10**9,) * 2)
    assert NuTime.from_pretrained(folder).config == TINY


# ---- no GPU ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_everything_runs_on_the_processor():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = NuTime(TINY)
        assert np.isfinite(model.embed(np.random.default_rng(0).normal(size=(2, 20)))).all()
    assert model.device.type == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_does_not_exist_is_refused_in_one_line(nutime, tmp_path):
    with CorpusWriter(tmp_path / "corpus") as writer:
        writer.add("noise", np.random.default_rng(0).normal(size=(40, 60)))
    run = nutime("pretrain", tmp_path / "corpus", "-o", tmp_path / "run", "--device=cuda", "--steps=1")
    assert run.code == 1
    assert "Traceback" not in run.err
    assert run.err.strip().splitlines()[-1].startswith("nutime: ")
