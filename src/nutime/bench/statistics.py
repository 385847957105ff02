"""Comparison of methods over the data sets common to all of them: ranks, Wilcoxon tests, wins and losses.

Scores are rounded to nine decimals before they are ranked: 149/150 − 148/150 and 148/150 − 147/150 differ in their
last bit, and must be ties.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Float64: TypeAlias = NDArray[np.float64]
#: Scores of a method by data set.
Column: TypeAlias = Mapping[str, float]
#: Such scores by method.
Columns: TypeAlias = Mapping[str, Column]

_DECIMALS = 9
#: Up to this number of sets the test is exact, as in scipy.
_MAX_EXACT = 13


class Estimate(NamedTuple):
    """A mean over runs and, if there are several, their (unbiased) standard deviation."""

    mean: float
    std: float | None = None


class WinTieLoss(NamedTuple):
    """Number of sets where the first method is better than, equal to and worse than the second."""

    wins: int
    ties: int
    losses: int

    def __str__(self) -> str:
        return f"{self.wins}/{self.ties}/{self.losses}"


@dataclass(frozen=True)
class Comparison:
    """Methods compared on their common sets, best average rank first.

    Attributes:
        ranks: average rank of each method, 1 is the best; ties share their ranks.
        sets: the data sets common to all methods.
        p_values: Holm-corrected p-value of every pair, symmetric, with ones on the diagonal.
        cliques: groups of methods without a significant difference (see :func:`find_cliques`).
    """

    ranks: dict[str, float]
    sets: tuple[str, ...]
    p_values: Float64
    cliques: tuple[tuple[str, ...], ...]

    @property
    def methods(self) -> tuple[str, ...]:
        """Their names, in the order of ranks."""
        return tuple(self.ranks)


def estimate(values: Iterable[float]) -> Estimate:
    """Return mean and standard deviation of values."""
    array = np.array(list(values), np.float64)
    return Estimate(float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else None)


def common_sets(columns: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """Return the sets common to all columns, in the order of the first."""
    first, *others = columns
    return tuple(name for name in first if all(name in other for other in others))


def compare(columns: Columns, alpha: float = 0.05) -> Comparison:
    """Compare methods, given as name to scores by set; higher scores are better.

    Raises:
        ValueError: fewer than two methods, or no common set.
    """
    if len(columns) < 2:
        raise ValueError(f"nothing to compare: got {len(columns)} method(s), expected at least 2")
    sets = common_sets(columns.values())
    if not sets:
        raise ValueError(f"nothing to compare: no data set has results of all of {', '.join(columns)}")
    scores = np.array([[column[name] for name in sets] for column in columns.values()], np.float64)
    ranks = average_ranks(scores)
    order = np.argsort(ranks, kind="stable")
    methods = [list(columns)[index] for index in order]
    p_values = pairwise_p_values(scores[order])
    cliques = tuple(tuple(methods[start:stop]) for start, stop in find_cliques(p_values >= alpha))
    return Comparison(dict(zip(methods, ranks[order].tolist(), strict=True)), sets, p_values, cliques)


def average_ranks(scores: Float64) -> Float64:
    """Return the mean rank of each row of ``(methods, sets)``; the highest score has rank 1, ties share."""
    from scipy.stats import rankdata

    ranks: Float64 = rankdata(-_rounded(scores), axis=0).mean(1)
    return ranks


def pairwise_p_values(scores: Float64) -> Float64:
    """Return the p-values of :func:`wilcoxon` for all pairs of rows, corrected by :func:`holm`."""
    pairs = list(combinations(range(len(scores)), 2))
    matrix = np.ones((len(scores), len(scores)))
    corrected = holm([wilcoxon(scores[first], scores[second]) for first, second in pairs])
    for (first, second), p_value in zip(pairs, corrected, strict=True):
        matrix[first, second] = matrix[second, first] = p_value
    return matrix


def holm(p_values: Sequence[float]) -> Float64:
    """Correct p-values for their number, step down: the i-th smallest of m is multiplied by m − i + 1."""
    raw = np.asarray(p_values, np.float64)
    order = np.argsort(raw, kind="stable")
    stepped = np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1))
    corrected = np.empty_like(raw)
    corrected[order] = np.minimum(stepped, 1)
    return corrected


def find_cliques(alike: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the longest runs ``[start, stop)`` of two or more neighbours that are all pairwise alike.

    These are the bars of a critical-difference diagram. Methods that are not neighbours in rank can be alike
    without a common bar.
    """
    runs: list[tuple[int, int]] = []
    for start in range(len(alike)):
        stop = start + 1
        while stop < len(alike) and alike[start : stop + 1, stop].all():
            stop += 1
        contained = bool(runs) and stop <= runs[-1][1]
        if stop - start > 1 and not contained:
            runs.append((start, stop))
    return runs


def win_tie_loss(ours: Column, theirs: Column) -> WinTieLoss:
    """Count wins, ties and losses of ``ours`` over the common sets."""
    sets = common_sets([ours, theirs])
    sign = np.sign([_difference(ours[name], theirs[name]) for name in sets])
    return WinTieLoss(*(int(np.sum(sign == value)) for value in (1, 0, -1)))


def wilcoxon(first: Float64, second: Float64) -> float:
    """Return the p-value of the two-sided Wilcoxon signed-rank test.

    Sets where both methods are equal count as evidence for equality (Pratt's treatment of zeros).
    """
    from scipy import stats

    difference = _difference(first, second)
    if not difference.any():
        return 1.0
    if len(difference) <= _MAX_EXACT:
        return _exact_wilcoxon(difference)
    return float(stats.wilcoxon(difference, zero_method="pratt").pvalue)


def _exact_wilcoxon(difference: Float64) -> float:
    """Return scipy's exact p-value from one matrix of all sign assignments; scipy's loop takes seconds."""
    from scipy.stats import rankdata

    ranks = rankdata(np.abs(difference))[difference != 0]
    signs = np.array(list(product((-1, 1), repeat=len(ranks))))
    observed = abs(np.sign(difference[difference != 0]) @ ranks)
    return float(np.mean(np.abs(signs @ ranks) >= observed))


def _difference(first: Float64 | float, second: Float64 | float) -> Float64:
    return _rounded(np.subtract(first, second))


def _rounded(values: Float64) -> Float64:
    return np.round(values, _DECIMALS)
