"""IEEE-style floating point; the rules are in `formats`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .base import Codes, Format, as_codes

FLOAT_NAMES = {(8, 23): "float32", (8, 7): "bfloat16", (5, 10): "float16"}


@dataclass(frozen=True)
class Float(Format):
    """Sign, `exponent_bits` (2 … 8, biased), `fraction_bits` (1 … 23). The exact rules are in the module's docstring.

    Results are computed in float64 and rounded once more; with 53 >= 2 · (fraction_bits + 1) + 2 bits that second rounding
    is harmless for + − × ÷ √ (S. A. Figueroa, "When is double rounding innocuous?", 1995); no float64 result here is subnormal.
    """

    exponent_bits: int
    fraction_bits: int
    is_float = True

    def __post_init__(self) -> None:
        if not 2 <= self.exponent_bits <= 8:
            raise ValueError(f"a float has 2 to 8 exponent bits, not {self.exponent_bits}")
        if not 1 <= self.fraction_bits <= 23:
            raise ValueError(f"a float has 1 to 23 fraction bits, not {self.fraction_bits}")

    @cached_property
    def width(self) -> int:
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def name(self) -> str:
        return FLOAT_NAMES.get(
            (self.exponent_bits, self.fraction_bits),
            f"float:{self.exponent_bits},{self.fraction_bits}",
        )

    @cached_property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def sign_bit(self) -> int:
        return 1 << (self.width - 1)

    @property
    def infinity(self) -> int:
        """The code of +∞."""
        return ((1 << self.exponent_bits) - 1) << self.fraction_bits

    @property
    def nan(self) -> int:
        """The one NaN that operations give."""
        return self.infinity | 1 << (self.fraction_bits - 1)

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @cached_property
    def max_value(self) -> float:
        return (2.0 - 2.0**-self.fraction_bits) * 2.0**self.bias

    @property
    def min_value(self) -> float:
        return -self.max_value

    def encode(self, values: ArrayLike) -> Codes:
        x = np.ascontiguousarray(values, dtype=np.float64)
        shape = np.shape(values)
        bits = x.view(np.int64)
        magnitude = bits & 0x7FFF_FFFF_FFFF_FFFF
        shift = 52 - self.fraction_bits
        magnitude += (1 << (shift - 1)) - 1 + ((magnitude >> shift) & 1)
        magnitude >>= shift
        magnitude -= (1023 - self.bias) << self.fraction_bits
        np.copyto(magnitude, 0, where=magnitude < 1 << self.fraction_bits)
        np.minimum(magnitude, self.infinity, out=magnitude)
        magnitude |= np.where(bits < 0, np.int64(self.sign_bit), np.int64(0))
        np.copyto(magnitude, self.nan, where=np.isnan(x))
        return magnitude.reshape(shape)

    def decode(self, codes: ArrayLike) -> NDArray[np.float64]:
        """The numbers that codes stand for, exactly; a subnormal code stands for a zero."""
        codes = as_codes(codes)
        return _table(self)[codes] if self.width <= 16 else self._decode(codes)

    def _decode(self, codes: Codes) -> NDArray[np.float64]:
        magnitude = codes & (self.sign_bit - 1)
        bits = (magnitude << (52 - self.fraction_bits)) + ((1023 - self.bias) << 52)
        special = magnitude >= self.infinity
        bits = np.where(
            special, 0x7FF << 52 | (magnitude - self.infinity) << (52 - self.fraction_bits), bits
        )
        bits = np.where(magnitude < 1 << self.fraction_bits, 0, bits)
        return (bits | (codes >> (self.width - 1)) << 63).view(np.float64)

    def canonical(self, a: ArrayLike) -> Codes:
        """The same numbers without subnormals (zeros of their sign) and with the one NaN."""
        a = as_codes(a)
        magnitude = a & (self.sign_bit - 1)
        a = np.where(magnitude < 1 << self.fraction_bits, a & self.sign_bit, a)
        return np.where(magnitude > self.infinity, np.int64(self.nan), a)

    def is_zero(self, a: ArrayLike) -> NDArray[np.bool_]:
        return (as_codes(a) & self.infinity) == 0

    def is_finite(self, a: ArrayLike) -> NDArray[np.bool_]:
        return (as_codes(a) & self.infinity) != self.infinity

    def left_range(self, name: str, result: ArrayLike, *codes: ArrayLike) -> NDArray[np.bool_]:
        left = ~self.is_finite(result)
        for code in codes if left.any() else ():
            left = left & self.is_finite(code)
        return left

    def _native(self, a: ArrayLike) -> NDArray[np.float32]:
        bits = np.ascontiguousarray(a, dtype=np.int64).astype(np.uint32)
        np.copyto(bits, bits & np.uint32(0x8000_0000), where=(bits & np.uint32(0x7F80_0000)) == 0)
        return bits.view(np.float32).reshape(np.shape(a))

    def _compute(self, function: Callable[..., Any], *codes: ArrayLike) -> Codes:
        with np.errstate(all="ignore"):
            if (self.exponent_bits, self.fraction_bits) != (8, 23):
                return self.encode(function(*map(self.decode, codes)))
            # float32: NumPy's own arithmetic, which differs below the smallest normal number only; what rounds to that
            # number from below may do so because subnormal numbers have fewer bits, so it is computed again
            result = np.asarray(function(*map(self._native, codes)))
            bits = result.view(np.uint32)
            magnitude = bits & np.uint32(0x7FFF_FFFF)
            bits = np.where(magnitude < 0x0080_0000, bits & np.uint32(0x8000_0000), bits)
            out: Codes = np.where(magnitude > 0x7F80_0000, np.uint32(self.nan), bits).astype(
                np.int64
            )
            edge = magnitude == 0x0080_0000
            if edge.any():
                operands = [np.broadcast_to(as_codes(c), out.shape)[edge] for c in codes]
                out[edge] = self.encode(function(*map(self.decode, operands)))
            return out

    def add(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self._compute(np.add, a, b)

    def sub(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self._compute(np.subtract, a, b)

    def mul(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self._compute(np.multiply, a, b)

    def div(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self._compute(np.divide, a, b)

    def sqrt(self, a: ArrayLike) -> Codes:
        return self._compute(np.sqrt, a)

    def neg(self, a: ArrayLike) -> Codes:
        a = self.canonical(a)
        return np.where(a == self.nan, a, a ^ self.sign_bit)

    def abs(self, a: ArrayLike) -> Codes:
        return self.canonical(a) & (self.sign_bit - 1)

    def _pick(self, a: ArrayLike, b: ArrayLike, greater: bool) -> Codes:
        a, b = self.canonical(a), self.canonical(b)
        # a key that orders codes as their numbers, −0 just below +0
        key_a, key_b = (
            np.where(x & self.sign_bit, -1 - (x & (self.sign_bit - 1)), x) for x in (a, b)
        )
        picked = np.where((key_a > key_b) == greater, a, b)
        return np.where((a == self.nan) | (b == self.nan), np.int64(self.nan), picked)

    def max(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self._pick(a, b, True)

    def min(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self._pick(a, b, False)


@lru_cache(maxsize=8)
def _table(format: Float) -> NDArray[np.float64]:
    return format._decode(np.arange(1 << format.width, dtype=np.int64))


float32 = Float(8, 23)
bfloat16 = Float(8, 7)
float16 = Float(5, 10)
