"""Least squares from exact sums, in exact arithmetic: each weight is rounded once, to float64.

The engine keeps integer sums over products (`columns.Totals`). The normal equations of the columns
less their means have integer coefficients then; they are eliminated without fractions (E. H.
Bareiss, Math. Comp. 22, 1968), so that rank and weights are those of exact arithmetic. The float32
weights that the engine computes are another answer, see `columns.solve`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .columns import Totals

__all__ = ["Dependent", "ExactFit", "Rounding", "fit_exactly"]

#: below it the smallest eigenvalue of a correlation matrix, computed in float64, has too few digits
_RESOLVED = 1e-8
#: covers the roundings of the bounds' own arithmetic
_SLACK = 1 + 1e-9


@dataclass(frozen=True)
class Dependent:
    """A column that the columns before it determine: it is `constant` plus the sum of each factor
    times its column (from 0). A constant column has no factors."""

    column: int
    factors: tuple[tuple[int, Fraction], ...]
    constant: Fraction


@dataclass(frozen=True)
class Rounding:
    """How far the rounded values of features and label are from the table's, in units of the format.

    `most`: the largest distance in each column, float64 (k + 1,); `norms`: the square root of the
    sum of squares of the signed distances less a constant, which the bias takes.
    """

    most: NDArray[np.float64]
    norms: NDArray[np.float64]

    @property
    def exact(self) -> bool:
        return not self.most.any()

    def lengths(self, rows: int) -> NDArray[np.float64]:
        """Return what the norms are at most in so many of the rows, less their means."""
        return np.minimum(self.norms, self.most * math.sqrt(rows))


@dataclass(frozen=True)
class ExactFit:
    """Weights of the rows in some totals.

    `rows`; `kept`: columns that are independent of those before them; `dependent`: the others;
    `numerators`, `denominator`: the weights; `gram`: the centred sums over products times the number
    of rows, features and label; `means`: of features and label, in units of the format.
    """

    rows: int
    kept: tuple[int, ...]
    dependent: tuple[Dependent, ...]
    numerators: tuple[int, ...]
    denominator: int
    gram: NDArray[np.object_]
    means: tuple[Fraction, ...]

    @property
    def rank(self) -> int:
        """Independent columns, without the bias."""
        return len(self.kept)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """The weights of the features, each the float64 number nearest to the exact one."""
        return np.array([n / self.denominator for n in self.numerators], dtype=np.float64)

    def bias(self, fraction_bits: int) -> float:
        """Return the bias for features in multiples of 2**-fraction_bits, rounded once."""
        if not self.means:
            return 0.0
        parts = zip(self.numerators, self.means, strict=False)
        slope = sum((n * mean for n, mean in parts), start=Fraction())
        return float((self.means[-1] - slope / self.denominator) / (1 << fraction_bits))

    @cached_property
    def condition(self) -> float:
        """The condition number (of singular values) of the independent columns less their means,
        each scaled to length 1. 1 where there is none."""
        if not self.kept:
            return 1.0
        most = float(np.linalg.eigvalsh(self._correlations)[-1])
        return math.sqrt(most / self._least)

    @cached_property
    def _correlations(self) -> NDArray[np.float64]:
        gram, lengths = self.gram, self._lengths
        size = len(self.kept)
        found = np.ones((size, size))
        for i, j in zip(*np.tril_indices(size, -1), strict=True):
            entry = float(gram[self.kept[i], self.kept[j]]) / lengths[i] / lengths[j]
            found[i, j] = found[j, i] = entry
        return found

    @cached_property
    def _lengths(self) -> NDArray[np.float64]:
        return np.array([math.sqrt(self.gram[k, k]) for k in self.kept])

    @cached_property
    def _least(self) -> float:
        """The smallest eigenvalue of the correlations."""
        least = float(np.linalg.eigvalsh(self._correlations)[0])
        if least > _RESOLVED * len(self.kept):
            return least
        # the largest one of the inverse, whose entries are exact before they are rounded
        picked = self.gram[np.ix_(self.kept, self.kept)]
        size = len(picked)
        solved, pivot = _solve(np.hstack([picked, np.eye(size, dtype=np.int64).astype(object)]))
        inverse = np.array([[float(Fraction(v, pivot)) for v in row] for row in solved])
        scaled = inverse * np.outer(self._lengths, self._lengths)
        return 1 / float(np.linalg.eigvalsh((scaled + scaled.T) / 2)[-1])

    def bounds(self, rounding: Rounding) -> tuple[NDArray[np.float64], float]:
        """Return how far the weights of the table's values may be from these at most: of each
        feature, and of the bias in units of the format. Infinite where the rounding hides whether
        the columns are independent.

        Not for weights of minimum norm; a column that depends on those before it counts as left
        out. With A, b the centred columns and labels of the table, E, f what was rounded away, r the
        residuals and w the weights of the rounded values, the true weights differ by
        A⁺ (f − E w) + (AᵀA)⁻¹ Eᵀ r. Columns are scaled to length 1 first; then σ, the smallest
        singular value of A, is at least that of the rounded columns less |E|.
        """
        kept = list(self.kept)
        found = np.finfo(np.float64).eps * np.abs(self.weights)
        if rounding.exact or not self.rows:
            return found, 0.0
        weights, lengths = np.abs(self.weights[kept]), self.spreads[kept]
        away, most = rounding.lengths(self.rows), rounding.most[kept]
        moved = float(np.linalg.norm(away[kept] / lengths))
        least = math.sqrt(self._least) / _SLACK - moved if kept else 1.0
        if least <= 0:
            found[kept] = math.inf
            return found, math.inf
        effect = away[-1] + float(weights @ away[kept])
        change = effect / least + moved * self.residual / least**2
        found[kept] += _SLACK * change / lengths
        means = np.abs(np.array([float(self.means[k]) for k in kept]))
        bias = rounding.most[-1] + weights @ most + found[kept] @ (means + most)
        return found, float(_SLACK * bias)

    @cached_property
    def spreads(self) -> NDArray[np.float64]:
        """The length of each column less its mean, in units of the format; the label's is the last."""
        squares = np.diagonal(self.gram)
        return np.array([math.sqrt(Fraction(int(s), self.rows)) for s in squares])

    def shares(self, rounding: Rounding) -> NDArray[np.float64]:
        """Return how much each column's rounding adds to the bounds of the weights, about; the
        label's is the last. 0 for a column that others determine."""
        kept, found = list(self.kept), np.zeros(len(self.spreads))
        away, least = rounding.lengths(self.rows), math.sqrt(self._least) if kept else 1.0
        found[kept] = away[kept] * np.abs(self.weights[kept]) / least
        found[kept] += away[kept] / self.spreads[kept] * self.residual / least**2
        found[-1] = away[-1] / least
        return found

    @cached_property
    def residual(self) -> float:
        """The square root of the sum of squares of the residuals, in units of the format."""
        if not self.rows:
            return 0.0
        parts = (n * int(self.gram[k, -1]) for k, n in enumerate(self.numerators))
        left = Fraction(int(self.gram[-1, -1])) - Fraction(sum(parts), self.denominator)
        return math.sqrt(max(left / self.rows, Fraction()))


