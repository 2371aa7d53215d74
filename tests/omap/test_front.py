# amaranth: UnusedElaboratable=no
"""hdl.omap.front alone, with an HBM that is as late as its deadline allows: reads see what was there when they were asked
for, writes are there when they are answered."""

from __future__ import annotations

import random
from collections import deque
from itertools import product

import pytest

from penstock.hdl.omap.front import Front
from penstock.models.memory import FixedLatency
from penstock.models.omap.cycles import public, run
from penstock.models.omap.front_schedule import FrontSchedule
from penstock.models.omap.golden import Map
from penstock.models.omap.messages import Operation, Request
from penstock.models.omap.pairs import PairSource
from testbench.omap import KEYS, config, requests
from testbench.pysim import simulate


class _Memory:
    """A port to HBM. `late`: cycles that its answers take."""

    def __init__(self, bus, data_bytes, late):
        self.bus, self.size, self.late = bus, data_bytes, late
        self.content: dict[int, bytes] = {}
        self.words: deque = deque()
        self.commands: deque = deque()
        self.data: deque = deque()
        self.answers: deque = deque()

    def offer(self, ctx, cycle):
        """Set what the port answers in this cycle."""
        answered = bool(self.answers) and self.answers[0][0] <= cycle
        if answered:
            _, address, words = self.answers.popleft()
            for number, (word, strobe) in enumerate(words):
                at = address + number * self.size
                old = self.content.get(at, bytes(self.size))
                chosen = [(word if strobe >> k & 1 else old)[k] for k in range(self.size)]
                self.content[at] = bytes(chosen)
        ctx.set(self.bus.bvalid, answered)
        there = bool(self.words) and self.words[0][0] <= cycle
        ctx.set(self.bus.rvalid, there)
        if there:
            ctx.set(self.bus.rdata, int.from_bytes(self.words[0][1], "little"))

    def take(self, ctx, cycle):
        """Take what the front gives in this cycle."""
        bus = self.bus
        if ctx.get(bus.rvalid) and ctx.get(bus.rready):
            self.words.popleft()
        if ctx.get(bus.arvalid):
            for number in range(ctx.get(bus.arlen) + 1):
                at = ctx.get(bus.araddr) + number * self.size
                self.words.append((cycle + self.late, self.content.get(at, bytes(self.size))))
        if ctx.get(bus.awvalid):
            self.commands.append((ctx.get(bus.awaddr), ctx.get(bus.awlen) + 1))
        if ctx.get(bus.wvalid):
            word = ctx.get(bus.wdata).to_bytes(self.size, "little")
            self.data.append((word, ctx.get(bus.wstrb)))
        if self.commands and len(self.data) >= self.commands[0][1]:
            address, beats = self.commands.popleft()
            words = [self.data.popleft() for _ in range(beats)]
            self.answers.append((cycle + self.late, address, words))


def _run(shape, made, *, late, gaps=lambda: 0):
    """Return what the front hands on, the cycles in which requests begin, and its error code."""
    front = Front(shape)
    pairs = iter(PairSource(shape, KEYS.pairs))
    told: dict[str, list] = {"operations": [], "pages": [], "counters": [], "begun": []}
    errors = []
    memories = [_Memory(bus, shape.bus_bytes, late) for bus in (front.bucket_bus, front.record_bus)]

    async def process(ctx):
        for memory in memories:
            for ready in (memory.bus.arready, memory.bus.awready, memory.bus.wready):
                ctx.set(ready, 1)
        ctx.set(front.key, KEYS.hash)
        left, pause, cycle = deque(made), 0, 0
        drawn = next(pairs)
        while (left or not ctx.get(front.idle)) and not errors:
            for memory in memories:
                memory.offer(ctx, cycle)
            ctx.set(front.i.valid, bool(left) and not pause)
            ctx.set(front.i_pairs.valid, 1)
            if left:
                ctx.set(front.i.p.operation, left[0].operation)
                ctx.set(front.i.p.key, left[0].key)
            for name, number in zip(
                ("new0", "new1", "shown0", "shown1"), (*drawn[0], *drawn[1]), strict=True
            ):
                ctx.set(getattr(front.i_pairs.p, name), number)
            for memory in memories:
                memory.take(ctx, cycle)
            if ctx.get(front.o.valid):
                told["operations"].append(_operation(ctx, front.o.p, shape))
            if ctx.get(front.o_pages.valid):
                told["pages"].append(ctx.get(front.o_pages.payload))
            if ctx.get(front.o_counters.valid):
                told["counters"].append(ctx.get(front.o_counters.payload))
            if ctx.get(front.error):
                errors.append(ctx.get(front.code))
            if ctx.get(front.i.valid) and ctx.get(front.i.ready):
                told["begun"].append(cycle)
                left.popleft()
                drawn, pause = next(pairs), gaps()
            elif pause:
                pause -= 1
            cycle += 1
            await ctx.tick()

    simulate(front, process)
    told["entries"] = sorted(_entries(shape, memories[0].content))
    return told, errors


def _entries(shape, content):
    """Yield bucket, slot and key of all valid entries in HBM."""
    for address, word in content.items():
        for at in range(0, shape.bus_bytes, shape.entry_bytes):
            if word[at + shape.key_bytes] & 1:
                key = int.from_bytes(word[at : at + shape.key_bytes], "little")
                bucket, rest = divmod(address + at, shape.bucket_bytes)
                yield bucket, rest // shape.entry_bytes, key


