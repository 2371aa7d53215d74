"""The data checksum of a page (`pd_checksum`).

Source of the method and its 32 start values: PostgreSQL 15 `storage/checksum_impl.h` (an FNV-1a variant on 32 lanes).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["checksum"]

_PRIME = np.uint32(16777619)
_START = np.array(
    [
        0x5B1F36E9,
        0xB8525960,
        0x02AB50AA,
        0x1DE66D2A,
        0x79FF467A,
        0x9BB9F8A3,
        0x217E7CD2,
        0x83E13D2C,
        0xF8D4474F,
        0xE39EB970,
        0x42C6AE16,
        0x993216FA,
        0x7B093B5D,
        0x98DAFF3C,
        0xF718902A,
        0x0B1C9CDB,
        0xE58F764B,
        0x187636BC,
        0x5D7B3BB1,
        0xE73DE7DE,
        0x92BEC979,
        0xCCA6C0B2,
        0x304A0979,
        0x85AA43D4,
        0x783125BB,
        0x6CA8EAA2,
        0xE407EAC6,
        0x4B5CFC3E,
        0x9FBF8C76,
        0x15CA20BE,
        0xF2CA9FD3,
        0x959BD756,
    ],
    np.uint32,
)


def checksum(pages: npt.NDArray[np.uint8], first_block: int = 0) -> npt.NDArray[np.uint16]:
    """Return the checksum of each page as the server would store it.

    `pages` has the shape (pages, page size); page i is block `first_block + i` of its relation. What the pages hold in
    `pd_checksum` now does not matter. New pages (`pd_upper` = 0) carry none: the result for them is 0.
    """
    count, size = pages.shape
    words = np.ascontiguousarray(pages).view("<u4").reshape(count, size // 128, 32)
    new = words[:, 0, 3] >> np.uint32(16) == 0  # pd_upper
    head = words[:, 0].astype(np.uint32)
    head[:, 2] &= np.uint32(0xFFFF0000)  # pd_checksum itself counts as zero
    state = np.bitwise_xor(_START, head)
    mixed = np.empty_like(state)
    rounds = words.shape[1] + 2  # the last two, with zero, mix the last words
    for step in range(1, rounds + 1):
        np.right_shift(state, np.uint32(17), out=mixed)
        np.multiply(state, _PRIME, out=state)
        np.bitwise_xor(state, mixed, out=state)
        if step < words.shape[1]:
            np.bitwise_xor(state, words[:, step], out=state)
    folded = np.bitwise_xor.reduce(state, axis=1) ^ np.arange(
        first_block, first_block + count, dtype=np.uint32
    )
    return np.where(new, 0, folded % np.uint32(65535) + np.uint32(1)).astype(np.uint16)
