"""The passes of fits over keys and over columns, from kernel to design."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from penstock.data.assumed import assume, fitted, paged
from penstock.data.policies import input_policy
from penstock.data.tables import packed_here, table_on
from penstock.designs.feasible import feasible
from penstock.dsl.core.bind import bind as bind_columns
from penstock.dsl.core.diagnostics import KernelError, Span, error
from penstock.dsl.qr.functions import MOST_COLUMNS
from penstock.dsl.qr.kernel import FitGraph, FitKernel
from penstock.dsl.qr.plan import Load, Room, lower
from penstock.dsl.qr.table_plan import lower_table
from penstock.dsl.qr.units import Unit, typical_limbs
from penstock.engines.base import Given
from penstock.errors import Conflict, no_option
from penstock.host.sources import SourceError, Table
from penstock.models.heap.schema import Column, Schema
from penstock.models.memory import FixedLatency, Memory
from penstock.models.numerics.limbs import Limbs
from penstock.models.numerics.policy import InputPolicy
from penstock.models.qr.columns import Columns
from penstock.models.qr.config import FitPlan
from penstock.models.qr.table_config import TableFitPlan, layout
from penstock.models.resources import AIM
from penstock.models.strider.config import WalkConfig
from penstock.models.strider.layout import TupleLayout
from penstock.models.target import Target
from penstock.passes.forms import Designed, Form, Request
from penstock.targets import timing_of

from .columns import ColumnsDesign, check_method
from .keys import FitDesign
from .options import Solving
from .packing import Packing, without
from .refit_requests import check_random, key_column
from .solution import column_names, values_of


@dataclass(frozen=True, kw_only=True)
class OverKeys(Form):
    """A fit over a learned index's keys; `key`: where the kernel names them."""

    untyped: ClassVar = (Load,)

    graph: FitGraph
    key: Span


@dataclass(frozen=True, kw_only=True)
class OverColumns(Form):
    """A fit over columns of a table: its schema as hardware reads it, and where in a row features, label and weight are.

    `packing`: where the host packs rows that have weights or belong to groups.
    """

    untyped: ClassVar = (Limbs,)

    graph: FitGraph
    schema: Schema
    layout: TupleLayout
    policy: InputPolicy
    packing: Packing | None


@dataclass(frozen=True, kw_only=True)
class Scaled(OverColumns):
    """A fit over columns with the limbs of each column; `units`: of the table that is compiled for, none without one."""

    limbs: tuple[int, ...]
    units: tuple[Unit, ...]


@dataclass(frozen=True, kw_only=True)
class Planned(Form):
    """A fit with its engine. `memory`: timing of the memory port; `key`, `units`, `packing`: as of the fit over keys or over columns that it is."""

    untyped: ClassVar = (Limbs, Load)

    graph: FitGraph
    memory: Memory
    plan: FitPlan | TableFitPlan
    key: Span | None = None
    units: tuple[Unit, ...] = ()
    packing: Packing | None = None


@dataclass(frozen=True, kw_only=True)
class Built(Designed):
    untyped: ClassVar = (Limbs, Load)

    design: FitDesign | ColumnsDesign


def bind(request: Request) -> OverKeys | OverColumns:
    """Trace the kernel, and find its columns in the table.

    Of a fit over columns the places of features, label and weight in a row are known then, in pages that suit the part.

    Before: `model <- least_squares(x, target=y)`
    After: `graph=FitGraph(name='closed_form', features='x', label='y', columns=4, …), layout=TupleLayout(…)`
    """
    kernel, args = request.kernel, request.args
    assert isinstance(kernel, FitKernel)
    over_keys = bool(kernel.of_kind("key"))
    check_random(args.source, over_keys)
    if over_keys:
        return _keys(request, kernel)
    if args.format is not None:
        raise no_option(f"the fit kernel {kernel.name}", "format", ("limbs",))
    kernel.trace(args.option("dims", {}))
    graph, schema, attributes = _bound(kernel, request.part, args)
    on_null = args.option("on_null", "error")
    policy = input_policy(
        args.option("on_overflow"), args.option("on_nan"), has_nan=False, format="integers"
    )
    packing = None
    if args.option("sample_weight") or args.option("group_by"):
        packing = Packing.of(schema, layout(attributes, on_null), policy, args.options)
        schema = paged(packing.schema, request.part)
        attributes = [(k, 0) for k in range(len(schema.columns))]
    placed = layout(attributes, on_null)
    content = {"graph": graph, "schema": schema, "layout": placed, "policy": policy}
    return request.form(OverColumns, **content, packing=packing)


def scale(form: OverKeys | OverColumns) -> OverKeys | Scaled:
    """Find each column's unit and limbs; keys have none.

    A value is about (q + offset) 2^shift then, where q has so many limbs of 17 bits.

    Before: `schema=Schema(table='closed_form', columns=(Column(name='x', type='float4[]', length=3, …), …))`
    After: `limbs=(2, 2, 2, 2), units=()`
    """
    if isinstance(form, OverKeys):
        return form
    units, limbs = _limbs(
        form.graph, form.schema, form.layout, form.policy, form.packing, form.args
    )
    return form.then(Scaled, limbs=limbs, units=units)


def choose(form: OverKeys | Scaled) -> Planned:
    """Choose the engine that the part holds.

    Of all candidates within a few per cent of the fastest it is the smallest one.

    Before: `limbs=(2, 2, 2, 2)`
    After: `plan=TableFitPlan(columns=Columns(limbs=(2, 2, 2, 2), …), …)`
    """
    return feasible(form, _best, design)


