"""The softmax unit, bit for bit: what stands between a cache's scores and the weights of another one, on the path of results.

Scores come times log2 e: the host has that factor in the query. Each part of a score, as the units give it, is taken as y · 2¹⁶, rounded
down, within ± 2³⁶; so is the sum of a score's parts. Then 2^y = m · 2^n with n = round(y) and m = 2^(y − n) by a polynomial of degree 3 in
fixed point, ROOT and POLYNOMIAL: |y − n| ≤ ½, so that m lies between 0.707 and 1.415, within `ERROR` of itself. n is a whole number, so no
score is too large for 2^n.

A *tile* is 64 keys, as many as a row of values has. Its exponent e is its largest n. Its weights m · 2^(n − e) are coded as results are
(`models.pim.unit`); its total is Σ m · 2^(n − e) before they are, each cut at 2⁻²⁴. What attend makes of the tile counts 2^e: powers of two are
exact, so that tiles are added with no rounding but float32's, and divided by the sum of all totals at the end.

The unit keeps two tiles of each item: of one it makes weights while the scores of the next come and the weights before are taken. A *slot* is
(tile mod 2) · items + item; it has `words` words of 32 bytes, its weights by bank and register and then its exponent, its total, and how many
scores lay beyond the range.

Source: Two-Pass Softmax (Dukhan and Ablavatski, 2020) for the pairs (m, n); the tiles, the fixed point and the coding are ours.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..numerics.mx import BIAS
from .config import COLUMNS, TILE, PimConfig
from .operands import Floats, decoded
from .unit import Float16Unit, MxUnit, Sums

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
#: bits of a score below the point, and of m; a score's magnitude is below 2^LIMIT
FRACTION, LIMIT = 16, 36
#: bits of a total below the point
TOTAL = 24
#: of 2^t, for t from −½ to ½: coefficients · 2¹⁶ from the constant on, minimax in the relative error
POLYNOMIAL = (65531, 45434, 15900, 3616)
#: how far m may be from 2^t, of itself
ERROR = 1.05e-4
#: the exponent under which a unit's results count m · 2⁻¹⁶
ONE = {"mx8": 2 * BIAS, "float16": 54 - FRACTION}
#: where a weight is nothing beside the tile's largest
GONE = 63


@dataclass(frozen=True)
class Tiles:
    """Tiles of keys."""

    format: str
    codes: Bytes  #: codes of the weights (…, tiles, banks, bytes)
    exponent: Ints  #: (…, tiles)
    total: Ints  #: (…, tiles), in units of 2⁻²⁴

    @property
    def weights(self) -> Floats:
        """Return them (…, tiles, 64)."""
        return decoded(self.format, self.codes).reshape(*self.exponent.shape, TILE)


def scales(exponent: Ints) -> Floats:
    """Return what each tile counts beside the largest one: powers of two, 0 below 2⁻¹⁰²²."""
    top = exponent.max(axis=-1, keepdims=True)
    return np.asarray(np.ldexp(1.0, np.maximum(exponent - top, -1100)))


def summed(exponent: Ints, total: Ints) -> Floats:
    """Return the sum of all totals, under the largest tile's exponent."""
    return np.asarray((np.ldexp(total.astype(np.float64), -TOTAL) * scales(exponent)).sum(-1))


def fixed(scores: Floats) -> tuple[Ints, NDArray[np.bool_]]:
    """Return scores, or their parts, in units of 2⁻¹⁶, and which of them lay beyond the range."""
    end = float((1 << LIMIT) - 1)
    integers = np.floor(np.ldexp(scores, FRACTION))
    return np.asarray(np.clip(integers, -end, end).astype(np.int64)), np.abs(integers) > end


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
    present = (np.arange(keys + short) < keys).reshape(-1, TILE)
    top = np.where(present, n, -(1 << 40)).max(axis=-1)
    below = np.minimum(top[..., None] - n, GONE)
    m = np.where(present & (below < GONE), m, 0)
    exponent = np.maximum(ONE[format] - below, 0)
    halves = lambda x: x.reshape(*x.shape[:-1], 2, COLUMNS)
    unit: MxUnit | Float16Unit = MxUnit() if format == "mx8" else Float16Unit()
    codes, _ = unit.results(Sums(halves(m), halves(exponent)))
    total = (m << TOTAL - FRACTION >> np.maximum(below, 0)).sum(axis=-1)
    return Tiles(format, codes, top, total)


@dataclass(frozen=True)
class Taken:
    """What a round has to do with the softmax unit. −1: none."""

    #: for each pair of the set; of scores: slot, chunk of the tile and part of its results, (slot ·
    #: 2 + chunk) · parts + part with parts rounded up to a power of two; of an attend: its slot
    places: tuple[int, ...]
    #: in scores: slots whose last scores these are, in order, by pair; in an attend: slots whose
    #: exponents and totals are read
    ended: tuple[int, ...] = ()
    keys: tuple[int, ...] = ()  #: in scores: keys of each ended slot's tiles

    @property
    def slots(self) -> tuple[int, ...]:
        """The slot of each pair of an attend, another's where it has none."""
        other = max(self.places)
        return tuple(n if n >= 0 else other for n in self.places)


class Softmax:
    """The unit's state: parts of scores as they came, and the words of each slot."""

    def __init__(self, config: PimConfig) -> None:
        self.config = config
        slots, reads = 2 * config.soft_items, config.result_reads
        self._parts = np.zeros((slots, 2, config.soft_parts_wide, 32 * reads), dtype=np.uint8)
        self.words = np.zeros((slots, 2 * reads + 1, 32), dtype=np.uint8)

    def took(self, out: Bytes, taken: Taken) -> None:
        """Take results (pairs, reads · 32) of scores, and make the weights of tiles that are whole."""
        places = np.array(taken.places)
        scores = self._parts.reshape(-1, out.shape[-1])
        scores[places[places >= 0]] = out[places >= 0]
        if not taken.ended:
            return
        slots = list(taken.ended)
        config, count = self.config, len(slots)
        parts, outside = fixed(decoded(config.format, self._parts[slots, :, : config.soft_parts]))
        y, beyond = fixed(np.ldexp(parts.sum(axis=2).astype(np.float64), -FRACTION))
        gone, y = (beyond | outside.any(axis=2)).reshape(count, -1), y.reshape(count, -1)
        for keys in set(taken.keys):
            mask = np.array(taken.keys) == keys
            tile, lost = tiles(config.format, y[mask, :keys]), gone[mask, :keys].sum(axis=1)
            tail = np.stack([tile.exponent[:, 0], tile.total[:, 0], lost, 0 * lost], axis=1)
            words = np.concatenate(
                [tile.codes.reshape(len(lost), -1, 32), tail.astype("<i8").view(np.uint8)[:, None]],
                axis=1,
            )
            self.words[np.array(slots)[mask]] = words

    def weights(self, taken: Taken) -> Bytes:
        """Return the registers (banks, registers, 32) of an attend; where there is no slot, those of the first pair."""
        return self.words[list(taken.slots), :-1].reshape(2 * len(taken.places), -1, 32)

    def totals(self, taken: Taken) -> Bytes:
        """Return what is read of slots (slots, 32)."""
        return self.words[list(taken.ended), -1]


def totals_of(words: Bytes) -> tuple[Ints, Ints, Ints]:
    """Return exponents, totals, and how many scores lay beyond the range, of what `Softmax.totals` gave."""
    numbers = np.ascontiguousarray(words).view("<i8").astype(np.int64)
    return numbers[..., 0], numbers[..., 1], numbers[..., 2]
