"""One run of an engine on images in memory: what the simulations of all engines do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...models.errors import HardwareError
from ...models.memory import FixedLatency
from .session import Library, RunReport, Session

__all__ = ["Ended", "Hung", "Image", "run_on_images"]


class Hung(Exception):
    """The run did not end; `report` says which stream waited for whom."""

    def __init__(self, report: RunReport):
        super().__init__(f"the run did not end: {report}")
        self.report = report


class Image(NamedTuple):
    """Bytes at an address; what the engine writes is in `content` afterwards."""

    address: int
    content: NDArray[np.uint8]
    writable: bool = False


@dataclass(frozen=True)
class Ended:
    """How a run went. `error`: what ended it early; `seconds`: wall time of the run alone."""

    error: HardwareError | None
    cycles: int
    counters: Mapping[str, int]
    bytes_read: int
    bytes_written: int
    seconds: float


def run_on_images(library: Library, images: Sequence[Image], registers: Mapping[str, int], *, memory: FixedLatency | None = None, limit: int = 1 << 40,
                  watchdog: int = 1_000_000, stall_percent: int = 0, seed: int = 1, waves: str | Path | None = None,
                  progress: Callable[[int], None] | None = None) -> Ended:
    """Run an engine once.

    Parameters
    ----------
    library
        The engine, compiled.
    images
        What is in memory; empty ones are left out.
    registers
        The engine's registers.
    memory
        Timing of the memory ports.
    stall_percent, seed
        How often the memory's channels stall, at random: results are the same, cycles are not those of the model.
    waves
        A file for the run's waves (the library must be built with `trace`).
    limit, watchdog, progress
        As of `Session.run`.

    Raises
    ------
    Hung
        The run is not over after `limit` cycles.
    """
    with Session(library, memory, seed=seed) as session:
        if stall_percent:
            session.set_memory(memory or FixedLatency(), stall_percent=stall_percent, seed=seed)
        for image in images:
            if image.content.size:
                session.map(image.address, image.content, writable=image.writable)
        if waves is not None:
            session.trace(waves)
        begin = perf_counter()
        report = session.run(dict(registers), limit=limit, watchdog=watchdog, progress=progress)
        seconds = perf_counter() - begin
        if not report.finished:
            raise Hung(report)
        statistics = session.statistics()
    return Ended(report.error, report.cycles, dict(report.counters), sum(s.bytes_read for s in statistics), sum(s.bytes_written for s in statistics), seconds)
