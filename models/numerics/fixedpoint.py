"""Fixed point; the rules are in `formats`."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .base import Codes, Format, as_codes

#: operations that `Fixed.saturated` knows
_SATURATING = frozenset({"add", "sub", "mul", "div", "sqrt", "neg", "abs", "mac"})


def _round_shift(x: Codes, shift: int) -> Codes:
    """x / 2**shift, rounded to nearest even; x may be negative, shift is 0 … 62."""
    if shift == 0:
        return x
    quotient = x >> shift
    rest = x & ((1 << shift) - 1)
    half = 1 << (shift - 1)
    return quotient + ((rest > half) | ((rest == half) & ((quotient & 1) == 1)))


@dataclass(frozen=True)
class Fixed(Format):
    """Two's complement of `integer_bits` (at least 1, the sign included) and `fraction_bits` (at least 0), 2 … 32 in all."""

    integer_bits: int
    fraction_bits: int
    is_float = False

    def __post_init__(self) -> None:
        if self.integer_bits < 1:
            raise ValueError(
                f"a fixed-point format has at least 1 integer bit (its sign), not {self.integer_bits}"
            )
        if self.fraction_bits < 0:
            raise ValueError(
                f"a fixed-point format has at least 0 fraction bits, not {self.fraction_bits}"
            )
        if not 2 <= self.width <= 32:
            raise ValueError(f"a fixed-point format has 2 to 32 bits, not {self.width}")

    @cached_property
    def width(self) -> int:
        return self.integer_bits + self.fraction_bits

    @property
    def name(self) -> str:
        return f"fixed:{self.integer_bits},{self.fraction_bits}"

    @property
    def top(self) -> int:
        """The greatest integer that a code holds; the lowest is −top − 1."""
        return (1 << (self.width - 1)) - 1

    @property
    def max_value(self) -> float:
        return self.top * 2.0**-self.fraction_bits

    @property
    def min_value(self) -> float:
        return (-self.top - 1) * 2.0**-self.fraction_bits

    def to_codes(self, integers: ArrayLike) -> Codes:
        """Saturate signed integers (in units of 2**−fraction_bits) to codes."""
        return np.clip(as_codes(integers), -self.top - 1, self.top) & ((1 << self.width) - 1)

    def to_integers(self, codes: ArrayLike) -> Codes:
        """The signed integers of codes."""
        half = 1 << (self.width - 1)
        return (as_codes(codes) ^ half) - half

    def encode(self, values: ArrayLike) -> Codes:
        x = np.asarray(values, dtype=np.float64)
        with np.errstate(over="ignore"):
            scaled = np.rint(np.where(np.isnan(x), 0.0, x) * 2.0**self.fraction_bits)
        return self.to_codes(np.clip(scaled, -self.top - 1, self.top).astype(np.int64))

    def decode(self, codes: ArrayLike) -> NDArray[np.float64]:
        return self.to_integers(codes).astype(np.float64) * 2.0**-self.fraction_bits

    def is_zero(self, a: ArrayLike) -> NDArray[np.bool_]:
        return as_codes(a) == 0

    def exact(self, name: str, *codes: ArrayLike) -> Codes:
        """The rounded result of add, sub, mul, div, sqrt, neg or abs as signed integers before saturation.

        Division by zero counts as a quotient just outside the range.
        """
        x, *rest = (self.to_integers(c) for c in codes)
        y = rest[0] if rest else x
        if name in ("add", "sub"):
            return x + y if name == "add" else x - y
        if name == "mul":
            return _round_shift(x * y, self.fraction_bits)
        if name == "div":
            return self._quotient(x, y)
        if name == "sqrt":
            return self._root(x)
        if name in ("neg", "abs"):
            return -x if name == "neg" else np.abs(x)
        raise ValueError(f"{name} has no saturating result")

    def saturated(self, name: str, *codes: ArrayLike) -> NDArray[np.bool_]:
        """Where add, sub, mul, div, sqrt, neg or abs saturates; where either half of mac does."""
        if name == "mac":
            a, b, c = codes
            return self.saturated("mul", a, b) | self.saturated("add", self.mul(a, b), c)
        result = self.exact(name, *codes)
        return (result > self.top) | (result < -self.top - 1)

    def left_range(self, name: str, result: ArrayLike, *codes: ArrayLike) -> NDArray[np.bool_]:
        if name in _SATURATING:
            left = self.saturated(name, *codes)
            if name == "div":
                left = left | (as_codes(codes[1]) == 0)
            return left | (self.to_integers(codes[0]) < 0) if name == "sqrt" else left
        if name not in ("exp", "log"):
            return np.zeros(np.shape(result), np.bool_)
        half = 2.0 ** -(self.fraction_bits + 1)
        with np.errstate(all="ignore"):
            exact = (np.exp if name == "exp" else np.log)(self.decode(codes[0]))
        inside = (exact >= self.min_value - half) & (exact <= self.max_value + half)
        return np.asarray(~inside)

    def _quotient(self, x: Codes, y: Codes) -> Codes:
        divisor = np.where(y == 0, 1, np.abs(y))
        quotient, rest = np.divmod(np.abs(x) << self.fraction_bits, divisor)
        quotient += (2 * rest > divisor) | ((2 * rest == divisor) & ((quotient & 1) == 1))
        quotient = np.where(y == 0, np.where(x == 0, 0, self.top + 2), quotient)
        return np.where((x < 0) != (y < 0), -quotient, quotient)

    def _root(self, x: Codes) -> Codes:
        square = np.maximum(x, 0) << self.fraction_bits
        root = np.sqrt(square.astype(np.float64)).astype(np.int64)
        root -= root * root > square
        root += (root + 1) * (root + 1) <= square
        return root + (square - root * root > root)  # no ties: (n + 1/2)² is not an integer

    def add(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self.to_codes(self.exact("add", a, b))

    def sub(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self.to_codes(self.exact("sub", a, b))

    def mul(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self.to_codes(self.exact("mul", a, b))

    def div(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self.to_codes(self.exact("div", a, b))

    def sqrt(self, a: ArrayLike) -> Codes:
        return self.to_codes(self.exact("sqrt", a))

    def neg(self, a: ArrayLike) -> Codes:
        return self.to_codes(self.exact("neg", a))

    def abs(self, a: ArrayLike) -> Codes:
        return self.to_codes(self.exact("abs", a))

    def max(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self.to_codes(np.maximum(self.to_integers(a), self.to_integers(b)))

    def min(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self.to_codes(np.minimum(self.to_integers(a), self.to_integers(b)))
