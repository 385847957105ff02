"""Every promise names a test that exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    line
    for line in (ROOT / "docs" / "promises.md").read_text("utf-8").splitlines()
    if line.startswith("|") and not line.startswith(("| ---", "| Promise", "| Fault"))
]


@pytest.mark.parametrize("row", ROWS, ids=[row.split("|")[1].strip()[:60] for row in ROWS])
def test_a_promise_names_tests_that_exist(row):
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", row)
    assert named
    for path, name in named:
        assert f"def {name}" in (ROOT / path).read_text("utf-8"), f"{path}::{name}"
    scripts = re.findall(r"`(benchmarks/\w+\.py)`", row)
    assert all((ROOT / script).is_file() for script in scripts)
