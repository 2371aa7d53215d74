"""`unit(op, format)`: one arithmetic operation as a component."""

from collections.abc import Callable

from amaranth.hdl import Module, Value, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from penstock.models.numerics.formats import ARITY, Format
from penstock.models.numerics.latency import latency

from . import fixeds, floats
from .pipeline import Pipeline

_FACTORIES: dict[str, Callable[[str, Format], wiring.Component]] = {}


def register(op: str, factory: Callable[[str, Format], wiring.Component]) -> None:
    """Enter an operation whose unit `factory(op, format)` makes, with ports as `unit` says."""
    _FACTORIES[op] = factory


def operand_names(op: str) -> tuple[str, ...]:
    """Input ports in the order of `Format.op`'s operands."""
    return ("c", "a", "b") if op == "select" else ("a", "b", "c")[: ARITY[op]]


def unit(op: str, format: Format) -> wiring.Component:
    """A pipelined unit for one operation, equal bit for bit to `format.op(op, …)`.

    Latency is `models.numerics.latency.latency(op, format)` cycles; it takes an operand every cycle (II = 1) and never stalls. Before the first
    result its output is anything. `select` picks `a` where `c` is not zero, else `b`.

    Raises ValueError: there is no such operation.
    """
    if op in _FACTORIES:
        return _FACTORIES[op](op, format)
    if op not in ("mac", "pass") and op not in floats.OPERATIONS:
        raise ValueError(f"no unit for {op!r}")
    return Unit(op, format)


class Unit(wiring.Component):
    """A basic operation; see `unit`."""

    def __init__(self, op: str, format: Format):
        self.op, self.format, self.latency = op, format, latency(op, format)
        super().__init__(
            {
                **{name: In(unsigned(format.width)) for name in operand_names(op)},
                "o": Out(unsigned(format.width)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pipe = Pipeline(m)
        m.d.comb += self.o.eq(
            self._build(pipe, *(getattr(self, name) for name in operand_names(self.op)))
        )
        if pipe.depth != self.latency:
            raise RuntimeError(
                f"{self.op} of {self.format} has {pipe.depth} stages, its latency says {self.latency}"
            )
        return m

    def _build(self, pipe: Pipeline, *operands: Value) -> Value:
        if self.op == "pass":
            return pipe.rank(o=operands[0]).o
        table: dict[str, Callable[..., Value]] = (
            floats.OPERATIONS if self.format.is_float else fixeds.OPERATIONS
        )
        if self.op != "mac":
            return table[self.op](pipe, self.format, *operands)
        a, b, c = operands
        product = table["mul"](pipe, self.format, a, b)
        return table["add"](pipe, self.format, product, pipe.delay(c, pipe.depth, name="c"))
