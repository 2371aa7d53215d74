# amaranth: UnusedElaboratable=no
"""hdl.omap.walker alone: its operations are golden's, one for each entry, whether there is one or not."""

from __future__ import annotations

import pytest

from penstock.hdl.omap.walker import Walker
from penstock.models.omap.golden import Map
from penstock.models.omap.messages import Operation
from penstock.models.omap.session_stages import read_cycles
from testbench.omap import KEYS, config, requests
from testbench.pysim import simulate


def _content(shape, golden):
    """The position map as bytes."""
    text = bytearray(shape.buckets * shape.bucket_bytes)
    for number in range(shape.buckets):
        for slot, key in enumerate(golden.bucket(number)):
            at = number * shape.bucket_bytes + slot * shape.entry_bytes
            if key is not None:
                text[at : at + shape.key_bytes + 1] = (
                    key.to_bytes(shape.key_bytes, "little") + b"\1"
                )
    return bytes(text)


def _walk(shape, content, counts, pause):
    """Walk by runs of so many buckets; return their operations, and from each run's start the cycles until
    its entries are there and between its operations. `pause`: cycles in which the front takes none."""
    dut, size = Walker(shape), shape.bus_bytes
    told, times = [], []

    async def process(ctx):
        words, cycle = [], 0

        async def step():
            nonlocal cycle
            if ctx.get(dut.bus.arvalid):
                at, beats = ctx.get(dut.bus.araddr), ctx.get(dut.bus.arlen) + 1
                words.extend(content[at + k * size :][:size] for k in range(beats))
            elif words and ctx.get(dut.bus.rready):
                words.pop(0)
            assert not ctx.get(dut.error) and not ctx.get(dut.late)
            await ctx.tick()
            cycle += 1
            ctx.set(dut.bus.rvalid, bool(words))
            ctx.set(dut.bus.rdata, int.from_bytes(words[0], "little") if words else 0)

        ctx.set(dut.bus.arready, 1)
        ctx.set(dut.there, 1)
        for count in counts:
            begun, run = cycle, []
            ctx.set(dut.buckets, count)
            ctx.set(dut.start, 1)
            await step()
            ctx.set(dut.start, 0)
            while not ctx.get(dut.ready):
                await step()
            between = [cycle - begun]
            ctx.set(dut.begin, 1)
            left = ctx.get(dut.steps)
            await step()
            ctx.set(dut.begin, 0)
            ctx.set(dut.go, 1)
            waits = pause
            while len(run) < left:
                waits -= 1
                ctx.set(dut.o.ready, waits < 0)
                if ctx.get(dut.o.valid) and waits < 0:
                    run.append((ctx.get(dut.o.p.operation), ctx.get(dut.o.p.key)))
                    between.append(cycle - begun)
                    waits = pause
                await step()
                assert cycle - begun < 10_000
            ctx.set(dut.o.ready, 0)
            ctx.set(dut.go, 0)
            told.append(run)
            times.append(between)

    simulate(dut, process)
    return told, times


@pytest.mark.parametrize("key", ["u64", "text"])
@pytest.mark.parametrize("pause", [0, 8])
def test_each_entry_is_an_operation(key, pause):
    shape = config(key=key, buckets=8, bucket_slots=4, deadline=8)
    golden = Map(shape, KEYS)
    for request in requests(shape, 30, seed=pause + 3, keys=14, mix=(1, 5, 2)):
        golden.step(request)
    counts = [3, 1, 2, 7, 15, 1, 1]
    told, times = _walk(shape, _content(shape, golden), counts, pause)
    nothing, at = (0, 0), 0
    for count, run in zip(counts, told, strict=True):
        end = min(at + count, shape.buckets)
        keys = [key for number in range(at, end) for key in golden.bucket(number)]
        steps = [nothing if key is None else (Operation.GET, key) for key in keys]
        assert run == steps + [nothing] * (end == shape.buckets)
        at = end % shape.buckets
    assert any(nothing in run[:-1] for run in told) and any(run[0] != nothing for run in told)
    # nothing of it depends on what there is
    empty = _walk(shape, bytes(shape.buckets * shape.bucket_bytes), counts, pause)
    assert times == empty[1]
    for count, between in zip(counts[:3], times, strict=False):
        assert between[0] == 3 + read_cycles(shape, count)
