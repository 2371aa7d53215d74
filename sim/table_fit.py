"""Fits over numeric columns in simulation: the engine's Verilog, its library, and a fit after the other over one table's pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..hdl.modules import ModuleLibrary
from ..hdl.qr.table_engine import TableFitEngine
from ..models.qr.columns import Totals
from ..models.qr.table_config import Segment, TableFitPlan, register_map
from ..models.qr.table_memory import SIMULATED, pack_totals, registers
from .native import Ended, Image, Library, PortSpec, run_on_images
from .native import build as build_native
from .shelled import verilog as shelled

__all__ = ["Fitted", "build", "engine", "generate", "ports", "simulate"]


@dataclass(frozen=True)
class Fitted(Ended):
    """What a run left: its answer's bytes, None after an error."""

    answer: NDArray[np.uint8] | None


def engine(config: TableFitPlan, design: int = 0) -> tuple[TableFitEngine, ModuleLibrary]:
    """Return the engine, not elaborated yet, and the library that takes its modules."""
    library = ModuleLibrary()
    return TableFitEngine(config, library, design=design), library


def generate(config: TableFitPlan, design: int = 0) -> str:
    """Return the Verilog of the engine in its shell, top module `penstock`."""
    return shelled(*engine(config, design))


def ports(config: TableFitPlan) -> tuple[PortSpec, ...]:
    """Return the memory ports of the engine's top."""
    return (PortSpec("m0_axi", config.bus_bytes, True, True),)


def build(config: TableFitPlan, verilog: str | None = None, design: int = 0, **options: Any) -> Library:
    """Compile an engine for simulation, from its Verilog if that is there already; `options` as `sim.native.build`."""
    return build_native(generate(config, design) if verilog is None else verilog, ports=ports(config), register_map=register_map(design), **options)


def simulate(config: TableFitPlan, library: Library, pages: NDArray[np.uint8], totals: Totals, segments: Sequence[Segment], **options: Any) -> Fitted:
    """Make one fit: rows that come, rows that go, in segments of the pages that lie at `SIMULATED.pages`; `options` as `sim.native.run_on_images`. Raises
    Hung as that."""
    (before, after), first = SIMULATED.answers, SIMULATED.pages
    answer = np.zeros(config.answer_words * config.bus_bytes, dtype=np.uint8)
    images = [Image(before, pack_totals(totals, config)), Image(after, answer, writable=True), Image(first, np.ascontiguousarray(pages))]
    ended = run_on_images(library, images, registers(before, after, segments), **options)
    return Fitted(**vars(ended), answer=answer if ended.error is None else None)
