# amaranth: UnusedElaboratable=no
"""The oblivious map's counts of pages: each operation that shows a page has the count of all those before it
that did. Two lemmas: what HBM shows of a record that no operation under way may have written, and that the
others' counts go from each one to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Array, Cat, Const, Elaboratable, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data, memory, wiring
from harness import Bench, Defect, Proof
from harness.small import Rows, made
from harness.substitute import anything, replaced

from penstock.hdl.omap.layout import record_layout
from penstock.hdl.omap.records import Records
from penstock.hdl.omap.timeline import Timeline
from penstock.hdl.stream.queue import Queue
from penstock.models.omap.front_schedule import FrontSchedule

from .omap import SMALL

#: bits of a count, of 64: counts are equal modulo 2 to their power
_COUNT = 1
_T = FrontSchedule.of(SMALL)
_KEPT = _T.kept_records


def _narrow(_: Callable) -> Callable:
    def made_of(config):
        members = dict(record_layout(config).members)
        return data.StructLayout(
            {"counter": _COUNT} | {k: v for k, v in members.items() if k != "counter"}
        )

    return made_of


class _Late(Timeline):
    """A timeline from the cycle on in which a decision comes."""

    def __init__(self, m: Module, start: Value) -> None:
        super().__init__(m, start, _T.end - _T.decided - 1)

    def at(self, cycle: int) -> Value:
        return super().at(cycle - _T.decided - 1)

    def count(self, first: int, last: int) -> Value:
        """How many operations are in these cycles."""
        return sum((self.at(cycle) for cycle in range(first, last + 1)), Const(0))


class _Line:
    """What is given and not yet gone, the oldest first."""

    def __init__(self, m: Module, bits: int, depth: int, put: Value, value: Value, gone: Value):
        self.m, self.level = m, Signal(range(depth + 1))
        self.places = [Signal(bits, name=f"place{k}") for k in range(depth)]
        at = Signal(range(depth + 1))
        m.d.comb += at.eq(self.level - gone)
        m.d.sync += self.level.eq(at + put)
        for k, (place, after) in enumerate(
            zip(self.places, [*self.places[1:], Const(0)], strict=True)
        ):
            m.d.sync += place.eq(
                Mux(put & (at == k), value, Mux(at > k, Mux(gone, after, place), 0))
            )


class _Fifo(wiring.Component):
    """In place of `Queue`: the same, by moving items."""

    def __init__(self, inner: Queue) -> None:
        self.depth, self.bits = inner.depth, len(Value.cast(inner.i.payload))
        super().__init__(inner.signature)

    def elaborate(self, platform) -> Module:
        m = Module()
        put, gone = self.i.valid & self.i.ready, self.o.valid & self.o.ready
        line = _Line(m, self.bits, self.depth, put, Value.cast(self.i.payload), gone)
        m.d.comb += [
            self.level.eq(line.level),
            self.i.ready.eq(line.level != self.depth),
            self.o.valid.eq(line.level != 0),
            Value.cast(self.o.payload).eq(line.places[0]),
        ]
        return m


class _Memories:
    """In place of `amaranth.lib.memory`: rows that can be looked at, but where fields are stored."""

    def __init__(self, made: list) -> None:
        self.made = made

    def Memory(self, *, shape, depth, init):
        if not isinstance(shape, int):
            return memory.Memory(shape=shape, depth=depth, init=init)
        self.made.append(Rows(shape=shape, depth=depth, init=init))
        return self.made[-1]


class _Front(Elaboratable):
    """Records along their timeline: operations begin at any times that their interval allows."""

    def __init__(self) -> None:
        self.begin, self.begins, self.idle = Signal(), Signal(), Signal()

    def elaborate(self, platform) -> Module:
        m = Module()
        self.timeline = timeline = _Late(m, self.begins)
        pause = Signal(range(_T.interval))
        m.submodules.records = self.records = Records(SMALL, timeline)
        self.records.offset = self.offset = Signal(13)
        self.decision = self.records.i.payload
        m.d.comb += [
            self.begins.eq(self.begin & (pause == 0)),
            self.records.i.valid.eq(self.begins),
            self.idle.eq(timeline.idle & ~self.begins & (pause == 0)),
        ]
        m.d.sync += pause.eq(Mux(self.begins, _T.interval - 1, pause - (pause != 0)))
        return m


class _Scene:
    """Operations that show any bins, one page followed, soft resets and runs that end between them. HBM is
    what `hbm` makes of the port."""

    def __init__(self, hbm: Callable[..., dict[str, Any]]) -> None:
        self.b = b = Bench()
        self.mark = b.constant("its bin", SMALL.bin_bits)
        shift = (SMALL.record_bytes - 1).bit_length()
        self.at = SMALL.records_at + (self.mark << shift)
        self.front, self.rows, queues = _Front(), [], []
        self.recent = Signal()  # one of the last operations may have written the record
        fifo = lambda *given: queues.append(_Fifo(Queue(*given))) or queues[-1]
        behave = lambda stub, m, free: self._keep(stub) or hbm(self, stub, m, free)
        kinds = {
            "HbmPort": anything(b, behave),
            "record_layout": _narrow,
            "Queue": lambda _: fifo,
            "memory": lambda _: _Memories(self.rows),
        }
        with replaced({"hdl.omap.records": kinds}):
            part = made(self.front)
        [self.waiting] = queues
        self.reset = b.free("reset") & self.front.idle
        b.m.submodules.dut = ResetInserter(self.reset)(part)
        self.decision, self.moved = self.front.decision, Signal()
        self.clear = self.front.idle & b.free("a run begins")
        idle = self.front.idle
        b.d.sync += self.moved.eq(Mux(idle, b.free("moved"), self.moved))
        b.d.comb += [
            self.front.begin.eq(b.free("an operation begins")),
            self.front.records.clear.eq(self.clear),
            self.front.offset.eq(Cat(Const(0, 12), self.moved)),
            Value.cast(self.decision).eq(b.free("decision", len(Value.cast(self.decision)))),
        ]
        b.assume("it is a page's", self.mark >= SMALL.hbm_bins)
        for one, two in ((0, 1), (2, 3)):
            bins = self.decision.bins
            b.assume("the bins of a pair differ", ~self.front.begins | (bins[one] != bins[two]))
        self._history()

    def _keep(self, stub) -> None:
        self.port = stub

    def _history(self) -> None:
        """Which operations may have written the record so that its reads do not see it."""
        b, begins, line = self.b, self.front.begins, self.front.timeline
        touches = Cat(self.decision.bins[k] == self.mark for k in range(4)).any()
        self.touched = Signal(_KEPT)
        recent = _Line(b.m, 1, 3, begins, self.touched.any(), line.at(_T.placed + 1))
        b.d.comb += self.recent.eq(recent.places[0])
        with b.m.If(begins):
            b.d.sync += self.touched.eq(Cat(touches, self.touched))
        with b.m.Elif(self.clear | self.reset):
            b.d.sync += self.touched.eq(0)
        under_way = line.count(_T.decided + 2, _T.placed + 1)
        b.check("operations are counted (1)", recent.level == under_way)
        b.check("operations are counted (2)", self.waiting.level == under_way)

    def reads(self, m: Module) -> Value:
        """Whether the word that is used is the record's; what is asked for comes in this order."""
        stub = self.port
        here = stub.read.p.address == self.at
        self.asked = _Line(m, 1, 8, stub.read.valid, here, stub.take)
        level = self.between(_T.ask, _T.records)
        self.b.check("reads are counted", self.asked.level == level)
        return self.asked.places[0]

    def between(self, first: int, last: int) -> Value:
        """Of four steps that begin in `first` and in `last`: what was done of one and not of the other."""
        level = Const(0)
        for cycle in range(first + 1, min(last + 4, _T.end + 1)):
            done = min(cycle - first, 4) - max(min(cycle - last, 4), 0)
            level = level + Mux(self.front.timeline.at(cycle), done, 0)
        return level


