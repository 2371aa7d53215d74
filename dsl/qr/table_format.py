"""The number format of a fit over columns, chosen from the ranges of a table's values.

All columns share a format `fixed:I,F`. The sums take a value less its column's offset, which lies
among the column's values, in 18 bits; so the span of each column, from its least to its greatest
value, must be less than 2**17 units of 2**-F. Among the formats that hold all columns:

* where some of them hold every value exactly, the one with the fewest fraction bits, which leaves
  most room for rows that come later;
* else the one with the most fraction bits.

A format of 17 bits is taken where it reaches as far as the values do, one of 32 bits elsewhere: in
it, the hardware looks whether each value is near enough to its offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...models.numerics.formats import Fixed
from ...models.qr.columns import BITS_MAX

__all__ = ["Range", "TooWide", "choose_format"]

#: most bits of a format
_BITS = 32
_SPAN = (1 << BITS_MAX) - 1


@dataclass(frozen=True)
class Range:
    """The finite values of a column: the least and the greatest one, and how many fraction bits
    hold all of them exactly (None: more than any format has)."""

    name: str
    least: float
    greatest: float
    bits: int | None

    @property
    def reach(self) -> float:
        return max(abs(self.least), abs(self.greatest))

    @property
    def span(self) -> float:
        return self.greatest - self.least

    @property
    def most_bits(self) -> int:
        """The most fraction bits of a format that holds the column; less than 0 where none does."""
        most = _BITS - 1
        while most >= 0 and not self.fits(most):
            most -= 1
        return most

    @property
    def far(self) -> bool:
        """Whether a format with more fraction bits would hold the column if it lay around 0."""
        half = self.span / 2
        return Range(self.name, -half, half, None).most_bits > self.most_bits

    def fits(self, bits: int) -> bool:
        """Whether a format with so many fraction bits holds the column."""
        if self.reach >= 2.0 ** (_BITS - 1 - bits):
            return False
        least, greatest = (round(v * 2.0**bits) for v in (self.least, self.greatest))
        return greatest - least <= _SPAN and max(-least, greatest) < 1 << (_BITS - 1)


class TooWide(Exception):
    """No format holds a column: its span, or how far it lies from 0, is too large."""

    def __init__(self, column: Range) -> None:
        super().__init__(column)
        self.column = column


def choose_format(ranges: Sequence[Range]) -> tuple[Fixed, Range | None]:
    """Return the format for some columns, and the column that sets its unit (None where all values
    are exact). Raises TooWide."""
    tightest = min(ranges, key=lambda column: column.most_bits)
    most = tightest.most_bits
    if most < 0:
        raise TooWide(tightest)
    exact = [column.bits for column in ranges if column.bits is not None]
    whole = len(exact) == len(ranges) and max(exact, default=0) <= most
    bits = max(exact, default=0) if whole else most
    reach = max(column.reach for column in ranges)
    narrow = BITS_MAX - bits
    if narrow >= 1 and round(reach * 2.0**bits) < 1 << BITS_MAX - 1:
        return Fixed(narrow, bits), None if whole else tightest
    return Fixed(_BITS - bits, bits), None if whole else tightest
