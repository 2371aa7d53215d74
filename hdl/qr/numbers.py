"""Arithmetic of the qr engine beside `hdl.arith`: float32 times a small integer, and float32 to integers."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.numerics.formats import float32
from ...models.qr.schedule import MUL
from ..arith.convert import pg_converter
from ..arith.pipeline import Pipeline, Unpacked, exponent_shape, leading_zeros, rounded
from ..arith.unit import unit
from ..stream.passing import fields

#: -0: -0 - (a · -b) is a · b, whatever its sign; added to a number it changes nothing
NOTHING = Const(0x80000000, 32)
ONE, MINUS_ONE = (Const(float32.const(x), 32) for x in (1.0, -1.0))


def operation(parts, m, label, name, a, b):
    """A float32 operation on two numbers, by an instance called `label`."""
    return parts.instance(m, label, f"{name}_float32", lambda: unit(name, float32), a=a, b=b)["o"]


def lane(parts, pipe, k, kind, products, others):
    """Lane k of a vector unit: minuend - a · b, `MUL` + `ADD` + 1 cycles after `kind` and the operands, which go through a register.

    `products`: (minuend, a, b) by kind of task; `others`: by kind what they are instead where a condition holds, the last one first.
    """
    m = pipe.m
    operands = [Signal(32, name=f"{name}{k}", reset_less=True) for name in ("minuend", "a", "b")]
    with m.Switch(kind):
        for each, sources in products.items():
            with m.Case(each):
                m.d.sync += [x.eq(value) for x, value in zip(operands, sources, strict=True)]
                for condition, instead in others.get(each, ()):
                    with m.If(condition):
                        m.d.sync += [
                            x.eq(value) for x, value in zip(operands, instead, strict=True)
                        ]
    minuend, a, b = operands
    product = operation(parts, m, f"mul{k}", "mul", a, b)
    waiting = pipe.delay(minuend, MUL, name=f"waiting{k}_")
    return operation(parts, m, f"sub{k}", "sub", waiting, product)


def as_float32(parts, m, label, value):
    """The integer (64 bits) as float32, `CONVERT` cycles later, by an instance called `label`."""
    wide = Signal(signed(64), name=f"{label}_wide")
    m.d.comb += wide.eq(value)
    return parts.instance(
        m, label, "int8_float32", lambda: pg_converter(["int8"], float32), i=wide
    )["o"]


class Times(wiring.Component):
    """float32 times an integer from -255 to 255: as `models.qr.arith.mul` of the number and the integer as float32. Latency `MUL`, II = 1.

    One product of 24 × 8 bits, where the float32 unit has two of 24 × 12, and no conversion before it.
    """

    def __init__(self):
        # codes of numbers, and an integer that is not -256
        super().__init__({"w": In(32), "x": In(signed(9)), "o": Out(32)})

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        w = Unpacked(self.w, float32)
        size = Mux(self.x < 0, -self.x, self.x)[:8]
        none = ~self.x.any()
        s = pipe.rank(
            product=w.normal_significand * size,
            exponent=w.exponent,
            sign=w.sign ^ self.x[-1],
            zero=w.zero | (none & ~w.inf),
            inf=w.inf & ~none,
            nan=w.nan | (w.inf & none),
        )
        zeros, _ = leading_zeros(s.product[23:])  # the top bit is one of these nine
        normal = (s.product << zeros)[:32]
        s = pipe.rank(
            normal=normal,
            exponent=pipe.wire(
                Cat(s.exponent, Const(0, 1)).as_signed() + 8 - zeros,
                exponent_shape(float32),
                name="exponent",
            ),
            sign=s.sign,
            zero=s.zero,
            inf=s.inf,
            nan=s.nan,
        )
        o = rounded(pipe, float32, s, s.normal[8:], s.normal[7], s.normal[:7].any())
        m.d.comb += self.o.eq(o)
        return m


class Floor(wiring.Component):
    """float32 rounded down to an integer, and truncated to a label (`models.qr.arith.to_label`). Latency `FLOOR`, II = 1."""

    def __init__(self):
        super().__init__(
            {
                "a": In(32),
                "o": Out(signed(32)),  # the greatest integer not above `a`; anything where `large`
                "inexact": Out(1),  # not an integer: `o` + 1 is the least one not below it
                "large": Out(1),  # not below 2**31 in size, or no number
                "label": Out(31),  # below 0 and NaN become 0, the greatest label is 2**31 - 1
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        a = Unpacked(self.a, float32)
        # significand · 2**7 holds all 31 bits of the greatest numbers in range; shifted right for the others
        top = float32.bias + 30
        distance = pipe.wire(top - a.exponent, name="distance")
        wide = Cat(Const(0, 38), a.normal_significand)
        shifted = pipe.wire((wide >> distance[:5])[:62], unsigned(62), name="shifted")
        tiny = (a.exponent < float32.bias) & ~a.zero
        s = pipe.rank(
            whole=Mux(tiny | a.zero, 0, shifted[31:]),
            inexact=tiny | (~a.zero & shifted[:31].any()),
            large=a.exponent > top,
            sign=a.sign,
            nan=a.nan,
        )
        below = ((Cat(s.whole, Const(0, 1)) ^ s.sign.replicate(32)) + (s.sign & ~s.inexact))[:32]
        label = Mux(s.sign | s.nan, 0, Mux(s.large, (1 << 31) - 1, s.whole))[:31]
        s = pipe.rank(o=below.as_signed(), inexact=s.inexact & ~s.large, large=s.large, label=label)
        m.d.comb += fields(self, o=s.o, inexact=s.inexact, large=s.large, label=s.label)
        return m
