"""hdl/memory/blockram.py, spram.py and arbiter.py: data, and the timing that models/memory/blockram.py states."""

from __future__ import annotations

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib.wiring import Out, connect
from amaranth.sim import Simulator

from penstock.hdl.memory import AXI4, Arbiter, BlockRam, BurstReader, BurstWriter, Spram
from penstock.models.memory import Reader, Writer, block_ram, spram

SIZE = 8192


class Bench:
    """`count` managers, each a reader and a writer, behind an arbiter on one memory."""

    def __init__(self, bus_bytes: int, count: int, kind: str = "block RAM") -> None:
        m = self.module = Module()
        port = AXI4(data_bytes=bus_bytes)
        m.submodules.memory = memory = (
            BlockRam(port, SIZE) if kind == "block RAM" else Spram(port, bus_bytes << 14)
        )
        m.submodules.arbiter = arbiter = Arbiter([port] * count)
        connect(m, arbiter.bus, memory.bus)
        self.readers, self.writers = [], []
        for k in range(count):
            reader, writer = BurstReader(bus_bytes=bus_bytes), BurstWriter(bus_bytes=bus_bytes)
            m.submodules[f"reader{k}"], m.submodules[f"writer{k}"] = reader, writer
            for name, member in port.members.items():
                inner = getattr(
                    reader.bus if name[0] == "r" or name[:2] == "ar" else writer.bus, name
                )
                outer = getattr(getattr(arbiter, f"m{k}"), name)
                m.d.comb += outer.eq(inner) if member.flow is Out else inner.eq(outer)
            self.readers.append(reader)
            self.writers.append(writer)

    def run(self, *benches) -> None:
        sim = Simulator(self.module)
        sim.add_clock(1e-6)
        for bench in benches:
            sim.add_testbench(bench)
        sim.run()


async def store(ctx, writer, bus_bytes, address, content, gaps=None):
    """Write; return (cycle of acceptance, cycles of beats, cycle in which it is idle) from now on."""
    words = [
        int.from_bytes(content[k : k + bus_bytes].tobytes(), "little")
        for k in range(0, len(content), bus_bytes)
    ]
    ctx.set(writer.i.payload, {"address": address, "beats": len(words)})
    ctx.set(writer.i.valid, 1)
    accepted, taken, cycle, given = -1, [], 0, 0
    wait = gaps[0] if gaps else 0
    while True:
        ctx.set(writer.i_data.valid, given < len(words) and wait == 0)
        ctx.set(writer.i_data.payload, words[min(given, len(words) - 1)])
        _, _, ready, moved, idle = await ctx.tick().sample(
            writer.i.ready, writer.i_data.valid & writer.i_data.ready, writer.idle
        )
        if accepted < 0 and ready:
            accepted = cycle
            ctx.set(writer.i.valid, 0)
        elif accepted >= 0 and idle and given == len(words):
            return accepted, taken, cycle
        wait = max(wait - 1, 0)
        if moved:
            taken.append(cycle)
            given += 1
            wait = gaps[given] if gaps and given < len(words) else 0
        cycle += 1


async def fetch(ctx, reader, commands, holds):
    """Give commands one after the other, take the beats with `holds` cycles before each; return their cycles and words."""
    taken, words, cycle, given, hold = [], [], 0, 0, list(holds)
    total = sum(beats for _, beats in commands)
    while len(taken) < total:
        ctx.set(reader.i.valid, given < len(commands))
        ctx.set(
            reader.i.payload,
            dict(zip(("address", "beats"), commands[min(given, len(commands) - 1)], strict=True)),
        )
        ctx.set(reader.o.ready, hold[len(taken)] == 0)
        _, _, ready, asked, valid, payload, error = await ctx.tick().sample(
            reader.i.ready,
            reader.i.valid,
            reader.o.valid & reader.o.ready,
            reader.o.payload,
            reader.error,
        )
        assert not error
        given += ready & asked
        hold[len(taken)] = max(hold[len(taken)] - 1, 0)
        if valid:
            taken.append(cycle)
            words.append(payload.data)
        cycle += 1
    ctx.set(reader.o.ready, 0)
    return taken, words


