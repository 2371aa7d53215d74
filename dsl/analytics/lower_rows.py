"""Lowering of what kernels do with indices: integers, rows that are read, rows that are changed.

Integers go from buffer to buffer element by element. Rows are read where the kernel reads them. Changes leave in the order in which they
are written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...models.analytics.config import FETCH, Buffer, Op, Operand
from ...models.analytics.timing import latency
from ...models.numerics.formats import Format
from ...models.rows.units import width_of
from ..core.graph import Graph, Region
from .emit import Site, View
from .indexed import MAX_BAG
from .integers import INTEGERS, MEANINGS
from .spans import span

if TYPE_CHECKING:
    from .lower import Lowering

_MOST_PLACES = MAX_BAG.bit_length()

#: operations of kernels with rows, and their indices
_OF_ROWS = frozenset((*MEANINGS, "change", "index"))


def by_rows(graph: Graph) -> bool:
    """Return whether a kernel has an index, or reads or changes rows."""
    return any(node.op in _OF_ROWS for node in graph.nodes)


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return (rows, cols) of a shape of rank 0 to 2."""
    rows, cols = (1, 1, *shape)[-2:]
    return rows, cols


def lowered(low: Lowering, site: Site) -> View:
    """Lower a node that is an integer, or made of integers."""
    node, shape = site.node, matrix_shape(site.node.shape)
    if node.op == "rows":
        return _rows(low, site)
    if node.op == "integer" and low.graph.nodes[node.inputs[0]].op in ("count", "const"):
        return _integer(low, node.inputs[0], site.region)
    if node.op == "count":  # the value of an integer
        integer = _element(_integer(low, site.index, site.region))
        return _emit(low, site, "number", (integer,), shape, (_MOST_PLACES,))
    if node.op == "integer":
        source = low.operand(node.inputs[0], site.region, shape, ("i", "c"), False)
        bits = abs(width_of(span(low.graph.nodes, site.index)))
        return _emit(low, site, "integer", (source,), shape, (bits,))
    fn = "integer negative" if node.op == "negative" else node.op
    inputs = list(node.inputs)
    detail: tuple[int, ...] = ()
    if fn == "hash":
        detail = (
            node.attrs["seed"],
            node.attrs["bytes"],
            width_of(span(low.graph.nodes, inputs[0])),
        )
    elif node.op == "number":
        detail = (width_of(span(low.graph.nodes, inputs[0])),)
    else:
        detail, inputs = _told(low.graph, site.index)
    operands = tuple(
        _element(_integer(low, i, site.region), matrix_shape(low.graph.nodes[i].shape))
        for i in inputs
    )
    return _emit(low, site, fn, operands, shape, detail)


def _told(graph: Graph, index: int) -> tuple[tuple[int, ...], list[int]]:
    """Return what the unit of an integer's operation is told (`models.rows.units`), and the operands that are no constant."""
    node = graph.nodes[index]
    inputs, side, constant = list(node.inputs), -1, 0
    for place, i in enumerate(inputs):
        of = graph.nodes[i]
        if of.op == "const" and not of.shape and len(inputs) > 1:
            side, constant = place, int(np.asarray(of.attrs["value"]))
    spans = [span(graph.nodes, i) for i in inputs]
    if side >= 0:
        del inputs[side]
    widths = [width_of(of) for place, of in enumerate(spans) if place != side]
    bits = abs(width_of(span(graph.nodes, index))) if node.op in INTEGERS else 0
    return (bits, side, constant, spans[0][0], *widths), inputs


def _element(view: View, shape: tuple[int, int] = (1, 1)) -> Operand:
    rows, cols = shape
    return Operand(view.buffer, "i" if rows > 1 else "", "c" if cols > 1 else "", True)


def _integer(low: Lowering, index: int, region: str) -> View:
    """Return where the integers of a node are: of a constant and of a count those that its value is made of."""
    node = low.graph.nodes[index]
    if node.op not in ("const", "count"):
        return low.value(index, region)
    key = (index, f"{region if node.op == 'count' else ''} integer")
    if key not in low.memo:
        low.memo[key] = _constant(low, index) if node.op == "const" else _count(low, index, region)
    return low.memo[key]


def _constant(low: Lowering, index: int) -> View:
    node = low.graph.nodes[index]
    shape = matrix_shape(node.shape)
    number = low.emitter.buffer(f"int{index}", "run", "core", shape, integer=True)
    value = np.broadcast_to(np.asarray(node.attrs["value"], dtype=np.float64), node.shape)
    low.run_values[number] = value.reshape(shape)
    return View(number)


