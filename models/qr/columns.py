"""Least squares over numeric columns: each in a unit of its own, sums in exact integers, so that rows come and go for ever without drift.

A value is q = nearest(x / 2**shift) − offset (`numerics.limbs`), in limbs of 17 bits. Limbs are columns to the sums: over a aᵀ,
a = (1, highest limb of each feature, of the label, then the lower limbs, by column and from the highest one down), whose factors have
18 bits, what one multiplier block of the parts takes. With at most 2**23 rows no sum of 64 bits overflows. The host joins limbs in
Python's integers (`Totals.joined`), so that sums over products of q are exact as well.

A refit adds and takes rows. When the rows' means have moved away from the offsets (`needs_recentring`), the sums are moved exactly
(`recentre`), by whole units of the highest limbs. Float32 weights of the highest limbs are solved beside them, with the elimination,
rank rule and solves of `factor`: those are the device's. What a user gets is the host's (`host.least_squares`).
The hardware is `hdl.qr.table_engine`, its memory is in `table_config`, its cycles are in `table_cycles`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics.formats import Codes
from ..numerics.limbs import LIMB, Limbs
from . import factor
from .arith import codes, from_integer, numbers
from .job import Integers

#: bits of a factor
OPERAND = LIMB + 1
#: most rows
ROWS_MAX = 1 << 23
#: rows whose sums are exact in float64, where BLAS is quick: 2**(2 · 17 + 17) is no more than 2**53
_CHUNK = 1 << 17


@dataclass(frozen=True)
class Columns:
    """An engine for columns."""

    limbs: tuple[int, ...]  #: limbs of each feature, then of the label: 2 to 64 in all
    gram_lanes: int = 8  #: products a cycle, of those that a row takes

    def __post_init__(self) -> None:
        object.__setattr__(self, "limbs", tuple(self.limbs))
        if not 2 <= self.n <= 64 or not 1 <= self.gram_lanes <= self.products:
            raise ValueError(f"no such engine: {self}")

    @property
    def n(self) -> int:
        """Columns of a row with its label; as many as there are weights, the bias's among them."""
        return len(self.limbs)

    @cached_property
    def format(self) -> Limbs:
        return Limbs(self.limbs)

    @cached_property
    def operands(self) -> tuple[tuple[int, int], ...]:
        """Column and limb of each of a's factors but the 1."""
        low = ((k, i) for k, count in enumerate(self.limbs) for i in range(count - 2, -1, -1))
        return (*((k, count - 1) for k, count in enumerate(self.limbs)), *low)

    @property
    def factors(self) -> int:
        """Factors of a row, the 1 among them."""
        return 1 + sum(self.limbs)

    @property
    def products(self) -> int:
        return self.factors * (self.factors + 1) // 2

    @property
    def solved(self) -> int:
        """Of these the first so many are of highest limbs: the solver's."""
        return (self.n + 1) * (self.n + 2) // 2

    @property
    def slots(self) -> int:
        """Sums that a lane holds, and so the cycles that a row takes."""
        return -(-self.products // self.gram_lanes)

    def to_json(self) -> dict[str, Any]:
        return {"limbs": list(self.limbs), "gram_lanes": self.gram_lanes}

    def split(self, q: Integers) -> Integers:
        """Return the factors of rows of integers q (m, n), behind the 1: int64 (m, factors − 1)."""
        factors = np.empty((len(q), len(self.operands)), dtype=np.int64)
        for at, (column, limb) in enumerate(self.operands):
            part = q[:, column] >> LIMB * limb
            top = limb == self.limbs[column] - 1
            factors[:, at] = part if top else part & ((1 << LIMB) - 1)
        return factors


@dataclass(frozen=True, eq=False)
class Totals:
    """What a refit goes on from."""

    columns: Columns
    shifts: Integers  #: int64 (n,): of features and label
    offsets: Integers  #: int64 (n,): of features and label
    sums: Integers  #: over a aᵀ: int64 (factors, factors), upper triangle

    @property
    def rows(self) -> int:
        return int(self.sums[0, 0])

    @property
    def format(self) -> Limbs:
        """The columns' format, with these units."""
        return self.columns.format.of(self.shifts.tolist(), self.offsets.tolist())

    @cached_property
    def joined(self) -> NDArray[np.object_]:
        """The sums over products of (1, q of features and label), Python's integers (n + 1, n + 1), both triangles."""
        full = _both(self.sums)
        join = np.zeros((len(full), self.columns.n + 1), dtype=object)
        join[0, 0] = 1
        for at, (column, limb) in enumerate(self.columns.operands, 1):
            join[at, column + 1] = 1 << LIMB * limb
        return np.asarray(join.T @ full @ join, dtype=object)


@dataclass(frozen=True)
class Solution:
    """Float32 codes (n,) of weights of highest limbs, the bias first; `mask`: columns that have one."""

    weights: Codes
    mask: NDArray[np.bool_]

    def values(self, totals: Totals) -> NDArray[np.float64]:
        """Return the weights for features as they are, the bias first, float64 (n,)."""
        real, columns = numbers(self.weights).astype(np.float64), totals.columns
        if not totals.rows:
            return np.zeros(columns.n)
        units = totals.shifts + LIMB * (np.array(columns.limbs) - 1)
        weights = np.ldexp(real[1:], units[-1] - units[:-1])
        means = np.ldexp(totals.offsets.astype(np.float64), totals.shifts)
        bias = np.ldexp(real[0], int(units[-1])) + means[-1] - weights @ means[:-1]
        return np.concatenate([[bias], weights])


def initial_totals(columns: Columns, shifts: Sequence[int], offsets: Sequence[int]) -> Totals:
    """Return empty totals in these units."""
    one, other = (np.array(of, dtype=np.int64) for of in (shifts, offsets))
    return Totals(columns, one, other, np.zeros((columns.factors,) * 2, dtype=np.int64))


def add_rows(totals: Totals, rows: Integers) -> Totals:
    """Return the totals with more rows, int64 (m, n): nearest(x / 2**shift), less no offset. Raises ValueError beyond `ROWS_MAX`."""
    if totals.rows + len(rows) > ROWS_MAX:
        raise ValueError(f"{totals.rows + len(rows)} rows are more than the sums hold: {ROWS_MAX}")
    return replace(totals, sums=totals.sums + _sums(totals, rows))


def remove_rows(totals: Totals, rows: Integers) -> Totals:
    """Return the totals without rows that are among theirs."""
    return replace(totals, sums=totals.sums - _sums(totals, rows))


def needs_recentring(totals: Totals) -> bool:
    """Whether the rows' means have gone so far from the offsets that digits are lost: of some highest limb's sum of squares more than
    a quarter is its mean's. Up to there the rank rule, which compares with that sum, is at most a third stricter than with offsets that are the means.
    """
    rows = totals.rows
    for k in range(1, totals.columns.n + 1):
        total, square = int(totals.sums[0, k]), int(totals.sums[k, k])
        if 2 * abs(total) > rows and 4 * total * total > rows * square:
            return True
    return False


def recentre(totals: Totals) -> Totals:
    """Return the totals of the same rows, exactly, with offsets near their means: highest limbs move by whole units, lower ones stay."""
    full, rows, columns = _both(totals.sums), totals.rows, totals.columns
    moved = np.array([0] * columns.factors, dtype=object)
    moved[1 : columns.n + 1] = [
        (2 * total + rows) // (2 * rows) for total in full[0, 1 : columns.n + 1]
    ]
    sums = (
        full - np.outer(full[0], moved) - np.outer(moved, full[0]) + rows * np.outer(moved, moved)
    )
    units = moved[1 : columns.n + 1] * [1 << LIMB * (n - 1) for n in columns.limbs]
    offsets = totals.offsets + units.astype(np.int64)
    return replace(totals, offsets=offsets, sums=np.triu(sums).astype(np.int64))


def _both(sums: Integers) -> NDArray[np.object_]:
    """Both triangles, in Python's integers: products of sums are longer than 64 bits."""
    full = np.triu(sums).astype(object)
    return np.asarray(full + np.triu(full, 1).T)


def _sums(totals: Totals, rows: Integers) -> Integers:
    columns = totals.columns
    sums = np.zeros((columns.factors,) * 2, dtype=np.int64)
    for at in range(0, len(rows), _CHUNK):
        part = columns.split(rows[at : at + _CHUNK] - totals.offsets)
        a = np.column_stack([np.ones(len(part)), part.astype(np.float64)])
        sums += (a.T @ a).astype(np.int64)
    return np.triu(sums)


def solve(totals: Totals) -> Solution:
    """Return the device's weights: the sums over highest limbs rounded to float32 once and eliminated, two triangular solves (`factor`)."""
    n = totals.columns.n
    d, u, keep = factor.eliminate(totals.sums[:n, :n])
    return Solution(codes(factor.solve(d, u, keep, from_integer(totals.sums[:n, n]))), keep)
