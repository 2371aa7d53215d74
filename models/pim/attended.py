"""Attention in float64, and how far the device's may be from it.

p are the exact weights, and δ bounds how far the device's scores y are off, in powers of two. Before it is coded, a weight is off by
g = 2^δ (1 + `softmax.ERROR`) − 1 of itself at most; the sum of all by D = Σ p g, and by what totals cut. A tile's weights are coded, and read the
values, as those of any cache (`models.pim.error`), under a power of two that makes the largest one at least 0.7. With E for how far Σ p V is off then,
the quotient is off by (E + |y| D) ÷ (1 − D).

Where scores are off by more than that says anything of (MX8 has 6 bits of a score of 1,000), weights may be any: but they are not below 0, so that
the output stays below `_HULL` times the largest value. It is at most 1 + 16/63 for coded weights, 1.04 for what a tile's sum loses, 1.02 for its
coding. float16 loses 128 of its smallest numbers as well.
"""

from copy import copy

import numpy as np

from .config import PimConfig
from .error import Exact, Number, largest_of
from .operands import Floats
from .softmax import ERROR, FRACTION, TILE, TOTAL

_HULL = 1.5


def attended(y: Number, values: Exact, parts: int) -> Number:
    """Return softmax of the scores (items, keys), in powers of two, times a cache of values, with the bound; `parts`: of a score, each of
    which is rounded down."""
    with np.errstate(over="ignore", invalid="ignore"):
        p = np.exp2(y.value - y.value.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        away = p * (np.exp2(y.error + parts * 2.0**-FRACTION) * (1 + ERROR) - 1)
    away = np.where(np.isnan(away), np.inf, away)
    cut = p.shape[1] * 2.0**-TOTAL * 1.5
    value, lost = np.zeros(()), np.zeros(())
    for begin in range(0, p.shape[1], TILE):
        tile = slice(begin, begin + TILE)
        part = copy(values)
        part.state = Number(values.state.value[..., tile], values.state.error[..., tile])
        scale = np.maximum(p[:, tile].max(axis=1, keepdims=True), 1e-300) / 0.7
        read = part.read(Number(p[:, tile] / scale, away[:, tile] / scale))
        value, lost = value + read.value * scale, lost + read.error * scale
    gone = away.sum(axis=1, keepdims=True) + cut * (p + away).max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        bound = np.where(
            gone < 1, (lost + np.abs(value) * gone) / np.maximum(1 - gone, 1e-9), np.inf
        )
    size = largest_of(values.state.size.max(axis=2), 1)
    hull = (_HULL * size + 128 * values.form.tiny) / max(1 - cut, 1e-9) + np.abs(value)
    return Number(
        value, np.minimum(np.where(np.isnan(bound), np.inf, bound), hull) + 2.0**-23 * np.abs(value)
    )


class Caches:
    """Keys and values (items, dim, keys) in float64, of which queries read the first ones. `parts`: of a score."""

    def __init__(self, config: PimConfig, parts: int, keys: Floats, values: Floats) -> None:
        self.keys, self.values = (
            Exact(config, mode, x) for mode, x in (("score", keys), ("attend", values))
        )
        self.parts = parts

    def read(self, q: Floats, held: int) -> Number:
        """Return what queries (items, dim), which have the factor log2 e, read of so many keys."""
        first = [copy(cache) for cache in (self.keys, self.values)]
        for cache in first:
            state = cache.state
            cache.state = Number(state.value[..., :held], state.error[..., :held])
        scores = first[0].read(Number(q, np.zeros_like(q)))
        return attended(Number(scores.value, scores.error), first[1], self.parts)