def _operation(ctx, o, shape):
    """An operation as golden can tell it, and its frames."""
    sides = []
    for side in (o.side0, o.side1):
        if ctx.get(side.host):
            waiting = ctx.get(side.waiting)
            frames = [ctx.get(side.frames[k]) for k in range(waiting)]
            sides.append((ctx.get(side.page), ctx.get(side.counter), ctx.get(side.items), frames))
    own = ctx.get(o.own_frame) if ctx.get(o.own) else None
    keep = ctx.get(o.frame) if ctx.get(o.keep) else None
    return ctx.get(o.key), ctx.get(o.status), ctx.get(o.hit), own, keep, sides


def _compare(shape, made, told):
    """All that is handed on is golden's: pages, their counters and items, and the keys that lie in
    the frames."""
    golden, frames = Map(shape, KEYS), {}
    pages, counters = [], []
    assert len(told["operations"]) == len(made)
    for number, (request, seen) in enumerate(zip(made, told["operations"], strict=True)):
        waiting = [list(keys) for keys in golden._waiting]
        step = golden.step(request)
        key, status, hit, own, keep, sides = seen
        assert (key, status) == (request.key, step.response.status), number
        assert [side[:3] for side in sides] == [
            (o.page, o.counter, len(o.before)) for o in step.opened
        ], number
        for page, _, _, there in sides:
            expected = waiting[shape.hbm_bins + page]
            assert [frames[frame] for frame in there] == expected, number
            for frame in there:
                del frames[frame]
        if own is not None:
            assert hit and frames.pop(own) == key, number
        if keep is not None:
            assert keep not in frames, number
            frames[keep] = key
        assert len(frames) == len(list(golden.framed()))
        pages += [o.page for o in step.opened]
        counters += [o.counter for o in step.opened]
    assert told["entries"] == sorted((p.bucket, p.slot, key) for key, p in golden._places.items())
    assert told["pages"] == pages and told["counters"] == counters


#: few bins and buckets, so that operations meet in all ways
_SHAPES = {
    "narrow": {"bins": 4, "hbm_bins": 2, "buckets": 2, "capacity": 12, "slots": 12, "frames": 14},
    "two beats": {"bins": 5, "hbm_bins": 1, "buckets": 2, "bus_bytes": 16, "deadline": 60},
    "hashes": {"bins": 5, "hbm_bins": 1, "buckets": 2, "key": "text", "deadline": 20},
    "wide": {"bins": 8, "hbm_bins": 4, "buckets": 4, "bus_bytes": 128, "deadline": 8, "slots": 8},
}


def _hot(count, draw):
    """One key, by turns."""
    kinds = (Operation.PUT, Operation.DELETE, Operation.GET)
    return [Request(kinds[k % 3], 7, bytes(8)) for k in range(count)]


_LOADS = {
    "hot": lambda shape, draw: _hot(40, draw),
    "three keys": lambda shape, draw: requests(shape, 60, seed=1, keys=3, mix=(1, 2, 2)),
    "full": lambda shape, draw: requests(shape, 90, seed=2, mix=(1, 8, 2)),
    "mixed": lambda shape, draw: requests(shape, 90, seed=3, keys=shape.capacity, mix=(3, 4, 3)),
}


#: those that are run always
_FEW = {
    ("narrow", "three keys"),
    ("two beats", "mixed"),
    ("hashes", "full"),
    ("wide", "full"),
}


@pytest.mark.parametrize(
    "name, load",
    [
        pytest.param(*case, marks=() if case in _FEW else pytest.mark.long)
        for case in product(_SHAPES, _LOADS)
    ],
)
def test_operations_under_way_are_forwarded(name, load):
    """An operation begins every `interval` cycles, whatever it has in common with those before it."""
    shape, draw = config(**{"capacity": 20, "slots": 16, **_SHAPES[name]}), random.Random(load)
    made = _LOADS[load](shape, draw)
    gaps = (lambda: 0) if load != "mixed" else lambda: draw.choice([0, 0, 30, 90])
    told, errors = _run(shape, made, late=shape.access.deadline, gaps=gaps)
    assert errors == []
    _compare(shape, made, told)
    if load != "mixed":
        interval = FrontSchedule.of(shape).interval
        assert interval == {"narrow": 18, "two beats": 34, "hashes": 34, "wide": 7}[name]
        assert [b - a for a, b in zip(told["begun"], told["begun"][1:], strict=False)] == [
            interval
        ] * (len(made) - 1)


@pytest.mark.parametrize("late, fails", [(1, False), (30, False), (31, True)])
def test_memory_has_its_deadline_and_no_more(late, fails):
    shape = config(deadline=30)
    _, errors = _run(shape, _hot(6, None), late=late)
    assert bool(errors) == fails


def test_the_parts_of_a_latency_are_all_of_it():
    shape = config(window=8)
    steps = list(Map(shape, KEYS).run(requests(shape, 60, seed=4)))
    told = run(shape, public(steps), FixedLatency(90, 16), interval=50)
    assert sum(told.parts.values()) == pytest.approx(told.latency * len(steps))
    assert all(cycles >= 0 for cycles in told.parts.values())
