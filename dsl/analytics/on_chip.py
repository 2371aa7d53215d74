"""For which kernels with rows of models there is hardware, and what to say of the others.

Their models lie in the core, whole. The rows of a batch are read, what changes them is kept tuple by tuple, and when the batch is read its
changes are done in the order of the tuples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...models.mapping import ULTRA_BITS
from ..core.bind_index import BoundIndex
from ..core.diagnostics import Diagnostic, Span
from ..core.graph import Graph
from .integers import MEANINGS
from .lower_rows import by_rows, only_by_rows

if TYPE_CHECKING:
    from .candidates import Maker

__all__ = ["golden_alone", "no_hardware", "why_golden_alone"]


def why_golden_alone(
    graph: Graph, maker: Maker | None = None, indices: Mapping[str, BoundIndex] | None = None
) -> str:
    """Return why there are golden results alone of a kernel, "" where hardware can be planned for it.

    Without a `maker` and what is bound to the indices: as far as the kernel alone says it.
    """
    if not by_rows(graph):
        return ""
    found = _of_graph(graph)
    reason = next(found, "")
    if not reason and maker is not None:
        reason = next(_of_table(graph, maker, indices or {}), "")
    return reason


def no_hardware(graph: Graph, reason: str) -> Diagnostic | None:
    """Return the error (E496) for what needs hardware, None where there is no reason."""
    if not reason:
        return None
    hint = (
        "golden results are there: backend golden, `penstock simulate --backend golden`; "
        "hardware takes one column an index, batches of a stated size, and models that fit on the part"
    )
    return Diagnostic(
        "E496", f"no hardware for these rows by an index: {reason}", _place(graph), hint=hint
    )


def golden_alone(graph: Graph, reason: str | None = None) -> list[Diagnostic]:
    """Return a warning (W496) where golden results are all that there is of a kernel."""
    reason = why_golden_alone(graph) if reason is None else reason
    if not reason:
        return []
    hint = "`penstock simulate --backend golden` trains it; the other backends, builds and rates refuse it (E496)"
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
    yield from (f"the index {v.name} is a bag" for v in graph.of_kind("index") if v.shape)
    for node in nodes:
        if node.op in ("change", "rows"):
            if nodes[node.inputs[1]].op != "index":
                yield "which row it is, is computed"
        elif node.op in MEANINGS:
            yield "it computes with integers"
    for number, node in enumerate(nodes):
        by_row = any(n.op in ("rows", "change") and n.inputs[0] == number for n in nodes)
        if node.op == "model" and by_row and not only_by_rows(graph, number):
            yield f"the model {node.attrs['name']} is read both by row and whole"


def _of_table(graph: Graph, maker: Maker, indices: Mapping[str, BoundIndex]) -> Iterator[str]:
    choices, target, fmt = maker.choices, maker.target, maker.fmt
    if choices.on_index != "error" or choices.on_unseen != "error":
        yield "rows are left out because of their indices"
    if choices.threads not in (None, 1) or choices.ports not in (None, 1):
        yield "several threads or memory ports"
    for v in graph.of_kind("index"):
        if indices[v.name].counts > 1 << fmt.width:
            yield f"the index {v.name} does not fit in the {fmt.width} bits of {fmt.name}"
    bits = fmt.width * sum(int(np.prod(v.shape)) for v in graph.of_kind("model"))
    have = target.bram * target.bram_bits + target.uram * ULTRA_BITS
    if bits > have:
        yield f"its models take {bits:,} bits, and the RAM blocks of {target.name} have {have:,}"
