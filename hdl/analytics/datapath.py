"""Functional units with their operand registers and reduction trees: what a thread and the core have in common."""

from collections.abc import Callable
from dataclasses import dataclass, field

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from ...models.analytics.config import AnalyticsPlan, Op, depth
from ...models.analytics.golden import identity
from ...models.analytics.timing import REDUCE_FN, latency
from ...models.numerics.formats import ARITY
from ...models.rows.units import integer_unit
from ..arith.unit import operand_names
from ..arith.unit import unit as arith_unit
from ..modules import Parts, module_name
from .integers import Integers

#: in names of modules, where marks would all be alike
_WORDS = {"+": "plus", "-": "minus", "*": "times", "//": "quotient", "%": "remainder"}
_WORDS |= {"<": "below", ">": "above", "<=": "up_to", ">=": "from", "==": "equal", "!=": "unequal"}


@dataclass(frozen=True)
class Reduction:
    """One kind of reduction behind a unit."""

    unit: int
    reduce: str
    lane_reduce: bool


@dataclass
class Write:
    """When and where an operation's results are written."""

    enable: Value
    address: Value
    lane: Value | None


@dataclass
class Control:
    """What steers a datapath, by operation number (and operand number), every signal in the cycle in which it is used.

    select: the operation's operands are taken into the operand registers at the end of this cycle. valid, last, keep: a beat leaves a unit
    towards a reduction, it is the last of its result, these lanes of it hold values. write: see `Write`.
    """

    select: dict[int, Value] = field(default_factory=dict)
    valid: dict[Reduction, Value] = field(default_factory=dict)
    last: dict[Reduction, Value] = field(default_factory=dict)
    keep: dict[Reduction, Value] = field(default_factory=dict)
    write: dict[int, Write] = field(default_factory=dict)


def combine(
    m: Module, library: Parts, plan: AnalyticsPlan, fn: str, label: str, *operands: Value
) -> Value:
    """Put one arithmetic unit into `m`; return its result, `latency(fn)` cycles later."""
    fmt = plan.format
    integers = integer_unit(fn)
    if integers is not None:
        operand_of = dict(zip("ab", operands, strict=False))
        words = [_WORDS.get(word, word) for word in fn.split()]
        return library.instance(
            m,
            label,
            module_name("penstock", *words, fmt.name),
            lambda: Integers(integers, fmt),
            **operand_of,
        )["o"]
    if fn == "sub" and fmt.is_float:  # a - b is a + (-b) in every bit: one unit less to write
        fn, operands = "add", (operands[0], operands[1] ^ (1 << (fmt.width - 1)))
    inputs = dict(zip(operand_names(fn), operands, strict=True))
    return library.instance(
        m, label, module_name(fn, fmt.name), lambda: arith_unit(fn, fmt), **inputs
    )["o"]


