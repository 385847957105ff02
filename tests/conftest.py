"""What all tests share: kernels run without a GPU, and a tiny random encoder with one estimator of each kind."""

import io
import os
import signal
import sys
from typing import NamedTuple

import hypothesis
import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read once, when triton is first imported

from nutime.cli import main
from nutime.encoder import NuTime
from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.clusterer import NuTimeClusterer
from nutime.estimators.detector import NuTimeDetector
from nutime.estimators.embedder import NuTimeEmbedder
from nutime.estimators.regressor import NuTimeRegressor
from nutime.finetune.train import _Training
from nutime.model.config import NuTimeConfig

torch.set_num_threads(1)  # the tensors of tests are small: threads would only wait for each other

hypothesis.settings.register_profile("nutime", deadline=None)
hypothesis.settings.load_profile("nutime")

# Widths of 32 and more give the same digits whatever the size of a batch, as those of the real encoders do.
TINY = NuTimeConfig(window=4, length=32, dim=32, depth=1, heads=2, head_dim=16, mlp_dim=32, scalar_dim=8, scales=3)
KINDS = {
    "classifier": lambda encoder: NuTimeClassifier(encoder=encoder, random_state=0),
    "embedder": lambda encoder: NuTimeEmbedder(encoder=encoder),
    "clusterer": lambda encoder: NuTimeClusterer(encoder=encoder, n_clusters=2, random_state=0),
    "regressor": lambda encoder: NuTimeRegressor(encoder=encoder),
    "detector": lambda encoder: NuTimeDetector(encoder=encoder, contamination=0.1),
}


def pytest_collection_modifyitems(items):
    """Run the longest of the last files first: otherwise, one of two processes waits for it at the end."""
    items.sort(key=lambda item: item.path.name != "test_export.py")


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """Return the folder of the tiny encoder."""
    torch.manual_seed(0)
    return str(NuTime(TINY).save(tmp_path_factory.mktemp("encoder")))


@pytest.fixture(params=list(KINDS))
def estimator(request, encoder):
    """Return each kind of estimator in turn, unfitted."""
    return KINDS[request.param](encoder)


@pytest.fixture
def ctrl_c():
    """Have SIGINT interrupt, also where the tests run in the background and inherit that it does nothing."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def ctrl_c_at_step(ctrl_c, monkeypatch):
    """Return a function that has SIGINT sent when a step of fine-tuning begins, and returns the steps begun."""

    def interrupt(number):
        step, begun = _Training.step, []

        def interrupted(self):
            begun.append(len(begun) + 1)
            if begun[-1] == number:
                os.kill(os.getpid(), signal.SIGINT)
            step(self)

        monkeypatch.setattr(_Training, "step", interrupted)
        return begun

    return interrupt


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def refusal(self):
        """The line with which a command refused its input."""
        assert (self.code, self.err[:8], self.err.count("\n")) == (1, "nutime: ", 1), self
        return self.err[8:-1]


@pytest.fixture
def nutime(capfd, monkeypatch):
    """Run the command line as a process would, without the seconds a process takes to start."""

    def run(*arguments, stdin=""):
        monkeypatch.setattr(sys, "argv", ["nutime", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capfd.readouterr()
        code = None
        try:
            main.main()
        except SystemExit as done:
            code = done.code
        return Done(code or 0, *capfd.readouterr())

    return run
