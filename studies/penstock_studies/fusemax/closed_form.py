"""FuseMax in closed form: cycles of a tile of keys and queries, tiles of a layer of attention, seconds.

Source: FuseMax (MICRO 2024) and its public artifact.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Attention:
    """`heads` heads of a batch with queries, keys and values of `size` elements."""

    heads: int
    size: int
    batch: int = 64


#: as the artifact has them
MODELS = {
    "BERT": Attention(12, 64),
    "TrXL": Attention(16, 64),
    "T5": Attention(8, 64),
    "XLM": Attention(16, 128),
}


@dataclass(frozen=True)
class Array:
    """`side` × `side` elements and a row of `side` beside them, at `hertz`; an exponential takes `exponent`
    multiply-adds, a difference before it one more. Words have 16 bits."""

    side: int = 256
    hertz: float = 940e6
    exponent: int = 6
    buffer: int = 16 << 20
    bandwidth: float = 400 * 2**30

    def tile(self, size: int, tiles: int) -> float:
        """Return the cycles of `side` keys for `side` queries, where a query meets `tiles` such tiles.

        What the array does overlaps what the row does: products with keys and their maxima beside the
        sums of the tile before; numerators and their sums beside corrections; both products with values.
        """
        numerator = self.exponent + 1
        scores = size + 1  # QK, LM
        totals = 1 + size + size / tiles  # RD, RNV, AV
        exponentials = max(numerator + 1, numerator + 1)  # SLN + SLD, PRM + SPD
        return max(scores, totals) + 1 + exponentials + size

    def compute(self, attention: Attention, length: int) -> float:
        """Return the seconds of the cycles. Raises ValueError for a length that is no multiple of the side."""
        tiles = self._tiles(length)
        count = attention.batch * attention.heads * tiles * tiles
        return count * self.tile(attention.size, tiles) / self.hertz

    def queries(self, size: int, length: int) -> int:
        """Return how many tiles of queries lie in the buffer at a time, a divisor of all of them."""
        tiles, row = self._tiles(length), 2 * self.side * 2 * size
        most = (self.buffer - row) // (2 * self.side * (2 * size + 2))
        return max(n for n in range(1, min(most, tiles) + 1) if tiles % n == 0)

    def traffic(self, attention: Attention, length: int) -> float:
        """Return the seconds of all words: queries and results once, keys and values for each filled buffer."""
        passes = self._tiles(length) // self.queries(attention.size, length)
        words = 2 * length * attention.size * (1 + passes) * attention.batch * attention.heads
        return 2 * words / self.bandwidth

    def seconds(self, attention: Attention, length: int) -> float:
        """Return the longer of computation and traffic."""
        return max(self.compute(attention, length), self.traffic(attention, length))

    def utilisation(self, size: int, tiles: int) -> float:
        """Return the share of a tile's cycles in which the array works."""
        return (2 * size + self.exponent + 1 + 1 + 1) / self.tile(size, tiles)

    def _tiles(self, length: int) -> int:
        if length < self.side or length % self.side:
            raise ValueError(f"the length is a multiple of {self.side}, not {length}")
        return math.ceil(length / self.side)
