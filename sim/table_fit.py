"""Fits over numeric columns in simulation: the engine's Verilog, its library, and a fit after the other over one table's pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..hdl.modules import ModuleLibrary
from ..hdl.qr.table_engine import Engine
from ..hdl.shell.shell import Shell
from ..hdl.shell.verilog import to_verilog
from ..models.errors import HardwareError
from ..models.memory import Fixed
from ..models.qr.columns import Totals
from ..models.qr.table_engine import ANSWER, PAGES, TOTALS, Segment, TableEngine, pack_totals, register_map
from .analytics import Hung
from .native import Library, PortSpec, Session
from .native import build as build_native

__all__ = ["Fitted", "build", "engine", "generate", "ports", "simulate"]


@dataclass(frozen=True)
class Fitted:
    """What a run left: its answer's bytes, None after an error."""

    answer: NDArray[np.uint8] | None
    error: HardwareError | None
    cycles: int
    counters: Mapping[str, int]
    bytes_read: int
    bytes_written: int
    seconds: float


def engine(config: TableEngine, design: int = 0) -> tuple[Engine, ModuleLibrary]:
    """Return the engine, not elaborated yet, and the library that takes its modules."""
    library = ModuleLibrary()
    return Engine(config, library, design=design), library


def generate(config: TableEngine, design: int = 0) -> str:
    """Return the Verilog of the engine in its shell, top module `penstock`."""
    made, library = engine(config, design)
    return to_verilog(Shell(made, made.register_map), library=library)


def ports(config: TableEngine) -> tuple[PortSpec, ...]:
    """Return the memory ports of the engine's top."""
    return (PortSpec("m0_axi", config.bus_bytes, True, True),)


def build(config: TableEngine, verilog: str | None = None, design: int = 0, **options: Any) -> Library:
    """Compile an engine for simulation, from its Verilog if that is there already; `options` as `sim.native.build`."""
    return build_native(generate(config, design) if verilog is None else verilog, ports=ports(config), register_map=register_map(design), **options)


def simulate(config: TableEngine, library: Library, pages: NDArray[np.uint8], totals: Totals, segments: Sequence[Segment], *, memory: Fixed | None = None,
             limit: int = 1 << 40, watchdog: int = 1_000_000, stall_percent: int = 0, seed: int = 1, waves: str | Path | None = None) -> Fitted:
    """Make one fit: rows that come, rows that go, in segments whose addresses are from `PAGES` on.

    Raises Hung when the run is not over after `limit` cycles.
    """
    before, answer = pack_totals(totals, config), np.zeros(config.answer_words * config.bus_bytes, dtype=np.uint8)
    registers = {"totals": TOTALS, "answer": ANSWER}
    for name, segment in zip(("come", "go"), segments, strict=True):
        registers |= {f"{name}_{field}": getattr(segment, field) for field in ("address", "pages", "skip", "rows", "block")}
    with Session(library, memory, seed=seed) as session:
        if stall_percent:
            session.set_memory(memory or Fixed(), stall_percent=stall_percent, seed=seed)
        session.map(TOTALS, before, writable=False)
        session.map(ANSWER, answer)
        if pages.size:
            session.map(PAGES, np.ascontiguousarray(pages), writable=False)
        if waves is not None:
            session.trace(waves)
        begin = perf_counter()
        report = session.run(registers, limit=limit, watchdog=watchdog)
        seconds = perf_counter() - begin
        if not report.finished:
            raise Hung(report)
        statistics = session.statistics()
    return Fitted(answer if report.error is None else None, report.error, report.cycles, dict(report.counters), sum(s.bytes_read for s in statistics),
                  sum(s.bytes_written for s in statistics), seconds)