def fit_exactly(totals: Totals, minimum_norm: bool = False) -> ExactFit:
    """Return the weights that fit the rows of some totals best.

    Parameters: `minimum_norm`: where columns depend on each other, the weights whose squares have
    the least sum (the bias not among them), in place of 0 for each column that those before it
    determine.
    """
    full = np.triu(totals.sums).astype(object)
    full = full + np.triu(full, 1).T
    rows, features = totals.rows, len(full) - 2
    if not rows:
        nothing = tuple(Dependent(k, (), Fraction()) for k in range(features))
        return ExactFit(0, (), nothing, (0,) * features, 1, full[1:, 1:], ())
    gram = rows * full[1:, 1:] - np.outer(full[0, 1:], full[0, 1:])
    means = tuple(
        Fraction(int(total), rows) + int(offset)
        for total, offset in zip(full[0, 1:], totals.offsets, strict=True)
    )
    reduced, kept = _eliminate(gram[:-1])
    dependent = tuple(
        _dependent(reduced, [j for j in kept if j < k], k, means)
        for k in range(features)
        if k not in kept
    )
    numerators = [0] * features
    if dependent and minimum_norm and kept:
        basis = gram[kept, :-1]
        right = gram[kept, -1][:, None]
        solved, pivot = _solve(np.hstack([basis @ basis.T, right]))
        numerators = [int(n) for n in basis.T @ solved[:, 0]]
    else:
        found, pivot = _back(reduced, kept, features)
        for k, n in zip(kept, found, strict=True):
            numerators[k] = n
    return ExactFit(rows, tuple(kept), dependent, tuple(numerators), pivot, gram, means)


def _eliminate(matrix: NDArray[np.object_]) -> tuple[NDArray[np.object_], list[int]]:
    """Eliminate a symmetric, positive semidefinite matrix of integers with right sides behind it,
    without fractions; return the reduced rows, and those with a pivot that is not 0."""
    reduced, kept, before = matrix.copy(), list[int](), 1
    for k in range(len(reduced)):
        pivot = reduced[k, k]
        if not pivot:
            continue  # of such a matrix the whole row is 0
        for i in range(k + 1, len(reduced)):
            row = reduced[i, i:] * pivot - reduced[k, i] * reduced[k, i:]
            reduced[i, i:] = row // before
        before = pivot
        kept.append(k)
    return reduced, kept


def _back(reduced: NDArray[np.object_], kept: Sequence[int], column: int) -> tuple[list[int], int]:
    """Return the solution for the right side in a column: numerators, for the rows that are kept,
    and their denominator."""
    if not kept:
        return [], 1
    pivot, found = int(reduced[kept[-1], kept[-1]]), dict[int, int]()
    for k in reversed(kept):
        left = pivot * reduced[k, column] - sum(reduced[k, j] * n for j, n in found.items())
        found[k] = int(left // reduced[k, k])
    return [found[k] for k in kept], pivot


def _solve(matrix: NDArray[np.object_]) -> tuple[NDArray[np.object_], int]:
    """Return the numerators of the solutions for all right sides of a definite matrix, and their
    denominator."""
    reduced, kept = _eliminate(matrix)
    size, pivot = len(matrix), 1
    found = np.zeros((size, matrix.shape[1] - size), dtype=object)
    for k in range(found.shape[1]):
        found[:, k], pivot = _back(reduced, kept, size + k)
    return found, pivot


def _dependent(
    reduced: NDArray[np.object_], before: Sequence[int], column: int, means: Sequence[Fraction]
) -> Dependent:
    solved, pivot = _back(reduced, before, column)
    factors = tuple((k, Fraction(n, pivot)) for k, n in zip(before, solved, strict=True) if n)
    return Dependent(column, factors, means[column] - sum(a * means[k] for k, a in factors))
