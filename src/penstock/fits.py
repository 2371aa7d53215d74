"""Designs of fit kernels: what `compile` gives for them, refits on any backend, a learned index's trainer."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.compiled import Compiled
from penstock.design import Run
from penstock.dsl.core.diagnostics import Span
from penstock.dsl.qr.kernel import FitGraph, FitKernel
from penstock.dsl.qr.plan import Load, lower
from penstock.host.workloads import Changes, Refits, Round
from penstock.models.errors import HardwareError
from penstock.models.memory import FixedLatency, parse_memory
from penstock.models.numerics.formats import Format, float32
from penstock.models.qr.config import FitPlan
from penstock.models.qr.cycles import Bound as Limits
from penstock.models.qr.cycles import bound, run
from penstock.models.qr.image import pack_memo
from penstock.models.qr.job import Bounds, Fit, Job, Label, Method
from penstock.models.qr.resources import estimate
from penstock.models.qr.shell import register_map
from penstock.models.resources import Resources
from penstock.models.shell import RegisterMap
from penstock.models.target import TARGETS, Target
from penstock.output import as_json, write_folder
from penstock.targets import timing_of

if TYPE_CHECKING:
    from penstock.host.device import Device
    from penstock.sim.native import PortSpec
    from penstock.sim.qr import Simulated

__all__ = ["FIT_BACKENDS", "FIT_FILES", "FitDesign", "compile_fit", "graph_from", "graph_json", "load_fit"]

FIT_BACKENDS = ("golden", "model", "pysim", "rtl", "netlist", "board")
FIT_FILES = ("penstock.v", "manifest.json")


@dataclass(frozen=True)
class FitDesign(Compiled):
    """A compiled fit kernel: what is fitted, the engine, and its Verilog (made when first asked for)."""

    graph: FitGraph
    config: FitPlan
    part: str
    memory: FixedLatency
    given_verilog: str | None = field(default=None, repr=False, compare=False)

    @cached_property
    def digest(self) -> str:
        said = {"engine": "qr", "kernel": self.graph.name, "target": self.part, "config": self.config.to_json()}
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    @property
    def target(self) -> Target:
        return TARGETS[self.part]

    @property
    def format(self) -> Format:
        return float32

    @property
    def registers(self) -> RegisterMap:
        return register_map(self.identity)

    @property
    def bus_ports(self) -> tuple[PortSpec, ...]:
        from penstock.sim.qr import ports
        return ports(self.config)

    def resources_on(self, part: Target) -> Resources:
        return estimate(self.config, part)

    def hardware(self) -> tuple[Any, Any]:
        from penstock.sim.qr import engine
        return engine(self.config, self.identity)

    def trainer(self, backend: str = "golden", *, device: Device | None = None, **options: Any) -> Any:
        """Return a `host.learned_index.Trainer` whose fits this engine makes; `options` are the trainer's.

        With "model" the trainer's `backend` is a `host.learned_index.engine.Timed`, which counts cycles, with "rtl" an `EngineBackend`, to be closed by the
        caller, with "board" one on `device`, which `penstock.open` gives.

        Raises ValueError for another backend, for a `device` that does not go with it, and for method "givens" with target slot, whose tombstones would keep
        their slots: an index has no such engine. Raises DeviceError where the device runs another design.
        """
        from penstock.host.learned_index import Trainer
        if backend not in ("golden", "model", "rtl", "board"):
            raise ValueError(f"backend must be one of golden, model, rtl, board, not {backend!r}")
        if (backend == "board") != (device is not None):
            raise ValueError("backend board takes the device that it runs on, no other one does")
        if backend == "golden":
            return Trainer(self.config, **options)
        from penstock.host.learned_index.engine import EngineBackend, Timed
        if backend == "model":
            return Trainer(self.config, Timed(self.config, self.memory), **options)
        own = {"device": self.runs_on(device)} if device is not None else {"memory": self.memory, "library": self.library()}
        return Trainer(self.config, EngineBackend(self.config, **own), **options)

    def describe(self) -> dict[str, Any]:
        graph = self.graph
        config = self.config.to_json() | {"window": self.config.n_max - 1, "incremental": graph.incremental, "memory": str(self.memory),
                                          "clock_mhz": self.target.clock_mhz}
        return {"engine": "qr", "kernel": graph.name, "target": self.part, "format": "float32", "digest": self.digest, "config": config}

    # runs

    def refits(self, rows: int | None = None, keys: Iterable[bytes] | None = None, *, changes: Changes | None = None, seed: int = 1) -> Refits:
        """Return refits to run: of random keys, `rows` at first (1,000 a group unless given), or of given keys in the order of their arrival. Raises
        ValueError where they are too few, and where rows and keys are given."""
        changes = changes or Changes()
        if keys is not None:
            if rows is not None:
                raise ValueError("rows is for random keys: leave it or keys out")
            return Refits.of_keys(list(keys), self.config.n_max, changes, seed)
        if rows is not None and rows < 1:
            raise ValueError(f"rows must be at least 1, not {rows}")
        return Refits.random(1000 * changes.groups if rows is None else rows, self.config.n_max, changes, seed)

    def run(self, refits: Refits | None = None, backend: str = "golden", *, memory: FixedLatency | str | None = None, **options: Any) -> Run:
        """Fit groups of keys, then refit them round by round; each round is one start of the engine.

        Parameters: `backend`: "golden" (results), "model" (cycles), "rtl" (both, simulated), "netlist" (both, of what synthesis makes of it), "board" (both,
        on a device, in simulation without `device=`), or "pysim" (as rtl, in Amaranth's simulator: slow, no tools);
        `memory`: the port's timing, the design's own by default.

        Raises ValueError for an unknown backend.
        """
        if backend not in FIT_BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(FIT_BACKENDS)}, not {backend!r}")
        begin = perf_counter()
        rounds = (refits or self.refits()).play(self.config)
        seconds = perf_counter() - begin
        if backend == "golden":
            return self.golden(rounds, seconds)
        timing = self.memory if memory is None else timing_of(memory, self.target)
        return self.predict(rounds, timing) if backend == "model" else self.simulate(rounds, timing, backend, **options)

    def golden(self, rounds: Sequence[Round], seconds: float = 0.0) -> Run:
        """Return what the golden model made of the rounds."""
        return self._run("golden", [fit for step in rounds for fit in step.fits], rounds, seconds=seconds)

    def predict(self, rounds: Sequence[Round], memory: FixedLatency | None = None) -> Run:
        """Return the cycles of the rounds, and their bound, by the cycle model."""
        timing, begin = memory or self.memory, perf_counter()
        total = read = written = 0
        training, least = 0, np.zeros(5, dtype=np.int64)
        for step in rounds:
            took = run(self.config, step.works, timing)
            limits = bound(self.config, step.works, timing)
            total, read, written = total + took.total, read + took.words_read, written + took.words_written
            training = training or took.total
            least += [limits.memory, limits.sums, limits.solver, limits.dot, limits.recurrence]
        bus = self.config.bus_bytes
        counters = self._counters(rounds) | {"training_cycles": training}
        return Run("model", None, None, total, counters, bound=Limits(*least.tolist()), seconds=perf_counter() - begin,
                   bytes_read=read * bus, bytes_written=written * bus)

    def simulated_board(self, rounds: Sequence[Round]) -> Device:
        """Return the whole device in simulation, connected, with as much block RAM as the largest of these rounds takes."""
        from penstock.host.device import memory_for
        return self.device_in_simulation(max(memory_for(step.jobs, self.config) for step in rounds))

    def _start(
        self, rounds: Sequence[Round], memory: FixedLatency, backend: str, options: dict[str, Any], stack: ExitStack
    ) -> Callable[[Sequence[Job]], Simulated]:
        """Return what runs the jobs of one start; what it needs for that is open as long as `stack` is."""
        if backend == "pysim":
            from penstock.sim.qr_python import Simulation
            return Simulation(self.config, memory).run
        if backend == "board":
            from penstock.host.device import refit
            device = options.pop("device", None) or stack.enter_context(self.simulated_board(rounds))
            return lambda jobs: refit(self.runs_on(device), self.config, jobs, **options)
        from penstock.sim.qr import simulate
        library = self.library() if backend == "rtl" else self.netlist_library(options.pop("family", None))
        return lambda jobs: simulate(self.config, library, jobs, memory=memory, **options)

    def simulate(self, rounds: Sequence[Round], memory: FixedLatency | None = None, backend: str = "rtl", **options: Any) -> Run:
        """Return what the hardware made of the rounds, and its cycles; `options`: for "rtl" and "netlist" (`family=`) as of `sim.qr.simulate`, for "board"
        as of `host.device.refit`, `device=` one from `penstock.open` (without it the whole device in simulation). Raises as `library`, `netlist`."""
        with ExitStack() as stack:
            return self._simulate(self._start(rounds, memory or self.memory, backend, options, stack), rounds, backend)

    def _simulate(self, start: Callable[[Sequence[Job]], Simulated], rounds: Sequence[Round], backend: str) -> Run:
        fits: list[Fit] = []
        cycles = read = written = 0
        seconds, counters = 0.0, Counter[str]()
        for step in rounds:
            made = start(step.jobs)
            cycles, read, written, seconds = cycles + made.cycles, read + made.bytes_read, written + made.bytes_written, seconds + made.seconds
            counters.update(made.counters)
            wrong = made.error or next((result for result in made.results if isinstance(result, HardwareError)), None)
            if wrong is not None:
                return Run(backend, None, None, cycles, counters, (wrong,), seconds=seconds)
            fits += [result for result in made.results if isinstance(result, Fit)]
        return self._run(backend, fits, rounds, cycles=cycles, seconds=seconds, read=read or None, written=written or None, counters=counters)

    def _counters(self, rounds: Sequence[Round]) -> dict[str, int]:
        works = [work for step in rounds for work in step.works]
        again = [work for step in rounds[1:] for work in step.works]
        return {"groups": len(rounds[0].jobs), "jobs": len(works), "refits": len(again), "from_memo": sum(not work.size.full for work in again),
                "passes": sum(work.rescanned for work in again), "rows": sum(len(job.rows) for job in rounds[-1].jobs),
                "changes": sum(work.size.records for work in again)}

    def _run(self, backend: str, fits: Sequence[Fit], rounds: Sequence[Round], *, cycles: int | None = None, seconds: float = 0.0, read: int | None = None,
             written: int | None = None, counters: Mapping[str, int] | None = None) -> Run:
        n, last = self.config.n_max, fits[-len(rounds[-1].jobs):]
        codes = {"weights": _padded([fit.weights for fit in fits], n), "mask": _padded([fit.mask.astype(np.int64) for fit in fits], n),
                 "bounds": np.array([[fit.err_min, fit.err_max, fit.rescanned] for fit in fits], dtype=np.int64),
                 "memos": np.frombuffer(b"".join(pack_memo(fit.memo, self.config) for fit in fits), dtype=np.uint8).astype(np.int64)}
        result = {"weights": np.asarray(float32.decode(_padded([fit.weights for fit in last], n)), dtype=np.float64),
                  "low": np.array([fit.err_min for fit in last], dtype=np.float64), "high": np.array([fit.err_max for fit in last], dtype=np.float64)}
        return Run(backend, result, codes, cycles, {**(counters or {}), **self._counters(rounds)}, seconds=seconds, bytes_read=read, bytes_written=written)

    def save(self, folder: str | Path) -> Path:
        """Write `penstock.v` and `manifest.json` into `folder`; return it. The folder appears whole or not at all."""
        said = self.manifest() | {"resources": {**asdict(self.resources), "source": "estimate"}}
        return write_folder(folder, {"penstock.v": self.verilog.encode(), "manifest.json": as_json(said)})

    def manifest(self) -> dict[str, Any]:
        return {"penstock": 1, "engine": "qr", "digest": self.digest, "kernel": self.graph.name, "target": self.part, "config": self.config.to_json(),
                "memory": str(self.memory), "register_map": self.registers.to_json(), "fit": graph_json(self.graph)}


def _padded(rows: Sequence[np.ndarray], width: int) -> np.ndarray:
    out = np.zeros((len(rows), width), dtype=np.int64)
    for number, row in enumerate(rows):
        out[number, :len(row)] = row
    return out


def graph_json(graph: FitGraph) -> dict[str, Any]:
    """Return a graph as plain data."""
    return {"name": graph.name, "features": graph.features, "label": graph.label, "columns": graph.columns, "target": graph.target and graph.target.value,
            "method": graph.method.value, "incremental": graph.incremental, "bounds": graph.bounds.value, "span": graph.span.to_json(), "source": graph.source}


def graph_from(said: Mapping[str, Any]) -> FitGraph:
    """Return the graph of `graph_json`."""
    return FitGraph(**{**said, "target": said["target"] and Label(said["target"]), "method": Method(said["method"]), "bounds": Bounds(said["bounds"]),
                       "span": Span(**said["span"])})


def load_fit(manifest: Mapping[str, Any], verilog: str) -> FitDesign:
    """Return the design that `FitDesign.save` wrote, from its files' contents."""
    graph = graph_from(manifest["fit"])
    return FitDesign(graph, FitPlan.from_json(manifest["config"]), manifest["target"], parse_memory(manifest["memory"]), verilog)


def compile_fit(kernel: FitKernel, part: Target, *, memory: str | FixedLatency | None = None, load: Load | None = None) -> FitDesign:
    """Compile a fit kernel over keys for a part; `load`: the refits that the engine is made for. Raises KernelError.

    Where the memory is on the part and no timing is given, the planner chooses the width of the memory port.
    """
    graph = kernel.trace()
    given = None if memory is None and part.shared else timing_of(part.memory if memory is None else memory, part)
    config = lower(graph, part, memory=given, load=load)
    return FitDesign(graph, config, part.name, given or FixedLatency(part.latency, config.bus_bytes))
