"""Lowering: from a kernel's graph to the analytics engine's operations on buffers (units and start cycles come later, in `schedule`).

A node that depends on models or constants alone is lowered once for each region that uses it, as the engine keeps the regions apart.
An elementwise operation whose only reader is a reduction or a merge is fused with it: its results never touch a buffer.
"""

import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import numpy as np

from ...models.analytics.config import Buffer, Op, Operand
from ...models.analytics.waits import by_integers
from ..core.diagnostics import error
from ..core.graph import Graph, Node, Region
from ..core.operations import ELEMENTWISE, REDUCTIONS
from . import lower_rows
from .emit import COSTLY, Emitter, Site, View
from .integers import MEANINGS
from .lower_rows import matrix_shape

#: planning a kernel with more operations would take many minutes, and its chains more stack than there is
MAX_PLANNED = 1_000


@dataclass
class Program:
    """Operations in dependence order over buffers."""

    lanes: int
    buffers: list[Buffer]
    ops: list[Op]
    models: list[int]
    runs: list[int]  #: buffers of what is fixed for a run
    run_values: list[np.ndarray]
    until: int | None  #: the buffer of the convergence flag
    score: int | None = None  #: the buffer of the score
    waits: bool = False  #: a batch's changes of rows, of tuple after tuple, wait for its end
    by_row: bool = False  #: they wait for changes of their own rows too, but for no others
    #: what `times.Times` and `schedule` have computed of it
    known: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)


def lower(graph: Graph, lanes: int, *, serial_limit: int) -> Program:
    """Lower `graph` for `lanes` lanes. Costly functions on more than `serial_limit` elements get a unit on every lane.
    Raises KernelError (E107) where there are too many operations."""
    if len(graph.nodes) > MAX_PLANNED:
        raise error(
            "E107",
            f"the kernel has {len(graph.nodes)} operations; hardware is planned for at most {MAX_PLANNED}",
            graph.nodes[MAX_PLANNED].span,
            hint="compute with whole vectors, as in sum(v); a Python loop is unrolled while the kernel is traced",
            source=graph.source or None,
        )
    usual = sys.getrecursionlimit()
    try:  # a chain of operations is followed node by node
        sys.setrecursionlimit(usual + 8 * len(graph.nodes))
        return Lowering(graph, lanes, serial_limit).run()
    finally:
        sys.setrecursionlimit(usual)


