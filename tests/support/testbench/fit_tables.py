"""Random tables for fits over columns: any offset and scale, on a grid or not, with columns that are constant or depend on others, NaN, infinities, few
rows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

__all__ = ["FitTable", "random_fit_table"]

#: what a format of the hardware has: fraction bits at most, units that a column spans at most, units from 0
MOST_BITS, MOST_SPAN, MOST_REACH = 31, (1 << 17) - 1, (1 << 31) - 1


@dataclass(frozen=True)
class FitTable:
    """Columns by name, float64, the label `y` last; `kind`: what was drawn."""

    kind: str
    columns: dict[str, NDArray[np.float64]]

    @property
    def rows(self) -> NDArray[np.float64]:
        return np.column_stack(list(self.columns.values()))

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.rows).all())

    @property
    def full_rank(self) -> bool:
        """Whether the values determine all weights, in rational arithmetic."""
        rows = [[Fraction(1), *(Fraction(v) for v in row[:-1])] for row in self.rows.tolist()]
        return len(rows) > 0 and _rank(rows) == len(rows[0])

    @property
    def condition(self) -> float:
        """The condition number of the features less their means, scaled, in float64."""
        x = self.rows[:, :-1] - self.rows[:, :-1].mean(axis=0)
        lengths = np.linalg.norm(x, axis=0)
        return float(np.linalg.cond(x / lengths)) if lengths.all() else np.inf

    @property
    def fits(self) -> bool:
        """Whether some format of the hardware holds every value exactly."""
        grid = max(Fraction(v).denominator.bit_length() - 1 for v in self.rows.ravel().tolist())
        if grid > MOST_BITS:
            return False
        units = [[int(Fraction(v) * 2**grid) for v in column] for column in self.rows.T.tolist()]
        return all(
            max(column) - min(column) <= MOST_SPAN and max(map(abs, column)) <= MOST_REACH
            for column in units
        )


def _rank(rows: list[list[Fraction]]) -> int:
    left, rank = [list(row) for row in rows], 0
    for k in range(len(rows[0])):
        at = next((i for i in range(rank, len(left)) if left[i][k]), None)
        if at is None:
            continue
        left[rank], left[at] = left[at], left[rank]
        for row in left[rank + 1 :]:
            if row[k]:
                factor = row[k] / left[rank][k]
                row[k:] = [v - factor * p for v, p in zip(row[k:], left[rank][k:], strict=True)]
        rank += 1
    return rank


def random_fit_table(seed: int) -> FitTable:
    """Return the table of a seed."""
    source = np.random.default_rng(seed)
    features = int(source.integers(1, 6))
    rows = int(source.integers(features + 2, 70))
    kind = str(source.choice(["grid", "free", "mixed"], p=[0.6, 0.25, 0.15]))
    x = source.standard_normal((rows, features)) * source.uniform(0.1, 1, features)
    y = x @ source.uniform(-2, 2, features) + 0.1 * source.standard_normal(rows)
    values = np.column_stack([x, y])
    if kind == "grid":  # all columns on one grid, far from 0 or not
        unit = 2.0 ** int(source.integers(-20, 1))
        values = np.rint(values * 10.0 ** source.uniform(1, 3.9))
        offsets = source.uniform(-1, 1, features + 1) * 10.0 ** source.uniform(0, 9, features + 1)
        far = np.rint(np.clip(offsets / unit, -(2.0**30), 2.0**30))
        values = (values + np.where(source.random(features + 1) < 0.5, far, 0)) * unit
    elif kind == "free":  # like scales, any numbers
        values = values * 10.0 ** source.uniform(-5, 4.3)
        values = values + source.choice([0, 1], features + 1) * np.ptp(values, axis=0) * 100
    else:  # each column its own
        values = values * 10.0 ** source.uniform(-6, 6, features + 1)
        values = values + source.uniform(-1, 1, features + 1) * 10.0 ** source.uniform(
            -6, 9, features + 1
        )
    also = str(
        source.choice(
            ["", "constant", "collinear", "near", "nan", "infinity", "few"], p=[0.6, *[0.4 / 6] * 6]
        )
    )
    at = int(source.integers(features))
    if also == "constant":
        values[:, at] = values[0, at]
    if also in ("collinear", "near") and features > 1:
        other = (at + 1) % features
        values[:, at] = values[:, other]
        if also == "near":
            values[int(source.integers(rows)), at] += np.ptp(values[:, other]) / 8
    if also in ("nan", "infinity"):
        bad = np.nan if also == "nan" else float(source.choice([-np.inf, np.inf]))
        values[int(source.integers(rows)), int(source.integers(features + 1))] = bad
    if also == "few":
        values = values[: int(source.integers(1, features + 1))]
    names = [*(f"c{k}" for k in range(features)), "y"]
    return FitTable(f"{kind} {also}".strip(), dict(zip(names, values.T.copy(), strict=True)))
