"""Heads to begin fine-tuning with: the linear probe of every model, fitted where the models are, many at once.

Unusual here: the solver is written out, L-BFGS for many problems at a time. Each has a line search of its own and
all take the same number of steps, so that a model's head does not depend on which others are fitted beside it.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

#: After a hundred steps nothing is left to gain but the last digits, also with thousands of coordinates.
_STEPS = 100
_REMEMBERED = 10
_HALVINGS = 20
_POWER_ITERATIONS = 30
#: What two values of one thing may differ by in single precision, relatively.
_ROUNDING = 1e-6


@torch.no_grad()
def fit_heads(read: Tensor, codes: Tensor, weights: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Fit a logistic regression for every model, with the penalty of the ``probe`` strategy at ``C=1``.

    Args:
        read: ``(models, n, d)``, normalised.
        codes: ``(models, n)`` classes.
        weights: ``(models, n)`` of the series.
        classes: how many there are.

    Returns:
        Weights ``(models, classes, d)`` and biases ``(models, classes)``.
    """
    # The bias is the weight of one more coordinate: so large that it is hardly penalised.
    unit = (_largest_curvature(read, weights) / weights.sum(1)).sqrt()[:, None]
    rows = torch.cat([read, unit[..., None].expand(-1, read.shape[1], 1)], dim=2)
    basis = None
    if rows.shape[1] < rows.shape[2]:
        # A penalised linear model never leaves the span of its samples, which are mostly fewer than coordinates.
        basis, places = torch.linalg.qr(rows.mT)
        rows = places.mT.contiguous()
    penalty = 2 if classes == 2 else 1  # of two classes scikit-learn penalises the difference alone
    loss = _PenalisedLoss(rows, F.one_hot(codes, classes).to(rows.dtype), weights, penalty)
    steepest = penalty + 0.5 * _largest_curvature(rows, weights)
    found = _minimise(loss, rows.new_zeros(len(rows), rows.shape[2], classes), 1 / steepest[:, None, None])
    head = found if basis is None else basis @ found
    return head[:, :-1].mT, unit * head[:, -1]


class _PenalisedLoss(NamedTuple):
    """The loss of logistic regressions, one a model, and its gradient."""

    rows: Tensor
    wanted: Tensor
    weights: Tensor
    penalty: float

    def at(self, head: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``(models, 1, 1)`` losses and ``(models, d, classes)`` gradients."""
        said = (self.rows @ head).log_softmax(-1)
        weights = self.weights[..., None]
        loss = 0.5 * self.penalty * _dot(head, head) - _dot(said * weights, self.wanted)
        return loss, self.rows.mT @ ((said.exp() - self.wanted) * weights) + self.penalty * head


def _minimise(loss: _PenalisedLoss, head: Tensor, step: Tensor) -> Tensor:
    """Return where the losses are smallest, by L-BFGS from ``head``; ``step`` is a safe one along the gradient."""
    value, gradient = loss.at(head)
    past: deque[tuple[Tensor, Tensor, Tensor]] = deque(maxlen=_REMEMBERED)
    for _ in range(_STEPS):
        way = _way_down(gradient, past, step)
        slope, length = _dot(gradient, way), torch.ones_like(value)
        for _ in range(_HALVINGS):
            tried = head - length * way
            new_value, new_gradient = loss.at(tried)
            too_far = new_value > value - 1e-4 * length * slope + _ROUNDING * value.abs()
            if not too_far.any():
                break
            length = torch.where(too_far, length / 2, length)
        moved, turned = tried - head, new_gradient - gradient
        curved = _dot(moved, turned)
        # At the optimum only rounding moves and turns, and there is nothing to learn from it.
        telling = curved > 1e-5 * (_dot(moved, moved) * _dot(turned, turned)).sqrt()
        past.append((moved, turned, torch.where(telling, 1 / curved, 0)))
        step = torch.where(telling, curved / _dot(turned, turned), step)
        head, value, gradient = tried, new_value, new_gradient
    return head


def _way_down(gradient: Tensor, past: deque[tuple[Tensor, Tensor, Tensor]], step: Tensor) -> Tensor:
    """Return the gradient by the inverse of the curvature that the past steps have met."""
    way, shares = gradient, []
    for moved, turned, weight in reversed(past):
        shares.append(weight * _dot(moved, way))
        way = way - shares[-1] * turned
    way = step * way
    for (moved, turned, weight), share in zip(past, reversed(shares), strict=True):
        way = way + moved * (share - weight * _dot(turned, way))
    return way


def _dot(one: Tensor, other: Tensor) -> Tensor:
    return (one * other).sum((1, 2), keepdim=True)


def _largest_curvature(rows: Tensor, weights: Tensor) -> Tensor:
    """Return the largest eigenvalue of the weighted squares of the rows, a little too large, ``(models,)``."""
    vector = rows[:, :1].mT  # not their sum, which is nothing where they are normalised
    for _ in range(_POWER_ITERATIONS):
        vector = F.normalize(rows.mT @ (rows @ vector * weights[..., None]), dim=1)
    return 1.1 * (rows @ vector).square().mul(weights[..., None]).sum((1, 2))
