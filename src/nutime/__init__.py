"""Time series in, answers out: see the README for a tour."""

from nutime.data.archives import load_dataset
from nutime.encoder import NuTime
from nutime.model.config import NuTimeConfig

__all__ = ["NuTime", "NuTimeConfig", "load_dataset"]
