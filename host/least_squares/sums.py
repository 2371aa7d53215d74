"""Exact sums over products of a table's columns, and what integer algebra makes of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .dependence import least

EPS = float(np.finfo(np.float64).eps)
_BLOCK = 4096
#: fraction bits of the elimination that gives a triangle: float64's digits of columns up to a condition of 2**100
_BITS = 320


@dataclass(frozen=True)
class Dependent:
    """A column that the columns before it determine: `constant` plus the sum of each factor times its column (from 0). A constant
    column has no factors."""

    column: int
    factors: tuple[tuple[int, float], ...]
    constant: float


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over a aᵀ, a = (1, q of the features, q of the label). The sum of 1 is the number of rows."""

    products: NDArray[np.object_]  #: Python's integers (d + 2, d + 2), both triangles
    offsets: Sequence[int]  #: a value is about (q + offset) 2**shift: of features, then the label
    shifts: Sequence[int]
    exact: Sequence[bool]  #: columns of which it is exactly that
    #: of features and label, what was taken from each value before rows were multiplied by the
    #: roots of their weights, which are then the first column
    centres: Sequence[float] | None = None

    @property
    def rows(self) -> int:
        return int(self.products[0, 0])

    @property
    def features(self) -> int:
        return len(self.shifts) - 1 - (self.centres is not None)

    @cached_property
    def uncentred(self) -> NDArray[np.object_]:
        """Sums over products of the columns with their offsets, without the 1."""
        first = self.products[0, 1:]
        offsets = np.array([int(o) for o in self.offsets], dtype=object)
        products = self.products[1:, 1:] + np.outer(first, offsets) + np.outer(offsets, first)
        return np.asarray(products + self.rows * np.outer(offsets, offsets), dtype=object)


@dataclass(frozen=True, eq=False)
class Gram:
    """Sums over products of features and label, less their means or not, times `scale`, in units 2**shift of each column."""

    products: NDArray[np.object_]  #: integers (d + 1, d + 1)
    scale: int
    means: tuple[Fraction, ...]  #: in those units, 0 where columns are not centred
    shifts: Sequence[int]
    total: Fraction  #: the sum of the rows' weights

    def value(self, i: int, j: int) -> Fraction:
        """Return a sum over products of values."""
        return Fraction(int(self.products[i, j]), self.scale) * power(
            self.shifts[i] + self.shifts[j]
        )


