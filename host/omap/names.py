"""Keys as clients have them, and the numbers that the device has in their place.

A key of 64 bits is its own number. Text (as UTF-8) and bytes are hashed by BLAKE2b to 128 bits under the map's public salt, so that
collisions that somebody has made for one map are none in another. To the map, two keys of one hash are one key: of N keys some two
coincide with a probability below N² / 2¹²⁹, and who looks for such a pair needs some 2⁶⁴ hashes.
"""

from hashlib import blake2b
from operator import index
from typing import Any

SALT_BYTES = 16
#: a key that any map takes, by `OmapConfig.key`
EMPTY: dict[str, Any] = {"u64": 0, "bytes": b"", "text": ""}


def checked(kind: str, key: Any) -> int | str | bytes:
    """Return a key as a plain one, NumPy's integers and bytearrays among them. `kind`: `OmapConfig.key`.

    Raises TypeError for a key of another type, ValueError for a number beyond 64 bits, and for text that has no UTF-8.
    """
    if kind == "u64":
        try:
            number = index(key) if not isinstance(key, bool) else None
        except TypeError:
            number = None
        if number is None:
            raise TypeError(f"a key is an integer, not {type(key).__name__}")
        if not 0 <= number < 1 << 64:
            raise ValueError(f"a key has 64 bits, not {number}")
        return number
    takes = str if kind == "text" else (bytes, bytearray, memoryview)
    if not isinstance(key, takes):
        raise TypeError(f"a key of this map is {kind}, not {type(key).__name__}")
    if not isinstance(key, str):
        return bytes(key)
    try:
        key.encode()
    except UnicodeEncodeError as problem:
        raise ValueError(f"a key is text that UTF-8 has, not {key!r}: {problem.reason}") from None
    return str(key)


def number_of(key: int | str | bytes, salt: bytes = bytes(SALT_BYTES)) -> int:
    """Return the number of a key that was `checked`. `salt`: the map's, of `SALT_BYTES`."""
    if isinstance(key, int):
        return key
    text = key.encode() if isinstance(key, str) else key
    return int.from_bytes(blake2b(text, digest_size=16, salt=salt).digest(), "little")
