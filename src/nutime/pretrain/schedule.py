"""Learning rate and target momentum as functions of the step, computed on the device of the step counter."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Schedule:
    """The paper's schedule: linear warm-up, cosine to zero; momentum from its base to 1 on a half cosine."""

    steps: int
    learning_rate: float = 2e-3
    warmup: float = 0.1
    momentum: float = 0.999

    def learning_rate_at(self, step: Tensor) -> Tensor:
        """Return the learning rate of a step (a float scalar tensor, on any device)."""
        warmup_steps = max(1.0, self.warmup * self.steps)
        rising = (step + 1) / warmup_steps
        falling = _half_cosine((step - warmup_steps) / max(1.0, self.steps - warmup_steps))
        return self.learning_rate * rising.clamp(max=1) * falling

    def momentum_at(self, step: Tensor) -> Tensor:
        """Return the momentum of the target network at a step."""
        return 1 - (1 - self.momentum) * _half_cosine(step / self.steps)


def _half_cosine(progress: Tensor) -> Tensor:
    """From 1 at 0 to 0 at 1, flat outside."""
    return 0.5 * (1 + (math.pi * progress.clamp(0, 1)).cos())
