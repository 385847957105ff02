"""Linear models on embeddings: features, the fitted probe, and the solvers for classification and regression.

A univariate encoder concatenates the vectors of all channels: for a thousand channels, millions of values per
series, too many to keep for a few hundred series and far more than a probe needs. It then reads a random subset of
them, which depends on the sizes alone, so that a saved model need not contain it, and the means of all segments.

Both solvers take many problems at once, in double precision. Classification uses Newton's method: each problem has
its own line search and stops when it has converged, so that its solution does not depend on the others. Regression
is ridge regression in closed form, with its leave-one-out errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from nutime.data.series import Array
from nutime.encoder import NuTime
from nutime.model.config import NuTimeConfig
from nutime.model.reading import Reading
from nutime.progress import Report, progress

Float64: TypeAlias = NDArray[np.float64]

#: Maximum number of values of an embedding that a probe reads, beside the means of segments.
MAX_FEATURES = 2**15
#: Values of embeddings that are computed before the features are selected.
_MEMORY_BUDGET = 2**26
_LOOSE_TOLERANCE = 1e-6  # of hard problems; with 1e-4, very uneven weights have too little effect
_MIN_EIGENVALUE = 1e-12  # relative to the largest one; below, there is only rounding
_MAX_ITERATIONS = 100
_MAX_PRODUCTS = 1000  # with the Hessian
_MAX_PRODUCTS_PER_STEP = 300
_MANY_PRODUCTS = 300  # a problem that takes more is hard
_ROUGHLY = 0.1  # the residual of a step, relative to the gradient
_LONGEST_STEP = 30.0
_TINY = torch.finfo(torch.float32).tiny
_MAX_HALVINGS = 20
#: Share of the mean variance of all features added to the variance of each; chosen inside training splits.
VARIANCE_SHARE = 0.02
#: With segments as a third kind of features, the kinds are weighted by this power of their leave-one-out accuracy;
#: chosen inside training splits.
_WEIGHTING_POWER = 4
#: Series by which the kinds are weighted at most.
_MAX_LEFT_OUT = 1000
#: Penalties of the ridge regression, in units of the mean squared length of a row.
_PENALTIES = 10.0 ** np.arange(-6, 4.25, 0.25)


def selected_features(size: int, count: int) -> NDArray[np.intp]:
    """Return the indices of the ``count`` of ``size`` values that are read, in ascending order."""
    return np.sort(np.random.default_rng(0).choice(size, count, replace=False))


def probe_columns(reading: Reading, config: NuTimeConfig, channels: int, count: int) -> NDArray[np.intp]:
    """Return which values of an embedding a probe reads that has ``count`` features, in ascending order."""
    *_, segments = sizes = reading.sizes(config, channels)
    others = sum(sizes) - segments
    return np.concatenate([selected_features(others, count - segments), others + np.arange(segments)])


def probe_features(
    encoder: NuTime,
    series: list[Array],
    reading: Reading,
    count: int | None = None,
    *,
    verbose: bool | Report = False,
) -> NDArray[np.float32]:
    """Return ``(n, count)`` values of the embedding.

    Args:
        encoder: the frozen encoder.
        series: as :func:`~nutime.data.series.as_series` returns them.
        reading: how series are read.
        count: values per series; all of them unless given, but at most :data:`MAX_FEATURES` and the segments.
        verbose: as in :meth:`NuTime.embed`.
    """
    channels = len(series[0])
    size = reading.size(encoder.config, channels)
    count = probe_size(reading, encoder.config, channels) if count is None else count
    if count == size:
        return encoder.embed(series, reading=reading, verbose=verbose)
    columns = probe_columns(reading, encoder.config, channels, count)
    features = np.empty((len(series), count), np.float32)
    chunk_size = max(1, _MEMORY_BUDGET // size)
    with progress("embedding", verbose) as report:
        for start in range(0, len(series), chunk_size):
            chunk = series[start : start + chunk_size]
            features[start : start + len(chunk)] = encoder.embed(chunk, reading=reading)[:, columns]
            report(start + len(chunk), len(series))
    return features


def probe_size(reading: Reading, config: NuTimeConfig, channels: int) -> int:
    """Return the number of values of an embedding that a probe reads."""
    *others, segments = reading.sizes(config, channels)
    return min(sum(others), MAX_FEATURES) + segments


def feature_kinds(reading: Reading, config: NuTimeConfig, channels: int, count: int) -> list[slice]:
    """Return the slices of the network's values, the convolutions and the segments among ``count`` features."""
    columns = probe_columns(reading, config, channels, count)
    ends = np.searchsorted(columns, np.cumsum([0, *reading.sizes(config, channels)]))
    return [slice(int(start), int(end)) for start, end in pairwise(ends) if start < end]


