"""The datapath of a state-update unit in MX8: a new state is S − c S + k v, rounded by `hdl.arith.mx.renormalise`; bit for bit `models.pim.unit.MxUnit`."""

from types import SimpleNamespace
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring

from ...models.numerics.mx import BIAS, FAMILY, GROUP, LARGEST
from ...models.pim.unit import FRACTION, GUARD, WIDTH
from ..arith import mx
from ..arith.pipeline import Pipeline
from ..arith.shift import shifted_right
from .members import lane_members, result_members

MX8 = FAMILY["mx8"]
#: an exponent sum of two biased exponents
_EXPONENT = 9
#: bits of a rate's magnitude, of S − c S, and of a product with its microexponents folded in
_RATE, _KEPT, _PRODUCT = 11, FRACTION + 3, 2 * MX8.magnitude_bits + 2


class MxLane(wiring.Component):
    """One iteration after another: sub-chunk in, new sub-chunk and the output's sum out.

    `i_v` is {magnitude 6, sign, micro, exponent 8}. A number has one multiplier: it makes c S in
    the first cycle, k v in the next, and the product with q, of the new sub-chunk, when it is free: `wait` ranks after
    that is there. Iterations less than three cycles apart have a multiplier for each product, and no attend. `o_draw` comes five ranks after
    the sub-chunk.

    * `apart`: cycles from one iteration to the next, 1 or more.
    """

    depth = 6
    v_bits = 16
    sum_shape = signed(26)

    def __init__(self, apart: int) -> None:
        if apart < 1:
            raise ValueError(f"iterations cannot come {apart} cycles apart")
        self.fast = apart < 3
        self.wait = next(n for n in range(3) if self.fast or (self.depth + n) % apart > 1)
        self.sum_depth = self.depth + self.wait + 3
        rates = 2 * 16 * GROUP
        super().__init__(lane_members(self.v_bits, rates, self.sum_shape, _EXPONENT, 2))

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
            self.o_sum.eq(near + floored(pipes[0], far, distance)),
            self.o_exponent.eq(Mux(big, a.exponent, b.exponent)),
        ]
        m.d.comb += self.o_sum_valid.eq(valid[self.sum_depth])
        return m

    def _terms(
        self, pipe: Pipeline, g: int, last: Value, new: list[Signal], q: list[Signal]
    ) -> SimpleNamespace:
        """S − c S, and k v (in attend V s), with their exponents: two ranks. Beside them `products`, those of what is
        multiplied now: where `last`, of new numbers and q."""
        part = slice(128 * g, 128 * (g + 1))
        data, element = mx.unpack(self.i_data[part], MX8), self.i_v
        rates = [self.i_c[16 * n : 16 * (n + 1)] for n in range(GROUP * g, GROUP * (g + 1))]
        # rank 1: c S, then k v; fast units make them at once, and keep what rank 2 needs
        mine = self.i_attend | self.i_valid
        kept = mx.unpack(Mux(mine, self.i_data[part], self.i_k[part])[:128], MX8)
        v = Mux(element[7], element[:6], element[:6] << 1)[:7]
        product = lambda a, b: pipe.wire(a * b, name="product")
        factors = [Cat(c[:10], c[10:15].any()) for c in rates]
        beside = {n: getattr(self, f"i_{n}") for n in ("attend", "first", "stochastic")}
        if self.fast:
            products, firsts = (
                list(map(product, *of)) for of in ((new, q), (data.magnitude, factors))
            )
            added = [product(a, v) for a in mx.unpack(self.i_k[part], MX8).magnitude]
            held = [self.i_data[part], self.i_k[part], element, *rates, *added]
            later = [pipe.delay(value, 1, name="held") for value in held]
            data, kept = (mx.unpack(one, MX8) for one in later[:2])
            element, rates, seconds = later[2], later[3 : 3 + GROUP], later[3 + GROUP :]
        else:
            products = []
            for n, rate in enumerate(factors):
                factor = Mux(self.i_valid, rate, Mux(last, q[n], v))[:_RATE]
                products.append(product(Mux(last, new[n], kept.magnitude[n]), factor))
            firsts = seconds = products
        s = pipe.rank(**{f"p{n}": p for n, p in enumerate(firsts)}, **beside)
        # rank 2: S less c S; the second products with their microexponents
        extra, rests = self._fours(pipe, rates), []
        for n, c in enumerate(rates):
            rests.append(self._less(pipe, c, extra, data.magnitude[n], getattr(s, f"p{n}")))
        first = [
            Mux(data.micro[n // 2], value >> 1, value)[:_KEPT] for n, (value, _) in enumerate(rests)
        ]
        second = [
            Mux(kept.micro[n // 2], p[:13], p[:13] << 1)[:_PRODUCT] for n, p in enumerate(seconds)
        ]
        terms = pipe.rank(
            **{f"a{n}": value for n, value in enumerate(first)},
            **{f"b{n}": value for n, value in enumerate(second)},
            a_sign=Cat(*(sign ^ data.sign[n] for n, (_, sign) in enumerate(rests))),
            b_sign=Cat(*(sign ^ element[6] for sign in kept.sign)),
            a_exponent=(data.exponent + BIAS + (extra << 2))[:_EXPONENT],
            b_exponent=Mux(element[:6].any(), kept.exponent + element[8:], 0)[:_EXPONENT],
            **{name: getattr(s, name) for name in beside},
        )
        return SimpleNamespace(**vars(terms), products=products)

    @staticmethod
    def _exponent(c: Value) -> Value:
        """A rate's exponent, 1 where it is subnormal."""
        return Cat(c[10] | ~c[10:15].any(), c[11:15])

    def _fours(self, pipe: Pipeline, rates: list[Value]) -> Value:
        """How many times four bits a group's power of two is above that of S: none for rates below 2."""
        above = []
        for c in rates:
            high = self._exponent(c)[2:]
            above.append(Cat(high[2], high[2] & high[:2].any(), high[2] & high[1], high.all()))
        reached = pipe.wire(_joined(above), name="reached")
        return pipe.wire(sum(reached), name="extra")

    def _less(
        self, pipe: Pipeline, c: Value, extra: Value, magnitude: Value, product: Value
    ) -> tuple[Value, Value]:
        """S − c S of a magnitude and its product with a rate, and whether the sign turns."""
        exponent = self._exponent(c)
        # 15 + 4 · extra − exponent; extra has no part in the lowest two bits
        amount = pipe.wire(Cat(~exponent[:2], (extra + 3 - exponent[2:])[:3]), name="amount")
        cut = shifted_right(pipe.m, Cat(Const(0, FRACTION - 15), product), amount)
        place = Cat(Const(0, FRACTION - MX8.magnitude_bits + 1), magnitude)
        minuend = shifted_right(pipe.m, place, Cat(Const(0, 2), extra))
        minus = ~c[15]
        addend = Cat(cut, Const(0, _KEPT + 1 - len(cut))) ^ minus.replicate(_KEPT + 1)
        total = pipe.wire((minuend + addend + minus)[: _KEPT + 1], name="kept")
        turned = total[-1]  # a complement is one too small
        return total[:-1] ^ turned.replicate(_KEPT), turned

    def _group(self, m: Module, pipe: Pipeline, g: int, valid: list[Signal]) -> SimpleNamespace:
        new = [Signal(MX8.magnitude_bits, name=f"new{g}_{n}") for n in range(GROUP)]
        factor = [Signal(MX8.magnitude_bits + 1, name=f"q{g}_{n}") for n in range(GROUP)]
        s = self._terms(pipe, g, valid[self.depth + self.wait], new, factor)
        products = s.products
        # attend adds to its own sum, which begins at 0
        sums = [Signal(WIDTH, name=f"sum{g}_{n}") for n in range(GROUP)]
        sum_signs, sum_exponent = Signal(GROUP, name=f"signs{g}"), Signal(10, name=f"exponent{g}")
        with m.If(valid[1] & self.i_attend & self.i_first):
            m.d.sync += [held.eq(0) for held in (*sums, sum_exponent)]
        s = self._aligned(pipe, s, sums, sum_signs, sum_exponent)
        totals, signs = self._added(pipe, s)
        carry = pipe.wire(Cat(*(t[WIDTH] for t in totals)).any() & s.attend, name="carry")
        taken = valid[3]
        with m.If(taken):
            for n in range(GROUP):
                m.d.sync += sums[n].eq(Mux(carry, totals[n][1:], totals[n][:WIDTH]))
            m.d.sync += [sum_signs.eq(Cat(*signs)), sum_exponent.eq(s.exponent + carry)]
        pipe.depth += 1
        stochastic = pipe.delay(s.stochastic, 1, name="stochastic")
        # ranks 5 and 6: the new groups
        unit = (sum_exponent - (BIAS + FRACTION)).as_signed()
        random = [
            self.i_random[8 * (GROUP * g + n) : 8 * (GROUP * g + n + 1)] for n in range(GROUP)
        ]
        rounding = random, stochastic
        code, saturated = mx.renormalise(
            pipe, MX8, list(sums), [sum_signs[n] for n in range(GROUP)], unit, rounding
        )
        total, exponent = self._queried(pipe, g, code, products, new, factor)
        return SimpleNamespace(code=code, saturated=saturated, sum=total, exponent=exponent)

    @staticmethod
    def _aligned(
        pipe: Pipeline, s: SimpleNamespace, sums: list[Signal], signs: Signal, exponent: Signal
    ) -> SimpleNamespace:
        """Rank 3: what is added to, and the addend, under one exponent; the smaller one's complement for a difference."""
        old = [Mux(s.attend, sums[n], getattr(s, f"a{n}"))[:WIDTH] for n in range(GROUP)]
        old_exponent = Mux(s.attend, exponent, s.a_exponent)[:10]
        big = pipe.wire(old_exponent >= s.b_exponent, name="big")
        apart = Mux(big, old_exponent - s.b_exponent, s.b_exponent - old_exponent)
        distance = pipe.wire(apart[:10], name="distance")
        old_sign = Mux(s.attend, signs, s.a_sign)
        differ = pipe.wire(old_sign ^ s.b_sign, name="differ")
        near, far = [], []
        for n in range(GROUP):
            added = (getattr(s, f"b{n}") << (FRACTION - _PRODUCT + 2))[:WIDTH]
            near.append(Mux(big, old[n], added)[:WIDTH])
            aligned = shifted_right(pipe.m, Mux(big, added, old[n])[:WIDTH], distance)
            far.append(aligned ^ differ[n].replicate(WIDTH))  # for a difference
        return pipe.rank(
            **{f"a{n}": v for n, v in enumerate(near)},
            **{f"b{n}": v for n, v in enumerate(far)},
            sign=Mux(big, old_sign, s.b_sign),
            differ=differ,
            exponent=Mux(big, old_exponent, s.b_exponent)[:10],
            attend=s.attend,
            stochastic=s.stochastic,
        )

    @staticmethod
    def _added(pipe: Pipeline, s: SimpleNamespace) -> tuple[list[Value], list[Value]]:
        """Rank 4: magnitudes and signs of the sums; in attend, all are shifted where one needs another bit.

        A difference is that of magnitudes: a + ~b carries out where a > b and is one too small, else it is the complement.
        """
        totals, signs = [], []
        for n in range(GROUP):
            a, b, minus = getattr(s, f"a{n}"), getattr(s, f"b{n}"), s.differ[n]
            total = pipe.wire((a + b)[: WIDTH + 1], name="total")
            less = pipe.wire(minus & ~total[WIDTH], name="less")
            sum_bits = Cat(total[:WIDTH], total[WIDTH] & ~minus)
            more = pipe.wire((sum_bits + (minus & total[WIDTH]))[: WIDTH + 1], name="more")
            magnitude = pipe.wire(more[:WIDTH] ^ less.replicate(WIDTH), name="magnitude")
            totals.append(Cat(magnitude, more[WIDTH]))
            signs.append(s.sign[n] ^ less)
        return totals, signs

    def _queried(
        self,
        pipe: Pipeline,
        g: int,
        code: Value,
        products: list[Signal],
        new: list[Signal],
        factor: list[Signal],
    ) -> tuple[Value, Value]:
        """Return the sum of the products of group `g`'s new numbers with q, and its exponent.

        `code`: the new numbers in MX8; they are multiplied `wait` ranks later. `new`, `factor`: inputs of multipliers, which are set here; `products`: what
        these multipliers give.
        """
        state = mx.unpack(pipe.delay(code, self.wait, name="code"), MX8)
        query = mx.unpack(self.i_q[128 * g : 128 * (g + 1)], MX8)
        signed_products, sign = [], []
        for n in range(GROUP):
            magnitude = query.magnitude[n]
            p = products[n][: 2 * MX8.magnitude_bits + 1]
            product = Mux(state.micro[n // 2], p, p << 1)[:_PRODUCT]
            sign.append(pipe.wire(state.sign[n] ^ query.sign[n], name="sign"))
            signed_products.append(Cat(product ^ sign[n].replicate(_PRODUCT), sign[n]))
            pipe.m.d.comb += [
                new[n].eq(state.magnitude[n]),
                factor[n].eq(Mux(query.micro[n // 2], magnitude, magnitude << 1)),
            ]
        t = pipe.rank(
            **{f"p{n}": p for n, p in enumerate(signed_products)},
            minus=sum(sign)[:5],  # what the complements above lack of the negative products
            exponent=state.exponent + query.exponent,
        )
        terms: list[Value] = [getattr(t, f"p{n}").as_signed() for n in range(GROUP)]
        total = pipe.wire(sum(terms, t.minus), signed(20), name="total")
        # the last rank joins the groups
        u = pipe.rank(sum=total << GUARD, exponent=Mux(total == 0, 0, t.exponent)[:_EXPONENT])
        return u.sum, u.exponent


def _joined(values: list[Value]) -> Value:
    """The bits that are set in any of the values."""
    joined = values[0]
    for value in values[1:]:
        joined = joined | value
    return joined


def leading(pipe: Pipeline, value: Value, bits: int) -> tuple[Value, Value]:
    """A value shifted left until its highest bit is 1, as far as a number of so many bits goes, and that number."""
    width, zeros = len(value), list[Value]()
    for level in reversed(range(bits)):
        step = 1 << level
        none = pipe.wire(~value[max(0, width - step) :].any(), name="none")
        zeros.insert(0, none)
        value = pipe.wire(Mux(none, value << step, value)[:width], name="value")
    return value, Cat(*zeros)


def floored(pipe: Pipeline, value: Value, amount: Value) -> Value:
    """A signed value shifted right, rounded down; as wide as `value`."""
    width, amount = len(value), pipe.wire(amount, name="by")
    wire = lambda v: pipe.wire(v[:width].as_signed(), signed(width), name="floored")
    out = wire(value)
    levels = (width - 1).bit_length()
    for level in range(min(levels, len(amount))):
        out = wire(Mux(amount[level], (out >> (1 << level)), out))
    if len(amount) > levels:
        out = wire(Mux(amount[levels:].any(), out[-1].replicate(width), out))
    return out


class MxResults(wiring.Component):
    """Results of 32 columns: sums in, in the order of their columns; packed groups out, four ranks after the
    last sum."""

    reads, latency = 1, 4
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
        value, zeros = leading(pipe, s.magnitude, 5)
        offset = 2 * BIAS + 2 * (MX8.magnitude_bits - 1) + 2 + GUARD
        power = pipe.wire(s.exponent + 27 - zeros - offset, signed(11), name="power")
        entry = Cat(s.sign, value[-7:], s.magnitude.any(), power)
        s = pipe.rank(entry=entry, column=s.column, valid=s.valid)
        # rank 3: kept, with the largest exponent so far of its pair and of its group
        entries = [Signal(len(entry), name=f"entry{n}") for n in range(32)]
        pairs = [Signal(signed(12), name=f"pair{n}") for n in range(16)]
        tops = [Signal(signed(12), name=f"top{n}") for n in (0, 1)]
        held = _fields(s.entry)
        power = held.power + held.cut.all()
        reach = pipe.wire(Mux(held.some, power, _LEAST), signed(12), name="reach")
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
            slices = slice(GROUP * g, GROUP * (g + 1)), slice(GROUP // 2 * g, GROUP // 2 * (g + 1))
            code, saturated = self._group(pipe, entries[slices[0]], pairs[slices[1]], top)
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
                held = _fields(entry)
                # one bit below the last place, which rounds
                below = pipe.wire((level - held.power)[:12], name="below")
                doubled = pipe.wire(shifted_right(pipe.m, held.cut, below), name="doubled")
                rounded = (doubled[1:] + doubled[0])[:6]
                value = pipe.wire(Mux(held.some & ~gone, rounded, 0)[:6], name="m")
                magnitudes.append(value)
                signs.append(held.sign & value.any())
        exponent = Mux(gone, 0, Mux(saturated, LARGEST, biased[:8]))[:8]
        return mx.pack(mx.Group(exponent, micros, magnitudes, signs)), saturated


#: the exponent of a number that is 0
_LEAST = -(1 << 11)


class _Fields(NamedTuple):
    """Sign, seven bits from the leading one, whether there is one, and its exponent."""

    sign: Value
    cut: Value
    some: Value
    power: Value


def _fields(entry: Value) -> _Fields:
    return _Fields(entry[0], entry[1:8], entry[8], entry[9:].as_signed())
