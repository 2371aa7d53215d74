"""Attention beside the banks as NeuPIMs' scheduler estimates it, and how requests are dealt over channels and halves.

Source: NeuPIMs (ASPLOS 2024), algorithm 1 and the section on scheduling; the two constants are its public simulator's.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Channel:
    """A channel of `banks` banks, each with a row buffer of its own for products with a vector. A row holds
    `row_words` words of 16 bits. `write`: cycles to bring a row of the vector to all banks (GWRITE); `tile`:
    cycles in which each bank multiplies a row with it."""

    banks: int = 32
    row_words: int = 512
    write: int = 100
    tile: int = 184

    def attention(self, context: int, width: int, heads: int, dim_head: int) -> int:
        """Return the cycles of scores and weighted sums of a request with `context` keys and values.

        `width`: words of the query on this device. Raises ValueError for a number below 1.
        """
        if min(context, width, heads, dim_head) < 1:
            raise ValueError("context, width, heads and dim_head are 1 or more")
        score = self._product(math.ceil(width / self.row_words), math.ceil(context / self.banks))
        attend = self._product(
            math.ceil(context / self.row_words) * heads, math.ceil(dim_head / self.banks)
        )
        return score + attend

    def _product(self, vectors: int, tiles: int) -> int:
        """Return the cycles of `tiles` tiles with each of `vectors` rows of a vector."""
        return vectors * (self.write + tiles * self.tile)


def dealt(costs: Sequence[int], channels: int) -> list[list[int]]:
    """Return the requests of each channel: the longest first, each to the channel with the least work."""
    loads, held = [0] * channels, [list[int]() for _ in range(channels)]
    for request in sorted(range(len(costs)), key=lambda n: -costs[n]):
        least = loads.index(min(loads))
        loads[least] += costs[request]
        held[least].append(request)
    return held


def halves(channels: Iterable[Sequence[int]]) -> tuple[list[list[int]], list[list[int]]]:
    """Return the requests of two sub-batches by channel: half of each channel's, the odd one in turns."""
    first, second, larger = list[list[int]](), list[list[int]](), True
    for requests in channels:
        count = len(requests) // 2 + (len(requests) % 2 if larger else 0)
        larger = larger != bool(len(requests) % 2)
        first.append(list(requests[:count]))
        second.append(list(requests[count:]))
    return first, second
