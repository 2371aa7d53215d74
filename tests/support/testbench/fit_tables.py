"""Random tables for fits over columns: any offset and scale, on a grid or not, with columns that are constant or depend on others, NaN, infinities, few
rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["FitTable", "random_fit_table"]


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
