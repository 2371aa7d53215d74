"""Two arithmetics for `meaning`: fixed point in plain Python integers, bit for bit, and bounds of what floats may give.

Both are written from docs/reference/numerics.md and docs/explanation/analytics.md. Neither uses the product's: what the
documents state of functions alone (`exp` and its like) is handed in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["Bounds", "Integers", "Range", "Undecided"]

_EXACT: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "log": math.log,
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x)),
    "gaussian": lambda x: math.exp(-x * x),
}


class Undecided(Exception):
    """The bounds do not tell which way the kernel goes, or whether its numbers are finite."""


class Integers:
    """fixed:I,F. `unit`: the code that exp, log, sigmoid, tanh or gaussian gives for one."""

    def __init__(self, integer_bits: int, fraction_bits: int, unit: Callable[[str, int], int]):
        self.fraction, self.top, self.unit = (
            fraction_bits,
            (1 << integer_bits + fraction_bits - 1) - 1,
            unit,
        )
        self.one = self.const(1.0)
        self.identity = {"add": 0, "mul": self.one, "max": -self.top - 1, "min": self.top}
        for name in _EXACT:
            setattr(self, name, lambda a, name=name: unit(name, a))

    def held(self, exact: int) -> int:
        return max(-self.top - 1, min(self.top, exact))

    def quotient(self, a: int, b: int) -> int:
        """a / b to nearest even, saturated."""
        a, b = (-a, -b) if b < 0 else (a, b)
        whole, rest = divmod(a, b)
        return self.held(whole + (2 * rest > b or (2 * rest == b and whole % 2 == 1)))

    def const(self, x: float) -> int:
        if math.isinf(x):
            return self.top if x > 0 else -self.top - 1
        return self.quotient(*(Fraction(x) * (1 << self.fraction)).as_integer_ratio())

    def add(self, a: int, b: int) -> int:
        return self.held(a + b)

    def sub(self, a: int, b: int) -> int:
        return self.held(a - b)

    def mul(self, a: int, b: int) -> int:
        return self.quotient(a * b, 1 << self.fraction)

    def div(self, a: int, b: int) -> int:
        if b == 0:
            return self.held((a > 0) - (a < 0) << 64)
        return self.quotient(a << self.fraction, b)

    def sqrt(self, a: int) -> int:
        square = max(a, 0) << self.fraction
        root = math.isqrt(square)
        return self.held(root + (square - root * root > root))

    def neg(self, a: int) -> int:
        return self.held(-a)

    def abs(self, a: int) -> int:
        return self.held(abs(a))

    def lt(self, a: int, b: int) -> int:
        return self.one if a < b else 0

    def le(self, a: int, b: int) -> int:
        return self.one if a <= b else 0

    def where(self, c: int, a: int, b: int) -> int:
        return a if c else b

    max = staticmethod(max)
    min = staticmethod(min)

    def truth(self, a: int) -> bool:
        return a != 0

    def tree(self, op: str, values: Sequence[int]) -> int:
        """Neighbours in pairs; a missing partner is the identity."""
        values = list(values)
        while len(values) > 1:
            values += [self.identity[op]] * (len(values) % 2)
            values = [
                getattr(self, op)(a, b) for a, b in zip(values[::2], values[1::2], strict=True)
            ]
        return values[0]

    def row(self, op: str, values: Sequence[int], lanes: int) -> int:
        """The lanes of each beat, then the beats."""
        padded = [*values, *[self.identity[op]] * (-len(values) % lanes)]
        return self.tree(
            op, [self.tree(op, padded[k : k + lanes]) for k in range(0, len(padded), lanes)]
        )

    def full(self, op: str, values: Sequence[int]) -> int:
        """Neighbours in pairs over the next power of two; missing leaves are identities."""
        size = 1
        while size < len(values):
            size *= 2
        return self.tree(op, [*values, *[self.identity[op]] * (size - len(values))])

    def merged(self, op: str, groups: Sequence[Sequence[int | None]]) -> int:
        """The threads of each group, then the groups in order."""
        total = self.identity[op]
        for group in groups:
            shares = [self.identity[op] if value is None else value for value in group]
            total = getattr(self, op)(total, self.tree(op, shares))
        return total


@dataclass(frozen=True, slots=True)
class Range:
    """All that a value may be."""

    lo: float
    hi: float

    @property
    def most(self) -> float:
        return max(abs(self.lo), abs(self.hi))


class Bounds:
    """A float format by its error alone: what any arithmetic may give whose operations are off by no more than half
    a unit in the last place and whose sums are in any order. float64 is one of them, so are the exact numbers.

    Parameters: `fraction`: of the format, in bits; `least`, `greatest`: its normal numbers; `errors`: of each
    function in ulps and absolutely, the greater one counting. `undecided` counts comparisons that were either.
    """

    def __init__(
        self,
        fraction: int,
        least: float,
        greatest: float,
        errors: Mapping[str, tuple[float, float]],
    ):
        self.fraction, self.least, self.greatest, self.errors = fraction, least, greatest, errors
        self.half = 2.0 ** -(fraction + 1)
        self.undecided = 0
        for name in _EXACT:
            setattr(self, name, lambda a, name=name: self._function(name, a))

    def holds(self, x: Fraction | float) -> bool:
        """Whether the format has this very number."""
        if x == 0:
            return True
        top, bottom = Fraction(x).as_integer_ratio()
        odd = abs(top) >> (top & -top).bit_length() - 1
        return (
            bottom & (bottom - 1) == 0
            and odd.bit_length() <= self.fraction + 1
            and self.least <= abs(x) <= self.greatest
        )

    def rounded(self, lo: float, hi: float, error: float | None = None) -> Range:
        """What comes of numbers from lo to hi, which float64 computed, by one rounding (or an error of its own)."""
        most = max(abs(lo), abs(hi))
        if not most <= self.greatest * (1 - self.half):
            raise Undecided("a number beyond the range")
        small = self.least if lo < self.least and hi > -self.least else 0.0
        error = (most * self.half + small if error is None else error) + most * 2.0**-50
        return Range(lo - error, hi + error)

    def _exactly(self, number: Fraction | None) -> Range | None:
        return (
            Range(float(number), float(number))
            if number is not None and self.holds(number)
            else None
        )

    def const(self, x: float) -> Range:
        exact = self._exactly(Fraction(x) if math.isfinite(x) else None)
        return exact or self.rounded(float(x), float(x))

    def _points(self, *values: Range) -> list[Fraction] | None:
        return [Fraction(v.lo) for v in values] if all(v.lo == v.hi for v in values) else None

    def add(self, a: Range, b: Range) -> Range:
        points = self._points(a, b)
        return self._exactly(points and points[0] + points[1]) or self.rounded(
            a.lo + b.lo, a.hi + b.hi
        )

    def sub(self, a: Range, b: Range) -> Range:
        return self.add(a, self.neg(b))

    def mul(self, a: Range, b: Range) -> Range:
        points = self._points(a, b)
        ends = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
        return self._exactly(points and points[0] * points[1]) or self.rounded(min(ends), max(ends))

    def div(self, a: Range, b: Range) -> Range:
        if b.lo <= 0 <= b.hi:
            raise Undecided("a division by 0")
        points = self._points(a, b)
        ends = [x / y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
        return self._exactly(points and points[0] / points[1]) or self.rounded(min(ends), max(ends))

    def sqrt(self, a: Range) -> Range:
        if a.lo < 0:
            raise Undecided("the root of a negative number")
        return self.rounded(math.sqrt(a.lo), math.sqrt(a.hi)) if a.hi else a

    def _function(self, name: str, a: Range) -> Range:
        if name == "log" and a.lo <= 0:
            raise Undecided("the logarithm of 0")
        if name == "exp" and a.hi > 700:
            raise Undecided("a number beyond the range")
        ends = [_EXACT[name](a.lo), _EXACT[name](a.hi)]
        if name == "gaussian" and a.lo <= 0 <= a.hi:
            ends.append(1.0)
        ulps, absolute = self.errors[name]
        most = max(map(abs, ends))
        place = 2.0 ** (math.frexp(most)[1] - 1 - self.fraction) if most else 0.0
        return self.rounded(min(ends), max(ends), max(ulps * place, absolute))

    def neg(self, a: Range) -> Range:
        return Range(-a.hi, -a.lo)

    def abs(self, a: Range) -> Range:
        return Range(0.0 if a.lo <= 0 <= a.hi else min(abs(a.lo), abs(a.hi)), a.most)

    def _either(self, holds: bool, fails: bool) -> Range:
        if holds or fails:
            return Range(float(holds), float(holds))
        self.undecided += 1
        return Range(0.0, 1.0)

    def lt(self, a: Range, b: Range) -> Range:
        return self._either(a.hi < b.lo, a.lo >= b.hi)

    def le(self, a: Range, b: Range) -> Range:
        return self._either(a.hi <= b.lo, a.lo > b.hi)

    def max(self, a: Range, b: Range) -> Range:
        return self.tree("max", [a, b])

    def min(self, a: Range, b: Range) -> Range:
        return self.tree("min", [a, b])

    def where(self, c: Range, a: Range, b: Range) -> Range:
        if c.lo == c.hi == 0:
            return b
        if c.lo > 0 or c.hi < 0:
            return a
        self.undecided += 1
        return Range(min(a.lo, b.lo), max(a.hi, b.hi))

    def truth(self, a: Range) -> bool:
        if a.lo <= 0 <= a.hi and a.lo != a.hi:
            raise Undecided("until may hold or not")
        return a.lo != 0

    def tree(self, op: str, values: Sequence[Range]) -> Range:
        """The values combined in any order."""
        if op in ("max", "min"):
            pick = max if op == "max" else min  # of Python's
            return Range(pick(v.lo for v in values), pick(v.hi for v in values))
        if len(values) == 1:
            return values[0]
        steps = (len(values) - 1) * self.half
        grown = steps / (1 - steps)
        if op == "add":
            points = self._points(*values)
            if points and self._sums_exactly(points):
                return Range(float(sum(points)), float(sum(points)))
            error = grown * math.fsum(v.most for v in values) + len(values) * self.least
            return self._spread(
                math.fsum(v.lo for v in values), math.fsum(v.hi for v in values), error
            )
        lo, hi, large = 1.0, 1.0, 1.0
        for value in values:
            ends = [x * y for x in (lo, hi) for y in (value.lo, value.hi)]
            lo, hi, large = min(ends), max(ends), large * max(1.0, value.most)
        return self._spread(
            lo, hi, grown * max(abs(lo), abs(hi)) + len(values) * self.least * large, large
        )

    def _sums_exactly(self, points: Sequence[Fraction]) -> bool:
        """Whether no order rounds anything: all are multiples of a unit of which the format holds so many."""
        units = [Fraction(p.numerator & -p.numerator, p.denominator) for p in points if p]
        most = sum(map(abs, points), start=Fraction(0))
        return not units or (
            min(units) >= self.least and most <= min(units) * 2 ** (self.fraction + 1)
        )

    def _spread(self, lo: float, hi: float, error: float, large: float = 0.0) -> Range:
        self.rounded(large, large)
        return self.rounded(lo, hi, error)

    def row(self, op: str, values: Sequence[Range], lanes: int) -> Range:
        return self.tree(op, values)

    def full(self, op: str, values: Sequence[Range]) -> Range:
        return self.tree(op, values)

    def merged(self, op: str, groups: Sequence[Sequence[Range | None]]) -> Range:
        return self.tree(op, [value for group in groups for value in group if value is not None])
