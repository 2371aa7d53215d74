"""Conversion of PostgreSQL values, and of codes between formats: one rounding, to nearest even."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import ArrayLike

from .formats import Codes, Fixed, Format

__all__ = ["PG_BITS", "convert", "from_pg", "in_order"]

#: Types that convert, in the order in which hardware numbers them, and the bits of their stored values.
PG_BITS: dict[str, int] = {
    "bool": 8,
    "int2": 16,
    "int4": 32,
    "int8": 64,
    "float4": 32,
    "float8": 64,
}


def in_order(pgtypes: Collection[str]) -> tuple[str, ...]:
    """These types in the order of `PG_BITS`; a converter's `type` input is an index into this. Raises ValueError for any other type."""
    for name in pgtypes:
        if name not in PG_BITS:
            raise ValueError(
                f"no conversion from the type {name!r}; there are {', '.join(PG_BITS)}"
            )
    return tuple(name for name in PG_BITS if name in pgtypes)


def from_pg(pgtype: str, raw: ArrayLike, format: Format) -> Codes:
    """Codes of stored PostgreSQL values.

    Parameters
    ----------
    pgtype
        `bool int2 int4 int8 float4 float8`.
    raw
        Unsigned little-endian patterns of the values; `uint64` where the type has 64 bits. Bits above the type's width are not looked at.
    format
        Rounds to nearest even. A `Fixed` saturates, infinities too, and NaN becomes 0. A subnormal float4 or float8 reads as zero.

    Raises
    ------
    ValueError
        There is no conversion from the type.
    """
    in_order([pgtype])
    bits = np.asarray(raw).astype(np.uint64)
    if pgtype == "bool":
        return np.where((bits & np.uint64(0xFF)) != 0, np.int64(format.one), np.int64(format.zero))
    if pgtype == "float4":
        narrow = np.ascontiguousarray(bits.astype(np.uint32))
        subnormal = (narrow & np.uint32(0x7F80_0000)) == 0
        narrow = np.where(subnormal, narrow & np.uint32(0x8000_0000), narrow)
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return format.encode(narrow.view(np.float32).astype(np.float64).reshape(bits.shape))
    if pgtype == "float8":
        return format.encode(np.ascontiguousarray(bits).view(np.float64).reshape(bits.shape))
    shift = np.uint64(64 - PG_BITS[pgtype])
    integers = np.ascontiguousarray(bits << shift).view(np.int64).reshape(bits.shape) >> np.int64(
        shift
    )
    if isinstance(format, Fixed):
        limit = 1 << format.integer_bits
        return format.to_codes(np.clip(integers, -limit, limit) << format.fraction_bits)
    # beyond 53 bits float64 would round a first time: drop ten bits, but let the lowest one kept tell whether any was set
    dropped = (integers & 1023) != 0
    odd = ((integers >> 10) | dropped).astype(np.float64) * 1024.0
    return format.encode(
        np.where(np.abs(integers >> 1) >= 1 << 51, odd, integers.astype(np.float64))
    )


def convert(codes: ArrayLike, source: Format, target: Format) -> Codes:
    """Codes of the same numbers in another format, rounded once; a `Fixed` target saturates and takes NaN as 0."""
    return target.encode(source.decode(codes))
