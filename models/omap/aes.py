"""AES-128-GCM (FIPS 197, NIST SP 800-38D), with nonces of 96 bits and no associated data."""

from __future__ import annotations

import hmac
from functools import cache

__all__ = ["TAG", "open_", "seal"]

#: bytes of a tag
TAG = 16
_POLYNOMIAL = 0xE1 << 120


@cache
def _box() -> bytes:
    """The S-box: inverses in GF(2^8), then an affine map (FIPS 197, 5.1.1)."""
    table = [0] * 256
    p = q = 1
    while True:
        p ^= (p << 1 & 0xFF) ^ (0x1B if p & 0x80 else 0)  # times 3
        for shift in (1, 2, 4):  # divided by 3
            q ^= q << shift & 0xFF
        if q & 0x80:
            q ^= 0x09
        mixed = q
        for turn in range(1, 5):
            mixed ^= (q << turn | q >> (8 - turn)) & 0xFF
        table[p] = mixed ^ 0x63
        if p == 1:
            break
    table[0] = 0x63
    return bytes(table)


def _double(value: int) -> int:
    return (value << 1 & 0xFF) ^ (0x1B if value & 0x80 else 0)


@cache
def _round_keys(key: int) -> tuple[bytes, ...]:
    box = _box()
    words = [key.to_bytes(16, "little")[4 * k : 4 * k + 4] for k in range(4)]
    constant = 1
    for number in range(4, 44):
        word = words[-1]
        if number % 4 == 0:
            word = bytes(box[word[(k + 1) % 4]] ^ (constant if k == 0 else 0) for k in range(4))
            constant = _double(constant)
        words.append(bytes(a ^ b for a, b in zip(words[-4], word, strict=True)))
    return tuple(b"".join(words[4 * k : 4 * k + 4]) for k in range(11))


def _encrypt(key: int, block: bytes) -> bytes:
    box, keys = _box(), _round_keys(key)
    state = [a ^ b for a, b in zip(block, keys[0], strict=True)]
    for number in range(1, 11):
        # rows are shifted as bytes are substituted: column by column, row by row
        state = [
            box[state[(4 * (column + row) + row) % 16]] for column in range(4) for row in range(4)
        ]
        if number < 10:
            mixed = []
            for at in range(0, 16, 4):
                column = state[at : at + 4]
                whole = column[0] ^ column[1] ^ column[2] ^ column[3]
                for row in range(4):
                    pair = column[row] ^ column[(row + 1) % 4]
                    mixed.append(column[row] ^ whole ^ _double(pair))
            state = mixed
        state = [a ^ b for a, b in zip(state, keys[number], strict=True)]
    return bytes(state)


def _product(a: int, b: int) -> int:
    """The product in GF(2^128), the first bit highest (SP 800-38D, 6.3)."""
    result = 0
    for bit in range(127, -1, -1):
        if a >> bit & 1:
            result ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return result


def _tag(key: int, first: bytes, ciphertext: bytes) -> bytes:
    subkey = int.from_bytes(_encrypt(key, bytes(16)), "big")
    total = 0
    padded = ciphertext + bytes(-len(ciphertext) % 16)
    for at in range(0, len(padded), 16):
        total = _product(total ^ int.from_bytes(padded[at : at + 16], "big"), subkey)
    total = _product(total ^ 8 * len(ciphertext), subkey)
    mask = int.from_bytes(_encrypt(key, first), "big")
    return (total ^ mask).to_bytes(16, "big")


def _stream(key: int, nonce: int, text: bytes) -> tuple[bytes, bytes]:
    head = nonce.to_bytes(12, "little")
    out = bytearray()
    for number, at in enumerate(range(0, len(text), 16), 2):
        pad = _encrypt(key, head + number.to_bytes(4, "big"))
        out += bytes(a ^ b for a, b in zip(text[at : at + 16], pad, strict=False))
    return bytes(out), head + (1).to_bytes(4, "big")


def seal(key: int, nonce: int, plaintext: bytes) -> bytes:
    """Return the ciphertext, its tag behind it. `key`: 128 bits, `nonce`: 96, first bytes lowest."""
    ciphertext, first = _stream(key, nonce, plaintext)
    return ciphertext + _tag(key, first, ciphertext)


def open_(key: int, nonce: int, sealed: bytes) -> bytes | None:
    """Return the message, None where the tag does not fit."""
    ciphertext, tag = sealed[:-TAG], sealed[-TAG:]
    plaintext, first = _stream(key, nonce, ciphertext)
    return plaintext if hmac.compare_digest(_tag(key, first, ciphertext), tag) else None
