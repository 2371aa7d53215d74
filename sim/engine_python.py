"""Any engine in Amaranth's own simulator: slow, but without any tool outside Python."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any

import numpy as np
from amaranth.sim import Simulator
from numpy.typing import NDArray

from ..models.errors import ErrorCode, HardwareError
from ..models.memory import FixedLatency
from .memory import AxiMemory
from .native import Ended

__all__ = ["EngineSimulation"]


class EngineSimulation:
    """One engine without its shell, elaborated once, which may run several times.

    Parameters
    ----------
    engine
        With one memory port, `m0`; its modules are submodules (`hdl.modules.Submodules`).
    memory
        Timing of the memory port.
    """

    def __init__(self, engine: Any, memory: FixedLatency | None = None) -> None:
        self._engine = engine
        self._port = AxiMemory(engine.m0, np.zeros(0, dtype=np.uint8), memory or FixedLatency())
        self._registers: Mapping[str, int] = {}
        self._limit, self._fresh = 0, True
        self._ended: tuple[int, HardwareError | None] | None = None
        self._simulator = Simulator(engine)
        self._simulator.add_clock(1e-6)
        for bench in (self._port.reads, self._port.writes):
            self._simulator.add_testbench(bench, background=True)
        self._simulator.add_testbench(self._bench)

    async def _bench(self, ctx: Any) -> None:
        engine = self._engine
        await ctx.tick().repeat(4)                              # the engine's own reset
        for name, value in self._registers.items():
            ctx.set(getattr(engine.registers, name), value)
        ctx.set(engine.start, 1)
        await ctx.tick()
        ctx.set(engine.start, 0)
        for cycle in range(1, self._limit):
            *_, done, error, report = await ctx.tick().sample(engine.done, engine.error, engine.report)
            if done or error:
                self._ended = cycle, HardwareError(ErrorCode(report.code), report.block, report.line) if error else None
                return

    def run(self, registers: Mapping[str, int], content: NDArray[np.uint8], *, limit: int = 1_000_000) -> Ended:
        """Run on a memory from address 0 on, which is changed; counters are left out. Raises RuntimeError where the run is not over after `limit` cycles."""
        port = self._port
        port.content, port.r, port.w = content, [], []
        self._registers, self._limit, self._ended = registers, limit, None
        if not self._fresh:
            self._simulator.reset()
        self._fresh = False
        begin = perf_counter()
        self._simulator.run()
        seconds = perf_counter() - begin
        if self._ended is None:
            raise RuntimeError(f"the run is not over after {limit} cycles")
        cycles, wrong = self._ended
        bus = port.bus.signature.data_bytes
        return Ended(wrong, cycles, {}, bus * len(port.r), bus * len(port.w), seconds)
