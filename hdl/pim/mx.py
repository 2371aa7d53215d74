"""The unit's datapath for MX8, bit for bit as `models.pim.unit.MxUnit`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring

from ...models.numerics.mx import BIAS, FAMILY, GROUP, LARGEST
from ...models.pim.unit import GUARD, WIDTH
from ..arith import mx
from ..arith.pipeline import Pipeline
from .members import lane_members, result_members

__all__ = ["MxLane", "MxResults"]

MX8 = FAMILY["mx8"]
#: an exponent sum of two biased exponents
_EXPONENT = 9


class MxLane(wiring.Component):
    """One iteration after another: sub-chunk in, new sub-chunk and the output's sum out.

    Members are `lane_members`; `i_v` is {magnitude 6, sign, micro, exponent 8}. `o_draw` comes four ranks
    after the sub-chunk.
    """

    depth = 5
    sum_depth = 8
    v_bits = 16
    sum_shape = signed(26)

    def __init__(self) -> None:
        super().__init__(lane_members(self.v_bits, self.sum_shape, _EXPONENT, 2))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        valid = [self.i_valid]
        for rank in range(self.sum_depth):
            bit = Signal(name=f"valid{rank + 1}")
            m.d.sync += bit.eq(valid[-1])
            valid.append(bit)
        pipes = [Pipeline(m) for _ in range(2)]
        groups = [self._group(m, pipe, g, valid) for g, pipe in enumerate(pipes)]
        m.d.comb += [
            self.o_code.eq(Cat(*(g.code for g in groups))),
            self.o_saturated.eq(sum(g.saturated for g in groups)),
            self.o_valid.eq(valid[self.depth]),
            self.o_draw.eq(valid[self.depth - 1]),
        ]
        a, b = groups
        big = Signal()
        m.d.comb += big.eq(a.exponent >= b.exponent)
        near = Mux(big, a.sum, b.sum)
        far = Mux(big, b.sum, a.sum)
        distance = Mux(big, a.exponent - b.exponent, b.exponent - a.exponent)[:_EXPONENT]
        m.d.sync += [
            self.o_sum.eq(near + floored(far, distance)),
            self.o_exponent.eq(Mux(big, a.exponent, b.exponent)),
        ]
        m.d.comb += self.o_sum_valid.eq(valid[self.sum_depth])
        return m

    def _group(self, m: Module, pipe: Pipeline, g: int, valid: list[Signal]) -> SimpleNamespace:
        part = slice(128 * g, 128 * (g + 1))
        data, d = (mx.unpack(v[part], MX8) for v in (self.i_data, self.i_d))
        element = self.i_v
        one = mx.Group(element[8:], [element[7]] * 8, [element[:6]] * GROUP, [element[6]] * GROUP)
        # rank 1: both products
        kept = mx.unpack(Mux(self.i_attend, self.i_data[part], self.i_k[part])[:128], MX8)
        decayed, decayed_sign = mx.product(d, data)
        added, added_sign = mx.product(kept, one)
        s = pipe.rank(
            **{f"a{n}": v for n, v in enumerate(decayed)},
            **{f"b{n}": v for n, v in enumerate(added)},
            a_sign=Cat(*decayed_sign),
            b_sign=Cat(*added_sign),
            a_exponent=d.exponent + data.exponent,
            b_exponent=Mux(one.magnitude[0].any(), kept.exponent + one.exponent, 0)[:_EXPONENT],
            attend=self.i_attend,
            first=self.i_first,
            stochastic=self.i_stochastic,
        )
        # rank 2: align; attend adds to its own sum
        sums = [Signal(WIDTH, name=f"sum{g}_{n}") for n in range(GROUP)]
        sum_signs, sum_exponent = Signal(GROUP, name=f"signs{g}"), Signal(10, name=f"exponent{g}")
        old = [
            Mux(s.attend, Mux(s.first, 0, sums[n]), getattr(s, f"a{n}") << GUARD)[:WIDTH]
            for n in range(GROUP)
        ]
        old_exponent = Mux(s.attend, Mux(s.first, 0, sum_exponent), s.a_exponent)[:10]
        big = pipe.wire(old_exponent >= s.b_exponent, name="big")
        apart = Mux(big, old_exponent - s.b_exponent, s.b_exponent - old_exponent)
        distance = pipe.wire(apart[:10], name="distance")
        old_sign = Mux(s.attend, sum_signs, s.a_sign)
        differ = pipe.wire(old_sign ^ s.b_sign, name="differ")
        near, far = [], []
        for n in range(GROUP):
            added = (getattr(s, f"b{n}") << GUARD)[:WIDTH]
            near.append(Mux(big, old[n], added)[:WIDTH])
            aligned = mx.shifted_right(Mux(big, added, old[n])[:WIDTH], distance)
            far.append(aligned ^ differ[n].replicate(WIDTH))  # for a difference
        s = pipe.rank(
            **{f"a{n}": v for n, v in enumerate(near)},
            **{f"b{n}": v for n, v in enumerate(far)},
            sign=Mux(big, old_sign, s.b_sign),
            differ=differ,
            exponent=Mux(big, old_exponent, s.b_exponent)[:10],
            attend=s.attend,
            stochastic=s.stochastic,
        )
        # rank 3: add; in attend, all are shifted where one needs another bit. A difference is that of
        # magnitudes: a + ~b carries out where a > b and is one too small, else it is the complement
        totals, signs = [], []
        for n in range(GROUP):
            a, b, minus = getattr(s, f"a{n}"), getattr(s, f"b{n}"), s.differ[n]
            total = pipe.wire((a + b)[: WIDTH + 1], name="total")
            less = pipe.wire(minus & ~total[WIDTH], name="less")
            whole = Cat(total[:WIDTH], total[WIDTH] & ~minus)
            more = pipe.wire((whole + (minus & total[WIDTH]))[: WIDTH + 1], name="more")
            totals.append(Cat(more[:WIDTH] ^ less.replicate(WIDTH), more[WIDTH]))
            signs.append(s.sign[n] ^ less)
        carry = pipe.wire(Cat(*(t[WIDTH] for t in totals)).any() & s.attend, name="carry")
        taken = valid[2]
        with m.If(taken):
            for n in range(GROUP):
                m.d.sync += sums[n].eq(Mux(carry, totals[n][1:], totals[n][:WIDTH]))
            m.d.sync += [sum_signs.eq(Cat(*signs)), sum_exponent.eq(s.exponent + carry)]
        pipe.depth += 1
        stochastic = pipe.delay(s.stochastic, 1, name="stochastic")
        # ranks 4 and 5: the new groups
        unit = (sum_exponent - (BIAS + 2 * (MX8.magnitude_bits - 1) + 2 + GUARD)).as_signed()
        random = [
            self.i_random[8 * (GROUP * g + n) : 8 * (GROUP * g + n + 1)] for n in range(GROUP)
        ]
        code, saturated = mx.renormalise(
            pipe, MX8, list(sums), [sum_signs[n] for n in range(GROUP)], unit, random, stochastic
        )
        # rank 6: products with q; rank 7: their sum; rank 8 joins the groups
        state, query = mx.unpack(code, MX8), mx.unpack(self.i_q[part], MX8)
        magnitude, sign = mx.product(state, query)
        t = pipe.rank(
            **{
                f"p{n}": Cat(p ^ s.replicate(len(p)), s)
                for n, (p, s) in enumerate(zip(magnitude, sign, strict=True))
            },
            minus=sum(sign)[:5],
            exponent=state.exponent + query.exponent,
        )
        terms: list[Value] = [getattr(t, f"p{n}").as_signed() for n in range(GROUP)]
        total = pipe.wire(sum(terms, t.minus), signed(20), name="total")
        u = pipe.rank(
            sum=total << GUARD,
            exponent=Mux(total == 0, 0, t.exponent)[:_EXPONENT],
        )
        return SimpleNamespace(code=code, saturated=saturated, sum=u.sum, exponent=u.exponent)


def floored(value: Value, amount: Value) -> Value:
    """A signed value shifted right, rounded down; as wide as `value`."""
    width = len(value)
    out = value.as_signed()
    levels = (width - 1).bit_length()
    for level in range(min(levels, len(amount))):
        out = Mux(amount[level], (out >> (1 << level)), out)[:width].as_signed()
    if len(amount) > levels:
        out = Mux(amount[levels:].any(), out[-1].replicate(width), out)[:width].as_signed()
    return out


class MxResults(wiring.Component):
    """Results of 32 columns: sums in, in the order of their columns; packed groups out, four ranks after the
    last sum. Members are `result_members`."""

    reads = 1
    sum_shape = signed(28)

    def __init__(self) -> None:
        super().__init__(result_members(self.sum_shape, _EXPONENT, self.reads, 2))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        pipe = Pipeline(m)
        # rank 1: magnitudes without their sign
        s = pipe.rank(
            magnitude=Mux(self.i_sum < 0, -self.i_sum, self.i_sum)[:28],
            sign=self.i_sum < 0,
            exponent=self.i_exponent,
            column=self.i_column,
            valid=self.i_valid,
        )
        # rank 2: seven bits from the leading one
        value: Value = s.magnitude
        zeros: list[Value] = []
        for level in reversed(range(5)):
            step = 1 << level
            none = pipe.wire(~value[28 - step :].any(), name="none")
            zeros.insert(0, none)
            value = pipe.wire(Mux(none, value << step, value)[:28], name="value")
        offset = 2 * BIAS + 2 * (MX8.magnitude_bits - 1) + 2 + GUARD
        power = pipe.wire(s.exponent + 27 - Cat(*zeros) - offset, signed(11), name="power")
        entry = Cat(s.sign, value[-7:], s.magnitude.any(), power)
        s = pipe.rank(entry=entry, column=s.column, valid=s.valid)
        # rank 3: kept, with the largest exponent so far of its pair and of its group
        entries = [Signal(len(entry), name=f"entry{n}") for n in range(32)]
        pairs = [Signal(signed(12), name=f"pair{n}") for n in range(16)]
        tops = [Signal(signed(12), name=f"top{n}") for n in (0, 1)]
        _, cut, some, power = _fields(s.entry)
        reach = pipe.wire(Mux(some, power + cut.all(), _LEAST), signed(12), name="reach")
        for group, per in ((entries, 1), (pairs, 2), (tops, GROUP)):
            index = s.column[per.bit_length() - 1 :]
            first = s.column[: per.bit_length() - 1] == 0
            for n, held in enumerate(group):
                with m.If(s.valid & (index == n)):
                    if per == 1:
                        m.d.sync += held.eq(s.entry)
                    else:
                        with m.If(first | (reach > held)):
                            m.d.sync += held.eq(reach)
        # rank 4: rounded beside the largest
        codes, lost = [], []
        for g, top in enumerate(tops):
            own = slice(GROUP * g, GROUP * (g + 1)), slice(GROUP // 2 * g, GROUP // 2 * (g + 1))
            code, saturated = self._group(pipe, entries[own[0]], pairs[own[1]], top)
            codes.append(code)
            lost.append(saturated)
        m.d.sync += [self.o_code.eq(Cat(*codes)), self.o_saturated.eq(lost[0] + lost[1])]
        return m

    def _group(
        self, pipe: Pipeline, entries: list[Signal], pairs: list[Signal], top: Signal
    ) -> tuple[Value, Value]:
        biased = pipe.wire(top + BIAS, signed(13), name="biased")
        gone = pipe.wire(biased < 0, name="gone")
        saturated = biased > LARGEST
        micros, magnitudes, signs = [], [], []
        for pair, reach in enumerate(pairs):
            micro = pipe.wire(reach < top, name="micro")
            micros.append(micro & ~gone)
            level = pipe.wire(top - micro, signed(13), name="level")
            for entry in entries[2 * pair : 2 * pair + 2]:
                sign, cut, some, power = _fields(entry)
                # one bit below the last place, which rounds
                below = pipe.wire((level - power)[:12], name="below")
                doubled = pipe.wire(mx.shifted_right(cut, below), name="doubled")
                rounded = (doubled[1:] + doubled[0])[:6]
                value = pipe.wire(Mux(some & ~gone, rounded, 0)[:6], name="m")
                magnitudes.append(value)
                signs.append(sign & value.any())
        exponent = Mux(gone, 0, Mux(saturated, LARGEST, biased[:8]))[:8]
        return mx.pack(mx.Group(exponent, micros, magnitudes, signs)), saturated


#: the exponent of a number that is 0
_LEAST = -(1 << 11)


def _fields(entry: Value) -> tuple[Value, Value, Value, Value]:
    """Sign, seven bits from the leading one, whether there is one, and its exponent."""
    return entry[0], entry[1:8], entry[8], entry[9:].as_signed()
