"""Byte windows: which bytes of its keys a group looks at, and where sorted keys are cut into groups.

A window (prefix, length) skips the bytes that all keys of a group share and ends with the byte that tells the most alike neighbours apart. Keys
that end inside it are filled with zeros. Windows and groups decide how good models are, never whether they are right. Source of the rules: SIA (Kim
et al., PVLDB 17(8), 2024) as its published code has them, with bounds of our own.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from ...models.qr.job import Window

_CHUNK = 1 << 14  # keys looked at together
_WIDE = 1 << 10  # keys are compared as a matrix where none is longer


def common(a: bytes, b: bytes) -> int:
    """Return the length of the longest common prefix."""
    n = min(len(a), len(b))
    # big-endian: the first difference is the highest bit
    differ = int.from_bytes(a[:n]) ^ int.from_bytes(b[:n])
    return n - (differ.bit_length() + 7) // 8


def common_prefixes(keys: Sequence[bytes]) -> np.ndarray:
    """Return the common prefix of each key with the one before, int64[len(keys)]; 0 for the first."""
    prefixes = np.zeros(len(keys), dtype=np.int64)
    for first in range(1, len(keys), _CHUNK):
        part = keys[first - 1 : first + _CHUNK]
        lengths = np.fromiter(map(len, part), dtype=np.int64, count=len(part))
        shorter = np.minimum(lengths[1:], lengths[:-1])
        if lengths.max() > _WIDE:
            prefixes[first : first + _CHUNK] = [common(a, b) for a, b in itertools.pairwise(part)]
            continue
        width = max(int(lengths.max()), 1)
        matrix = np.array(part, dtype=f"S{width}").view(np.uint8).reshape(len(part), width)
        differ = matrix[1:] != matrix[:-1]
        at = differ.argmax(axis=1)
        # keys that are equal when filled with zeros share all of the shorter one
        prefixes[first : first + _CHUNK] = np.minimum(
            np.where(differ[np.arange(len(at)), at], at, width), shorter
        )
    return prefixes


def window_of(least: int, most: int, around: int, longest: int) -> Window:
    """Return the window of sorted keys whose neighbours share from `least` to `most` bytes, at most `longest` bytes of it.

    `around` (-1: unknown) is how many bytes every key shares that may come into the group, being between its pivot and the next. Where that costs at
    most two bytes, the window begins there, so that no insert can move it and make a memo useless.
    """
    prefix = around if 0 <= around < least <= around + 2 and most - around < longest else least
    return Window(prefix, max(min(most - prefix + 1, longest), 1))


def features(keys: Sequence[bytes], window: Window) -> np.ndarray:
    """Return the window's bytes of keys, uint8[len(keys), window.length]."""
    begin, length = window.prefix, window.length
    end = begin + length
    cuts = [key[begin:end] for key in keys]
    return np.array(cuts, dtype=f"S{length}").view(np.uint8).reshape(len(cuts), length)


def cut(
    prefixes: np.ndarray, *, smallest: int, forward: int, backward: int, bytes_: int, largest: int
) -> list[int]:
    """Cut sorted keys into groups greedily; return where each begins, the first at 0.

    A group grows by `forward` keys while its window is shorter than `bytes_`, then shrinks by `backward` while it is longer, but not below
    `smallest` keys; no group is larger than `largest`. `prefixes` is what `common_prefixes` gives.
    """
    total = len(prefixes)
    starts: list[int] = []
    begin = 0
    while begin < total:
        starts.append(begin)
        end, low, high = begin, np.iinfo(np.int64).max, -1
        while end < total and end - begin < largest and (high < 0 or high - low + 1 < bytes_):
            following = min(end + forward, total, begin + largest)
            inner = prefixes[max(end, begin + 1) : following]
            if len(inner):
                low, high = min(low, int(inner.min())), max(high, int(inner.max()))
            end = following
        while end - backward - begin >= smallest and high - low + 1 > bytes_:
            end -= backward
            inner = prefixes[begin + 1 : end]
            low, high = int(inner.min()), int(inner.max())
        if total - end < smallest:  # no crumbs at the end
            end = total if total - begin <= largest else end
        begin = end
    return starts
