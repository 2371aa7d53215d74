# amaranth: UnusedElaboratable=no
"""The oblivious map's messages: no (key, number) is sealed twice, whatever registers, resets, frames and files
a host gives. Each source of numbers is proven alone; what one leans on is proven of another.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import wiring
from harness import Bench, Defect, Proof
from harness.small import made, others, registers_of
from harness.substitute import anything, replaced

from penstock.hdl.omap import door, engine, sessions, vault
from penstock.hdl.omap.answers import Answers, Log
from penstock.hdl.omap.door import TABLE_PORTS, Door
from penstock.hdl.omap.envelopes import FrameSealer
from penstock.hdl.omap.past import Past
from penstock.hdl.omap.requests import Requests
from penstock.models.omap.state import Told

from .omap import SMALL

#: bits of a session's numbers, of 64
_NUMBER = 3


def core(stub, m: Module, free) -> dict[str, Any]:
    """A cipher that takes a text from its start to its tag."""
    running = Signal()
    ends = running & free() & stub.tag_taken
    m.d.sync += running.eq((running & ~ends) | (stub.start & ~running))
    return {
        "idle": ~running,
        "tag_valid": ends,
        "taken": running & ~ends & free() & stub.valid,
        # nothing looks at more of them
        **{name: Cat(Const(0, 127), free()) for name in ("result", "tag")},
    }


def _opener(stub, m: Module, free) -> dict[str, Any]:
    """Opens any texts; what it offers stays, and the last number does not fit."""
    taken, valid = Signal(), Signal()
    payload, given = Signal.like(stub.o.payload), Signal.like(stub.o.payload)
    m.d.comb += [
        taken.eq(valid & stub.o.ready),
        given.slot.eq(free(2)),
        given.number.eq(free(_NUMBER)),
        given.fits.eq(free() & ~given.number[:_NUMBER].all()),
        given.operation.eq(free(8)),
    ]
    m.d.sync += valid.eq((valid & ~taken) | free())
    with m.If(~valid | taken):
        m.d.sync += payload.eq(given)
    return {"o__valid": valid, "o__payload": Value.cast(payload)}


def answers() -> Bench:
    """Requests and answers around the real table, with one session among those that any handshakes open."""
    b, rows = Bench(), []

    def row(stub, m, free) -> dict[str, Any]:
        rows.append(stub)
        return {}

    kinds = {
        "hdl.omap.answers": {"FrameRow": anything(b, row)},
        "hdl.omap.requests": {"FrameOpener": anything(b, _opener), "BurstReader": anything(b)},
    }
    with others(sessions, _COUNT=_NUMBER), replaced(kinds):
        asks, tells = Requests(SMALL, slots=2, state=True), Answers(SMALL, slots=2)
        table = sessions.SessionTable(slots=2)
        parts = [made(unit) for unit in (asks, tells, table)]
    reset = b.free("reset")
    for name, part in zip(("asks", "tells"), parts, strict=False):
        b.m.submodules[name] = ResetInserter(reset)(part)
    b.m.submodules.table = parts[2]
    wiring.connect(b.m, asks.ruled, tells.ruled)
    for name in TABLE_PORTS:
        unit = tells if name in ("seal_slot", "send") else asks
        ours, theirs = getattr(unit, name), getattr(table, name)
        reads = unit.signature.members[name].flow is wiring.In
        b.d.comb += ours.eq(theirs) if reads else theirs.eq(ours)
    marked, mark = Signal(), Signal()
    b.d.comb += [
        asks.head.ready.eq(b.free("the front is ready")),
        asks.records.eq(b.free("records")),
        asks.told.eq(b.free("told", 5) | 32),
        tells.taken.eq(tells.room & b.free("an operation begins")),
        # the engine's own row
        table.put.eq(b.free("a handshake ends") & ~asks.head.valid & ~tells.pending),
        table.put_slot.eq(b.free("slot")),
        table.put_role.eq(b.free("role", 2)),
        mark.eq(b.free("this session") & ~marked),
        table.put_send.eq(mark),
    ]
    b.d.sync += marked.eq(marked | (table.put_taken & mark))
    text, sealed, last, seen = rows[0].i, Signal(), Signal(_NUMBER), Signal()
    b.d.comb += sealed.eq(b.past(tells.taken & ~reset) & text.key[0] & (text.denied == 0))
    with b.m.If(sealed):
        b.d.sync += [last.eq(text.number), seen.eq(1)]
    b.check(
        "an answer's number is larger than those before it in the session",
        ~sealed | ~seen | (text.number > last),
    )
    b.cover("two answers are sealed, a reset between them", sealed & _since(b, reset & seen))
    return b


def _since(b: Bench, event) -> Signal:
    """It has been at some time before."""
    been = Signal()
    b.d.sync += been.eq(been | event)
    return been


def hidden() -> Bench:
    """Answers that are denied, one behind another. The highest bit of the cipher's blocks is any; headers
    have none there."""
    b = Bench()
    with replaced({"hdl.omap.envelopes": {"Gcm": anything(b, core)}}):
        dut = FrameSealer(SMALL)
        b.m.submodules.dut = ResetInserter(b.free("reset"))(made(dut))
    b.d.comb += [
        dut.i.valid.eq(b.free("valid")),
        dut.i.p.denied.eq(Cat(Const(1, 1), b.free("denied", 7))),
        dut.i.p.slot.eq(b.free("slot", 2)),
        dut.i.p.number.eq(b.free("number", 2)),
        dut.put.eq(b.free("put")),
        dut.slot.eq(b.free("its slot")),
        dut.row.eq(b.free("row", len(dut.row))),
        dut.o.ready.eq(b.free("ready")),
        dut.taken.eq(b.free("taken")),
    ]
    b.check("nothing of the cipher is shown", ~dut.o.valid | ~dut.o.payload[-1])
    b.cover("a block behind the header is there", dut.o.valid & ~dut.o.payload.any())
    return b


def commits() -> Bench:
    """An engine in whose place of most parts is anything."""
    b, clears = Bench(), []

    def clear(stub, m, free) -> dict[str, Any]:
        clears.append(stub)
        return {}

    cut = ("PageOpening", "PageClosing", "PairGenerators", "Front", "Back", "Past", "Journal")
    kinds: dict[str, Any] = {
        "hdl.omap.engine": {**dict.fromkeys(cut, anything(b)), "Clear": anything(b, clear)},
        "hdl.omap.answers": {"FrameRow": anything(b)},
        "hdl.omap.requests": {"FrameOpener": anything(b, _opener), "BurstReader": anything(b)},
        "hdl.omap.opening_frames": dict.fromkeys(("BurstReader", "WordDrain"), anything(b)),
    }
    outside = anything(b)(Door)(digest=bytes(32), slots=2)
    with replaced(kinds):
        dut = engine.MapEngine(SMALL, door=outside, state=True, slots=2)
        part = made(dut)
    b.m.submodules.dut = ResetInserter(reset := b.free("reset"))(part)
    fresh = Signal(init=1)
    b.d.comb += dut.start.eq(b.free("start") & fresh & ~reset)
    b.d.sync += fresh.eq(reset | (fresh & ~dut.start))
    for name in ("handshake", "count", "walk"):
        b.d.comb += dut.registers[name].eq(b.free(name, 3))
    broken, ever = Signal(), Signal()
    b.d.sync += broken.eq(broken | (dut.run.active & ~dut.done & reset))
    b.d.sync += ever.eq(ever | dut.run.active)
    b.check(
        "a session takes its slot while no request is judged whose answer has no key yet",
        ~outside.commit | ~(dut.parts.requests.head.valid | dut.parts.answers.pending),
    )
    b.check(
        "behind a run that did not end, all that a run says is an error, from its first cycle on",
        ~(broken & dut.run.active) | dut.error,
    )
    b.check(
        "HBM is cleared before the first operation alone",
        ~ever | ~Cat(stub.start for stub in clears).any(),
    )
    b.cover("a session takes its slot", outside.commit)
    b.cover("a run begins behind one that did not end", broken & dut.run.active)
    return b


def log() -> Bench:
    """Records, with a row of sealers that takes them at any time."""
    b, rows = Bench(), []

    def row(stub, m, free) -> dict[str, Any]:
        rows.append(stub)
        return {}

    with replaced({"hdl.omap.answers": {"FrameRow": anything(b, row)}}):
        dut = Log(SMALL)
        part = made(dut)
    b.m.submodules.dut = ResetInserter(reset := b.free("reset"))(part)
    key, count = b.free("key"), Signal(64)
    b.d.comb += [dut.taken.eq(b.free("taken")), dut.key.eq(key), dut.fresh.eq(b.free("fresh"))]
    b.d.sync += count.eq(Mux(dut.fresh, 0, count + dut.taken))
    logged = b.past(dut.taken & ~reset)
    b.check(
        "a record's number is how many were begun since its file's key was fresh",
        ~logged | (rows[0].i.number == count),
    )
    b.cover("a record behind a reset", logged & (count > 1) & _since(b, reset))
    return b


def log_keys() -> Bench:
    """Any files, requests and keys' times."""
    b = Bench()
    dut = Past(SMALL)
    b.m.submodules.dut = made(dut)
    for path, member, value in dut.signature.flatten(dut):
        if member.flow is wiring.In:
            bits = Value.cast(value)
            b.d.comb += bits.eq(b.free("_".join(map(str, path)), min(len(bits), 64)))
    asked, drawing = dut.draw_file & dut.file_free, Signal()
    b.d.sync += drawing.eq((drawing | asked) & ~dut.drawn)
    b.check(
        "while there is a snapshot no key is asked for", ~dut.walks | ~(dut.draw_file | drawing)
    )
    b.check(
        "a log's key stays until another one is fresh",
        (dut.log_key == b.past(dut.log_key)) | b.past(dut.fresh_log),
    )
    # a file's serial is that of the cycle before its key is asked for
    operation = b.past((dut.judging & ~dut.records) | dut.step)
    begins = dut.draw_file & b.past(dut.settled) & dut.past.closed
    for kind, name in enumerate(("log", "snapshot")):
        own, moved = begins & (dut.file[384] == kind), Signal(init=1, name=f"moved_{name}")
        b.d.sync += moved.eq(operation | (moved & ~own))
        b.check(f"between two keys of a {name} there is an operation", ~own | moved)
    b.check("a log does not end", ~b.past(dut.logs) | dut.logs)
    b.check("one key is asked for at a time", ~drawing | ~dut.draw_file)
    b.check("no record is told that it was sealed", ~dut.judging | (dut.told >= Told.APPLIED.value))
    b.cover("there is a log", dut.logs)
    b.cover("there is a second log", dut.logs & dut.fresh_log)
    return b


