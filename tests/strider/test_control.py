"""Flush, programs that are loaded anew, and the page sequencer, in Amaranth's simulator."""

import dataclasses

import numpy as np
import pytest

from penstock.hdl.strider.port import AccessPort
from penstock.hdl.strider.sequencer import PageSequencer
from penstock.models.numerics.formats import parse_format
from penstock.models.strider.config import PortConfig
from penstock.models.strider.golden import walk_page
from penstock.models.strider.isa import encode
from penstock.models.strider.program import generate
from testbench.pysim import simulate
from testbench.strider_cases import regular_case

FLOAT = parse_format("float32")


def test_flush_and_programs():
    """A run is broken off in mid-page, one ends in an error; each time a flush makes the port as new. Then another program."""
    config = PortConfig(1024, 8, 4, 2, FLOAT, ("float4",), program_depth=16)
    case = regular_case(4, features=5, lanes=4, format=FLOAT, page_size=1024)
    other = regular_case(4, features=3, lanes=4, format=FLOAT, page_size=1024, array=False)
    other = dataclasses.replace(
        other,
        walk=dataclasses.replace(
            other.walk, layout=dataclasses.replace(other.walk.layout, beats=2)
        ),
    )
    dut = AccessPort(config)
    beats = []

    async def sink(ctx):
        ctx.set(dut.o.ready, 1)
        async for _, _, valid, payload in ctx.tick().sample(dut.o.valid, dut.o.payload):
            if valid:
                beats.append("end" if payload.end else [int(code) for code in payload.lanes])

    async def feed(ctx, stream, words):
        for word in words:
            ctx.set(stream.payload, int(word))
            ctx.set(stream.valid, 1)
            await ctx.tick()
        ctx.set(stream.valid, 0)

    async def flush(ctx):
        ctx.set(dut.flush, 1)
        await ctx.tick()
        ctx.set(dut.flush, 0)
        beats.clear()

    def expected(chosen):
        tuples = walk_page(chosen.pages[0], chosen.walk)[0]
        return [beat.tolist() for codes in tuples for beat in codes.reshape(2, 4)] + ["end"]

    async def bench(ctx):
        words = case.pages[0].view("<u8")
        broken = case.pages[0].copy()
        broken[18] ^= 0xFF
        ctx.set(dut.pages, 1)
        await feed(ctx, dut.i_program, encode(generate(case.walk)))
        await feed(ctx, dut.i, words[:77])
        await flush(ctx)
        await feed(ctx, dut.i, words)
        await ctx.tick().repeat(20)  # in the middle of the walk
        await flush(ctx)
        ctx.set(dut.first_block, 9)
        await feed(ctx, dut.i, broken.view("<u8"))
        await ctx.tick().repeat(40)
        assert (
            ctx.get(dut.error.valid),
            ctx.get(dut.error.code),
            ctx.get(dut.error.block),
            ctx.get(dut.error.line),
        ) == (1, 1, 9, 0)
        assert not beats
        await flush(ctx)
        assert not ctx.get(dut.error.valid)
        await feed(ctx, dut.i, words)
        await ctx.tick().repeat(100)
        assert beats == expected(case)
        assert ctx.get(dut.tuples) == 4
        await flush(ctx)
        await feed(ctx, dut.i_program, encode(generate(other.walk)))
        await feed(ctx, dut.i, other.pages[0].view("<u8"))
        await ctx.tick().repeat(100)
        filled = np.zeros(8, bool)
        for source in other.walk.layout.sources:
            filled[source.position] = True
        codes = np.array([beat for beat in beats if beat != "end"]).reshape(-1, 8)
        assert np.array_equal(
            codes[:, filled], np.array(walk_page(other.pages[0], other.walk)[0])[:, filled]
        )

    simulate(dut, bench, background=[sink])


@pytest.mark.parametrize("seed", range(5))
def test_sequencer(seed):
    """Three pages, two epochs, as credits allow; then runs that are stopped, with no command after one that was offered before."""
    rng = np.random.default_rng(seed)
    takes, frees = ((0.6, 0.2), (0.3, 0.7))[seed % 2]
    dut = PageSequencer(bus_bytes=8, page_size=1024, credits=2, address_width=24)
    taken = []

    async def bench(ctx):
        ctx.set(dut.base, 0x1000)
        ctx.set(dut.stride, 0x800)
        ctx.set(dut.pages, 3)
        ctx.set(dut.epochs, 2)
        for stop in (None, 1, 2, 3):
            taken.clear()
            credits, cycle = 2, 0
            ctx.set(dut.stop, 0)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            assert ctx.get(dut.o.valid)  # in the cycle after `start`
            stopped, offered = None, False
            for _ in range(150):
                cycle += 1
                ready, free = rng.random() < takes, rng.random() < frees and credits < 2
                ctx.set(dut.o.ready, ready)
                ctx.set(dut.free, free)
                due = (
                    stop is not None
                    and len(taken) >= stop
                    and rng.random() < (1 if offered else 0.1)
                )
                if due and not ctx.get(dut.stop):
                    ctx.set(dut.stop, 1)
                    stopped = len(taken) + offered
                assert ctx.get(dut.o.valid) or not offered  # it stays until it is taken
                offered = bool(ctx.get(dut.o.valid)) and not ready
                if ctx.get(dut.o.valid):
                    assert credits > 0
                    if ready:
                        taken.append((ctx.get(dut.o.p.address), ctx.get(dut.o.p.beats)))
                        credits -= 1
                credits += free
                await ctx.tick()
            assert not ctx.get(dut.busy)
            want = [(0x1000 + 0x800 * (k % 3), 128) for k in range(6)]
            if stop is None:
                assert taken == want
            else:
                assert taken == want[: len(taken)] and len(taken) == stopped

    simulate(dut, bench)


def test_a_ring_goes_on():
    """Pages of a run's second part lie behind those of the first one, and none is asked for before it is there; a new stream begins anew."""
    dut = PageSequencer(bus_bytes=8, page_size=1024, credits=8, address_width=24, ring=3)
    taken = []

    async def bench(ctx):
        for name, value in {"base": 0x1000, "stride": 0x800, "epochs": 1}.items():
            ctx.set(getattr(dut, name), value)
        ctx.set(dut.o.ready, 1)
        for anew, pages, there in ((1, 5, 5), (0, 4, 7), (1, 2, 2)):
            taken.clear()
            for name, value in {"anew": anew, "pages": pages, "ready": there, "start": 1}.items():
                ctx.set(getattr(dut, name), value)
            await ctx.tick()
            ctx.set(dut.start, 0)
            first = 5 * (1 - anew)
            for last in (there, first + pages):
                ctx.set(dut.ready, last)
                for _ in range(12):
                    if ctx.get(dut.o.valid):
                        taken.append(ctx.get(dut.o.p.address))
                    await ctx.tick()
                assert taken == [0x1000 + 0x800 * (n % 3) for n in range(first, last)]
            assert not ctx.get(dut.busy)

    simulate(dut, bench)
