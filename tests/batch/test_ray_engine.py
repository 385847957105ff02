"""Ray gives the digits of the local engine, whoever dies on the way. A real Ray of two workers runs here."""

import os
import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from parquet_sets import walks, write_set

from nutime.batch import parquet as tables
from nutime.batch.local import run_local
from nutime.batch.parquet import DataSet

ray = pytest.importorskip("ray", reason="Ray is an extra: pip install 'nutime[ray]'")
psutil = pytest.importorskip("psutil", reason="workers to kill are found with psutil")

PIECES = 10
DIE_WRITING = """
import os, signal, sys
from nutime.batch.parquet import fresh_file
with fresh_file(sys.argv[1] + "/part-000002.parquet") as file:
    file.write(b"PAR1")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module", autouse=True)
def two_workers():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Return a data set of two files and ten pieces."""
    monkeypatch.setattr(tables, "PIECE_ROWS", 300)
    return DataSet(str(write_set(tmp_path / "in", walks(300 * PIECES), row_group_size=200)))


def worker_processes():
    processes = psutil.Process().children(recursive=True)
    return [process for process in processes if "_Worker" in process.name() + " ".join(process.cmdline())]


def test_the_result_is_that_of_the_local_engine_also_when_a_worker_is_killed_midway(tmp_path, data, encoder):
    from nutime.batch.ray_engine import run_ray

    killed = []

    def kill_one(done, total):
        if not killed:
            killed.append(worker_processes()[0].pid)
            os.kill(killed[0], signal.SIGKILL)
            assert len(list(tmp_path.glob(".ray.*/part-*"))) < PIECES

    local = run_local(data, encoder, str(tmp_path / "local"))
    assert run_ray(data, encoder, str(tmp_path / "ray"), workers=2, report=kill_one) == local
    assert killed
    names = sorted(path.name for path in (tmp_path / "local").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "ray").iterdir())
    assert len(names) == PIECES
    for name in names:
        assert pq.read_table(tmp_path / "ray" / name).equals(pq.read_table(tmp_path / "local" / name))


def test_what_a_killed_worker_had_begun_to_write_is_not_among_the_results(tmp_path):
    with tables.fresh_folder(str(tmp_path / "out [1]")) as folder:
        died = subprocess.run([sys.executable, "-c", DIE_WRITING, folder], check=False)
        assert died.returncode == -signal.SIGKILL
        assert list(tmp_path.glob(".out*/part-*"))
        with tables.fresh_file(f"{folder}/part-000002.parquet") as file:
            file.write(b"whole")
    assert [path.name for path in (tmp_path / "out [1]").iterdir()] == ["part-000002.parquet"]


def test_a_bad_series_is_told_in_one_line_and_leaves_nothing_behind(tmp_path, encoder):
    from nutime.batch.ray_engine import run_ray

    X = walks(20)
    X[13] = float("nan")
    folder = write_set(tmp_path / "in", X, files=1)
    with pytest.raises(ValueError, match="series 13: has only NaN") as caught:
        run_ray(DataSet(str(folder)), encoder, str(tmp_path / "out"), workers=1)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_single_file_is_refused_as_output(tmp_path, data, encoder):
    from nutime.batch.ray_engine import run_ray

    with pytest.raises(ValueError, match="name a folder"):
        run_ray(data, encoder, str(tmp_path / "out.parquet"))
