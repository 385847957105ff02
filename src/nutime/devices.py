"""The device to compute on: CUDA where there is one, unless the user names another."""

from __future__ import annotations

import torch


def usable_device(name: str | torch.device | None = "auto") -> torch.device:
    """Return a device by its name; ``auto`` or None is CUDA if there is one, else the CPU.

    Raises:
        ValueError: this machine has no device of that name, or it cannot run the network.
    """
    if name in (None, "auto"):
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError, TypeError) as error:
        raise ValueError(f"device {name} is not available here: {' '.join(str(error).split())}") from None
    if device.type not in ("cpu", "cuda"):  # mps, for one, has no float64, which window statistics need
        raise ValueError(f"device {name} is not supported; use cpu or cuda")
    return device
