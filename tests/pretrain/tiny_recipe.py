"""The network the pretraining tests train: small enough for hundreds of steps in seconds."""

import os
import signal

from nutime import NuTimeConfig

TINY = NuTimeConfig(window=8, length=64, dim=32, depth=2, heads=2, head_dim=16, mlp_dim=64, scalar_dim=8)
OPTIONS = ["--device=cpu", "--batch=16", "--log-every=1", "--probe=none"]
OPTIONS += [f"--network={name}={value}" for name, value in vars(TINY).items()]


def arguments(corpus, run, *options):
    """Return the arguments of ``nutime`` that pretrain the network."""
    return ["pretrain", str(corpus), "-o", str(run), *OPTIONS, *options]


def stop_at(step, number=signal.SIGTERM):
    """Return a ``report`` that sends this process a signal after a step."""
    return lambda metrics: metrics.step == step and os.kill(os.getpid(), number)
