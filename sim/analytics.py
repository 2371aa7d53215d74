"""The analytics engine in simulation: from a plan to the engine, and to a run on real pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..hdl.analytics.engine import AnalyticsEngine
from ..hdl.modules import ModuleLibrary
from ..models.analytics.config import AnalyticsPlan
from ..models.analytics.job import port_pages
from ..models.analytics.shell import images, unpack_result
from ..models.numerics.formats import Codes
from .native import Ended, Image, Library, PortSpec, run_on_images

__all__ = ["Simulated", "engine", "ports", "simulate"]

#: where things lie in the simulated memory; each port's pages have a window of their own
BOOT, RESULT, PAGES = 0x0100_0000, 0x0200_0000, 0x1_0000_0000
WINDOW = 0x1_0000_0000


def places(plan: AnalyticsPlan) -> tuple[int, int, int, int]:
    """Return the addresses of boot image, result and first page, and the distance between the pages of two ports; a lean plan's addresses are short, or
    even have to lie in a memory of a given size."""
    if plan.memory_bytes:
        return 0, plan.memory_bytes // 4, plan.memory_bytes // 2, plan.memory_bytes // 2 // plan.ports
    return (0x10_0000, 0x20_0000, 0x40_0000, 0x20_0000) if plan.lean else (BOOT, RESULT, PAGES, WINDOW)


@dataclass(frozen=True)
class Simulated(Ended):
    """What a run gave. `models`: codes by name, None after an error."""

    models: dict[str, Codes] | None


def engine(plan: AnalyticsPlan, design: int = 0) -> tuple[AnalyticsEngine, ModuleLibrary]:
    """Return the plan's engine, not elaborated yet, and the library that takes its modules."""
    library = ModuleLibrary()
    return AnalyticsEngine(plan, plan.port, library, design=design), library


def ports(plan: AnalyticsPlan) -> tuple[PortSpec, ...]:
    """Return the memory ports of the plan's top."""
    return tuple(PortSpec(f"m{q}_axi", plan.bus_bytes, True, q == 0) for q in range(plan.ports))


def simulate(plan: AnalyticsPlan, library: Library, pages: np.ndarray, runs: Sequence[Codes], models: Mapping[str, Codes], *, epochs: int | None = None,
             **options: Any) -> Simulated:
    """Run the design on heap pages (pages, page_size) and return what came out; `options` as `sim.native.run_on_images`. Raises Hung as that."""
    image = images(plan, runs, models)
    result = np.zeros(max(image.result_bytes, 1), dtype=np.uint8)
    boot, results, first, window = places(plan)
    registers = {"boot_address": boot, "result_address": results, "epochs": epochs or plan.epochs}
    memory = [Image(boot, image.boot), Image(results, result, writable=True)]
    for q, part in enumerate(port_pages(plan, pages)):
        registers |= {f"page_address{q}": first + q * window, f"pages{q}": len(part)}
        memory.append(Image(first + q * window, part))
    ended = run_on_images(library, memory, registers, **options)
    return Simulated(**vars(ended), models=unpack_result(plan, result) if ended.error is None else None)
