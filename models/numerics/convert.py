"""Conversion of PostgreSQL values, and of codes between formats: one rounding, to nearest even."""

from collections.abc import Collection
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .formats import Codes, Fixed, Float, Format
from .limbs import Limbs
from .policy import Unfit

#: Types that convert, in the order in which hardware numbers them, and the bits of their stored values.
PG_BITS: dict[str, int] = {
    "bool": 8,
    "int2": 16,
    "int4": 32,
    "int8": 64,
    "float4": 32,
    "float8": 64,
}


class _Stored(Float):
    """No format: a code is what is stored, bit by bit (-0 is 0). For comparing what is in a table."""


STORED = _Stored(8, 23)


def in_order(pgtypes: Collection[str]) -> tuple[str, ...]:
    """These types in the order of `PG_BITS`; a converter's `type` input is an index into this. Raises ValueError for any other type."""
    for name in pgtypes:
        if name not in PG_BITS:
            raise ValueError(
                f"no conversion from the type {name!r}; there are {', '.join(PG_BITS)}"
            )
    return tuple(name for name in PG_BITS if name in pgtypes)


def from_pg(pgtype: str, raw: ArrayLike, format: Format, places: ArrayLike = 0) -> Codes:
    """Return the codes of stored PostgreSQL values.

    * `pgtype`: `bool int2 int4 int8 float4 float8`.
    * `raw`: unsigned little-endian patterns of the values; `uint64` where the type has 64 bits. Bits above
      the type's width are not looked at.
    * `format`: rounds to nearest even. A `Fixed` saturates, infinities too, and NaN becomes 0. A subnormal
      float4 or float8 reads as zero. `Limbs` saturate, have subnormals, and take what is not finite as 0.
    * `places`: flat positions that the values go to, for `Limbs`.

    Raises ValueError: there is no conversion from the type.
    """
    in_order([pgtype])  # raises for other types
    bits = np.asarray(raw).astype(np.uint64)
    if isinstance(format, Limbs):
        return format.to_codes(format.quantised(numbers_of(pgtype, bits), places)[0])
    if format is STORED:
        negative = pgtype.startswith("float") and 1 << PG_BITS[pgtype] - 1
        return np.where(bits == np.uint64(negative), 0, bits).view(np.int64)
    if pgtype == "bool":
        return np.where((bits & np.uint64(0xFF)) != 0, np.int64(format.one), np.int64(format.zero))
    if pgtype.startswith("float"):
        return format.encode(_reals(pgtype, bits))
    integers = _integers(pgtype, bits)
    if isinstance(format, Fixed):
        limit = 1 << format.integer_bits
        return format.to_codes(np.clip(integers, -limit, limit) << format.fraction_bits)
    # beyond 53 bits float64 would round a first time: drop ten bits, but let the lowest one kept tell whether any was set
    dropped = (integers & 1023) != 0
    odd = ((integers >> 10) | dropped).astype(np.float64) * 1024.0
    wide = np.abs(integers >> 1) >= 1 << 51
    return format.encode(np.where(wide, odd, integers.astype(np.float64)))


def numbers_of(pgtype: str, bits: NDArray[np.uint64]) -> NDArray[np.int64] | NDArray[np.float64]:
    """The numbers of stored patterns, exactly: int64 of booleans and integers, float64 of the others."""
    if pgtype == "bool":
        return ((bits & np.uint64(0xFF)) != 0).astype(np.int64)
    if pgtype == "float4":
        narrow = np.ascontiguousarray(bits.astype(np.uint32)).view(np.float32)
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return narrow.astype(np.float64).reshape(bits.shape)
    return _reals(pgtype, bits) if pgtype == "float8" else _integers(pgtype, bits)


