"""The analytics engine in simulation: from a plan to Verilog, to a library, to a run on real pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ..hdl.analytics.engine import Engine
from ..hdl.modules import ModuleLibrary
from ..hdl.shell.shell import Shell
from ..hdl.shell.verilog import to_verilog
from ..models.analytics.config import Plan
from ..models.analytics.job import port_pages
from ..models.analytics.shell import images, register_map, unpack_result
from ..models.errors import HardwareError
from ..models.memory import Fixed
from ..models.numerics.formats import Codes
from .native import Library, PortSpec, RunReport, Session
from .native import build as build_native

__all__ = ["Hung", "Simulated", "build", "generate", "ports", "simulate"]

#: where things lie in the simulated memory; each port's pages have a window of their own
BOOT, RESULT, PAGES = 0x0100_0000, 0x0200_0000, 0x1_0000_0000
WINDOW = 0x1_0000_0000


def places(plan: Plan) -> tuple[int, int, int, int]:
    """Return the addresses of boot image, result and first page, and the distance between the pages of two ports; a lean plan's addresses are short, or
    even have to lie in a memory of a given size."""
    if plan.memory_bytes:
        return 0, plan.memory_bytes // 4, plan.memory_bytes // 2, plan.memory_bytes // 2 // plan.ports
    return (0x10_0000, 0x20_0000, 0x40_0000, 0x20_0000) if plan.lean else (BOOT, RESULT, PAGES, WINDOW)


class Hung(Exception):
    """The run did not end; `report` says which stream waited for whom."""

    def __init__(self, report: RunReport):
        super().__init__(f"the run did not end: {report}")
        self.report = report


@dataclass(frozen=True)
class Simulated:
    """What a simulated run gave. `models`: codes by name, None after an error; `seconds`: wall time of the simulation alone."""

    models: dict[str, Codes] | None
    error: HardwareError | None
    cycles: int
    counters: Mapping[str, int]
    bytes_read: int
    bytes_written: int
    seconds: float


def engine(plan: Plan, design: int = 0) -> tuple[Engine, ModuleLibrary]:
    """Return the plan's engine, not elaborated yet, and the library that takes its modules."""
    library = ModuleLibrary()
    return Engine(plan, plan.port, library, design=design), library


def generate(plan: Plan, design: int = 0) -> str:
    """Return the Verilog of the plan's engine in its shell, top module `penstock`."""
    made, library = engine(plan, design)
    return to_verilog(Shell(made, made.register_map), library=library)


def ports(plan: Plan) -> tuple[PortSpec, ...]:
    """Return the memory ports of the plan's top."""
    return tuple(PortSpec(f"m{q}_axi", plan.bus_bytes, True, q == 0) for q in range(plan.ports))


def build(plan: Plan, verilog: str, design: int = 0, **options: Any) -> Library:
    """Compile a design's Verilog for simulation; `options` as `sim.native.build`."""
    return build_native(verilog, ports=ports(plan), register_map=register_map(plan, design), **options)


def simulate(plan: Plan, library: Library, pages: np.ndarray, runs: Sequence[Codes], models: Mapping[str, Codes], *, memory: Fixed | None = None,
             epochs: int | None = None, limit: int = 1 << 40, watchdog: int = 1_000_000, stall_percent: int = 0, seed: int = 1,
             waves: str | Path | None = None, progress: Callable[[int], None] | None = None) -> Simulated:
    """Run the design on heap pages (pages, page_size) and return what came out.

    Parameters: `waves`: a file for the run's waves (the library must be built with `trace`); `progress`: called now and then with the cycles
    simulated so far.

    Raises Hung when the run is not over after `limit` cycles.
    """
    image = images(plan, runs, models)
    result = np.zeros(max(image.result_bytes, 1), dtype=np.uint8)
    boot, results, first, window = places(plan)
    registers = {"boot_address": boot, "result_address": results, "epochs": epochs or plan.epochs}
    with Session(library, memory, seed=seed) as session:
        if stall_percent:
            session.set_memory(memory or Fixed(), stall_percent=stall_percent, seed=seed)
        session.map(boot, image.boot, writable=False)
        session.map(results, result)
        for q, part in enumerate(port_pages(plan, pages)):
            registers |= {f"page_address{q}": first + q * window, f"pages{q}": len(part)}
            if part.size:
                session.map(first + q * window, part, writable=False)
        if waves is not None:
            session.trace(waves)
        begin = perf_counter()
        report = session.run(registers, limit=limit, watchdog=watchdog, progress=progress)
        seconds = perf_counter() - begin
        if not report.finished:
            raise Hung(report)
        statistics = session.statistics()
    return Simulated(unpack_result(plan, result) if report.error is None else None, report.error, report.cycles, dict(report.counters),
                     sum(s.bytes_read for s in statistics), sum(s.bytes_written for s in statistics), seconds)
