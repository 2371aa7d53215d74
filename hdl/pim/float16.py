"""The unit's datapath for float16, bit for bit as `models.pim.unit.Float16Unit`."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring

from ...models.numerics.floating import float16
from ...models.pim.unit import GUARD, INNER
from ..arith.pipeline import (
    Pipeline,
    Specials,
    Unpacked,
    Unrounded,
    exponent_shape,
    leading_zeros,
    round_pack,
)
from ..arith.shift import shifted_right
from ..arith.unit import unit
from .members import lane_members, result_members
from .mx import leading

_LANES = 16
_EXPONENT = 6


def _widened(code: Value) -> Value:
    """A code of float16 in INNER; subnormal numbers are zeros."""
    exponent = code[10:15]
    number, top = exponent.any(), exponent.all()
    return Cat(code[:10], exponent[:4], (number & ~exponent[4]) | top, exponent[4], code[15])


def _narrowed(code: Value) -> Value:
    """A code of INNER in float16."""
    exponent = code[10:16]
    nan = exponent.all() & code[:10].any()
    over, under = exponent >= 47, exponent <= 16
    fraction = Mux((over & ~nan) | under, 0, code[:10])
    return Cat(fraction[:10], Mux(over, 31, Mux(under, 0, (exponent - 16)[:5]))[:5], code[16])


def normalised(pipe: Pipeline, code: Value) -> Value:
    """A rate (`models.pim.rate`) in INNER: subnormal rates are shifted until they have a leading one."""
    fraction, exponent = code[:10], code[10:15]
    zeros, some = leading_zeros(fraction)
    zeros = pipe.wire(zeros, name="zeros")
    small = Cat((fraction << (zeros + 1))[:10], Mux(some, 16 - zeros, 0)[:6])
    rate = Mux(exponent.any(), _widened(code)[:16], small)[:16]
    return Cat(pipe.wire(rate, name="rate"), code[15])


class Float16Lane(wiring.Component):
    """One iteration after another: sub-chunk in, new sub-chunk and the output's sum out.

    Rates are `normalised`. A number's multiplier makes c S in the first cycle and k v in the
    next: operands and sub-chunk stay for four cycles, and iterations come every four at most, also because in attend
    one needs the sum of the one before. The new sub-chunk comes ten ranks after the old one, the sum four later; where
    nothing changes (`i_score`), four ranks after the old sub-chunk.
    """

    depth, wait = 10, 0
    sum_depth = 14
    v_bits = 16
    sum_shape = signed(31)

    def __init__(self) -> None:
        rates = _LANES * INNER.width
        super().__init__(lane_members(self.v_bits, rates, self.sum_shape, _EXPONENT, 5))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        valid, first = [self.i_valid], [self.i_first]
        for rank in range(self.sum_depth):
            for chain, name in ((valid, "valid"), (first, "first")):
                bit = Signal(name=f"{name}{rank + 1}")
                m.d.sync += bit.eq(chain[-1])
                chain.append(bit)
        new = [self._number(m, lane, valid, first[6]) for lane in range(_LANES)]
        m.d.comb += [
            self.o_code.eq(Cat(*new)),
            self.o_valid.eq(valid[self.depth]),
            self.o_saturated.eq(sum(code[10:15].all() for code in new)),
        ]
        self._output(m, [Mux(self.i_score, self._data(n), code) for n, code in enumerate(new)])
        m.d.comb += self.o_sum_valid.eq(
            Mux(self.i_score, valid[self.sum_depth - self.depth], valid[self.sum_depth])
        )
        return m

    def _data(self, lane: int) -> Value:
        return self.i_data[16 * lane : 16 * (lane + 1)]

    def _number(self, m: Module, lane: int, valid: list[Signal], first: Signal) -> Value:
        """The new number of a lane: in update S + (k v − c S), in attend the sum so far + V s."""
        pipe, width = Pipeline(m), INNER.width
        data, k = self._data(lane), self.i_k[16 * lane : 16 * (lane + 1)]
        c = self.i_c[width * lane : width * (lane + 1)]
        factor = pipe.wire(Mux(self.i_valid, c, _widened(self.i_v))[:width], name="factor")
        chosen = pipe.wire(Mux(self.i_valid | self.i_attend, data, k)[:16], name="chosen")
        other = _widened(chosen)
        product = self._product(pipe, factor, pipe.wire(other, name="other"))
        m.submodules[f"change{lane}"] = change = unit("add", INNER)
        m.submodules[f"sum{lane}"] = total = unit("add", INNER)
        decayed = Signal(width, name=f"decayed{lane}")
        old, held = Signal(16, name=f"old{lane}"), Signal(width, name=f"held{lane}")
        m.d.sync += decayed.eq(Mux(self.i_attend, 0, product))
        with m.If(valid[3]):
            m.d.sync += old.eq(data)
        with m.If(valid[self.depth]):
            m.d.sync += held.eq(total.o)
        so_far = Mux(first, 0, Mux(valid[self.depth], total.o, held))
        m.d.comb += [
            change.a.eq(product),
            change.b.eq(Cat(decayed[:-1], ~decayed[-1])),
            total.a.eq(Mux(self.i_attend, so_far, _widened(old))),
            total.b.eq(Cat(change.o[:-1], change.o[-1] | ~change.o[10:16].any())),  # zeros are −0
        ]
        return pipe.wire(_narrowed(total.o), name="new")

    @staticmethod
    def _product(pipe: Pipeline, a: Value, b: Value) -> Value:
        """a · b, rounded, and 0 where one of them is 0: one rank, and then no register."""
        x, y, p = Unpacked(a, INNER), Unpacked(b, INNER), INNER.fraction_bits + 1
        exponent = x.exponent + y.exponent - INNER.bias
        none = pipe.wire(x.zero | y.zero, name="none")
        product = x.normal_significand * y.normal_significand
        s = pipe.rank(
            exponent=pipe.wire(exponent, exponent_shape(INNER), name="exponent"),
            product=pipe.wire(product, name="product"),
            sign=x.sign ^ y.sign,
            zero=none,
            inf=(x.inf | y.inf) & ~none,
            nan=(x.nan | y.nan) & ~none,
        )
        wide = s.product[-1]
        number = Unrounded(
            s.sign,
            pipe.wire(s.exponent + wide, exponent_shape(INNER), name="exponent"),
            Mux(wide, s.product[p:], s.product[p - 1 : -1]),
            Mux(wide, s.product[p - 1], s.product[p - 2]),
            s.product[: p - 2].any() | (wide & s.product[p - 2]),
        )
        code = round_pack(INNER, number, Specials(s.zero, s.inf, s.nan), pipe)
        return pipe.wire(code, name="rounded")

    def _output(self, m: Module, new: list[Value]) -> None:
        """Products; the largest exponent; alignment; the sum: four ranks."""
        pipe = Pipeline(m)
        fields: dict[str, Value] = {}
        for lane, a in enumerate(new):
            b = self.i_q[16 * lane : 16 * (lane + 1)]
            none = pipe.wire(~a[10:15].any() | ~b[10:15].any(), name="none")
            product = Cat(a[:10], Const(1, 1)) * Cat(b[:10], Const(1, 1))
            product = pipe.wire(product, name="term")
            fields[f"p{lane}"] = Mux(none, 0, product)[:22]
            fields[f"e{lane}"] = Mux(none, 0, a[10:15] + b[10:15])[:_EXPONENT]
            fields[f"s{lane}"] = a[15] ^ b[15]
        s = pipe.rank(**fields)
        nodes: list[Value] = [getattr(s, f"e{lane}") for lane in range(_LANES)]
        while len(nodes) > 1:
            nodes = [
                pipe.wire(Mux(a > b, a, b), name="larger")
                for a, b in zip(nodes[::2], nodes[1::2], strict=True)
            ]
        s = pipe.rank(**vars(s), top=nodes[0])
        aligned: dict[str, Value] = {}
        for lane in range(_LANES):
            distance = pipe.wire(s.top - getattr(s, f"e{lane}"), name="distance")[:_EXPONENT]
            wide = Cat(Const(0, GUARD), getattr(s, f"p{lane}"))
            sign = getattr(s, f"s{lane}")
            p = shifted_right(pipe.m, wide, distance)
            # a complement is one too small
            aligned[f"p{lane}"] = Cat(p ^ sign.replicate(len(p)), sign)
        minus = sum(getattr(s, f"s{lane}") for lane in range(_LANES))[:5]
        s = pipe.rank(**aligned, top=s.top, minus=minus)
        terms: list[Value] = [getattr(s, f"p{lane}").as_signed() for lane in range(_LANES)]
        total = sum(terms, s.minus)
        m.d.sync += [self.o_sum.eq(total), self.o_exponent.eq(s.top)]


class Float16Results(wiring.Component):
    """Results of 32 columns, each rounded when it comes."""

    reads, latency = 2, 2
    sum_shape = signed(33)

    def __init__(self) -> None:
        super().__init__(result_members(self.sum_shape, _EXPONENT, self.reads, 6))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        pipe = Pipeline(m)
        width = 33
        sign = self.i_sum < 0
        value = pipe.wire(Mux(sign, -self.i_sum, self.i_sum)[:width], name="value")
        some = value.any()
        value, zeros = leading(pipe, value, 6)
        s = pipe.rank(
            value=value,
            sign=sign & some,
            zero=~some,
            exponent=self.i_exponent + (width - 1) - zeros - (30 + 20 + GUARD) + float16.bias,
            column=self.i_column,
            valid=self.i_valid,
        )
        exponent = pipe.wire(s.exponent, exponent_shape(float16), name="exponent")
        number = Unrounded(
            s.sign,
            exponent,
            s.value[width - 11 :],
            s.value[width - 12],
            s.value[: width - 12].any(),
        )
        specials = Specials(s.zero, Const(0), Const(0))
        code = pipe.wire(round_pack(float16, number, specials), name="code")
        held = [Signal(16, name=f"held{n}") for n in range(32)]
        for n, entry in enumerate(held):
            with m.If(s.valid & (s.column == n)):
                m.d.sync += entry.eq(code)
        m.d.comb += [
            self.o_code.eq(Cat(*held)),
            self.o_saturated.eq(sum(entry[10:15].all() for entry in held)),
        ]
        return m
