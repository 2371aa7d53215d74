"""Least squares in rational arithmetic, as plainly as it can be written: what fits are held against."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

__all__ = ["least_squares", "rank"]

_Matrix = list[list[Fraction]]


def _solved(system: _Matrix) -> tuple[list[Fraction], int]:
    """Return a solution of equations (their right side last) and their rank; unknowns that those before leave open are 0."""
    system, size, found = [list(row) for row in system], len(system[0]) - 1, 0
    values = [Fraction(0)] * size
    pivots = []
    for k in range(size):
        at = next((i for i in range(found, len(system)) if system[i][k]), None)
        if at is None:
            continue
        system[found], system[at] = system[at], system[found]
        pivot = system[found][k]
        system[found] = [v / pivot for v in system[found]]
        for i, row in enumerate(system):
            if i != found and (factor := row[k]):
                system[i] = [v - factor * p for v, p in zip(row, system[found], strict=True)]
        pivots.append(k)
        found += 1
    for row, k in zip(system, pivots, strict=False):
        values[k] = row[-1]
    return values, found


def _dot(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def _centred(
    rows: Sequence[Sequence[Fraction]], weights: Sequence[Fraction]
) -> tuple[list[Fraction], _Matrix]:
    """The columns' means, and the columns less them."""
    total = sum(weights)
    means = [_dot(column, weights) / total for column in zip(*rows, strict=True)]
    columns = zip(*rows, strict=True)
    return means, [[v - m for v in c] for c, m in zip(columns, means, strict=True)]


def least_squares(
    rows: Sequence[Sequence[Fraction]],
    minimum_norm: bool = False,
    observations: Sequence[Fraction] | None = None,
    ridge: Fraction = Fraction(0),
) -> tuple[Fraction, list[Fraction]]:
    """Return bias and weights for rows of features and, last, the label.

    A column that those before it determine has the weight 0; or, with `minimum_norm`, the weights' squares have the least sum.
    `observations`: the rows' weights, 1 each unless given; `ridge`: what a weight's square costs.
    """
    each = observations or [Fraction(1)] * len(rows)
    means, (*features, label) = _centred(rows, each)
    weighted = [[v * w for v, w in zip(column, each, strict=True)] for column in features]
    gram = [[_dot(a, b) for b in features] for a in weighted]
    for k, row in enumerate(gram):
        row[k] += ridge
    side = [_dot(a, label) for a in weighted]
    if minimum_norm:  # weights that are combinations of the rows are unique
        square = [[_dot(a, b) for b in gram] for a in gram]
        inner, _ = _solved([[*row, c] for row, c in zip(square, side, strict=True)])
        weights = [_dot(row, inner) for row in gram]
    else:
        weights, _ = _solved([[*row, c] for row, c in zip(gram, side, strict=True)])
    return means[-1] - _dot(means[:-1], weights), weights


def rank(rows: Sequence[Sequence[Fraction]]) -> int:
    """Return how many weights the features of rows determine, the bias aside."""
    _, (*features, _) = _centred(rows, [Fraction(1)] * len(rows))
    return _solved([[_dot(a, b) for b in features] + [Fraction(0)] for a in features])[1]
