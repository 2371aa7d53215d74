"""The qr engine in simulation: from a configuration to Verilog, to a library, to runs of jobs on memory images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..hdl.modules import ModuleLibrary
from ..hdl.qr.engine import Engine
from ..hdl.shell.shell import Shell
from ..hdl.shell.verilog import to_verilog
from ..models.errors import ErrorCode, HardwareError
from ..models.memory import Fixed
from ..models.qr.config import Config
from ..models.qr.image import Placed, place_jobs, unpack_result
from ..models.qr.job import Fit, Job
from ..models.qr.shell import register_map
from .native import Library, PortSpec, RunReport, Session
from .native import build as build_native

__all__ = ["Hung", "Simulated", "build", "engine", "generate", "ports", "simulate", "unpack_results"]


class Hung(Exception):
    """The run did not end; `report` says which stream waited for whom."""

    def __init__(self, report: RunReport):
        super().__init__(f"the run did not end: {report}")
        self.report = report


@dataclass(frozen=True)
class Simulated:
    """What a simulated run gave: of each job a fit, or what was wrong with it. `memory`: all of it afterwards; `seconds`: wall time of the simulation alone.

    `error`: what ended the run before its jobs were through (then `results` is empty).
    """

    results: list[Fit | HardwareError]
    error: HardwareError | None
    cycles: int
    counters: Mapping[str, int]
    bytes_read: int
    bytes_written: int
    memory: NDArray[np.uint8]
    seconds: float


def engine(config: Config, design: int = 0) -> tuple[Engine, ModuleLibrary]:
    """Return the engine, not elaborated yet, and the library that takes its modules. Raises ValueError where there is no hardware for it."""
    library = ModuleLibrary()
    return Engine(config, library, design=design), library


def generate(config: Config, design: int = 0) -> str:
    """Return the Verilog of the engine in its shell, top module `penstock`."""
    made, library = engine(config, design)
    return to_verilog(Shell(made, made.register_map), library=library)


def unpack_results(jobs: Sequence[Job], image: Placed, config: Config, read: Callable[[int, int], bytes]) -> list[Fit | HardwareError]:
    """Return of each job the fit that it left in memory, or what was wrong with it; `read`: gives the bytes at an address."""
    results: list[Fit | HardwareError] = []
    for number, (job, place, size) in enumerate(zip(jobs, image.places, image.sizes, strict=True)):
        found = unpack_result(read(place.result, size), job.window.columns, config)
        results.append(HardwareError(found, number) if isinstance(found, ErrorCode) else found)
    return results


def ports(config: Config) -> tuple[PortSpec, ...]:
    """Return the memory ports of the engine's top."""
    return (PortSpec("m0_axi", config.bus_bytes, True, True),)


def build(config: Config, verilog: str | None = None, design: int = 0, **options: Any) -> Library:
    """Compile an engine for simulation, from its Verilog if that is there already; `options` as `sim.native.build`."""
    return build_native(generate(config, design) if verilog is None else verilog, ports=ports(config), register_map=register_map(design), **options)


def simulate(config: Config, library: Library, jobs: Sequence[Job], *, memory: Fixed | None = None, placed: Placed | None = None, limit: int = 1 << 40,
             watchdog: int = 1_000_000, stall_percent: int = 0, seed: int = 1, waves: str | Path | None = None,
             progress: Callable[[int], None] | None = None) -> Simulated:
    """Run jobs on the engine.

    Parameters
    ----------
    config, library
        The engine, and what `build` made of it.
    jobs
        In the order of the ring; a group's next job needs the memo of this one, so it belongs to another run.
    memory
        Timing of the memory port.
    placed
        Memory as the engine finds it, if not `models.qr.image.place_jobs` of the jobs.
    stall_percent, seed
        How often the memory's channels stall, at random: results are the same, cycles are not those of the model.
    limit, watchdog, waves, progress
        As of `sim.native.Session.run`.

    Raises
    ------
    Hung
        The run is not over after `limit` cycles.
    """
    image = place_jobs(jobs, config) if placed is None else placed
    content = image.memory.copy()
    with Session(library, memory, seed=seed) as session:
        if stall_percent:
            session.set_memory(memory or Fixed(), stall_percent=stall_percent, seed=seed)
        session.map(image.base, content)
        if waves is not None:
            session.trace(waves)
        begin = perf_counter()
        report = session.run({"ring": image.base, "jobs": len(image.places)}, limit=limit, watchdog=watchdog, progress=progress)
        seconds = perf_counter() - begin
        if not report.finished:
            raise Hung(report)
        statistics = session.statistics()
    found = unpack_results(jobs, image, config, lambda at, size: content[at - image.base:][:size].tobytes()) if report.error is None else []
    return Simulated(found, report.error, report.cycles, dict(report.counters), sum(s.bytes_read for s in statistics),
                     sum(s.bytes_written for s in statistics), content, seconds)
