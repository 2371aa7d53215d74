"""Least squares of columns by the host, their sums as Python's integers have them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from penstock.dsl.qr.units import Unit, unit_of
from penstock.host.least_squares import Fit, Options, Rows, Sums, fit, rooted

__all__ = ["fitted", "sums_of"]


def sums_of(
    columns: Sequence[np.ndarray], units: Sequence[Unit], centres: Sequence[float] | None = None
) -> Sums:
    """Return the sums over products of columns in their units."""
    a = np.ones((len(columns[0]), len(columns) + 1), dtype=object)
    for k, (column, unit) in enumerate(zip(columns, units, strict=True), 1):
        step = Fraction(2) ** unit.shift
        a[:, k] = [round(Fraction(v) / step) - unit.offset for v in column.tolist()]
    shifts, offsets = ([getattr(u, of) for u in units] for of in ("shift", "offset"))
    return Sums(a.T @ a, offsets, shifts, [u.exact for u in units], centres)


def fitted(
    columns: Sequence[np.ndarray],
    limbs: int | None = None,
    weights: np.ndarray | None = None,
    **options: object,
) -> Fit:
    """Return the fit of columns, the label last. `options`: those of `host.least_squares.Options`."""
    made = Options(**options)
    rows, centres = Rows(columns, weights, made.intercept), None
    if weights is not None:
        centres, columns = rooted(rows)
    units = [unit_of(column, limbs) for column in columns]
    return fit(sums_of(columns, units, centres), rows, made)
