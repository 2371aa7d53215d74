"""The registration of the engine of kernels that learn from a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.data.policies import input_policy
from penstock.dsl.analytics.kernel import Kernel
from penstock.dsl.core.diagnostics import Span, error
from penstock.dsl.core.hints import closest
from penstock.dsl.core.scores import ScoreKernel, graph_to_json
from penstock.engines.base import Design, Engine, Given
from penstock.models.numerics.policy import InputPolicy
from penstock.models.rows.errors import IndexCode, RowCode
from penstock.models.strider.errors import PageError

from .options import FORCES, OPTIONS
from .profile import COMMANDS

if TYPE_CHECKING:
    import click

    from penstock.dsl.core.bind import Binding
    from penstock.dsl.core.graph import Graph
    from penstock.dsl.core.kernel import AnyKernel
    from penstock.host.peers import Peer
    from penstock.models.analytics.config import AnalyticsPlan
    from penstock.models.heap.schema import Schema
    from penstock.models.numerics.formats import Format
    from penstock.models.target import Target
    from penstock.report.parts import Part
    from penstock.runs.failures import Failure
    from penstock.runs.outcome import Outcome

    from .design import AnalyticsDesign

#: the largest dimension that the search for a size that fits tries
_LARGEST = 1 << 14


class AnalyticsEngine(Engine):
    """Kernels of one row each, trained on heap pages by a multi-threaded engine."""

    name = "analytics"
    kernels = (Kernel, ScoreKernel)
    default_target = "small"
    profiles = True
    options = OPTIONS
    arguments = frozenset({"choices"})
    errors = (PageError, IndexCode, RowCode)
    names: ClassVar[Mapping[str, str]] = {"Choices": "penstock.dsl.analytics.plan:Choices"}

    @property
    def commands(self) -> Sequence[click.Command]:
        return COMMANDS

    @property
    def papers(self) -> Mapping[str, Any]:
        from .dana import parts

        return {"dana": parts}

    def reads(self, kernel: AnyKernel, args: Given) -> Given:
        from .columns import index_columns, used_columns

        bindings = args.option("bind")
        asked: dict[str, Any] = {"used": used_columns(kernel, bindings)}
        if names := index_columns(kernel, bindings):
            asked["index_columns"] = names
        return replace(args, options={**args.options, **asked})

    def sizes(self, kernel: AnyKernel, args: Given) -> Mapping[str, int]:
        assert isinstance(kernel, Kernel | ScoreKernel)
        return front(kernel, args)[2].dims

    def open(self, source: Any, args: Given) -> Any:
        from penstock.data.tables import open_source

        indices, categories = args.option("index_columns", ()), args.option("categories", ())
        pages = args.option("pages")
        if wrong := next((name for name in categories if name not in indices), None):
            message = f"categories: no index takes a column {wrong}"
            hint = closest(wrong, indices) or (
                f"indices take {', '.join(indices)}" if indices else "the kernel has no index"
            )
            raise error("E609", message, Span.whole("--categories"), hint=hint)
        used = args.option("used")
        table = open_source(source, pages=pages, indices=indices, categories=categories, used=used)
        _check_categories(table, categories)
        return table

    def compile(self, kernel: AnyKernel, part: Target, args: Given) -> AnalyticsDesign:
        from .measure import quicker

        design = self._compiled(kernel, part, args)
        movable = design.plan.by_rows and design.refused is None and not design.plan.rows.tables
        if (part.ports < 2 and not part.lends) or not movable or _placed(args):
            return design
        warned, names = (
            kernel.warnings,
            [design.plan.buffers[n].name for n in design.plan.roles.models],
        )
        asked = replace(args, options=_in_memory(args, names))

        def in_memory() -> tuple[AnalyticsDesign, AnalyticsPlan]:
            other = self._compiled(kernel, part, asked)
            return other, other.plan

        best = quicker(design, design.plan, args, in_memory)
        kernel.warnings = warned
        return best

    def compile_any(self, kernel: AnyKernel, part: Target, args: Given) -> AnalyticsDesign:
        return self._compiled(kernel, part, args, quick=True)

    def _compiled(
        self, kernel: AnyKernel, part: Target, args: Given, quick: bool = False
    ) -> AnalyticsDesign:
        """Return the design; a quick one is of the first plan that fits, and not of the fastest."""
        from penstock.dsl.analytics.lower_rows import by_rows
        from penstock.dsl.analytics.on_chip import golden_alone, no_hardware
        from penstock.dsl.analytics.overrides import initial_value
        from penstock.dsl.analytics.plan import plan
        from penstock.dsl.analytics.ranges import check_counts, check_learned, out_of_range
        from penstock.targets import timing_of

        from .design import AnalyticsDesign
        from .measure import few_rows, measure, tuples_of_run

        assert isinstance(kernel, Kernel | ScoreKernel)
        graph, schema, binding = _bound(kernel, part, args)
        fmt = _format(args.format)
        timing = timing_of(args.memory, part)
        choices = _choices(args, fmt, graph)
        policy = InputPolicy(choices.on_overflow, choices.on_nan)
        check_counts(graph, fmt)
        if graph.score and not policy.saturates:
            check_learned(graph, fmt)
        elif not graph.score:
            kernel.warnings = [*kernel.warnings, *out_of_range(graph, fmt, policy)]
        rows = None if graph.score else few_rows(args, schema, part)
        decides = not quick and (timing.shift_invariant or not graph.score)
        once = tuples_of_run(args, graph.epochs) if by_rows(graph) else None
        zipf = args.option("indices", 0.0)
        exact = measure(schema, timing, rows, zipf, once) if decides else None
        planned = plan(
            graph,
            binding.fields,
            schema,
            part,
            fmt,
            choices=choices,
            memory=timing,
            measure=exact,
            indices=binding.indices,
            rows=rows,
            once=once,
        )
        alone = (planned.notes.get("golden_alone", ""), planned.notes.get("refused", "E496"))
        if not graph.score:
            kernel.warnings = [*kernel.warnings, *golden_alone(graph, *alone)]
        return AnalyticsDesign(
            part,
            timing,
            replace(planned, striders=replace(planned.striders, ring=args.option("ring") or 0)),
            {v.name: initial_value(v) for v in graph.of_kind("model")},
            dict(planned.notes["run_values"]),
            tuple(v.name for v in graph.of_kind("output")),
            _score(graph, schema, binding),
            refused=no_hardware(graph, *alone),
        )

    def load(self, manifest: Mapping[str, Any]) -> AnalyticsDesign:
        import numpy as np

        from penstock.boards.records import from_json
        from penstock.models.analytics.config import AnalyticsPlan
        from penstock.models.memory import parse_memory

        from .design import AnalyticsDesign

        plan = AnalyticsPlan.from_json(manifest["plan"])
        return AnalyticsDesign(
            from_json(manifest["target"]),
            parse_memory(manifest["memory"]),
            plan,
            {k: np.asarray(v, dtype=np.float64) for k, v in manifest["start"].items()},
            manifest["run_values"],
            tuple(manifest["labels"]),
            manifest.get("score", {}),
        )

    def check(self, kernel: AnyKernel, args: Given, design: Design | None) -> Iterable[Part]:
        from penstock.dsl.analytics.on_chip import golden_alone, why_golden_alone

        from .sections import binding_grid

        assert isinstance(kernel, Kernel)
        warned = kernel.warnings
        dims = args.option("dims", {})
        unknown = any(name not in dims for name in kernel.dim_names)
        if args.source is None and unknown:
            graph = kernel.outline(dims)  # sizes may stay unknown
            kernel.warnings = warned or [*kernel.warnings, *golden_alone(graph)]
            return ()
        graph, schema, binding = front(kernel, args)
        # the plan's are the same and more
        if args.source is None:
            kernel.warnings = warned or [*kernel.warnings, *golden_alone(graph)]
            return (binding_grid(graph, None, binding),)
        reason = why_golden_alone(graph, indices=binding.indices)
        kernel.warnings = warned or [*kernel.warnings, *golden_alone(graph, reason)]
        return (binding_grid(graph, schema, binding),)

    def unreadable(self, kernel: AnyKernel, args: Given, design: Design | None) -> Failure | None:
        from penstock.data.tables import table_failure
        from penstock.dsl.analytics.lower_rows import by_rows
        from penstock.host.sources import Table
        from penstock.models.strider.config import WalkConfig
        from penstock.models.strider.layout import Source, TupleLayout
        from penstock.models.strider.table import walk_table
        from penstock.targets import target_named

        table = args.data
        if design is not None or not isinstance(table, Table):
            return super().unreadable(kernel, args, design)
        assert isinstance(kernel, Kernel)
        graph, schema, binding = front(kernel, args)
        if by_rows(graph):  # what its indices are is in the plan
            plan = self.compile(kernel, target_named(self.default_target), args)
            return super().unreadable(kernel, args, plan)
        fmt = _format(args.format)
        choices = _choices(args, fmt, graph)
        columns = [part for parts in binding.fields.values() for part in parts]
        starts = accumulate((part.count for part in columns), initial=0)
        places = tuple(
            Source(part.attribute, part.first, part.count, at)
            for part, at in zip(columns, starts, strict=False)
        )
        layout = TupleLayout(1, sum(p.count for p in columns), (), places, choices.on_null)
        policy = InputPolicy(choices.on_overflow, choices.on_nan)
        walk = WalkConfig(schema, layout, fmt, choices.visibility, policy)
        failure = walk_table(table.pages, walk).error
        return None if failure is None else table_failure(args.source, table, failure, walk)

    def sections(self, outcome: Outcome) -> Iterable[Part]:
        from .sections import summary

        return summary(outcome)

    def profile(self, outcome: Outcome) -> Iterable[Part]:
        from .sections import profile

        return (profile(outcome),)

    def peers(
        self, kernel: AnyKernel, args: Given, outcome: Outcome, epochs: int
    ) -> tuple[Sequence[Peer], Sequence[str]]:
        from penstock.host.sources import Table

        from .peers import arrays, peers

        assert isinstance(kernel, Kernel)
        table = getattr(outcome.workload, "table", None)
        if not isinstance(table, Table):
            return (), ()
        graph, _, binding = front(kernel, replace(args, data=table))
        values = arrays(table, binding)
        shaped = {n: v.reshape(len(v), *graph.variables[n].shape) for n, v in values.items()}
        return peers(graph, shaped, epochs)

    def largest(self, kernel: AnyKernel, part: Target, args: Given, smaller: int = 0) -> str:
        if not isinstance(kernel, Kernel):
            return "choose a target with a larger part: run.predict(…, target=…)"
        if not kernel.dim_names:
            return (
                "the kernel's sizes are written in it: with a named dimension, "
                "the largest size that fits would stand here"
            )
        dims = {name: size for name, size in _sizes(kernel, args).items() if isinstance(size, int)}
        asked = {name: dims.get(name, _LARGEST) for name in kernel.dim_names}
        # a size for one dimension alone, or one for all together
        for chosen in dict.fromkeys([*((name,) for name in asked), tuple(asked)]):
            low, high = 0, max(asked[name] for name in chosen) - smaller
            if not kernel.of_kind("index"):  # no hundred thousand of elements
                high = min(high, _LARGEST)
            while low < high:
                middle = (low + high + 1) // 2 if low else 1  # most often, not even that fits
                sizes = {name: min(asked[name], middle) for name in chosen}
                tried = {**dict.fromkeys(kernel.dim_names, 1), **dims, **sizes}
                if self._plans(kernel, part, args, tried):
                    low = middle
                else:
                    high = middle - 1
            if low and all(low >= dims.get(name, low + 1) for name in chosen):
                return ""  # that size is asked for: it is not what is in the way
            if low:
                fits = "fits is" if len(chosen) == 1 else "fit are"
                most = [str(min(asked[name], low)) for name in chosen]
                most = most[:1] if len({*most}) == 1 else most
                text = f"the largest {' and '.join(chosen)} that {fits} about {' and '.join(most)}"
                forced = [o.flag for o in FORCES if args.option(o.name) is not None]
                return f"{text}, without {' and '.join(forced)}" if forced else text
        return super().largest(kernel, part, args, smaller)

    def _plans(self, kernel: Kernel, part: Target, args: Given, dims: Mapping[str, int]) -> bool:
        """Return whether the kernel with these sizes fits, and memory holds a run."""
        from penstock.dsl.core.diagnostics import KernelError
        from penstock.host.sources import SourceError

        try:
            fewer = _fewer(kernel.trace(dims), args.option("bind", {}))
            options = {"dims": dims, "bind": fewer, "prefer": "area"}
            design = self._compiled(
                kernel, part, Given(format=args.format, options=options), quick=True
            )
            design.held(Given(rows=args.rows or 1))
        except (KernelError, SourceError):
            return False
        return True


def _sizes(kernel: Kernel, args: Given) -> Mapping[str, Any]:
    """Return the sizes of a kernel's dimensions, as far as options and the table say them."""
    from penstock.dsl.core.diagnostics import KernelError

    try:
        return front(kernel, args)[2].dims
    except KernelError:
        return dict(args.option("dims", {}))


