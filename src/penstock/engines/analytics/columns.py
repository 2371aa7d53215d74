"""Columns of tables that indices take: how far they count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.dsl.core.diagnostics import error

if TYPE_CHECKING:
    from penstock.dsl.core.bind import Binding
    from penstock.dsl.core.bind_index import Counts
    from penstock.dsl.core.graph import Graph
    from penstock.dsl.core.kernel import AnyKernel
    from penstock.dsl.core.scores import ScoreKernel
    from penstock.models.heap.schema import Schema


def counts_of(table: Any) -> Counts | None:
    """Return what says of a table's columns how far their integers count, and how long their arrays are; None without a table."""
    from penstock.host.sources import Table

    if not isinstance(table, Table):
        return None
    known: dict[str, Any] = {}

    def counts(column: str) -> tuple[int, int, int]:
        from penstock.models.analytics.indices import padded
        from penstock.models.rows.integers import ABSENT

        if not known:
            known.update(table.columns())
        integers = padded(known[column])
        longest = int(integers.shape[1])
        lengths = (integers[integers[:, 0] != ABSENT + 1] != ABSENT).sum(axis=1)
        fewest = int(lengths.min(initial=longest))
        return 1 + int(integers[integers > ABSENT + 1].max(initial=0)), longest, fewest

    return counts


def index_columns(
    kernel: AnyKernel, bindings: Mapping[str, Sequence[str]] | None
) -> tuple[str, ...]:
    """Return the columns that a kernel's indices take."""
    indices = kernel.of_kind("index")
    return tuple(n for p in indices for n in (bindings or {}).get(p.name, (p.name,)))


def used_columns(
    kernel: AnyKernel, bindings: Mapping[str, Sequence[str]] | None
) -> dict[str, bool] | None:
    """Return the columns that a kernel takes by name, as `used` of `Features`: a lone input takes what is left where none is bound to it."""
    named, inputs = bindings or {}, kernel.of_kind("input")
    lone = inputs[0] if len(inputs) == 1 and inputs[0].name not in named else None
    if lone is not None and any(lone.name in columns for columns in named.values()):
        return None
    taken = [p for p in kernel.parameters if p.kind in ("input", "output", "index")]
    used = {n: False for p in taken for n in named.get(p.name, (p.name,))}
    return used if lone is None else {**used, lone.name: bool(lone.dims)}


def counts_learned(kernel: ScoreKernel, bindings: Mapping[str, Sequence[str]] | None) -> Counts:
    """Return how far the columns of a score's indices count: as those did that were learned from."""
    known: dict[str, tuple[int, int, int]] = {}
    for index in kernel.graph.of_kind("index"):
        names = (bindings or {}).get(index.name, (index.name,))
        places = index.shape[0] if index.shape else 1
        known |= {name: (far, places, 0) for name, far in zip(names, index.init, strict=True)}
    return known.__getitem__


def check_spare(schema: Schema, binding: Binding, kernel: AnyKernel) -> None:
    """Raise KernelError (E609) where the last row, which shall stand for categories that are not known, is a known one's."""
    for parameter in kernel.of_kind("index"):
        index = binding.indices[parameter.name]
        labels = [schema.columns[n].labels for n, _, _ in index.columns]
        categories = sum(len(known) for known in labels if known is not None)
        if all(known is not None for known in labels) and index.counts <= categories:
            what = f"on_unseen: the last of the {index.counts:,} rows of {parameter.name} is a category's own"
            hint = f"give the model one row more: --dim {parameter.dims[0]}={categories + 1}"
            raise error("E609", what, parameter.span, hint=hint, source=kernel.source)


def counted(graph: Graph, binding: Binding) -> None:
    """Put the number of its places for the count of a bag that all tuples fill, and for integers that are made of such alone."""
    from penstock.dsl.analytics.integers import INTEGERS, MEANINGS
    from penstock.dsl.core.graph import Region
    from penstock.dsl.core.operations import evaluate

    bags: dict[int, set[str]] = {}
    for n, node in enumerate(graph.nodes):
        names = {node.attrs["name"]} if node.op == "index" else set()
        bags[n] = names.union(*(bags[i] for i in node.inputs))
        of = [graph.nodes[i] for i in node.inputs]
        if node.op == "count" and all(binding.indices[name].apart for name in bags[n]):
            value = float(of[0].shape[-1])
        elif node.op in INTEGERS and of and all(o.op == "const" for o in of):
            values = [o.attrs["value"] for o in of]
            try:
                value = float(evaluate(MEANINGS[node.op], values, node.attrs, [False] * len(of)))
            except OverflowError:
                continue
            if abs(value) >= 2**53:  # a constant would be rounded
                continue
        else:
            continue
        graph.nodes[n] = replace(
            node, op="const", inputs=(), region=Region.RUN, attrs={"value": value}
        )


def hashed(graph: Graph, schema: Schema, binding: Binding) -> None:
    """Say in the graph, and in that of its score, how many bytes of an index are hashed: those of its column's type, 4 or 8. A score
    that was learned hashes what its training did."""
    wide = {
        name: any(schema.columns[n].type.startswith("int8") for n, _, _ in index.columns)
        for name, index in binding.indices.items()
    }
    scoring = graph.scoring.nodes if graph.scoring is not None else ()
    for node in (*graph.nodes, *scoring):
        if "of" in node.attrs and "bytes" not in node.attrs:
            node.attrs["bytes"] = 8 if any(wide[name] for name in node.attrs["of"]) else 4
