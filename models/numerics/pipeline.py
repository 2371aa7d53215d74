"""Pipelines of integer operations: one description, run on NumPy arrays here and built as hardware by `hdl.arith.functions`.

A `Pipeline` is a list of integer operations, each in a stage. Every wire knows the least and the greatest integer that it
can carry, from which hardware takes its width and this module the certainty that 64 bits suffice; integers are exact, `>>`
rounds down. A wire used in a later stage than its own is delayed by registers, a table read takes one stage, and the output
is registered: latency = number of stages.

    p = Pipeline(8)
    square = p.input * p.input
    p.next_stage()
    p.output = (square + 1).low(8)
    p.run(codes)                    # golden
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Operands that one multiplier takes: signed and unsigned (one bit less, for its ports are signed).
SIGNED_PORT, UNSIGNED_PORT = 18, 17
#: Elements that `run` works on at a time, so that intermediate results stay in the cache.
_CHUNK = 1 << 14
#: Elements up to which plain integers, one by one, are faster than arrays.
_FEW = 32


def bits_of(lo: int, hi: int) -> int:
    """Bits of the narrowest shape for lo … hi: two's complement where lo < 0, else unsigned."""
    return max(
        lo.bit_length() if lo >= 0 else (-lo - 1).bit_length() + 1, hi.bit_length() + (lo < 0)
    )


@dataclass(frozen=True)
class Table:
    """A read-only memory: columns of equal length, a power of two, that share an address."""

    columns: tuple[tuple[int, ...], ...]

    @property
    def depth(self) -> int:
        return len(self.columns[0])

    @property
    def widths(self) -> list[int]:
        return [bits_of(min(c), max(c)) for c in self.columns]


class Wire:
    """One result in a pipeline: `lo` <= value <= `hi`, computed in `stage` by operation `kind` from `args` (wires, integers)."""

    def __init__(
        self, pipeline: Pipeline, kind: str, args: tuple[Any, ...], lo: int, hi: int, stage: int
    ) -> None:
        if not -(1 << 62) <= lo <= hi < 1 << 62:
            raise ValueError(f"a wire of {lo} to {hi} does not fit 63 bits")
        self.pipeline, self.kind = pipeline, kind
        self.args, self.lo = args, lo
        self.hi, self.stage = hi, stage
        self.number = len(pipeline.wires)
        pipeline.wires.append(self)

    @property
    def width(self) -> int:
        return bits_of(self.lo, self.hi)

    def _of(self, value: Wire | int) -> Wire:
        return value if isinstance(value, Wire) else self.pipeline.const(value)

    def _new(self, kind: str, args: tuple[Any, ...], lo: int, hi: int) -> Wire:
        return Wire(self.pipeline, kind, args, lo, hi, self.pipeline.stage)

    def __add__(self, other: Wire | int) -> Wire:
        b = self._of(other)
        return self._new("add", (self, b), self.lo + b.lo, self.hi + b.hi)

    def __sub__(self, other: Wire | int) -> Wire:
        b = self._of(other)
        return self._new("sub", (self, b), self.lo - b.hi, self.hi - b.lo)

    def __rsub__(self, other: int) -> Wire:
        return self.pipeline.const(other) - self

    def __mul__(self, other: Wire | int) -> Wire:
        b = self._of(other)
        corners = [x * y for x in (self.lo, self.hi) for y in (b.lo, b.hi)]
        return self._new("mul", (self, b), min(corners), max(corners))

    def __lshift__(self, n: int) -> Wire:
        return self._new("shl", (self, n), self.lo << n, self.hi << n) if n else self

    def __rshift__(self, n: int) -> Wire:
        return self._new("shr", (self, n), self.lo >> n, self.hi >> n) if n else self

    def shifted_right(self, amount: Wire) -> Wire:
        """self >> amount for an unsigned wire by an unsigned wire below 63."""
        assert self.lo >= 0 and 0 <= amount.lo and amount.hi < 63
        return self._new("vshr", (self, amount), 0, self.hi >> amount.lo)

    def low(self, n: int) -> Wire:
        """The value modulo 2**n."""
        if n == 0:
            return self.pipeline.const(0)
        if self.lo >= 0 and self.hi < 1 << n:
            return self
        return self._new("low", (self, n), 0, (1 << n) - 1)

    def signed(self, n: int) -> Wire:
        """An n-bit pattern read as two's complement."""
        assert self.lo >= 0 and self.hi < 1 << n
        return self._new("signed", (self, n), -(1 << (n - 1)), (1 << (n - 1)) - 1)

    def within(self, lo: int, hi: int) -> Wire:
        """The same value, known to lie in lo … hi by an argument that interval arithmetic does not see (`run` can check it)."""
        return self._new("within", (self,), max(lo, self.lo), min(hi, self.hi))

    def equals(self, value: int) -> Wire:
        return self._new("eq", (self, self._of(value)), 0, 1)

    def __lt__(self, other: Wire | int) -> Wire:
        return self._new("lt", (self, self._of(other)), 0, 1)

    def __ge__(self, other: Wire | int) -> Wire:
        return ~(self < other)

    def _flag(self) -> Wire:
        assert (self.lo, self.hi) == (0, 1), "a condition is 0 or 1"
        return self

    def __and__(self, other: Wire) -> Wire:
        return self._new("and", (self._flag(), other._flag()), 0, 1)

    def __or__(self, other: Wire) -> Wire:
        return self._new("or", (self._flag(), other._flag()), 0, 1)

    def __invert__(self) -> Wire:
        return self._new("not", (self._flag(),), 0, 1)