def _score(graph: Graph, schema: Schema, binding: Binding) -> dict[str, Any]:
    """Return what a design keeps of its score (`AnalyticsDesign.score`)."""
    if graph.score:
        return {"name": graph.score}
    names = _names(graph, schema, binding)
    if graph.scoring is None:
        return {"why": graph.unscored, "names": names}
    inputs = {v.name for v in graph.scoring.of_kind("input")}
    columns = {
        name: [schema.columns[part.attribute].name for part in parts]
        for name, parts in binding.fields.items()
        if name in inputs
    }
    for index in graph.scoring.of_kind("index"):
        bound = binding.indices[index.name]
        columns[index.name] = [schema.columns[n].name for n, _, _ in bound.columns]
        index.dims = (bound.counts, *index.shape)
        index.init = [counts for _, _, counts in bound.columns]
    return {"graph": graph_to_json(graph.scoring), "columns": columns, "names": names}


def _names(graph: Graph, schema: Schema, binding: Binding) -> dict[str, Any]:
    """Return by model the columns that its elements belong to: those of the first input whose one dimension is the model's last."""
    columns: dict[str, Any] = {}
    for model in graph.of_kind("model"):
        for v in graph.of_kind("input"):
            if not v.dims or model.dims[-1:] != v.dims or isinstance(v.dims[0], int):
                continue
            names: list[str] = []
            for part in binding.fields[v.name]:
                column = schema.columns[part.attribute]
                places = range(part.first, part.first + part.count)
                names += [
                    f"{column.name}[{k + 1}]" if column.is_array else column.name for k in places
                ]
            rows = math.prod(model.shape[:-1])
            columns[model.name] = names if len(model.shape) == 1 else [names] * rows
            break
    return columns


