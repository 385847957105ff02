"""Ray gives the results of the local engine, even if a worker dies. A real Ray of two workers runs here."""

import os
import signal
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from parquet_sets import files_on_disk, killed_run, vectors, walks, write_set

from nutime.batch import results
from nutime.batch import source as sources
from nutime.batch.apply import apply_model
from nutime.batch.ray_engine import _most_workers, apply_model_with_ray
from nutime.batch.source import Source

ray = pytest.importorskip("ray", reason="Ray is an extra: pip install 'nutime[ray]'")
psutil = pytest.importorskip("psutil", reason="workers to kill are found with psutil")

PIECES = 10
DIE_WRITING = """
import os, signal, sys
from nutime.atomic import replace_file
with replace_file(sys.argv[1] + "/part-000002.parquet") as file:
    file.write(b"PAR1")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module", autouse=True)
def two_workers():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=2, num_gpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Return a data set of two files and ten pieces."""
    monkeypatch.setattr(sources, "PIECE_ROWS", 300)
    return Source(str(write_set(tmp_path / "in", walks(300 * PIECES), row_group_size=200)))


def worker_processes():
    processes = psutil.Process().children(recursive=True)
    return [process for process in processes if "_Worker" in process.name() + " ".join(process.cmdline())]


def test_the_result_is_that_of_the_local_engine_also_when_a_worker_is_killed_midway(tmp_path, data, encoder):
    killed, seen = [], {"local": [], "ray": []}

    def kill_one(extent, columns):
        seen["ray"].append((extent.series, list(columns), columns["e"].shape[1]))
        if not killed:
            killed.append(worker_processes()[0].pid)
            os.kill(killed[0], signal.SIGKILL)
            assert len(list(tmp_path.glob(".ray.*/new/part-*"))) < PIECES

    def note(extent, columns):
        seen["local"].append((extent.series, list(columns), columns["e"].shape[1]))

    apply_model(encoder, data.chunks(), str(tmp_path / "local"), observe=note)
    apply_model_with_ray(encoder, data, str(tmp_path / "ray"), workers=2, observe=kill_one)
    assert killed
    assert sum(count for count, *_ in seen["ray"]) == sum(count for count, *_ in seen["local"]) == 300 * PIECES
    assert seen["ray"][0][1:] == seen["local"][0][1:]
    names = sorted(path.name for path in (tmp_path / "local").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "ray").iterdir())
    assert len(names) == PIECES
    for name in names:
        assert pq.read_table(tmp_path / "ray" / name).equals(pq.read_table(tmp_path / "local" / name))


@pytest.mark.slow
def test_a_killed_run_is_continued_without_repeating_complete_parts(tmp_path, data, encoder):
    out = killed_run(tmp_path, encoder, data, 700)
    complete = files_on_disk(out.parent, ".out.*/*/part-*.parquet")
    assert len(complete) == 2
    apply_model_with_ray(encoder, data, str(out), workers=1)
    assert complete.items() <= files_on_disk(out, "*").items()
    apply_model(encoder, data.chunks(), str(tmp_path / "local"))
    assert pq.read_table(out).equals(pq.read_table(tmp_path / "local"))


@pytest.mark.slow
def test_workers_share_a_gpu(tmp_path, data, encoder):
    apply_model(encoder, data.chunks(), str(tmp_path / "local"))
    apply_model_with_ray(encoder, data, str(tmp_path / "ray"), gpus=0.5)  # Ray only counts them: there may be none
    assert pq.read_table(tmp_path / "ray").equals(pq.read_table(tmp_path / "local"))


@pytest.mark.slow
def test_a_running_cluster_is_used_by_its_address(tmp_path, data, encoder):
    apply_model(encoder, data.chunks(), str(tmp_path / "local"))
    weights, out = encoder.save(tmp_path / "encoder"), tmp_path / "ray"
    command = [sys.executable, "-m", "nutime", "embed", data.address, "-o", out, "--weights", weights]
    address = ray.get_runtime_context().gcs_address
    # The cluster of this module counts one GPU: a Ray that the command starts on a machine without would refuse.
    command += ["--engine", "ray", "--address", address, "--gpus", "0.5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(vectors(pq.read_table(out)), vectors(pq.read_table(tmp_path / "local")))


@pytest.mark.parametrize(
    ("resources", "gpus", "count"),
    [
        ({"CPU": 4.0}, 0, 4),
        ({}, 0, 1),
        ({"CPU": 8.0, "GPU": 2.0}, 1, 2),
        ({"CPU": 8.0, "GPU": 2.0}, 0.4, 4),
        ({"CPU": 3.0, "GPU": 2.0}, 0.25, 3),
        ({"CPU": 8.0, "GPU": 4.0}, 2, 2),
    ],
)
def test_no_more_workers_than_can_run(resources, gpus, count):
    assert _most_workers(resources, gpus) == count


def test_more_gpus_than_there_are_is_one_line():
    with pytest.raises(ValueError, match=r"^a worker needs 2 GPU\(s\), Ray has 1$"):
        _most_workers({"CPU": 4.0, "GPU": 1.0}, 2)


def test_what_a_killed_worker_had_begun_to_write_is_not_among_the_results(tmp_path):
    with results.open_folder(str(tmp_path / "out [1]")) as folder:
        died = subprocess.run([sys.executable, "-c", DIE_WRITING, folder], check=False)
        assert died.returncode == -signal.SIGKILL
        assert list(tmp_path.glob(".out*/new/.part-*"))
        with results.open_part(folder, 2) as write:
            write({"cluster": np.array([1])})
    assert [path.name for path in (tmp_path / "out [1]").iterdir()] == ["part-000002.parquet"]


def test_a_bad_series_is_one_line_and_leaves_nothing_behind(tmp_path, encoder):
    X = walks(20)
    X[13] = float("nan")
    folder = write_set(tmp_path / "in", X, files=1)
    with pytest.raises(ValueError, match=r"series 13 \('s13'\): has only NaN") as caught:
        apply_model_with_ray(encoder, Source(str(folder)), str(tmp_path / "out"), workers=1)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
