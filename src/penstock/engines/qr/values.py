"""The used columns of a table as the host reads them, each value as it is stored: they choose the units, and weights are refined on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.qr.units import Unit, unit_of
from penstock.host.least_squares import Rows
from penstock.host.sources import Table
from penstock.models.numerics.convert import STORED, numbers_of
from penstock.models.numerics.policy import InputPolicy
from penstock.models.strider.config import WalkConfig
from penstock.models.strider.program import missing_numbers
from penstock.models.strider.table import walk_table

__all__ = ["Values", "column_names", "values_of"]


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
    """The rows of a table up to the first that cannot be read: features and label, int64 or float64 as they are stored.

    `weights`: of the rows, None: 1 each; `weight`: their column; `centres`: what was taken from features and label before they were
    multiplied by the roots of the weights.
    """

    names: tuple[str, ...]
    columns: Sequence[NDArray[np.int64] | NDArray[np.float64]]
    #: of rows older than a column, where pages may have such rows
    missing: Sequence[float | int | None]
    weights: NDArray[np.float64] | None = None
    weight: str | None = None
    centres: Sequence[float] | None = None

    @property
    def packed_names(self) -> tuple[str, ...]:
        """The columns in the engine's order."""
        return self.names if self.weight is None else (f"√{self.weight}", *self.names)

    def units(self, limbs: Sequence[int | None]) -> list[Unit]:
        """Return the columns' units; `limbs`: how many, None where the values say it."""
        found = []
        for column, missing, count in zip(self.columns, self.missing, limbs, strict=True):
            more = [] if missing is None else [missing]
            every = np.concatenate([column, np.array(more, dtype=column.dtype)])
            found.append(unit_of(every, count))
        return found

    def rows(self, first: int, last: int, centred: bool) -> Rows:
        """Return some of the rows, for least squares; `centred`: of a fit with a bias."""
        weights = None if self.weights is None else self.weights[first:last]
        return Rows([column[first:last] for column in self.columns], weights, centred)


def values_of(table: Table, walk: WalkConfig) -> Values:
    """Read the rows that the Striders would deliver."""
    policy = InputPolicy("saturate", "skip" if walk.policy.skips else "pass")
    codes = walk_table(table.pages, replace(walk, format=STORED, policy=policy))[0]
    columns, missing = [], []
    for place in range(walk.positions):
        source = next(s for s in walk.layout.sources if s.position <= place < s.position + s.count)
        bits = np.ascontiguousarray(codes[:, place]).view(np.uint64)
        columns.append(numbers_of(walk.element(source.column), bits))
        missing.append(missing_numbers(walk, source.column, source.first + place - source.position))
    return Values(column_names(walk), columns, missing)
