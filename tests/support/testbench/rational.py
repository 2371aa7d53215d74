"""Least squares in rational arithmetic, as plainly as it can be written: what fits are held against."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

__all__ = ["least_squares"]


def least_squares(rows: Sequence[Sequence[Fraction]]) -> tuple[Fraction, list[Fraction]]:
    """Return bias and weights for rows of features and, last, the label.

    Raises ZeroDivisionError where the rows do not determine them.
    """
    a = [[Fraction(1), *row[:-1]] for row in rows]
    size = len(a[0])
    system = [
        [sum(x[i] * x[j] for x in a) for j in range(size)]
        + [sum(x[i] * row[-1] for x, row in zip(a, rows, strict=True))]
        for i in range(size)
    ]
    for k in range(size):
        at = next((i for i in range(k, size) if system[i][k]), k)
        system[k], system[at] = system[at], system[k]
        pivot = system[k][k]
        system[k] = [v / pivot for v in system[k]]
        for i in range(size):
            if i != k and (factor := system[i][k]):
                system[i] = [v - factor * p for v, p in zip(system[i], system[k], strict=True)]
    bias, *weights = (Fraction(row[-1]) for row in system)
    return bias, weights
