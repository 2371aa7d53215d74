"""X25519: one unit for the field, and the program of `models.crypto.x25519` that runs it."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, enum, memory, wiring
from amaranth.lib.wiring import In, Out

from ...models.crypto.x25519 import (
    ACCUMULATOR_BITS,
    BITS,
    CONSTANTS,
    FOLLOWS,
    LIMB_BITS,
    LIMBS,
    PASSES,
    POINT,
    PROGRAM,
    Op,
)

#: bits of a limb between instructions
_WIDE = LIMB_BITS + 1
_ELEMENT = data.ArrayLayout(_WIDE, LIMBS)
_REGISTER = range(16)
_LOW = (1 << LIMB_BITS) - 1
#: twice the prime, as limbs that are above every limb
_TWICE = [2 * (_LOW - 18), *[2 * _LOW] * (LIMBS - 1)]
#: the program's words: an operation, registers with their follow bits, how often, the body
_WORD = data.StructLayout(
    {"op": 3, "to": 5, "a": 5, "b": 5, "times": 7, "body": 1, "body_ends": 1, "ends": 1}
)


def _passed(m, limbs, wrap, name):
    """Carries moved up by one limb; those of the top come back times 19 if they `wrap`."""
    after = [Signal(ACCUMULATOR_BITS, name=f"{name}{k}") for k in range(LIMBS)]
    for k, limb in enumerate(limbs):
        carry = limbs[k - 1][LIMB_BITS:]
        m.d.comb += after[k].eq(limb[:LIMB_BITS] + (carry if k else Mux(wrap, carry * 19, 0)))
    return after


class Stage(enum.Enum, shape=3):
    """What an instruction does: it waits, reads a, reads b, sums, moves carries, writes."""

    IDLE = 0
    A = 1
    B = 2
    SUM = 3
    PASS = 4
    WRITE = 5


class Field(wiring.Component):
    """Carries out one instruction at a time on 16 elements of the field.

    A product is summed in rows: one limb of a, from the top, times all limbs of b, a row a cycle on
    as many multipliers of 18 × 18 bits as there are limbs. What leaves the top comes back times 19.
    An instruction takes `models.crypto.x25519.cycles_of` cycles, the next one may begin in the cycle
    behind `ends`.
    """

    def __init__(self):
        super().__init__(
            {
                # an instruction; all stay until it ends
                "start": In(1),
                "op": In(Op),
                "to": In(_REGISTER),
                "a": In(_REGISTER),
                "b": In(_REGISTER),
                "ends": Out(1),  # in its last cycle
                # writes register `POINT`, while no instruction runs
                "put": In(1),
                "point": In(LIMBS * LIMB_BITS),
                "value": Out(_ELEMENT),  # what was written last
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.registers = registers = memory.Memory(shape=_ELEMENT, depth=16, init=[])
        read, write = registers.read_port(domain="comb"), registers.write_port()
        stage, count = Signal(Stage), Signal(range(2 * LIMBS))
        multiplies = self.op == Op.MULTIPLY
        sums = [Signal(ACCUMULATOR_BITS, name=f"sum{k}", reset_less=True) for k in range(LIMBS)]
        a, b = Signal(_ELEMENT, reset_less=True), Signal(_ELEMENT, reset_less=True)
        passes, last = Signal.like(count), Signal()
        with m.Switch(self.op):
            for op, number in PASSES.items():
                with m.Case(op):
                    m.d.comb += passes.eq(number - 1)
        m.d.comb += [
            read.addr.eq(Mux(stage == Stage.A, self.a, self.b)),
            last.eq(count == Mux(stage == Stage.SUM, Mux(multiplies, LIMBS, 0), passes)),
            self.ends.eq(stage == Stage.WRITE),
            self.value.eq(Cat(limb[:_WIDE] for limb in sums)),
            write.en.eq(self.ends | self.put),
            write.addr.eq(Mux(self.put, POINT, self.to)),
        ]
        for k, limb in enumerate(sums):
            coordinate = self.point.word_select(k, LIMB_BITS)
            m.d.comb += write.data[k].eq(Mux(self.put, coordinate, limb[:_WIDE]))
        with m.Switch(stage):
            with m.Case(Stage.IDLE), m.If(self.start):
                m.d.sync += stage.eq(Stage.A)
            with m.Case(Stage.A):
                m.d.sync += [a.eq(read.data), stage.eq(Stage.B)]
            with m.Case(Stage.B):
                m.d.sync += [b.eq(read.data), stage.eq(Stage.SUM), count.eq(0)]
            with m.Case(Stage.SUM, Stage.PASS):
                m.d.sync += count.eq(Mux(last, 0, count + 1))
                with m.If(last):
                    m.d.sync += stage.eq(Mux(stage == Stage.SUM, Stage.PASS, Stage.WRITE))
            with m.Case(Stage.WRITE):
                m.d.sync += stage.eq(Mux(self.start, Stage.A, Stage.IDLE))
        self._sum(m, stage, count, multiplies, sums, (a, b))
        return m

    def _sum(self, m, stage, count, multiplies, sums, operands):
        """Rows of products, single sums, and carries."""
        a, b = operands
        passed = _passed(m, sums, self.op != Op.FREEZE, "passed")
        products = [Signal(2 * _WIDE, name=f"product{k}", reset_less=True) for k in range(LIMBS)]
        with m.If(stage == Stage.SUM):
            m.d.sync += [product.eq(a[-1] * b[k]) for k, product in enumerate(products)]
            with m.If(multiplies):
                m.d.sync += Cat(*a).eq(Cat(a[-1], *list(a)[:-1]))
        constant = Array(CONSTANTS)[self.b[:2]]
        for k, limb in enumerate(sums):
            below = passed[k - 1] if k else (passed[-1][:_WIDE] * 19)
            row = Mux(count == 1, 0, below) + products[k]
            single = Signal(ACCUMULATOR_BITS, name=f"single{k}")
            twice, small = Const(_TWICE[k]), Const(19 if k == 0 else 0)
            with m.Switch(self.op):
                with m.Case(Op.SET):
                    m.d.comb += single.eq(constant if k == 0 else 0)
                with m.Case(Op.ADD):
                    m.d.comb += single.eq(a[k] + b[k])
                with m.Case(Op.SUBTRACT):
                    m.d.comb += single.eq(a[k] + twice - b[k])
                with m.Case(Op.REDUCE):
                    m.d.comb += single.eq(a[k] + small)
                with m.Case(Op.FREEZE):
                    m.d.comb += single.eq(a[k] + twice + small)
            with m.If(stage == Stage.SUM):
                m.d.sync += limb.eq(Mux(multiplies, row, single))
            with m.Elif(stage == Stage.PASS):
                m.d.sync += limb.eq(passed[k])


class X25519(wiring.Component):
    """A scalar times a point (RFC 7748), in `models.crypto.x25519.CYCLES` cycles, whatever they are."""

    def __init__(self):
        super().__init__(
            {
                "start": In(1),  # begin, while `idle`
                # first bytes lowest
                "scalar": In(256),
                "point": In(256),
                "idle": Out(1),
                "ended": Out(1),  # high in one cycle, `CYCLES` behind the start
                "result": Out(256),  # from that cycle until the next start
                "refused": Out(1),  # likewise: the result is zero, and may not be used
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.field = field = Field()
        body = [k for k, step in enumerate(PROGRAM) if step.body]
        words = [
            {
                **step._asdict(),
                "op": int(step.op),
                "times": step.times - 1,
                "body_ends": k == body[-1],
                "ends": k == len(PROGRAM) - 1,
            }
            for k, step in enumerate(PROGRAM)
        ]
        m.submodules.program = program = memory.Memory(shape=_WORD, depth=len(PROGRAM), init=words)
        read = program.read_port(domain="comb")
        word, at = read.data, Signal(range(len(PROGRAM)))
        left, again = Signal(range(BITS)), Signal(7)
        scalar, running = Signal(BITS), Signal()
        # the registers of a step: the scalar's bit may turn a number's lowest bit
        for port, number in ((field.to, word.to), (field.a, word.a), (field.b, word.b)):
            follows = number[FOLLOWS.bit_length() - 1] & scalar[-1]
            m.d.comb += port.eq(number[:4] ^ follows)
        begins, over = Signal(), Signal()
        m.d.comb += [
            begins.eq(self.start & ~running),
            over.eq(field.ends & word.ends),
            read.addr.eq(at),
            field.op.eq(word.op),
            field.start.eq(begins | (running & ~word.ends)),
            field.put.eq(begins),
            field.point.eq(self.point),
            self.idle.eq(~running),
            self.result.eq(Cat(limb[:LIMB_BITS] for limb in field.value)),
            self.refused.eq(~self.result.any()),
        ]
        m.d.sync += self.ended.eq(over)
        with m.If(begins):
            clamped = Cat(Const(0, 3), self.scalar[3:254], Const(1, 1))
            m.d.sync += [running.eq(1), scalar.eq(clamped), left.eq(BITS - 1)]
        with m.Elif(field.ends):
            m.d.sync += again.eq(again + 1)
            with m.If(again == word.times):
                m.d.sync += [again.eq(0), at.eq(at + 1)]
                with m.If(word.body_ends):
                    m.d.sync += [left.eq(left - 1), scalar.eq(scalar << 1)]
                    with m.If(left != 0):
                        m.d.sync += at.eq(body[0])
                with m.If(word.ends):
                    m.d.sync += [running.eq(0), at.eq(0)]
        return m
