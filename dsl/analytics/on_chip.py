"""For which kernels with rows of models there is hardware, and what to say of the others.

Their models lie in the core, whole. The rows of a batch are read, what changes them is kept tuple by tuple, and when the batch is read its
changes are done in the order of the tuples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...models.mapping import ULTRA_BITS
from ...models.numerics.formats import Float, Format
from ...models.rows.units import Range, width_of
from ..core.bind_index import BoundIndex
from ..core.diagnostics import Diagnostic, Span
from ..core.graph import Graph, Node, Region
from .integers import INTEGERS, MEANINGS
from .lower_rows import by_rows, only_by_rows
from .spans import EXACT, span

if TYPE_CHECKING:
    from .candidates import Maker


def why_golden_alone(
    graph: Graph, maker: Maker | None = None, indices: Mapping[str, BoundIndex] | None = None
) -> str:
    """Return why there are golden results alone of a kernel, "" where hardware can be planned for it.

    Without a `maker` or what is bound to the indices: as far as the rest says it.
    """
    if not by_rows(graph):
        return ""
    reasons = _of_graph(graph)
    reason = next(reasons, "")
    if not reason and indices is not None:
        reason = next(_of_bags(graph, indices), "")
    if not reason and maker is not None:
        reason = next(_of_table(graph, maker, indices or {}), "")
    return reason


def no_hardware(graph: Graph, reason: str, code: str = "E496") -> Diagnostic | None:
    """Return the error for what needs hardware, None where there is no reason. `code`: E496, or E601 where the part holds no plan."""
    if not reason:
        return None
    message = f"no hardware for these rows by an index: {reason}"
    helps = "hardware takes a column or an array's element for each place, rows that there surely are, and models that fit on the part"
    if code != "E496":
        message = reason
        helps = "a smaller dimension, a narrower format (--format) or a larger target (--target, --board) would help"
    hint = "golden results are there: backend golden, `penstock simulate --backend golden`"
    if code != "E605":  # the reason says which option there is no plan with
        hint += f"; {helps}"
    return Diagnostic(code, message, _place(graph), hint=hint)


def golden_alone(graph: Graph, reason: str | None = None, code: str = "E496") -> list[Diagnostic]:
    """Return a warning (W496) where golden results are all that there is of a kernel. `code`: of the error where more is asked for."""
    reason = why_golden_alone(graph) if reason is None else reason
    if not reason:
        return []
    hint = f"`penstock simulate --backend golden` trains it; the other backends, builds and rates refuse it ({code})"
    what = f"this kernel has golden results alone: {reason}"
    return [Diagnostic("W496", what, _place(graph), hint=hint, severity="warning")]


def _place(graph: Graph) -> Span:
    touching = (node.span for node in graph.nodes if node.op in (*MEANINGS, "change"))
    spans = [*(v.span for v in graph.of_kind("index")), *touching]
    return spans[0] if spans else Span.whole(graph.name)


def _of_graph(graph: Graph) -> Iterator[str]:
    nodes = graph.nodes
    if graph.score:
        yield "scores read rows"
    if not graph.merge_count and any(node.op == "change" for node in nodes):
        yield "a batch is the whole epoch"
    known = all("counts" in node.attrs for node in nodes if node.op == "index")
    for number, node in enumerate(nodes):
        if node.op in ("change", "rows"):
            yield from _unfit_row(graph, node, known)
        elif node.op in INTEGERS:
            yield from _unfit_integer(graph, number)
            if known and span(graph.nodes, number) == EXACT:
                yield "its integers may have more than 63 bits"
        by_row = any(n.op in ("rows", "change") and n.inputs[0] == number for n in nodes)
        flat = node.op == "model" and len(node.shape) == 1
        if flat and by_row and not only_by_rows(graph, number):
            yield f"the numbers of {node.attrs['name']} are read both one by one and all together"


def _unfit_row(graph: Graph, node: Node, known: bool) -> Iterator[str]:
    """Yield why no hardware finds the rows that a node reads or changes; `known`: how far indices count."""
    nodes, at = graph.nodes, node.inputs[1]
    root = nodes[node.inputs[0]]
    while root.op == "change":
        root = nodes[root.inputs[0]]
    least, most = span(graph.nodes, at)
    if nodes[at].op == "const" or nodes[at].region is not Region.TUPLE:
        yield "which row it is does not depend on the tuple"
    elif known and nodes[at].op != "index" and (least < 0 or most >= root.shape[0]):
        yield f"a row of {root.attrs['name']} that is computed may be one that there is not"


def _unfit_integer(graph: Graph, number: int) -> Iterator[str]:
    """Yield why no hardware computes an integer."""
    node = graph.nodes[number]
    if node.inputs and all(graph.nodes[i].op == "const" for i in node.inputs):
        yield "what it makes of constants is beyond 2**53"
    elif node.op == "integer" and node.region is not Region.TUPLE:
        yield "which row it is does not depend on the tuple"
    elif node.op in ("integer //", "integer %"):
        by = graph.nodes[node.inputs[1]]
        if by.op != "const" or by.shape or span(graph.nodes, node.inputs[1])[0] <= 0:
            yield "it divides integers by what is no positive constant"


def _of_bags(graph: Graph, indices: Mapping[str, BoundIndex]) -> Iterator[str]:
    for v in graph.of_kind("index"):
        if v.shape and not indices[v.name].apart:
            yield f"the bag {v.name} has no column for each place, nor arrays that have all places"
        users = [node.op for node in graph.nodes if v.node in node.inputs]
        if len(indices[v.name].columns) > 1 and not {"rows", "change"}.issuperset(users):
            yield f"it computes with {v.name}, whose columns count one behind the other"


def _of_table(graph: Graph, maker: Maker, indices: Mapping[str, BoundIndex]) -> Iterator[str]:
    choices, fmt = maker.choices, maker.fmt
    if choices.threads not in (None, 1) or choices.ports not in (None, 1):
        yield "several threads or memory ports"
    for v in graph.of_kind("index"):
        bound = indices[v.name]
        counted = [counts for _, _, counts in bound.columns]
        if choices.on_unseen == "last":
            counted.append(bound.counts)
        if max(counted) > 1 << fmt.width:
            yield f"the index {v.name} does not fit in the {fmt.width} bits of {fmt.name}"
    for node in graph.nodes:
        if any(abs(width_of(span(graph.nodes, i))) > fmt.width for i in _lists(graph, node)):
            yield f"whole numbers of a list do not fit in the {fmt.width} bits of {fmt.name}"
        if node.op == "number" and not _exact(fmt, span(graph.nodes, node.inputs[0])):
            yield f"{fmt.name} does not have each integer that it takes for a value"
        places = np.arange(node.attrs.get("places", 0), dtype=np.float64)
        if not np.array_equal(np.asarray(fmt.decode(fmt.encode(places))), places):
            yield f"{fmt.name} does not have each of {len(places)} places"


def _lists(graph: Graph, node: Node) -> Iterator[int]:
    """Yield the operands of an operation on integers that are lists of constants, which lie where numbers of the format do."""
    if node.op in MEANINGS:
        yield from (i for i in node.inputs if graph.nodes[i].op == "const" and graph.nodes[i].shape)


def _exact(fmt: Format, ends: Range) -> bool:
    """Return whether a format has all integers from one to another."""
    digits = fmt.fraction_bits + 1 if isinstance(fmt, Float) else fmt.width
    return max(map(abs, ends)) <= min(fmt.max_value, 2**digits - 1)


def too_large(maker: Maker) -> str:
    """Return why a kernel's models are too large for the chip, "" where they are not, as far as that is known before planning."""
    target = maker.target
    sizes = {v.name: maker.fmt.width * int(np.prod(v.shape)) for v in maker.graph.of_kind("model")}
    bits, largest = sum(sizes.values()), max(sizes, key=sizes.__getitem__)
    have = target.bram * target.bram_bits + target.uram * ULTRA_BITS
    if bits > have:
        most = f", {largest} alone {sizes[largest]:,}" * (len(sizes) > 1)
        what = f"its models take {bits:,} bits{most}, and its RAM blocks have {have:,}"
        return f"kernel {maker.graph.name!r} does not fit on {target.name}: {what}"
    return ""
