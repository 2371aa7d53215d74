# amaranth: UnusedElaboratable=no
"""A snapshot's walk: it leaves out no bucket of the position map, whatever a host asks for and resets."""

from __future__ import annotations

from dataclasses import replace

from amaranth.hdl import ResetInserter, Signal
from harness import Bench, Defect, Proof
from harness.small import made, others
from harness.substitute import anything, replaced

from penstock.hdl.omap import walker

from .omap import SMALL

_SHAPE = replace(SMALL, buckets=4)


def walk() -> Bench:
    """Any runs and soft resets; a run that has begun comes to its end, or is the last one."""
    b, readers = Bench(), []

    def reader(stub, m, free):
        readers.append(stub)
        return {"i__ready": free(), "o__valid": free(), "o__payload": free()}

    short = {"WALK_BITS": 2, "read_cycles": lambda config, buckets: 2}
    with (
        others(walker, **short),
        replaced({"hdl.omap.walker": {"BurstReader": anything(b, reader)}}),
    ):
        dut = walker.Walker(_SHAPE)
        part = made(dut)
    running, reset = Signal(), Signal()
    b.d.comb += reset.eq(b.free("reset") & ~running)
    b.m.submodules.dut = ResetInserter(reset)(part)
    for name in ("there", "go"):
        b.d.comb += getattr(dut, name).eq(b.free(name))
    asked = b.free("buckets", 2)
    b.d.comb += [
        dut.buckets.eq(asked | (asked == 0)),
        dut.start.eq(b.free("start") & ~running),
        dut.begin.eq(b.free("begin") & ~running & dut.loaded),
        dut.o.ready.eq(b.free("front")),
    ]
    #: buckets that runs have had, and operations that are left of this one
    walked, left = Signal(range(8)), Signal(range(8))
    step, count = dut.o.valid & dut.o.ready, Signal(range(5))
    ends = dut.over & (left == 1)
    b.d.comb += count.eq(readers[0].i.p.beats)
    with b.m.If(dut.begin):
        b.d.sync += [running.eq(1), walked.eq(walked + count), left.eq(dut.steps)]
    with b.m.Elif(step):
        b.d.sync += [left.eq(left - 1), running.eq(left != 1)]
        with b.m.If(ends):
            b.d.sync += walked.eq(0)
    asks = readers[0].i.valid
    b.check(
        "what is read begins where the last run ended",
        ~asks | (readers[0].i.p.address == walked * _SHAPE.bucket_bytes),
    )
    b.check("and ends in the map", ~asks | (walked + count <= _SHAPE.buckets))
    b.check("each entry is an operation", ~dut.begin | (dut.steps == count + (walked + count == 4)))
    b.check("there are as many as were told", ~dut.o.valid | (running & (left != 0)))
    b.check("a walk ends at the last bucket alone", ~(step & ends) | (walked == _SHAPE.buckets))
    b.cover("a walk ends", step & ends)
    again = Signal()
    b.d.sync += again.eq((again | reset) & (walked == 2))
    b.cover("a walk goes on behind a reset", asks & again)
    return b


PROOFS = [
    Proof(
        "hdl.omap.Walker",
        "a walk has each bucket of the position map once, in their order, and as many operations as it says, "
        "under any soft resets between runs; four buckets of one entry",
        walk,
        (
            Defect(
                "hdl.omap.walker",
                "range(config.buckets + 1), reset_less=True)",
                "range(config.buckets + 1))",
            ),
            Defect(
                "hdl.omap.walker", "Mux(rest < self.buckets, rest, self.buckets)", "self.buckets"
            ),
        ),
        cuts=("entries are any, and come at any times",),
    ),
]