def _check_categories(source: Any, named: Sequence[str]) -> None:
    """Raise KernelError (E609) for columns that are no categories, though they are named so."""
    schema = getattr(source, "schema", None)
    for column in schema.columns if schema is not None else ():
        if column.name in named and column.labels is None and column.type != "bool":
            message = f"categories: the column {column.name} holds none: it is {column.type}"
            hint = "texts and whole numbers are categories, unless pages are taken as they are"
            raise error("E609", message, Span.whole("--categories"), hint=hint)


def _placed(args: Given) -> bool:
    """Return whether the user fixes where models lie, or wants another plan than the fastest."""
    choices = args.option("choices")
    fixed = [args.option(name) for name in ("place", "prefer")]
    if choices is not None:
        fixed += [choices.place, choices.prefer != "time"]
    return any(fixed)


def _in_memory(args: Given, models: Iterable[str]) -> dict[str, Any]:
    """Return the options with these models in memory."""
    return {**args.options, "place": dict.fromkeys(models, "memory")}


def front(kernel: Kernel | ScoreKernel, args: Given) -> tuple[Graph, Schema, Binding]:
    """Return the kernel's graph for given data, the table's schema, and how its columns are bound.

    Without a table, or for random numbers, the table is one of the kernel's own shapes.
    """
    from penstock.data.assumed import fitted
    from penstock.dsl.analytics.overrides import with_overrides
    from penstock.dsl.core.bind import bind, schema_for
    from penstock.models.heap.schema import Schema

    from .columns import check_spare, counted, counts_learned, counts_of, hashed

    dims, bindings = args.option("dims"), args.option("bind")
    if args.data is None or isinstance(args.data, str):
        schema = fitted(schema_for(kernel.trace(dims), bindings=bindings))
    else:
        schema = args.data if isinstance(args.data, Schema) else args.data.schema
    unusable = getattr(args.data, "unusable", None)
    counts = counts_of(args.data) if kernel.of_kind("index") else None
    if isinstance(kernel, ScoreKernel):
        counts = counts_learned(kernel, bindings)
    binding = bind(kernel, schema, bindings, dims, unusable, counts)
    if args.option("on_unseen") == "last":
        check_spare(schema, binding, kernel)
    graph = kernel.trace(binding.dims)
    for index in binding.indices.values():
        schema = index.with_places(schema)
    hashed(graph, schema, binding)
    counted(graph, binding)
    metas, init, epochs = (args.option(name) for name in ("metas", "init", "epochs"))
    return with_overrides(graph, metas, init, epochs), schema, binding


