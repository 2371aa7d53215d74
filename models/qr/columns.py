"""Least squares over numeric columns with method `gram`: values in fixed point, sums in exact integers, so that rows come and go for ever without drift.

A row's features and label are rounded to integers of a format `fixed:I,F` (units of 2**-F), and less offsets of as many bits,
about the columns' means at the first fit and when the means have moved away (`needs_recentring`, `recentre`): a has 18 bits, what
one multiplier block of the parts takes. Formats of at most 17 bits always fit; in a wider one a value may lie too far from its column's offset
(`first_beyond`), which ends the run. Wide formats are for columns far from 0 whose values lie close together.
The sums over a aᵀ, a = (1, features, label), have 64 bits: with at most 2**23 rows none overflows. A refit adds and takes rows; the weights depend on offsets
and sums alone, so they are those of a fit of all rows with the same offsets, bit for bit. Elimination, rank rule and solves are those of `factor`, in float32.

The fit is that of the rounded values. `least_squares` solves the same sums exactly: those are the weights that a user gets.
The hardware is `hdl.qr.table_engine`, its memory is in `table_memory`, its cycles are in `table_cycles`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics.fixedpoint import Fixed
from ..numerics.formats import Codes, parse_format
from . import factor
from .arith import codes, from_integer, numbers
from .job import Integers

__all__ = [
    "BITS_MAX",
    "ROWS_MAX",
    "Columns",
    "Solution",
    "Totals",
    "add_rows",
    "decode_solution",
    "first_beyond",
    "initial_totals",
    "needs_recentring",
    "recentre",
    "remove_rows",
    "solve",
]

#: most bits of a value, its sign included, for which no value less its offset has more than 18
BITS_MAX = 17
#: most rows
ROWS_MAX = 1 << 23
#: rows whose sums are exact in float64, where BLAS is quick: 2**(2 · 18 + 17) is no more than 2**53
_CHUNK = 1 << 17


@dataclass(frozen=True)
class Columns:
    """An engine for `n` columns, the bias among them (2 to 64), of values in `format_name`.

    `gram_lanes`: products a cycle of the (n + 1) (n + 2) / 2 that a row takes with its label.
    """

    n: int
    format_name: str = "fixed:8,8"
    gram_lanes: int = 8

    def __post_init__(self) -> None:
        if not 2 <= self.n <= 64 or not 1 <= self.gram_lanes <= self.products:
            raise ValueError(f"no such engine: {self}")
        if not isinstance(self.format, Fixed):
            raise ValueError(f"values are fixed point, not {self.format_name}")

    @property
    def format(self) -> Fixed:
        made = parse_format(self.format_name)
        if not isinstance(made, Fixed):
            raise ValueError(f"values are fixed point, not {self.format_name}")
        return made

    @property
    def wide(self) -> bool:
        """Whether a value may lie too far from its offset: the hardware looks at each."""
        return self.format.width > BITS_MAX

    @property
    def products(self) -> int:
        """Products that a row takes."""
        return (self.n + 1) * (self.n + 2) // 2

    @property
    def slots(self) -> int:
        """Sums that a lane holds."""
        return -(-self.products // self.gram_lanes)

    @property
    def row_cycles(self) -> int:
        """Cycles that a row takes: one for each sum of a lane."""
        return self.slots

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Totals:
    """What a refit goes on from: int64 `offsets` of features and label (n,), `rows`, and the sums over a aᵀ, int64 (n + 1, n + 1), upper triangle."""

    offsets: Integers
    rows: int
    sums: Integers


@dataclass(frozen=True)
class Solution:
    """Weights as float32 codes (n,) of features less offsets, bias first; `mask`: columns that have one; `values`: for features as they are, float64 (n,)."""

    weights: Codes
    mask: NDArray[np.bool_]
    values: NDArray[np.float64]


def initial_totals(rows: Integers) -> Totals:
    """Return empty totals with the offsets for rows int64 (m, n): features, then the label; 0 where there are none."""
    means = rows.mean(axis=0) if len(rows) else np.zeros(rows.shape[1])
    return Totals(
        np.rint(means).astype(np.int64), 0, np.zeros((rows.shape[1] + 1,) * 2, dtype=np.int64)
    )


def first_beyond(offsets: Integers, rows: Integers) -> tuple[int, int] | None:
    """Return the first row, and its first value, that less its offset has more than 18 bits."""
    wide = np.argwhere((rows - offsets + (1 << BITS_MAX)) >> BITS_MAX + 1)
    return None if not len(wide) else (int(wide[0, 0]), int(wide[0, 1]))


def add_rows(totals: Totals, rows: Integers) -> Totals:
    """Return the totals with more rows. Raises ValueError beyond `ROWS_MAX`."""
    if totals.rows + len(rows) > ROWS_MAX:
        raise ValueError(f"{totals.rows + len(rows)} rows are more than the sums hold: {ROWS_MAX}")
    return Totals(totals.offsets, totals.rows + len(rows), totals.sums + _sums(totals, rows))


def remove_rows(totals: Totals, rows: Integers) -> Totals:
    """Return the totals without rows that are among theirs."""
    return Totals(totals.offsets, totals.rows - len(rows), totals.sums - _sums(totals, rows))


def needs_recentring(totals: Totals) -> bool:
    """Whether the rows' means have gone so far from the offsets that digits are lost: of some column's sum of squares more than a quarter is its mean's. Up to
    there the rank rule, which compares with that sum, is at most a third stricter than with offsets that are the means.

    Right behind `initial_totals` and `recentre` they have not: offsets are then within a half of the means.
    """
    rows = totals.rows
    for k in range(1, len(totals.sums)):
        total, square = int(totals.sums[0, k]), int(totals.sums[k, k])
        if 2 * abs(total) > rows and 4 * total * total > rows * square:
            return True
    return False


def recentre(totals: Totals) -> Totals:
    """Return the totals of the same rows, exactly, with offsets that are their rounded means."""
    full = np.triu(totals.sums).astype(object)
    full = full + np.triu(full, 1).T  # Python integers: products of sums are longer than 64 bits
    rows = totals.rows
    moved = np.array(
        [0, *((2 * total + rows) // (2 * rows) for total in full[0, 1:])], dtype=object
    )
    sums = (
        full - np.outer(full[0], moved) - np.outer(moved, full[0]) + rows * np.outer(moved, moved)
    )
    return Totals(totals.offsets + moved[1:].astype(np.int64), rows, np.triu(sums).astype(np.int64))


def _sums(totals: Totals, rows: Integers) -> Integers:
    a = np.ones((len(rows), rows.shape[1] + 1))
    a[:, 1:] = rows - totals.offsets
    found = np.zeros((a.shape[1],) * 2, dtype=np.int64)
    for at in range(0, len(a), _CHUNK):
        part = a[at : at + _CHUNK]
        found += (part.T @ part).astype(np.int64)
    return np.triu(found)


def solve(totals: Totals, fmt: Fixed) -> Solution:
    """Return the weights: AᵀA rounded to float32 once and eliminated, c likewise, two triangular solves (`factor`)."""
    d, u, keep = factor.eliminate(totals.sums[:-1, :-1])
    return decode_solution(
        totals, codes(factor.solve(d, u, keep, from_integer(totals.sums[:-1, -1]))), keep, fmt
    )


def decode_solution(
    totals: Totals, weights: Codes, mask: NDArray[np.bool_], fmt: Fixed
) -> Solution:
    """Return the solution that these codes are, its values for features as they are."""
    real = numbers(weights).astype(np.float64)
    offsets = totals.offsets * 2.0**-fmt.fraction_bits
    bias = real[0] * 2.0**-fmt.fraction_bits + offsets[-1] - float(real[1:] @ offsets[:-1])
    return Solution(weights, mask, np.concatenate([[bias if totals.rows else 0.0], real[1:]]))
