"""Number formats and their bit-exact arithmetic on codes.

A *code* is the bit pattern of one number: an unsigned integer below ``2**width``, held in NumPy as ``int64``. Every operation here takes arrays
of codes (or plain integers), works elementwise with broadcasting, and returns codes. Hardware (`hdl.arith`) gives the same bits.

Rules of `Float` (IEEE 754-2019 but for subnormals):

* rounding to nearest, ties to even, once per operation;
* a subnormal code reads as the zero of its sign; a result is rounded as if exponents had no lower limit, and becomes the zero of its
  sign if it is then still below the smallest normal number; it becomes an infinity if it is beyond the largest;
* every NaN result is the one canonical quiet NaN (sign 0, top fraction bit set); `max` and `min` return it if either operand is NaN (IEEE
  `maximum`, as `numpy.maximum` does) and hold +0 above −0; comparisons with NaN are false; sqrt(−0) = −0, of anything else negative NaN;
* `pass` and `select` move bits unchanged; all others (`neg` and `abs` too) give canonical codes only: no subnormals, one NaN.

Rules of `Fixed` (two's complement, value = integer / 2**fraction_bits): round to nearest even of the exact result, then saturate. Division by
zero saturates by the sign of the dividend, 0 / 0 = 0; the square root of a negative number is 0. `saturated` says which results saturated.

`lt gt le ge` give the code of 1 or of 0 (`one` saturates where the format cannot hold 1); `select(c, a, b)` is `a` where c is not zero (NaN is
not zero, both zeros and subnormals are); `mac(a, b, c)` is the multiplication, rounded, and then the addition, rounded again.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["ARITY", "Codes", "Fixed", "Float", "Format", "bfloat16", "float16", "float32", "parse_format", "register"]

Codes = NDArray[np.int64]

#: Operands of every operation; `register` adds to it.
ARITY: dict[str, int] = {
    "add": 2, "sub": 2, "mul": 2, "div": 2, "sqrt": 1, "neg": 1, "abs": 1, "lt": 2, "gt": 2, "le": 2, "ge": 2,
    "max": 2, "min": 2, "select": 3, "mac": 3, "pass": 1,
}
_EXTENSIONS: dict[str, Callable[..., Codes]] = {}


def register(name: str, arity: int, golden: Callable[..., Codes]) -> None:
    """Add an operation that `Format.op` finds: `golden(format, *codes) -> codes`."""
    ARITY[name] = arity
    _EXTENSIONS[name] = golden


def _codes(x: ArrayLike) -> Codes:
    return np.asarray(x, dtype=np.int64)


def _round_shift(x: Codes, shift: int) -> Codes:
    """x / 2**shift, rounded to nearest even; x may be negative, shift is 0 … 62."""
    if shift == 0:
        return x
    whole = x >> shift
    rest = x & ((1 << shift) - 1)
    half = 1 << (shift - 1)
    return whole + ((rest > half) | ((rest == half) & ((whole & 1) == 1)))


class Format(ABC):
    """How a number becomes a code of `width` bits. Instances are immutable, compare by value and can be dictionary keys."""

    is_float: bool

    @property
    @abstractmethod
    def width(self) -> int:
        """Bits of a code, 2 … 32."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The text that `parse_format` turns into this format."""

    @property
    @abstractmethod
    def min_value(self) -> float:
        """The lowest finite number."""

    @property
    @abstractmethod
    def max_value(self) -> float:
        """The greatest finite number."""

    @abstractmethod
    def encode(self, values: ArrayLike) -> Codes:
        """Round numbers (taken as float64) to codes, to nearest even. `Fixed` saturates and encodes NaN as 0."""

    @abstractmethod
    def decode(self, codes: ArrayLike) -> NDArray[np.float64]:
        """The numbers that codes stand for, exactly."""

    @property
    def container(self) -> int:
        """Bytes that a code takes in memory: 1, 2 or 4."""
        return 1 if self.width <= 8 else 2 if self.width <= 16 else 4

    @property
    def zero(self) -> int:
        """The code of 0 (of +0)."""
        return 0

    @cached_property
    def one(self) -> int:
        """The code of 1, or of the number nearest to it."""
        return self.const(1.0)

    def const(self, value: float) -> int:
        """The code of one number, as a plain integer."""
        return int(self.encode(value))

    def op(self, name: str, *codes: ArrayLike) -> Codes:
        """Apply the operation called `name`; raises ValueError for an unknown name or a wrong number of operands."""
        if name not in ARITY:
            raise ValueError(f"no operation {name!r}; there are {', '.join(ARITY)}")
        if len(codes) != ARITY[name]:
            raise ValueError(f"{name} takes {ARITY[name]} operands, not {len(codes)}")
        if name in _EXTENSIONS:
            return _EXTENSIONS[name](self, *map(_codes, codes))
        method: Callable[..., Codes] = getattr(self, "move" if name == "pass" else name)
        return method(*codes)

    def move(self, a: ArrayLike) -> Codes:
        """`pass`: the same bits."""
        return _codes(a)

    def mac(self, a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Codes:
        """a · b rounded, then + c rounded: two roundings, not a fused multiply-add."""
        return self.add(self.mul(a, b), c)

    def select(self, c: ArrayLike, a: ArrayLike, b: ArrayLike) -> Codes:
        """`a` where c is not zero, else `b`."""
        return np.where(self.is_zero(c), _codes(b), _codes(a))

    def _truth(self, flags: Any) -> Codes:
        return np.where(flags, np.int64(self.one), np.int64(self.zero))

    @abstractmethod
    def is_zero(self, a: ArrayLike) -> NDArray[np.bool_]:
        """Where `select` takes its last operand."""

    @abstractmethod
    def add(self, a: ArrayLike, b: ArrayLike) -> Codes: ...
    @abstractmethod
    def sub(self, a: ArrayLike, b: ArrayLike) -> Codes: ...
    @abstractmethod
    def mul(self, a: ArrayLike, b: ArrayLike) -> Codes: ...
    @abstractmethod
    def div(self, a: ArrayLike, b: ArrayLike) -> Codes: ...
    @abstractmethod
    def sqrt(self, a: ArrayLike) -> Codes: ...
    @abstractmethod
    def neg(self, a: ArrayLike) -> Codes: ...
    @abstractmethod
    def abs(self, a: ArrayLike) -> Codes: ...
    @abstractmethod
    def lt(self, a: ArrayLike, b: ArrayLike) -> Codes: ...
    @abstractmethod
    def gt(self, a: ArrayLike, b: ArrayLike) -> Codes: ...
    @abstractmethod
    def le(self, a: ArrayLike, b: ArrayLike) -> Codes: ...
    @abstractmethod
    def ge(self, a: ArrayLike, b: ArrayLike) -> Codes: ...
    @abstractmethod
    def max(self, a: ArrayLike, b: ArrayLike) -> Codes: ...
    @abstractmethod
    def min(self, a: ArrayLike, b: ArrayLike) -> Codes: ...

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Float(Format):
    """Sign, `exponent_bits` (2 … 8, biased), `fraction_bits` (1 … 23). The exact rules are in the module's docstring.

    Results are computed in float64 and rounded once more; with 53 >= 2 · (fraction_bits + 1) + 2 bits that second rounding
    is harmless for + − × ÷ √ (S. A. Figueroa, "When is double rounding innocuous?", 1995), and no float64 result here is subnormal.
    """

    exponent_bits: int
    fraction_bits: int
    is_float = True

    def __post_init__(self) -> None:
        if not 2 <= self.exponent_bits <= 8:
            raise ValueError(f"a float has 2 to 8 exponent bits, not {self.exponent_bits}")
        if not 1 <= self.fraction_bits <= 23:
            raise ValueError(f"a float has 1 to 23 fraction bits, not {self.fraction_bits}")

    @property
    def width(self) -> int:
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def name(self) -> str:
        return _FLOAT_NAMES.get((self.exponent_bits, self.fraction_bits), f"float:{self.exponent_bits},{self.fraction_bits}")

    @property
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

    @property
    def max_value(self) -> float:
        return (2.0 - 2.0 ** -self.fraction_bits) * 2.0 ** self.bias

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
        codes = _codes(codes)
        return _table(self)[codes] if self.width <= 16 else self._decode(codes)

    def _decode(self, codes: Codes) -> NDArray[np.float64]:
        magnitude = codes & (self.sign_bit - 1)
        bits = (magnitude << (52 - self.fraction_bits)) + ((1023 - self.bias) << 52)
        special = magnitude >= self.infinity
        bits = np.where(special, 0x7FF << 52 | (magnitude - self.infinity) << (52 - self.fraction_bits), bits)
        bits = np.where(magnitude < 1 << self.fraction_bits, 0, bits)
        return (bits | (codes >> (self.width - 1)) << 63).view(np.float64)

    def canonical(self, a: ArrayLike) -> Codes:
        """The same numbers without subnormals (zeros of their sign) and with the one NaN."""
        a = _codes(a)
        magnitude = a & (self.sign_bit - 1)
        a = np.where(magnitude < 1 << self.fraction_bits, a & self.sign_bit, a)
        return np.where(magnitude > self.infinity, np.int64(self.nan), a)

    def is_zero(self, a: ArrayLike) -> NDArray[np.bool_]:
        return (_codes(a) & self.infinity) == 0

    def is_nan(self, a: ArrayLike) -> NDArray[np.bool_]:
        return (_codes(a) & (self.sign_bit - 1)) > self.infinity

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
            bits = np.where(magnitude > 0x7F80_0000, np.uint32(self.nan), bits).astype(np.int64)
            edge = magnitude == 0x0080_0000
            if edge.any():
                operands = [np.broadcast_to(_codes(c), bits.shape)[edge] for c in codes]
                bits[edge] = self.encode(function(*map(self.decode, operands)))
            return bits

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

    def lt(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self._truth(self.decode(a) < self.decode(b))

    def gt(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self._truth(self.decode(a) > self.decode(b))

    def le(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self._truth(self.decode(a) <= self.decode(b))

    def ge(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self._truth(self.decode(a) >= self.decode(b))

    def _pick(self, a: ArrayLike, b: ArrayLike, greater: bool) -> Codes:
        a, b = self.canonical(a), self.canonical(b)
        # a key that orders codes as their numbers, −0 just below +0
        key_a, key_b = (np.where(x & self.sign_bit, -1 - (x & (self.sign_bit - 1)), x) for x in (a, b))
        picked = np.where((key_a > key_b) == greater, a, b)
        return np.where((a == self.nan) | (b == self.nan), np.int64(self.nan), picked)

    def max(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self._pick(a, b, True)

    def min(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self._pick(a, b, False)


@lru_cache(maxsize=8)
def _table(format: Float) -> NDArray[np.float64]:
    return format._decode(np.arange(1 << format.width, dtype=np.int64))


@dataclass(frozen=True)
class Fixed(Format):
    """Two's complement with `integer_bits` (at least 1, the sign included) and `fraction_bits` (at least 0), 2 … 32 bits in all."""

    integer_bits: int
    fraction_bits: int
    is_float = False

    def __post_init__(self) -> None:
        if self.integer_bits < 1:
            raise ValueError(f"a fixed-point format has at least 1 integer bit (its sign), not {self.integer_bits}")
        if self.fraction_bits < 0:
            raise ValueError(f"a fixed-point format has at least 0 fraction bits, not {self.fraction_bits}")
        if not 2 <= self.width <= 32:
            raise ValueError(f"a fixed-point format has 2 to 32 bits, not {self.width}")

    @property
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
        return self.top * 2.0 ** -self.fraction_bits

    @property
    def min_value(self) -> float:
        return (-self.top - 1) * 2.0 ** -self.fraction_bits

    def to_codes(self, integers: ArrayLike) -> Codes:
        """Saturate signed integers (in units of 2**−fraction_bits) to codes."""
        return np.clip(_codes(integers), -self.top - 1, self.top) & ((1 << self.width) - 1)

    def to_integers(self, codes: ArrayLike) -> Codes:
        """The signed integers of codes."""
        half = 1 << (self.width - 1)
        return (_codes(codes) ^ half) - half

    def encode(self, values: ArrayLike) -> Codes:
        x = np.asarray(values, dtype=np.float64)
        with np.errstate(over="ignore"):
            scaled = np.rint(np.where(np.isnan(x), 0.0, x) * 2.0 ** self.fraction_bits)
        return self.to_codes(np.clip(scaled, -self.top - 1, self.top).astype(np.int64))

    def decode(self, codes: ArrayLike) -> NDArray[np.float64]:
        return self.to_integers(codes) * 2.0 ** -self.fraction_bits

    def is_zero(self, a: ArrayLike) -> NDArray[np.bool_]:
        return _codes(a) == 0

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

    def _quotient(self, x: Codes, y: Codes) -> Codes:
        divisor = np.where(y == 0, 1, np.abs(y))
        whole, rest = np.divmod(np.abs(x) << self.fraction_bits, divisor)
        whole += (2 * rest > divisor) | ((2 * rest == divisor) & ((whole & 1) == 1))
        whole = np.where(y == 0, np.where(x == 0, 0, self.top + 2), whole)
        return np.where((x < 0) != (y < 0), -whole, whole)

    def _root(self, x: Codes) -> Codes:
        square = np.maximum(x, 0) << self.fraction_bits
        root = np.sqrt(square.astype(np.float64)).astype(np.int64)
        root -= root * root > square
        root += (root + 1) * (root + 1) <= square
        return root + (square - root * root > root)       # no ties: (n + 1/2)² is not an integer

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

    def lt(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self._truth(self.to_integers(a) < self.to_integers(b))

    def gt(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self._truth(self.to_integers(a) > self.to_integers(b))

    def le(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self._truth(self.to_integers(a) <= self.to_integers(b))

    def ge(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self._truth(self.to_integers(a) >= self.to_integers(b))

    def max(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self.to_codes(np.maximum(self.to_integers(a), self.to_integers(b)))

    def min(self, a: ArrayLike, b: ArrayLike) -> Codes:
        return self.to_codes(np.minimum(self.to_integers(a), self.to_integers(b)))


float32 = Float(8, 23)
bfloat16 = Float(8, 7)
float16 = Float(5, 10)
_FLOAT_NAMES = {(8, 23): "float32", (8, 7): "bfloat16", (5, 10): "float16"}


def parse_format(text: str) -> Format:
    """The format of a name: `float32`, `bfloat16`, `float16`, `float:E,F` (exponent, fraction bits) or `fixed:I,F` (integer, fraction bits).

    Raises ValueError with a message for the user if the text is none of these or the format cannot be built.
    """
    text = text.strip()
    for (exponent_bits, fraction_bits), name in _FLOAT_NAMES.items():
        if text == name:
            return Float(exponent_bits, fraction_bits)
    match = re.fullmatch(r"(fixed|float):([0-9]{1,4}),([0-9]{1,4})", text)
    if not match:
        raise ValueError(f"{text!r} is not a number format; write float32, bfloat16, float16 or fixed:I,F (as in fixed:8,24)")
    try:
        return (Fixed if match[1] == "fixed" else Float)(int(match[2]), int(match[3]))
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