def unfit(pgtype: str, raw: ArrayLike, format: Format, places: ArrayLike = 0) -> NDArray[np.uint8]:
    """How each value, given as for `from_pg`, fits in `format`: the numbers of `policy.Unfit`.

    Raises ValueError for a type that does not convert.
    """
    in_order([pgtype])
    bits = np.asarray(raw).astype(np.uint64)
    reasons = np.zeros(bits.shape, np.uint8)
    if isinstance(format, Limbs):
        _, beyond, special = format.quantised(numbers_of(pgtype, bits), places)
        reasons[beyond], reasons[special] = Unfit.OVERFLOW, Unfit.NAN
        return reasons
    if pgtype.startswith("float"):
        values = _reals(pgtype, bits)
        special = np.isnan(values) if isinstance(format, Fixed) else ~np.isfinite(values)
        beyond = _beyond(values, format)
        reasons[beyond] = Unfit.OVERFLOW
        reasons[special] = Unfit.NAN
    elif pgtype == "bool":
        if _beyond(np.ones(1), format)[0]:
            reasons[(bits & np.uint64(0xFF)) != 0] = Unfit.OVERFLOW
    elif isinstance(format, Fixed):
        integers, most = _integers(pgtype, bits), format.top >> format.fraction_bits
        reasons[(integers > most) | (integers < -1 << format.integer_bits - 1)] = Unfit.OVERFLOW
    else:  # float64 has integers near the end of any float's range exactly
        reasons[_beyond(_integers(pgtype, bits).astype(np.float64), format)] = Unfit.OVERFLOW
    return reasons


@lru_cache
def may_be_unfit(pgtype: str, format: Format) -> tuple[bool, bool]:
    """Return whether a value of the type can overflow, and whether it can be no number."""
    in_order([pgtype])
    if isinstance(format, Limbs):
        return True, pgtype.startswith("float")
    if pgtype == "bool":
        return bool(_beyond(np.ones(1), format)[0]), False
    if pgtype.startswith("int"):
        return bool(_beyond(np.array([-(2.0 ** (PG_BITS[pgtype] - 1))]), format)[0]), False
    most = np.finfo(np.float32 if pgtype == "float4" else np.float64).max
    return isinstance(format, Fixed) or bool(_beyond(np.array([float(most)]), format)[0]), True


def _beyond(values: NDArray[np.float64], format: Format) -> NDArray[np.bool_]:
    """Whether numbers, rounded, lie beyond the range; NaN does not, infinities do.

    The greatest number is odd in its last place, so that a tie above it goes up; the lowest one of a
    `Fixed` is even.
    """
    low, high = _ends(format)
    with np.errstate(invalid="ignore"):
        if isinstance(format, Fixed):
            return (values >= high) | (values < low)
        return np.abs(values) >= high


@lru_cache
def _ends(format: Format) -> tuple[float, float]:
    """The ties beyond the lowest and the greatest number: float64 has them exactly."""
    if isinstance(format, Fixed):
        half = 2.0 ** -(format.fraction_bits + 1)
    else:
        assert isinstance(format, Float)
        half = 2.0 ** (format.bias - format.fraction_bits - 1)
    return format.min_value - half, format.max_value + half


def _reals(pgtype: str, bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    """The numbers of float patterns; a subnormal float4 is a zero."""
    if pgtype == "float8":
        return np.ascontiguousarray(bits).view(np.float64).reshape(bits.shape)
    narrow = np.ascontiguousarray(bits.astype(np.uint32))
    subnormal = (narrow & np.uint32(0x7F80_0000)) == 0
    narrow = np.where(subnormal, narrow & np.uint32(0x8000_0000), narrow)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return narrow.view(np.float32).astype(np.float64).reshape(bits.shape)


def _integers(pgtype: str, bits: NDArray[np.uint64]) -> NDArray[np.int64]:
    shift = np.uint64(64 - PG_BITS[pgtype])
    integers: NDArray[np.int64] = np.ascontiguousarray(bits << shift).view(np.int64).reshape(
        bits.shape
    ) >> np.int64(shift)
    return integers


def convert(codes: ArrayLike, source: Format, target: Format) -> Codes:
    """Codes of the same numbers in another format, rounded once; a `Fixed` target saturates and takes NaN as 0."""
    return target.encode(source.decode(codes))
