"""Time series in, answers out: see the README for a tour.

Names are imported when first used, so that ``import nutime`` and ``nutime --help`` stay quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nutime.data.archives import load_dataset
    from nutime.encoder import NuTime
    from nutime.estimators.base import EmbeddedSeries
    from nutime.estimators.classifier import NuTimeClassifier
    from nutime.estimators.clusterer import NuTimeClusterer
    from nutime.estimators.detector import NuTimeDetector
    from nutime.estimators.embedder import NuTimeEmbedder
    from nutime.estimators.regressor import NuTimeRegressor
    from nutime.labelling.selection import suggest
    from nutime.model.config import NuTimeConfig
    from nutime.recordings.annotator import NuTimeAnnotator
    from nutime.recordings.index import RecordingIndex
    from nutime.recordings.scanner import NuTimeScanner
    from nutime.recordings.search import find
    from nutime.recordings.segmenter import NuTimeSegmenter

_HOMES = {
    "EmbeddedSeries": "nutime.estimators.base",
    "NuTime": "nutime.encoder",
    "NuTimeAnnotator": "nutime.recordings.annotator",
    "NuTimeClassifier": "nutime.estimators.classifier",
    "NuTimeClusterer": "nutime.estimators.clusterer",
    "NuTimeConfig": "nutime.model.config",
    "NuTimeDetector": "nutime.estimators.detector",
    "NuTimeEmbedder": "nutime.estimators.embedder",
    "NuTimeRegressor": "nutime.estimators.regressor",
    "NuTimeScanner": "nutime.recordings.scanner",
    "NuTimeSegmenter": "nutime.recordings.segmenter",
    "RecordingIndex": "nutime.recordings.index",
    "find": "nutime.recordings.search",
    "load_dataset": "nutime.data.archives",
    "suggest": "nutime.labelling.selection",
}

__all__ = [
    "EmbeddedSeries",
    "NuTime",
    "NuTimeAnnotator",
    "NuTimeClassifier",
    "NuTimeClusterer",
    "NuTimeConfig",
    "NuTimeDetector",
    "NuTimeEmbedder",
    "NuTimeRegressor",
    "NuTimeScanner",
    "NuTimeSegmenter",
    "RecordingIndex",
    "find",
    "load_dataset",
    "suggest",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'nutime' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
