"""Columns that others determine: what those make of them, and weights of least squares spread over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .row_blocks import WIDE, Rows, inverted

if TYPE_CHECKING:
    from flint import fmpq_mat

_Wide = NDArray[np.longdouble]
_STEPS = 2


def made_of(
    rows: Rows,
    factor: NDArray[np.float64],
    kept: Sequence[int],
    others: Mapping[int, NDArray[np.float64]],
    noise: float,
) -> dict[int, _Wide]:
    """Return what the columns kept before it make of each other one, in units of their lengths, refined on the rows.

    `others`: the same, to float64's digits; `noise`: what rounding alone may leave of a factor, for a column of length 1, which is 0.
    """
    inverse = inverted(factor)
    relations = {k: along.astype(WIDE) for k, along in others.items()}
    for _ in range(_STEPS):
        gradients = {k: np.zeros(len(along), WIDE) for k, along in relations.items()}
        for block, weight in rows.blocks():
            columns = block[:, list(kept)]
            for k, along in relations.items():
                before = columns[:, : len(along)]
                left = block[:, k] - before @ along
                gradients[k] += (left if weight is None else left * weight) @ before
        for k, gradient in gradients.items():
            part = inverse[: len(gradient), : len(gradient)]
            relations[k] += part @ (part.T @ gradient)
    return {k: np.where(np.abs(a) > noise * (1 + _size(a)), a, 0) for k, a in relations.items()}


def _size(along: _Wide) -> float:
    return float(np.sqrt(along @ along))


def least(
    weights: Sequence[Fraction], kept: Sequence[int], factors: Mapping[int, Sequence[Fraction]]
) -> list[Fraction]:
    """Spread the weights of independent columns over those that they determine, with the least sum of squares.

    `factors`: of each column that is not kept, what the kept ones make of it.
    """
    basis, gram = _basis(len(weights), kept, factors)
    solution = basis.transpose() * gram.solve(_matrix([[weights[j]] for j in kept]))
    return [_fraction(solution[k, 0]) for k in range(len(weights))]


def spread(
    weights: _Wide,
    error: NDArray[np.float64],
    kept: Sequence[int],
    relations: Mapping[int, _Wide],
    lengths: _Wide,
    noise: float,
) -> tuple[_Wide, NDArray[np.float64]]:
    """Return weights as `least` spreads them, and how far they may be off.

    `error`: how far `weights` are; `relations`: as `made_of` has them, each factor that is not 0 to within `noise`.
    """
    factors = {
        k: [exactly(a * lengths[k] / lengths[j]) for a, j in zip(along, kept, strict=False)]
        + [Fraction()] * (len(kept) - len(along))
        for k, along in relations.items()
    }
    taken = [exactly(w) for w in weights]
    exact = least(taken, kept, factors)
    basis, gram = _basis(len(weights), kept, factors)
    inverse = gram.inv()
    pseudo, back = (_floats(m) for m in (basis.transpose() * inverse, inverse))
    away = np.zeros((len(kept), len(weights)))
    for k, along in relations.items():
        for row, (a, j) in enumerate(zip(along, kept, strict=False)):
            if a:
                away[row, k] = noise * (1 + _size(along)) * float(lengths[k] / lengths[j])
    size = np.array([abs(float(v)) for v in exact])
    rest = np.abs(np.eye(len(weights)) - _floats(basis.transpose() * inverse * basis))
    held = np.array([float(taken[j]) for j in kept])
    # to first order: of the weights, of the basis along them, and of the basis across
    off = np.abs(pseudo) @ (error[list(kept)] + away @ size)
    off += rest @ (away.T @ np.abs(back @ held))
    return np.array([_wide(v) for v in exact]), off


def _basis(
    features: int, kept: Sequence[int], factors: Mapping[int, Sequence[Fraction]]
) -> tuple[fmpq_mat, fmpq_mat]:
    """Return all columns in units of those kept, and the products of its rows."""
    rows = [[Fraction()] * features for _ in kept]
    for row, j in enumerate(kept):
        rows[row][j] = Fraction(1)
        for k, some in factors.items():
            rows[row][k] = some[row]
    basis = _matrix(rows)
    return basis, basis * basis.transpose()


def _matrix(rows: Sequence[Sequence[Fraction]]) -> fmpq_mat:
    from flint import fmpq, fmpq_mat

    flat = [fmpq(v.numerator, v.denominator) for row in rows for v in row]
    return fmpq_mat(len(rows), len(rows[0]), flat)


def _floats(matrix: fmpq_mat) -> NDArray[np.float64]:
    cells = [
        float(_fraction(matrix[i, j])) for i in range(matrix.nrows()) for j in range(matrix.ncols())
    ]
    return np.array(cells).reshape(matrix.nrows(), matrix.ncols())


def _fraction(value: object) -> Fraction:
    return Fraction(int(value.p), int(value.q))  # type: ignore[attr-defined]


def exactly(value: np.longdouble) -> Fraction:
    """Return a number of 64 digits as a rational one."""
    high = float(value)
    return Fraction(high) + Fraction(float(value - WIDE(high)))


def _wide(value: Fraction) -> np.longdouble:
    high = float(value)
    return WIDE(high) + WIDE(float(value - Fraction(high)))
