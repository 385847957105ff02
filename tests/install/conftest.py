"""The wheel and the source distribution of this tree, and empty environments with nothing else of ours in them."""

import shutil
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

import pytest
from running_commands import ROOT, run


@pytest.fixture(scope="session")
def dist(tmp_path_factory):
    """Return the folder with both archives."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return folder


@pytest.fixture(scope="session", params=["*.whl", "*.tar.gz"], ids=["wheel", "sdist"])
def environment(request, dist):
    """Return an environment in which an archive was installed without a network."""
    (archive,) = dist.glob(request.param)
    # Users of any name may read it, as in a container.
    folder = Path(tempfile.mkdtemp(prefix="nutime-"))
    folder.chmod(0o755)
    wheels = folder / "wheels"
    # A source distribution is built with what is installed here; the environment itself has only pip.
    here = ("--no-index", "--no-deps", "--no-build-isolation")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", *here, "-w", wheels, archive)
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", *wheels.glob("*.whl"))
    # Dependencies come from the environment of the tests: a path in a .pth file brings neither our own editable
    # install, which is itself a .pth file, nor its metadata before those of the wheel.
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    Path(packages, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    yield folder / "venv" / "bin"
    shutil.rmtree(folder)
