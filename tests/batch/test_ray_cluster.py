"""A cluster that runs already is used by its address; another address is refused in one line."""

import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from parquet_sets import walks, write_set

from nutime.batch.apply import apply_model
from nutime.batch.source import Source

pytest.importorskip("ray", reason="Ray is an extra: pip install 'nutime[ray]'")
pytestmark = pytest.mark.slow


@pytest.fixture
def embed(tmp_path, encoder):
    encoder.save(tmp_path / "encoder")
    write_set(tmp_path / "in", walks(60))

    def run(*options):
        command = [sys.executable, "-m", "nutime", "embed", "in", "-o", "out", "--weights", "encoder"]
        command += ["--engine", "ray", *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


def test_a_running_cluster_is_used_by_its_address(tmp_path, encoder, embed):
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "num_gpus": 1})
    try:
        done = embed("--address", cluster.address, "--gpus", "0.5")  # Ray only counts GPUs: there may be none
        assert done.returncode == 0, done.stderr
    finally:
        cluster.shutdown()
    apply_model(encoder, Source(str(tmp_path / "in")).chunks(), str(tmp_path / "local"))
    assert pq.read_table(tmp_path / "out").equals(pq.read_table(tmp_path / "local"))


def test_an_address_without_a_cluster_is_one_line(tmp_path, embed):
    done = embed("--address", "127.0.0.1:9")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("nutime: 127.0.0.1:9: no Ray cluster (")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["encoder", "in"]
