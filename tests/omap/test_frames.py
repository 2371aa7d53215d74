# amaranth: UnusedElaboratable=no
"""hdl.omap.frames and deadlines: which item an operation takes of those on the chip, and when."""

from __future__ import annotations

import random

import pytest

from penstock.hdl.omap.deadlines import Deadline
from penstock.hdl.omap.frames import _Recent
from penstock.models.omap.back import BackSchedule
from testbench.omap import config
from testbench.pysim import simulate


@pytest.mark.parametrize("seed", range(3))
def test_an_item_is_found_where_it_was_put_last(seed):
    """Against a list: of the latest operations the last one that put an item into the frame."""
    shape = config(frames=[4, 9, 64][seed], window=2)
    unit, draw = _Recent(shape), random.Random(seed)
    depth = BackSchedule.of(shape).items
    put: list[int | None] = []

    async def process(ctx):
        for number in range(6 * depth):
            ctx.set(unit.number, number % depth)
            ctx.set(unit.begin, 1)
            await ctx.tick()
            ctx.set(unit.begin, 0)
            for _ in range(4):
                wanted = [draw.randrange(shape.frames) for _ in range(2)]
                for side in range(2):
                    ctx.set(unit.wanted[side], wanted[side])
                first = max(number - depth + 1, 0)
                for side in range(2):
                    latest = [n for n in range(first, number) if put[n] == wanted[side]]
                    assert ctx.get(unit.found[side].late) == bool(latest)
                    if latest:
                        assert ctx.get(unit.found[side].item) == latest[-1] % depth
                await ctx.tick()
            frame, keep = draw.randrange(shape.frames), draw.random() < 0.7
            ctx.set(unit.frame, frame)
            ctx.set(unit.latest, number % depth)
            ctx.set(unit.keep, keep)
            ctx.set(unit.added, 1)
            await ctx.tick()
            ctx.set(unit.added, 0)
            put.append(frame if keep else None)

    simulate(unit, process)


def test_due_at_the_same_time_whenever_it_is_met():
    draw, seen = random.Random(5), {}
    unit = Deadline(9, 5)

    async def process(ctx):
        begun, met = [], []
        for cycle in range(400):
            starts = cycle % 3 == 0 and draw.random() < 0.5
            if starts:
                begun.append(cycle)
                # the last one is met a cycle too late
                met.append(max(cycle + draw.randrange(1, 9), met[-1] if met else 0))
                if cycle > 380:
                    met[-1] = cycle + 10
            ctx.set(unit.begun, starts)
            ctx.set(unit.met, met.count(cycle))
            if ctx.get(unit.due):
                seen[cycle] = ctx.get(unit.late)
            assert ctx.get(unit.late) <= ctx.get(unit.due)
            if cycle > 391:
                break
            await ctx.tick()
        assert sorted(seen) == [c + 9 for c in begun if c + 9 <= cycle]
        assert [late for c, late in seen.items() if c < 389] == [0] * sum(c < 389 for c in seen)

    simulate(unit, process)
    assert len(seen) > 30


@pytest.mark.parametrize(("met", "late"), [(0, 1), (8, 0), (9, 0), (10, 1)])
def test_late_is_what_is_not_there_when_it_is_due(met, late):
    unit, seen = Deadline(9, 2), []

    async def process(ctx):
        for cycle in range(14):
            ctx.set(unit.begun, cycle == 0)
            ctx.set(unit.met, cycle == met != 0)
            seen.append((ctx.get(unit.due), ctx.get(unit.late)))
            await ctx.tick()

    simulate(unit, process)
    assert seen == [(cycle == 9, late and cycle == 9) for cycle in range(14)]
