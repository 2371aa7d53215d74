# amaranth: UnusedElaboratable=no
"""hdl/stream: order, level, latency and the stream rules under random backpressure."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from amaranth.lib import data

from penstock.hdl.stream import Buffer, Queue, Spare
from testbench.pysim import simulate

SHAPE = data.StructLayout({"value": 16, "last": 1})
WIDE = data.StructLayout(
    {"value": 16, "last": 1, "pad": 100}
)  # beyond what is kept in distributed RAM at depth 20


def parts():
    yield "buffer", lambda: Buffer(SHAPE), 2
    for depth in (1, 2, 3, 4, 7, 8):
        yield f"queue{depth}", lambda depth=depth: Queue(SHAPE, depth), depth
    yield "block", lambda: Queue(WIDE, 20), 20
    yield "plain", lambda: Queue(17, 5), 5


@pytest.mark.parametrize(
    ("make", "depth"), [pytest.param(make, depth, id=name) for name, make, depth in parts()]
)
@pytest.mark.parametrize("pace", [(1.0, 1.0), (0.9, 0.3), (0.3, 0.9), (0.5, 0.5)])
def test_backpressure(make, depth, pace):
    dut = make()
    rng = np.random.default_rng([depth, int(10 * pace[0])])
    count = 400
    held = deque()  # (value, cycle from which it must be offered)
    got = []

    async def bench(ctx):
        sent = 0
        offering = False
        for cycle in range(4000):
            if not offering and sent < count and rng.random() < pace[0]:
                offering = True
                value = (
                    {"value": sent * 77 & 0xFFFF, "last": sent & 1, "pad": sent << 60}
                    if dut.shape is WIDE
                    else {"value": sent * 77 & 0xFFFF, "last": sent & 1}
                    if dut.shape is SHAPE
                    else sent
                )
                ctx.set(dut.i.payload, value)
            ctx.set(dut.i.valid, offering)
            before = ctx.get(dut.o.valid)
            ctx.set(dut.o.ready, 1)
            assert ctx.get(dut.o.valid) == before, "o.valid depends on o.ready"
            ready_if_taken = ctx.get(dut.i.ready)
            ready = rng.random() < pace[1]
            ctx.set(dut.o.ready, ready)
            assert ctx.get(dut.i.ready) == ready_if_taken, "i.ready depends on o.ready"
            assert ctx.get(dut.o.valid) == bool(held)
            if isinstance(dut, Queue):
                assert ctx.get(dut.level) == len(held)
                assert ctx.get(dut.i.ready) == (len(held) < depth)
            if held:
                payload = ctx.get(dut.o.payload)
                number = payload if isinstance(payload, int) else (payload.value, payload.last)
                expect = (
                    held[0] if isinstance(payload, int) else (held[0] * 77 & 0xFFFF, held[0] & 1)
                )
                assert number == expect
                if dut.shape is WIDE:
                    assert payload.pad == held[0] << 60 & (1 << 100) - 1
                if ready:
                    got.append(held.popleft())
            if offering and ctx.get(dut.i.ready):
                held.append(sent)
                sent += 1
                offering = False
            await ctx.tick()
            if len(got) == count:
                if pace == (1.0, 1.0) and depth > 1:
                    assert cycle == count, "one item a cycle"
                return
        raise AssertionError("did not finish")

    simulate(dut, bench)
    assert got == list(range(count))


@pytest.mark.parametrize("pace", [(1.0, 1.0), (0.9, 0.3), (0.3, 0.9), (0.5, 0.5)])
def test_spare(pace):
    """An item is offered at once, and again until it is taken; `i.ready` says nothing of `o.ready`, and one item a cycle passes."""
    dut = Spare(SHAPE)
    rng = np.random.default_rng([7, int(10 * pace[0])])
    items = [(int(rng.integers(1 << 16)), k & 1) for k in range(400)]
    got: list[tuple[int, int]] = []

    async def bench(ctx):
        sent, offering = 0, False
        for cycle in range(4000):
            offering = offering or (sent < len(items) and rng.random() < pace[0])
            ctx.set(dut.i.valid, offering)
            if offering:
                ctx.set(dut.i.payload, {"value": items[sent][0], "last": items[sent][1]})
            waiting = sent > len(got)
            ready = rng.random() < pace[1]
            for value in (1 - ready, ready):
                ctx.set(dut.o.ready, value)
                assert ctx.get(dut.i.ready) == (not waiting)
                assert ctx.get(dut.o.valid) == (waiting or offering)
            if ready and (waiting or offering):
                payload = ctx.get(dut.o.payload)
                got.append((payload.value, payload.last))
            if offering and not waiting:
                sent, offering = sent + 1, False
            await ctx.tick()
            if len(got) == len(items):
                assert pace != (1.0, 1.0) or cycle == len(items) - 1
                return
        raise AssertionError("did not finish")

    simulate(dut, bench)
    assert got == items


def test_depth():
    with pytest.raises(ValueError, match=r"^depth must be an integer of at least 1, not 0$"):
        Queue(8, 0)
