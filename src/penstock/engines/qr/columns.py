"""Designs of fits over numeric columns of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.data.assumed import Assumed, assume, fitted, paged
from penstock.data.policies import input_policy
from penstock.data.tables import packed_here, table_on
from penstock.dsl.core.bind import bind
from penstock.dsl.core.diagnostics import KernelError, error
from penstock.dsl.core.scores import linear
from penstock.dsl.qr.functions import MOST_COLUMNS
from penstock.dsl.qr.kernel import FitGraph, FitKernel
from penstock.dsl.qr.table_plan import lower_table
from penstock.dsl.qr.units import Unit, typical_limbs
from penstock.engines.base import Given
from penstock.engines.score import Groups, Scoring
from penstock.host.sources import Table
from penstock.models.heap.schema import Column, Schema
from penstock.models.memory import FixedLatency
from penstock.models.numerics.limbs import Limbs
from penstock.models.numerics.policy import InputPolicy
from penstock.models.qr.columns import Columns
from penstock.models.qr.job import Method
from penstock.models.qr.shell import table_register_map
from penstock.models.qr.table_config import TableFitPlan, layout
from penstock.models.resources import AIM
from penstock.models.shell import RegisterMap
from penstock.models.strider.config import WalkConfig
from penstock.models.strider.isa import disassemble
from penstock.models.strider.layout import TupleLayout
from penstock.models.strider.program import generate
from penstock.models.target import Target
from penstock.targets import timing_of

from .designs import AnyFit
from .options import Solving
from .packing import Group, PackedFits, Packing, without
from .refit_requests import asked_of, limited_fits
from .solution import column_names, values_of
from .table_fits import AssumedFits, TableFits

if TYPE_CHECKING:
    from penstock.hdl.modules import Parts


@dataclass(frozen=True, repr=False)
class ColumnsDesign(AnyFit):
    """A compiled fit over columns: where they are in the table, and the engine."""

    graph: FitGraph
    plan: TableFitPlan
    solving: Solving = field(default=Solving(), compare=False, kw_only=True)
    #: of the table that the kernel was compiled for, for reports
    units: tuple[Unit, ...] = field(default=(), compare=False, kw_only=True)
    #: where the host packs rows that have weights or belong to groups
    packing: Packing | None = field(default=None, kw_only=True)
    #: over which pages come into a ring, in place of the target's
    link: str | None = field(default=None, compare=False, kw_only=True)

    kind = "columns"
    arguments = frozenset({"changes", "on_singular", "refine"})

    @property
    def walk(self) -> WalkConfig:
        """How the user's tables are read: features and label, then a weight where there is one."""
        return self.plan.walk if self.packing is None else self.packing.walk

    @property
    def schema(self) -> Schema:
        """The schema of the user's tables."""
        return self.walk.schema

    @property
    def _named(self) -> list[str]:
        """The columns that features and label are read from."""
        weighted = self.packing is not None and self.packing.weight is not None
        sources = self.walk.layout.sources[: -1 if weighted else None]
        return [self.schema.columns[source.column].name for source in sources]

    @property
    def format_name(self) -> str:
        return self.plan.columns.format.name

    @property
    def registers(self) -> RegisterMap:
        return table_register_map(self.plan, self.identity)

    def component(self, parts: Parts) -> Any:
        from penstock.hdl.qr.table_engine import TableFitEngine

        return TableFitEngine(self.plan, parts, design=self.identity)

    def config(self) -> dict[str, Any]:
        plan, packing = self.plan, self.packing
        names = {"sample_weight": packing.weight, "group_by": packing.group} if packing else {}
        return plan.columns.to_json() | {
            "method": "gram",
            "format": self.format_name,
            **asdict(self.solving),
            **{option: name for option, name in names.items() if name is not None},
            "incremental": self.graph.incremental,
            "walkers": plan.walkers,
            "tuple_slots": plan.slots,
            "bus_bytes": plan.bus_bytes,
            "on_null": self.walk.layout.on_null,
            **asdict(plan.walk.policy),
            "page_size": plan.walk.schema.page_size,
        }

    def to_json(self) -> dict[str, Any]:
        packing = {} if self.packing is None else {"packing": self.packing.to_json()}
        return super().to_json() | {"solving": asdict(self.solving), **packing}

    def scoring(
        self, result: Mapping[str, np.ndarray], details: Mapping[str, Any] | None = None
    ) -> Scoring:
        """Return what scores rows by bias + Σ w x: in float64 on the host, in float32 in hardware; a row's group says which weights."""
        groups, columns = None, self._named[:-1]
        if self.packing is not None and self.packing.group is not None:
            values = tuple(fit["group"] for fit in (details or {})["fit"]["groups"])
            groups = Groups(self.packing.group, values, dict(result))
        weights = result["weights"] if groups is None else result["weights"][0]
        kernel = linear(self.name, np.ravel(weights), float(np.ravel(result["bias"])[0]))
        used, options = {"x": tuple(dict.fromkeys(columns))}, {"on_null": "skip"}
        how = "float32", self.target, options, "host", groups
        return Scoring(kernel, used, self.schema, *how)

    def listings(self) -> dict[str, bytes]:
        return {"strider.asm": disassemble(generate(self.plan.walk)).encode()}

    def text(self) -> str:
        from penstock.report.words import plural

        columns, striders = self.plan.columns, plural(self.plan.walkers, "Strider")
        rows = f"{plural(columns.slots, 'cycle')} a row"
        return f"{plural(columns.gram_lanes, 'product')} a cycle, {rows}; {striders}"

    @property
    def names(self) -> Mapping[str, Any]:
        names = column_names(self.walk) if self.packing is None else self.packing.names
        return {"weights": list(names[:-1])}

    def opened(self, args: Given) -> Given:
        return args  # a server's rows are packed as the design's schema says

    def ringed(self, slots: int) -> ColumnsDesign:
        return replace(self, plan=replace(self.plan, ring=slots))

    def workload(self, args: Given) -> TableFits | PackedFits | AssumedFits:
        """Return fits of the table's first rows, and refits with rows that come and go.

        Raises SourceError for the table, KernelError (E701) where its rows are too few or too many,
        ValueError for an option's value that there is not.
        """
        asked = asked_of(args)
        limited_fits(asked.changes)
        solving = self.solving.with_options(args.options)
        design = self if args.link is None else replace(self, link=args.link)
        if args.rows is not None:
            return AssumedFits(design, assume(self.plan.walk.schema, args.rows), asked)
        if isinstance(args.data, Assumed):
            return AssumedFits(design, args.data, asked)
        table = table_on(args.data, args.source, self.walk, (self._named[-1],))
        if self.packing is not None:
            place = args.place or table.name
            packed = self.packing.packed(table, self.plan.walk.schema, self.graph, place)
            limited_fits(replace(asked.changes, groups=max(1, len(packed.groups))))

            def fits(group: Group, called: str) -> TableFits:
                return TableFits(design, group.table, called, asked, solving, group.values)

            return PackedFits(self.packing, packed, table, args.place, fits)
        return TableFits(design, table, args.place, asked, solving)


