# amaranth: UnusedElaboratable=no
"""Rows of models in memory (hdl.rows): in no kernel's own device, whose part has one memory port. Changes of rows that wait for others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from amaranth.hdl import Array, Cat, Mux, Signal
from harness import Bench, Defect, Proof
from harness.environment import offer, take
from harness.small import others, shrunk

from penstock.api import compile
from penstock.dsl.analytics.choices import Choices
from penstock.dsl.core.load import from_text
from penstock.hdl.analytics.beats import BeatLoader, BeatWriter
from penstock.hdl.analytics.reorder import Reorder
from penstock.hdl.rows import directory, lookup, mover, port
from penstock.hdl.rows.lookup import LookUp
from penstock.hdl.rows.mover import Mover
from penstock.hdl.rows.same_place import Pending
from penstock.hdl.rows.unit import RowUnit
from penstock.models.rows import unit
from penstock.models.rows.unit import Place, RowTable, RowUnitConfig

__all__ = ["COMPONENTS", "PROOFS"]


def _unit() -> RowUnit:
    tables = RowTable(("P", "b"), (3, 1), 6, 6, (1,)), RowTable(("Q",), (2,), 3, 3)
    places = Place(0, 0, 0, True), Place(3, 1, 1, False)
    config = RowUnitConfig(tables, places, 2, 8, 2, 2, 1, 4)
    return RowUnit(config, address_width=12, beats_width=4)


#: how long a change by each of three operations is in its unit; the first two change one store
_LATE = (3, 1, 2)


def pending() -> Bench:
    b = Bench()
    pairs = [(n, k) for n in (0, 1) for k in (0, 1)] + [(2, 2)]
    dut = b.m.submodules.dut = Pending([2, 2, 2], {(n, k): (1, _LATE[k]) for n, k in pairs})
    place, taken, under_way = b.constant("place", 2), [], []
    for n, late in enumerate(_LATE):
        there, address = getattr(dut, f"there{n}"), getattr(dut, f"address{n}")
        b.d.comb += [there.eq(b.free(f"there{n}")), address.eq(b.free(f"address{n}", 2))]
        stays = there & (address == b.past(address))
        b.assume(f"what {n} has stays while it is held", stays | ~b.past(dut.hold & there))
        left, mine = Signal(range(late + 1), name=f"left{n}"), there & (address == place)
        taken.append(mine & ~dut.hold)
        b.d.sync += left.eq(Mux(taken[n], late, Mux(left != 0, left - 1, 0)))
        under_way.append((left != 0, mine))
    (zero, first), (one, second), (two, third) = under_way
    b.assume("no two change one place at once", ~(first & second))
    ways = ((first | second, zero | one), (third, two))
    for n, (mine, busy) in enumerate(ways):
        b.check(f"store {n}: no change of a place passes another", ~(mine & busy) | dut.hold)
        b.cover(f"store {n}: one waits", mine & busy)
        b.cover(f"store {n}: one follows another", b.past(busy) & mine & ~dut.hold)
    waited = Signal(3)
    b.d.sync += waited.eq(Mux(dut.hold, waited + 1, 0))
    b.check("nothing waits longer than the longest takes", ~dut.hold | (waited < max(_LATE)))
    b.cover("another place goes on at once", Cat(taken).any() & b.past(Cat(taken).any()))
    return b


class _Numbers:
    """The place in its batch, and the batch modulo 4, of what passes a stream; an epoch's end is a batch's."""

    def __init__(self, b: Bench, passing, batch: int, name: str):
        self.passes = passing.valid & passing.ready
        self.batch, at = Signal(2, name=f"{name}_batch"), Signal(range(batch), name=f"{name}_at")
        over = passing.p.end | (at == batch - 1)
        with b.m.If(self.passes):
            b.d.sync += [at.eq(Mux(over, 0, at + 1)), self.batch.eq(self.batch + over)]


def reorders() -> Bench:
    b, batch, most = Bench(), 3, 3
    table = {n: np.arange(2, dtype="i4") for n in "abx"}
    text = "kernel k(a: index[2], b: index[2], x: input, s: model[2], t: model[2])\n"
    text += f"  s[a] += x\n  t[b] += x\n  batch {batch}\n"
    plan = compile(from_text(text), "small", table, "fixed:2,2", choices=Choices(lanes=4)).plan
    dut = b.m.submodules.dut = Reorder(replace(plan, rows=replace(plan.rows, reorder=most)))
    dut.reach = 2
    offer(b, dut.i, "i")
    take(b, dut.o, "o")
    row, other, tag = (plan.layout.field(name).position for name in "abx")
    comes, goes = (_Numbers(b, s, batch, n) for s, n in ((dut.i, "i"), (dut.o, "o")))
    place, came, went, mine = b.constant("row"), Signal(2), Signal(2), Signal(2)
    given, left = dut.i.p.lanes[tag], Mux(dut.o.p.end, 0, dut.o.p.lanes[tag])
    tagged = ~dut.i.p.end & (dut.i.p.lanes[row] == place) & (given == came + 1) & (given < 3)
    b.assume("there are two rows each", (dut.i.p.lanes[row] < 2) & (dut.i.p.lanes[other] < 2))
    b.assume("two tuples of one row have a tag", ~dut.i.valid | (given == 0) | tagged)
    passed = Signal(range(batch + most + 1))  # since the first one came
    with b.m.If(comes.passes & (given != 0)):
        b.d.sync += came.eq(given)
        with b.m.If(given == 1):
            b.d.sync += mine.eq(comes.batch)
    with b.m.If(goes.passes):
        b.d.sync += [passed.eq(passed + ((came != 0) & (went == 0))), went.eq(went + (left != 0))]
    b.check(
        "they leave once, one behind the other", ~goes.passes | (left == 0) | (left == went + 1)
    )
    b.check("none leaves that did not come", ~goes.passes | (left <= came))
    b.check("each in its batch", ~goes.passes | (left != 1) | (goes.batch == mine))
    b.check("none is lost", passed < batch + most - 1)
    b.cover("one is overtaken", goes.passes & (left == 1) & (passed == most))
    b.cover("both have left", went == 2)
    return b


#: numbers that fill no word, and rows of two bus words
_KERNEL = (
    "kernel k(a: index[3], x: input, s: model[3], E: model[3, 16])\n  E[a] += x\n  s[a] += x\n"
)
_LANES, _ROWS, _BUS = (1, 16), 3, 8


def _plan():
    table = {"a": np.arange(3, dtype="i4"), "x": np.zeros(3, "f4")}
    choices = Choices(lanes=max(_LANES))
    return compile(from_text(_KERNEL), "small", table, "fixed:4,4", choices=choices).plan


def _words() -> list[list[tuple[int, int, int] | None]]:
    """Return which code of each word is which: (model, row, lane), None for none."""
    numbers = [(0, row, 0) for row in range(_ROWS)]
    rows = [(1, row, lane) for row in range(_ROWS) for lane in range(max(_LANES))]
    codes = [*numbers, *[None] * (_BUS - _ROWS), *rows]
    return [codes[n : n + _BUS] for n in range(0, len(codes), _BUS)]


def _code(of: tuple[int, int, int] | None) -> int:
    """Return a code that no other one equals."""
    return 0 if of is None else 1 + of[0] * 64 + of[1] * 16 + of[2]


def writer() -> Bench:
    b = Bench()
    dut = b.m.submodules.dut = BeatWriter(_plan())
    words, started = _words(), Signal()
    start = b.free("start") & ~started
    b.d.sync += started.eq(started | start)
    b.d.comb += [dut.start.eq(start), dut.o_command.ready.eq(1), dut.idle.eq(1)]
    for model, lanes in enumerate(_LANES):
        read, codes = getattr(dut, f"read{model}"), []
        for lane in range(lanes):
            held = Signal(8, name=f"held{model}_{lane}")
            by_row = Array(_code((model, row, lane)) for row in range(_ROWS))
            with b.m.If(~dut.hold):
                b.d.sync += held.eq(by_row[dut.at])
            codes.append(held)
        b.d.comb += read.eq(Cat(codes))
    take(b, dut.o, "o")
    number = Signal(range(len(words) + 1))
    b.d.sync += number.eq(number + (dut.o.valid & dut.o.ready))
    whole = Array(sum(_code(of) << 8 * n for n, of in enumerate(word)) for word in words)
    b.check("each word is the next one", ~dut.o.valid | (dut.o.payload == whole[number]))
    b.check("there are no more", ~dut.o.valid | (number < len(words)))
    b.check("done behind the last one alone", ~dut.done | (number == len(words)))
    b.cover("all have left", dut.done)
    b.cover("one waits", b.past(dut.o.valid & ~dut.o.ready) & dut.o.valid)
    return b


def loader() -> Bench:
    b = Bench()
    dut = b.m.submodules.dut = BeatLoader(_plan())
    words = _words()
    number, beat = Signal(range(len(words) + 1)), Signal(range(2 * _ROWS + 1))
    valid = b.free("valid")
    b.assume("no more words", ~valid | (number < len(words)))
    whole = Array(sum(_code(of) << 8 * n for n, of in enumerate(word)) for word in words)
    b.d.comb += [dut.valid.eq(valid), dut.word.eq(whole[number])]
    b.d.sync += [number.eq(number + (valid & dut.ready)), beat.eq(beat + dut.write.any())]
    beats = [
        sum(_code((model, row, lane)) << 8 * lane for lane in range(lanes))
        for model, lanes in enumerate(_LANES)
        for row in range(_ROWS)
    ]
    rows = Array([*range(_ROWS), *range(_ROWS)])
    models = Array([1] * _ROWS + [2] * _ROWS)
    right = (dut.data == Array(beats)[beat]) & (dut.at == rows[beat])
    b.check("each beat is the next one", ~dut.write.any() | (right & (dut.write == models[beat])))
    b.check("there are no more", ~dut.write.any() | (beat < 2 * _ROWS))
    b.check("done with the last one", dut.done == (dut.write.any() & (beat == 2 * _ROWS - 1)))
    b.check("of all words all are there", (number < len(words)) | (beat == 2 * _ROWS))
    b.cover("all are there", dut.done)
    b.cover("one word of two", valid & ~dut.write.any())
    return b


def _small() -> RowUnitConfig:
    """One of four rows a tuple, of which three have lines."""
    table = RowTable(("s",), (1,), 4, 3)
    return RowUnitConfig((table,), (Place(0, 0, 0, True),), 1, 8, 1, 1, 1, 4, commands=2)


def look_up() -> Bench:
    b = Bench()
    with others(directory, BATCH_BITS=2):
        dut, b.m.submodules.dut = shrunk(lookup, lambda: LookUp(_small()), BATCH_BITS=2)
    offer(b, dut.i, "i")
    b.d.comb += dut.o.ready.eq(b.free("o ready"))
    b.assume("no end", ~dut.i.p.end)
    row, there, line, left = b.constant("row", 2), Signal(), Signal(2), Signal()
    misses, now = dut.o.valid & dut.o.ready, dut.now
    mine, gets = now.row == row, dut.o_lines.valid
    leaves = misses & there & (dut.o.p.line == line) & ~mine
    with b.m.If(misses & mine):
        b.d.sync += [there.eq(1), line.eq(dut.o.p.line)]
    with b.m.Elif(leaves):
        b.d.sync += [there.eq(0), left.eq(1)]
    holds = there & (dut.o_lines.p.lines[0] == line)
    b.check("a row that has a line is found there", ~(gets & mine & there) | (holds & ~misses))
    b.check("one that has none gets one", ~(gets & mine & ~there) | misses)
    b.check("what gives way is written back", ~leaves | (dut.o.p.dirty & (dut.o.p.old == row)))
    b.cover("it comes again", left & misses & mine)
    b.cover("it is found at once", b.past(misses & mine) & gets & mine)
    return b


def moves() -> Bench:
    b = Bench()
    make = lambda: Mover(_small(), address_width=12, beats_width=4)
    with others(unit, WRITES=2), others(port, leaving_rows=lambda row_bytes: 1):
        dut, b.m.submodules.dut = shrunk(mover, make)
    offer(b, dut.i, "i")
    for name in ("closed", "settled", "settled_before", "busy", "read0", "base0"):
        signal = getattr(dut, name)
        b.d.comb += signal.eq(b.free(name, len(signal)))
    for name in ("awready", "wready", "arready", "rvalid", "rlast", "bvalid"):
        b.d.comb += getattr(dut.bus, name).eq(b.free(name))
    row, open_, mine, whole = b.constant("row", 2), *(Signal(3, name=n) for n in "abc")
    answer, sent = dut.bus.bvalid, dut.bus.wvalid & dut.bus.wready & dut.bus.wlast
    b.assume("what is answered was written", ~answer | (whole != 0))
    b.assume("there is one table", dut.i.p.table == 0)
    b.d.sync += [whole.eq(whole + sent - answer), open_.eq(open_ + dut.write_back - answer)]
    with b.m.If(dut.write_back & (dut.i.p.old == row)):
        b.d.sync += mine.eq(open_ + 1 - answer)
    with b.m.Elif(answer & (mine != 0)):
        b.d.sync += mine.eq(mine - 1)
    asks = dut.fetch & (dut.now.row == row)
    b.check("no row is asked for while it is written", ~asks | (mine == 0))
    b.cover("another one is", dut.fetch & (mine != 0))
    b.cover("it is when that is answered", asks & b.past(answer & (mine == 1)))
    return b


_REORDER = "hdl.analytics.reorder"
_PENDING, _BEATS = "hdl.rows.same_place", "hdl.analytics.beats"
_LOOKUP, _DIRECTORY, _MOVER = "hdl.rows.lookup", "hdl.rows.directory", "hdl.rows.mover"

PROOFS = [
    Proof(
        "hdl.rows.lookup.LookUp",
        "each tuple gets the line that holds its row, whatever rows the ones just before it brought; one of four rows a tuple, three lines",
        look_up,
        (
            Defect(_LOOKUP, "came & (latest", "Cat(0)[0] & (latest"),
            Defect(_DIRECTORY, "rows.read_port(transparent_for=(named,))", "rows.read_port()"),
            Defect(_DIRECTORY, "owners.read_port(transparent_for=(owned,))", "owners.read_port()"),
        ),
    ),
    Proof(
        "hdl.rows.mover.Mover",
        "no row is asked for before its own writing is answered: no read passes an update; two rows that are written",
        moves,
        (
            Defect(_MOVER, "now.comes & ~written.late & ", "now.comes & "),
            Defect(_MOVER, "written.sent.eq(Cat(head.old,", "written.sent.eq(Cat(head.row,"),
        ),
    ),
    Proof(
        "hdl.rows.same_place.Pending",
        "no change of a row passes an earlier one of it, by the same operation or another; none waits longer than the longest is in its unit",
        pending,
        (
            Defect(_PENDING, "range(least, last + 1)", "range(least, last)"),
            Defect(_PENDING, "address[age].eq(address[age - 1])", "address[age].eq(address[0])"),
            Defect(_PENDING, 'f"there{n}") & ~self.hold]', 'f"there{n}")]'),
        ),
    ),
    Proof(
        "hdl.analytics.reorder.Reorder",
        "no tuple passes one that changes the same row, or leaves its batch; each leaves once; 3 of batches of 3 are chosen from, 2 rows of 2 models",
        reorders,
        (
            Defect(_REORDER, "late.any() | Cat(near).any()", "late.any()"),
            Defect(_REORDER, "next_one[k] | ", ""),
            Defect(_REORDER, "leaves & Cat(self.first[: k + 1])", "leaves & Cat(self.first[:k])"),
            Defect(_REORDER, "up(n, near)) for", "near[n]) for"),
        ),
    ),
    Proof(
        "hdl.analytics.BeatWriter",
        "models leave in order, each beat once and at its place, however long a word waits; done comes behind the last one",
        writer,
        (
            Defect(_BEATS, "self.hold.eq(valid & ~collect)", "self.hold.eq(0)"),
            Defect(
                _BEATS,
                "free = ~full | (self.o.ready & (going == words))",
                "free = ~full | self.o.ready",
            ),
            Defect(_BEATS, "fills.eq(last | walk.last)", "fills.eq(last)"),
        ),
    ),
    Proof(
        "hdl.analytics.BeatLoader",
        "models come in order, each beat once, to its model and place, from words that hold several and from several words",
        loader,
        (
            Defect(_BEATS, "through = last | (walk.last & ~split)", "through = last"),
            Defect(_BEATS, "Mux(through, 0, part + 1)", "part + 1"),
        ),
    ),
]
COMPONENTS = {"RowUnit": _unit}