class Pipeline:
    """A pipeline from one unsigned input of `width` bits to one unsigned output."""

    def __init__(self, width: int) -> None:
        self.wires: list[Wire] = []
        self.tables: list[Table] = []
        self.stage = 0
        self.input = Wire(self, "input", (), 0, (1 << width) - 1, 0)
        self._output: Wire | None = None
        self._functions: dict[bool, Callable[[Any], Any]] = {}

    @property
    def output(self) -> Wire:
        assert self._output is not None
        return self._output

    @output.setter
    def output(self, wire: Wire) -> None:
        assert wire.lo >= 0, "the output is a code"
        self._output = wire

    @property
    def latency(self) -> int:
        """Cycles from an operand to its result."""
        return self.output.stage + 1

    def next_stage(self, count: int = 1) -> None:
        """Let what follows happen `count` stages later."""
        self.stage += count

    def const(self, value: int) -> Wire:
        return Wire(self, "const", (value,), value, value, 0)

    def where(self, condition: Wire, a: Wire | int, b: Wire | int) -> Wire:
        """a where the condition is 1, else b."""
        a, b = condition._of(a), condition._of(b)
        return Wire(
            self, "where", (condition._flag(), a, b), min(a.lo, b.lo), max(a.hi, b.hi), self.stage
        )

    def read(self, columns: Sequence[Sequence[int]], address: Wire) -> list[Wire]:
        """Read a table: its columns at `address`, in the next stage (it becomes the current one)."""
        depth = max(2, 1 << address.hi.bit_length(), 1 << (len(columns[0]) - 1).bit_length())
        padded = tuple(tuple(c) + (0,) * (depth - len(c)) for c in columns)
        self.tables.append(Table(padded))
        self.next_stage()
        return [
            Wire(self, "read", (address, len(self.tables) - 1, n), min(c), max(c), self.stage)
            for n, c in enumerate(padded)
        ]

    def total(self, wires: Sequence[Wire]) -> Wire:
        """The sum, as a balanced tree."""
        level = list(wires) or [self.const(0)]
        while len(level) > 1:
            level = [
                level[k] + level[k + 1] if k + 1 < len(level) else level[k]
                for k in range(0, len(level), 2)
            ]
        return level[0]

    def _pieces(self, a: Wire) -> list[tuple[Wire, int]]:
        """Parts that fit a multiplier's port, with k of their weight 2**k; the top one is full, the low one may be small."""
        cut = a.width - (SIGNED_PORT if a.lo < 0 else UNSIGNED_PORT)
        if cut <= 0:
            return [(a, 0)]
        if a.kind == "const":
            value = a.args[0]
            return [
                (self.const(value >> cut), cut),
                *self._pieces(self.const(value & ((1 << cut) - 1))),
            ]
        return [(a >> cut, cut), *self._pieces(a.low(cut))]

    def product(self, a: Wire, b: Wire, shift: int) -> list[Wire]:
        """Partial products whose sum is about (a · b) >> shift: each is cut off at the unit, or left out if nothing remains."""
        parts = []
        for x, i in self._pieces(a):
            for y, k in self._pieces(b):
                weight = i + k - shift
                corners = [u * v for u in (x.lo, x.hi) for v in (y.lo, y.hi)]
                if weight < 0 and min(corners) >> -weight >= -1 and max(corners) >> -weight <= 0:
                    continue
                z = x * y
                parts.append(z << weight if weight >= 0 else z >> -weight)
        return parts

    def _order(self) -> tuple[list[Wire], dict[int, list[int]]]:
        """The wires that the output needs, in order, and which are used for the last time by which."""
        needed: set[int] = set()
        todo = [self.output]
        while todo:
            wire = todo.pop()
            if wire.number not in needed:
                needed.add(wire.number)
                todo += [a for a in wire.args if isinstance(a, Wire)]
        wires = [w for w in self.wires if w.number in needed]
        last = {a.number: w.number for w in wires for a in w.args if isinstance(a, Wire)}
        dead: dict[int, list[int]] = {}
        for number, user in last.items():
            dead.setdefault(user, []).append(number)
        return wires, dead

    def _function(self, scalar: bool) -> Callable[[Any], Any]:
        """The pipeline as one Python function, of an integer (`scalar`) or of an array."""
        wires, dead = self._order()
        lines = ["def function(v0):"]
        columns: dict[str, Any] = {}
        for wire in wires:
            names = [f"v{a.number}" if isinstance(a, Wire) else str(a) for a in wire.args]
            if wire.kind == "read":
                _, table, column = wire.args
                names[1:] = [f"t{table}_{column}"]
                contents = self.tables[table].columns[column]
                columns[names[1]] = contents if scalar else np.array(contents, dtype=np.int64)
            if wire.kind != "input":
                template = (
                    "({1} if {0} else {2})"
                    if scalar and wire.kind == "where"
                    else _TEMPLATES[wire.kind]
                )
                lines.append(f"    v{wire.number} = {template.format(*names)}")
            if (
                wire.number in dead and not scalar
            ):  # the memory of a chunk's arrays is used again while in the cache
                lines.append(f"    del {', '.join(f'v{n}' for n in dead[wire.number])}")
        lines.append(f"    return v{self.output.number}")
        scope: dict[str, Any] = {"where": np.where, **columns}
        exec("\n".join(lines), scope)  # our own text: names of wires and integers
        return scope["function"]

    def _checked(self, codes: NDArray[np.int64]) -> Any:
        """One operation after the other, each result held against its wire's bounds."""
        values: dict[str, Any] = {"v0": codes, "where": np.where}
        for wire in self._order()[0]:
            if wire.kind == "read":
                address, table, column = wire.args
                value = np.array(self.tables[table].columns[column], dtype=np.int64)[
                    values[f"v{address.number}"]
                ]
            elif wire.kind == "input":
                continue
            else:
                names = [f"v{a.number}" if isinstance(a, Wire) else str(a) for a in wire.args]
                value = eval(_TEMPLATES[wire.kind].format(*names), values)
            inside = np.min(value) >= wire.lo and np.max(value) <= wire.hi
            assert inside, f"wire {wire.number} ({wire.kind}) leaves {wire.lo} … {wire.hi}"
            values[f"v{wire.number}"] = value
        return values[f"v{self.output.number}"]

    def run(self, codes: NDArray[np.int64], check: bool = False) -> NDArray[np.int64]:
        """Apply the pipeline to every code. With `check`, raise AssertionError if a wire leaves its bounds."""
        flat = np.ascontiguousarray(codes, dtype=np.int64).reshape(-1)
        few = flat.size <= _FEW and not check
        if few not in self._functions:
            self._functions[few] = self._function(few)
        function: Callable[[Any], Any] = self._checked if check else self._functions[few]
        if few:
            return np.array([function(code) for code in flat.tolist()], dtype=np.int64).reshape(
                np.shape(codes)
            )
        result = np.empty_like(flat)
        for start in range(0, flat.size, _CHUNK):
            result[start : start + _CHUNK] = function(flat[start : start + _CHUNK])
        return result.reshape(np.shape(codes))


_TEMPLATES = {
    "const": "{0}",
    "within": "{0}",
    "read": "{1}[{0}]",
    "where": "where({0}, {1}, {2})",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "shl": "{0} << {1}",
    "shr": "{0} >> {1}",
    "vshr": "{0} >> {1}",
    "low": "{0} & ((1 << {1}) - 1)",
    "signed": "({0} ^ (1 << ({1} - 1))) - (1 << ({1} - 1))",
    "eq": "{0} == {1}",
    "lt": "{0} < {1}",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "not": "{0} ^ 1",
}