def _count(low: Lowering, index: int, region: str) -> View:
    node = low.graph.nodes[index]
    bag = _integer(low, node.inputs[0], region)
    places = matrix_shape(low.graph.nodes[node.inputs[0]].shape)[1]
    dest = low.emitter.buffer(f"places{index}", "temp", "thread", (1, 1), integer=True)
    site = Site(index, node, region)
    operand = Operand(bag.buffer, "", "j", True)
    return low.emitter.append(site, "count", (operand,), (1, 1, places), dest, vector=False)


def _emit(
    low: Lowering,
    site: Site,
    fn: str,
    operands: tuple[Operand, ...],
    shape: tuple[int, int],
    detail: tuple[int, ...] = (),
) -> View:
    node = site.node
    home = "thread" if node.region is Region.TUPLE else "core"
    integer = node.op in INTEGERS
    bits = abs(width_of(span(low.graph.nodes, site.index))) if integer else 0
    dest = low.emitter.buffer(f"{node.op}{site.index}", "temp", home, shape, integer, bits)
    return low.emitter.append(site, fn, operands, (*shape, 1), dest, vector=False, detail=detail)


def _rows(low: Lowering, site: Site) -> View:
    node, shape = site.node, matrix_shape(site.node.shape)
    table, index = node.inputs
    rows = low.graph.nodes[table].shape[0]
    bag = matrix_shape(low.graph.nodes[index].shape)[1] > 1
    numbers = bag and len(node.shape) == 1  # one of each row
    at = _integer(low, index, site.region).buffer
    operands = (
        Operand(low.value(table, site.region).buffer, "", "c", False),
        Operand(at, "", ("c" if numbers else "i") if bag else "", True),
    )
    extents = low.emitter.extents(shape, not numbers)
    return low.emit(site, "rows", operands, extents, shape, vector=not numbers, detail=(rows,))


def only_by_rows(graph: Graph, model: int) -> bool:
    """Return whether a model is read and changed row by row alone."""
    users = [node for node in graph.nodes if model in node.inputs]
    return bool(users) and all(
        node.op in ("rows", "change") and model not in node.inputs[1:] for node in users
    )


def change(low: Lowering, index: int, model: int) -> None:
    """Lower the changes that a model's new value is made of, the first written first."""
    node = low.graph.nodes[index]
    base, at, value = node.inputs
    if low.graph.nodes[base].op == "change":
        change(low, base, model)
    table = low.graph.nodes[base]
    want = matrix_shape((*low.graph.nodes[at].shape, *table.shape[1:]))
    bag = matrix_shape(low.graph.nodes[at].shape)[1] > 1
    numbers = bag and len(table.shape) == 1
    loops = ("", "i") if numbers else ("i", "c")
    operands = (
        Operand(model, "", "c", False),
        _kept(low, Operand(_integer(low, at, "group").buffer, "", "i" if bag else "", True)),
        _kept(low, low.operand(value, "group", want, loops, not numbers)),
    )
    extents = (want[1], 1, 1) if numbers else low.emitter.extents(want, True)
    site = Site(index, node, "batch")  # as new models are written
    fn, detail = f"at {node.attrs['change']}", (table.shape[0],)
    low.emitter.append(site, fn, operands, extents, model, detail=detail)
    op: Op = low.emitter.ops[-1]
    low.emitter.ops[-1] = replace(op, home="core")


def spaced(
    ops: Sequence[Op], buffers: Sequence[Buffer], fmt: Format, arrays: Collection[str]
) -> list[Op]:
    """Return the operations with changes by a bag as far apart, from place to place, as two of one row must be; `arrays`: indices whose
    places may be one row, as those of computed rows may. No two columns share a row."""
    copied = {op.dest: op.operands[0].buffer for op in ops if op.fn == "pass"}
    operations = []
    for op in ops:
        if op.changes_rows and op.extents[0] > 1:
            bag = op.operands[1].buffer
            rows = buffers[copied.get(bag, bag)]
            if rows.kind != "index" or rows.name in arrays:
                i, c, _ = op.extents
                least = op.fetch - FETCH + latency(op.unit_fn, fmt)
                op = replace(op, extents=(i, c, -(-least // c)))
        operations.append(op)
    return operations


def _kept(low: Lowering, operand: Operand) -> Operand:
    """Return how an operation reads what all tuples of a batch left for its end: there is a slot for each of them."""
    buffers, count = low.emitter.buffers, low.graph.merge_count
    buffer = buffers[operand.buffer]
    if count == 1 or buffer.home == "core":
        return operand
    kept = operand.buffer
    if buffer.kind != "temp":  # a tuple's own slot is soon another's
        shape, name = (buffer.rows, buffer.cols), f"kept_{buffer.name}"
        key = (operand.buffer, "kept")
        if key not in low.memo:
            low.memo[key] = low.emitter.copy(View(operand.buffer), shape, "group", name)
        kept = low.memo[key].buffer
    buffers[kept] = replace(buffers[kept], slots=max(count, 1), integer=buffer.integer)
    return replace(operand, buffer=kept)
