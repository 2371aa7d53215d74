"""The Python API: compile a kernel for a target and a table, load a design that was saved."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock.assumed import assume, fitted, paged
from penstock.design import BACKENDS, Design, Run
from penstock.dsl.bind import Binding, bind, schema_for
from penstock.dsl.diagnostics import KernelError, Span, error
from penstock.dsl.fit import FitKernel
from penstock.dsl.functions import closest
from penstock.dsl.graph import Graph
from penstock.dsl.kernel import AnyKernel, Kernel
from penstock.dsl.load import load_kernel
from penstock.dsl.overrides import initial_value, with_overrides
from penstock.dsl.plan import Choices, plan
from penstock.dsl.ranges import out_of_range
from penstock.host.sources import SourceError, Table, are_stored, open_table
from penstock.models.analytics.config import Plan
from penstock.models.heap.schema import Schema
from penstock.models.memory import Fixed, parse_memory
from penstock.models.numerics.formats import Format, float32, parse_format
from penstock.models.target import Target
from penstock.targets import target_named, timing_of

__all__ = ["BACKENDS", "Choices", "Design", "KernelError", "Run", "SourceError", "Table", "assume", "compile", "front", "load", "open_table"]


def load(folder: str | Path) -> Any:
    """Return the design that `Design.save`, or `penstock build`, wrote. Raises ValueError where the folder holds none."""
    folder = Path(folder)
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        verilog = None if "board" in manifest else (folder / "penstock.v").read_text()      # made again where it is asked for
        if manifest["engine"] == "qr":
            if manifest["fit"]["target"] is None:
                from penstock.fit_columns import load_columns
                return load_columns(manifest, verilog or "")
            from penstock.fits import load_fit
            return load_fit(manifest, verilog or "")
        return Design(Plan.from_json(manifest["plan"]), {k: np.asarray(v, dtype=np.float64) for k, v in manifest["start"].items()},
                      {k: tuple(v) for k, v in manifest["shapes"].items()}, manifest["run_values"], parse_memory(manifest["memory"]),
                      tuple(manifest["labels"]), verilog)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"{folder} holds no design: {problem}") from problem


def compile(kernel: AnyKernel | str | Path, target: str | Target | None = None, table: Any = None,
            format: str | Format | None = None, *, dims: Mapping[str, int] | None = None, bindings: Mapping[str, Sequence[str]] | None = None,
            metas: Mapping[str, Any] | None = None, init: Mapping[str, Any] | None = None, epochs: int | None = None,
            memory: str | Fixed | None = None, choices: Choices | None = None) -> Any:
    """Compile a kernel (or the file that holds it) for a target and a table; a fit kernel becomes a `fits.FitDesign`, over
    columns a `fit_columns.ColumnsDesign`.

    Parameters: `target`: "small" unless given, for a fit kernel "vu9p"; `table`: a source as the command line takes it, a dict of arrays, a pandas or polars
    frame, an Arrow table, a `Table`, its `Schema`, or None: then a table of the kernel's own shapes is assumed (all dimensions must be given in `dims`);
    pages that are packed here suit the target; `format`: see `surface`; None is float32, for a fit over columns "fixed:8,8"; `memory`: timing such as
    "latency=20,bytes=8"; `choices`: what of the plan is fixed by hand.

    Raises KernelError for whatever is wrong with kernel or options, SourceError for the table, ValueError for options that a fit kernel does not have.
    Numbers that the format cannot hold are among the kernel's warnings.
    """
    if not isinstance(kernel, AnyKernel):
        kernel = load_kernel(kernel)
    if isinstance(kernel, FitKernel):
        part, keys = target_named("vu9p" if target is None else target), bool(kernel.of_kind("key"))
        foreign = {"metas": metas, "init": init, "epochs": epochs, "choices": choices} | ({"table": table, "dims": dims, "bindings": bindings} if keys else {})
        other = keys and format is not None and getattr(format, "name", format) != "float32"
        if wrong := next((name for name, value in foreign.items() if value), "format" if other else ""):
            raise ValueError(f"the fit kernel {kernel.name} takes no {wrong}")
        if keys:
            from penstock.fits import compile_fit
            return compile_fit(kernel, part, memory=memory)
        from penstock.fit_columns import compile_columns
        return compile_columns(kernel, part, table, format, dims=dict(dims or {}), bindings=dict(bindings or {}), memory=memory)
    assert isinstance(kernel, Kernel)
    part = target_named("small" if target is None else target)
    graph, schema, binding = front(kernel, table, dims, bindings)
    if table is None or not are_stored(table):
        schema = paged(schema, part)
    graph = with_overrides(graph, metas, init, epochs)
    try:
        fmt = parse_format(format) if isinstance(format, str) else format or float32
    except ValueError as problem:
        raise _bad_format(str(format), str(problem)) from None
    timing = timing_of(part.memory if memory is None else memory, part)
    kernel.warnings = [*kernel.warnings, *out_of_range(graph, fmt)]
    made = plan(graph, binding.fields, schema, part, fmt, choices=choices, memory=timing)
    models = {v.name: v for v in graph.of_kind("model")}
    return Design(made, {name: initial_value(v) for name, v in models.items()}, {name: v.shape for name, v in models.items()},
                  dict(made.notes["run_values"]), timing, tuple(v.name for v in graph.of_kind("output")))


def _bad_format(text: str, problem: str) -> KernelError:
    what, _, hint = problem.partition("; ")
    hint = closest(text.strip().lower(), ("float32", "bfloat16", "float16")) or hint or "float32, bfloat16, float16 and fixed:8,24 are such formats"
    return error("E603", what, Span.whole("--format"), hint=hint)


def front(kernel: Kernel, table: Any, dims: Mapping[str, int] | None = None,
          bindings: Mapping[str, Sequence[str]] | None = None) -> tuple[Graph, Schema, Binding]:
    """Return the kernel's graph for a table, the table's schema, and how its columns are bound.

    Without a table, or for random numbers, the table is one of the kernel's own shapes.
    """
    if table is None or (isinstance(table, str) and table.startswith("random:")):
        schema = fitted(schema_for(kernel.trace(dims), bindings=bindings))
    elif isinstance(table, Schema):
        schema = table
    else:
        schema = open_table(table).schema
    binding = bind(kernel, schema, bindings, dims)
    return kernel.trace(binding.dims), schema, binding
