# amaranth: UnusedElaboratable=no
"""The free list of frames: none is given twice, none is lost."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

from amaranth.hdl import Array, Cat, Mux, ResetInserter, Signal, Value
from harness import Bench, Defect, Proof
from harness.small import Rows, made, others, registers_of

from penstock.hdl.omap import free_frames
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.front_schedule import FrontSchedule

from .omap import SMALL

#: a page of one item
SHAPE = replace(SMALL, slots=1, frames=5)


def free_list(config: OmapConfig, freed: int, packed: int) -> Bench:
    """Any operations that free frames which are in use, of which one is followed."""
    b = Bench()
    schedule = replace(
        FrontSchedule.of(config), freed=freed, packed=packed, words=-(-config.frames // packed)
    )

    class Schedule:
        of = staticmethod(lambda config: schedule)

    rings: list[Rows] = []
    ring = SimpleNamespace(Memory=lambda **given: rings.append(Rows(**given)) or rings[-1])
    with others(free_frames, FrontSchedule=Schedule, memory=ring):
        dut = free_frames.FreeFrames(config)
        part = made(dut)
    b.m.submodules.dut = ResetInserter(b.free("reset"))(part)
    steps = -(-dut.count // freed)
    waits = Signal(range(steps + 2))
    settle = Signal()
    b.d.comb += [
        settle.eq(b.free("settle") & (waits == 0)),
        dut.settle.eq(settle),
        dut.take.eq(b.free("take")),
    ]
    with b.m.If(settle):
        b.d.sync += waits.eq(steps + 1)
    with b.m.Elif(waits != 0):
        b.d.sync += waits.eq(waits - 1)
    #: how many are in use, and whether one of them is
    one, out, used = (
        b.constant("frame", config.frame_bits),
        Signal(),
        Signal(range(config.frames + 2)),
    )
    theirs = []
    for k in range(dut.count):
        there, frame = b.free(f"there {k}"), b.free(f"freed {k}", config.frame_bits)
        b.d.comb += [dut.there[k].eq(there), dut.freed[k].eq(frame)]
        theirs.append(there & (frame == one))
        b.assume(f"frame {k} that is freed is one", ~there | (frame < config.frames))
    count = sum(dut.there[k] for k in range(dut.count))
    taken = settle & dut.take
    b.assume("a frame is freed once, while it is in use", ~settle | (sum(theirs) <= out))
    b.assume("no more are freed than are in use", ~settle | (count <= used))
    b.assume("no more are in use than there are", ~taken | (used < config.frames))
    with b.m.If(settle):
        b.d.sync += used.eq(used + taken - count)
        b.d.sync += out.eq((out & ~Cat(theirs).any()) | (taken & (dut.frame == one)))
    registers = registers_of(part)
    own = SimpleNamespace(**registers, **_packer_of(part), rows=rings[0].rows, read=rings[0].read)
    _checked(b, own, SimpleNamespace(waits=waits, used=used, one=one, out=out), freed, packed)
    b.check("no frame in use is given", ~taken | (dut.frame != one) | ~out)
    b.check(
        "while fewer are in use than there are, there is one",
        ~taken | (dut.frame != one) | (one < config.frames),
    )
    again = Signal()
    b.d.sync += again.eq(again | (settle & Cat(theirs).any()))
    b.cover("a frame is given again", again & taken & (dut.frame == one))
    return b


def _packer_of(part) -> dict[str, Signal]:
    [packer] = [each for each, name, _ in part.fragment.subfragments if name == "packer"]
    return registers_of(SimpleNamespace(fragment=packer))


def _checked(b: Bench, own, seen, freed: int, packed: int) -> None:
    """What induction has to know: where each frame is, how many there are, and that the word at hand is read."""
    bits, depth, count = len(seen.one), len(own.rows), len(own.present)
    is_one = lambda value, k: value.word_select(k, bits) == seen.one
    coming = [own.present[k] & is_one(own.frames, k) for k in range(count)]
    held = Value.cast(own.held)
    listed = [(own.count > k) & is_one(held, k) for k in range(packed - 1)]
    for k, row in enumerate(own.rows):
        at = Mux(own.head > k, k + depth - own.head, k - own.head)  # behind the oldest word
        for place in range(packed):
            gone = (at == 0) & (own.place > place)
            listed.append((at < own.words) & ~gone & is_one(row, place))
    there = sum(own.present[k] for k in range(count))
    b.check(
        "a frame is in use, on its way to the list or in it, once, or was never used",
        sum(coming) + sum(listed) + (own.unused <= seen.one) + seen.out == 1,
    )
    times = [~own.present[k] | (seen.waits > 1 + k // freed) for k in range(count)]
    b.check("those that come have time", Cat(times).all())
    b.check("those in use are counted", own.used == seen.used + there)
    b.check(
        "all others are in the list",
        own.unused + own.place == own.used + own.words * packed + own.count,
    )
    b.check("no more were used than there are", own.unused <= SHAPE.frames)
    tail = own.head + own.words
    b.check("words follow one another", own.tail == Mux(tail >= depth, tail - depth, tail))
    b.check("there is room", (own.words <= depth) & (own.head < depth))
    b.check("a word at hand is one", (own.place < packed) & ((own.place == 0) | (own.words != 0)))
    b.check("less than a word is packed", own.count < packed)
    b.check(
        "the oldest word is read",
        (seen.waits != 0) | (own.words == 0) | (own.read == Array(own.rows)[own.head]),
    )


PROOFS = [
    Proof(
        "hdl.omap.free_frames.FreeFrames",
        "no frame that is in use is given, and there is one while fewer are in use than there are, "
        f"under any soft resets; five frames, {freed} freed a cycle, {packed} a word",
        partial(free_list, SHAPE, freed, packed),
        defects,
        method="induction",
        depth=1,
        covers=20,
        search=24,
    )
    for freed, packed, defects in (
        (
            1,
            2,
            (
                Defect(
                    "hdl.omap.free_frames", "taken & some & (place == packed - 1)", "taken & some"
                ),
                Defect(
                    "hdl.omap.free_frames",
                    "packer.take.eq(taken & ~some & packer.some)",
                    "packer.take.eq(0)",
                ),
                Defect(
                    "hdl.omap.free_frames",
                    "present = Signal(self.count, reset_less=True)",
                    "present = Signal(self.count)",
                ),
            ),
        ),
        (
            2,
            3,
            Defect(
                "hdl.omap.free_frames",
                "Mux(self.full, words[bits * packed :], words)",
                "words",
            ),
        ),
    )
]
