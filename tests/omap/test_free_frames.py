# amaranth: UnusedElaboratable=no
"""hdl.omap.free_frames: which frames it gives, in their order, and when there are too few."""

from __future__ import annotations

import random

import pytest

from penstock.hdl.omap.free_frames import FreeFrames
from penstock.models.omap.front_schedule import FrontSchedule
from testbench.omap import config
from testbench.pysim import simulate


class _List:
    """What a free list gives: the oldest word's numbers, then the last one that is in no word, then new ones."""

    def __init__(self, packed: int) -> None:
        self._packed, self._words, self._rest, self._unused = packed, [], [], 0

    def take(self) -> int:
        if self._words:
            return self._words.pop(0)
        if self._rest:
            return self._rest.pop()
        self._unused += 1
        return self._unused - 1

    def free(self, numbers: list[int]) -> None:
        self._rest += numbers
        while len(self._rest) >= self._packed:
            self._words += self._rest[: self._packed]
            del self._rest[: self._packed]


#: frames freed a cycle, and of a word
_SHAPES = {
    (1, 4): {"slots": 2},
    (3, 4): {"slots": 7, "bus_bytes": 128},
    (4, 4): {"slots": 8, "bus_bytes": 128, "frames": 21},
    (1, 3): {"slots": 2, "frames": 1 << 20},
    (4, 4, "wider"): {"slots": 8, "bus_bytes": 128, "frames": 1 << 20},
}


@pytest.mark.parametrize("kind", _SHAPES)
def test_frames_come_in_their_order_and_none_is_lost(kind):
    shape = config(**{"frames": 30, "deadline": 8, "buckets": 2, **_SHAPES[kind]})
    schedule, draw = FrontSchedule.of(shape), random.Random(str(kind))
    assert (schedule.freed, schedule.packed) == kind[:2]
    dut = FreeFrames(shape)
    expected, used = _List(schedule.packed), []
    steps = -(-dut.count // schedule.freed)

    async def process(ctx):
        for number in range(600):
            # by turns more and more, and fewer
            most = min(len(used), dut.count, 4 if number // 40 % 2 else 1)
            freed = draw.sample(used, draw.randint(0, most))
            places = sorted(draw.sample(range(dut.count), len(freed)))
            takes = draw.random() < 0.9 and len(used) - len(freed) < shape.frames - 1
            ctx.set(dut.there, sum(1 << place for place in places))
            for place, frame in zip(places, freed, strict=True):
                ctx.set(dut.freed[place], frame)
            ctx.set(dut.settle, 1)
            ctx.set(dut.take, takes)
            if takes:
                frame = expected.take()
                assert ctx.get(dut.frame) == frame and frame not in used and frame < shape.frames
                used.append(frame)
            for frame in freed:
                used.remove(frame)
            expected.free(freed)
            await ctx.tick()
            ctx.set(dut.settle, 0)
            for _ in range(steps + 1 + draw.choice((0, 0, 3))):
                assert not ctx.get(dut.full)
                await ctx.tick()

    simulate(dut, process)


def test_a_frame_too_many_is_said():
    shape = config(frames=4, slots=2)
    dut = FreeFrames(shape)
    told = []

    async def process(ctx):
        ctx.set(dut.take, 1)
        for _ in range(4):
            ctx.set(dut.settle, 1)
            await ctx.tick()
            ctx.set(dut.settle, 0)
            for _ in range(12):
                told.append(ctx.get(dut.full))
                await ctx.tick()

    simulate(dut, process)
    assert sum(told[:36]) == 0 and sum(told[36:]) == 1
