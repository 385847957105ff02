"""A tiny encoder, and archive folders of the official sizes with made-up series in them."""

import numpy as np
import torch

from nutime.data.archives import find_set
from nutime.encoder import NuTime
from nutime.model.config import NuTimeConfig

TINY = NuTimeConfig(window=4, length=32, dim=32, depth=1, heads=2, head_dim=16, mlp_dim=32, scalar_dim=8, scales=3)
QUICK = {"epochs": 8, "learning_rate": 0.01}


def tiny_encoder(seed=0):
    torch.manual_seed(seed)
    return NuTime(TINY)


def waves(n, length, channels=1, classes=2, seed=0):
    """Return series ``(n, length)`` of ``classes`` different frequencies and sizes, and labels "0", "1" …"""
    rng = np.random.default_rng([seed, n])
    y = np.arange(n) % classes
    phase = rng.uniform(0, 6, (n, channels, 1))
    size = 1 + 3 * y[:, None, None]
    X = size * np.sin((2 + 6 * y[:, None, None]) * np.linspace(0, 6, length) + phase)
    X = (X + rng.normal(0, 0.05, X.shape)).astype(np.float32)
    return X[:, 0] if channels == 1 else X, y.astype(str)


def write_set(folder, name, **more):
    """Write a set as ``.npz`` with its official sizes; ``more`` arrays replace the two splits."""
    entry = find_set(name)
    arrays = dict(more)
    if not arrays:
        for seed, (split, count) in enumerate((("train", entry.train), ("test", entry.test))):
            arrays[f"X_{split}"], arrays[f"y_{split}"] = waves(
                count, entry.length or 50, entry.channels, entry.classes, seed
            )
    home = folder / {"ucr": "ucr", "uea": "uea", "tfc": "extra"}[entry.archive]
    home.mkdir(parents=True, exist_ok=True)
    np.savez(home / f"{entry.name}.npz", **arrays)
