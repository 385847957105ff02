"""Heads to begin fine-tuning with: the linear probe of every model, fitted where the models are, many at once.

Unusual here: the solver is written out. A model's head must not depend on which others are fitted beside it, as it
would with a line search over all of them; Nesterov's method with a step from the curvature needs no search.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

#: Of the solver; a head that is a little short of its optimum begins as well.
_ITERATIONS = 1000
_POWER_ITERATIONS = 30


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
    curvature = _largest_curvature(read, weights)
    # The bias is the weight of one more coordinate: as large as can be without slowing the others, so that it is
    # hardly penalised.
    unit = (curvature / weights.sum(1)).sqrt()[:, None]
    rows = torch.cat([read, unit[..., None].expand(-1, read.shape[1], 1)], dim=2)
    basis = None
    if rows.shape[1] < rows.shape[2]:
        # A penalised linear model never leaves the span of its samples, which are mostly fewer than coordinates.
        basis, places = torch.linalg.qr(rows.mT)
        rows = places.mT.contiguous()
    wanted = F.one_hot(codes, classes).to(rows.dtype)
    penalty = 2 if classes == 2 else 1  # of two classes scikit-learn penalises the difference alone
    steepest = penalty + 0.5 * _largest_curvature(rows, weights)[:, None, None]
    narrowness = (steepest / penalty).sqrt()
    momentum = (narrowness - 1) / (narrowness + 1)
    found = ahead = rows.new_zeros(len(rows), rows.shape[2], classes)
    for _ in range(_ITERATIONS):
        error = ((rows @ ahead).softmax(-1) - wanted) * weights[..., None]
        before, found = found, ahead - (rows.mT @ error + penalty * ahead) / steepest
        ahead = found + momentum * (found - before)
    head = found if basis is None else basis @ found
    return head[:, :-1].mT, unit * head[:, -1]


def _largest_curvature(rows: Tensor, weights: Tensor) -> Tensor:
    """Return the largest eigenvalue of the weighted squares of the rows, a little too large, ``(models,)``."""
    vector = rows[:, :1].mT  # not their sum, which is nothing where they are normalised
    for _ in range(_POWER_ITERATIONS):
        vector = F.normalize(rows.mT @ (rows @ vector * weights[..., None]), dim=1)
    return 1.1 * (rows @ vector).square().mul(weights[..., None]).sum((1, 2))
