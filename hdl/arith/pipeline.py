"""What the arithmetic units are built from: register ranks, shifters, zero counts and the final rounding of a float."""

from types import SimpleNamespace
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, ValueLike, signed, unsigned
from amaranth.utils import bits_for

from penstock.models.numerics.formats import Float
from penstock.models.numerics.latency import slices


class Pipeline:
    """A straight pipeline under construction in `m`: `depth` register ranks so far.

    Registers have no reset: what they hold before the first operand arrives is never looked at.
    """

    def __init__(self, m: Module):
        self.m = m
        self.depth = 0

    def wire(self, value: ValueLike, shape: Shape | None = None, name: str = "w") -> Signal:
        """A named signal of the value, so that an expression used more than once is written once."""
        value = Value.cast(value)
        wire = Signal(shape or value.shape(), name=name)
        self.m.d.comb += wire.eq(value)
        return wire

    def rank(self, **values: ValueLike) -> SimpleNamespace:
        """Register all these values: one more cycle. Their registers come back under the same names."""
        self.depth += 1
        return SimpleNamespace(
            **{
                name: self._register(value, f"s{self.depth}_{name}")
                for name, value in values.items()
            }
        )

    def delay(self, value: ValueLike, cycles: int, name: str = "delayed") -> Value:
        """The value `cycles` later, beside ranks that other code adds; does not count in `depth`."""
        value = Value.cast(value)
        for index in range(cycles):
            value = self._register(value, f"{name}{index + 1}")
        return value

    def _register(self, value: ValueLike, name: str) -> Signal:
        value = Value.cast(value)
        register = Signal(value.shape(), name=name, reset_less=True)
        self.m.d.sync += register.eq(value)
        return register


class Unpacked:
    """Fields and classes of a float's code; a subnormal is `zero`, its `significand` is 0."""

    def __init__(self, code: Value, format: Float):
        fraction, exponent = code[: format.fraction_bits], code[format.fraction_bits : -1]
        self.sign = code[-1]
        self.exponent = exponent
        self.magnitude = code[:-1]
        self.zero = exponent == 0
        top = exponent.all()
        self.nan = top & fraction.any()
        self.inf = top & ~fraction.any()
        self.normal_significand = Cat(fraction, Const(1, 1))  # right only where not zero
        self.significand = Mux(self.zero, 0, self.normal_significand)


def exponent_shape(format: Float) -> Shape:
    """Signed biased exponents of results before the range check, whatever the operation."""
    return signed(max(format.exponent_bits, bits_for(format.fraction_bits + 4)) + 2)


def leading_zeros(value: Value) -> tuple[Value, Value]:
    """Number of zeros above the highest one bit, and whether there is any one bit (else the count means nothing).

    A tree of depth log2(width).
    """
    width = 1 << bits_for(len(value) - 1) if len(value) > 1 else 1
    value = Cat(Const(0, width - len(value)), value)
    nodes: list[tuple[Value, Value]] = [(Const(0, 0), value[index]) for index in range(width)]
    while len(nodes) > 1:
        nodes = [
            (Cat(Mux(high[1], high[0], low[0]), ~high[1]), high[1] | low[1])
            for low, high in zip(nodes[::2], nodes[1::2], strict=True)
        ]
    return nodes[0]


def align(value: Value, amount: Value) -> Value:
    """value >> amount with one more bit at the bottom, the or of everything shifted out; len(value) + 1 bits."""
    levels = min(bits_for(len(value)), len(amount))
    some = value.any()
    value = Cat(Const(0, 1), value)
    for level in range(levels):
        shift = 1 << level
        if shift >= len(value):
            shifted: Value = value.any()
        else:
            shifted = Cat(value[: shift + 1].any(), value[shift + 1 :])
        value = Mux(amount[level], shifted, value)[: len(value)]
    if len(amount) > levels:
        value = Mux(amount[levels:].any(), some, value)[: len(value)]
    return value


def partial_products(a: Value, b: Value) -> list[tuple[int, Value]]:
    """(weight, product) of the whole of `a` by slices of `b`; signed factors give signed products. As `latency.multipliers` counts."""
    count = slices(len(b))
    size = -(-len(b) // count)
    parts = []
    for low in range(0, len(b), size):
        part = b[low : low + size]
        if b.shape().signed:
            part = part.as_signed() if low + size >= len(b) else Cat(part, Const(0, 1)).as_signed()
        parts.append((low, a * part))
    return parts


def total(parts: list[tuple[int, Value]], width: int) -> Value:
    """The sum of partial products, `width` bits."""
    result: Value = Const(0)
    for weight, product in parts:
        result = result + (product << weight)
    return result[:width]


class Unrounded(NamedTuple):
    """`significand` has fraction_bits + 1 bits, the top one set; `exponent` is biased, of `exponent_shape`; `guard` is the first bit dropped,
    `sticky` the or of the rest."""

    sign: Value
    exponent: Value
    significand: Value
    guard: Value
    sticky: Value


class Specials(NamedTuple):
    """Which numbers a float stands for instead. A zero takes `zero_sign`, or the float's."""

    zero: ValueLike
    inf: ValueLike
    nan: ValueLike
    zero_sign: ValueLike | None = None


def round_pack(
    format: Float, number: Unrounded, specials: Specials, pipe: Pipeline | None = None
) -> Value:
    """Return the code of a number, rounded to nearest even. Of `specials` nan comes before inf, inf before zero, and zero before the number.

    `pipe`: where intermediate values become signals with names, if one is given.
    """
    sign, exponent, significand = number[:3]
    guard, sticky = number[3:]
    zero, inf, nan = specials[:3]

    def named(value: Value, name: str) -> Value:
        return value if pipe is None else pipe.wire(value, name=name)

    f, e = format.fraction_bits, format.exponent_bits
    up = guard & (sticky | significand[0])
    rounded = named((Cat(significand[:f], exponent) + up)[: f + len(exponent)], "ahead")
    biased = rounded[f:]
    small = biased[-1] | ~biased.any()
    large = ~biased[-1] & (biased[e:].any() | biased[:e].all())
    large, vanish = named(large, "large"), named(zero | (small & ~inf), "vanish")
    top = Mux(nan | inf | (large & ~zero), (1 << e) - 1, Mux(vanish, 0, biased[:e]))
    fraction = Mux(nan, 1 << (f - 1), Mux(vanish | inf | large, 0, rounded[:f]))
    whose = Mux(zero, sign if specials.zero_sign is None else specials.zero_sign, sign) & ~nan
    fraction, top = named(fraction[:f], "fraction"), named(top[:e], "top")
    return Cat(fraction, top, named(whose, "code_sign"))


def kept(s: SimpleNamespace) -> dict[str, Value]:
    """What goes beside a float's significand, by name: exponent, sign, and which numbers it stands for instead."""
    return {name: getattr(s, name) for name in ("exponent", "sign", "zero", "inf", "nan")}


def rounded(
    pipe: Pipeline,
    format: Float,
    s: SimpleNamespace,
    significand: Value,
    guard: Value,
    sticky: Value,
    **other: Value,
) -> Value:
    """Register what `round_pack` gives, with what `s` has beside the significand, but for what `other` has by name."""
    beside = kept(s) | other
    number = Unrounded(beside.pop("sign"), beside.pop("exponent"), significand, guard, sticky)
    code = round_pack(format, number, Specials(**beside))
    return pipe.rank(o=code).o


def truth(flag: Value, one: int, width: int) -> Value:
    """The code of 1 where the flag is set, else 0."""
    return Mux(flag, Const(one, unsigned(width)), 0)[:width]
