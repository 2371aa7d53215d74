"""The registration of the engine of kernels that learn from a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.dsl.analytics.kernel import Kernel
from penstock.dsl.core.diagnostics import Span, error
from penstock.dsl.core.hints import closest
from penstock.dsl.core.scores import ScoreKernel
from penstock.engines.base import Design, Engine, Given
from penstock.models.numerics.policy import InputPolicy
from penstock.models.rows.errors import IndexCode, RowCode
from penstock.models.strider.errors import PageError

from .options import FORCES, OPTIONS
from .profile import COMMANDS

if TYPE_CHECKING:
    import click

    from penstock.dsl.core.graph import Graph
    from penstock.dsl.core.kernel import AnyKernel
    from penstock.host.peers import Peer
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
        from .arguments import front

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

    @property
    def passes(self) -> Sequence[Callable[[Any], Any]]:
        from .passes import PASSES

        return PASSES

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

        from .arguments import front
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
        from penstock.passes.compiling import compiled
        from penstock.targets import target_named

        from .arguments import choices_of, format_of, front

        table = args.data
        if design is not None or not isinstance(table, Table):
            return super().unreadable(kernel, args, design)
        assert isinstance(kernel, Kernel)
        graph, schema, binding = front(kernel, args)
        if by_rows(graph):  # what its indices are is in the plan
            part = target_named(self.default_target)
            design = compiled(self, kernel, part, args, search=False)
            return super().unreadable(kernel, args, design)
        fmt = format_of(args.format)
        choices = choices_of(args, fmt, graph)
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

        from .arguments import front
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
        from penstock.passes.compiling import compiled

        try:
            fewer = _fewer(kernel.trace(dims), args.option("bind", {}))
            options = {"dims": dims, "bind": fewer, "prefer": "area"}
            smaller = Given(format=args.format, options=options)
            design = compiled(self, copy(kernel), part, smaller, search=False, quick=True)
            design.held(Given(rows=args.rows or 1))
        except (KernelError, SourceError):
            return False
        return True


def _sizes(kernel: Kernel, args: Given) -> Mapping[str, Any]:
    """Return the sizes of a kernel's dimensions, as far as options and the table say them."""
    from penstock.dsl.core.diagnostics import KernelError

    from .arguments import front

    try:
        return front(kernel, args)[2].dims
    except KernelError:
        return dict(args.option("dims", {}))


def _check_categories(source: Any, named: Sequence[str]) -> None:
    """Raise KernelError (E609) for columns that are no categories, though they are named so."""
    schema = getattr(source, "schema", None)
    for column in schema.columns if schema is not None else ():
        if column.name in named and column.labels is None and column.type != "bool":
            message = f"categories: the column {column.name} holds none: it is {column.type}"
            hint = "texts and whole numbers are categories, unless pages are taken as they are"
            raise error("E609", message, Span.whole("--categories"), hint=hint)


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
