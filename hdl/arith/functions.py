"""Hardware of exp, log, sigmoid, tanh and gaussian: any `models.numerics.pipeline.Pipeline` as a component."""

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from penstock.models.numerics.formats import Format
from penstock.models.numerics.functions import FUNCTIONS, pipeline
from penstock.models.numerics.pipeline import Pipeline, Wire

from .unit import register

#: Widest memory: block RAMs have no wider ports, and simulators initialise words of up to 64 bits much faster.
_BLOCK = 36


def _shape(wire: Wire) -> Shape:
    return signed(max(1, wire.width)) if wire.lo < 0 else unsigned(max(1, wire.width))


class PipelineUnit(wiring.Component):
    """A pipeline of integer operations as registers, multipliers and read-only memories.

    The result of the operand in cycle t is visible in cycle t + `latency`; initiation interval 1. Registers have no reset.

    * `pipeline`: what to compute; widths of all signals follow from the bounds of its wires.
    * `width`: bits of operand and result.
    """

    def __init__(self, pipeline: Pipeline, width: int) -> None:
        super().__init__({"a": In(width), "o": Out(width)})
        self._pipeline = pipeline

    @property
    def latency(self) -> int:
        """Cycles from operand to result."""
        return self._pipeline.latency

    def elaborate(self, platform):
        m = Module()
        builder = _Builder(m, self._pipeline, self.a)
        m.d.comb += self.o.eq(builder.at(self._pipeline.output, self._pipeline.latency))
        return m


class _Builder:
    """Creates the signals that the output needs, each once in every stage in which it is used."""

    def __init__(self, m: Module, pipeline: Pipeline, a: Value) -> None:
        self._m = m
        self._pipeline = pipeline
        self._values: dict[tuple[int, int], Value] = {(pipeline.input.number, 0): a}
        self._ports: dict[int, list[Value]] = {}

    def at(self, wire: Wire, stage: int) -> Value:
        """The wire's value in a stage at or after its own."""
        if wire.kind == "const":
            return Const(wire.lo, _shape(wire))
        key = wire.number, stage
        if key not in self._values:
            if stage == wire.stage:
                value = self._compute(wire)
                if wire.kind != "read":
                    signal = Signal(_shape(wire), name=f"{wire.kind}{wire.number}")
                    self._m.d.comb += signal.eq(value)
                    value = signal
            else:
                assert stage > wire.stage, f"wire {wire.number} is used before its stage"
                value = Signal(
                    _shape(wire), name=f"{wire.kind}{wire.number}_{stage}", reset_less=True
                )
                self._m.d.sync += value.eq(self.at(wire, stage - 1))
            self._values[key] = value
        return self._values[key]

    def _compute(self, wire: Wire) -> Value:
        if wire.kind == "read":
            address, table, column = wire.args
            return self._read(table, self.at(address, wire.stage - 1))[column]
        a, *rest = (self.at(x, wire.stage) if isinstance(x, Wire) else x for x in wire.args)
        match wire.kind:
            case "add":
                return a + rest[0]
            case "sub":
                return a - rest[0]
            case "mul":
                return a * rest[0]
            case "shl":
                return a << rest[0]
            case "shr" | "vshr":
                return a >> rest[0]
            case "low":
                return a[: rest[0]] if len(a) > rest[0] else a  # assignment extends by the sign
            case "signed":
                # a narrower one is not negative
                return a[: rest[0]].as_signed() if len(a) >= rest[0] else a
            case "within":
                return a
            case "eq":
                return a == rest[0]
            case "lt":
                return a < rest[0]
            case "and":
                return a & rest[0]
            case "or":
                return a | rest[0]
            case "not":
                return ~a[0]
            case "where":
                return Mux(a, *rest)
        raise AssertionError(f"no operation {wire.kind}")

    def _read(self, table: int, address: Value) -> list[Value]:
        if table not in self._ports:
            contents = self._pipeline.tables[table]
            widths = contents.widths
            rows = []
            for row in zip(*contents.columns, strict=True):
                word = shift = 0
                for value, width in zip(row, widths, strict=True):
                    word |= (value & ((1 << width) - 1)) << shift
                    shift += width
                rows.append(word)
            data = Cat(
                self._memory(
                    f"table{table}_{k}",
                    contents.depth,
                    [row >> k & ((1 << _BLOCK) - 1) for row in rows],
                    min(_BLOCK, sum(widths) - k),
                    address,
                )
                for k in range(0, sum(widths), _BLOCK)
            )
            self._ports[table] = []
            shift = 0
            for column, width in zip(contents.columns, widths, strict=True):
                field = data[shift : shift + width]
                self._ports[table].append(field.as_signed() if min(column) < 0 else field)
                shift += width
        return self._ports[table]

    def _memory(self, name: str, depth: int, rows: list[int], width: int, address: Value) -> Value:
        memory = Memory(shape=width, depth=depth, init=rows)
        self._m.submodules[name] = memory
        port = memory.read_port()
        self._m.d.comb += port.addr.eq(address)
        return port.data


def function_unit(op: str, format: Format) -> PipelineUnit:
    """The unit of `exp log sigmoid tanh gaussian` in a format; `models.numerics.functions.pipeline` says how it computes."""
    return PipelineUnit(pipeline(op, format), format.width)


for _op in FUNCTIONS:
    register(_op, function_unit)
