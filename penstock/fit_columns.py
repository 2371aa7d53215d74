"""Fits over numeric columns of a table: design, runs by the golden and the cycle model, what the commands show of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table as Grid

from penstock.design import Run
from penstock.dsl.bind import bind
from penstock.dsl.diagnostics import KernelError, Span, error
from penstock.dsl.fit import FitGraph, FitKernel
from penstock.fit_report import fit_table
from penstock.host.sources import Table, open_table
from penstock.host.workloads import Changes, TooFew
from penstock.models.heap.schema import Column, Schema
from penstock.models.memory import Fixed
from penstock.models.numerics.formats import Format
from penstock.models.qr import columns as c
from penstock.models.qr.cycles import Bound
from penstock.models.qr.job import Integers, Method
from penstock.models.resources import Resources
from penstock.models.target import TARGETS, Target
from penstock.report import amount, plural, resource_row, seconds_text, target_row
from penstock.targets import timing_of

if TYPE_CHECKING:
    from penstock.outcome import Outcome

__all__ = ["ColumnsDesign", "compile_columns", "summary", "table_of"]

FORMAT = "fixed:8,8"
_LANES = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class ColumnsDesign:
    """A compiled fit over columns: where they are in the table, and the engine."""

    graph: FitGraph
    config: c.Columns
    part: str
    memory: Fixed
    schema: Schema
    columns: tuple[tuple[int, int], ...]            #: attribute and element of each feature, then of the label

    @cached_property
    def digest(self) -> str:
        said = {"engine": "qr", "kernel": self.graph.name, "target": self.part, "config": self.config.to_json(), "columns": self.columns}
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    @property
    def label(self) -> str:
        """The name of the label's column."""
        return self.schema.columns[self.columns[-1][0]].name

    @property
    def target(self) -> Target:
        return TARGETS[self.part]

    @cached_property
    def resources(self) -> Resources:
        return c.estimate(self.config, self.target)

    def describe(self) -> dict[str, Any]:
        """Return what the report says of the design."""
        config = self.config.to_json() | {"method": "gram", "incremental": self.graph.incremental, "bus_bytes": self.target.bus_bytes,
                                          "memory": str(self.memory), "clock_mhz": self.target.clock_mhz}
        return {"engine": "qr", "kernel": self.graph.name, "target": self.part, "format": self.config.format_name, "digest": self.digest, "config": config}

    def rows(self, table: Table, on_null: str = "error") -> tuple[Integers, int]:
        """Return the table's rows as integers, features then label, and how many values were saturated. Raises KernelError (E814)."""
        values = table.columns()
        read = [np.ma.masked_array(values[self.schema.columns[at].name]) for at, _ in self.columns]
        real = np.ma.stack([array[:, element] if array.ndim > 1 else array for array, (_, element) in zip(read, self.columns, strict=True)], axis=1)
        empty = np.ma.getmaskarray(real).any(axis=1)
        if empty.any() and on_null != "skip":
            number = int(np.flatnonzero(empty)[0]) + 1
            raise error("E814", f"a used column is NULL in row {number:,}", Span.whole(table.name), hint="--on-null skip leaves such rows out")
        return c.quantised(np.ma.getdata(real)[~empty], self.config.format)

    def run(self, table: Table, backend: str = "golden", *, changes: Changes | None = None, on_null: str = "error") -> Run:
        """Fit the table's first rows, then refit with `new` rows that come and the `gone` oldest that go, so often that the last row has come.

        "golden": the weights, of the last fit; "model": the cycles. Raises ValueError where the rows are too few, or for another backend.
        """
        if backend not in ("golden", "model"):
            raise ValueError(f"backend must be golden or model, not {backend!r}")
        begin = perf_counter()
        rows, saturated = self.rows(table, on_null)
        if backend == "model":
            return self.predict(len(rows), len(table.pages), changes=changes, saturated=saturated)
        steps, counters = _steps(len(rows), changes)
        totals, solutions = c.first(rows[:steps[0][1]]), []
        for first, last, oldest, newest in steps:
            if self.graph.incremental or first == 0:
                totals = c.taken(c.added(totals, rows[first:last]), rows[oldest:newest])
            else:
                totals = c.added(c.first(rows[newest:last]), rows[newest:last])
            solutions.append(c.solved(totals, self.config.format))
        last_one = solutions[-1]
        codes = {"weights": np.array([s.weights for s in solutions])}
        return Run("golden", {"bias": last_one.values[:1], "weights": last_one.values[1:]}, codes, None, counters | {"saturated": saturated},
                   seconds=perf_counter() - begin)

    def predict(self, rows: int, pages: int, *, changes: Changes | None = None, saturated: int = 0) -> Run:
        """Return the cycles of such fits of so many rows in so many pages: their values do not matter. `saturated`: what the report says of them. Raises
        ValueError where the rows are too few."""
        bus, begin = self.target.bus_bytes, perf_counter()
        steps, counters = _steps(rows, changes)
        interval, page = self.memory.interval(bus), self.schema.page_size // bus
        total = training = read = 0
        least = np.zeros(5, dtype=np.int64)
        for first, last, oldest, newest in steps:
            spans = [(first, last), (oldest, newest)] if self.graph.incremental or first == 0 else [(newest, last)]
            # whole pages, rows evenly in them
            touched = sum(pages * b // rows - pages * a // rows + (pages * b % rows > 0) for a, b in spans if b > a)
            changed = sum(b - a for a, b in spans)
            took = c.cycles(self.config, changed, touched * page, interval, self.memory.latency)
            limits = c.bound(self.config, changed, touched * page, self.memory, bus)
            least += [limits.memory, limits.sums, limits.solver, limits.dot, limits.recurrence]
            total, training, read = total + took, training or took, read + touched * page * bus
        return Run("model", None, None, total, counters | {"saturated": saturated, "training_cycles": training}, bound=Bound(*least.tolist()),
                   seconds=perf_counter() - begin, bytes_read=read, bytes_written=4 * self.config.n * len(steps))


def _steps(rows: int, changes: Changes | None) -> tuple[list[tuple[int, int, int, int]], dict[str, int]]:
    """Return for each fit which rows come, from and to, and which go; and how much all of that is. Raises TooFew."""
    changes = changes or Changes(groups=1)
    load, left = rows - changes.refits * changes.new, rows - changes.refits * changes.gone
    if load < 1 or left < 0:
        each = f"{changes.new:,} new ones each" if load < 1 else f"{changes.gone:,} that go each"
        raise TooFew(f"{rows:,} rows are too few for {changes.refits} refits with {each}")
    steps = [(load + k * changes.new, load + (k + 1) * changes.new, k * changes.gone, (k + 1) * changes.gone) for k in range(changes.refits)]
    return [(0, load, 0, 0), *steps], {"jobs": 1 + len(steps), "refits": changes.refits, "rows": left,
                                       "changes": changes.refits * (changes.new + changes.gone)}


def table_of(kernel: FitKernel, source: Table | Schema | str | None, dims: Mapping[str, int], bindings: Mapping[str, Sequence[str]]) -> Table | Schema:
    """Return the table, or where there is none, or a random one is asked for, the schema of the kernel's own shapes, with the columns that are bound. Raises
    KernelError (E505)."""
    if isinstance(source, str) and not source.startswith("random:"):
        return open_table(source)
    if source is not None and not isinstance(source, str):
        return source
    [x], [y] = kernel.of_kind("input"), kernel.of_kind("output")
    several = bindings.get(x.name, ())
    missing = next((dim for dim in kernel.dim_names if dim not in dims), None)
    if missing and len(several) < 2:
        raise kernel.error("E505", f"the size of dimension {missing} is not known", x.span, hint=f"give it with --dim {missing}=SIZE")
    labels = bindings.get(y.name, ()) or (y.name,)
    features = [Column(name, "float4", not_null=True) for name in several]
    if len(several) < 2:
        size = next((dims[dim] if isinstance(dim, str) else dim for dim in x.dims), None)
        name = several[0] if several else x.name
        features = [Column(name, "float4", not_null=True) if size is None else Column(name, "float4[]", not_null=True, length=size)]
    return Schema(kernel.name, (*features, *(Column(name, "float4", not_null=True) for name in labels)))


def compile_columns(kernel: FitKernel, part: Target, source: Table | Schema | str | None, fmt: str | Format | None = None, *,
                    dims: dict[str, int] | None = None, bindings: dict[str, Any] | None = None, memory: str | Fixed | None = None) -> ColumnsDesign:
    """Compile a fit over columns for a part and a table. Raises KernelError, SourceError."""
    kernel.trace(dims)
    found = table_of(kernel, source, dims or {}, bindings or {})
    schema = found.schema if isinstance(found, Table) else found
    binding = bind(kernel, schema, bindings, dims)
    graph = kernel.trace(binding.dims)
    if graph.method is not Method.GRAM:
        raise error("E606", "a fit over columns has no method givens yet", graph.span, hint='leave method out, or write method="gram"', source=graph.source)
    name = str(getattr(fmt, "name", fmt)) if fmt is not None else FORMAT
    try:
        chosen = c.Columns(graph.columns, name, 1, 1)
    except ValueError as problem:
        raise error("E603", str(problem), Span.whole("--format"), hint="as in --format fixed:8,8, which is what there is without") from None
    assert graph.label is not None
    places = tuple((run.attribute, run.first + k) for variable in (graph.features, graph.label) for run in binding.fields[variable] for k in range(run.count))
    timing = timing_of(part.memory if memory is None else memory, part)
    return ColumnsDesign(graph, _planned(graph, chosen, part, timing, schema), part.name, timing, schema, places)


def _planned(graph: FitGraph, one: c.Columns, part: Target, memory: Fixed, schema: Schema) -> c.Columns:
    """Return the smallest engine that keeps up with the pages; else the fastest that fits."""
    stream = max(1, (28 + 4 * one.n) * memory.interval(part.bus_bytes) // part.bus_bytes)
    sums = sorted({one.products, *(n for n in _LANES if n < one.products), -(-one.products // stream)})
    fits = [made for g in sums for made in (replace(one, gram_lanes=g, lanes=min(one.n, 8)),) if c.estimate(made, part).fits(part) is None]
    if not fits:
        raise _too_large(graph, one, part)
    keeps_up = [made for made in fits if made.row_cycles <= stream]
    return keeps_up[0] if keeps_up else fits[-1]


def _too_large(graph: FitGraph, one: c.Columns, part: Target) -> KernelError:
    need = c.estimate(one, part)
    resource = need.fits(part) or "dsp"
    return error("E601", f"kernel {graph.name!r} does not fit on {part.name}: the smallest engine needs {getattr(need, resource):,} {resource.upper()}, "
                 f"the part has {getattr(part, resource):,}", graph.span, hint="a larger target (--target, --board) would help", source=graph.source or None)


def summary(outcome: Outcome) -> Grid:
    """Return the table of a predicted or simulated fit over columns."""
    design = outcome.fits
    assert isinstance(design, ColumnsDesign)
    config, grid = design.config, fit_table(design.graph)
    grid.add_row("values", f"{config.format_name}, sums in exact integers of 64 bits")
    grid.add_row("engine", f"{plural(config.gram_lanes, 'product')} a cycle, {plural(config.row_cycles, 'cycle')} a row; no hardware yet")
    grid.add_row("target", target_row(design.target))
    run = outcome.model or outcome.golden
    if run is not None:
        counters = run.counters
        grid.add_section()
        grid.add_row("table", f"{outcome.table}: {plural(outcome.rows or 0, 'row')}, {counters['rows']:,} of them in the last fit")
        if counters["saturated"]:
            grid.add_row("saturated", f"{counters['saturated']:,} values lie outside {config.format_name}")
        if outcome.cycles is not None and outcome.model is not None:
            clock = design.target.clock_mhz
            grid.add_row("cycles", f"{outcome.cycles:,}, {seconds_text(outcome.cycles / clock / 1e6)} at {amount(clock)} MHz")
            if counters["refits"]:
                each = (outcome.cycles - outcome.model.counters["training_cycles"]) / counters["refits"]
                grid.add_row("a refit", f"{each:,.0f} cycles, {seconds_text(each / clock / 1e6)}")
            limits = outcome.model.bound
            if limits is not None and limits.cycles:
                grid.add_row("bound", f"{limits.cycles:,} by {limits.by}; cycles ÷ bound = {outcome.cycles / limits.cycles:.3f}")
    grid.add_section()
    grid.add_row("resources", resource_row(design.resources, design.target))
    for name, value in (outcome.result or {}).items():
        grid.add_row(f"{name}[{value.size}]", " ".join(f"{v:.4g}" for v in value[:6]) + (" …" if value.size > 6 else ""))
    return grid

