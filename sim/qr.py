"""The qr engine in simulation: from a configuration to Verilog, to a library, to runs of jobs on memory images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..hdl.modules import ModuleLibrary
from ..hdl.qr.engine import FitEngine
from ..models.errors import ErrorCode, HardwareError
from ..models.qr.config import FitPlan
from ..models.qr.image import Placed, place_jobs, unpack_result
from ..models.qr.job import Fit, Job
from ..models.qr.shell import register_map
from .native import Ended, Image, Library, PortSpec, run_on_images
from .native import build as build_native
from .shelled import verilog as shelled

__all__ = ["Simulated", "build", "engine", "generate", "ports", "simulate", "unpack_results"]


@dataclass(frozen=True)
class Simulated(Ended):
    """What a run gave: of each job a fit, or what was wrong with it; none where it ended early. `memory`: all of it afterwards, where it was at hand."""

    results: list[Fit | HardwareError]
    memory: NDArray[np.uint8] | None = None


def engine(config: FitPlan, design: int = 0) -> tuple[FitEngine, ModuleLibrary]:
    """Return the engine, not elaborated yet, and the library that takes its modules. Raises ValueError where there is no hardware for it."""
    library = ModuleLibrary()
    return FitEngine(config, library, design=design), library


def generate(config: FitPlan, design: int = 0) -> str:
    """Return the Verilog of the engine in its shell, top module `penstock`."""
    return shelled(*engine(config, design))


def unpack_results(jobs: Sequence[Job], image: Placed, config: FitPlan, read: Callable[[int, int], bytes]) -> list[Fit | HardwareError]:
    """Return of each job the fit that it left in memory, or what was wrong with it; `read`: gives the bytes at an address."""
    results: list[Fit | HardwareError] = []
    for number, (job, place, size) in enumerate(zip(jobs, image.places, image.sizes, strict=True)):
        found = unpack_result(read(place.result, size), job.window.columns, config)
        results.append(HardwareError(found, number) if isinstance(found, ErrorCode) else found)
    return results


def ports(config: FitPlan) -> tuple[PortSpec, ...]:
    """Return the memory ports of the engine's top."""
    return (PortSpec("m0_axi", config.bus_bytes, True, True),)


def build(config: FitPlan, verilog: str | None = None, design: int = 0, **options: Any) -> Library:
    """Compile an engine for simulation, from its Verilog if that is there already; `options` as `sim.native.build`."""
    return build_native(generate(config, design) if verilog is None else verilog, ports=ports(config), register_map=register_map(design), **options)


def simulate(config: FitPlan, library: Library, jobs: Sequence[Job], *, placed: Placed | None = None, **options: Any) -> Simulated:
    """Run jobs on the engine.

    Parameters
    ----------
    config, library
        The engine, and what `build` made of it.
    jobs
        In the order of the ring; a group's next job needs the memo of this one, so it belongs to another run.
    placed
        Memory as the engine finds it, if not `models.qr.image.place_jobs` of the jobs.
    options
        As `sim.native.run_on_images`.

    Raises
    ------
    Hung
        As `run_on_images`.
    """
    image = place_jobs(jobs, config) if placed is None else placed
    content = image.memory.copy()
    ended = run_on_images(library, [Image(image.base, content, writable=True)], {"ring": image.base, "jobs": len(image.places)}, **options)
    found = unpack_results(jobs, image, config, lambda at, size: content[at - image.base:][:size].tobytes()) if ended.error is None else []
    return Simulated(**vars(ended), results=found, memory=content)
