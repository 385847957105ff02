"""Commands for the tests of installed archives."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command, **options):
    """Run a command that must succeed, and return what it prints."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
