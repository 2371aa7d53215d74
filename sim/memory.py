"""Memory as a process of Amaranth's simulator: the twin of `models.memory.FixedLatency` for tests of single components.

Whole engines run on `sim.native`, which follows the same rules a thousand times faster.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from ..models.memory import FixedLatency

__all__ = ["AxiMemory"]


class AxiMemory:
    """Serves one AXI4 port of a component from a byte array.

    Parameters
    ----------
    bus
        The port, an interface of `hdl.memory.AXI4`.
    content
        Bytes from address 0 on; writes change them. Accesses beyond its end are answered with SLVERR.
    timing
        When things happen.

    Attributes
    ----------
    ar, r, aw, w, b
        Cycles of the transfers so far, counted from the start of the process.
    bursts
        (address, beats) of the read bursts so far.
    """

    def __init__(self, bus: Any, content: np.ndarray, timing: FixedLatency) -> None:
        self.bus = bus
        self.content = content
        self.timing = timing
        self.ar: list[int] = []
        self.r: list[int] = []
        self.aw: list[int] = []
        self.w: list[int] = []
        self.b: list[int] = []
        self.bursts: list[tuple[int, int]] = []

    def _check(self, address: int, length: int, size: int, burst: int) -> None:
        width = self.bus.signature.data_bytes
        assert 1 << size == width and burst == 1, "not an INCR burst of full bus words"
        assert address % width == 0, f"burst at {address:#x} is not aligned"
        assert address // 4096 == (address + length * width - 1) // 4096, f"burst at {address:#x} crosses a 4 KiB boundary"

    async def reads(self, ctx: Any) -> None:
        """The read channels, as a testbench (`simulator.add_testbench(memory.reads, background=True)`)."""
        bus, width = self.bus, self.bus.signature.data_bytes
        interval = self.timing.interval(width)
        queue: deque[list[int]] = deque()
        free = 0
        cycle = 0
        ctx.set(bus.arready, 1)
        async for _, _, arvalid, araddr, arlen, arsize, arburst, rvalid, rready in ctx.tick().sample(
                bus.arvalid, bus.araddr, bus.arlen, bus.arsize, bus.arburst, bus.rvalid, bus.rready):
            if arvalid:
                self._check(araddr, arlen + 1, arsize, arburst)
                self.ar.append(cycle)
                self.bursts.append((araddr, arlen + 1))
                queue.append([cycle + self.timing.latency, araddr, arlen + 1])
            if rvalid and rready:
                self.r.append(cycle)
                free = cycle + interval
                queue[0][1] += width
                queue[0][2] -= 1
                if not queue[0][2]:
                    queue.popleft()
            cycle += 1
            offered = bool(queue) and cycle >= max(queue[0][0], free)
            ctx.set(bus.rvalid, offered)
            if offered:
                address = queue[0][1]
                inside = address + width <= len(self.content)
                ctx.set(bus.rdata, int.from_bytes(self.content[address:address + width].tobytes(), "little") if inside else 0)
                ctx.set(bus.rresp, 0 if inside else 2)
                ctx.set(bus.rlast, queue[0][2] == 1)

    async def writes(self, ctx: Any) -> None:
        """The write channels, as a testbench."""
        bus, width = self.bus, self.bus.signature.data_bytes
        interval = self.timing.interval(width)
        addresses: deque[list[int]] = deque()
        responses: deque[list[int]] = deque()
        free = 0
        answer = 0
        cycle = 0
        ctx.set(bus.awready, 1)
        ctx.set(bus.wready, 1)
        watched = [getattr(bus, name) for name in ("awvalid", "awaddr", "awlen", "awsize", "awburst", "wvalid", "wready", "wdata",
                                                   "wstrb", "wlast", "bvalid", "bready")]
        async for _, _, *sampled in ctx.tick().sample(*watched):
            awvalid, awaddr, awlen, awsize, awburst, wvalid, wready, wdata, wstrb, wlast, bvalid, bready = sampled
            if awvalid:
                self._check(awaddr, awlen + 1, awsize, awburst)
                self.aw.append(cycle)
                addresses.append([awaddr, awlen + 1, 0])
            if wvalid and wready:
                self.w.append(cycle)
                free = cycle + interval
                burst = addresses[0]
                if burst[0] + width <= len(self.content):
                    for k in range(width):
                        if wstrb >> k & 1:
                            self.content[burst[0] + k] = wdata >> (8 * k) & 0xFF
                else:
                    burst[2] = 2
                burst[0] += width
                burst[1] -= 1
                assert wlast == (burst[1] == 0), "WLAST does not mark the burst's last beat"
                if wlast:
                    responses.append([cycle + self.timing.latency, burst[2]])
                    addresses.popleft()
            if bvalid and bready:
                self.b.append(cycle)
                answer = cycle + 1
                responses.popleft()
            cycle += 1
            ctx.set(bus.wready, cycle >= free)
            ctx.set(bus.bvalid, bool(responses) and cycle >= max(responses[0][0], answer))
            if responses:
                ctx.set(bus.bresp, responses[0][1])
