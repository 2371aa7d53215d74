"""The passes of kernels that learn from a table, from kernel to design.

Forms before and after a pass are those of `penstock compile examples/linear.py --dim d=54 --print-after PASS`, cut.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from penstock.data.assumed import paged
from penstock.data.tables import packed_here
from penstock.designs.feasible import feasible
from penstock.dsl.analytics.kernel import Kernel
from penstock.dsl.analytics.lower import Program
from penstock.dsl.analytics.lower_rows import by_rows
from penstock.dsl.analytics.on_chip import golden_alone, no_hardware
from penstock.dsl.analytics.overrides import initial_value
from penstock.dsl.analytics.plan import Choice, Choices
from penstock.dsl.analytics.plan import choose as planned
from penstock.dsl.analytics.ranges import check_counts, check_learned, out_of_range
from penstock.dsl.analytics.schedule import Scheduled
from penstock.dsl.core.bind import Binding, Source
from penstock.dsl.core.graph import Graph, Uniform
from penstock.dsl.core.scores import ScoreKernel, graph_to_json
from penstock.models.analytics.config import AnalyticsPlan
from penstock.models.heap.schema import Schema
from penstock.models.memory import Memory
from penstock.models.numerics.formats import Format
from penstock.models.numerics.policy import InputPolicy
from penstock.passes.forms import Designed, Form, Request
from penstock.targets import timing_of

from .arguments import choices_of, format_of, front
from .design import AnalyticsDesign
from .measure import few_rows, measure, tuples_of_run
from .placement import quicker


@dataclass(frozen=True, kw_only=True)
class Bound(Form):
    """A kernel with a table: `schema`: the table's; `binding`: which columns feed which variable."""

    untyped: ClassVar = (Uniform, Choices)

    graph: Graph
    schema: Schema
    binding: Binding


@dataclass(frozen=True, kw_only=True)
class Checked(Bound):
    """A kernel with a table whose numbers go into the format; `choices`: what the user fixes of the plan."""

    format: Format
    choices: Choices


@dataclass(frozen=True, kw_only=True)
class Chosen(Form):
    """A kernel with what a plan of it follows from; `memory`: timing of the memory ports."""

    untyped: ClassVar = (Uniform,)

    memory: Memory
    choice: Choice


@dataclass(frozen=True, kw_only=True)
class Lowered(Chosen):
    program: Program


@dataclass(frozen=True, kw_only=True)
class Timed(Lowered):
    scheduled: Scheduled


@dataclass(frozen=True, kw_only=True)
class Planned(Chosen):
    plan: AnalyticsPlan


@dataclass(frozen=True, kw_only=True)
class Built(Designed):
    design: AnalyticsDesign


# the passes


def bind(request: Request) -> Bound:
    """Trace the kernel, and find each variable's columns.

    Takes a kernel of either front end, and the table or its schema. All sizes are known then, from columns and `--dim`. Nodes are in order, each with its
    shape, when it is computed and where it is written; a Python function and a text that compute the same have the same nodes.

    Before: `error = ps.sum(w * x) + b - y`
    After: `Node(op='mul', inputs=(2, 0), shape=(54,), region=Region.TUPLE, span=at('linear.py:12:20-12:25'))`
    """
    kernel, args = request.kernel, request.args
    assert isinstance(kernel, Kernel | ScoreKernel)
    graph, schema, binding = front(kernel, args)
    if packed_here(args.data, args.source):
        schema = paged(schema, request.part)  # pages that suit the part
    warnings = tuple(kernel.warnings)
    return request.form(Bound, warnings=warnings, graph=graph, schema=schema, binding=binding)


def check(form: Bound) -> Checked:
    """Settle number format and options; check numbers.

    Options that fix something of a plan are `choices` then, and what the format cannot hold is a warning or has ended compiling.

    Before: `args=Given(options={'dims': {'d': 54}, 'threads': 4})`
    After: `format=format("float32"), choices=Choices(threads=4)`
    """
    graph, fmt = form.graph, format_of(form.args.format)
    choices = choices_of(form.args, fmt, graph)
    policy = InputPolicy(choices.on_overflow, choices.on_nan)
    check_counts(graph, fmt)
    if graph.score and not policy.saturates:
        check_learned(graph, fmt)
    elif not graph.score:
        form = form.warned(*out_of_range(graph, fmt, policy))
    return form.then(Checked, format=fmt, choices=choices)


def choose(form: Checked) -> Chosen:
    """Choose the plan that the part holds.

    Candidates of threads, lanes, ports, Striders and units are lowered, scheduled and timed; the best one is taken, at the clock of so full a part.
    Models with rows lie on the chip or in memory, wherever a run is quicker. The next three passes make the plan of what was chosen.

    Before: `choices=Choices()`
    After: `choice=Choice(point=Point(lanes=2, threads=1, ports=1, walkers=1, interval=35), …)`
    """
    return feasible(form, _placed, _planned)


def lower(form: Chosen) -> Lowered:
    """Lower the graph to operations on buffers.

    Operations are in the order of what they need, on as many lanes as were chosen. Broadcasts are loops, and what one reduction alone reads is part of it.

    Before: `Node(op='mul', inputs=(2, 0), …), Node(op='sum', inputs=(5,), …)`
    After: `Op(name='sum6', fn='mul', operands=(…), extents=(1, 1, 27), reduce='add', dest=6, region='group', …)`
    """
    return form.then(Lowered, program=form.choice.lowered())