def tree(
    m: Module, library: Parts, plan: AnalyticsPlan, fn: str, label: str, values: list[Value]
) -> Value:
    """Combine codes in a balanced tree of neighbours, missing partners replaced by the identity; `depth(n) * latency` cycles."""
    neutral = Const(identity(fn, plan.format), plan.format.width)
    level = 0
    while len(values) > 1:
        if len(values) % 2:
            values = [*values, neutral]
        values = [
            combine(m, library, plan, fn, f"{label}_{level}_{n}", values[2 * n], values[2 * n + 1])
            for n in range(len(values) // 2)
        ]
        level += 1
    return values[0]


class Datapath:
    """The units of one home ("thread" or "core") inside module `m`.

    * `source`: `source(op number, operand number)` gives the operand's beat or code in the cycle in which
      `control.select` is high.
    * `control`: see `Control`.
    """

    def __init__(
        self,
        m: Module,
        library: Parts,
        plan: AnalyticsPlan,
        home: str,
        control: Control,
        source: Callable[[int, int], Value],
    ):
        self.m, self.library = m, library
        self.plan, self.control = plan, control
        self.width = plan.format.width
        # by unit: the lanes that leave it, `latency(fn)` cycles after its operands were loaded
        self.outputs: dict[int, list[Value]] = {}
        self.operands: dict[int, list[Signal]] = {}
        self.taps: dict[Reduction, list[list[Value]]] = {}
        self.numbers = [n for n, op in enumerate(plan.ops) if op.home == home]
        for number, unit in enumerate(plan.units):
            users = [n for n in self.numbers if plan.ops[n].unit == number]
            if users:
                self.outputs[number] = self._unit(number, unit.fn, unit.lanes, users, source)
        for reduction in dict.fromkeys(
            r for n in self.numbers if (r := self.reduction(plan.ops[n]))
        ):
            self.taps[reduction] = self._reduction(reduction)

    @staticmethod
    def reduction(op: Op) -> Reduction | None:
        return Reduction(op.unit, op.reduce, op.lane_reduce) if op.reduce is not None else None

    def _unit(
        self,
        number: int,
        fn: str,
        lanes: int,
        users: list[int],
        source: Callable[[int, int], Value],
    ) -> list[Value]:
        m = self.m
        registers = []
        for place, width in enumerate(self._widths(fn)):
            register = Signal(lanes * width, name=f"unit{number}_operand{place}")
            for n in users:
                operand = self.plan.ops[n].to_unit[place]
                value = source(n, operand)
                if self.plan.ops[n].operands[operand].element or len(value) == width:
                    value = Cat(value[:width] for _ in range(lanes))
                if len(users) == 1:
                    m.d.sync += register.eq(value)
                else:
                    with m.If(self.control.select[n]):
                        m.d.sync += register.eq(value)
            registers.append(register)
        self.operands[number] = registers
        return [
            combine(
                m,
                self.library,
                self.plan,
                fn,
                f"unit{number}_lane{lane}",
                *(r.word_select(lane, len(r) // lanes) for r in registers),
            )
            for lane in range(lanes)
        ]

    def _widths(self, fn: str) -> list[int]:
        """Return the bits of a unit's operands."""
        unit = integer_unit(fn)
        if unit is None:
            return [self.width] * ARITY[fn]
        return [abs(w) for w in unit.operands] or [self.width]

    def _reduction(self, reduction: Reduction) -> list[list[Value]]:
        """Build lane tree and tree over time; return the lanes after each level of the latter."""
        m, plan, library = self.m, self.plan, self.library
        fn = REDUCE_FN[reduction.reduce]
        label = (
            f"unit{reduction.unit}_{reduction.reduce}{'_lanes' if reduction.lane_reduce else ''}"
        )
        neutral = Const(identity(fn, plan.format), self.width)
        step = latency(fn, plan.format)
        values = self.outputs[reduction.unit]
        valid, last = self.control.valid[reduction], self.control.last[reduction]
        if reduction.lane_reduce:
            keep = self.control.keep[reduction]
            values = [Mux(keep[n], value, neutral) for n, value in enumerate(values)]
            values = [tree(m, library, plan, fn, f"{label}_tree", values)]
            valid, last = (
                self._late(s, depth(plan.lanes) * step, f"{label}_{w}")
                for s, w in ((valid, "valid"), (last, "last"))
            )
        taps = [values]
        users = [plan.ops[n] for n in self.numbers if self.reduction(plan.ops[n]) == reduction]
        for level in range(max(depth(op.extents[2]) for op in users)):
            waiting = Signal(name=f"{label}_waiting{level}")
            held = [Signal(self.width, name=f"{label}_held{level}_{n}") for n in range(len(values))]
            emit = valid & (waiting | last)
            with m.If(valid):
                m.d.sync += [
                    waiting.eq(~emit),
                    *(h.eq(v) for h, v in zip(held, values, strict=True)),
                ]
            values = [
                combine(
                    m,
                    library,
                    plan,
                    fn,
                    f"{label}_level{level}_{n}",
                    Mux(waiting, h, v),
                    Mux(waiting, v, neutral),
                )
                for n, (h, v) in enumerate(zip(held, values, strict=True))
            ]
            valid, last = (
                self._late(s, step, f"{label}_{w}{level}")
                for s, w in ((emit, "emit"), (emit & last, "end"))
            )
            taps.append(values)
        return taps

    def _late(self, value: Value, cycles: int, name: str) -> Value:
        for n in range(cycles):
            late = Signal(name=f"{name}_d{n + 1}")
            self.m.d.sync += late.eq(value)
            value = late
        return value

    def result(self, number: int) -> list[Value]:
        """Return the lanes of an operation's result in the cycle in which it is to be written."""
        op = self.plan.ops[number]
        reduction = self.reduction(op)
        return self.taps[reduction][depth(op.extents[2])] if reduction else self.outputs[op.unit]

    def beyond(self, number: int) -> list[Value]:
        """Return of each lane whether a sum or a difference in a fixed format leaves its range, in the cycle in which its unit takes it."""
        op, width = self.plan.ops[number], self.width
        a, b = (
            [r.word_select(n, width).as_signed() for n in range(len(r) // width)]
            for r in self.operands[op.unit]
        )
        exact = [x + y if op.unit_fn == "add" else x - y for x, y in zip(a, b, strict=True)]
        return [result[-1] != result[width - 1] for result in exact]

    def write_back(self, stores: dict) -> None:
        """Connect every operation's result to its buffer among `stores` (results that are merged go elsewhere)."""
        for n in self.numbers:
            op = self.plan.ops[n]
            if op.merge is None:
                write = self.control.write[n]
                store = stores[op.dest]
                data = (
                    Cat(self.result(n))[: store.lanes * self.width]
                    if write.lane is None
                    else self.result(n)[0]
                )
                store.write(write.enable, write.address, data, lane=write.lane)
