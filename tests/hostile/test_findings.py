"""What fuzzing found stays mended, and a short run of it finds nothing new.

A finding is a file that once crashed, hung or starved a reader: ``findings/reader/name/file``. The files around
it, where a reader reads a folder, are the fuzzer's valid ones.
"""

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FUZZ = ROOT / "benchmarks" / "fuzz.py"
FINDINGS = sorted(path for path in (Path(__file__).parent / "findings").glob("*/*/*") if path.is_file())
CASES = 500

pytestmark = pytest.mark.skipif(not FUZZ.exists(), reason="the fuzzer is not part of an installed package")


@pytest.fixture(scope="module")
def fuzz():
    sys.path.insert(0, str(FUZZ.parent))
    import fuzz

    yield fuzz
    sys.path.remove(str(FUZZ.parent))


@pytest.fixture(scope="module")
def valid(fuzz):
    return fuzz.all_seeds()


@pytest.mark.filterwarnings("ignore")
def test_every_reader_reads_what_the_fuzzer_starts_from(fuzz, valid, tmp_path):
    for reader, seeds in valid.items():
        for number, files in enumerate(seeds):
            folder = tmp_path / f"{reader}{number}"
            fuzz.write_folder(folder, files)
            kinds = ("read", "refused") if reader in ("crafted", "arrow") else ("read",)
            assert fuzz.attempt(reader, folder).kind in kinds, reader


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("finding", FINDINGS, ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_a_finding_stays_mended(fuzz, valid, finding, tmp_path):
    reader = finding.parts[-3]
    fuzz.write_folder(tmp_path, next(files for files in valid[reader] if finding.name in files))
    shutil.copy(finding, tmp_path / finding.name)
    assert fuzz.attempt(reader, tmp_path).kind in ("read", "refused")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the fuzzer's limits are those of Linux")
def test_a_short_run_finds_nothing(fuzz, valid):
    outcomes = []
    fuzz.watch(valid, seed=0, cases=CASES, report=lambda number, outcome: outcomes.append((number, *outcome)))
    assert [outcome for outcome in outcomes if "found" in outcome] == []
    assert [number for number, *_ in outcomes] == list(range(CASES))
