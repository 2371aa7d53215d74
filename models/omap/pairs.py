"""Pairs of distinct uniform bins, from a cryptographic generator.

The generator is the first block of Ascon-AEAD128's key stream under the nonces (number of the
operation, try). A block has two candidates of two 32-bit words, each cut to the bits of a bin's
number. A candidate is taken if both are bins and differ, so that the pairs are exactly uniform.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..crypto.ascon import initial
from .config import OmapConfig

#: operations whose pairs hardware makes ahead
AHEAD = 4

#: operations whose pairs are made at once: few at first, at most so many
_FIRST, _BATCH = 16, 1024


def blocks_of(key: int, numbers: NDArray[np.uint64], attempt: int) -> NDArray[np.uint64]:
    """Return the generator's blocks, two words an operation."""
    tries = np.full(len(numbers), attempt, dtype=np.uint64)
    state = initial(key, (numbers, tries))
    return np.stack(state[:2], axis=1)


def expected_blocks(config: OmapConfig) -> float:
    """Return how many blocks the pairs of an operation take in the mean."""
    numbers = 1 << config.bin_bits
    taken = config.bins * (config.bins - 1) / numbers**2
    left = 1 - taken
    second = 1 / (1 - left**2)  # where one pair is there already
    return (1 + 2 * taken * left * second) / (1 - left**2)


class PairSource:
    """The pairs of operations by number, from `first` on: for each one where its item goes, and what
    a miss shows."""

    def __init__(self, config: OmapConfig, key: int, first: int = 0) -> None:
        self._config, self._key, self._next = config, key, first
        self._size = _FIRST
        self._drawn: deque[tuple[tuple[int, int], tuple[int, int], int]] = deque()

    def __iter__(self) -> PairSource:
        return self

    def __next__(self) -> tuple[tuple[int, int], tuple[int, int], int]:
        """Return the next (new pair, stand-in pair, blocks that they took)."""
        if not self._drawn:
            numbers = np.arange(self._next, self._next + self._size, dtype=np.uint64)
            self._next += self._size
            self._size = min(2 * self._size, _BATCH)
            self._drawn.extend(self._batch(numbers))
        return self._drawn.popleft()

    def _batch(
        self, numbers: NDArray[np.uint64]
    ) -> Iterator[tuple[tuple[int, int], tuple[int, int], int]]:
        bins, mask = self._config.bins, (1 << self._config.bin_bits) - 1
        taken: list[list[tuple[int, int]]] = [[] for _ in numbers]
        blocks = [0] * len(numbers)
        open_, attempt = np.arange(len(numbers)), 0
        while len(open_):
            for index, words in zip(
                open_.tolist(), blocks_of(self._key, numbers[open_], attempt).tolist(), strict=True
            ):
                blocks[index] += 1
                for word in words:
                    pair = word & mask, word >> 32 & mask
                    if pair[0] < bins and pair[1] < bins and pair[0] != pair[1]:
                        taken[index].append(pair)
            open_ = open_[[len(taken[index]) < 2 for index in open_.tolist()]]
            attempt += 1
        for pairs, count in zip(taken, blocks, strict=True):
            yield pairs[0], pairs[1], count
