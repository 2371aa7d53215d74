# amaranth: UnusedElaboratable=no
"""Queue, Buffer and Spare: the four rules, order, no loss, no copy, levels."""

from __future__ import annotations

from amaranth.hdl import Signal
from harness import Bench, Defect, Proof
from harness.environment import offer, take

from penstock.hdl.stream import Buffer, Queue, Spare

WIDTH = 2


def order(bench: Bench, i, o, level, capacity: int, *, at_once: bool = False) -> None:
    """Follow one item, chosen when it enters: it comes out behind those that were there before it,
    once, as it was.

    `level`: the items that are inside, of `capacity`. `at_once`: an item may leave in the cycle in
    which it enters.
    """
    wanted, chosen = bench.constant("the item", WIDTH), bench.free("followed from here")
    followed, place = Signal(), Signal(range(16))
    push, pop, begin, passed = Signal(), Signal(), Signal(), Signal()
    bench.d.comb += [
        push.eq(i.valid & i.ready),
        pop.eq(o.valid & o.ready),
        begin.eq(push & chosen & ~followed & (i.payload[:WIDTH] == wanted)),
        passed.eq(begin & pop & (level == 0)),
    ]
    with bench.m.If(begin & ~passed):
        bench.d.sync += [followed.eq(1), place.eq(level - pop)]
    with bench.m.Elif(followed & pop):
        bench.d.sync += [place.eq(place - 1), followed.eq(place != 0)]
    mine = (followed & (place == 0)) | (begin & (level == 0) if at_once else 0)
    bench.check(
        "the item comes out in its turn, as it was",
        ~mine | (o.valid & (o.payload[:WIDTH] == wanted)),
    )
    bench.check("an item that is inside has its place", ~followed | (place < level))
    if capacity > 1:
        bench.cover("an item is followed behind another", followed & (place == 1))
    bench.cover("an item that was followed leaves", followed & pop & (place == 0))


def store(make, capacity: int, *, at_once: bool = False) -> Bench:
    b = Bench()
    dut = b.m.submodules.dut = make()
    offer(b, dut.i, "i", payload=WIDTH)
    take(b, dut.o, "o", payload=dut.o.payload[:WIDTH])
    level = Signal(range(16))
    b.d.sync += level.eq(level + (dut.i.valid & dut.i.ready) - (dut.o.valid & dut.o.ready))
    b.show("items inside", level)
    b.check(f"it holds at most {capacity} items", level <= capacity)
    if at_once:
        b.check("it is ready when it is empty", dut.i.ready == (level == 0))
        b.check("an item is offered at once", dut.o.valid == ((level != 0) | dut.i.valid))
        b.cover("an item passes at once", (level == 0) & dut.o.valid & dut.o.ready)
    else:
        b.check("it is ready while it has room", dut.i.ready == (level != capacity))
        b.check("it offers while it holds an item", dut.o.valid == (level != 0))
    if isinstance(dut, Queue):
        b.check("`level` counts the items inside", dut.level == level)
    b.cover("it is full", level == capacity)
    b.cover(
        "it is emptied after it was full",
        b.past(level) == 1 if capacity > 1 else (level == 0) & (b.past(level) == 1),
    )
    order(b, dut.i, dut.o, level, capacity, at_once=at_once)
    return b


_QUEUE = "hdl.stream.queue"
_RULES = "the stream's rules, order, no loss, no copy, levels"

PROOFS = [
    Proof(
        "hdl.stream.Buffer",
        _RULES,
        lambda: store(lambda: Buffer(WIDTH), 2),
        (Defect(_QUEUE, "spare_valid.eq(0)]", "spare_valid.eq(spare_valid & ~self.i.valid)]"),),
    ),
    Proof(
        "hdl.stream.Spare",
        _RULES,
        lambda: store(lambda: Spare(WIDTH), 1, at_once=True),
        (Defect(_QUEUE, "with m.If(~held):", "with m.If(1):"),),
    ),
    Proof(
        "hdl.stream.Queue",
        f"{_RULES}; depth 1",
        lambda: store(lambda: Queue(WIDTH, 1), 1),
        (Defect(_QUEUE, "push.eq(self.i.valid & self.i.ready)", "push.eq(self.i.valid)"),),
    ),
    Proof(
        "hdl.stream.Queue",
        f"{_RULES}; depth 3",
        lambda: store(lambda: Queue(WIDTH, 3), 3),
        (Defect(_QUEUE, "pointer == depth - 1, 0", "pointer == depth - 1, 1"),),
    ),
    Proof(
        "hdl.stream.Queue",
        f"{_RULES}; depth 4",
        lambda: store(lambda: Queue(WIDTH, 4), 4),
        (Defect(_QUEUE, "self.level != self.depth)", "self.level != self.depth - 1)"),),
    ),
    # wide enough to lie in block RAM; two bits of an item are free
    Proof(
        "hdl.stream.Queue",
        f"{_RULES}; depth 3 in block RAM",
        lambda: store(lambda: Queue(700, 3), 3),
        (Defect(_QUEUE, "transparent_for=(write,)", "transparent_for=()"),),
    ),
]
