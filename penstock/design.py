"""A compiled kernel, its runs on every backend, and what it writes to a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from penstock.assumed import Assumed
from penstock.boards.board import boards
from penstock.dsl.diagnostics import Span
from penstock.dsl.kernel import checked_epochs
from penstock.host.sources import SourceError, Table, open_table
from penstock.models.analytics.config import Plan
from penstock.models.analytics.job import bound, golden, model_cycles, page_costs, strider_cycles
from penstock.models.analytics.resources import estimate
from penstock.models.analytics.shell import images, register_map
from penstock.models.errors import HardwareError
from penstock.models.heap.schema import Schema
from penstock.models.memory import Fixed
from penstock.models.numerics.formats import Codes, Format
from penstock.models.resources import Resources
from penstock.models.target import TARGETS, Target
from penstock.output import as_json, write_folder
from penstock.targets import timing_of

if TYPE_CHECKING:
    from penstock.host.device import Device

__all__ = ["BACKENDS", "Design", "Limits", "Run", "simulated_memory"]

BACKENDS = ("golden", "model", "rtl", "netlist", "board")


class Limits(Protocol):
    """A run's bound: the least cycles that it can take, and the term that says so."""

    @property
    def cycles(self) -> int: ...

    @property
    def by(self) -> str: ...


@dataclass(frozen=True)
class Run:
    """What a run gave.

    `result`: trained models by name as float64 arrays of the kernel's shapes (None after an error, and for the model, which only counts cycles);
    `codes`: the same bit for bit; `cycles`: RTL's or the model's; `errors`: what stopped the run.
    """

    backend: str
    result: dict[str, np.ndarray] | None
    codes: dict[str, Codes] | None
    cycles: int | None
    counters: Mapping[str, int]
    errors: tuple[HardwareError, ...] = ()
    epochs: int = 0
    converged: bool = False
    bound: Limits | None = None
    seconds: float = 0.0
    bytes_read: int | None = None
    bytes_written: int | None = None


