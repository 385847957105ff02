"""Processes killed at random moments lose nothing that was confirmed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kills.py"


@pytest.mark.slow
def test_nothing_that_was_confirmed_is_lost_by_a_kill():
    done = subprocess.run([sys.executable, SCRIPT, "--kills", "10"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"kills": 10, "lost": [], "stray": []}
