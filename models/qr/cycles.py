"""Exact cycles of a run of jobs (`machine`), and the least that such a run can take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..bound import Machine, Terms
from ..memory.timing import FixedLatency, Memory
from ..target import Target
from .config import FitPlan
from .job import Method
from .layout import Places, place
from .machine import Cycles, Run
from .schedule import ADD, DIV, MUL, dot_latency
from .work import Work

__all__ = ["Bound", "Cycles", "Work", "bound", "machine_bound", "run", "widest"]


def run(
    config: FitPlan,
    works: Sequence[Work],
    memory: Memory,
    places: Sequence[Places] | None = None,
    ring: int = 1 << 20,
) -> Cycles:
    """Return the cycles of the hardware from its start to its end, for jobs in this order that are all known at the start.

    The jobs lie at `places`, by default as `layout.place` puts them, with the ring of descriptors at `ring`. Raises ValueError where there is no hardware for
    `config` (`FitPlan.built`).
    """
    if not config.built:
        raise ValueError(f"there is no hardware for {config}")
    if places is None:
        places = place([work.size for work in works], config, ring)
    return Run(config, works, memory, places, ring).go()


@dataclass(frozen=True)
class Bound(Terms):
    """The bound of a run of such jobs."""

    memory: int
    sums: int
    solver: int
    dot: int
    recurrence: int


def bound(config: FitPlan, works: Sequence[Work], memory: Memory) -> Bound:
    """Return the bound of a run.

    memory: the least cycles in which the port moves its words. sums, dot: rows over rows a cycle. solver: multiplications over the lanes' multipliers.
    recurrence: the longest job's own chain with as many units as could be used: three memory latencies, its words, each column's pivot to the next one, both
    solves.
    """
    interval = memory.interval(config.bus_bytes)
    lanes = config.solvers * config.lanes
    read = sum(sum(work.read(config)) for work in works)
    written = sum(work.written(config) for work in works)
    chains = [_chain(config, work, memory) + interval * sum(work.read(config)) for work in works]
    solver = -(-sum(work.multiplications(config) for work in works) // lanes)
    sums = sum(work.sums_cycles(config) for work in works)
    dot = sum(work.dot_cycles(config) for work in works)
    return Bound(
        memory.least(read, written, config.bus_bytes), sums, solver, dot, max(chains, default=0)
    )


def _chain(config: FitPlan, work: Work, memory: Memory) -> int:
    """Return a job's way through memory and units without number, but for its words."""
    pivot = DIV + MUL + MUL + ADD
    if config.method is Method.GIVENS:
        pivot = (MUL + MUL + ADD + DIV + MUL + ADD) * (work.folded > 0)
    return (
        3 * memory.quickest + sum(work.keep) * (pivot + 2 * (MUL + ADD)) + dot_latency(config.n_max)
    )


def machine_bound(config: FitPlan, part: Target, works: Sequence[Work], memory: Memory) -> Machine:
    """Return what no engine for the fit on this part beats. Of `config` only the kernel's method and columns count.

    memory: the bytes of rows that come and go, all rows in a first fit. products: theirs with themselves in method `gram`. recurrence: the longest job's chain.
    """
    rows, n = 0, 0
    for work in works:
        size, n = work.size, work.size.columns
        rows += size.rows if size.full else size.inserted + size.removed
    triangle = n * (n + 1) // 2 * (config.method is Method.GRAM)
    wide, timing = widest(part, memory)
    return Machine.of(
        wide,
        timing,
        rows * (n - 1) // wide.bus_bytes,
        [(rows * triangle, [(8, 8, False)])],
        max((_chain(config, work, memory) for work in works), default=0),
    )


def widest(part: Target, memory: Memory) -> tuple[Target, Memory]:
    """Return a part and its memory as the widest port sees them: block RAM on the part is as wide as a plan likes, up to four times the target's port."""
    if not part.shared or not isinstance(memory, FixedLatency):
        return part, memory
    wide = replace(part, bus_bytes=min(4 * part.bus_bytes, 128))
    return wide, FixedLatency(memory.latency, wide.bus_bytes)
