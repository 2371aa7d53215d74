"""The CRC that the link's proofs hold hardware against is CRC-32, and its residue is what a body's own
CRC leaves.
"""

from __future__ import annotations

import zlib

import pytest
from parts.link import NORMAL_RESIDUE, crc_bits

_ONES = [1] * 32


def number(bits: list[int]) -> int:
    return sum(bit << k for k, bit in enumerate(bits))


def bits_of(body: bytes) -> list[int]:
    """As they are on the wire: each byte's least significant first."""
    return [byte >> k & 1 for byte in body for k in range(8)]


@pytest.mark.parametrize("body", [b"", b"123456789", bytes(range(256))])
def test_it_is_the_crc_of_zlib(body: bytes) -> None:
    register = crc_bits(_ONES, bits_of(body))
    assert number([1 - bit for bit in reversed(register)]) == zlib.crc32(body)
    own = zlib.crc32(body).to_bytes(4, "little")
    assert number(crc_bits(register, bits_of(own))) == NORMAL_RESIDUE


def test_the_own_crc_of_any_body_leaves_the_residue() -> None:
    """For every register: what it leaves is affine over GF(2), so that 33 registers decide it."""
    for one in (None, *range(32)):
        register = [int(k == one) for k in range(32)]
        own = [1 - bit for bit in reversed(register)]
        assert number(crc_bits(register, own)) == NORMAL_RESIDUE
