"""The qr engines in simulation: from a plan to a library or a machine, to runs of jobs, to one fit
over a table's pages. Memory is mapped byte for byte, so that no access beside it goes unseen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.designs.cache import generator, kept
from penstock.hdl.modules import ModuleLibrary
from penstock.hdl.qr.engine import FitEngine
from penstock.hdl.qr.table_engine import TableFitEngine
from penstock.hdl.shell.shell import Shell
from penstock.hdl.shell.verilog import to_verilog
from penstock.models.errors import HardwareCode, HardwareError
from penstock.models.memory import FixedLatency
from penstock.models.qr.columns import Solution, Totals
from penstock.models.qr.config import FitPlan
from penstock.models.qr.image import Placed, place_jobs, unpack_result
from penstock.models.qr.job import Fit, Job
from penstock.models.qr.resources import memories
from penstock.models.qr.shell import register_map, table_register_map
from penstock.models.qr.table_config import Places, Segment, TableFitPlan, pack_totals, registers
from penstock.sim.machine import Ended
from penstock.sim.native import Library, PortSpec
from penstock.sim.native import build as build_native
from penstock.sim.native.machine import NativeMachine
from testbench.memories import filled

__all__ = [
    "SIMULATED",
    "Fitted",
    "Simulated",
    "build",
    "fit_pages",
    "pack_answer",
    "ports",
    "simulate",
]

#: where things lie in a memory that has gaps
SIMULATED = Places((0x0100_0000, 0x0200_0000), 0x1_0000_0000)


@dataclass(frozen=True)
class Simulated(Ended):
    """What a run gave: of each job a fit, or what was wrong with it; none where it ended early.
    `memory`: all of it afterwards."""

    results: list[Fit | HardwareError]
    memory: NDArray[np.uint8]


@dataclass(frozen=True)
class Fitted(Ended):
    """What a run left: its answer's bytes, None after an error."""

    answer: NDArray[np.uint8] | None


def ports(plan: FitPlan | TableFitPlan) -> tuple[PortSpec, ...]:
    """Return the memory ports of the engine's top."""
    return (PortSpec("m0_axi", plan.bus_bytes, True, True),)


def build(plan: FitPlan | TableFitPlan, **options: Any) -> Library:
    """Compile a plan's engine for simulation; `options` as `sim.native.build`."""
    kind: Any
    kind, registers = (
        (FitEngine, register_map(plan))
        if isinstance(plan, FitPlan)
        else (TableFitEngine, table_register_map(plan))
    )

    def verilog() -> str:
        library = ModuleLibrary()
        return to_verilog(Shell(kind(plan, library), registers), library=library)

    text = kept(f"{plan!r} {generator('penstock.engines.qr')}", verilog)
    text = filled(text, memories(plan))
    return build_native(text, ports=ports(plan), register_map=registers, **options)


def _unpacked(
    plan: FitPlan, jobs: Sequence[Job], placed: Placed, memory: NDArray[np.uint8], ended: Ended
) -> Simulated:
    results: list[Fit | HardwareError] = []
    if ended.error is None:
        for number, (job, place, size) in enumerate(
            zip(jobs, placed.places, placed.sizes, strict=True)
        ):
            data = memory[place.result - placed.base :][:size].tobytes()
            fit = unpack_result(data, job.window.columns, plan)
            results.append(HardwareError(fit, number) if isinstance(fit, HardwareCode) else fit)
    return Simulated(**vars(ended), results=results, memory=memory)


def simulate(
    plan: FitPlan,
    library: Library,
    jobs: Sequence[Job],
    *,
    placed: Placed | None = None,
    memory: FixedLatency | None = None,
    limit: int | None = None,
    stall_percent: int = 0,
    seed: int = 1,
) -> Simulated:
    """Run jobs on the engine, in the order of the ring; a group's next job needs the memo of this
    one, so it belongs to another run. `placed`: memory as the engine finds it, if not `place_jobs`
    of the jobs. Raises Hung."""
    image = place_jobs(jobs, plan) if placed is None else placed
    content = image.memory.copy()
    start = {"ring": image.base, "jobs": len(image.places)}
    with NativeMachine(library, memory, stall_percent=stall_percent, seed=seed) as machine:
        machine.session.map(image.base, content)
        ended = machine.run(start, limit=limit)
    return _unpacked(plan, jobs, image, content, ended)


def fit_pages(
    plan: TableFitPlan,
    library: Library,
    pages: NDArray[np.uint8],
    totals: Totals,
    segments: Sequence[Segment],
    *,
    memory: FixedLatency | None = None,
    limit: int | None = None,
    stall_percent: int = 0,
    seed: int = 1,
) -> Fitted:
    """Make one fit: rows that come, rows that go, in segments of the pages that lie at
    `SIMULATED.pages`. Raises Hung."""
    (before, after), first = SIMULATED.answers, SIMULATED.pages
    answer = np.zeros(plan.answer_words * plan.bus_bytes, dtype=np.uint8)
    with NativeMachine(library, memory, stall_percent=stall_percent, seed=seed) as machine:
        machine.session.map(before, pack_totals(totals, plan), writable=False)
        machine.session.map(after, answer)
        machine.session.map(first, np.ascontiguousarray(pages), writable=False)
        ended = machine.run(registers(before, after, segments), limit=limit)
    return Fitted(**vars(ended), answer=answer if ended.error is None else None)


def pack_answer(totals: Totals, solution: Solution, plan: TableFitPlan) -> NDArray[np.uint8]:
    """Return the bytes that the hardware writes for these."""
    result = np.zeros((plan.answer_words - plan.totals_words) * plan.units, dtype="<u8")
    result[0] = sum(int(kept) << k for k, kept in enumerate(solution.mask))
    result[1:].view("<u4")[: plan.columns.n] = solution.weights
    return np.concatenate([pack_totals(totals, plan), result.view(np.uint8)])
