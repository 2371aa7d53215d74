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
from penstock.compiled import Compiled
from penstock.dsl.diagnostics import Span
from penstock.dsl.kernel import checked_epochs
from penstock.host.sources import Table
from penstock.models.analytics.config import Plan
from penstock.models.analytics.job import bound, golden, model_cycles, page_costs, strider_cycles
from penstock.models.analytics.resources import estimate
from penstock.models.analytics.shell import images, register_map
from penstock.models.errors import HardwareError
from penstock.models.memory import Fixed
from penstock.models.numerics.formats import Codes, Format
from penstock.models.resources import Resources
from penstock.models.shell import RegisterMap
from penstock.models.target import TARGETS, Target
from penstock.output import as_json, write_folder
from penstock.tables import table_for
from penstock.targets import timing_of

if TYPE_CHECKING:
    from penstock.host.device import Device
    from penstock.sim.native import PortSpec

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
class Design(Compiled):
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
    def target(self) -> Target:
        return TARGETS[self.plan.target]

    @property
    def format(self) -> Format:
        return self.plan.format

    @property
    def registers(self) -> RegisterMap:
        return register_map(self.plan, self.identity)

    @property
    def bus_ports(self) -> tuple[PortSpec, ...]:
        from penstock.sim.analytics import ports
        return ports(self.plan)

    def resources_on(self, part: Target) -> Resources:
        return estimate(self.plan, part)

    def hardware(self) -> tuple[Any, Any]:
        from penstock.sim.analytics import engine
        return engine(self.plan, self.identity)

    def describe(self) -> dict[str, Any]:
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

    def run(self, table: Any, backend: str = "golden", *, memory: Fixed | str | None = None, epochs: int | None = None, **options: Any) -> Run:
        """Train on a table.

        Parameters: `table`: a source as the command line takes it, a dict of arrays, a pandas or polars frame, an Arrow table, or a `Table`; `backend`:
        "golden" (results), "model" (cycles), "rtl" (both, simulated),
        "netlist" (both, of what synthesis makes of it: `family=` "ecp5", "ice40" or "gowin", the target's by default) or "board" (both, on a device: `device=`
        one from `penstock.open`, or without it the whole device in simulation); `memory`: timing of the ports, the design's own by default; `epochs`:
        another number of passes than the design's; `options`: for "rtl" and "netlist", see `sim.analytics.simulate`, for "board" `host.device.train`.

        Raises SourceError for a source that cannot be read or has another schema than the design, KernelError for a memory that the target's ports
        do not have and for a number of epochs that is none, ValueError for an unknown backend.
        """
        if backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, not {backend!r}")
        opened = table_for(table, self.plan.walk, self.labels)
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

    def _simulate(self, limited: Plan, table: Table, memory: Fixed, backend: str, options: dict[str, Any]) -> Run:
        from penstock.sim.analytics import simulate
        from penstock.sim.native import wave_format
        trace = wave_format(options["waves"]) if options.get("waves") else ""
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
            out = train(self.runs_on(device), limited, table.pages, self.runs(), self.models(), **options)
        result = self.decode(out.models) if out.models is not None else None
        epochs, converged = out.counters.get("epochs", 0), bool(out.counters.get("converged", 0))
        return Run("board", result, out.models, out.cycles, out.counters, (out.error,) if out.error else (), epochs, converged, None, out.seconds)

    def simulated_board(self, table: Table) -> Device:
        """Return the whole device in simulation, connected: with the board's single-port RAM, or with as much block RAM as training on `table` takes."""
        from penstock.host.device import memory_needed
        kind, size = simulated_memory(self.plan)
        size = size or memory_needed(self.plan, self.runs(), self.models(), len(table.pages))
        return self.device_in_simulation(size, kind)

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
        return {"boot.bin": images(self.plan, self.runs(), self.models()).boot.tobytes()}

    def manifest(self) -> dict[str, Any]:
        return {"penstock": 1, "engine": "analytics", "digest": self.digest, "plan": self.plan.to_json(), "memory": str(self.memory),
                "register_map": self.registers.to_json(), "start": {name: value.tolist() for name, value in self.start.items()},
                "shapes": {k: list(v) for k, v in self.shapes.items()}, "labels": list(self.labels), "run_values": self.run_values}


def simulated_memory(plan: Plan) -> tuple[str, int]:
    """Return kind and bytes of the memory that a device in simulation has: the board's where that is single-port RAM or has addresses made for it, else
    block RAM of any size (0). Raises BuildError for a board with SDRAM."""
    board = boards().get(plan.target)
    if board is not None and board.memory.kind == "SDRAM":
        from penstock.sim.native import BuildError
        raise BuildError(f"the SDRAM of {board.name} cannot be simulated yet: --target {board.name.removesuffix('-sdram')} has its tables in block RAM")
    kind = "SPRAM" if board is not None and board.memory.kind == "SPRAM" and plan.memory_bytes else "block RAM"
    return kind, plan.memory_bytes