def _schema_of(
    kernel: FitKernel,
    dims: Mapping[str, int],
    bindings: Mapping[str, Sequence[str]],
    more: Mapping[str, str],
) -> Schema:
    """Return the schema of the kernel's own shapes, with the columns that are bound; `more`: types of further columns by
    their names. Raises KernelError (E505)."""
    [x], [y] = kernel.of_kind("input"), kernel.of_kind("output")
    several = bindings.get(x.name, ())
    missing = next((dim for dim in kernel.dim_names if dim not in dims), None)
    if missing and len(several) < 2:
        message = f"the size of dimension {missing} is not known"
        raise kernel.error("E505", message, x.span, hint=f"give it with --dim {missing}=SIZE")
    labels = bindings.get(y.name, ()) or (y.name,)
    features = [Column(name, "float4", not_null=True) for name in several]
    if len(several) < 2:
        sizes = (dims[dim] if isinstance(dim, str) else dim for dim in x.dims)
        size, name = next(sizes, None), several[0] if several else x.name
        kind = "float4" if size is None else "float4[]"
        features = [Column(name, kind, not_null=True, length=size)]
    outputs = (Column(name, "float4", not_null=True) for name in labels)
    further = (Column(name, kind, not_null=True) for name, kind in more.items() if name)
    return Schema(kernel.name, (*features, *outputs, *further))


def check_method(graph: FitGraph) -> None:
    """Raise KernelError (E606) where a fit over columns has a method without hardware."""
    if graph.method is not Method.GRAM:
        message = "a fit over columns has no method givens yet"
        hint = 'leave method out, or write method="gram"'
        raise error("E606", message, graph.span, hint=hint, source=graph.source)


