"""What values the used columns of a table hold, read once by the host: their ranges choose the
format, and what the format rounds away bounds the error of the weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.dsl.qr.table_format import Range
from penstock.host.sources import Table
from penstock.models.numerics.formats import Codes, Fixed, Float
from penstock.models.numerics.policy import InputPolicy
from penstock.models.qr.least_squares import Rounding
from penstock.models.strider.config import WalkConfig
from penstock.models.strider.table import walk_table

__all__ = ["Values", "column_names", "values_of"]


class _Stored(Float):
    """float64 as it is stored: a code is its bits. No hardware has it; it is for reading a table as
    the Striders do."""

    def encode(self, values: ArrayLike) -> Codes:
        return np.ascontiguousarray(values, dtype=np.float64).view(np.int64)

    def decode(self, codes: ArrayLike) -> NDArray[np.float64]:
        return np.ascontiguousarray(codes, dtype=np.int64).view(np.float64)


_STORED = _Stored(8, 23)


def column_names(walk: WalkConfig) -> tuple[str, ...]:
    """Return how messages call the features and the label: an element of an array by its number,
    from 1 on as in SQL."""
    columns = walk.schema.columns
    return tuple(
        f"{columns[s.column].name}[{s.first + k + 1}]"
        if columns[s.column].is_array
        else columns[s.column].name
        for s in sorted(walk.layout.sources, key=lambda source: source.position)
        for k in range(s.count)
    )


@dataclass(frozen=True, eq=False)
class Values:
    """The rows of a table, float64 (rows, features and label) as they are stored; up to the first
    row that cannot be read."""

    names: tuple[str, ...]
    rows: NDArray[np.float64]

    @cached_property
    def ranges(self) -> list[Range]:
        """The columns' ranges over all finite values; 0 where there are none."""
        found = []
        for name, column in zip(self.names, self.rows.T, strict=True):
            numbers = column[np.isfinite(column)]
            if not len(numbers):
                found.append(Range(name, 0.0, 0.0, 0))
                continue
            least, greatest = float(numbers.min()), float(numbers.max())
            found.append(Range(name, least, greatest, _fraction_bits(numbers)))
        return found

    def rounding(self, format: Fixed) -> Rounding:
        """Return how far the format's numbers are from the rows without NaN, whose values beyond its
        range count as its ends."""
        whole = ~np.isnan(self.rows).any(axis=1)
        with np.errstate(over="ignore"):
            units = self.rows[whole] * 2.0**format.fraction_bits
        units = np.clip(units, -format.top - 1, format.top)
        left = units - np.rint(units)
        norms = np.linalg.norm(left, axis=0)
        if len(left):
            # less any constant, the norm is a bound as well: the nearest to the least one, 0 for equal ones
            same = left.max(axis=0) == left.min(axis=0)
            constant = np.where(same, left[0], left.mean(axis=0))
            norms = np.minimum(norms, np.linalg.norm(left - constant, axis=0))
        return Rounding(np.abs(left).max(axis=0, initial=0.0), norms)


def values_of(table: Table, walk: WalkConfig) -> Values:
    """Read the rows that the Striders would deliver."""
    reading = replace(walk, format=_STORED, policy=InputPolicy("saturate", "pass"))
    codes = walk_table(table.pages, reading)[0]
    return Values(column_names(walk), _STORED.decode(codes).reshape(-1, walk.positions))


def _fraction_bits(numbers: NDArray[np.float64]) -> int | None:
    """Return the least number of fraction bits, up to 31, that hold all of them exactly."""
    exact = (bits for bits in range(32) if _whole(numbers * 2.0**bits))
    with np.errstate(over="ignore"):
        return next(exact, None) if _whole(numbers * 2.0**31) else None


def _whole(numbers: NDArray[np.float64]) -> bool:
    return np.array_equal(numbers, np.rint(numbers))