def schedule(form: Lowered) -> Timed:
    """Give each operation a unit and a start cycle.

    No two operations meet on a unit, groups of tuples overlap, and nothing is read before it is written. A plan for golden results alone has no units.

    Before: `Op(name='sub8', …)`
    After: `Op(name='sub8', …, unit=3, start=70), schedule=Schedule(interval=27, drain=105, batch=121, …)`
    """
    return form.then(Timed, scheduled=form.choice.scheduled(form.program))


def assemble(form: Timed) -> Planned:
    """Assemble the plan that hardware and models read.

    Buffers that nothing touches are left out. What is added: the layout of tuples, slots for them, page buffers, and what the Striders are asked to do.

    Before: `scheduled=Scheduled(…)`
    After: `plan=AnalyticsPlan(kernel='linear', lanes=2, …)`
    """
    plan, ring = form.choice.assembled(form.program, form.scheduled), form.args.option("ring") or 0
    return form.then(Planned, plan=replace(plan, striders=replace(plan.striders, ring=ring)))


def design(form: Planned) -> Built:
    """Add what a run loads and what its result is for.

    That is the models' starts, constants, the columns that weights belong to, and the score. A design for golden results alone has the reason.

    Before: `Variable(name='w', kind='model', …)`
    After: `start={'w': array('float64', (54,), 0.0)}`
    """
    graph = form.choice.maker.graph
    built = AnalyticsDesign(
        form.part,
        form.memory,
        form.plan,
        {v.name: initial_value(v) for v in graph.of_kind("model")},
        dict(form.plan.notes["run_values"]),
        tuple(v.name for v in graph.of_kind("output")),
        _score(form.choice),
        refused=no_hardware(graph, *_alone(form.choice)) if form.choice.golden else None,
    )
    return form.then(Built, design=built)


PASSES = (bind, check, choose, lower, schedule, assemble, design)


# the choice of a plan


def _planned(chosen: Chosen) -> Built:
    """Return what the passes behind a choice make of it."""
    return design(assemble(schedule(lower(chosen))))


def _placed(form: Checked) -> Chosen:
    """Return the best choice, models that rows are read of wherever they are quicker unless the user says where they lie."""
    part, chosen = form.part, _best(form)
    fixed = form.choices.place or form.choices.prefer != "time"
    if form.quick or fixed or (part.ports < 2 and not part.lends):
        return chosen
    on_chip = _planned(chosen).design
    plan = on_chip.plan
    if not plan.by_rows or on_chip.refused is not None or plan.rows.tables:
        return chosen
    place = dict.fromkeys((plan.buffers[n].name for n in plan.roles.models), "memory")
    in_memory = replace(form, choices=replace(form.choices, place=place))
    others: list[Chosen] = []

    def other() -> AnalyticsDesign:
        others.append(_best(in_memory))
        return _planned(others[0]).design

    if quicker(on_chip, form.args, other):
        return replace(others[0], warnings=chosen.warnings)
    return chosen


def _best(form: Checked) -> Chosen:
    """Return the best choice with models where `choices` say; of a quick compilation the first one that fits."""
    graph, schema = form.graph, form.schema
    args, part = form.args, form.part
    timing = timing_of(args.memory, part)
    rows = None if graph.score else few_rows(args, schema, part)
    once = tuples_of_run(args, graph.epochs) if by_rows(graph) else None
    decides = not form.quick and (timing.shift_invariant or not graph.score)
    zipf = args.option("indices", 0.0)
    choice = planned(
        graph,
        form.binding.fields,
        schema,
        part,
        form.format,
        choices=form.choices,
        memory=timing,
        measure=measure(schema, timing, rows, zipf, once) if decides else None,
        indices=form.binding.indices,
        rows=rows,
        once=once,
    )
    chosen = form.then(Chosen, memory=timing, choice=choice)
    if graph.score or not choice.golden:
        return chosen
    return chosen.warned(*golden_alone(graph, *_alone(choice)))


def _alone(choice: Choice) -> tuple[str, str]:
    """Return why there is no hardware, and the code of that error."""
    return choice.notes["golden_alone"], choice.notes["refused"]


def _score(choice: Choice) -> dict[str, Any]:
    """Return what a design keeps of its score (`AnalyticsDesign.score`)."""
    graph, schema, fields = choice.maker.graph, choice.maker.schema, choice.maker.columns
    if graph.score:
        return {"name": graph.score}
    names = _names(graph, schema, fields)
    if graph.scoring is None:
        return {"why": graph.unscored, "names": names}
    inputs = {v.name for v in graph.scoring.of_kind("input")}
    columns = {
        name: [schema.columns[part.attribute].name for part in parts]
        for name, parts in fields.items()
        if name in inputs
    }
    for index in graph.scoring.of_kind("index"):
        bound = choice.indices[index.name]
        columns[index.name] = [schema.columns[n].name for n, _, _ in bound.columns]
        index.dims = (bound.counts, *index.shape)
        index.init = [counts for _, _, counts in bound.columns]
    return {"graph": graph_to_json(graph.scoring), "columns": columns, "names": names}


def _names(graph: Graph, schema: Schema, fields: Mapping[str, Sequence[Source]]) -> dict[str, Any]:
    """Return by model the columns that its elements belong to: those of the first input whose one dimension is the model's last."""
    columns: dict[str, Any] = {}
    for model in graph.of_kind("model"):
        for v in graph.of_kind("input"):
            if not v.dims or model.dims[-1:] != v.dims or isinstance(v.dims[0], int):
                continue
            names: list[str] = []
            for part in fields[v.name]:
                column = schema.columns[part.attribute]
                places = range(part.first, part.first + part.count)
                names += [
                    f"{column.name}[{k + 1}]" if column.is_array else column.name for k in places
                ]
            rows = math.prod(model.shape[:-1])
            columns[model.name] = names if len(model.shape) == 1 else [names] * rows
            break
    return columns
