"""Units that compute integers in hardware: their names, widths, pipeline depths and sizes.

A unit is named by its operation and what it is told (`Op.detail`), so that units of one name are alike:

* `integer + bits side constant low w …` and its like: the result takes `bits`; `constant` stands for operand `side`, -1 where there is none; `low` is
  the least dividend; w is the width of each other operand, negative where it is signed;
* `integer < 0 side constant low w …` and its like: the result is the code of 1 or 0, whether it holds;
* `hash seed bytes w`: of an integer of so many bytes;
* `integer bits`: of a code;
* `number w`: the code of an integer, which the format has exactly.

Widths are those of the integers that there can be: nothing wraps around.
"""

from dataclasses import dataclass
from functools import cache

from ..numerics.latency import Cost
from .integers import COMPARISONS

#: the least and the greatest of some integers
Range = tuple[int, int]


def width_of(span: Range) -> int:
    """Return the bits of an integer between two, negative where it has a sign."""
    low, high = span
    if low >= 0:
        return max(1, high.bit_length())
    return -max(high.bit_length(), (-low - 1).bit_length()) - 1


@dataclass(frozen=True)
class IntegerUnit:
    """One unit. `detail` is as above."""

    fn: str
    detail: tuple[int, ...]

    @property
    def operands(self) -> tuple[int, ...]:
        """Widths of the operands that are no constants, as `width_of` has them; () where it is a code."""
        if self.fn == "integer":
            return ()
        return self.detail[{"hash": 2, "number": 0}.get(self.fn, 4) :]

    @property
    def arity(self) -> int:
        return len(self.operands) or 1

    @property
    def compares(self) -> bool:
        return self.fn.removeprefix("integer ") in COMPARISONS

    def width(self, code: int) -> int:
        """Bits of the result, where a code has `code`."""
        if self.fn == "number" or self.compares:
            return code
        return 32 if self.fn == "hash" else self.detail[0]

    @property
    def divisor(self) -> int:
        """The constant that it divides by, 0 where it does not divide."""
        return self.detail[2] if self.fn in ("integer //", "integer %") else 0

    @property
    def dividend(self) -> int:
        """Bits of the dividend, made positive by a multiple of the divisor."""
        low, [w] = self.detail[3], self.operands
        most = (1 << w) - 1 if w > 0 else (1 << -w - 1) - 1
        return max(1, (most + self.raised(low)).bit_length())

    def raised(self, low: int) -> int:
        """Return the multiple of the divisor that makes `low` positive."""
        return -(low // self.divisor) * self.divisor if low < 0 else 0

    @property
    def shifts(self) -> bool:
        """Whether it divides by a power of two."""
        return self.divisor > 0 and self.divisor & (self.divisor - 1) == 0

    @property
    def digits(self) -> int:
        """Digits of the quotient, one a stage."""
        return max(0, self.dividend - self.divisor.bit_length() + 1)

    @property
    def latency(self) -> int:
        """Cycles from operands to the result."""
        if self.fn == "hash":  # two products a word and two at the end, two ranks each
            return 4 * (self.detail[1] // 4) + 4
        if self.divisor:
            return 1 if self.shifts else self.digits + 2
        return 2 if self.fn in ("integer *", "number") else 1

    @property
    def products(self) -> tuple[tuple[int, int, bool], ...]:
        """The factors of each product that a multiplier block may take."""
        if self.fn == "hash":
            return ((32, 32, True),) * (2 * (self.detail[1] // 4) + 2)
        if self.fn == "integer *":
            widths = [abs(w) for w in self.operands]
            other = abs(self.detail[2]).bit_length() if self.detail[1] >= 0 else widths[-1]
            return ((widths[0], other, all(w > 0 for w in self.operands)),)
        return ()

    @property
    def cost(self) -> Cost:
        width = max(self.width(1), *map(abs, self.operands), 1)
        if self.fn == "hash":
            return Cost(40 * 32, 32 * self.latency)
        if self.divisor and not self.shifts:
            return Cost(self.digits * 2 * self.dividend, self.latency * self.dividend)
        if self.fn == "number":  # a shift by where the first bit is
            return Cost(width * (2 + width.bit_length()), 2 * width)
        return Cost(2 * width, width)


@cache
def integer_unit(fn: str) -> IntegerUnit | None:
    """Return the unit of this name, None for one that computes with codes."""
    words = fn.split()
    if words[0] not in ("integer", "hash", "number") or len(words) == 1:
        return None
    numbers = 1 if words[0] != "integer" or words[1].lstrip("-").isdigit() else 2
    return IntegerUnit(" ".join(words[:numbers]), tuple(map(int, words[numbers:])))
