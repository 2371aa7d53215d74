"""Softmax in powers of two, bit for bit: what stands between a cache's scores and the weights of another one.

Scores come as y, already times log2 e: the host has that factor in the query. A score is taken as y · 2¹⁶, rounded down, within
± 2³⁶. Then 2^y = m · 2^n with n = round(y) and m = 2^(y − n) by a polynomial of degree 3 in fixed point, ROOT and POLYNOMIAL: |y − n| ≤ ½, so
that m lies between 0.707 and 1.415, within `ERROR` of itself. n is a whole number, so no score is too large for 2^n.

A *tile* is 64 keys, as many as a row of values has. Its exponent e is its largest n. Its weights m · 2^(n − e) are coded as results are
(`models.pim.unit`); its total is Σ m · 2^(n − e) before they are, each cut at 2⁻²⁴. What attend makes of the tile counts 2^e: powers of two are
exact, so that tiles are added with no rounding but float32's, and divided by the sum of all totals at the end.

Source: Two-Pass Softmax (Dukhan and Ablavatski, 2020) for the pairs (m, n); the tiles, the fixed point and the coding are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..numerics.floating import float16
from ..numerics.mx import BIAS, FAMILY
from .config import COLUMNS
from .operands import Floats
from .unit import Float16Unit, MxUnit, Sums

__all__ = [
    "ERROR",
    "FRACTION",
    "LIMIT",
    "POLYNOMIAL",
    "TILE",
    "TOTAL",
    "Tiles",
    "fixed",
    "powers",
    "tiles",
]

Ints = NDArray[np.int64]
#: bits of a score below the point, and of m; a score's magnitude is below 2^LIMIT
FRACTION, LIMIT = 16, 36
#: bits of a total below the point
TOTAL = 24
#: of 2^t, for t from −½ to ½: coefficients · 2¹⁶ from the constant on, minimax in the relative error
POLYNOMIAL = (65531, 45434, 15900, 3616)
#: how far m may be from 2^t, of itself
ERROR = 1.05e-4
#: keys of a tile
TILE = 2 * COLUMNS
#: the exponent under which a unit's results count m · 2⁻¹⁶
_ONE = {"mx8": 2 * BIAS, "float16": 54 - FRACTION}
#: where a weight is nothing beside the tile's largest
_GONE = 63


@dataclass(frozen=True)
class Tiles:
    """Tiles of keys (…, tiles): `weights` (…, tiles, 64), `exponent` and `total` (in units of 2⁻²⁴)."""

    weights: Floats
    exponent: Ints
    total: Ints

    @property
    def scales(self) -> Floats:
        """What each tile counts beside the largest one: powers of two, 0 below 2⁻¹⁰²²."""
        top = self.exponent.max(axis=-1, keepdims=True)
        return np.asarray(np.ldexp(1.0, np.maximum(self.exponent - top, -1100)))

    @property
    def sums(self) -> Floats:
        """The sum of all totals, under the largest tile's exponent."""
        return np.asarray((np.ldexp(self.total.astype(np.float64), -TOTAL) * self.scales).sum(-1))


def fixed(scores: Floats) -> Ints:
    """Return scores, finite numbers, in units of 2⁻¹⁶."""
    end = float((1 << LIMIT) - 1)
    return np.asarray(np.clip(np.floor(np.ldexp(scores, FRACTION)), -end, end).astype(np.int64))


def powers(y: Ints) -> tuple[Ints, Ints]:
    """Return m in units of 2⁻¹⁶ and n: 2^y = m · 2^n."""
    n = (y + (1 << FRACTION - 1)) >> FRACTION
    t = y - (n << FRACTION)
    m = np.full_like(t, POLYNOMIAL[-1])
    for coefficient in POLYNOMIAL[-2::-1]:
        m = coefficient + (m * t >> FRACTION)
    return m, n


def tiles(format: str, y: Ints) -> Tiles:
    """Return the tiles of scores (…, keys) in units of 2⁻¹⁶. Keys that a last tile lacks have no weight."""
    keys = y.shape[-1]
    short = -keys % TILE
    wide = np.pad(y, [(0, 0)] * (y.ndim - 1) + [(0, short)])
    m, n = (x.reshape(*x.shape[:-1], -1, TILE) for x in powers(wide))
    there = (np.arange(keys + short) < keys).reshape(-1, TILE)
    top = np.where(there, n, -(1 << 40)).max(axis=-1)
    below = np.minimum(top[..., None] - n, _GONE)
    m = np.where(there & (below < _GONE), m, 0)
    exponent = np.maximum(_ONE[format] - below, 0)
    halves = lambda x: x.reshape(*x.shape[:-1], 2, COLUMNS)
    unit: MxUnit | Float16Unit = MxUnit() if format == "mx8" else Float16Unit()
    codes, _ = unit.results(Sums(halves(m), halves(exponent)))
    if format == "mx8":
        weights = FAMILY["mx8"].decode(FAMILY["mx8"].unpack(codes))
    else:
        weights = float16.decode(np.ascontiguousarray(codes).view("<u2").astype(np.int64))
    return Tiles(
        weights.reshape(m.shape), top, (m << TOTAL - FRACTION >> np.maximum(below, 0)).sum(axis=-1)
    )
