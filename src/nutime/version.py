"""Which nutime this is."""

from importlib import metadata


def own_version() -> str:
    """Return the installed version, or ``source`` when run from a source tree that is not installed."""
    try:
        return metadata.version("nutime")
    except metadata.PackageNotFoundError:
        return "source"
