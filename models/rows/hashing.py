"""The hash of an integer, to spread indices over a table that is smaller than what they count."""

import numpy as np

_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)


def _turned(x: np.ndarray, bits: int) -> np.ndarray:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))


def murmur3(values: np.ndarray, seed: int, size: int) -> np.ndarray:
    """Return MurmurHash3_x86_32 of each integer's little-endian bytes, as int32.

    Source: Austin Appleby's public-domain reference, `MurmurHash3.cpp` of SMHasher. Whole words only, so that its tail is
    empty.

    * `values`: int64; of 4 bytes the low ones are taken.
    * `seed`: 0 to 2³² − 1.
    * `size`: bytes of an integer, 4 or 8.
    """
    if size not in (4, 8):
        raise ValueError(f"integers of 4 or 8 bytes, not {size}")
    bits = np.asarray(values, np.int64).astype(np.uint64)
    state = np.full(bits.shape, seed, np.uint32)
    with np.errstate(over="ignore"):
        for word in range(size // 4):
            part = (bits >> np.uint64(32 * word)).astype(np.uint32)
            state ^= _turned(part * _C1, 15) * _C2
            state = _turned(state, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        state ^= np.uint32(size)
        state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (state ^ (state >> np.uint32(16))).view(np.int32)
