"""Fits over numeric columns of a table: the design, runs on any backend."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.assumed import assume, fitted, paged
from penstock.compiled import Compiled
from penstock.design import Run
from penstock.dsl.bind import bind
from penstock.dsl.diagnostics import Span, error
from penstock.dsl.fit import FitGraph, FitKernel
from penstock.dsl.lower.table_fit import lower_table
from penstock.fits import graph_from, graph_json
from penstock.host.sources import Table, are_stored, open_table
from penstock.host.workloads import Changes, TooFew
from penstock.models.errors import HardwareError
from penstock.models.heap.schema import Column, Schema
from penstock.models.memory import Fixed, parse_memory
from penstock.models.numerics.formats import Fixed as FixedPoint
from penstock.models.numerics.formats import Format, float32, parse_format
from penstock.models.qr import columns as c
from penstock.models.qr.cycles import Bound
from penstock.models.qr.job import Integers, Method
from penstock.models.qr.table_cycles import bound, run, words_read
from penstock.models.qr.table_engine import Segment, TableEngine, layout, register_map
from penstock.models.qr.table_memory import SIMULATED, memory_for, places, unpack_answer
from penstock.models.qr.table_resources import estimate
from penstock.models.resources import Resources
from penstock.models.shell import RegisterMap
from penstock.models.strider.config import WalkConfig
from penstock.models.strider.costs import Costs, analyse
from penstock.models.strider.isa import disassemble
from penstock.models.strider.program import generate
from penstock.models.strider.rows import RowPages
from penstock.models.strider.table import walk_table
from penstock.models.target import TARGETS, Target
from penstock.output import as_json, write_folder
from penstock.tables import table_for
from penstock.targets import timing_of

if TYPE_CHECKING:
    from penstock.host.device import Device
    from penstock.sim.native import PortSpec
    from penstock.sim.table_fit import Fitted

    #: makes a fit that goes on from these totals; whether they are others than the fit before left; rows that come, rows that go
    Fit = Callable[[c.Totals, bool, Sequence[Segment]], Fitted]

__all__ = ["COLUMNS_BACKENDS", "COLUMNS_FILES", "ColumnsDesign", "check_method", "compile_columns", "load_columns", "table_of"]

COLUMNS_BACKENDS = ("golden", "model", "pysim", "rtl", "netlist", "board")
COLUMNS_FILES = ("penstock.v", "strider.asm", "manifest.json")
FORMAT = "fixed:8,8"


@dataclass(frozen=True)
class ColumnsDesign(Compiled):
    """A compiled fit over columns: where they are in the table, and the engine."""

    graph: FitGraph
    engine: TableEngine
    part: str
    memory: Fixed
    given_verilog: str | None = field(default=None, repr=False, compare=False)

    @cached_property
    def digest(self) -> str:
        said = {"engine": "qr", "kernel": self.graph.name, "target": self.part, "config": self.engine.to_json()}
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    @property
    def config(self) -> c.Columns:
        return self.engine.columns

    @property
    def schema(self) -> Schema:
        return self.engine.walk.schema

    @property
    def label(self) -> str:
        """The name of the label's column."""
        return self.schema.columns[self.engine.walk.layout.sources[-1].column].name

    @property
    def target(self) -> Target:
        return TARGETS[self.part]

    @property
    def format(self) -> Format:
        return float32                                       # the solver's

    @property
    def registers(self) -> RegisterMap:
        return register_map(self.identity)

    @property
    def bus_ports(self) -> tuple[PortSpec, ...]:
        from penstock.sim.table_fit import ports
        return ports(self.engine)

    def hardware(self) -> tuple[Any, Any]:
        from penstock.sim.table_fit import engine
        return engine(self.engine, self.identity)

    def resources_on(self, part: Target) -> Resources:
        return estimate(self.engine, part)

    def describe(self) -> dict[str, Any]:
        engine = self.engine
        config = asdict(engine.columns) | {
            "method": "gram", "incremental": self.graph.incremental, "walkers": engine.walkers, "tuple_slots": engine.slots, "bus_bytes": engine.bus_bytes,
            "on_null": engine.walk.layout.on_null, "page_size": self.schema.page_size, "memory": str(self.memory), "clock_mhz": self.target.clock_mhz}
        return {"engine": "qr", "kernel": self.graph.name, "target": self.part, "format": self.config.format_name, "digest": self.digest, "config": config}

    def leaving_out(self, on_null: str) -> ColumnsDesign:
        """Return the design with this policy for rows with NULL in a used column: "error" or "skip"."""
        walk = self.engine.walk
        if walk.layout.on_null == on_null:
            return self
        return replace(self, engine=replace(self.engine, walk=replace(walk, layout=replace(walk.layout, on_null=on_null))), given_verilog=None)

    # runs

    def run(self, table: Any, backend: str = "golden", *, changes: Changes | None = None, memory: Fixed | None = None, **options: Any) -> Run:
        """Fit the table's first rows, then refit with `new` rows that come and the `gone` oldest that go, so often that the last row has come.

        Parameters: `table`: a `Table`, or a source as the command line takes it; `backend`: "golden" (the weights, of the last fit), "model" (cycles), "rtl"
        (both, simulated), "netlist" (both, of what synthesis makes of it: `family=`), "board" (both, on a device: `device=` one from `penstock.open`, without
        it the whole device in simulation), or "pysim" (as rtl, in Amaranth's simulator: slow, no tools); `memory`: the port's timing, the design's own by
        default; `options`: for "rtl" and "netlist" of `sim.native.run_on_images`, for "board" of `host.device.TableFits.fit`.

        Where the rows' means have wandered from the offsets that the first fit chose (`columns.wandered`), a fit is followed by one of the same rows with
        offsets of their own, from sums that are moved exactly: `counters` says how often (`recentred`), and `codes` has a row for each run of the engine, such
        ones among them. Cycles of "model" are those at `memory`; a device's memory has its own timing, `models.memory.block_ram`.

        Raises SourceError for a source that cannot be read or has another schema than the design, ValueError for another backend, TooFew where the rows are too
        few, KernelError (E701) where they are too many. What a page has wrong, or NULL in a used column under the policy "error", is the run's error.
        """
        if backend not in COLUMNS_BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(COLUMNS_BACKENDS)}, not {backend!r}")
        begin, timing, opened = perf_counter(), memory or self.memory, table_for(table, self.engine.walk, (self.label,))
        codes, _, _, wrong = walk_table(opened.pages, self.engine.walk)
        if wrong is not None:
            return Run(backend, None, None, None, {}, (wrong,), seconds=perf_counter() - begin)
        rows = self.config.format.to_integers(codes)
        steps, counters = _steps(len(rows), changes)
        counters["saturated"] = self._saturated(opened)
        if backend == "model":
            return self._predict(analyse(self.engine.port, self.engine.walk, opened.pages), rows, steps, counters, timing)
        if backend != "golden":
            return self._simulate(opened, rows, steps, counters, timing, backend, options)
        fits: list[tuple[c.Totals, c.Solution]] = []

        def fit(before: c.Totals, _: bool, step: _Step) -> c.Totals:
            totals = self._summed(before, rows, step)
            fits.append((totals, c.solved(totals, self.config.format)))
            return totals
        self._play(rows, steps, fit)
        return self._run("golden", fits, counters, seconds=perf_counter() - begin)

    def _saturated(self, table: Table) -> int:
        """Return how many values of used columns are saturated: beyond its ends in a wider format with as many fraction bits."""
        narrow, walk = self.config.format, self.engine.walk
        wide = parse_format(f"fixed:{32 - narrow.fraction_bits},{narrow.fraction_bits}")
        assert isinstance(wide, FixedPoint)
        values = wide.to_integers(walk_table(table.pages, replace(walk, format=wide))[0])
        return int(np.count_nonzero((values > narrow.top) | (values < -narrow.top - 1)))

    def _play(self, rows: Integers | None, steps: Sequence[_Step], fit: Callable[[c.Totals, bool, _Step], c.Totals | None]) -> None:
        """Make the fits, one after the other, as long as there are totals to go on from. `fit`: makes one from totals, and whether they are others than the
        fit before left; without `rows` nothing wanders."""
        totals: c.Totals | None = None
        for step in self._spans(steps):
            before = self._before(step, totals, rows)
            totals = fit(before, before is not totals, step)
            if totals is None:
                return
            if c.wandered(totals):
                totals = fit(c.recentred(totals), True, _Step((0, 0), (0, 0)))
                if totals is None:
                    return

    @staticmethod
    def _summed(before: c.Totals, rows: Integers, step: _Step) -> c.Totals:
        return c.taken(c.added(before, rows[slice(*step.come)]), rows[slice(*step.go)])

    def _before(self, step: _Step, totals: c.Totals | None, rows: Integers | None) -> c.Totals:
        """Return what a fit goes on from: nothing, with offsets of its own, or the fit before."""
        if totals is not None and self.graph.incremental:
            return totals
        return c.first(np.zeros((0, self.config.n), dtype=np.int64) if rows is None else rows[slice(*step.come)])

    def predict(self, costs: Costs, *, changes: Changes | None = None, memory: Fixed | None = None) -> Run:
        """Return the exact cycles of such fits of a table, from what walking its pages costs, as long as no means wander, which the values alone tell. Raises
        TooFew, KernelError (E701)."""
        steps, counters = _steps(RowPages(costs).rows, changes)
        return self._predict(costs, None, steps, counters | {"saturated": 0}, memory or self.memory)

    def _predict(self, costs: Costs, rows: Integers | None, steps: Sequence[_Step], counters: Mapping[str, int], timing: Fixed) -> Run:
        engine, begin, where = self.engine, perf_counter(), RowPages(costs)
        taken: list[int] = []
        read = 0
        least = np.zeros(5, dtype=np.int64)

        def fit(before: c.Totals, _: bool, step: _Step) -> c.Totals:
            nonlocal read, least
            segments = [self._segment(where, *span) for span in (step.come, step.go)]
            taken.append(run(engine, segments, timing))
            limits = bound(engine, [segment for segment, _ in segments], timing)
            least += [limits.memory, limits.sums, limits.solver, limits.dot, limits.recurrence]
            read += words_read(engine, [segment for segment, _ in segments]) * engine.bus_bytes
            return before if rows is None else self._summed(before, rows, step)
        self._play(rows, steps, fit)
        said = {**counters, "training_cycles": taken[0], "recentred": len(taken) - counters["jobs"]}
        return Run("model", None, None, sum(taken), said, bound=Bound(*least.tolist()), seconds=perf_counter() - begin, bytes_read=read,
                   bytes_written=engine.answer_words * engine.bus_bytes * len(taken))

    def _spans(self, steps: Sequence[_Step]) -> list[_Step]:
        """Return the rows that come and go in each fit, all of them in every fit that does not go on from the one before."""
        if self.graph.incremental:
            return list(steps)
        return [_Step((step.go[1], step.come[1]), (0, 0)) for step in steps]

    def _segment(self, rows: RowPages, first: int, last: int, address: int = 0) -> tuple[Segment, Costs | None]:
        """Return where such rows are in pages from this address on, and what walking them costs."""
        page, skip, costs = rows.span(first, last)
        return (Segment(address + page * self.schema.page_size, costs.pages, skip, last - first, page), costs) if costs.pages else (Segment(), None)

    def simulated_board(self, table: Table) -> Device:
        """Return the whole device in simulation, connected, with as much block RAM as fits over `table` take."""
        return self.device_in_simulation(memory_for(self.engine, len(table.pages)))

    def _start(self, table: Table, backend: str, memory: Fixed, options: dict[str, Any], stack: ExitStack) -> tuple[int, Fit]:
        """Return the address of the table's first page, and what makes fits; what it needs for that is open as long as `stack` is."""
        engine, pages = self.engine, table.pages
        if backend == "pysim":
            from penstock.sim.table_fit_python import Simulation
            simulation = Simulation(engine, memory)
            return places(engine).pages, lambda before, anew, segments: simulation.run(pages, before, segments, **options)
        if backend == "board":
            from penstock.host.device import TableFits
            device = options.pop("device", None) or stack.enter_context(self.simulated_board(table))
            fits = TableFits(self.runs_on(device), engine, pages)
            return fits.first_page, lambda before, anew, segments: fits.fit(segments, before if anew else None, **options)
        from penstock.sim.table_fit import simulate
        library = self.library() if backend == "rtl" else self.netlist_library(options.pop("family", None))
        return SIMULATED.pages, lambda before, anew, segments: simulate(engine, library, pages, before, segments, memory=memory, **options)

    def _simulate(self, table: Table, rows: Integers, steps: Sequence[_Step], counters: Mapping[str, int], memory: Fixed, backend: str,
                  options: dict[str, Any]) -> Run:
        where = RowPages(analyse(self.engine.port, self.engine.walk, table.pages))
        cycles = read = written = 0
        seconds, counted = 0.0, Counter[str]()
        fits: list[tuple[c.Totals, c.Solution]] = []
        wrong: list[HardwareError] = []
        with ExitStack() as stack:
            address, start = self._start(table, backend, memory, options, stack)

            def fit(before: c.Totals, anew: bool, step: _Step) -> c.Totals | None:
                nonlocal cycles, read, written, seconds
                made = start(before, anew, [self._segment(where, *span, address)[0] for span in (step.come, step.go)])
                cycles, read, written, seconds = cycles + made.cycles, read + made.bytes_read, written + made.bytes_written, seconds + made.seconds
                counted.update(made.counters)
                if made.answer is None:
                    wrong.extend([made.error] if made.error else [])
                    return None
                totals, weights, mask = unpack_answer(made.answer, self.engine)
                fits.append((totals, c.valued(totals, weights, mask, self.config.format)))
                return totals
            self._play(rows, steps, fit)
        if wrong:
            return Run(backend, None, None, cycles, counted, tuple(wrong), seconds=seconds)
        return self._run(backend, fits, {**counted, **counters}, cycles=cycles, seconds=seconds, read=read or None, written=written or None)

    def _run(self, backend: str, fits: Sequence[tuple[c.Totals, c.Solution]], counters: Mapping[str, int], *, cycles: int | None = None, seconds: float = 0.0,
             read: int | None = None, written: int | None = None) -> Run:
        codes = {"weights": np.array([fit.weights for _, fit in fits]).astype(np.int64), "mask": np.array([fit.mask for _, fit in fits]).astype(np.int64),
                 "sums": np.array([np.concatenate([totals.offsets, totals.sums.reshape(-1)]) for totals, _ in fits])}
        values, said = fits[-1][1].values, {**counters, "recentred": len(fits) - counters["jobs"]}
        return Run(backend, {"bias": values[:1], "weights": values[1:]}, codes, cycles, said, seconds=seconds, bytes_read=read, bytes_written=written)

    # files

    def save(self, folder: str | Path) -> Path:
        """Write `penstock.v`, `strider.asm` and `manifest.json` into `folder`; return it. The folder appears whole or not at all."""
        said = self.manifest() | {"resources": {**asdict(self.resources), "source": "estimate"}}
        program = disassemble(generate(self.engine.walk)).encode()
        return write_folder(folder, {"penstock.v": self.verilog.encode(), "strider.asm": program, "manifest.json": as_json(said)})

    def manifest(self) -> dict[str, Any]:
        return {"penstock": 1, "engine": "qr", "digest": self.digest, "kernel": self.graph.name, "target": self.part, "config": self.engine.to_json(),
                "memory": str(self.memory), "register_map": self.registers.to_json(), "fit": graph_json(self.graph)}


