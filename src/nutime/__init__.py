"""Time series in, answers out: see the README for a tour.

Names are imported when first used, so that ``import nutime`` and ``nutime --help`` stay quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nutime.data.archives import load_dataset
    from nutime.encoder import NuTime
    from nutime.model.config import NuTimeConfig

_HOMES = {
    "NuTime": "nutime.encoder",
    "NuTimeConfig": "nutime.model.config",
    "load_dataset": "nutime.data.archives",
}

__all__ = ["NuTime", "NuTimeConfig", "load_dataset"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'nutime' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
