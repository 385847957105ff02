"""Where to compute: on the device a user names, or on the best there is."""

from __future__ import annotations

import torch


def usable_device(name: str | None = None) -> torch.device:
    """Return a device by its name, the best one unless named.

    Raises:
        ValueError: there is none of that name here.
    """
    name = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError) as error:
        raise ValueError(f"device {name} is not available here: {' '.join(str(error).split())}") from None
    return device