@dataclass(frozen=True)
class _Step:
    """One fit: which of the table's rows come and which go, from and to."""

    come: tuple[int, int]
    go: tuple[int, int]


def _steps(rows: int, changes: Changes | None) -> tuple[list[_Step], dict[str, int]]:
    """Return for each fit which rows come, from and to, and which go; and how much all of that is. Raises TooFew, KernelError (E701)."""
    changes = changes or Changes(groups=1)
    load, left = rows - changes.refits * changes.new, rows - changes.refits * changes.gone
    if not rows:
        raise TooFew("there is no row to fit")
    if load < 1 or left < 0:
        each = f"{changes.new:,} new ones each" if load < 1 else f"{changes.gone:,} that go each"
        raise TooFew(f"{rows:,} rows are too few for {changes.refits} refits with {each}")
    steps = [_Step((load + k * changes.new, load + (k + 1) * changes.new), (k * changes.gone, (k + 1) * changes.gone)) for k in range(changes.refits)]
    most = max((step.come[1] - step.go[0] for step in steps), default=load)
    if most > c.ROWS_MAX:
        raise error("E701", f"{most:,} rows are more than the sums of a fit hold: {c.ROWS_MAX:,}", Span.whole("rows"),
                    hint="fewer rows, or more that go (--gone)")
    return [_Step((0, load), (0, 0)), *steps], {"jobs": 1 + len(steps), "refits": changes.refits, "rows": left,
                                       "changes": changes.refits * (changes.new + changes.gone)}