def power(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def nearest(value: Fraction) -> float:
    """Return the float64 number nearest to a rational one; infinite beyond the range."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def root(value: Fraction) -> float:
    """Return a square root, whatever the exponent."""
    if value <= 0:
        return 0.0
    shift = (value.numerator.bit_length() - value.denominator.bit_length()) // 2
    return math.ldexp(math.sqrt(value / power(2 * shift)), shift)


def gram_of(sums: Sums, centred: bool) -> Gram:
    """Return the sums over products of the columns, less their means (for a fit with a bias) or as they are."""
    if sums.centres is not None:
        return _of_weighted(sums, sums.centres, centred)
    products, rows, total = sums.products, sums.rows, Fraction(sums.rows)
    first = products[0, 1:]
    if not centred:
        return Gram(sums.uncentred, 1, (Fraction(),) * len(first), sums.shifts, total)
    centre = rows * products[1:, 1:] - np.outer(first, first)
    means = tuple(
        Fraction(int(total), rows) + int(offset)
        for total, offset in zip(first, sums.offsets, strict=True)
    )
    return Gram(centre, rows, means, sums.shifts, total)


def _of_weighted(sums: Sums, centres: Sequence[float], centred: bool) -> Gram:
    """Return `Gram` of weighted rows: of the part of the columns that the roots leave, or of whole columns."""
    products, root_shift, shifts = sums.uncentred, sums.shifts[0], sums.shifts[1:]
    roots, rest = products[0], products[1:, 1:]
    square = int(roots[0])
    total = square * power(2 * root_shift)
    if not centred:
        return Gram(rest, 1, (Fraction(),) * len(rest), shifts, total)
    means = tuple(
        Fraction(int(along), square) * power(-root_shift) + Fraction(centre) * power(-shift)
        for along, centre, shift in zip(roots[1:], centres, shifts, strict=True)
    )
    return Gram(square * rest - np.outer(roots[1:], roots[1:]), square, means, shifts, total)


def gram_of_rows(
    columns: Sequence[NDArray[np.int64] | NDArray[np.float64]],
    weights: NDArray[np.float64] | None,
    centred: bool,
) -> Gram:
    """Return `Gram` of columns as they are stored, the label last, with no rounding at all."""
    from flint import fmpz_mat

    held = [_integers(column) for column in columns]
    taken, unit = _integers(np.ones(len(columns[0])) if weights is None else weights)
    one = [1] * len(taken)
    size = len(held) + 1
    gram = fmpz_mat(size, size)
    for at in range(0, len(taken), _BLOCK):
        part = slice(at, at + _BLOCK)
        rows = [one[part], *(values[part] for values, _ in held)]
        times = [[v * w for v, w in zip(row, taken[part], strict=True)] for row in rows]
        gram += fmpz_mat(rows) * fmpz_mat(times).transpose()
    entries = [int(v) << max(unit, 0) for v in gram.entries()]
    sums: NDArray[np.object_] = np.array(entries, dtype=object).reshape(size, size)
    first, products, shifts = sums[0, 1:], sums[1:, 1:], [shift for _, shift in held]
    total, scale = int(sums[0, 0]), 1 << max(-unit, 0)
    if not centred:
        return Gram(products, scale, (Fraction(),) * len(held), shifts, Fraction(total, scale))
    means = tuple(Fraction(int(along), total) for along in first)
    return Gram(total * products - np.outer(first, first), total * scale, means, shifts, Fraction(total, scale))  # fmt: skip


def _integers(column: NDArray[np.int64] | NDArray[np.float64]) -> tuple[list[int], int]:
    """Return integers and a shift: values are integers times 2**shift."""
    if column.dtype.kind != "f":
        return column.tolist(), 0
    parts, exponents = np.frexp(column.astype(np.float64))
    digits = (parts * 2.0**53).astype(np.int64)
    least = int(exponents.min(where=digits != 0, initial=2000))
    ups = np.where(digits != 0, exponents - least, 0)
    return [d << u for d, u in zip(digits.tolist(), ups.tolist(), strict=True)], least - 53


def rounding(sums: Sums, gram: Gram) -> float:
    """Return how far the columns of the sums are from the table's columns, as a share of their lengths, at most."""
    rows, bound = math.sqrt(sums.rows), 0.0
    columns = range(sums.features + 1)
    first = len(sums.shifts) - len(columns)
    off = [
        0.0 if exact else rows * root(power(2 * shift - 2))
        for exact, shift in zip(sums.exact, sums.shifts, strict=True)
    ]
    lengths = [root(gram.value(k, k)) for k in columns]
    if not first:
        shares = [o / size if size else math.inf for o, size in zip(off, lengths, strict=True) if o]
        return max(shares, default=0.0)
    # the roots are rounded, and so are the products with them
    norms = [root(int(sums.uncentred[k, k]) * power(2 * s)) for k, s in enumerate(sums.shifts)]
    off = [o + EPS * size for o, size in zip(off, norms, strict=True)]
    for k in columns:
        along = abs(int(sums.uncentred[0, k + 1])) * power(sums.shifts[k + 1] + sums.shifts[0])
        # a column's part along the roots, in their length, turns with them
        away = off[k + 1] + 2 * off[0] * (nearest(along) / norms[0] ** 2)
        share = away / lengths[k] if lengths[k] else math.inf
        bound = max(bound, share + 2 * off[0] / norms[0])
    return bound


@dataclass(frozen=True, eq=False)
class Solved:
    """Rational weights of the features, those that are `kept` (each independent of the ones before it), and the others."""

    weights: tuple[Fraction, ...]
    kept: tuple[int, ...]
    dependent: tuple[Dependent, ...]


def solved(gram: Gram, penalties: Sequence[Fraction], minimum_norm: bool) -> Solved:
    """Return the weights of normal equations, exactly, penalties (times values squared) added to the features' diagonal.

    `minimum_norm`: where columns depend on each other, the weights whose squares have the least sum, in place of 0 for each column
    that those before it determine.
    """
    features = len(gram.products) - 1
    kept, reduced, denominator = _reduced(_penalised(gram, penalties)[0])
    units = [power(gram.shifts[-1] - s) for s in gram.shifts[:-1]]
    weights = [Fraction()] * features
    for row, k in enumerate(kept):
        weights[k] = Fraction(reduced[row][features], denominator) * units[k]
    dependent, factors = [], dict[int, list[Fraction]]()
    for k in sorted(set(range(features)) - set(kept)):
        some = [
            Fraction(reduced[row][k], denominator) * power(gram.shifts[k] - gram.shifts[j])
            for row, j in enumerate(kept)
        ]
        factors[k] = some
        constant = gram.means[k] * power(gram.shifts[k]) - sum(
            (f * gram.means[j] * power(gram.shifts[j]) for f, j in zip(some, kept, strict=True)),
            start=Fraction(),
        )
        named = tuple((j, nearest(f)) for f, j in zip(some, kept, strict=True) if f)
        dependent.append(Dependent(k, named, nearest(constant)))
    if dependent and minimum_norm and kept:
        weights = least(weights, kept, factors)
    return Solved(tuple(weights), tuple(kept), tuple(dependent))


def _penalised(gram: Gram, penalties: Sequence[Fraction]) -> tuple[NDArray[np.object_], int]:
    """Return the rows of the features, with the penalties, all times a factor; and that factor."""
    products = gram.products[:-1].copy()
    if not any(penalties):
        return products, 1
    added = [
        penalty * gram.scale * power(-2 * shift)
        for penalty, shift in zip(penalties, gram.shifts, strict=False)
    ]
    common = math.lcm(*(a.denominator for a in added))
    products = products * common
    for k, a in enumerate(added):
        products[k, k] += int(a * common)
    return products, common


def _reduced(products: NDArray[np.object_]) -> tuple[list[int], list[list[int]], int]:
    """Return the columns with a pivot, the rows of the reduced echelon form, and their denominator."""
    from flint import fmpz_mat

    features = len(products)
    if not features:
        return [], [], 1
    matrix, denominator, rank = fmpz_mat([[int(v) for v in row] for row in products]).rref()
    rows = [[int(matrix[i, j]) for j in range(features + 1)] for i in range(rank)]
    kept = [next(j for j, value in enumerate(row) if value) for row in rows]
    return kept, rows, int(denominator)


def factored(
    gram: Gram, kept: Sequence[int], penalties: Sequence[Fraction], bits: int = _BITS
) -> NDArray[np.float64] | None:
    """Return R, upper triangular, with RᵀR the sums over products of the kept features, penalties added, each column divided by its
    length; None where a pivot vanishes. Fixed point of some hundred `bits`, so that R has float64's digits.
    """
    products, _ = _penalised(gram, penalties)
    size = len(kept)
    lengths = [int(products[k, k]) for k in kept]
    halves = [length.bit_length() // 2 for length in lengths]
    left = np.zeros((size, size), dtype=object)
    for i in range(size):
        for j in range(i, size):
            shift = bits - halves[i] - halves[j]
            value = int(products[kept[i], kept[j]])
            left[i, j] = value << shift if shift >= 0 else value >> -shift
    upper = np.zeros((size, size))
    for k in range(size):
        pivot = int(left[k, k])
        if pivot <= 0:
            return None
        unit = (left[k, k:] << bits) // pivot
        length = root(Fraction(pivot, 1 << bits))
        upper[k, k:] = [nearest(Fraction(int(u), 1 << bits)) * length for u in unit]
        for i in range(k + 1, size):
            left[i, i:] -= (left[k, i] * unit[i - k :]) >> bits
    scales = [root(Fraction(n, 1 << 2 * half)) for n, half in zip(lengths, halves, strict=True)]
    return upper / np.array(scales)


def resolved(gram: Gram, kept: Sequence[int], penalties: Sequence[Fraction]) -> NDArray[np.float64]:
    """Return `factored` of columns that are independent in exact arithmetic, with as many bits as that takes."""
    bits = _BITS
    while True:
        factor = factored(gram, kept, penalties, bits)
        if factor is not None and np.diag(factor).min(initial=1.0) >= 2.0 ** (-bits / 4):
            return factor
        bits *= 2
