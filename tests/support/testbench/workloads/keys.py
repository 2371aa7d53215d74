"""Sets of keys: Amazon-like user ids, URL-like addresses, random bytes, and numbers as text; seeded, made in blocks, never all at once.

None of these is data of anybody: they have the lengths, alphabets and shared prefixes of the sets that SIA was measured with (Kim et al., PVLDB
17(8), 2024, and its scripts), so that byte windows come out alike. Two keys may be equal where chance has it so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

__all__ = ["KEY_SETS", "amazon_keys", "random_keys", "url_keys"]

_BLOCK = 1 << 14
_BASE36 = np.frombuffer(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", dtype=np.uint8)
BASE62 = np.frombuffer(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", dtype=np.uint8
)


def _split(matrix: np.ndarray) -> list[bytes]:
    """Return the rows of a uint8 matrix as texts."""
    whole, width = matrix.tobytes(), matrix.shape[1]
    return [whole[at : at + width] for at in range(0, len(whole), width)]


def _blocks(count: int) -> Iterator[int]:
    for first in range(0, count, _BLOCK):
        yield min(_BLOCK, count - first)


def random_keys(count: int, seed: int = 1, length: int = 32) -> Iterator[bytes]:
    """Yield `count` keys of `length` uniformly random bytes (SIA's micro benchmark: 32)."""
    rng = np.random.default_rng(seed)
    for n in _blocks(count):
        yield from _split(rng.integers(0, 256, (n, length), dtype=np.uint8))


def amazon_keys(count: int, seed: int = 1, length: int = 12) -> Iterator[bytes]:
    """Yield `count` keys like Amazon's review user ids as SIA prepares them: 12 characters of base 36, the leading `A` dropped.

    Most real ids go on with 1, 2 or 3; here nine of ten do (an assumption), the other characters are uniform.
    """
    rng = np.random.default_rng(seed)
    for n in _blocks(count):
        keys = _BASE36[rng.integers(0, 36, (n, length))]
        common = rng.random(n) < 0.9
        keys[common, 0] = _BASE36[rng.integers(1, 4, int(common.sum()))]
        yield from _split(keys)


_WORDS = [
    b"news",
    b"2008",
    b"2009",
    b"blog",
    b"archives",
    b"article",
    b"story",
    b"politics",
    b"world",
    b"business",
    b"tech",
    b"sports",
    b"index",
    b"media",
    b"video",
    b"comments",
    b"category",
    b"tag",
    b"review",
    b"press-release",
]
_TOPS = [b"com", b"com", b"com", b"com", b"org", b"net", b"co.uk", b"de"]


def url_keys(count: int, seed: int = 1, length: int = 128, domains: int = 5000) -> Iterator[bytes]:
    """Yield `count` keys like the web addresses of MemeTracker as SIA prepares them: `length` bytes, filled with `/`, longer ones cut.

    Domains are drawn from a Zipf distribution, then come one to four path segments out of a small vocabulary and a slug or number.
    """
    rng = np.random.default_rng(seed)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)
    hosts = [
        b"http://"
        + (b"www." if rng.random() < 0.5 else b"")
        + letters[rng.integers(0, 26, rng.integers(4, 15))].tobytes()
        + b"."
        + _TOPS[rng.integers(len(_TOPS))]
        for _ in range(domains)
    ]
    popularity = np.cumsum(np.arange(1, domains + 1, dtype=np.float64) ** -0.9)
    popularity /= popularity[-1]
    for n in _blocks(count):
        chosen = (
            np.searchsorted(popularity, rng.random(n), side="right").clip(0, domains - 1).tolist()
        )
        depth = rng.integers(1, 5, n).tolist()
        words = rng.integers(0, len(_WORDS), (n, 4)).tolist()
        slugs = _split(letters[rng.integers(0, 26, (n, 16))])
        cuts = rng.integers(4, 17, n).tolist()
        numbers = rng.integers(1, 10**7, n).tolist()
        styles = rng.integers(0, 3, n).tolist()
        for i in range(n):
            path = b"/".join([_WORDS[w] for w in words[i][: depth[i]]])
            tail = (
                b"%d.html" % numbers[i],
                b"%s-%s.html" % (slugs[i][: cuts[i]], slugs[i][:3]),
                b"?id=%d&s=%s" % (numbers[i], slugs[i][: cuts[i]]),
            )[styles[i]]
            yield b"/".join((hosts[chosen[i]], path, tail))[:length].ljust(length, b"/")


#: name -> keys(count, seed)
KEY_SETS: dict[str, Callable[..., Iterator[bytes]]] = {
    "random": random_keys,
    "amazon": amazon_keys,
    "url": url_keys,
}
