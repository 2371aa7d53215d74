"""The words of cycle models do what their pictures say."""

from __future__ import annotations

from random import Random

from amaranth.hdl import Module, unsigned

from penstock.hdl.stream.queue import Buffer
from penstock.models.timeline import Channel, Credits, Resource, Steps
from testbench.pysim import simulate


def test_a_resource_has_one_job_at_a_time() -> None:
    unit = Resource(3)
    assert [unit.take(1), unit.take(2), unit.take(20)] == [1, 4, 20]
    assert unit.free == 23


def test_credits_come_back_in_their_order() -> None:
    credits = Credits(2)
    assert credits.free == 0
    credits.give(4)
    assert credits.free == 0
    credits.give(6)
    assert (credits.free, credits[1], credits.latest) == (4, 6, 6)
    credits.wait(5)
    assert [*credits] == [5, 6]
    credits.delay(10)
    credits.give(17)
    assert [*credits] == [16, 17]


def test_a_channel_is_a_buffer() -> None:
    random, m, channel = Random(1), Module(), Channel[int]()
    m.submodules.buffer = buffer = Buffer(unsigned(8))

    async def bench(ctx):
        offer = None
        for _ in range(300):
            if offer is None and random.random() < 0.6:
                offer = random.randrange(256)
            ready = random.random() < 0.6
            ctx.set(buffer.i.valid, offer is not None)
            ctx.set(buffer.i.payload, offer or 0)
            ctx.set(buffer.o.ready, ready)
            item = ctx.get(buffer.o.payload) if ctx.get(buffer.o.valid) else None
            assert (ctx.get(buffer.i.ready), item) == (channel.ready, channel.item)
            went, taken = channel.ready, ready and item is not None
            channel.step(offer, taken)
            offer = None if went else offer
            await ctx.tick()

    simulate(m, bench)


def test_steps_leave_out_cycles_in_which_nothing_moves() -> None:
    steps, seen = Steps(), list[int]()

    def step(now: int) -> bool:
        seen.append(now)
        if now == 2:
            steps.wake(20)
            steps.wake(2)  # over
        return now in (1, 2, 20, 21)

    steps.until(lambda: seen[-1:] == [21], step)
    assert seen == [1, 2, 3, 20, 21]
