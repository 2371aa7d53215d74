"""The unit's datapath for float16, bit for bit as `models.pim.unit.Float16Unit`."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring

from ...models.numerics.floating import float16
from ...models.pim.unit import GUARD
from ..arith.mx import shifted_right
from ..arith.pipeline import Pipeline, exponent_shape, round_pack
from ..arith.unit import unit
from .members import lane_members, result_members

__all__ = ["Float16Lane", "Float16Results"]

_LANES = 16
_EXPONENT = 6


class Float16Lane(wiring.Component):
    """One iteration after another: sub-chunk in, new sub-chunk and the output's sum out.

    Members are `lane_members`. The new sub-chunk comes six ranks after the old one,
    the sum four later. In attend an iteration needs the sum of the one before: iterations come every 4
    cycles at most.
    """

    depth = 6
    sum_depth = 10
    v_bits = 16
    sum_shape = signed(31)

    def __init__(self) -> None:
        super().__init__(lane_members(self.v_bits, self.sum_shape, _EXPONENT, 5))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        valid, attend, first = [self.i_valid], [self.i_attend], [self.i_first]
        for rank in range(self.sum_depth):
            for chain, name in ((valid, "valid"), (attend, "attend"), (first, "first")):
                bit = Signal(name=f"{name}{rank + 1}")
                m.d.sync += bit.eq(chain[-1])
                chain.append(bit)
        new, lost = [], []
        for lane in range(_LANES):
            part = slice(16 * lane, 16 * (lane + 1))
            data, d, k = self.i_data[part], self.i_d[part], self.i_k[part]
            m.submodules[f"decay{lane}"] = decay = unit("mul", float16)
            m.submodules[f"key{lane}"] = key = unit("mul", float16)
            m.submodules[f"sum{lane}"] = total = unit("add", float16)
            held = Signal(16, name=f"held{lane}")
            with m.If(valid[6]):
                m.d.sync += held.eq(total.o)
            so_far = Mux(first[2], 0, Mux(valid[6], total.o, held))
            m.d.comb += [
                decay.a.eq(d),
                decay.b.eq(data),
                key.a.eq(Mux(self.i_attend, data, k)),
                key.b.eq(self.i_v),
                total.a.eq(Mux(attend[2], so_far, decay.o)),
                total.b.eq(key.o),
            ]
            new.append(total.o)
            lost.append(total.o[10:15].all())
        m.d.comb += [
            self.o_code.eq(Cat(*new)),
            self.o_valid.eq(valid[self.depth]),
            self.o_saturated.eq(sum(lost)),
        ]
        self._output(m, new)
        m.d.comb += self.o_sum_valid.eq(valid[self.sum_depth])
        return m

    def _output(self, m: Module, new: list[Value]) -> None:
        """Products; the largest exponent; alignment; the sum: four ranks."""
        pipe = Pipeline(m)
        fields: dict[str, Value] = {}
        for lane, a in enumerate(new):
            b = self.i_q[16 * lane : 16 * (lane + 1)]
            none = pipe.wire(~a[10:15].any() | ~b[10:15].any(), name="none")
            product = Cat(a[:10], Const(1, 1)) * Cat(b[:10], Const(1, 1))
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
            p = shifted_right(wide, distance)
            # a complement is one too small
            aligned[f"p{lane}"] = Cat(p ^ sign.replicate(len(p)), sign)
        minus = sum(getattr(s, f"s{lane}") for lane in range(_LANES))[:5]
        s = pipe.rank(**aligned, top=s.top, minus=minus)
        terms: list[Value] = [getattr(s, f"p{lane}").as_signed() for lane in range(_LANES)]
        total = sum(terms, s.minus)
        m.d.sync += [self.o_sum.eq(total), self.o_exponent.eq(s.top)]


class Float16Results(wiring.Component):
    """Results of 32 columns, each rounded when it comes. Members are
    `result_members`."""

    reads = 2
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
        zeros: list[Value] = []
        for level in reversed(range(6)):
            step = 1 << level
            none = pipe.wire(~value[max(0, width - step) :].any(), name="none")
            zeros.insert(0, none)
            value = pipe.wire(Mux(none, value << step, value)[:width], name="value")
        s = pipe.rank(
            value=value,
            sign=sign & some,
            zero=~some,
            exponent=self.i_exponent + (width - 1) - Cat(*zeros) - (30 + 20 + GUARD) + float16.bias,
            column=self.i_column,
            valid=self.i_valid,
        )
        exponent = pipe.wire(s.exponent, exponent_shape(float16), name="exponent")
        code = pipe.wire(
            round_pack(
                float16,
                s.sign,
                exponent,
                s.value[width - 11 :],
                s.value[width - 12],
                s.value[: width - 12].any(),
                s.zero,
                Const(0),
                Const(0),
            ),
            name="code",
        )
        held = [Signal(16, name=f"held{n}") for n in range(32)]
        for n, entry in enumerate(held):
            with m.If(s.valid & (s.column == n)):
                m.d.sync += entry.eq(code)
        m.d.comb += [
            self.o_code.eq(Cat(*held)),
            self.o_saturated.eq(sum(entry[10:15].all() for entry in held)),
        ]
        return m