def drawn() -> Bench:
    """Keys that are drawn, with HMAC at any times."""
    b = Bench()
    with replaced({"hdl.omap.vault": {"Hmac": anything(b, lambda *_: {"digest": Const(0, 256)})}}):
        dut = vault.KeySchedule()
        part = made(dut)
    b.m.submodules.dut = ResetInserter(b.free("reset"))(part)
    for name in ("start", "draw", "of_file"):
        b.d.comb += getattr(dut, name).eq(b.free(name))
    counter, scalar = registers_of(part)["counter"], Signal()
    with b.m.If(dut.idle & dut.there & dut.draw):
        b.d.sync += scalar.eq(~dut.of_file)
    counter, shown = counter[:2], dut.ended & scalar
    before = b.past(counter)
    b.check("a scalar's number is not used again", ~shown | (counter == (before + 1)[:2]))
    b.check("numbers never go back", (counter == before) | (counter == (before + 1)[:2]))
    b.cover("a second scalar is shown", shown & (before != 0))
    return b


def scalars() -> Bench:
    """A door, with keys and handshakes that take any time."""
    b = Bench()
    stubs: dict[str, Any] = {}
    scalar, busy = Signal(), Signal()

    def keys(stub, m, free) -> dict[str, Any]:
        ended = busy & free()
        takes = stub.draw & ~busy
        m.d.sync += busy.eq((busy | takes) & ~ended)
        with m.If(takes):
            m.d.sync += scalar.eq(~stub.of_file)
        stubs.update(keys=stub, ended=ended)
        return {"idle": ~busy, "ended": ended}

    def handshake(stub, m, free) -> dict[str, Any]:
        stubs["handshake"] = stub
        return {}

    with replaced(
        {
            "hdl.omap.door": {
                "KeySchedule": anything(b, keys),
                "Handshake": anything(b, handshake),
            }
        }
    ):
        dut = door.Door(digest=bytes(32), slots=2)
        b.m.submodules.dut = made(dut)
    for name in ("start", "commit", "draw_file"):
        b.d.comb += getattr(dut, name).eq(b.free(name))
    for name in ("slot", "asked"):
        b.d.comb += getattr(dut, name).eq(b.free(name, 2))
    begins = stubs["handshake"].start
    asked = dut.draw_file & dut.file_free
    b.check("a handshake has a scalar drawn for it", ~begins | (stubs["ended"] & scalar))
    b.check(
        "whoever asks for a file's key gets one",
        ~asked | (stubs["keys"].draw & stubs["keys"].of_file),
    )
    b.cover("a handshake begins", begins)
    return b


