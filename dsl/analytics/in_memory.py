"""Models whose rows lie in memory behind lines on the chip: which of a kernel's may, and how many lines they get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...models.mapping import ULTRA_BITS
from ...models.rows.unit import BATCH_BITS, RowTable
from ..core.bind_index import BoundIndex
from ..core.diagnostics import KernelError, Span, error
from ..core.graph import Graph, Node
from ..core.hints import closest
from .lower_rows import only_by_rows

if TYPE_CHECKING:
    from .candidates import Maker
    from .choices import Choices

#: of the RAM blocks, how much the lines and what tells them apart may take, one tried after the other
SHARES = (0.5, 0.25, 0.125, 0.06)


def placed(graph: Graph, place: Mapping[str, str]) -> dict[str, int | None]:
    """Return the models that the user puts into memory, with their lines where they are given. Raises KernelError (E605)."""
    models = [v.name for v in graph.of_kind("model")]
    lines_of: dict[str, int | None] = {}
    for name, where in place.items():
        if name not in models:
            hint = closest(name, models) or f"its models are {', '.join(models)}"
            raise error(
                "E605", f"{graph.name} has no model {name}", Span.whole("--place"), hint=hint
            )
        kind, _, lines = where.partition(":")
        wrong = kind not in ("memory", "chip") or (kind == "chip" and lines)
        if wrong or (lines and not lines.isdecimal()):
            hint = f"write {name}=chip, {name}=memory, or {name}=memory:64 for 64 rows held on the chip"
            raise error(
                "E605", f"{where!r} is no place of a model", Span.whole("--place"), hint=hint
            )
        if kind == "memory":
            lines_of[name] = int(lines) if lines else None
    return lines_of


def check_no_places(graph: Graph, choices: Choices) -> None:
    """Raise KernelError (E605) for options of rows, where a kernel has none."""
    placed(graph, choices.place)
    for option, choice in (("--place", choices.place), ("--dedupe", choices.dedupe)):
        if choice:
            what = f"{graph.name} reads and changes no rows by an index"
            raise error("E605", what, Span.whole(option), hint=f"leave {option} out")


def _held(names: Sequence[str], asked: Mapping[str, int | None], least: int) -> int:
    """Return how many lines the user asks for: for 0 the lines that batches need (`least`); 0 where the user names no number."""
    counts = [lines for name in names if (lines := asked.get(name)) is not None]
    return (max(counts) or least) if counts else 0


def placed_tables(
    maker: Maker,
    indices: Mapping[str, BoundIndex],
    asked: Mapping[str, int | None] | None,
    share: float,
) -> tuple[RowTable, ...] | str:
    """Return the tables of models in memory, or why there are none.

    `asked`: which models, and with how many lines; None for all that may. Models that the same indices name share a table, so that one of them
    takes the others along. `share`: of the RAM blocks, as of `SHARES`.
    """
    graph = maker.graph
    reason = next(_unfit(maker), "")
    if reason:
        return reason
    tables: list[RowTable] = []
    for names, by in _groups(graph):
        if asked is not None and not asked.keys() & {*names}:
            continue
        reason = next(_unfit_table(graph, names, by), "")
        if reason and asked is None:
            continue
        if reason:
            return reason
        shapes = [graph.variables[name].shape for name in names]
        places = sum(indices[i].places for i in by)
        columns = tuple(shape[1] if len(shape) > 1 else 1 for shape in shapes)
        rows = shapes[0][0]
        least = min(rows, 2 * graph.merge_count * places)
        lines = _held(names, asked or {}, least)
        if 0 < lines < least:
            return f"two batches of {graph.merge_count} may ask for {least} rows of {names[0]}, and {lines} are held"
        tables.append(RowTable(tuple(names), columns, rows, min(lines, rows) or -least))
    row_tables = _with_lines(maker, tables, share)
    if not tables or isinstance(row_tables, str):
        return row_tables or "no model is read and changed by an index alone"
    hot, groups = maker.choices.hot, {names[0]: by for names, by in _groups(graph)}
    asked_at = [sum(indices[i].places for i in groups[table.models[0]]) for table in row_tables]
    return tuple(
        divided(table, hot, 2 * graph.merge_count * count)
        for table, count in zip(row_tables, asked_at, strict=True)
    )


def check_hot(graph: Graph, hot: Mapping[str, Sequence[int]]) -> None:
    """Raise KernelError (E498) for hot rows of a model that there is not, or that it does not have."""
    models = {v.name: v for v in graph.of_kind("model")}
    for name, rows in hot.items():
        if name not in models:
            hint = closest(name, [*models]) or f"its models are {', '.join(models)}"
            raise no_profile(f"{graph.name} has no model {name}", hint)
        count = (*models[name].shape, 1)[0]
        wrong = next((row for row in rows if not 0 <= row < count), None)
        if wrong is not None:
            what = f"{name} has rows 0 to {count - 1:,}, not {wrong:,}"
            raise no_profile(what, "make it from this table: penstock profile … --out FILE.json")


def no_profile(what: str, hint: str) -> KernelError:
    """Return E498."""
    return error("E498", f"hot rows: {what}", Span.whole("--hot"), hint=hint)


def divided(table: RowTable, hot: Mapping[str, Sequence[int]], asked: int) -> RowTable:
    """Return the table with lines that rows pass through, as many as two batches ask for at least; lines where the hottest rows are pinned, as far as
    there are more; and, where there are as many again, lines that keep rows. Where all rows are held, none gives way."""
    if table.lines == table.rows:
        return table
    least = min(asked, table.rows)
    named = dict.fromkeys(row for model in table.models for row in hot.get(model, ()))
    pinned = tuple(sorted([*named][: table.lines - least]))
    turning = table.lines - len(pinned)
    keeping = turning - max(least, turning // 16)
    return replace(table, pinned=pinned, keeping=keeping if keeping > least else 0)


def _with_lines(
    maker: Maker, tables: Sequence[RowTable], share: float
) -> tuple[RowTable, ...] | str:
    """Return tables with their lines. Minus the lines that a batch needs say that the user gave none: then as many as there is room for, a power of two."""
    target, width = maker.target, maker.fmt.width
    have = share * (target.bram * target.bram_bits + target.uram * ULTRA_BITS)
    row_tables: list[RowTable] = []
    for table in tables:
        lines = table.lines
        if lines < 0:
            each, lines = have / len(tables), table.rows
            while lines > -table.lines and _bits(table, lines, width) > each:
                lines = max(-table.lines, 1 << (lines - 1).bit_length() - 1)
            if _bits(table, lines, width) > 2 * each:
                need = _bits(table, lines, width)
                return f"{lines} lines for rows of {table.models[0]} and what finds them take {need:,} bits of RAM blocks"
        row_tables.append(RowTable(table.models, table.columns, table.rows, lines))
    return tuple(row_tables)


def _bits(table: RowTable, lines: int, width: int) -> int:
    """Return the bits that so many lines take, each read by some operations, and the directory of rows."""
    row = 3 * sum(table.columns) * width + table.rows.bit_length() + BATCH_BITS
    return lines * row + table.rows * lines.bit_length()


def _unfit(maker: Maker) -> Iterator[str]:
    graph, target = maker.graph, maker.target
    if target.ports < 2 and not target.lends:
        yield f"rows in memory have a port of their own, and {target.name} has one port in all"
    if graph.until is not None:
        yield "a test ends the training"


def _index(graph: Graph, node: Node) -> str:
    """Return the name of the index that a row is named by, "" for an integer that is computed."""
    of = graph.nodes[node.inputs[1]]
    return str(of.attrs["name"]) if of.op == "index" else ""


def _asks(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield (model, index) of all that reads or changes rows."""
    nodes = graph.nodes
    for node in nodes:
        if node.op in ("rows", "change"):
            root = nodes[node.inputs[0]]
            while root.op == "change":
                root = nodes[root.inputs[0]]
            yield str(root.attrs["name"]), _index(graph, node)


