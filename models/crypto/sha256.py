"""SHA-256 (FIPS 180-4), HMAC (RFC 2104) and HKDF (RFC 5869), and the cycles of their cores."""

import hashlib
import hmac as library

#: bytes of a hash
SIZE = 32
_BLOCK, _ROUNDS = 64, 64


def _root(number: int, power: int) -> int:
    """The first 32 bits of the fraction of a root."""
    wide = number << 32 * power
    low, high = 0, 1 << 36
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**power <= wide else (low, middle)
    return low & 0xFFFFFFFF


_PRIMES = [n for n in range(2, 312) if all(n % k for k in range(2, int(n**0.5) + 1))]
#: of the rounds, and what a state begins with (FIPS 180-4, 4.2.2 and 5.3.3)
CONSTANTS = tuple(_root(prime, 3) for prime in _PRIMES)
INITIAL = tuple(_root(prime, 2) for prime in _PRIMES[:8])


def sha256(text: bytes) -> bytes:
    """Return the hash, 32 bytes."""
    return hashlib.sha256(text).digest()


def hmac(key: bytes, text: bytes) -> bytes:
    """Return HMAC-SHA-256, 32 bytes."""
    return library.digest(key, text, "sha256")


def extract(salt: bytes, material: bytes) -> bytes:
    """Return HKDF's pseudorandom key (RFC 5869, 2.2)."""
    return hmac(salt, material)


def expand(key: bytes, info: bytes, count: int) -> list[bytes]:
    """Return HKDF's first `count` blocks of 32 bytes, 1 to 255 of them (RFC 5869, 2.3)."""
    blocks: list[bytes] = []
    for number in range(1, count + 1):
        before = blocks[-1] if blocks else b""
        blocks.append(hmac(key, before + info + bytes([number])))
    return blocks


def hkdf(salt: bytes, material: bytes, info: bytes, count: int) -> list[bytes]:
    """Return `count` blocks of 32 bytes of HKDF. Without `info` these are those of Noise."""
    return expand(extract(salt, material), info, count)


def hash_cycles(size: int) -> int:
    """Return the cycles from a start until the hash of so many bytes is there, where each word is
    there in time: a cycle for each round, and one for each block to add up."""
    return 1 + ((size + 8) // _BLOCK + 1) * (_ROUNDS + 1)


def hmac_cycles(size: int) -> int:
    """Return the cycles of a text of so many bytes under a key of 32."""
    return hash_cycles(_BLOCK + size) + hash_cycles(_BLOCK + SIZE)


def hkdf_cycles(material: int, info: int, count: int) -> int:
    """Return the cycles of `count` blocks from so many bytes."""
    texts = [material, *(SIZE * (k > 0) + info + 1 for k in range(count))]
    return 1 + sum(hmac_cycles(size) for size in texts)