def are_weighted(kinds: Sequence[slice]) -> bool:
    """Return whether kinds of features are weighted by :func:`kind_weights`: two count equally."""
    return len(kinds) > 2


def standardise(embedding: NDArray[Any], weight: Float64) -> tuple[Float64, Float64, Float64]:
    """Return standardised features with the mean of each, and its scale: a little above its standard deviation.

    The deviation of a feature that is nearly constant in a few series does not hold for others: divided by it
    alone, one such feature can outweigh all the rest. Features that vary less than most get less weight.
    """
    share = weight / weight.sum()
    mean = share @ embedding
    rows = embedding - mean
    variance = np.einsum("n,nd,nd->d", share, rows, rows)
    scale = np.sqrt(variance + VARIANCE_SHARE * variance.mean())
    scale[scale == 0] = 1
    rows /= scale
    return rows, mean, scale


@dataclass(frozen=True)
class LinearProbe:
    """The mean of logistic or ridge regressions on standardised embeddings, one per kind of feature.

    Fitted together, features of one kind would leave little for the others to explain. The mean of the logits is
    again linear, so that one matrix holds it. Three kinds are weighted, see :func:`kind_weights`.

    Attributes:
        mean, scale: of the embeddings, ``(d,)``.
        coef, intercept: one row per class, ``(classes, d)`` and ``(classes,)``; one row for regression.
    """

    mean: Float64
    scale: Float64
    coef: Float64
    intercept: Float64

    @classmethod
    def fit(
        cls,
        embedding: NDArray[Any],
        targets: NDArray[np.intp],
        sample_weight: Float64 | None = None,
        class_weight: Float64 | None = None,
        C: float = 1.0,
        kinds: Sequence[slice] = (slice(None),),
    ) -> Self:
        """Fit a probe. Class weights affect the classifier, not the standardisation; see :func:`feature_kinds`."""
        weight = np.ones(len(targets)) if sample_weight is None else sample_weight
        class_weight = np.ones(targets.max() + 1) if class_weight is None else class_weight
        weights = torch.from_numpy(weight * class_weight[targets])[None]
        classes = torch.from_numpy(targets)[None]
        parts, scores = [], []
        for kind in kinds:
            standardised, mean, scale = standardise(embedding[:, kind], weight)
            rows = torch.from_numpy(standardised)[None]
            parts.append((mean, scale, *fit_logistic(rows, classes, weights, len(class_weight), C)))
            scores.append(left_out_accuracy(rows, classes, weights) if are_weighted(kinds) else torch.ones(1))
        return cls._averaged(parts, kind_weights(scores))

    @classmethod
    def fit_regression(
        cls,
        embedding: NDArray[Any],
        targets: NDArray[Any],
        sample_weight: Float64,
        kinds: Sequence[slice] = (slice(None),),
    ) -> tuple[Self, Float64]:
        """Fit a probe by :func:`fit_ridge`; return it with the leave-one-out errors of the targets."""
        y, weights = torch.from_numpy(targets)[None, :, None], torch.from_numpy(sample_weight)[None]
        parts, scores, errors = [], [], []
        for kind in kinds:
            rows, mean, scale = standardise(embedding[:, kind], sample_weight)
            coef, intercept, left_out = fit_ridge(torch.from_numpy(rows)[None], y, weights)
            parts.append((mean, scale, coef, intercept))
            scores.append(inverse_rmse(left_out, weights) if are_weighted(kinds) else torch.ones(1))
            errors.append(left_out[0, :, 0].numpy())
        kind_weight = kind_weights(scores)
        return cls._averaged(parts, kind_weight), np.average(errors, axis=0, weights=kind_weight[:, 0].numpy())

    @classmethod
    def _averaged(cls, parts: Sequence[tuple[Float64, Float64, Tensor, Tensor]], kind_weight: Tensor) -> Self:
        """Return one probe for the weighted mean of several, each on features of its own."""
        means, scales, coefs, intercepts = zip(*parts, strict=True)
        coef = torch.cat([weight * own for weight, own in zip(kind_weight, coefs, strict=True)], dim=-1)[0].numpy()
        intercept = (kind_weight * torch.cat(intercepts)).sum(0).numpy()
        return cls(np.concatenate(means), np.concatenate(scales), coef, intercept)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild a probe; a ``KeyError`` names what is missing."""
        return cls(arrays["mean"], arrays["scale"], arrays["coef"], arrays["intercept"])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the four arrays by name."""
        return asdict(self)

    def logits(self, embedding: NDArray[Any]) -> Float64:
        """Return ``(n, classes)`` logits, or ``(n, 1)`` predictions."""
        coef = np.ascontiguousarray(self.coef / self.scale)  # products of other layouts differ in the last digit
        return np.asarray(embedding.astype(np.float64) @ coef.T + (self.intercept - coef @ self.mean))


