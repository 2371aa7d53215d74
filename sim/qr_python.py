"""The qr engine in Amaranth's own simulator: slow, but without any tool outside Python. Whole workloads run on `sim.qr`."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
from amaranth.sim import Simulator

from ..hdl.modules import Submodules
from ..hdl.qr.engine import Engine
from ..models.errors import ErrorCode, HardwareError
from ..models.memory import Fixed
from ..models.qr.config import Config
from ..models.qr.image import place_jobs, unpack_result
from ..models.qr.job import Fit, Job
from .memory import AxiMemory
from .qr import Simulated

__all__ = ["Simulation"]


class Simulation:
    """One engine, elaborated once, which may run several times.

    Parameters
    ----------
    config
        The engine; ValueError where there is no hardware for it.
    memory
        Timing of the memory port.
    """

    def __init__(self, config: Config, memory: Fixed | None = None) -> None:
        self.config = config
        self._engine = Engine(config, Submodules())     # type: ignore[arg-type]
        self._port = AxiMemory(self._engine.m0, np.zeros(0, dtype=np.uint8), memory or Fixed())
        self._jobs, self._limit, self._fresh = 0, 0, True
        self._ended: tuple[int, HardwareError | None] | None = None
        self._simulator = Simulator(self._engine)
        self._simulator.add_clock(1e-6)
        for bench in (self._port.reads, self._port.writes):
            self._simulator.add_testbench(bench, background=True)
        self._simulator.add_testbench(self._bench)

    async def _bench(self, ctx: Any) -> None:
        engine = self._engine
        await ctx.tick().repeat(4)                              # the engine's own reset
        ctx.set(engine.registers.ring, 0)
        ctx.set(engine.registers.jobs, self._jobs)
        ctx.set(engine.start, 1)
        await ctx.tick()
        ctx.set(engine.start, 0)
        for cycle in range(1, self._limit):
            *_, done, error, report = await ctx.tick().sample(engine.done, engine.error, engine.report)
            if done or error:
                self._ended = cycle, HardwareError(ErrorCode(report.code), report.block, report.line) if error else None
                return

    def run(self, jobs: Sequence[Job], *, limit: int = 1_000_000) -> Simulated:
        """Run jobs, as `sim.qr.simulate` does; counters are left out. Raises RuntimeError where the run is not over after `limit` cycles."""
        image, port, config = place_jobs(jobs, self.config, base=0), self._port, self.config
        port.content = image.memory.copy()
        port.r, port.w = [], []
        self._jobs, self._limit, self._ended = len(jobs), limit, None
        if not self._fresh:
            self._simulator.reset()
        self._fresh = False
        begin = perf_counter()
        self._simulator.run()
        seconds = perf_counter() - begin
        if self._ended is None:
            raise RuntimeError(f"the run is not over after {limit} cycles")
        cycles, wrong = self._ended
        results: list[Fit | HardwareError] = []
        for number, (job, place) in enumerate(zip(jobs, image.places, strict=True) if wrong is None else ()):
            found = unpack_result(port.content[place.result:][:image.sizes[number]].tobytes(), job.window.columns, config)
            results.append(HardwareError(found, number) if isinstance(found, ErrorCode) else found)
        return Simulated(results, wrong, cycles, {}, config.bus_bytes * len(port.r), config.bus_bytes * len(port.w), port.content, seconds)