def shown() -> Bench:
    """HBM behind `HbmPort`, which keeps its deadlines; what is written of the record is any. What is read was
    there at some time between the command and its use; what is written is there by the time in which it is
    due."""

    def hbm(scene: _Scene, stub, m: Module, free) -> dict[str, Any]:
        cell, last = (Signal(_COUNT, name=n, reset_less=True) for n in ("cell", "last"))
        asked = scene.reads(m)
        given = stub.write.valid & (stub.write.p.address == scene.at)
        word, lands, ahead = free(_COUNT), Signal(), Signal(range(16))
        new = Cat(given, word)
        writes = _Line(m, 1 + _COUNT, 8, stub.write.valid, new, lands)
        m.d.comb += lands.eq((writes.level != 0) & free())
        m.d.sync += ahead.eq(ahead + lands - stub.due)
        with m.If(lands & writes.places[0][0]):
            m.d.sync += cell.eq(writes.places[0][1:])
        with m.If(given):
            m.d.sync += last.eq(word)
        values = [Signal(_COUNT, name=f"value{k}") for k in range(8)]
        at, after = Signal(range(9)), [*values[1:], Const(0)]
        m.d.comb += at.eq(scene.asked.level - stub.take)
        for k, value in enumerate(values):
            old = Mux(stub.take, after[k], value)
            seen = (stub.read.valid & (at == k)) | free()
            m.d.sync += value.eq(Mux(seen, cell, old))
        b = scene.b
        b.assume("HBM keeps its deadlines", stub.due <= ahead)
        out = scene.between(_T.placed + 2, _T.end + 1)
        b.check("writes are counted", ahead + writes.level == out)
        held = Cat(place[0] for place in writes.places).any()
        b.check("what is written stays", held | (cell == last))
        used = stub.take & asked
        b.check(
            "a record that none of the last operations wrote is read as it was written last",
            ~(used & ~scene.recent) | (values[0] == last),
        )
        b.cover("a record is read before what is written is there", used & (values[0] != last))
        return {"late": Const(0), "error": Const(0)}

    return _Scene(hbm).b