@dataclass(frozen=True)
class Design:
    """A compiled kernel: the plan, where columns go, the models' start, and the Verilog (made when first asked for)."""

    plan: Plan
    start: dict[str, np.ndarray]
    shapes: dict[str, tuple[int, ...]]
    run_values: dict[str, Any]
    memory: Fixed
    labels: tuple[str, ...] = ()            #: its outputs, which a random table must make learnable
    given_verilog: str | None = field(default=None, repr=False, compare=False)

    @cached_property
    def digest(self) -> str:
        """A digest of the plan: the same for the same kernel, table schema and target."""
        return hashlib.sha256(json.dumps(self.plan.to_json(), sort_keys=True).encode()).hexdigest()

    @property
    def identity(self) -> int:
        """The 32 bits of the digest that the hardware's `design` register shows."""
        return int(self.digest[:8], 16)

    @cached_property
    def verilog(self) -> str:
        if self.given_verilog:
            return self.given_verilog
        from penstock.cache import remembered
        from penstock.sim.analytics import generate
        return remembered(self.digest, lambda: generate(self.plan, self.identity))

    @property
    def target(self) -> Target:
        return TARGETS[self.plan.target]

    @cached_property
    def resources(self) -> Resources:
        return estimate(self.plan, self.target)

    @property
    def format(self) -> Format:
        """The numbers that the hardware computes with."""
        return self.plan.format

    def resources_on(self, part: Target) -> Resources:
        """Return what the design is expected to take on another part, or on this one without what is around the engine."""
        return estimate(self.plan, part)

    def hardware(self) -> tuple[Any, Any]:
        """Return the engine, not elaborated yet, and the library of its modules, for `Soc`."""
        from penstock.sim.analytics import engine
        return engine(self.plan, self.identity)

    def describe(self) -> dict[str, Any]:
        """Return what the report says of the design: the kernel, and by name what the plan decided."""
        plan = self.plan
        names = ("threads", "lanes", "ports", "walkers", "page_buffers", "tuple_slots", "input_slots", "bus_bytes", "merge_count", "epochs", "visibility",
                 "page_size")
        config = {**{name: getattr(plan, name) for name in names}, "on_null": plan.layout.on_null, "interval": plan.schedule.interval,
                  "batch": plan.schedule.batch, "units": len(plan.units), "memory": str(self.memory), "clock_mhz": self.target.clock_mhz}
        return {"engine": "analytics", "kernel": plan.kernel, "target": plan.target, "format": plan.format_name, "digest": self.digest, "config": config}

    def runs(self) -> list[Codes]:
        """Return the codes of metas and constants in load order."""
        fmt = self.plan.format
        return [fmt.encode(np.asarray(self.run_values[self.plan.buffers[n].name], dtype=np.float64)) for n in self.plan.runs]

    def models(self) -> dict[str, Codes]:
        """Return the models' start as codes (rows, cols)."""
        fmt = self.plan.format
        return {self.plan.buffers[n].name: fmt.encode(self.start[self.plan.buffers[n].name]).reshape(self.plan.buffers[n].rows, -1) for n in self.plan.models}

    def decode(self, codes: Mapping[str, Codes]) -> dict[str, np.ndarray]:
        """Return codes of models as numbers in the kernel's shapes."""
        return {name: self.plan.format.decode(value).reshape(self.shapes[name]) for name, value in codes.items()}

    def run(self, table: Table | str, backend: str = "golden", *, memory: Fixed | str | None = None, epochs: int | None = None, **options: Any) -> Run:
        """Train on a table.

        Parameters: `table`: a `Table`, or a source as the command line takes it; `backend`: "golden" (results), "model" (cycles), "rtl" (both, simulated),
        "netlist" (both, of what synthesis makes of it: `family=` "ecp5", "ice40" or "gowin", the target's by default) or "board" (both, on a device: `device=`
        one from `penstock.open`, or without it the whole device in simulation); `memory`: timing of the ports, the design's own by default; `epochs`:
        another number of passes than the design's; `options`: for "rtl" and "netlist", see `sim.analytics.simulate`, for "board" `host.device.train`.

        Raises SourceError for a source that cannot be read or has another schema than the design, KernelError for a memory that the target's ports
        do not have and for a number of epochs that is none, ValueError for an unknown backend.
        """
        if backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, not {backend!r}")
        opened = open_table(table, self.plan.schema, self.labels) if isinstance(table, str) else table
        self._check(opened.schema)
        timing = self.memory if memory is None else timing_of(memory, self.target)
        limited = self.plan if epochs is None else replace(self.plan, epochs=checked_epochs(epochs, Span.whole("epochs")))
        if backend in ("rtl", "netlist"):
            return self._simulate(limited, opened, timing, backend, options)
        if backend == "board":
            return self._on_board(limited, opened, options)
        if backend == "model" and limited.until is None:
            return self.predict(opened, memory=timing, epochs=limited.epochs)
        begin = perf_counter()
        trained = golden(limited, opened.pages, self.runs(), self.models())
        seconds = perf_counter() - begin
        if isinstance(trained, HardwareError):
            return Run(backend, None, None, None, {}, (trained,), seconds=seconds)
        if backend == "model":                      # how many epochs there are is a result
            return self.predict(opened, memory=timing, epochs=trained.epochs)
        counters = {"tuples": trained.tuples, "batches": trained.batches, "epochs": trained.epochs, "converged": int(trained.converged)}
        return Run(backend, self.decode(trained.models), trained.models, None, counters, (), trained.epochs, trained.converged, seconds=seconds)

    def predict(self, table: Table | Assumed, *, memory: Fixed | None = None, epochs: int | None = None) -> Run:
        """Return the exact cycles of a run of so many epochs (the plan's own number without), without computing results."""
        timing, count = memory or self.memory, self.plan.epochs if epochs is None else epochs
        begin = perf_counter()
        pages = table.pages if isinstance(table, Assumed) else len(table.pages)
        costs = table.costs(self.plan.port, self.plan.walk) if isinstance(table, Assumed) else page_costs(self.plan, table.pages)
        if isinstance(costs, HardwareError):
            return Run("model", None, None, None, {}, (costs,), seconds=perf_counter() - begin)
        cycles = model_cycles(self.plan, costs, timing, count)
        limits = bound(self.plan, pages, cycles.groups, cycles.batches, timing, count)
        counters = {"tuples": cycles.tuples, "groups": cycles.groups, "batches": cycles.batches, "epochs": count, "boot": cycles.boot,
                    "trained": cycles.trained, "striders": strider_cycles(self.plan, costs) * count}
        return Run("model", None, None, cycles.total, counters, (), count, False, limits, perf_counter() - begin)

    def _check(self, schema: Schema) -> None:
        """Raise SourceError where tables of this schema are not what the design was compiled for."""
        mine = self.plan.schema
        both = [(a, b) for i, (a, b) in enumerate(zip(schema.columns, mine.columns, strict=False)) if i in self.plan.walk.used]
        stored = [[(c.type, c.dropped) for c in s.columns] for s in (schema, mine)]
        if schema.page_size != mine.page_size:
            what = f"its pages have {schema.page_size} bytes, the design's {mine.page_size}"
        elif stored[0] != stored[1]:
            what = "its columns have other types than the design's"
        elif any(a.length is not None and b.length is not None and a.length != b.length for a, b in zip(schema.columns, mine.columns, strict=True)):
            what = "its arrays have other lengths than the design's"
        elif other := next(((a, b) for a, b in both if a.name != b.name), None):
            what = f"where it has the column {other[0].name!r}, the design has {other[1].name!r}"
        elif other := next(((a, b) for a, b in both if a.missing != b.missing), None):
            what = f"rows older than its column {other[0].name!r} hold {_default(other[0].missing)} there, not {_default(other[1].missing)}"
        else:
            return
        raise SourceError(f"the table {schema.table} is not of the kind the design was compiled for: {what}", "compile the kernel for this table", code="E706")

    def _simulate(self, limited: Plan, table: Table, memory: Fixed, backend: str, options: dict[str, Any]) -> Run:
        from penstock.sim.analytics import simulate
        trace = bool(options.get("waves"))
        library = self.library(trace=trace) if backend == "rtl" else self.netlist_library(options.pop("family", None), trace=trace)
        out = simulate(limited, library, table.pages, self.runs(), self.models(), memory=memory, **options)
        result = self.decode(out.models) if out.models is not None else None
        epochs, converged = out.counters.get("epochs", 0), bool(out.counters.get("converged", 0))
        return Run(backend, result, out.models, out.cycles, out.counters, (out.error,) if out.error else (), epochs, converged, None, out.seconds,
                   out.bytes_read, out.bytes_written)

    def _on_board(self, limited: Plan, table: Table, options: dict[str, Any]) -> Run:
        from penstock.host.device import train
        device = options.pop("device", None)
        with ExitStack() as stack:
            if device is None:
                device = stack.enter_context(self.simulated_board(table))
            out = train(device, limited, table.pages, self.runs(), self.models(), **options)
        result = self.decode(out.models) if out.models is not None else None
        epochs, converged = out.counters.get("epochs", 0), bool(out.counters.get("converged", 0))
        return Run("board", result, out.models, out.cycles, out.counters, (out.error,) if out.error else (), epochs, converged, None, out.seconds)

    def simulated_board(self, table: Table) -> Device:
        """Return the whole device in simulation, connected: with the board's single-port RAM, or with as much block RAM as training on `table` takes."""
        from penstock.cache import remembered
        from penstock.host.device import memory_needed, simulated_device
        from penstock.sim.board import generate
        kind, size = simulated_memory(self.plan)
        size = size or memory_needed(self.plan, self.runs(), self.models(), len(table.pages))
        source = remembered(f"{self.digest} board {size} {kind}", lambda: generate(*self.hardware(), memory_bytes=size, memory=kind))
        return simulated_device(source, register_map(self.plan, self.identity))

    def library(self, **options: Any) -> Any:
        """Return the design compiled for simulation (from the cache where it was compiled before)."""
        from penstock.sim.analytics import build
        return build(self.plan, self.verilog, self.identity, **options)

    def netlist(self, family: str | None = None) -> str:
        """Return what Yosys makes of the engine for a family's cells (the target's family without), as Verilog with the engine's ports; kept in the cache.

        Raises KernelError: E829 for families without models of their cells, E822 and E826 where Yosys is missing or fails.
        """
        from penstock.netlists import netlist
        return netlist(self.verilog, self.target, family)

    def netlist_library(self, family: str | None = None, **options: Any) -> Any:
        """Return the design's netlist compiled for simulation. Raises as `netlist`."""
        from penstock.netlists import family_of
        from penstock.sim.analytics import ports
        from penstock.sim.netlist import build
        registers = register_map(self.plan, self.identity)
        return build(self.netlist(family), family_of(self.target, family), ports=ports(self.plan), register_map=registers, **options)

    def save(self, folder: str | Path) -> Path:
        """Write `penstock.v`, `boot.bin` (program and parameters), `strider.asm` and `manifest.json` into `folder`; return it.

        The folder appears whole or not at all; an earlier design in it is replaced. Raises OutputError where that cannot be done.
        """
        from penstock.models.strider.isa import disassemble
        from penstock.models.strider.program import generate
        return write_folder(folder, {
            "penstock.v": self.verilog.encode(), **self.images(), "strider.asm": disassemble(generate(self.plan.walk)).encode(),
            "manifest.json": as_json(self.manifest() | {"resources": {**asdict(self.resources), "source": "estimate"}})})

    def images(self) -> dict[str, bytes]:
        """Return what goes into the device's memory before a run, by the file's name."""
        return {"boot.bin": images(self.plan, self.runs(), self.models()).boot.tobytes()}

    def manifest(self) -> dict[str, Any]:
        """Return what makes the design again (`load`), as plain data."""
        return {"penstock": 1, "engine": "analytics", "digest": self.digest, "plan": self.plan.to_json(), "memory": str(self.memory),
                "register_map": register_map(self.plan, self.identity).to_json(), "start": {name: value.tolist() for name, value in self.start.items()},
                "shapes": {k: list(v) for k, v in self.shapes.items()}, "labels": list(self.labels), "run_values": self.run_values}


def simulated_memory(plan: Plan) -> tuple[str, int]:
    """Return kind and bytes of the memory that a device in simulation has: the board's where that is single-port RAM or has addresses made for it, else
    block RAM of any size (0)."""
    board = boards().get(plan.target)
    kind = "SPRAM" if board is not None and board.memory.kind == "SPRAM" and plan.memory_bytes else "block RAM"
    return kind, plan.memory_bytes


def _default(missing: Any) -> str:
    return "NULL" if missing is None else str(missing)