def _bound(
    kernel: Kernel | ScoreKernel, part: Target, args: Given
) -> tuple[Graph, Schema, Binding]:
    """Return `front` with pages that suit the part, where Penstock packs them."""
    from penstock.data.assumed import paged
    from penstock.data.tables import packed_here

    graph, schema, binding = front(kernel, args)
    if packed_here(args.data, args.source):
        schema = paged(schema, part)
    return graph, schema, binding


def _choices(args: Given, fmt: Format, graph: Graph) -> Any:
    """Return what the user fixes of the plan. Raises KernelError (E608, E498)."""
    from penstock.dsl.analytics.plan import Choices

    from .hot import hot_rows

    choices = args.option("choices")
    if choices is None:
        numbers = {n: args.option(n) for n in ("lanes", "threads", "ports", "walkers")}
        choices = Choices(**numbers)
    policies = ("on_null", "on_overflow", "on_nan", "on_index", "on_unseen", "visibility")
    wanted = (*policies, "prefer", "fill", "place", "dedupe")
    overrides = {n: args.option(n) for n in wanted if args.option(n) is not None}
    if hot := args.option("hot"):
        overrides["hot"] = hot_rows(hot, graph)
    choices = replace(choices, **overrides)
    input_policy(choices.on_overflow, choices.on_nan, has_nan=fmt.is_float, format=fmt.name)
    return choices


def _format(choice: str | Format | None) -> Format:
    """Return the format that is asked for, float32 without. Raises KernelError (E603)."""
    from penstock.models.numerics.formats import float32, parse_format

    if not isinstance(choice, str):
        return choice or float32
    try:
        return parse_format(choice)
    except ValueError as problem:
        what, _, hint = str(problem).partition("; ")
        hint = (
            closest(choice.strip().lower(), ("float32", "bfloat16", "float16"))
            or hint
            or "float32, bfloat16, float16 and fixed:8,24 are such formats"
        )
        raise error("E603", what, Span.whole("--format"), hint=hint) from None


def _fewer(graph: Graph, bindings: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return the bindings with as many columns as the graph's inputs and outputs have elements,
    where each element has a column of its own."""
    counts = {
        v.name: math.prod(v.shape) for kind in ("input", "output") for v in graph.of_kind(kind)
    }
    return {
        name: tuple(columns)
        if len(columns) == 1
        else tuple(columns)[: counts.get(name, len(columns))]
        for name, columns in bindings.items()
    }