class Lowering:
    """The operations of a graph as they are written down, and where each node's value is found."""

    def __init__(self, graph: Graph, lanes: int, serial_limit: int):
        self.graph, self.emitter = graph, Emitter(lanes, serial_limit)
        self.memo: dict[tuple[int, str], View] = {}
        self.run_values: dict[int, np.ndarray] = {}
        self.uses = Counter(i for node in graph.nodes for i in node.inputs)
        self.uses.update(graph.returns)
        if graph.until is not None:
            self.uses[graph.until] += 1
        self.by_rows = lower_rows.by_rows(graph)

    def run(self) -> Program:
        graph = self.graph
        if graph.score:
            return self._scored()
        models = [self.leaf(v.node).buffer for v in graph.of_kind("model")]
        implicit = {}
        for index in dict.fromkeys(graph.returns):  # per-tuple updates are merges over one tuple
            node = graph.nodes[index]
            if node.region is Region.TUPLE and node.op != "change":
                implicit[index] = self._merge(index, "add")
        for index, node in enumerate(
            graph.nodes
        ):  # every merge is computed, in order, before the batch region
            if node.op == "merge":
                self.value(index, "group")
        for model, index in zip(models, graph.returns, strict=True):
            if graph.nodes[index].op == "change":
                lower_rows.change(self, index, model)
            elif not (self.by_rows and graph.nodes[index].op == "model") or (
                self.leaf(index).buffer != model
            ):
                self._store(index, model, implicit.get(index))
        until = None
        if graph.until is not None:
            region = (
                "epoch"
                if graph.nodes[graph.until].region in (Region.CONVERGENCE, Region.MODEL, Region.RUN)
                else "batch"
            )
            until = self.emitter.plain(self.value(graph.until, region), (1, 1), region).buffer
        self.emitter.drop_dead({*models, *(() if until is None else (until,))})
        return self._program(models, until=until)

    def _scored(self) -> Program:
        """Lower a score: a number in a buffer of its own, for each tuple."""
        [root] = self.graph.returns
        models = [self.leaf(v.node).buffer for v in self.graph.of_kind("model")]
        view = self.value(root, "group")
        if self.emitter.buffers[view.buffer].kind == "input" or view.column:
            view = self.emitter.copy(view, (1, 1), "group", "score")
        self.emitter.drop_dead({view.buffer})
        return self._program(models, score=view.buffer)

    def _program(
        self, models: list[int], until: int | None = None, score: int | None = None
    ) -> Program:
        return Program(
            self.emitter.lanes,
            self.emitter.buffers,
            self.emitter.ops,
            models,
            sorted(self.run_values),
            [self.run_values[n] for n in sorted(self.run_values)],
            until,
            score,
            self.graph.merge_count != 1 and any(map(attrgetter("changes_rows"), self.emitter.ops)),
            self.graph.merge_count > 1 and by_integers(self.emitter.ops, self.emitter.buffers),
        )

    # buffers

    def leaf(self, index: int) -> View:
        key = (index, "leaf")
        if key not in self.memo:
            node = self.graph.nodes[index]
            shape = matrix_shape(node.shape)
            if node.op == "const":
                value = np.broadcast_to(
                    np.asarray(node.attrs["value"], dtype=np.float64), node.shape
                ).reshape(shape)
                number = self.emitter.buffer(f"const{index}", "run", "core", shape)
                self.run_values[number] = value
            elif node.op == "meta":
                name = node.attrs["name"]
                number = self.emitter.buffer(name, "run", "core", shape)
                self.run_values[number] = np.full(
                    shape, self.graph.variables[name].value, dtype=np.float64
                )
            elif node.op == "model":
                if (
                    self.by_rows
                    and len(node.shape) == 1
                    and lower_rows.only_by_rows(self.graph, index)
                ):
                    shape = shape[1], 1  # a row is one number
                number = self.emitter.buffer(node.attrs["name"], "model", "core", shape)
            elif node.op == "index":
                number = self.emitter.buffer(node.attrs["name"], "index", "thread", shape, True)
            else:
                number = self.emitter.buffer(node.attrs["name"], "input", "thread", shape)
            self.memo[key] = View(number)
        return self.memo[key]

    # values

    def _region(self, node: Node, user: str) -> str:
        if node.region is Region.TUPLE:
            return "group"
        if node.region is Region.MERGED:
            return "batch"
        return user

    def value(self, index: int, user: str) -> View:
        """Return where node `index` is found by an operation of region `user`, lowering it if need be."""
        node = self.graph.nodes[index]
        if (
            node.op == "model" and user == "epoch"
        ):  # `until` speaks of the model that the batch began with
            if (index, "old") not in self.memo:
                self.memo[index, "old"] = self.emitter.copy(
                    self.leaf(index), matrix_shape(node.shape), "batch", f"old_{node.attrs['name']}"
                )
            return self.memo[index, "old"]
        if node.op in ("const", "meta", "model", "input", "output", "index"):
            return self.leaf(index)
        region = self._region(node, user)
        if (index, region) not in self.memo:
            self.memo[index, region] = self._lower(Site(index, node, region))
        return self.memo[index, region]

    def _lower(self, site: Site) -> View:
        index, node, region = site.index, site.node, site.region
        shape = matrix_shape(node.shape)
        if node.op == "merge":
            return self._merge(node.inputs[0], node.attrs.get("op", "add"))
        if node.op == "expand":
            inner = self.graph.nodes[node.inputs[0]]
            view = self.value(node.inputs[0], region)
            if len(inner.shape) == 1 and node.attrs["axis"] in (1, -1):
                return View(view.buffer, column=inner.shape[0] > 1)
            return view
        if node.op == "transpose":
            view = self.value(node.inputs[0], region)
            if view.column or shape == (1, 1):  # what is seen as a column lies there as a row
                return View(view.buffer)
            if shape[1] == 1:
                return View(view.buffer, column=True)
            return self.emitter.copy(view, shape, region, f"t{index}", row="c", col="i")
        if node.op in MEANINGS:
            return lower_rows.lowered(self, site)
        if node.op in REDUCTIONS:
            return self._reduction(site)
        if node.op == "matmul":
            return self._matmul(site)
        if node.op == "outer":
            operands = self._outer(node, region)
            return self.emit(site, "mul", operands, self.emitter.extents(shape, True), shape)
        assert node.op in ELEMENTWISE, node.op
        return self._elementwise(site, self._destination(site, shape))

    def _outer(self, node: Node, region: str) -> tuple[Operand, ...]:
        """Return how the two vectors of an outer product are read."""
        u, v = self._plain(node, region)
        return Operand(u, "", "i", True), Operand(v, "", "c", False)

    def _plain(self, node: Node, region: str) -> list[int]:
        """Return the buffers of a node's inputs, none of them seen as a column."""
        plain, nodes = self.emitter.plain, self.graph.nodes
        return [
            plain(self.value(i, region), matrix_shape(nodes[i].shape), region).buffer
            for i in node.inputs
        ]

    def _destination(self, site: Site, shape: tuple[int, int]) -> int:
        home = "thread" if site.node.region is Region.TUPLE else "core"
        return self.emitter.buffer(f"{site.node.op}{site.index}", "temp", home, shape)

    def operand(
        self, index: int, region: str, out: tuple[int, int], loops: tuple[str, str], vector: bool
    ) -> Operand:
        """Return how an operation with output shape `out` reads node `index`; `loops` name the loops over rows and columns."""
        view = self.value(index, region)
        rows, cols = matrix_shape(self.graph.nodes[index].shape)
        row, col = loops
        if view.column:
            return Operand(view.buffer, "", row if rows > 1 else "", True)
        down = row if rows > 1 else ""
        if not vector:
            return Operand(view.buffer, down, col if cols > 1 else "", True)
        if cols == 1 and out[1] > 1:
            return Operand(view.buffer, down, "", True)
        return Operand(view.buffer, down, col, False)

    def _elementwise(self, site: Site, dest: int, merge: str | None = None) -> View:
        fn, shape = ELEMENTWISE[site.node.op].unit, matrix_shape(site.node.shape)
        vector = merge is not None or self.emitter.vector(fn, shape)
        operands = tuple(
            self.operand(i, site.region, shape, ("i", "c"), vector) for i in site.node.inputs
        )
        extents = self.emitter.extents(shape, vector)
        return self.emitter.append(site, fn, operands, extents, dest, vector=vector, merge=merge)

    def emit(
        self,
        site: Site,
        fn: str,
        operands: tuple[Operand, ...],
        extents: tuple[int, int, int],
        shape: tuple[int, int],
        **more: Any,
    ) -> View:
        """Add an operation with a buffer of its own for the result."""
        dest = self._destination(site, shape)
        return self.emitter.append(site, fn, operands, extents, dest, **more)

    # reductions

    def _fusible(self, index: int) -> bool:
        node = self.graph.nodes[index]
        return (
            node.op in ELEMENTWISE
            and self.uses[index] == 1
            and ELEMENTWISE[node.op].unit not in COSTLY
        )

    def _reduction(self, site: Site) -> View:
        node, region = site.node, site.region
        source = node.inputs[0]
        inner = self.graph.nodes[source]
        rows, cols = matrix_shape(inner.shape)
        operation, axis = REDUCTIONS[node.op], node.attrs.get("axis")
        reduce = operation.unit
        if len(inner.shape) == 0 or rows * cols == 1:
            fn = ELEMENTWISE[operation.scalar].unit if operation.scalar else "pass"
            only = self.operand(source, region, (1, 1), ("i", "c"), True)
            return self.emit(site, fn, (only,), (1, 1, 1), (1, 1))
        if axis is not None and axis < 0:
            axis += len(inner.shape)
        down = len(inner.shape) == 2 and axis == 0  # over the rows: lanes stay apart
        if down:
            loops, extents, shape = ("j", "c"), (1, self._beats(cols), rows), (1, cols)
        else:
            loops, extents, shape = ("i", "j"), (rows, 1, self._beats(cols)), (1, rows)
        operands: tuple[Operand, ...]
        if operation.before:
            operand = self.operand(source, region, (rows, cols), loops, True)
            fn, operands = operation.before, (operand, operand)
        elif self._fusible(source) and inner.region is node.region:
            fn = ELEMENTWISE[inner.op].unit
            operands = tuple(
                self.operand(i, region, (rows, cols), loops, True) for i in inner.inputs
            )
        else:
            fn, operands = "pass", (self.operand(source, region, (rows, cols), loops, True),)
        columns = 0 if down else cols
        result = self.emit(site, fn, operands, extents, shape, reduce=reduce, columns=columns)
        if axis is None and rows > 1 and not down:
            # a whole matrix: rows first, then the vector of their results
            again, extents = Operand(result.buffer, "", "j", False), (1, 1, self._beats(rows))
            result = self.emit(site, "pass", (again,), extents, (1, 1), reduce=reduce, columns=rows)
        if operation.after:
            total = self.emitter.buffers[result.buffer]
            shape = total.rows, total.cols
            vector = self.emitter.vector(operation.after, shape)
            operand = Operand(result.buffer, "", "c", not vector)
            extents = self.emitter.extents(shape, vector)
            result = self.emit(site, operation.after, (operand,), extents, shape, vector=vector)
        return result

    def _beats(self, columns: int) -> int:
        return -(-columns // self.emitter.lanes)

    def _matmul(self, site: Site) -> View:
        left, right = (self.graph.nodes[i] for i in site.node.inputs)
        a, b = self._plain(site.node, site.region)
        rows = left.shape[0] if len(left.shape) == 2 else 1
        depth = left.shape[-1]
        row = "i" if rows > 1 else ""
        if len(right.shape) == 1:  # rows of the left matrix times a vector: lanes are added up
            operands = Operand(a, row, "j", False), Operand(b, "", "j", False)
            extents = rows, 1, self._beats(depth)
            return self.emit(site, "mul", operands, extents, (1, rows), reduce="add", columns=depth)
        cols = right.shape[1]
        operands = Operand(a, row, "j", True), Operand(b, "j" if depth > 1 else "", "c", False)
        extents = rows, self._beats(cols), depth
        return self.emit(site, "mul", operands, extents, (rows, cols), reduce="add")

    # merges and stores

    def _merge(self, source: int, merge: str) -> View:
        """Lower the node to be merged, fused with the merge where nothing else reads it; return the accumulator."""
        site = Site(source, self.graph.nodes[source], "group")
        shape = matrix_shape(site.node.shape)
        accumulator = lambda: self.emitter.buffer(f"merge{source}", "acc", "core", shape)
        if self._fusible(source):
            return self._elementwise(site, accumulator(), merge)
        operands: tuple[Operand, ...]
        if site.node.op == "outer" and self.uses[source] == 1:
            fn, operands = "mul", self._outer(site.node, "group")
        else:
            fn, operands = "pass", (self.operand(source, "group", shape, ("i", "c"), True),)
        extents = self.emitter.extents(shape, True)
        return self.emitter.append(site, fn, operands, extents, accumulator(), merge=merge)

    def _store(self, index: int, model: int, implicit: View | None) -> None:
        """Make node `index` the new value of a model, written by its own operation if that reads no other model."""
        node = self.graph.nodes[index]
        shape = (self.emitter.buffers[model].rows, self.emitter.buffers[model].cols)
        view = implicit or self.value(index, "batch")
        if (
            implicit is None
            and node.op in ELEMENTWISE
            and self.uses[index] == 1
            and node.region is not Region.TUPLE
        ):
            last = self.emitter.ops[-1]
            if last.dest == view.buffer and last.vector and self.emitter.streams(last, model):
                self.emitter.ops[-1] = replace(last, dest=model)
                return
        if self.emitter.buffers[view.buffer].kind == "model" and view.buffer != model:
            # two models trade places: by way of a copy
            view = self.emitter.copy(view, shape, "batch", f"old{index}")
        if view.column:
            operand = Operand(view.buffer, "", "i", True)
        else:
            operand = Operand(view.buffer, "i" if shape[0] > 1 else "", "c", False)
        self.emitter.ops.append(
            Op(
                f"new_{self.emitter.buffers[model].name}",
                "pass",
                (operand,),
                self.emitter.extents(shape, True),
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
