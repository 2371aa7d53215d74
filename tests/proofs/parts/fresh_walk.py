# amaranth: UnusedElaboratable=no
"""A snapshot's walk: it leaves out no bucket of the position map, whatever a host asks for and resets, and no
cycle of it depends on what HBM has, or on when it answers."""

from __future__ import annotations

from dataclasses import replace

from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from harness import Bench, Defect, Proof, two_runs
from harness.small import made, others
from harness.substitute import anything, replaced

from penstock.hdl.omap import walker

from .omap import SMALL

_SHAPE = replace(SMALL, buckets=4)
#: fewer buckets a run, and cycles to read them
_SHORT = {"WALK_BITS": 2, "read_cycles": lambda config, buckets: 1 + buckets}


def walk() -> Bench:
    """Any runs and soft resets; a run that has begun comes to its end, or is the last one."""
    b, readers = Bench(), []

    def reader(stub, m, free):
        readers.append(stub)
        return {"i__ready": free(), "o__valid": free(), "o__payload": free()}

    with (
        others(walker, **_SHORT),
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


class _Made(wiring.Component):
    """A walker, elaborated now, under a soft reset."""

    def __init__(self) -> None:
        self._walker = walker.Walker(_SHAPE)
        self._part = made(self._walker)
        super().__init__({"reset": In(1), **self._walker.signature.members})

    def elaborate(self, platform):
        m = Module()
        m.submodules.walker = ResetInserter(self.reset)(self._part)
        for name in self._walker.signature.members:
            mine, theirs = getattr(self, name), getattr(self._walker, name)
            if isinstance(mine, Signal):
                into, out = (
                    (theirs, mine) if self.signature.members[name].flow is In else (mine, theirs)
                )
                m.d.comb += into.eq(out)
            else:
                wiring.connect(m, wiring.flipped(mine), theirs)
        return m


def two_walks() -> Bench:
    """Two walks that begin at equal times, with entries and an HBM of their own."""
    b = Bench()
    with others(walker, **_SHORT):
        (_, one), (_, two) = two_runs(
            b, _Made, ["reset", "start", "buckets", "there", "begin", "go", "o__ready"]
        )
    for name in ("key", "ready", "loaded", "busy", "steps", "over", "o__valid"):
        b.check(f"{name} is the same in both", one[name] == two[name])
    step = one["o__valid"] & b.inputs["o__ready"]
    get, other = (run["o__payload"][:8].any() for run in (one, two))
    b.cover("an entry is an operation where the other one has none", step & get & ~other)
    b.cover("the words of one come in time alone", one["late"] & ~two["late"])
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
    Proof(
        "hdl.omap.Walker",
        "two walks with equal runs and soft resets look the same to the map in every cycle, whatever entries "
        "are and whenever HBM answers, if it does; four buckets of one entry",
        two_walks,
        (
            Defect(
                "hdl.omap.walker",
                "step.eq(self.o.valid & self.o.ready)",
                "step.eq(self.o.valid & (self.o.ready | ~self.o.p.operation.any()))",
            ),
            Defect(
                "hdl.omap.walker",
                'm.next = "READ"',
                'with m.If(reader.i.ready): m.next = "READ"',
            ),
        ),
    ),
]