PROOFS = [
    Proof(
        "hdl.omap.Answers",
        "with `Requests` and `SessionTable`: in each session the numbers of sealed answers grow, under any "
        f"soft resets, handshakes and frames; session numbers of {_NUMBER} bits, two slots",
        answers,
        (
            Defect("hdl.omap.sessions", "number[1].data + 1", "number[1].data"),
            Defect("hdl.omap.requests", "m.Elif(head.number != self.received)", "m.Elif(0)"),
            Defect(
                "hdl.omap.answers",
                "self.room.eq(row.room & queue.o.valid)",
                "self.room.eq(row.room)",
            ),
        ),
        cuts=("texts that are opened are any", "sealers take a text at any time"),
    ),
    Proof(
        "hdl.omap.FrameSealer",
        "an answer that is denied, which has no number of its own, is a header and zeros",
        hidden,
        Defect(
            "hdl.omap.envelopes",
            "Mux(hidden, 0, Mux(final, core.tag, core.result))",
            "Mux(final, core.tag, core.result)",
        ),
        cuts=("the cipher gives any blocks at any times",),
    ),
    Proof(
        "hdl.omap.MapEngine",
        "under any registers, soft resets, frames and files: a session takes its slot while no request is "
        "judged whose answer has no key yet; behind a run that did not end, all that a run says is an error; "
        "HBM is cleared before the first operation alone",
        commits,
        (
            Defect(
                "hdl.omap.engine",
                "run.ended & collect & ~requests.head.valid & ~answers.pending",
                "run.active & collect",
            ),
            Defect(
                "hdl.omap.engine",
                'stopped=Signal(name="stopped", reset_less=True)',
                'stopped=Signal(name="stopped")',
            ),
            Defect("hdl.omap.engine", "cleared = Signal(reset_less=True)", "cleared = Signal()"),
        ),
        cuts=("front, back, pages, door, journal, past, readers and sealers do anything",),
    ),
    Proof(
        "hdl.omap.Log",
        "a record's number is how many were begun since its file's key was fresh, under any soft resets",
        log,
        Defect(
            "hdl.omap.answers",
            "number, ends = Signal(64, reset_less=True), Signal()",
            "number, ends = Signal(64), Signal()",
        ),
        cuts=("sealers take a record at any time",),
    ),
    Proof(
        "hdl.omap.Past",
        "while there is a snapshot no key of a file is asked for, a log has one until the next one is fresh, "
        "between two of a kind there is an operation, and no text of a file counts as an answer of a session; "
        "any files and requests, whoever asks for a walk",
        log_keys,
        (
            Defect("hdl.omap.past", "moved.eq(self.serial != file.head.serial)", "moved.eq(1)"),
            Defect("hdl.omap.past", "self.walk & self.logs & ~self.walks", "self.walk & self.logs"),
        ),
    ),
    Proof(
        "hdl.omap.KeySchedule",
        "each scalar that is shown is of a number of its own, under any soft resets; the lowest two "
        "bits of numbers",
        drawn,
        Defect(
            "hdl.omap.vault",
            "Signal(reset_less=True), Signal(64, reset_less=True)",
            "Signal(reset_less=True), Signal(64)",
        ),
        cuts=("HMAC ends at any times",),
        covers=60,
    ),
    Proof(
        "hdl.omap.Door",
        "each handshake has a scalar that was drawn for it, and each file's key is one that was asked for",
        scalars,
        (
            Defect(
                "hdl.omap.door", 'with m.State("DRAW"), m.If(keys.ended):', 'with m.State("DRAW"):'
            ),
            Defect("hdl.omap.door", "keys.there & keys.idle & ~scalar", "keys.there & keys.idle"),
        ),
        cuts=("keys and handshakes take any time",),
    ),
]