def table_of(kernel: FitKernel, source: Any, dims: Mapping[str, int], bindings: Mapping[str, Sequence[str]]) -> Table | Schema:
    """Return the table, or where there is none, or a random one is asked for, the schema of the kernel's own shapes, with the columns that are bound. Raises
    KernelError (E505)."""
    if isinstance(source, Schema):
        return source
    if source is not None and not (isinstance(source, str) and source.startswith("random:")):
        return open_table(source)
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


def check_method(graph: FitGraph) -> None:
    """Raise KernelError (E606) where a fit over columns has a method that there is no hardware for."""
    if graph.method is not Method.GRAM:
        raise error("E606", "a fit over columns has no method givens yet", graph.span, hint='leave method out, or write method="gram"', source=graph.source)


def compile_columns(kernel: FitKernel, part: Target, source: Any, fmt: str | Format | None = None, *,
                    dims: dict[str, int] | None = None, bindings: dict[str, Any] | None = None, memory: str | Fixed | None = None) -> ColumnsDesign:
    """Compile a fit over columns for a part and a table. Raises KernelError, SourceError.

    Where the memory is on the part and no timing is given, the planner chooses the width of the memory port.
    """
    kernel.trace(dims)
    found = table_of(kernel, source, dims or {}, bindings or {})
    schema = found.schema if isinstance(found, Table) else found
    if source is None or not are_stored(source):
        schema = paged(schema, part)
    binding = bind(kernel, schema, bindings, dims)
    graph = kernel.trace(binding.dims)
    check_method(graph)
    name = str(getattr(fmt, "name", fmt)) if fmt is not None else FORMAT
    try:
        columns = c.Columns(graph.columns, name, 1)
    except ValueError as problem:
        raise error("E603", str(problem), Span.whole("--format"), hint="as in --format fixed:8,8, which is what there is without") from None
    assert graph.label is not None
    attributes = [(run.attribute, run.first + k) for variable in (graph.features, graph.label) for run in binding.fields[variable] for k in range(run.count)]
    walk = WalkConfig(schema, layout(attributes), columns.format)
    given = None if memory is None and part.shared else timing_of(part.memory if memory is None else memory, part)
    engine = lower_table(graph, columns, walk, _full_page(walk), part, given)
    return ColumnsDesign(graph, engine, part.name, given or Fixed(part.latency, engine.bus_bytes))


def _full_page(walk: WalkConfig) -> np.ndarray:
    """Return a page full of the table's rows, with arrays as long as they have to be."""
    columns = tuple(replace(column, length=max(1, walk.array_length(k))) if column.is_array else column for k, column in enumerate(walk.schema.columns))
    return assume(fitted(replace(walk.schema, columns=columns)), 1 << 20).full


def load_columns(manifest: Mapping[str, Any], verilog: str) -> ColumnsDesign:
    """Return the design that `ColumnsDesign.save` wrote, from its files' contents."""
    return ColumnsDesign(graph_from(manifest["fit"]), TableEngine.from_json(manifest["config"]), manifest["target"], parse_memory(manifest["memory"]), verilog)
