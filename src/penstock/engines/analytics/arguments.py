"""What a kernel that learns from a table is compiled for: its graph with the sizes that a table gives, and what options say of a plan."""

from dataclasses import replace

from penstock.data.assumed import fitted
from penstock.data.policies import input_policy
from penstock.dsl.analytics.choices import Choices
from penstock.dsl.analytics.kernel import Kernel
from penstock.dsl.analytics.overrides import with_overrides
from penstock.dsl.core.bind import Binding, bind, schema_for
from penstock.dsl.core.diagnostics import Span, error
from penstock.dsl.core.graph import Graph
from penstock.dsl.core.hints import closest
from penstock.dsl.core.scores import ScoreKernel
from penstock.engines.base import Given
from penstock.models.heap.schema import Schema
from penstock.models.numerics.formats import FLOAT_NAMES, FLOATS, Format, float32, parse_format

from .columns import check_spare, counted, counts_learned, counts_of, hashed
from .hot import hot_rows


def front(kernel: Kernel | ScoreKernel, args: Given) -> tuple[Graph, Schema, Binding]:
    """Return the kernel's graph for given data, the table's schema, and how its columns are bound.

    Without a table, or for random numbers, the table is one of the kernel's own shapes.
    """
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


def choices_of(args: Given, fmt: Format, graph: Graph) -> Choices:
    """Return what the user fixes of the plan. Raises KernelError (E608, E498)."""
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


def format_of(choice: str | Format | None) -> Format:
    """Return the format that is asked for, float32 without. Raises KernelError (E603)."""
    if not isinstance(choice, str):
        return choice or float32
    try:
        return parse_format(choice)
    except ValueError as problem:
        what, _, hint = str(problem).partition("; ")
        hint = (
            closest(choice.strip().lower(), FLOAT_NAMES.values())
            or hint
            or f"{FLOATS} and fixed:8,24 are such formats"
        )
        raise error("E603", what, Span.whole("--format"), hint=hint) from None
