"""A browser, a tiny random encoder, data that is easily separated, and a way to wait for the worker."""

import shutil
import time

import numpy as np
import pytest

from browsing import CHROMIUM_OPTIONS
from nutime.encoder import NuTime
from nutime.explore.state import Collection


@pytest.fixture(scope="session")
def encoder(encoder):
    """Return the tiny encoder itself."""
    return NuTime.from_pretrained(encoder)


@pytest.fixture(scope="session")
def make_waves():
    """Return a function that draws a collection of slow and fast waves in turn."""

    def make(count=30, channels=1, name="waves.csv", length=40):
        rng = np.random.default_rng(0)
        kind = np.arange(count) % 2
        speed = (2 + 6 * kind)[:, None, None]
        phase = rng.uniform(0, 6, (count, channels, 1))
        waves = np.sin(speed * np.linspace(0, 6, length) + phase) * speed
        labels = np.array(["slow", "fast"])[kind]
        return Collection.of(name, waves, labels, [f"wave {index}" for index in range(count)])

    return make


@pytest.fixture(scope="session")
def finished():
    """Return a function that waits until an analysis has nothing left to do, and returns it."""

    def wait(analysis):
        deadline = time.monotonic() + 60
        while analysis.progress is not None:
            assert time.monotonic() < deadline, analysis.progress
            time.sleep(0.01)
        return analysis

    return wait


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(CHROMIUM_OPTIONS))
        yield browser.new_context(viewport={"width": 1366, "height": 768})
        browser.close()