def model_reads(timing, bus_bytes, commands, holds):
    """The same by the twin."""
    model, taken, given, free = Reader(timing, bus_bytes), [], 0, 0
    ends = np.cumsum([n for _, n in commands]).tolist()
    accepted = -1
    for index, hold in enumerate(holds):
        while given < len(commands) and (
            given < model.commands or ends[given - model.commands] <= index
        ):
            accepted = model.command(accepted + 1, *commands[given])
            given += 1
        taken.append(model.accept(free + hold))
        free = taken[-1] + 1
    return taken


@pytest.mark.parametrize("kind", ["block RAM", "SPRAM"])
@pytest.mark.parametrize(
    "seed", [0, 1, 3, *(pytest.param(k, marks=pytest.mark.long) for k in (2, 4, 5))]
)
def test_timing_is_the_models(seed, kind):
    rng = np.random.default_rng(seed)
    bus_bytes = int(rng.choice([4, 8, 16]))
    timing = (block_ram if kind == "block RAM" else spram)(bus_bytes)
    bench = Bench(bus_bytes, 2, kind)  # the second manager is at rest
    content = rng.integers(0, 256, SIZE, dtype=np.uint8)
    first = int(rng.integers(0, 30)) * bus_bytes
    gaps = (rng.integers(0, 3, SIZE // bus_bytes) * (seed & 1)).tolist()
    longest = int(rng.choice([2, 20, 300]))
    commands = [
        (
            int(rng.integers(0, SIZE // bus_bytes - longest)) * bus_bytes,
            int(rng.integers(1, longest + 1)),
        )
        for _ in range(10)
    ]
    holds = (rng.integers(0, 3, sum(n for _, n in commands)) * (seed & 2)).tolist()

    async def work(ctx):
        await store(
            ctx, bench.writers[0], bus_bytes, 0, content[:first] if first else content[:bus_bytes]
        )
        got = await store(ctx, bench.writers[0], bus_bytes, first, content[first:], gaps)
        count = (SIZE - first) // bus_bytes
        places = iter(range(count))

        def source(previous):
            k = next(places)
            return (previous + 1 if k else 0) + gaps[k]

        model = Writer(timing, bus_bytes).write(0, first, count, source)
        assert got == model
        taken, words = await fetch(ctx, bench.readers[0], commands, holds)
        assert b"".join(w.to_bytes(bus_bytes, "little") for w in words) == b"".join(
            content[a : a + n * bus_bytes].tobytes() for a, n in commands
        )
        assert taken == model_reads(timing, bus_bytes, commands, holds)

    bench.run(work)


def test_answers_wait_for_who_takes_them():
    """Bursts of one beat while BREADY is low: each that was taken has its answer later."""
    dut = BlockRam(AXI4(address_width=16, data_bytes=4), 4096)
    count, begun, ended, answered = 12, 0, 0, 0

    async def work(ctx):
        nonlocal begun, ended, answered
        bus = dut.bus
        ctx.set(bus.wlast, 1)
        for cycle in range(100):
            ctx.set(bus.awvalid, begun < count)
            ctx.set(bus.wvalid, ended < begun)
            ctx.set(bus.bready, cycle >= 50)
            _, _, aw, w, b = await ctx.tick().sample(
                bus.awvalid & bus.awready, bus.wvalid & bus.wready, bus.bvalid & bus.bready
            )
            begun, ended, answered = begun + aw, ended + w, answered + b
            if cycle == 49:
                assert answered == 0 < ended < count

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(work)
    sim.run()
    assert begun == ended == answered == count


def test_sizes_are_checked():
    port = AXI4(data_bytes=8)
    for size in (4096, 3 << 17):
        with pytest.raises(ValueError, match="131072 bytes or a power of two times that"):
            Spram(port, size)
    for size in (0, 1000):
        with pytest.raises(ValueError, match="multiple of 4096"):
            BlockRam(port, size)
    with pytest.raises(ValueError, match="must read and write"):
        BlockRam(AXI4(data_bytes=8, write=False), 4096)
    with pytest.raises(ValueError, match="must read and write"):
        Spram(AXI4(data_bytes=8, write=False), 1 << 17)
    with pytest.raises(ValueError, match="the same widths"):
        Arbiter([port, AXI4(data_bytes=4)])


def test_two_copiers_behind_one_arbiter_are_refused():
    port = AXI4(data_bytes=4)
    Arbiter([port, port, port], copiers=[1])
    with pytest.raises(ValueError, match="managers m0 and m2 both copy without room for a burst"):
        Arbiter([port, port, port], copiers=[2, 0])
