"""What every workload is made of: operations on keys, in blocks for speed and one by one for ease."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

__all__ = ["Block", "Kind", "Operation", "one_by_one"]


class Kind(IntEnum):
    """What an operation does."""

    READ = 0  #: look a key up
    UPDATE = 1  #: give a new value to a key that is there
    INSERT = 2  #: add a key that was not there
    SCAN = 3  #: read `length` keys in order from a key on
    MODIFY = 4  #: read, then update (YCSB's read-modify-write)
    PUT = 5  #: set a key, there or not (a cache's `set`)
    DELETE = 6  #: take a key away


class Operation(NamedTuple):
    """One operation. `length` is a scan's number of keys (0 for others), `size` the bytes of a value where the workload knows them."""

    kind: Kind
    key: bytes
    length: int = 0
    size: int = 0


@dataclass(frozen=True)
class Block:
    """Operations in order: `kinds` uint8[n], `keys` n texts, `lengths` int64[n] (0 for what is no scan), `size` of each value in bytes."""

    kinds: np.ndarray
    keys: list[bytes]
    lengths: np.ndarray
    size: int = 0

    def __len__(self) -> int:
        return len(self.keys)


def one_by_one(blocks: Iterable[Block]) -> Iterator[Operation]:
    """Yield the operations of blocks."""
    kinds = list(Kind)
    for block in blocks:
        for kind, key, length in zip(
            block.kinds.tolist(), block.keys, block.lengths.tolist(), strict=True
        ):
            yield Operation(kinds[kind], key, length, block.size)
