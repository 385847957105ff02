"""Both archives, installed into empty environments and used there without a network."""

import os
import subprocess
import tomllib
import zipfile

import pytest
from running_commands import ROOT, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="archives are built from a checkout"),
]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def without_network():
    """Return how a command is started without a network."""
    command = ["unshare", "--map-root-user", "--net"]
    return command if subprocess.run([*command, "true"], check=False).returncode == 0 else []


def clean(folder):
    return {"PATH": os.defpath, "HOME": str(folder)}


def test_the_wheel_is_small_and_has_the_weights(dist):
    (wheel,) = dist.glob("*.whl")
    assert wheel.stat().st_size <= 60e6
    names = zipfile.ZipFile(wheel).namelist()
    assert {"nutime/weights/nutime-base/model.safetensors", "nutime/py.typed"} <= set(names)
    assert not [name for name in names if not name.startswith(("nutime/", f"nutime-{VERSION}.dist-info/"))]


def test_the_demo_runs_without_a_network(environment, tmp_path):
    command = [*without_network(), environment / "nutime", "demo"]
    shown = run(*command, cwd=tmp_path, env=clean(tmp_path))
    assert "Picture:" in shown
    assert (tmp_path / "demo-output" / "demo.png").stat().st_size > 10_000


def test_the_version_is_that_of_the_project(environment, tmp_path):
    code = "import nutime, nutime.version; print(nutime.version.own_version(), nutime.__file__)"
    version, path = run(environment / "python", "-c", code, cwd=tmp_path, env=clean(tmp_path)).split()
    assert version == VERSION
    assert path.startswith(str(environment.parent))
    assert VERSION in run(environment / "nutime", "--version", cwd=tmp_path, env=clean(tmp_path))
