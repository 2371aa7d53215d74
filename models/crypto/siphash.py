"""SipHash-2-4 (Aumasson and Bernstein, INDOCRYPT 2012)."""

from functools import reduce
from operator import xor

_MASK = (1 << 64) - 1
#: what the four words begin with, before the key
INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


def _rounds(state: tuple[int, ...], count: int) -> tuple[int, ...]:
    (a, b), (c, d) = state[:2], state[2:]
    for _ in range(count):
        a, c = a + b & _MASK, c + d & _MASK
        b, d = (b << 13 & _MASK | b >> 51) ^ a, (d << 16 & _MASK | d >> 48) ^ c
        a = a << 32 & _MASK | a >> 32
        c, a = c + b & _MASK, a + d & _MASK
        b, d = (b << 17 & _MASK | b >> 47) ^ c, (d << 21 & _MASK | d >> 43) ^ a
        c = c << 32 & _MASK | c >> 32
    return a, b, c, d


def siphash(key: int, message: bytes) -> int:
    """Return the 64-bit hash. `key`: 128 bits, the first byte lowest."""
    low, high = key & _MASK, key >> 64
    state = tuple(x ^ y for x, y in zip(INITIAL, (low, high, low, high), strict=True))
    end = message[len(message) // 8 * 8 :]
    padded = message + bytes(7 - len(end)) + bytes([len(message) & 255])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        a, *rest = _rounds((*state[:3], state[3] ^ word), 2)
        state = (a ^ word, *rest)
    return reduce(xor, _rounds((*state[:2], state[2] ^ 0xFF, state[3]), 4))
