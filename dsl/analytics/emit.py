"""Buffers and operations of the analytics engine as lowering writes them down, one after the other."""

import re
from dataclasses import dataclass

from ...models.analytics.config import Buffer, Op, Operand
from ..core.graph import Node
from ..core.operations import ELEMENTWISE

#: units that are too large for every lane
COSTLY = {operation.unit for operation in ELEMENTWISE.values() if operation.costly}


@dataclass(frozen=True)
class View:
    """A node's value: a buffer, or (`column`) a stored row vector seen as a column."""

    buffer: int
    column: bool = False


@dataclass(frozen=True)
class Site:
    """What operations are written for: node `index`, in a region that uses it."""

    index: int
    node: Node
    region: str


class Emitter:
    """The buffers and operations that lowering has written so far; each operation stands behind those whose results it reads.

    Operations take a beat of all lanes a cycle, costly functions on at most `serial_limit` elements one element a cycle.
    """

    def __init__(self, lanes: int, serial_limit: int):
        self.lanes, self.serial_limit = lanes, serial_limit
        self.buffers: list[Buffer] = []
        self.ops: list[Op] = []

    def buffer(
        self,
        name: str,
        kind: str,
        home: str,
        shape: tuple[int, int],
        integer: bool = False,
        bits: int = 0,
    ) -> int:
        self.buffers.append(Buffer(name, kind, home, *shape, integer=integer, bits=bits))
        return len(self.buffers) - 1

    def extents(self, shape: tuple[int, int], vector: bool) -> tuple[int, int, int]:
        return shape[0], -(-shape[1] // self.lanes) if vector else shape[1], 1

    def vector(self, fn: str, shape: tuple[int, int]) -> bool:
        return shape[1] == 1 or fn not in COSTLY or shape[0] * shape[1] > self.serial_limit

    def append(
        self,
        site: Site,
        fn: str,
        operands: tuple[Operand, ...],
        extents: tuple[int, int, int],
        dest: int,
        *,
        vector: bool = True,
        reduce: str | None = None,
        columns: int = 0,
        merge: str | None = None,
        detail: tuple[int, ...] = (),
    ) -> View:
        """Add an operation that writes buffer `dest`; return its result. Parameters are as in `Op`; `columns` > 0: so many columns are added up, those of a
        beat first, then the beats."""
        used = (dest, *(o.buffer for o in operands))  # a count of full bags is a constant
        of_tuples = merge or any(self.buffers[b].home == "thread" for b in used)
        self.ops.append(
            Op(
                re.sub(r"\W+", "_", f"{site.node.op}{site.index}"),  # signals are named so
                fn,
                operands,
                extents,
                vector,
                reduce,
                columns > 0,
                merge,
                dest,
                site.region,
                "thread" if of_tuples else "core",
                columns,
                site.node.span.line,
                detail=detail,
            )
        )
        return View(dest)

    def copy(
        self,
        view: View,
        shape: tuple[int, int],
        region: str,
        name: str,
        *,
        row: str = "i",
        col: str = "c",
    ) -> View:
        """Copy a value to a buffer of its own, one element a cycle where it is turned, beat by beat otherwise."""
        source = self.buffers[view.buffer]
        dest = self.buffer(name, "temp", source.home, shape)
        turned = row == "c"
        if view.column:
            operand, vector = Operand(view.buffer, "", "i", True), True
        elif turned:
            operand, vector = Operand(view.buffer, row, col, True), False
        else:
            operand, vector = Operand(view.buffer, "i" if shape[0] > 1 else "", "c", False), True
        extents, home = self.extents(shape, vector), source.home
        self.ops.append(
            Op(name, "pass", (operand,), extents, vector, None, False, None, dest, region, home)
        )
        return View(dest)

    def plain(self, view: View, shape: tuple[int, int], region: str) -> View:
        return self.copy(view, shape, region, f"col{len(self.buffers)}") if view.column else view

    def streams(self, op: Op, model: int) -> bool:
        """Whether an operation may overwrite `model` while it reads: each beat of it once, in order, and no other model."""
        for operand in op.operands:
            if self.buffers[operand.buffer].kind == "model":
                if operand.buffer != model or operand.element or operand.col != "c":
                    return False
        return True

    def drop_dead(self, live: set[int]) -> None:
        """Drop operations that no live buffer depends on."""
        kept = []
        for op in reversed(self.ops):
            if op.dest in live:
                kept.append(op)
                live.update(operand.buffer for operand in op.operands)
        self.ops = kept[::-1]
