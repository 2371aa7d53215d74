"""Lowering: from a kernel's graph to the analytics engine's operations on buffers (units and start cycles come later, in `schedule`).

A node that depends on models or constants alone is lowered once for each region that uses it, as the engine keeps the regions apart.
An elementwise operation whose only reader is a reduction or a merge is fused with it: its results never touch a buffer.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from ...models.analytics.config import Buffer, Op, Operand
from ..core.graph import Graph, Node, Region
from ..core.operations import ELEMENTWISE, REDUCTIONS
from .emit import COSTLY, Emitter, View

__all__ = ["Program", "lower"]


@dataclass
class Program:
    """Operations in dependence order over buffers; what is fixed for a run, with its values; the convergence flag's buffer."""

    lanes: int
    buffers: list[Buffer]
    ops: list[Op]
    models: list[int]
    runs: list[int]
    run_values: list[np.ndarray]
    until: int | None


def _two(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return (rows, cols) of a shape of rank 0 to 2."""
    rows, cols = (1, 1, *shape)[-2:]
    return rows, cols


def lower(graph: Graph, lanes: int, *, serial_limit: int) -> Program:
    """Lower `graph` for `lanes` lanes. Costly functions on more than `serial_limit` elements get a unit on every lane."""
    usual = sys.getrecursionlimit()
    try:  # a chain of operations is followed node by node
        sys.setrecursionlimit(usual + 8 * len(graph.nodes))
        return _Lowering(graph, lanes, serial_limit).run()
    finally:
        sys.setrecursionlimit(usual)


class _Lowering:
    def __init__(self, graph: Graph, lanes: int, serial_limit: int):
        self.graph, self.made = graph, Emitter(lanes, serial_limit)
        self.memo: dict[tuple[int, str], View] = {}
        self.run_values: dict[int, np.ndarray] = {}
        self.uses = Counter(i for node in graph.nodes for i in node.inputs)
        self.uses.update(graph.returns)
        if graph.until is not None:
            self.uses[graph.until] += 1

    def run(self) -> Program:
        graph = self.graph
        models = [self._leaf(v.node).buffer for v in graph.of_kind("model")]
        implicit = {}
        for index in dict.fromkeys(graph.returns):  # per-tuple updates are merges over one tuple
            if graph.nodes[index].region is Region.TUPLE:
                implicit[index] = self._merge(index, "add")
        for index, node in enumerate(
            graph.nodes
        ):  # every merge is computed, in order, before the batch region
            if node.op == "merge":
                self._value(index, "group")
        for model, index in zip(models, graph.returns, strict=True):
            self._store(index, model, implicit.get(index))
        until = None
        if graph.until is not None:
            region = (
                "epoch"
                if graph.nodes[graph.until].region in (Region.CONVERGENCE, Region.MODEL, Region.RUN)
                else "batch"
            )
            until = self.made.plain(self._value(graph.until, region), (1, 1), region).buffer
            if self.made.buffers[until].kind != "temp":  # a flag of its own, written once an epoch
                until = self.made.copy(View(until), (1, 1), "epoch", "until").buffer
        self.made.drop_dead(models, until)
        return Program(
            self.made.lanes,
            self.made.buffers,
            self.made.ops,
            models,
            sorted(self.run_values),
            [self.run_values[n] for n in sorted(self.run_values)],
            until,
        )

    # buffers

    def _leaf(self, index: int) -> View:
        key = (index, "leaf")
        if key not in self.memo:
            node = self.graph.nodes[index]
            shape = _two(node.shape)
            if node.op == "const":
                value = np.broadcast_to(
                    np.asarray(node.attrs["value"], dtype=np.float64), node.shape
                ).reshape(shape)
                number = self.made.buffer(f"const{index}", "run", "core", shape)
                self.run_values[number] = value
            elif node.op == "meta":
                name = node.attrs["name"]
                number = self.made.buffer(name, "run", "core", shape)
                self.run_values[number] = np.full(
                    shape, self.graph.variables[name].value, dtype=np.float64
                )
            elif node.op == "model":
                number = self.made.buffer(node.attrs["name"], "model", "core", shape)
            else:
                number = self.made.buffer(node.attrs["name"], "input", "thread", shape)
            self.memo[key] = View(number)
        return self.memo[key]

    # values

    def _region(self, node: Node, user: str) -> str:
        if node.region is Region.TUPLE:
            return "group"
        if node.region is Region.MERGED:
            return "batch"
        return user

    def _value(self, index: int, user: str) -> View:
        """Return where node `index` is found by an operation of region `user`, lowering it if need be."""
        node = self.graph.nodes[index]
        if (
            node.op == "model" and user == "epoch"
        ):  # `until` speaks of the model that the batch began with
            if (index, "old") not in self.memo:
                self.memo[index, "old"] = self.made.copy(
                    self._leaf(index), _two(node.shape), "batch", f"old_{node.attrs['name']}"
                )
            return self.memo[index, "old"]
        if node.op in ("const", "meta", "model", "input", "output"):
            return self._leaf(index)
        region = "group" if node.op == "merge" else self._region(node, user)
        key = (index, region)
        if key not in self.memo:
            self.memo[key] = self._lower(index, node, region)
        return self.memo[key]

    def _lower(self, index: int, node: Node, region: str) -> View:
        shape = _two(node.shape)
        if node.op == "merge":
            return self._merge(node.inputs[0], node.attrs.get("op", "add"))
        if node.op == "expand":
            inner = self.graph.nodes[node.inputs[0]]
            view = self._value(node.inputs[0], region)
            if len(inner.shape) == 1 and node.attrs["axis"] in (1, -1):
                return View(view.buffer, column=inner.shape[0] > 1)
            return view
        if node.op == "transpose":
            view = self._value(node.inputs[0], region)
            if view.column or 1 in shape:
                if shape[0] == 1 or view.column:
                    flat = self.made.plain(view, (shape[1], shape[0]), region)
                    return (
                        self.made.copy(flat, shape, region, f"t{index}", row="c", col="i")
                        if shape[1] > 1 and not view.column
                        else View(view.buffer)
                    )
                return View(view.buffer, column=True)
            return self.made.copy(view, shape, region, f"t{index}", row="c", col="i")
        if node.op in REDUCTIONS:
            return self._reduction(index, node, region)
        if node.op == "matmul":
            return self._matmul(index, node, region)
        if node.op == "outer":
            u, v = (
                self.made.plain(self._value(i, region), _two(self.graph.nodes[i].shape), region)
                for i in node.inputs
            )
            operands = (Operand(u.buffer, "", "i", True), Operand(v.buffer, "", "c", False))
            return View(
                self._emit(
                    node, index, "mul", operands, self.made.extents(shape, True), region, shape
                )
            )
        assert node.op in ELEMENTWISE, node.op
        return View(
            self._elementwise(index, node, region, self._destination(index, node, region, shape))
        )

    def _home(self, node: Node) -> str:
        return "thread" if node.region is Region.TUPLE else "core"

    def _destination(self, index: int, node: Node, region: str, shape: tuple[int, int]) -> int:
        return self.made.buffer(f"{node.op}{index}", "temp", self._home(node), shape)

    def _operand(
        self, index: int, region: str, out: tuple[int, int], loops: tuple[str, str], vector: bool
    ) -> Operand:
        """Return how an operation with output shape `out` reads node `index`; `loops` name the loops over rows and columns."""
        view = self._value(index, region)
        rows, cols = _two(self.graph.nodes[index].shape)
        row, col = loops
        if view.column:
            return Operand(view.buffer, "", row if rows > 1 else "", True)
        down = row if rows > 1 else ""
        if not vector:
            return Operand(view.buffer, down, col if cols > 1 else "", True)
        if cols == 1 and out[1] > 1:
            return Operand(view.buffer, down, "", True)
        return Operand(view.buffer, down, col, False)

    def _elementwise(
        self, index: int, node: Node, region: str, dest: int, merge: str | None = None
    ) -> int:
        fn, shape = ELEMENTWISE[node.op].unit, _two(node.shape)
        vector = merge is not None or self.made.vector(fn, shape)
        operands = tuple(self._operand(i, region, shape, ("i", "c"), vector) for i in node.inputs)
        self.made.append(
            node,
            index,
            fn,
            operands,
            self.made.extents(shape, vector),
            region,
            dest,
            vector=vector,
            merge=merge,
        )
        return dest

    def _emit(
        self,
        node: Node,
        index: int,
        fn: str,
        operands: tuple[Operand, ...],
        extents: tuple[int, int, int],
        region: str,
        shape: tuple[int, int],
        *,
        reduce: str | None = None,
        columns: int = 0,
    ) -> int:
        dest = self._destination(index, node, region, shape)
        self.made.append(
            node, index, fn, operands, extents, region, dest, reduce=reduce, columns=columns
        )
        return dest

    # reductions

    def _fusible(self, index: int) -> bool:
        node = self.graph.nodes[index]
        return (
            node.op in ELEMENTWISE
            and self.uses[index] == 1
            and ELEMENTWISE[node.op].unit not in COSTLY
        )

    def _reduction(self, index: int, node: Node, region: str) -> View:
        source = node.inputs[0]
        inner = self.graph.nodes[source]
        rows, cols = _two(inner.shape)
        operation, axis = REDUCTIONS[node.op], node.attrs.get("axis")
        reduce = operation.unit
        if len(inner.shape) == 0 or rows * cols == 1:
            fn = ELEMENTWISE[operation.scalar].unit if operation.scalar else "pass"
            return View(
                self._emit(
                    node,
                    index,
                    fn,
                    (self._operand(source, region, (1, 1), ("i", "c"), True),),
                    (1, 1, 1),
                    region,
                    (1, 1),
                )
            )
        if axis is not None and axis < 0:
            axis += len(inner.shape)
        down = len(inner.shape) == 2 and axis == 0  # over the rows: lanes stay apart
        if down:
            loops, extents, shape = ("j", "c"), (1, -(-cols // self.made.lanes), rows), (1, cols)
        else:
            loops, extents, shape = ("i", "j"), (rows, 1, -(-cols // self.made.lanes)), (1, rows)
        operands: tuple[Operand, ...]
        if operation.before:
            operand = self._operand(source, region, (rows, cols), loops, True)
            fn, operands = operation.before, (operand, operand)
        elif self._fusible(source) and inner.region is node.region:
            fn = ELEMENTWISE[inner.op].unit
            operands = tuple(
                self._operand(i, region, (rows, cols), loops, True) for i in inner.inputs
            )
        else:
            fn, operands = "pass", (self._operand(source, region, (rows, cols), loops, True),)
        result = self._emit(
            node,
            index,
            fn,
            operands,
            extents,
            region,
            shape,
            reduce=reduce,
            columns=0 if down else cols,
        )
        if (
            axis is None and rows > 1 and not down
        ):  # a whole matrix: rows first, then the vector of their results
            again = (Operand(result, "", "j", False),)
            result = self._emit(
                node,
                index,
                "pass",
                again,
                (1, 1, -(-rows // self.made.lanes)),
                region,
                (1, 1),
                reduce=reduce,
                columns=rows,
            )
        if operation.after:
            total = self.made.buffers[result]
            dest = self._destination(index, node, region, (total.rows, total.cols))
            vector = self.made.vector(operation.after, (total.rows, total.cols))
            operand = Operand(result, "", "c", not vector)
            self.made.append(
                node,
                index,
                operation.after,
                (operand,),
                self.made.extents((total.rows, total.cols), vector),
                region,
                dest,
                vector=vector,
            )
            result = dest
        return View(result)

    def _matmul(self, index: int, node: Node, region: str) -> View:
        left, right = (self.graph.nodes[i] for i in node.inputs)
        a, b = (
            self.made.plain(self._value(i, region), _two(self.graph.nodes[i].shape), region).buffer
            for i in node.inputs
        )
        rows = left.shape[0] if len(left.shape) == 2 else 1
        depth = left.shape[-1]
        if len(right.shape) == 1:  # rows of the left matrix times a vector: lanes are added up
            operands = (Operand(a, "i" if rows > 1 else "", "j", False), Operand(b, "", "j", False))
            result = self._emit(
                node,
                index,
                "mul",
                operands,
                (rows, 1, -(-depth // self.made.lanes)),
                region,
                (1, rows),
                reduce="add",
                columns=depth,
            )
            return View(result)
        cols = right.shape[1]
        operands = (
            Operand(a, "i" if rows > 1 else "", "j", True),
            Operand(b, "j" if depth > 1 else "", "c", False),
        )
        return View(
            self._emit(
                node,
                index,
                "mul",
                operands,
                (rows, -(-cols // self.made.lanes), depth),
                region,
                (rows, cols),
                reduce="add",
            )
        )

    # merges and stores

    def _merge(self, source: int, merge: str) -> View:
        """Lower the node to be merged, fused with the merge where nothing else reads it; return the accumulator."""
        node = self.graph.nodes[source]
        shape = _two(node.shape)
        if self._fusible(source):
            acc = self.made.buffer(f"merge{source}", "acc", "core", shape)
            self._elementwise(source, node, "group", acc, merge)
            return View(acc)
        if node.op == "outer" and self.uses[source] == 1:
            u, v = (
                self.made.plain(self._value(i, "group"), _two(self.graph.nodes[i].shape), "group")
                for i in node.inputs
            )
            acc = self.made.buffer(f"merge{source}", "acc", "core", shape)
            operands: tuple[Operand, ...] = (
                Operand(u.buffer, "", "i", True),
                Operand(v.buffer, "", "c", False),
            )
            self.made.append(
                node,
                source,
                "mul",
                operands,
                self.made.extents(shape, True),
                "group",
                acc,
                merge=merge,
            )
            return View(acc)
        operand = self._operand(source, "group", shape, ("i", "c"), True)
        acc = self.made.buffer(f"merge{source}", "acc", "core", shape)
        self.made.append(
            node,
            source,
            "pass",
            (operand,),
            self.made.extents(shape, True),
            "group",
            acc,
            merge=merge,
        )
        return View(acc)

    def _store(self, index: int, model: int, implicit: View | None) -> None:
        """Make node `index` the new value of a model, written by its own operation if that reads no other model."""
        node = self.graph.nodes[index]
        shape = (self.made.buffers[model].rows, self.made.buffers[model].cols)
        view = implicit or self._value(index, "batch")
        if (
            implicit is None
            and node.op in ELEMENTWISE
            and self.uses[index] == 1
            and node.region is not Region.TUPLE
        ):
            last = self.made.ops[-1]
            if last.dest == view.buffer and last.vector and self.made.streams(last, model):
                self.made.ops[-1] = replace(last, dest=model)
                return
        if view.column:
            operand = Operand(view.buffer, "", "i", True)
        elif self.made.buffers[view.buffer].cols == 1 and shape[1] > 1:
            operand = Operand(
                view.buffer, "i" if self.made.buffers[view.buffer].rows > 1 else "", "", True
            )
        else:
            operand = Operand(view.buffer, "i" if shape[0] > 1 else "", "c", False)
        if (
            self.made.buffers[view.buffer].kind == "model" and view.buffer != model
        ):  # two models trade places: by way of a copy
            operand = replace(
                operand, buffer=self.made.copy(view, shape, "batch", f"old{index}").buffer
            )
        self.made.ops.append(
            Op(
                f"new_{self.made.buffers[model].name}",
                "pass",
                (operand,),
                self.made.extents(shape, True),
                True,
                None,
                False,
                None,
                model,
                "batch",
                "core",
                0,
                node.span.line,
            )
        )