def design(form: Planned) -> Built:
    """Put fit and engine together.

    A fit over columns has how its sums are solved, too.

    Before: `plan=TableFitPlan(…)`
    After: `design=ColumnsDesign(plan=TableFitPlan(…), solving=Solving(…))`
    """
    memory, graph, plan = form.memory, form.graph, form.plan
    if isinstance(plan, FitPlan):
        keys = FitDesign(form.part, memory, graph, plan, form.key)
        return form.then(Built, design=keys)
    solving = Solving().with_options(form.args.options)
    units, packing = form.units, form.packing
    columns = ColumnsDesign(
        form.part, memory, graph, plan, solving=solving, units=units, packing=packing
    )
    return form.then(Built, design=columns)


PASSES = (bind, scale, choose, design)


def _keys(request: Request, kernel: FitKernel) -> OverKeys:
    """Return the form of a fit over keys. Raises OptionError for arguments that mean nothing to it."""
    args = request.args
    other = getattr(args.format, "name", args.format)
    if args.option("dims"):
        raise no_option(f"the fit kernel {kernel.name}", "dims", ())
    if other not in (None, "float32"):
        raise no_option(f"the fit kernel {kernel.name}", "format", ())
    graph, [key] = kernel.trace(), kernel.of_kind("key")
    if isinstance(args.data, Table):
        key_column(graph, key.span, args, args.data)
    return request.form(OverKeys, graph=graph, key=key.span)


# the choice of an engine


def _best(form: OverKeys | Scaled) -> Planned:
    """Return the best engine. Raises KernelError (E601)."""
    part, args = form.part, form.args
    # where the memory is on the part, the planner chooses the width of its port
    given = args.memory is not None or not part.shared
    memory = timing_of(args.memory, part) if given else None
    if isinstance(form, Scaled):
        return _of_columns(form, memory)
    options = {"load": args.option("load"), "fill": args.option("fill", AIM)}

    def planned(graph: FitGraph, room: Room | None = None) -> Planned:
        plan = lower(graph, part, memory=memory, **options, room=room)
        timing = memory or FixedLatency(part.latency, plan.bus_bytes)
        return form.then(Planned, graph=graph, memory=timing, plan=plan)

    return planned(form.graph, _room(lambda graph: design(planned(graph)).design, part, args))


def _of_columns(form: Scaled, memory: Memory | None) -> Planned:
    graph, part, args = form.graph, form.part, form.args
    fill = args.option("fill", AIM)

    def planned(limbs: tuple[int, ...]) -> TableFitPlan:
        columns = Columns(limbs, 1)
        walk = WalkConfig(form.schema, form.layout, columns.format, policy=form.policy)
        return lower_table(graph, columns, walk, _full_page(walk), part, memory, fill)

    limbs, units = form.limbs, form.units
    try:
        plan = planned(limbs)
    except KernelError as problem:
        # a part that does not hold all limbs may hold the highest ones
        if problem.diagnostic.code != "E601" or args.option("limbs") or max(limbs) == 1:
            raise
        plan, units = planned((1,) * len(limbs)), ()
    timing = memory or FixedLatency(part.latency, plan.bus_bytes)
    plan = replace(plan, ring=args.option("ring") or 0)
    return form.then(Planned, memory=timing, plan=plan, units=units)


def _room(
    design_of: Callable[[FitGraph], FitDesign | ColumnsDesign], part: Target, args: Given
) -> Callable[[FitGraph], bool] | None:
    """Return what says whether the part's memory holds the run of a design that is made; None where no run is known."""
    if (args.rows is None and args.data is None) or not part.memory.bytes:
        return None

    def holds(graph: FitGraph) -> bool:
        try:
            return design_of(graph).workload(args).device_bytes() <= part.memory.bytes
        except (KernelError, SourceError, Conflict):
            return False

    return holds


def _full_page(walk: WalkConfig) -> Any:
    """Return a page full of the table's rows, with arrays as long as they have to be."""
    columns = tuple(
        replace(column, length=max(1, walk.array_length(k))) if column.is_array else column
        for k, column in enumerate(walk.schema.columns)
    )
    return assume(fitted(replace(walk.schema, columns=columns)), 1 << 20).full


# the table


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


def _bound(
    kernel: FitKernel, part: Target, args: Given
) -> tuple[FitGraph, Schema, list[tuple[int, int]]]:
    """Bind the kernel's variables to columns of its table. Return the graph, the table's schema (without a table, of the kernel's own shapes), and attribute
    and element of each feature, then of the label, then of the weight, if there is one. Raises KernelError."""
    dims, bindings = args.option("dims", {}), args.option("bind", {})
    weight, group = args.option("sample_weight"), args.option("group_by")
    data = args.data
    # no table, or random rows, which are made later
    if data is None or isinstance(data, str):
        data = _schema_of(kernel, dims, bindings, {weight: "float8", group: "int4"})
    schema = data.schema if isinstance(data, Table) else data
    if packed_here(args.data, args.source):
        schema = paged(schema, part)
    named = [name for names in bindings.values() for name in names]
    unusable = getattr(data, "unusable", None)
    free = without(schema, args.options, named, unusable)
    binding = bind_columns(kernel, free, bindings, dims, unusable)
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
    # packed rows have the root of the weight as one more column
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
    """Return each column's unit, and its number of limbs.

    With a table both come from its values. Without one there are no units, and the limbs are typical of the columns' types. Where the host packs rows,
    each group will have units of its own: there are none here, and each column has the limbs of the group in which it needs most.
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