@torch.no_grad()
def fit_logistic(
    rows: Tensor,
    targets: Tensor,
    weights: Tensor,
    n_classes: int,
    C: float = 1.0,
    *,
    start: tuple[Tensor, Tensor] | None = None,
    tolerance: float = 1e-10,
) -> tuple[Tensor, Tensor]:
    """Fit logistic regressions with the objective of scikit-learn's ``LogisticRegression``.

    Args:
        rows: ``(problems, n, d)`` standardised features.
        targets: ``(problems, n)`` classes as integers.
        weights: ``(problems, n)`` of the samples.
        n_classes: the number of classes.
        C: inverse strength of the penalty.
        start: coefficients and intercepts to begin with, as they are returned; zero unless given.
        tolerance: largest gradient of the mean loss at which a problem is solved; hard ones are less exact.

    Returns:
        Coefficients ``(problems, classes, d)`` and intercepts ``(problems, classes)``, float64.
    """
    rows, weights = rows.double(), weights.double()
    one_hot = F.one_hot(targets, n_classes).double()
    strength = (2 if n_classes == 2 else 1) / C  # with two classes scikit-learn penalises only the difference
    share = (weights / weights.sum(1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny))[..., None]
    weights, n, size = weights[..., None], *rows.shape[1:]
    few = n < size
    if few:
        # The solution is in the span of the samples: their principal components are the coordinates.
        squares, left = torch.linalg.eigh(rows @ rows.mT)
        rank = squares > _MIN_EIGENVALUE * squares[:, -1:]
        axes = rows.mT @ torch.where(rank[:, None], left * squares.rsqrt()[:, None], 0)
        rows = rows @ axes
        mean_squares = (share * rows.square()).sum(1)
    else:
        # Only the preconditioner uses principal components, so that rough ones of some samples suffice.
        some = slice(None, None, max(1, n // (2 * size)))
        part = (rows[:, some] * share[:, some].sqrt()).float()
        mean_squares, axes = torch.linalg.eigh(part.mT @ part)
        mean_squares = mean_squares / share[:, some].sum(1).float().clamp_min(_TINY)
    # The last coordinate is the intercept, without penalty.
    mean_squares = F.pad(mean_squares.clamp_min(0), (0, 1), value=1.0)[..., None]
    penalty = torch.full_like(mean_squares[:1], strength, dtype=rows.dtype)
    penalty[:, -1] = 0
    rough_rows, rough_weights, rough_penalty, rough_axes = (x.float() for x in (rows, weights, penalty, axes))

    def logits(rows: Tensor, coef: Tensor) -> Tensor:
        return rows @ coef[:, :-1] + coef[:, -1:]

    def gradient(rows: Tensor, errors: Tensor) -> Tensor:
        return torch.cat([rows.mT @ errors, errors.sum(1, keepdim=True)], dim=1)

    def loss(coef: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        log_probabilities = logits(rows, coef).log_softmax(-1)
        value = 0.5 * _dot(penalty * coef, coef) - _dot(log_probabilities * weights, one_hot)
        probabilities = log_probabilities.exp()
        return value, gradient(rows, (probabilities - one_hot) * weights) + penalty * coef, probabilities

    def hessian(probabilities: Tensor, damping: Tensor) -> Callable[[Tensor], Tensor]:
        most_probable = probabilities.argmax(-1, keepdim=True)
        curvature, diagonal = rough_weights * probabilities, rough_penalty + damping

        def multiply(direction: Tensor) -> Tensor:
            change = logits(rough_rows, direction)
            # Relative to the most probable class: where its probability is nearly 1, little is lost by rounding.
            change = change - change.gather(-1, most_probable)
            change = change - (probabilities * change).sum(-1, keepdim=True)
            return gradient(rough_rows, curvature * change) + diagonal * direction

        return multiply

    def preconditioner(probabilities: Tensor, damping: Tensor) -> Callable[[Tensor], Tensor]:
        variance = (rough_weights * probabilities * (1 - probabilities)).sum(1, keepdim=True)
        diagonal = rough_penalty + mean_squares.float() * variance
        diagonal = (diagonal + (damping if few else damping.mean(1, keepdim=True))).clamp_min(_TINY)
        if few:
            return lambda residual: residual / diagonal
        return lambda residual: torch.cat(
            [
                rough_axes @ (rough_axes.mT @ residual[:, :-1] / diagonal[:, :-1]),
                residual[:, -1:] / diagonal[:, -1:],
            ],
            dim=1,
        )

    coef = rows.new_zeros(len(rows), len(penalty[0]), n_classes)
    if start is not None:
        slopes = axes.mT @ start[0].mT if few else start[0].mT
        coef = torch.cat([slopes, start[1][:, None]], dim=1)
    coef = _minimise(loss, hessian, preconditioner, coef, tolerance, weights.sum(1, keepdim=True))
    slopes = axes @ coef[:, :-1] if few else coef[:, :-1]
    intercepts = coef[:, -1] - coef[:, -1].mean(-1, keepdim=True)  # without penalty, their mean is free
    return slopes.mT, intercepts


@torch.no_grad()
def fit_ridge(rows: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Fit ridge regressions, each with the penalty of the highest marginal likelihood, common to its outputs.

    That is the (restricted) likelihood of the targets if the coefficients are drawn from a normal distribution.
    With few series and much noise it is a safer choice than the smallest leave-one-out error, which varies more. A
    row's leave-one-out error is its residual divided by 1 − its leverage. The scale of the weights has no effect.

    Args:
        rows: ``(problems, n, d)`` standardised features.
        targets: ``(problems, n, outputs)``.
        weights: ``(problems, n)`` of the samples.

    Returns:
        Coefficients ``(problems, outputs, d)``, intercepts ``(problems, outputs)`` and leave-one-out errors
        ``(problems, n, outputs)``, target minus prediction; float64.
    """
    rows, targets, share = rows.double(), targets.double(), weights.double()[..., None]
    share = share / share.sum(1, keepdim=True)
    root = share.sqrt()
    center, mean = share.mT @ rows, share.mT @ targets
    rows, targets = root * (rows - center), root * (targets - mean)
    # Columns of `left` are the left singular vectors of the rows, computed on the shorter side.
    if rows.shape[1] <= rows.shape[2]:
        squares, left = torch.linalg.eigh(rows @ rows.mT)
    else:
        squares, right = torch.linalg.eigh(rows.mT @ rows)
        rank = squares > 1e-14 * squares[:, -1:]
        left = torch.where(rank[:, None], rows @ right * squares.rsqrt()[:, None], 0)
    squares = squares.clamp_min(0)[..., None]
    projections = left.mT @ targets
    unit = squares.sum(1, keepdim=True).clamp_min(1e-300)
    total = targets.square().sum(1, keepdim=True)
    outside = (total - projections.square().sum(1, keepdim=True)).clamp_min(0)
    best, penalty = torch.full_like(unit, torch.inf), unit
    for factor in _PENALTIES:
        ratio = squares / (factor * unit)
        variance = outside + (projections.square() / (1 + ratio)).sum(1, keepdim=True)
        losses = ratio.log1p().sum(1, keepdim=True) + (targets.shape[1] - 1) * variance.log()
        loss = torch.where(total > 0, losses, 0).sum(2, keepdim=True)  # not of classes without rows
        penalty = torch.where(loss < best, factor * unit, penalty)
        best = torch.minimum(loss, best)
    kept = squares / (squares + penalty)
    residuals = targets - left @ (kept * projections)
    leverage = left.square() @ kept + share  # the share is that of the intercept
    errors = residuals / (root * (1 - leverage).clamp_min(1e-12))
    dual = left @ (projections / (squares + penalty))
    coef = (rows.mT @ dual).mT
    return coef, (mean - center @ coef.mT)[:, 0], errors


def left_out_accuracy(rows: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the leave-one-out accuracy of ridge regressions on the classes' indicators, ``(problems,)``.

    It is at least the share of the most frequent class: features that tell nothing are wrong about nearly all
    series of classes of equal size, since the class of a series left out is rarer among the others.

    Args:
        rows: ``(problems, n, d)`` standardised features.
        targets: ``(problems, n)`` classes as integers.
        weights: ``(problems, n)`` of the samples.
    """
    weights = weights + 1e-9 * weights.mean(1, keepdim=True)  # those of some rows may all be 0
    some = torch.from_numpy(selected_features(rows.shape[1], min(rows.shape[1], _MAX_LEFT_OUT))).to(rows.device)
    rows, targets, weights = rows[:, some], targets[:, some], weights[:, some]
    indicators = F.one_hot(targets).double()
    left_out = indicators - fit_ridge(rows, indicators, weights)[2]
    right = (weights * (left_out.argmax(-1) == targets)).sum(1)
    most_frequent = (weights[..., None] * indicators).sum(1).amax(1)
    return torch.maximum(right, most_frequent) / weights.sum(1)


def inverse_rmse(errors: Tensor, weights: Tensor) -> Tensor:
    """Return one over the root mean square of leave-one-out errors ``(problems, n, 1)``, ``(problems,)``."""
    squares = (weights * errors[..., 0].square()).sum(1) / weights.sum(1)
    return squares.clamp_min(1e-12).rsqrt()


def kind_weights(scores: Sequence[Tensor]) -> Tensor:
    """Return the weight of each kind of features, ``(kinds, problems)``, from its score, ``(problems,)``."""
    powers = torch.stack(list(scores)).double() ** _WEIGHTING_POWER
    return powers / powers.sum(0)


def _minimise(
    loss: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]],
    hessian: Callable[[Tensor, Tensor], Callable[[Tensor], Tensor]],
    preconditioner: Callable[[Tensor, Tensor], Callable[[Tensor], Tensor]],
    x: Tensor,
    tolerance: float,
    unit: Tensor,
) -> Tensor:
    """Minimise convex losses by Newton's method from ``x``, with rough steps in single precision.

    Args:
        loss: returns values ``(problems, 1, 1)``, gradients of the shape of ``x``, and probabilities.
        hessian: returns a function that multiplies by the Hessian at these probabilities, plus a diagonal.
        preconditioner: returns a function that divides by about this matrix.
        x: where to begin.
        tolerance: largest absolute gradient at which a problem is solved, in its ``unit``; of a hard one at least
            :data:`_LOOSE_TOLERANCE`.
        unit: ``(problems, 1, 1)``.
    """
    value, gradient, probabilities = loss(x)
    rounding = 100 * torch.finfo(x.dtype).eps
    products = torch.zeros_like(value)
    for _ in range(_MAX_ITERATIONS):
        limit = torch.where(products < _MANY_PRODUCTS, tolerance, max(tolerance, _LOOSE_TOLERANCE)) * unit
        active = (gradient.abs().amax((1, 2), keepdim=True) > limit) & (products < _MAX_PRODUCTS)
        if not active.any():
            break
        # Where probabilities are nearly 0 or 1, there is hardly any curvature: the damping limits the step.
        at = probabilities.float(), (gradient.abs() / _LONGEST_STEP).float()
        right = torch.where(active, gradient, 0).float()
        direction, used = _solve(hessian(*at), preconditioner(*at), right)
        direction, products = direction.double(), products + used
        slope, length = _dot(gradient, direction), torch.ones_like(value)
        for _ in range(_MAX_HALVINGS):
            new_x = x - length * direction
            new_value, new_gradient, probabilities = loss(new_x)
            too_long = new_value > value - 1e-4 * length * slope + rounding * value.abs()
            if not too_long.any():
                break
            length = torch.where(too_long, length / 2, length)
        x, value, gradient = new_x, new_value, new_gradient
    return x


def _solve(
    multiply: Callable[[Tensor], Tensor], precondition: Callable[[Tensor], Tensor], right: Tensor
) -> tuple[Tensor, Tensor]:
    """Solve linear systems roughly by conjugate gradients.

    Returns:
        The solutions, and the products that each of them took, ``(problems, 1, 1)``.
    """
    solution, residual, products = torch.zeros_like(right), right, torch.zeros_like(right[:, :1, :1])
    direction = scaled = precondition(residual)
    square, target = _dot(residual, scaled), _ROUGHLY**2 * _dot(right, right)
    for _ in range(_MAX_PRODUCTS_PER_STEP):
        active = _dot(residual, residual) > target
        if not active.any():
            break
        products += active
        product = multiply(direction)
        step = torch.where(active, square / _dot(direction, product), 0)
        solution, residual = solution + step * direction, residual - step * product
        scaled = precondition(residual)
        new_square = _dot(residual, scaled)
        direction, square = scaled + torch.where(active, new_square / square, 0) * direction, new_square
    return solution, products


def _dot(one: Tensor, other: Tensor) -> Tensor:
    return (one * other).sum((1, 2), keepdim=True)
