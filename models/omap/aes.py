"""AES-128-GCM (FIPS 197, NIST SP 800-38D), with nonces of 96 bits and no associated data."""

from __future__ import annotations

import hmac
from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["SHIFTED", "TAG", "box", "open_", "seal", "seal_many", "short"]

#: bytes of a tag
TAG = 16
#: which byte of a state each byte comes from when rows are shifted (FIPS 197, 5.1.2)
SHIFTED = tuple((4 * (column + row) + row) % 16 for column in range(4) for row in range(4))
_POLYNOMIAL = 0xE1 << 120


@cache
def box() -> bytes:
    """Return the S-box: inverses in GF(2^8), then an affine map (FIPS 197, 5.1.1)."""
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
    table = box()
    words = [key.to_bytes(16, "little")[4 * k : 4 * k + 4] for k in range(4)]
    constant = 1
    for number in range(4, 44):
        word = words[-1]
        if number % 4 == 0:
            word = bytes(table[word[(k + 1) % 4]] ^ (constant if k == 0 else 0) for k in range(4))
            constant = _double(constant)
        words.append(bytes(a ^ b for a, b in zip(words[-4], word, strict=True)))
    return tuple(b"".join(words[4 * k : 4 * k + 4]) for k in range(11))


def _encrypt(key: int, block: bytes) -> bytes:
    table, keys = box(), _round_keys(key)
    state = [a ^ b for a, b in zip(block, keys[0], strict=True)]
    for number in range(1, 11):
        state = [table[state[source]] for source in SHIFTED]
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


def short(nonce: int) -> int:
    """Return the 96 bits of a nonce of 128 that may be other than zero (`ciphers.Cipher`)."""
    low, page = nonce & (1 << 56) - 1, nonce >> 64 & (1 << 38) - 1
    return low | page << 56 | nonce >> 126 << 94


def _encrypt_many(key: int, state: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Encrypt blocks, one a row."""
    table = np.frombuffer(box(), dtype=np.uint8)
    double = np.array([_double(value) for value in range(256)], dtype=np.uint8)
    keys = [np.frombuffer(text, dtype=np.uint8) for text in _round_keys(key)]
    state = state ^ keys[0]
    for number in range(1, 11):
        state = table[state[:, SHIFTED]]
        if number < 10:
            columns = state.reshape(-1, 4, 4)
            whole = np.bitwise_xor.reduce(columns, axis=2, keepdims=True)
            pairs = columns ^ np.roll(columns, -1, axis=2)
            state = (columns ^ whole ^ double[pairs]).reshape(-1, 16)
        state = state ^ keys[number]
    return state


@cache
def _products(key: int) -> NDArray[np.uint8]:
    """The hash key times each byte in each of the 16 places: (place, byte, 16 bytes)."""
    subkey = int.from_bytes(_encrypt(key, bytes(16)), "big")
    out = np.zeros((16, 256, 16), dtype=np.uint8)
    for bit in range(128):
        product = _product(1 << (127 - bit), subkey).to_bytes(16, "big")
        has = np.arange(256) >> (7 - bit % 8) & 1 == 1
        out[bit // 8, has] ^= np.frombuffer(product, dtype=np.uint8)
    return out


def seal_many(
    key: int, nonces: NDArray[np.uint64], plaintexts: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Return the ciphertexts of messages of whole blocks, tags behind them: as `ascon.seal_many`,
    with nonces of 128 bits."""
    count, blocks = len(plaintexts), plaintexts.shape[1] // 2
    heads = [short(int(low) | int(high) << 64).to_bytes(12, "little") for low, high in nonces]
    counters = np.empty((count, blocks + 1, 16), dtype=np.uint8)
    counters[:, :, :12] = np.frombuffer(b"".join(heads), dtype=np.uint8).reshape(count, 1, 12)
    numbers = np.arange(1, blocks + 2, dtype=">u4").view(np.uint8).reshape(-1, 4)
    counters[:, :, 12:] = numbers
    pads = _encrypt_many(key, counters.reshape(-1, 16)).reshape(count, blocks + 1, 16)
    texts = plaintexts.astype("<u8").view(np.uint8).reshape(count, blocks, 16)
    out = np.concatenate([texts ^ pads[:, 1:], np.zeros((count, 1, 16), dtype=np.uint8)], axis=1)
    products, places = _products(key), np.arange(16)
    total = np.zeros((count, 16), dtype=np.uint8)
    length = np.frombuffer((128 * blocks).to_bytes(16, "big"), dtype=np.uint8)
    for number in range(blocks + 1):
        total = total ^ (out[:, number] if number < blocks else length)
        total = np.bitwise_xor.reduce(products[places, total], axis=1)
    out[:, blocks] = total ^ pads[:, 0]
    return out.reshape(count, -1).view("<u8").astype(np.uint64)
