"""Names are a promise: a change here is a change for users."""

import subprocess
import sys

import nutime

NAMES = [
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


def test_the_public_names():
    assert sorted(nutime.__all__) == NAMES
    assert all(getattr(nutime, name) is not None for name in NAMES)


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(nutime, "Nutime")


def test_importing_the_package_imports_nothing_heavy():
    code = (
        "import sys, nutime.cli.main; print(*sorted({'torch', 'sklearn', 'pyarrow', 'aeon'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
