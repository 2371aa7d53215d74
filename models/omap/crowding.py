"""How often two bins of a map are full at once, with as few bins as there are.

The mean field of two choices takes bins as independent, which many bins are. It leaves out that two bins
that are high stay high together: whenever the next pair is these two again, one of them rises. With B bins
that is one operation of B², while an item leaves them one operation of n. So beyond the load at which about
one bin is left, a further item a bin costs about the square of n / B², and not the square of what was there
before. Up to millions of bins that is what decides.

The model here has these two bins as they are: the stationary chain of their loads, in a bath of all others.
The bath's shares follow from the chain (what comes to a load is what leaves it), and begin with the mean field's.
It leaves out that the others have fewer items while these two have many, so that it errs to the safe side:
`tests/omap/test_tails.py` has it beside simulations.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: how often the bath's shares are taken from the chain
_ROUNDS = 3
#: loads below the mean that the chain has, at most
_BELOW = 5

Array = NDArray[Any]


def both_hold(load: float, bins: int, pair: float, shares: Sequence[float]) -> tuple[float, ...]:
    """Return log2 of the probability that the two bins of an operation hold i items or more each, by i, up to
    the loads that `shares` has, less two.

    Parameters: `load`: mean items of a bin; `pair`: probability that an operation draws two bins that are given;
    `shares`: log2 of the share of bins with at least i items, as the mean field has it.
    """
    return _both_hold(load, bins, pair, tuple(shares))


@lru_cache(maxsize=4096)
def _both_hold(load: float, bins: int, pair: float, shares: tuple[float, ...]) -> tuple[float, ...]:
    top = len(shares) - 2
    low = min(max(int(load) - _BELOW, 0), top - 1)
    bath = np.array([2.0 ** max(share, -1000.0) for share in shares])
    held = np.ones(top + 1)
    for _ in range(_ROUNDS):
        arrivals = (2 / bins - pair) * (bath[:-1] + bath[1:]) / 2
        held[low:] = _held(arrivals, pair, load * bins, low, top)
        # what comes to a load is what leaves it
        levels = np.arange(1, top + 1)
        steps = load * (held[:-1] - held[1:]) / levels
        sums = np.cumsum(steps[::-1])[::-1]
        bath[low + 1 : top + 1] = np.minimum(sums[low:], 1.0)
        bath[top + 1] = bath[top] ** 2
    return tuple(log2(each) if each > 0 else -1100.0 for each in held.tolist())


@lru_cache(maxsize=64)
def _states(low: int, top: int) -> tuple[Array, Array]:
    """Return the loads of two bins by state, the higher one first, and the state of two loads."""
    loads = np.arange(low, top + 1)
    one, two = np.meshgrid(loads, loads, indexing="ij")
    high, other = one[two <= one], two[two <= one]
    place = np.zeros((len(loads), len(loads)), dtype=np.int64)
    place[high - low, other - low] = place[other - low, high - low] = np.arange(len(high))
    return np.stack([high, other]), place


def _held(arrivals: Array, pair: float, items: float, low: int, top: int) -> Array:
    """Return the probability that both bins hold `low`, `low` + 1, ... items or more. `arrivals`: to a bin
    by its load, from operations that draw one of the two."""
    (high, other), place = _states(low, top)
    rates = np.zeros((len(high), len(high)))

    def lead(one: Array, two: Array, rate: Array) -> None:
        inside = (np.minimum(one, two) >= low) & (np.maximum(one, two) <= top)
        states = place[one[inside] - low, two[inside] - low]
        np.add.at(rates, (np.flatnonzero(inside), states), rate[inside])

    lead(high - 1, other, high / items)
    lead(high, other - 1, other / items)
    lead(high + 1, other, arrivals[high])
    lead(high, other + 1, arrivals[other] + pair)
    probabilities = np.bincount(other - low, weights=_stationary(rates))
    return np.asarray(np.cumsum(probabilities[::-1])[::-1])


def _stationary(rates: Array) -> Array:
    """Return the stationary distribution of a chain by the elimination of Grassmann, Taksar and Heyman, which
    subtracts nothing, so that the smallest probability is as exact as the largest one. `rates` is overwritten."""
    count = len(rates)
    for last in range(count - 1, 0, -1):
        rates[:last, last] /= rates[last, :last].sum()
        rates[:last, :last] += np.outer(rates[:last, last], rates[last, :last])
    distribution = np.zeros(count)
    distribution[0] = 1.0
    for index in range(1, count):
        distribution[index] = distribution[:index] @ rates[:index, index]
    return np.asarray(distribution / distribution.sum())
