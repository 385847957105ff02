"""The version of nutime and of the libraries it runs with."""

import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path


def own_version() -> str:
    """Return the installed version, or ``source`` when run from a source tree that is not installed."""
    try:
        return metadata.version("nutime")
    except metadata.PackageNotFoundError:
        return "source"


def versions() -> dict[str, str]:
    """Return the versions that are recorded with every result, with the commit when run from a git checkout."""
    libraries = {name: metadata.version(name) for name in ("torch", "numpy", "scikit-learn")}
    commit = {"commit": found} if (found := own_commit()) else {}
    return {"nutime": own_version(), **commit, "python": platform.python_version(), **libraries}


@cache
def own_commit(folder: Path = Path(__file__).parent) -> str | None:
    """Return the commit of the code in a git checkout, with ``+changes`` if it has uncommitted changes."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", ".")  # fails in a folder that git does not track, like site-packages
        return git("rev-parse", "--short=12", "HEAD") + ("+changes" if git("status", "--porcelain", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None