def _groups(graph: Graph) -> list[tuple[list[str], list[str]]]:
    """Return models that have indices in common, and their indices, in the order of the kernel's models."""
    order = [v.name for v in graph.of_kind("model")]
    groups: list[tuple[set[str], set[str]]] = []
    for model, by in _asks(graph):
        mine = [g for g in groups if model in g[0] or (by and by in g[1])]
        names, indices = {model}, {by}
        for group in mine:
            names, indices = names | group[0], indices | group[1]
            groups.remove(group)
        groups.append((names, indices))
    pairs = [(sorted(names, key=order.index), sorted(by)) for names, by in groups]
    return sorted(pairs, key=lambda group: order.index(group[0][0]))


def _unfit_table(graph: Graph, names: Sequence[str], by: Sequence[str]) -> Iterator[str]:
    """Yield why models with indices in common cannot lie in memory."""
    nodes, variables = graph.nodes, graph.variables
    if "" in by:
        yield f"which row of {names[0]} it is, is computed"
    for name in names:
        if not only_by_rows(graph, variables[name].node):
            yield f"{name} is read whole"
        if variables[name].shape[0] != variables[names[0]].shape[0]:
            yield f"{names[0]} and {name} have the same index and not as many rows"
    for name in by:
        number = variables[name].node if name else -1
        for node in nodes:
            if number in node.inputs and node.op not in ("rows", "change"):
                yield f"the index {name} does not only name rows"
