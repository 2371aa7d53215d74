# amaranth: UnusedElaboratable=no
"""Queue, Buffer and Spare: the four rules, order, no loss, no copy, levels."""

from __future__ import annotations

from amaranth.hdl import Signal, Value
from amaranth.lib import data
from harness import Bench, Defect, Proof
from harness.environment import offer, take
from harness.payloads import follow

from penstock.hdl.stream import Buffer, Queue, Spare

#: bits of an item that are free
WIDTH = 2
SHAPE = data.StructLayout({"value": 1, "last": 1})


def store(make, capacity: int, *, at_once: bool = False) -> Bench:
    b = Bench()
    dut = b.m.submodules.dut = make()
    offer(b, dut.i, "i", payload=WIDTH)
    take(b, dut.o, "o", payload=Value.cast(dut.o.payload)[:WIDTH])
    level = Signal(range(capacity + 2))
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
    follow(b, dut.i, dut.o, level, bits=WIDTH, at_once=at_once)
    return b


_QUEUE = "hdl.stream.queue"
_RULES = "the stream's rules, order, no loss, no copy, levels"

PROOFS = [
    Proof(
        "hdl.stream.Buffer",
        _RULES,
        lambda: store(lambda: Buffer(SHAPE), 2),
        Defect(_QUEUE, "spare_valid.eq(0)]", "spare_valid.eq(spare_valid & ~self.i.valid)]"),
    ),
    Proof(
        "hdl.stream.Spare",
        _RULES,
        lambda: store(lambda: Spare(SHAPE), 1, at_once=True),
        Defect(_QUEUE, "with m.If(~held):", "with m.If(1):"),
    ),
    *(
        Proof(
            "hdl.stream.Queue",
            f"{_RULES}; depth {depth}",
            lambda depth=depth: store(lambda: Queue(SHAPE, depth), depth),
            Defect(_QUEUE, old, new),
            long="6 s" if depth == 10 else "",
        )
        for depth, old, new in (
            (1, "push.eq(self.i.valid & self.i.ready)", "push.eq(self.i.valid)"),
            (3, "pointer == depth - 1, 0", "pointer == depth - 1, 1"),
            (4, "self.level != self.depth)", "self.level != self.depth - 1)"),
            (6, "if depth & (depth - 1) == 0", "if depth & 1 == 0"),
            (10, "if depth & (depth - 1) == 0", "if depth & 1 == 0"),
        )
    ),
    # wide enough to lie in block RAM; two bits of an item are free
    Proof(
        "hdl.stream.Queue",
        f"{_RULES}; depth 3 in block RAM",
        lambda: store(lambda: Queue(700, 3), 3),
        Defect(_QUEUE, "transparent_for=(write,)", "transparent_for=()"),
    ),
]
