"""AES-256-GCM (FIPS 197, NIST SP 800-38D), with nonces of 96 bits."""

import hmac
from collections.abc import Sequence
from functools import cache

#: bytes of a tag
TAG = 16
#: of AES with keys of 256 bits
ROUNDS = 14
#: which byte of a state each byte comes from when rows are shifted (FIPS 197, 5.1.2)
SHIFTED = tuple((4 * (column + row) + row) % 16 for column in range(4) for row in range(4))
#: of the core: bits of a product's operand that are multiplied a cycle; bytes of a text and blocks of
#: associated data, at most
DIGIT, MOST_BYTES, MOST_DATA = 16, 2047, 3
_POLYNOMIAL = 0xE1 << 120


def _double(value: int) -> int:
    return (value << 1 & 0xFF) ^ (0x1B if value & 0x80 else 0)


@cache
def box() -> bytes:
    """Return the S-box: inverses in GF(2^8), then an affine map (FIPS 197, 5.1.1)."""
    table = [0] * 256
    p = q = 1
    while True:
        p ^= _double(p)  # times 3
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


@cache
def _round_keys(key: bytes) -> tuple[int, ...]:
    table = box()
    words = [key[4 * k : 4 * k + 4] for k in range(8)]
    constant = 1
    for number in range(8, 4 * (ROUNDS + 1)):
        word = words[-1]
        if number % 8 == 0:
            word = bytes(table[word[(k + 1) % 4]] ^ (constant if k == 0 else 0) for k in range(4))
            constant = _double(constant)
        elif number % 8 == 4:
            word = bytes(table[byte] for byte in word)
        words.append(bytes(a ^ b for a, b in zip(words[-8], word, strict=True)))
    texts = (b"".join(words[4 * k : 4 * k + 4]) for k in range(ROUNDS + 1))
    return tuple(int.from_bytes(text, "big") for text in texts)


@cache
def _spread() -> tuple[tuple[int, ...], ...]:
    """What each value of each byte of a state adds to the next one, before the round's key: its place in
    the S-box, moved to its column and mixed there (FIPS 197, 5.1.1 to 5.1.3)."""
    columns = [bytes((_double(byte), byte, byte, _double(byte) ^ byte)) for byte in box()]
    tables: list[tuple[int, ...]] = [()] * 16
    for to, source in enumerate(SHIFTED):
        row, shift = to % 4, 96 - 32 * (to // 4)
        turned = (int.from_bytes(part[4 - row :] + part[: 4 - row], "big") for part in columns)
        tables[source] = tuple(number << shift for number in turned)
    return tuple(tables)


def encrypt(key: bytes, block: bytes) -> bytes:
    """Return AES-256 of a block of 16 bytes under a key of 32."""
    keys, tables, table = _round_keys(key), _spread(), box()
    word = int.from_bytes(block, "big") ^ keys[0]
    for round_key in keys[1:ROUNDS]:
        state, word = word.to_bytes(16, "big"), round_key
        for spread, byte in zip(tables, state, strict=True):
            word ^= spread[byte]
    state = word.to_bytes(16, "big")
    last = bytes(table[state[source]] for source in SHIFTED)
    return (int.from_bytes(last, "big") ^ keys[ROUNDS]).to_bytes(16, "big")


@cache
def _hash_key(key: bytes) -> int:
    return int.from_bytes(encrypt(key, bytes(16)), "big")


def _product(a: int, b: int) -> int:
    """The product in GF(2^128), the first bit highest (SP 800-38D, 6.3)."""
    result = 0
    for bit in range(127, -1, -1):
        if a >> bit & 1:
            result ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return result


def _tag(key: bytes, nonce: bytes, data: bytes, ciphertext: bytes) -> bytes:
    subkey = _hash_key(key)
    total = 0
    for text in (data, ciphertext):
        padded = text + bytes(-len(text) % 16)
        for at in range(0, len(padded), 16):
            total = _product(total ^ int.from_bytes(padded[at : at + 16], "big"), subkey)
    total = _product(total ^ 8 * len(data) << 64 ^ 8 * len(ciphertext), subkey)
    mask = int.from_bytes(encrypt(key, nonce + (1).to_bytes(4, "big")), "big")
    return (total ^ mask).to_bytes(16, "big")


def _stream(key: bytes, nonce: bytes, text: bytes) -> bytes:
    out = bytearray()
    for number, at in enumerate(range(0, len(text), 16), 2):
        pad = encrypt(key, nonce + number.to_bytes(4, "big"))
        out += bytes(a ^ b for a, b in zip(text[at : at + 16], pad, strict=False))
    return bytes(out)


def seal(key: bytes, nonce: bytes, plaintext: bytes, data: bytes = b"") -> bytes:
    """Return the ciphertext, its tag behind it. `key`: 32 bytes, `nonce`: 12; `data` is covered by
    the tag and not hidden."""
    ciphertext = _stream(key, nonce, plaintext)
    return ciphertext + _tag(key, nonce, data, ciphertext)


def open_(key: bytes, nonce: bytes, sealed: bytes, data: bytes = b"") -> bytes | None:
    """Return the message, None where the tag does not fit."""
    ciphertext, tag = sealed[:-TAG], sealed[-TAG:]
    fits = hmac.compare_digest(_tag(key, nonce, data, ciphertext), tag)
    return _stream(key, nonce, ciphertext) if fits else None


def times(start: int, arrivals: Sequence[int], data_blocks: int = 0) -> tuple[list[int], int]:
    """Return when the core takes the blocks of a text, and the cycle from which on the tag is there.

    Parameters: `start`: the core's start; `arrivals`: the cycle from which on each block is there;
    `data_blocks`: of associated data, there at once.

    An encryption takes its rounds and a cycle, a product one and a cycle for each digit.
    """
    encryption, product = ROUNDS + 1, 128 // DIGIT + 1
    # the hash key; then associated data beside the first pad, or beside the mask
    ready, free = start + 2 * encryption, start + encryption + 1 + data_blocks * product
    taken = []
    for cycle in arrivals:
        taken.append(max(ready, free, cycle))
        ready, free = taken[-1] + encryption, taken[-1] + product
    return taken, max(ready, free + product)


def cycles(data_blocks: int, size: int) -> int:
    """Return the cycles of the core, from a start until the tag is there, where each block is there
    in time."""
    return times(0, [0] * -(-size // 16), data_blocks)[1]
