"""Which nutime this is, and what it runs on."""

import platform
from importlib import metadata


def own_version() -> str:
    """Return the installed version, or ``source`` when run from a source tree that is not installed."""
    try:
        return metadata.version("nutime")
    except metadata.PackageNotFoundError:
        return "source"


def versions() -> dict[str, str]:
    """Return the versions every number of ours travels with."""
    libraries = {name: metadata.version(name) for name in ("torch", "numpy", "scikit-learn")}
    return {"nutime": own_version(), "python": platform.python_version(), **libraries}