def counts() -> Bench:
    """HBM as `shown` has it."""
    last = Signal(_COUNT, reset_less=True)

    def hbm(scene: _Scene, stub, m: Module, free) -> dict[str, Any]:
        given = stub.write.valid & (stub.write.p.address == scene.at)
        with m.If(given):
            m.d.sync += last.eq(stub.data.p.word)
        scene.b.check("a word goes with each command", stub.write.valid == stub.data.valid)
        sure = scene.reads(m) & ~scene.recent
        size = record_layout(SMALL).size - 64
        word = Cat(Mux(sure, last, free(_COUNT)), free(size))
        return {"word": word, "late": Const(0), "error": Const(0)}

    scene = _Scene(hbm)
    b, bins = scene.b, scene.decision.bins
    total = Signal(_COUNT)
    shows = [scene.front.begins & (bins[k] == scene.mark) for k in range(2)]
    first = _T.decided + 2
    since = [Signal(_T.placed + 4 - first, name=f"since{k}") for k in range(2)]
    b.d.sync += total.eq(total + shows[0] + shows[1])
    for k in range(2):
        b.d.sync += since[k].eq(Cat(shows[k], since[k]))

    def before(*cycles: int) -> Value:
        """The count of those that are beyond these cycles."""
        under = [bit for k, cycle in enumerate(cycles) for bit in since[k][: cycle - first + 1]]
        return (total - sum(under, Const(0)))[:_COUNT]

    written = before(_T.placed + 2, _T.placed + 3)
    b.check("what was written last is the count", last == written)
    _stored(scene, before(_T.placed + 1, _T.placed + 1))
    now = before(_T.placed + 3, _T.placed + 3)
    o, again = scene.front.records.o, []
    for side in (o.p.side0, o.p.side1):
        here = o.valid & side.host & (side.page == scene.mark - SMALL.hbm_bins)
        again.append(here)
        b.check(
            "an operation has the count of those before it that showed the page",
            ~here | (side.counter[:_COUNT] == now),
        )
    busy = Cat(since[0][:8], since[1][:8]).any()
    b.cover("the page is shown by two operations at once", (again[0] | again[1]) & busy)
    return b


def _stored(scene: _Scene, settled: Value) -> None:
    """What induction has to know of the records that are kept."""
    b, kept, mark = scene.b, scene.front.records.kept, scene.mark
    [store], under_way = scene.rows, scene.waiting.level
    later = Const(0)
    quiet = ~scene.front.timeline.count(_T.placed + 2, _T.placed + 5).bool()
    for distance, (numbers, known) in enumerate(kept.pending):
        here = [known & (numbers[k] == mark) for k in range(4)]
        touches = Cat(*here).any()
        for n in range(_KEPT - distance):
            b.check(
                "the operations that wrote the record are known",
                (under_way != n) | (touches == scene.touched[distance + n]),
            )
        for k in range(4):
            latest = here[k] & ~Cat(Const(0), *here[k + 1 :]).any() & ~later
            place = (kept.operation - distance)[: kept.bits]
            row = Array(store.rows)[Cat(Const(k, 2), place)]
            there = quiet if distance == 0 else Const(1)
            b.check(
                "the record that is kept has the count",
                ~(latest & there) | (row[:_COUNT] == settled),
            )
            if distance == 0:
                count = kept.latest[k].counter[:_COUNT]
                b.check("so has the latest one's", ~latest | (count == settled))
        later = later | touches


_MODULE = "hdl.omap.records"

PROOFS = [
    Proof(
        "hdl.omap.Records",
        f"a page's record that none of the last {_KEPT} operations wrote is read from HBM as it was written last, "
        "under soft resets and over runs that end; from the first decision on",
        shown,
        Defect(
            _MODULE,
            "Mux(timeline.at(schedule.records_seen), 4, 0)",
            "Mux(timeline.at(schedule.records_seen), 3, 0)",
        ),
        cuts=(
            "HBM keeps what is written, and its deadlines",
            "what is written of the record is any",
            "the queue of decisions is one that moves its items",
        ),
        method="induction",
        depth=33,
    ),
    Proof(
        "hdl.omap.Records",
        "what is handed on of a page has the count of all operations before it that showed the page, under soft "
        f"resets and over runs that end; counts of {_COUNT} bit; from the first decision on",
        counts,
        (
            Defect(
                _MODULE,
                "(self.config.records_at + (number << shift))",
                "(self.config.records_at + (number << shift) + self.offset)",
            ),
            Defect(
                _MODULE,
                "before.counter + host",
                "before.counter + (host & decision.keep)",
            ),
            Defect(_MODULE, "latest.eq(distance == 0)", "latest.eq(0)"),
            Defect(
                _MODULE,
                "self._address(kept.latest_bins[number])",
                "self._address(kept.latest_bins[0])",
            ),
        ),
        cuts=(
            "HBM as the proof before has it",
            "the bins of a pair differ",
            "the queue and the records that are kept are registers",
        ),
        method="induction",
        depth=22,
    ),
]
