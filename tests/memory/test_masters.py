"""hdl/memory/reader.py and writer.py against their twins in models/memory/bursts.py: data, bursts and cycles."""

from __future__ import annotations

import numpy as np
import pytest
from amaranth.hdl import Module, Signal

from penstock.hdl.memory import AXI4, BurstReader, BurstWriter, Prefetcher
from penstock.models import memory as twins
from penstock.models.memory import FixedLatency, Reader, Writer, split
from penstock.sim.memory.axi import AxiMemory
from penstock.sim.memory.modes import Mode
from testbench.pysim import simulate


def commands(rng, bus_bytes, count, longest):
    beats = rng.integers(1, longest, count)
    address = rng.integers(0, (1 << 16) // bus_bytes - longest, count) * bus_bytes
    return list(zip(address.tolist(), beats.tolist(), strict=True))


@pytest.mark.parametrize(
    ("seed", "stalls"), [(seed, stalls) for seed in range(6) for stalls in (False, True)]
)
def test_reader(seed, stalls):
    rng = np.random.default_rng([seed, stalls])
    bus_bytes = int(rng.choice([4, 8, 16, 64]))
    timing = FixedLatency(int(rng.integers(1, 40)), int(rng.choice([2, 8, 64])))
    depth = int(rng.integers(1, 6))
    content = rng.integers(0, 256, 1 << 16, dtype=np.uint8)
    work = commands(
        rng, bus_bytes, 12, int(rng.choice([3, 40, 400 // (1 + timing.interval(bus_bytes) // 4)]))
    )
    gaps = rng.integers(0, 30, len(work)).tolist()
    total = sum(beats for _, beats in work)
    hold = (
        rng.integers(0, 4, total) * rng.integers(0, 5, total) if stalls else np.zeros(total, int)
    ).tolist()

    dut = BurstReader(bus_bytes=bus_bytes, commands=depth)
    memory = AxiMemory(dut.bus, content, timing)
    accepted, taken, words, lasts = [], [], [], []

    async def give(ctx):
        cycle = 0
        for (address, beats), gap in zip(work, gaps, strict=True):
            for _ in range(gap):
                await ctx.tick()
                cycle += 1
            ctx.set(dut.i.payload, {"address": address, "beats": beats})
            ctx.set(dut.i.valid, 1)
            while True:
                _, _, ready = await ctx.tick().sample(dut.i.ready)
                cycle += 1
                if ready:
                    break
            accepted.append(cycle - 1)
            ctx.set(dut.i.valid, 0)

    async def take(ctx):
        cycle = 0
        for wait in hold:
            for _ in range(wait):
                await ctx.tick()
                cycle += 1
            ctx.set(dut.o.ready, 1)
            while True:
                _, _, valid, payload, error = await ctx.tick().sample(
                    dut.o.valid, dut.o.payload, dut.error
                )
                assert not error
                cycle += 1
                if valid:
                    break
            taken.append(cycle - 1)
            words.append(payload.data)
            lasts.append(payload.last)
            ctx.set(dut.o.ready, 0)
        await ctx.tick()
        assert ctx.get(dut.idle)

    simulate(dut, give, take, background=(memory.reads,))

    assert memory.bursts == [
        burst for address, beats in work for burst in split(address, beats, bus_bytes)
    ]
    bytes_read = b"".join(word.to_bytes(bus_bytes, "little") for word in words)
    assert bytes_read == b"".join(content[a : a + n * bus_bytes].tobytes() for a, n in work)
    assert lasts == [k == n - 1 for _, n in work for k in range(n)]

    # the twin, walked in the order in which its calls become possible
    model = Reader(timing, bus_bytes, depth)
    ends = np.cumsum([n for _, n in work]).tolist()
    model_accepted, model_taken = [], []
    free = 0
    for index in range(total):
        while len(model_accepted) < len(work) and (
            len(model_accepted) < depth or ends[len(model_accepted) - depth] <= index
        ):
            k = len(model_accepted)
            valid = (model_accepted[-1] + 1 if k else 0) + gaps[k]
            model_accepted.append(model.command(valid, *work[k]))
        model_taken.append(model.accept(free + hold[index]))
        free = model_taken[-1] + 1
    assert accepted == model_accepted
    assert taken == model_taken


@pytest.mark.parametrize(("seed", "pause"), [(0, 0), (1, 3), (2, 40), (3, 2)])
def test_prefetcher(seed, pause):
    """Its words come in the twin's cycles, and none waits on the bus, however long its consumer does."""
    rng = np.random.default_rng(seed)
    bus_bytes, beats = int(rng.choice([8, 32])), int(rng.integers(400, 700))
    timing = FixedLatency(int(rng.choice([1, 90])), int(rng.choice([4, 64])))
    content = rng.integers(0, 256, 1 << 15, dtype=np.uint8)
    address = int(rng.integers(0, 99)) * bus_bytes
    hold = rng.integers(0, pause + 1, beats) * (rng.random(beats) < 0.3)
    dut = Prefetcher(bus_bytes=bus_bytes)
    memory = AxiMemory(dut.bus, content, timing)
    words, taken, waited = [], [], []

    async def take(ctx):
        ctx.set(dut.i.payload, {"address": address, "beats": beats})
        ctx.set(dut.i.valid, 1)
        await ctx.tick()
        ctx.set(dut.i.valid, 0)
        cycle = 1
        for wait in hold.tolist():
            for _ in range(wait):
                await ctx.tick()
                cycle += 1
            ctx.set(dut.o.ready, 1)
            valid = False
            while not valid:
                _, _, valid, word, idle = await ctx.tick().sample(
                    dut.o.valid, dut.o.payload, dut.idle
                )
                assert not idle
                cycle += 1
            taken.append(cycle - 1)
            words.append(word)
            ctx.set(dut.o.ready, 0)
        await ctx.tick()
        assert ctx.get(dut.idle)

    async def watch(ctx):
        async for _, _, valid, ready in ctx.tick().sample(dut.bus.rvalid, dut.bus.rready):
            waited.append(valid and not ready)

    simulate(dut, take, background=(memory.reads, watch))
    data = b"".join(word.to_bytes(bus_bytes, "little") for word in words)
    assert data == content[address : address + beats * bus_bytes].tobytes()
    model, free, cycles = twins.Prefetcher(timing, bus_bytes, 0, address, beats), 1, []
    for wait in hold.tolist():
        cycles.append(model.take(free + wait))
        free = cycles[-1] + 1
    assert taken == cycles
    assert waited and not any(waited)


@pytest.mark.parametrize("seed", range(10))
def test_writer(seed):
    rng = np.random.default_rng(seed)
    bus_bytes = int(rng.choice([4, 8, 16, 64]))
    timing = FixedLatency(int(rng.integers(1, 40)), int(rng.choice([2, 8, 64])))
    content = np.zeros(1 << 16, np.uint8)
    work = commands(rng, bus_bytes, 6, int(rng.choice([3, 40, 300])))
    gaps = rng.integers(0, 30, len(work)).tolist()
    total = sum(beats for _, beats in work)
    wait = (
        (rng.integers(0, 3, total) * rng.integers(0, 5, total)).tolist()
        if seed % 2
        else [0] * total
    )
    values = rng.integers(0, 256, (total, bus_bytes), dtype=np.uint8)

    dut = BurstWriter(bus_bytes=bus_bytes)
    memory = AxiMemory(dut.bus, content, timing)
    accepted, idle_at = [], []

    async def give(ctx):
        cycle = 0
        for (address, beats), gap in zip(work, gaps, strict=True):
            for _ in range(gap):
                await ctx.tick()
                cycle += 1
            ctx.set(dut.i.payload, {"address": address, "beats": beats})
            ctx.set(dut.i.valid, 1)
            while True:
                _, _, ready = await ctx.tick().sample(dut.i.ready)
                cycle += 1
                if ready:
                    break
            accepted.append(cycle - 1)
            ctx.set(dut.i.valid, 0)
        while not ctx.get(dut.idle):
            await ctx.tick()
            cycle += 1
        idle_at.append(cycle)

    async def send(ctx):
        for item, pause in zip(values, wait, strict=True):
            for _ in range(pause):
                await ctx.tick()
            ctx.set(dut.i_data.payload, int.from_bytes(item.tobytes(), "little"))
            ctx.set(dut.i_data.valid, 1)
            await ctx.tick().until(dut.i_data.ready)
            ctx.set(dut.i_data.valid, 0)

    simulate(dut, give, send, background=(memory.writes,))

    expect = np.zeros(1 << 16, np.uint8)
    model = Writer(timing, bus_bytes)
    cycles, beats_at, k, idle = [], [], 0, 0
    pauses = iter(wait)
    for (address, beats), gap in zip(work, gaps, strict=True):
        expect[address : address + beats * bus_bytes] = values[k : k + beats].ravel()
        k += beats
        valid = (cycles[-1] + 1 if cycles else 0) + gap
        cycle, taken, idle = model.write(
            valid, address, beats, lambda previous: previous + 1 + next(pauses)
        )
        cycles.append(cycle)
        beats_at += taken
    assert memory.w == beats_at
    assert accepted == cycles
    assert idle_at == [idle]
    assert np.array_equal(content, expect)


def test_words_before_their_address():
    """Legal: memory takes them at once and writes them where the address says that comes later."""
    bus = AXI4(data_bytes=8).create()
    content = np.zeros(4096, np.uint8)
    memory = AxiMemory(bus, content, FixedLatency(5, 8))
    words = np.random.default_rng(1).integers(0, 1 << 63, 5).tolist()

    async def manager(ctx):
        ctx.set(bus.bready, 1)
        ctx.set(bus.wstrb, 255)
        for k, word in enumerate(words):
            for name, value in (("wdata", word), ("wlast", k in (2, 4)), ("wvalid", 1)):
                ctx.set(getattr(bus, name), value)
            await ctx.tick()
        ctx.set(bus.wvalid, 0)
        for address, beats in ((64, 3), (512, 2)):
            for name, value in (("addr", address), ("len", beats - 1), ("size", 3), ("burst", 1)):
                ctx.set(getattr(bus, f"aw{name}"), value)
            ctx.set(bus.awvalid, 1)
            await ctx.tick()
        ctx.set(bus.awvalid, 0)
        await ctx.tick().repeat(12)

    module = Module()
    module.d.sync += Signal().eq(0)
    simulate(module, manager, background=(memory.writes,))
    expected = np.zeros(512, np.uint64)
    expected[[8, 9, 10, 64, 65]] = words
    assert np.array_equal(content.view(np.uint64), expected)
    assert (memory.w, memory.aw, memory.b) == ([0, 1, 2, 3, 4], [5, 6], [10, 11])


@pytest.mark.parametrize("mode", [*Mode, Mode.DATA_FIRST | Mode.VISIBLE_AT_B | Mode.LATE])
def test_modes(mode):
    """What AXI4 allows memory beside its timing changes no bytes."""
    rng = np.random.default_rng(mode.value)
    content = rng.integers(0, 256, 1 << 14, dtype=np.uint8)
    before = content.copy()
    reader, writer = BurstReader(bus_bytes=8), BurstWriter(bus_bytes=8)
    module = Module()
    module.submodules.reader, module.submodules.writer = reader, writer
    ports = [AxiMemory(part.bus, content, FixedLatency(5, 8), mode, 3) for part in (reader, writer)]
    words = rng.integers(0, 1 << 63, 300).tolist()
    read, answered = [], []

    async def write(ctx):
        await give(ctx, writer.i, [{"address": 4000, "beats": len(words)}])
        await give(ctx, writer.i_data, words)
        while not ctx.get(writer.idle):
            answered.append(bool((content[6360:6400] == before[6360:6400]).all()))
            await ctx.tick()

    async def take(ctx):
        await give(ctx, reader.i, [{"address": 8192, "beats": 300}])
        ctx.set(reader.o.ready, 1)
        while len(read) < 300:
            _, _, valid, payload = await ctx.tick().sample(reader.o.valid, reader.o.payload)
            if valid:
                read.append(payload.data)

    async def give(ctx, stream, items):
        for item in items:
            ctx.set(stream.payload, item)
            ctx.set(stream.valid, 1)
            while not (await ctx.tick().sample(stream.ready))[2]:
                pass
        ctx.set(stream.valid, 0)

    simulate(module, write, take, background=(ports[0].reads, ports[1].writes))
    assert np.array_equal(content[4000:6400].view(np.uint64), words)
    assert np.array_equal(content[8192:10592].view(np.uint64), read)
    content[4000:6400] = before[4000:6400]
    assert np.array_equal(content, before)
    # the last burst's words, until its answer
    assert all(answered[:-2]) if Mode.VISIBLE_AT_B in mode else not all(answered)