def compile_columns(kernel: FitKernel, part: Target, args: Given) -> ColumnsDesign:
    """Compile a fit over columns for a part and a table. Raises KernelError, SourceError.

    Where the memory is on the part and no timing is given, the planner chooses the width of the
    memory port.
    """
    kernel.trace(args.option("dims", {}))
    graph, schema, attributes = _bound(kernel, part, args)
    on_null = args.option("on_null", "error")
    policy = input_policy(
        args.option("on_overflow"), args.option("on_nan"), has_nan=False, format="integers"
    )
    packing = None
    if args.option("sample_weight") or args.option("group_by"):
        packing = Packing.of(schema, layout(attributes, on_null), policy, args.options)
        schema = paged(packing.schema, part)
        attributes = [(k, 0) for k in range(len(schema.columns))]
    placed = layout(attributes, on_null)
    solving = Solving().with_options(args.options)
    units, limbs = _limbs(graph, schema, placed, policy, packing, args)
    memory = None
    if args.memory is not None or not part.shared:
        memory = timing_of(args.memory, part)
    fill = args.option("fill", AIM)

    def planned(limbs: tuple[int, ...]) -> TableFitPlan:
        columns = Columns(limbs, 1)
        walk = WalkConfig(schema, placed, columns.format, policy=policy)
        return lower_table(graph, columns, walk, _full_page(walk), part, memory, fill)

    try:
        plan = planned(limbs)
    except KernelError as problem:
        # a part that does not hold all limbs may hold the highest ones
        if problem.diagnostic.code != "E601" or args.option("limbs") or max(limbs) == 1:
            raise
        plan, units = planned((1,) * len(limbs)), ()
    timing = memory or FixedLatency(part.latency, plan.bus_bytes)
    plan = replace(plan, ring=args.option("ring") or 0)
    return ColumnsDesign(part, timing, graph, plan, solving=solving, units=units, packing=packing)


def _bound(
    kernel: FitKernel, part: Target, args: Given
) -> tuple[FitGraph, Schema, list[tuple[int, int]]]:
    """Return the kernel's graph, the schema of its table, and attribute and element of each feature, of the label and of the weight."""
    dims, bindings = args.option("dims", {}), args.option("bind", {})
    weight, group = args.option("sample_weight"), args.option("group_by")
    data = args.data
    if data is None or isinstance(data, str):
        data = _schema_of(kernel, dims, bindings, {weight: "float8", group: "int4"})
    schema = data.schema if isinstance(data, Table) else data
    if packed_here(args.data, args.source):
        schema = paged(schema, part)
    named = [name for names in bindings.values() for name in names]
    unusable = getattr(data, "unusable", None)
    free = without(schema, args.options, named, unusable)
    binding = bind(kernel, free, bindings, dims, unusable)
    graph = kernel.trace(binding.dims)
    check_method(graph)
    assert graph.label is not None
    attributes = [
        (run.attribute, run.first + k)
        for variable in (graph.features, graph.label)
        for run in binding.fields[variable]
        for k in range(run.count)
    ]
    if not weight:
        return graph, schema, attributes
    if graph.columns >= MOST_COLUMNS:
        message = f"{graph.features} has {graph.columns - 1} columns; a weighted fit takes at most {MOST_COLUMNS - 2}"
        hint = "bind fewer columns to it"
        raise error("E454", message, graph.span, hint=hint, source=graph.source)
    return graph, schema, [*attributes, (schema.index(weight), 0)]


def _limbs(
    graph: FitGraph,
    schema: Schema,
    placed: TupleLayout,
    policy: InputPolicy,
    packing: Packing | None,
    args: Given,
) -> tuple[tuple[Unit, ...], tuple[int, ...]]:
    """Return the units of the columns of the table that is given (none without one), and how many limbs they have.

    Of rows that the host packs, the most that a group takes, and no units: each group has its own.
    """
    asked, count = args.option("limbs"), len(placed.sources)
    walk = WalkConfig(schema, placed, Limbs((1,) * count), policy=policy)
    if not isinstance(args.data, (Table, str)):
        types = [walk.element(source.column) for source in placed.sources]
        return (), tuple(asked or typical_limbs(name) for name in types)
    read = walk if packing is None else packing.walk
    table = table_on(
        args.data, args.source, read, (column_names(read)[graph.columns - 1].partition("[")[0],)
    )
    if packing is None:
        units = values_of(table, walk).units([asked] * count)
        return tuple(units), tuple(unit.limbs for unit in units)
    packed = packing.packed(table, schema, graph, args.place or table.name)
    each = [values_of(group.table, walk).units([asked] * count) for group in packed.groups]
    most = (max((unit.limbs for unit in column), default=1) for column in zip(*each, strict=True))
    return (), tuple(most) or (asked or 1,) * count


def _full_page(walk: WalkConfig) -> Any:
    """Return a page full of the table's rows, with arrays as long as they have to be."""
    columns = tuple(
        replace(column, length=max(1, walk.array_length(k))) if column.is_array else column
        for k, column in enumerate(walk.schema.columns)
    )
    return assume(fitted(replace(walk.schema, columns=columns)), 1 << 20).full
