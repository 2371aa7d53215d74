"""Ascon-AEAD128 (NIST SP 800-232), on integers or on arrays of many messages at once.

All functions take state words as Python integers or as `uint64` arrays; arrays compute one message
an element.
"""

import hmac
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: the initial value of Ascon-AEAD128 (SP 800-232, table 14)
IV = 0x00001000808C0001
#: bit that separates associated data from the message
SEPARATION = 1 << 63
#: of the five words, which mix each with itself
ROTATIONS = ((19, 28), (61, 39), (1, 6), (10, 17), (7, 41))
#: rounds that a core can do a cycle
ROUNDS = (1, 2, 4)
#: bytes of a tag
TAG = 16
_MASK = (1 << 64) - 1
#: from so many messages on arrays are faster than one message after another
_MANY = 12


class Pace(NamedTuple):
    """Cycles of a core."""

    first: int  #: cycles from a message's start to its first block, at least
    block: int  #: from a block to the next one
    tag: int  #: from the last block to the tag


def pace(rounds: int) -> Pace:
    """Return the cycles of a core with so many rounds a cycle (`ROUNDS`)."""
    return Pace(12 // rounds + 1, 8 // rounds, 20 // rounds)


def constants(rounds: int) -> list[int]:
    """Return the round constants of Ascon-p[rounds]."""
    return [(0xF - k << 4) | k for k in range(12 - rounds, 12)]


def permute(state: tuple[Any, ...], rounds: int) -> tuple[Any, ...]:
    """Return Ascon-p[rounds] of five words."""
    (a, b, c), (d, e) = state[:3], state[3:]
    for constant in constants(rounds):
        c = c ^ constant ^ b
        a, e = a ^ e, e ^ d
        p, q = a ^ (~b & c), b ^ (~c & d)
        r, s, e = c ^ (~d & e), d ^ (~e & a), e ^ (~a & b)
        a, b = p ^ e, q ^ p
        c, d = r ^ _MASK, s ^ r
        # each word with two of its rotations, whose halves do not overlap
        a = (a ^ a >> 19 ^ a << 45 ^ a >> 28 ^ a << 36) & _MASK
        b = (b ^ b >> 61 ^ b << 3 ^ b >> 39 ^ b << 25) & _MASK
        c = (c ^ c >> 1 ^ c << 63 ^ c >> 6 ^ c << 58) & _MASK
        d = (d ^ d >> 10 ^ d << 54 ^ d >> 17 ^ d << 47) & _MASK
        e = (e ^ e >> 7 ^ e << 57 ^ e >> 41 ^ e << 23) & _MASK
    return a, b, c, d, e


def initial(key: int, nonce: tuple[Any, Any]) -> tuple[Any, ...]:
    """Return the state after the initialisation without associated data. `key`: 128 bits, the
    first byte lowest; `nonce`: its low and its high 64 bits."""
    low, high = key & _MASK, key >> 64
    zero = nonce[0] ^ nonce[0]
    *rate, d, e = permute((zero ^ IV, zero ^ low, zero ^ high, *nonce), 12)
    return *rate, d ^ low, e ^ high ^ SEPARATION


def _padded(text: bytes) -> list[tuple[int, int]]:
    text = text + b"\x01" + bytes(-(len(text) + 1) % 16)
    words = [int.from_bytes(text[k : k + 8], "little") for k in range(0, len(text), 8)]
    return list(zip(words[::2], words[1::2], strict=True))


def _tag(key: int, state: tuple[Any, ...]) -> tuple[Any, Any]:
    low, high = key & _MASK, key >> 64
    *_, d, e = permute((*state[:2], state[2] ^ low, state[3] ^ high, state[4]), 12)
    return d ^ low, e ^ high


def seal(key: int, nonce: int, plaintext: bytes) -> bytes:
    """Return the ciphertext of a message without associated data, its tag behind it."""
    state = initial(key, (nonce & _MASK, nonce >> 64))
    out = bytearray()
    blocks = _padded(plaintext)
    for number, (low, high) in enumerate(blocks):
        a, b, *rest = state
        state = (a ^ low, b ^ high, *rest)
        out += state[0].to_bytes(8, "little") + state[1].to_bytes(8, "little")
        if number < len(blocks) - 1:
            state = permute(state, 8)
    d, e = _tag(key, state)
    return bytes(out[: len(plaintext)]) + d.to_bytes(8, "little") + e.to_bytes(8, "little")


def open_(key: int, nonce: int, sealed: bytes) -> bytes | None:
    """Return the message, None where the tag does not fit."""
    ciphertext, tag = sealed[:-TAG], sealed[-TAG:]
    state = initial(key, (nonce & _MASK, nonce >> 64))
    out = bytearray()
    full = len(ciphertext) // 16 * 16
    for at in range(0, full, 16):
        a, b, *rest = state
        low = int.from_bytes(ciphertext[at : at + 8], "little")
        high = int.from_bytes(ciphertext[at + 8 : at + 16], "little")
        out += (a ^ low).to_bytes(8, "little") + (b ^ high).to_bytes(8, "little")
        state = permute((low, high, *rest), 8)
    a, b, *rest = state
    stream = a.to_bytes(8, "little") + b.to_bytes(8, "little")
    end = bytes(x ^ y for x, y in zip(ciphertext[full:], stream, strict=False))
    [(low, high)] = _padded(end)
    d, e = _tag(key, (a ^ low, b ^ high, *rest))
    fits = hmac.compare_digest(d.to_bytes(8, "little") + e.to_bytes(8, "little"), tag)
    return bytes(out + end) if fits else None


def seal_many(
    key: int, nonces: NDArray[np.uint64], plaintexts: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Return the ciphertexts of messages of whole blocks, tags behind them.

    Parameters: `nonces`: (messages, 2); `plaintexts`: (messages, 2 × blocks), words whose first
    byte is lowest. The result has two words more a message.
    """
    if 0 < len(plaintexts) < _MANY:
        numbers = [low | high << 64 for low, high in nonces.tolist()]
        texts = [text.astype("<u8").tobytes() for text in plaintexts]
        sealed = [seal(key, number, text) for number, text in zip(numbers, texts, strict=True)]
        return np.frombuffer(b"".join(sealed), "<u8").reshape(len(sealed), -1).astype(np.uint64)
    state = initial(key, (nonces[:, 0], nonces[:, 1]))
    out = np.empty((len(plaintexts), plaintexts.shape[1] + 2), dtype=np.uint64)
    for at in range(0, plaintexts.shape[1], 2):
        a, b, *rest = state
        out[:, at], out[:, at + 1] = a ^ plaintexts[:, at], b ^ plaintexts[:, at + 1]
        state = permute((out[:, at], out[:, at + 1], *rest), 8)
    a, *rest = state
    out[:, -2], out[:, -1] = _tag(key, (a ^ 1, *rest))
    return out
