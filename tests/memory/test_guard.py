"""hdl/memory/guard.py behind a BurstWriter that is stopped in the middle of a burst: AXI's rules,
and rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import pytest
from amaranth.hdl import Module
from amaranth.lib.wiring import connect

from penstock.hdl.memory import AXI4, BurstWriter
from penstock.hdl.memory.guard import Guard
from testbench.pysim import simulate

STOP, CYCLES = 6, 200

#: when a memory is ready for W: of the cycle, and whether WVALID was high and not taken before it
MEMORIES: dict[str, Callable[[int, bool], bool]] = {
    "a cycle after WVALID": lambda cycle, waited: waited,
    "every second cycle": lambda cycle, waited: cycle % 2 == 1,
    "every third cycle": lambda cycle, waited: cycle % 3 == 0,
    "always": lambda cycle, waited: True,
}


@dataclass(frozen=True)
class Beat:
    data: int
    strobes: int
    last: int


def stopped(
    memory: str, beats: int, given: int
) -> tuple[list[tuple[int, Beat | None]], list[tuple[int, Beat]], bool]:
    """Write `beats` words of which `given` come, stop in cycle STOP.

    Returns what W showed in each cycle (None without WVALID), the transfers with their cycles, and
    whether the guard is at rest in the end.
    """
    m = Module()
    m.submodules.writer = writer = BurstWriter(bus_bytes=4, address_width=16, beats_width=8)
    m.submodules.guard = guard = Guard(AXI4(address_width=16, data_bytes=4, read=False))
    connect(m, writer.bus, guard.master)
    bus = guard.bus
    shown: list[tuple[int, Beat | None]] = []
    taken: list[tuple[int, Beat]] = []
    rest = []

    async def bench(ctx) -> None:
        ctx.set(writer.i.payload, {"address": 0, "beats": beats})
        ctx.set(writer.i.valid, 1)
        ctx.set(bus.awready, 1)
        word, waited = 0, False
        for cycle in range(CYCLES):
            ctx.set(guard.stop, cycle >= STOP)
            ctx.set(writer.i_data.valid, word < given)
            ctx.set(writer.i_data.payload, 0x100 + word)
            ctx.set(bus.wready, MEMORIES[memory](cycle, waited))
            valid, ready = ctx.get(bus.wvalid), ctx.get(bus.wready)
            beat = (
                Beat(ctx.get(bus.wdata), ctx.get(bus.wstrb), ctx.get(bus.wlast)) if valid else None
            )
            shown.append((cycle, beat))
            if beat and ready:
                taken.append((cycle, beat))
            waited = bool(beat and not ready)
            word += ctx.get(writer.i_data.valid & writer.i_data.ready)
            accepted = ctx.get(writer.i.ready)
            await ctx.tick()
            if accepted:
                ctx.set(writer.i.valid, 0)
            ctx.set(bus.bvalid, bool(beat and ready and beat.last))
        rest.append(bool(ctx.get(guard.idle)))

    simulate(m, bench)
    return shown, taken, rest[0]


@pytest.mark.parametrize("given", [0, 2, 100])
@pytest.mark.parametrize("beats", [3, 8])
@pytest.mark.parametrize("memory", MEMORIES)
def test_a_write_burst_is_ended_under_stop(memory, beats, given):
    shown, taken, rest = stopped(memory, beats, given)
    refused = [
        (before, after)
        for (_, before), (cycle, after) in pairwise(shown)
        if before and (cycle - 1, before) not in taken
    ]
    assert all(before == after for before, after in refused), (
        "what W offers stays until it is taken (ARM IHI 0022 A3.2.1)"
    )
    assert [beat.last for _, beat in taken] == [0] * (beats - 1) + [1]
    # what the manager had offered before `stop` passes whole; what begins later has no strobes
    begun = {
        cycle
        for (_, before), (cycle, after) in zip([(0, None), *shown], shown, strict=False)
        if after and not (before and (cycle - 1, before) not in taken)
    }
    first = {cycle: max(k for k in begun if k <= cycle) for cycle, _ in taken}
    assert all(not beat.strobes for cycle, beat in taken if first[cycle] >= STOP)
    assert rest
