# amaranth: UnusedElaboratable=no
"""The oblivious map's pages: no (page, piece, count) is sealed twice under the page's key, which is of one
power-up. A bin's record counts how often its page was written; each source of the nonce is proven alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amaranth.hdl import (
    Array,
    Cat,
    Const,
    Elaboratable,
    Module,
    Mux,
    ResetInserter,
    Signal,
    Value,
)
from amaranth.lib import data
from harness import Bench, Defect, Proof
from harness.small import made
from harness.substitute import anything, replaced

from penstock.hdl.omap.closing import PageClosing, ticket_layout
from penstock.hdl.omap.completion import Completion
from penstock.hdl.omap.item_reader import ItemReader
from penstock.hdl.omap.layout import record_layout
from penstock.hdl.omap.pairs import PairGenerators
from penstock.hdl.omap.records import Records
from penstock.hdl.omap.sealing import Sealer
from penstock.hdl.omap.timeline import Timeline
from penstock.models.omap.front_schedule import FrontSchedule

from .fresh_messages import core
from .omap import SMALL

#: bits of a count, of 64: counts are equal modulo 2 to their power
_COUNT = 1
_SCHEDULE = FrontSchedule.of(SMALL)


def _narrow(_: Callable) -> Callable:
    def made_of(config):
        members = dict(record_layout(config).members)
        return data.StructLayout(
            {"counter": _COUNT} | {k: v for k, v in members.items() if k != "counter"}
        )

    return made_of


class _Memory:
    """HBM behind `HbmPort`, which keeps its deadlines: one record is followed, all others are any. What is
    read was there at some time between the command and its use; what is written is there by the time in
    which it is due."""

    def __init__(self, bench: Bench, mark: Value) -> None:
        shift = (SMALL.record_bytes - 1).bit_length()
        self.bench, self.at = bench, SMALL.records_at + (mark << shift)
        self.cell = Signal(_COUNT, reset_less=True)  # HBM keeps it

    def __call__(self, stub, m: Module, free) -> dict[str, Any]:
        size = record_layout(SMALL).size - 64
        here = self._reads(stub, m, free)
        late = self._writes(stub, m, free)
        self.bench.assume("HBM keeps its deadlines", ~late)
        word = Cat(Mux(here[0], here[1], free(_COUNT)), free(size))
        return {"word": word, "late": Const(0), "error": Const(0)}

    def _reads(self, stub, m: Module, free) -> tuple[Value, Value]:
        """Those that were asked for and not used: whether the record is read, and what."""
        depth = 8
        asked = [Signal(name=f"asked{k}") for k in range(depth)]
        value = [Signal(_COUNT, name=f"read{k}") for k in range(depth)]
        put, get = Signal(range(depth)), Signal(range(depth))
        m.d.sync += [put.eq(put + stub.read.valid), get.eq(get + stub.take)]
        for k in range(depth):
            with m.If(free()):
                m.d.sync += value[k].eq(self.cell)
            with m.If(stub.read.valid & (put == k)):
                m.d.sync += [
                    asked[k].eq(stub.read.p.address == self.at),
                    value[k].eq(self.cell),
                ]
        return Array(asked)[get], Array(value)[get]

    def _writes(self, stub, m: Module, free) -> Value:
        """Those that were given and are not there yet; returns whether some are late."""
        depth = 8
        given = [Signal(name=f"given{k}") for k in range(depth)]
        value = [Signal(_COUNT, name=f"write{k}") for k in range(depth)]
        put, get, level = Signal(range(depth)), Signal(range(depth)), Signal(range(depth + 1))
        ahead, ends = Signal(range(2 * depth)), Signal()
        m.d.comb += ends.eq((level != 0) & free())
        m.d.sync += [
            put.eq(put + stub.write.valid),
            get.eq(get + ends),
            level.eq(level + stub.write.valid - ends),
            ahead.eq(ahead + ends - stub.due),
        ]
        for k in range(depth):
            with m.If(stub.write.valid & (put == k)):
                m.d.sync += [
                    given[k].eq(stub.write.p.address == self.at),
                    value[k].eq(stub.data.p.word),
                ]
        with m.If(ends & Array(given)[get]):
            m.d.sync += self.cell.eq(Array(value)[get])
        return stub.due > ahead


class _Late(Timeline):
    """A timeline from the cycle on in which a decision comes."""

    def __init__(self, m: Module, start: Value) -> None:
        super().__init__(m, start, _SCHEDULE.end - _SCHEDULE.decided - 1)

    def at(self, cycle: int) -> Value:
        return super().at(cycle - _SCHEDULE.decided - 1)


class _Front(Elaboratable):
    """Records along their timeline: operations begin at any times that their interval allows."""

    def __init__(self) -> None:
        self.begin, self.begins, self.idle = Signal(), Signal(), Signal()

    def elaborate(self, platform) -> Module:
        m = Module()
        timeline, pause = _Late(m, self.begins), Signal(range(_SCHEDULE.interval))
        m.submodules.records = self.records = Records(SMALL, timeline)
        self.records.offset = self.offset = Signal(13)
        self.decision = self.records.i.payload
        m.d.comb += [
            self.begins.eq(self.begin & (pause == 0)),
            self.records.i.valid.eq(self.begins),
            self.idle.eq(timeline.idle & ~self.begins & (pause == 0)),
        ]
        m.d.sync += pause.eq(Mux(self.begins, _SCHEDULE.interval - 1, pause - (pause != 0)))
        return m


def counts() -> Bench:
    """Operations that show any bins, one page followed."""
    b = Bench()
    mark = b.constant("its bin", SMALL.bin_bits)
    front, memory = _Front(), _Memory(b, mark)
    kinds = {"HbmPort": anything(b, memory), "record_layout": _narrow}
    with replaced({"hdl.omap.records": kinds}):
        part = made(front)
    reset, o = b.free("reset") & front.idle, front.records.o
    b.m.submodules.dut = ResetInserter(reset)(part)
    decision, moved = front.decision, Signal()
    b.d.sync += moved.eq(Mux(front.idle, b.free("moved"), moved))
    b.d.comb += [
        front.begin.eq(b.free("an operation begins")),
        front.records.clear.eq(front.idle & b.free("a run begins")),
        front.offset.eq(Cat(Const(0, 12), moved)),
        Value.cast(decision).eq(b.free("decision", len(Value.cast(decision)))),
    ]
    b.assume("it is a page's", mark >= SMALL.hbm_bins)
    for one, two in ((0, 1), (2, 3)):
        b.assume(
            "the bins of a pair differ",
            ~front.records.i.valid | (decision.bins[one] != decision.bins[two]),
        )
    count, here = Signal(_COUNT), []
    for side in (o.p.side0, o.p.side1):
        here.append(o.valid & side.host & (side.page == mark - SMALL.hbm_bins))
        b.check(
            "an operation has the count of those before it that showed the page",
            ~here[-1] | (side.counter[:_COUNT] == count),
        )
    shown = here[0] | here[1]
    b.d.sync += count.eq(count + shown)
    flying = Signal(range(40))
    b.d.sync += flying.eq(Mux(shown, 39, flying - (flying != 0)))
    b.check("its record has it once it is written", (flying > 39 - 11) | (memory.cell == count))
    b.cover(
        "the page is shown again while the first one's records are on their way",
        shown & (flying > 0),
    )
    return b


def once() -> Bench:
    """Any operations, one of them marked, between the back's first stage and its last."""
    b, ticket = Bench(), ticket_layout(SMALL)
    reader, last = ItemReader(SMALL, ticket), Completion(SMALL, ticket)
    reset = b.free("reset")
    for name, unit in (("reader", reader), ("last", last)):
        b.m.submodules[name] = ResetInserter(reset)(made(unit))
    mark, marked, sealed = Signal(), Signal(), Signal()
    b.d.comb += [
        last.ends.eq(reader.o.ends),
        last.i.eq(reader.o.stage),
        reader.i.valid.eq(b.free("valid")),
        reader.go.eq(b.free("go")),
        mark.eq(b.free("this operation") & ~marked),
    ]
    for name in ("ticket", "request"):
        bits = Value.cast(getattr(reader, name))
        b.d.comb += bits.eq(b.free(name, len(bits)))
    for name in ("page", "data", "found", "kept"):
        for k, side in enumerate(getattr(reader, name)):
            b.d.comb += Value.cast(side).eq(b.free(f"{name} {k}", len(Value.cast(side))))
    for side in reader.i.p.sides:
        b.d.comb += [side.counter.eq(mark), side.page.eq(mark)]
    b.d.sync += marked.eq(marked | (mark & reader.i.valid & reader.i.ready))
    of_mark = Signal()
    sides = last.stage.op.sides
    b.d.comb += of_mark.eq(last.sealed & sides[0].counter[0])
    b.d.sync += sealed.eq(sealed | of_mark)
    b.check("an operation's pages are sealed once", ~sealed | ~of_mark)
    b.check(
        "each page goes with its count",
        ~last.sealed | Cat(side.page[0] == of_mark for side in sides).all(),
    )
    b.cover("its pages are sealed, and then another one's", sealed & last.sealed)
    return b


def handed() -> Bench:
    """Whole pages on their way to sealers."""
    b, sealers = Bench(), []

    def sealer(stub, m, free) -> dict[str, Any]:
        sealers.append(stub)
        return {}

    with replaced({"hdl.omap.closing": {"Sealer": anything(b, sealer)}}):
        dut = PageClosing(SMALL)
        b.m.submodules.dut = made(dut)
    closing = Value.cast(dut.closing)
    b.d.comb += [dut.sealed.eq(b.free("sealed")), closing.eq(b.free("places", len(closing)))]
    nonces = []
    for k in range(2):
        b.d.comb += [
            dut.hosts[k].eq(b.free(f"host {k}")),
            dut.pages[k].eq(b.free(f"page {k}", SMALL.bin_bits)),
            dut.counters[k].eq(b.free(f"count {k}", 64)),
        ]
        nonces.append(Cat((dut.counters[k] + 1)[:64], dut.pages[k]))
    hosts = [dut.sealed & dut.hosts[k] for k in range(2)]
    b.assume(
        "both pages have sealers of their own",
        ~(hosts[0] & hosts[1]) | (dut.closing.sealers[0] != dut.closing.sealers[1]),
    )
    for stub in sealers:
        fits = [hosts[k] & (stub.i.p.nonce == nonces[k]) for k in range(2)]
        b.check(
            "what is sealed is a page's number and its count", ~stub.i.valid | fits[0] | fits[1]
        )
    given = sum(stub.i.valid for stub in sealers)
    b.check("each page is given once", given <= hosts[0] + hosts[1])
    b.cover("both are", given == 2)
    return b


def pieces() -> Bench:
    """Texts of two pieces, all of one page and count."""
    b, cores = Bench(), []

    def behave(stub, m, free) -> dict[str, Any]:
        cores.append(stub)
        return core(stub, m, free)

    with replaced({"hdl.omap.sealing": {"Sponge": anything(b, behave)}}):
        dut = Sealer(bus_bytes=16, chunks=2, blocks=1, rounds=4)
        part = made(dut)
    b.m.submodules.dut = ResetInserter(reset := b.free("reset"))(part)
    nonce, piece = b.constant("page and count", 96), Signal()
    b.d.comb += [
        dut.i.valid.eq(b.free("valid")),
        dut.i.p.nonce.eq(nonce),
        dut.o.ready.eq(b.free("ready")),
        dut.taken.eq(b.free("taken")),
    ]
    begins = cores[0].start
    b.d.sync += piece.eq((piece ^ begins) & ~reset)
    b.check(
        "a piece's nonce has its page, count and number",
        ~begins | (cores[0].nonce == Cat(nonce, piece)),
    )
    b.cover("a second piece begins", begins & piece)
    return b


def pairs() -> Bench:
    """Pairs of any words."""
    b = Bench()
    words = lambda m, words, *rest: [b.free(f"word {k}", len(word)) for k, word in enumerate(words)]
    with replaced({"hdl.omap.pairs": {"permuted": lambda _: words}}):
        dut = PairGenerators(SMALL)
        b.m.submodules.dut = ResetInserter(b.free("reset"))(made(dut))
    b.d.comb += [dut.start.eq(b.free("start")), dut.o.ready.eq(b.free("ready"))]
    o = dut.o.p
    b.check(
        "the bins of a pair differ", ~dut.o.valid | ((o.new0 != o.new1) & (o.shown0 != o.shown1))
    )
    b.cover("a pair is there", dut.o.valid)
    return b


PROOFS = [
    Proof(
        "hdl.omap.Records",
        "what is handed on of a page has the count of all operations before it that showed the page, over runs "
        f"that end; counts of {_COUNT} bit; from the first decision on",
        counts,
        (
            Defect(
                "hdl.omap.records",
                "(self.config.records_at + (number << shift))",
                "(self.config.records_at + (number << shift) + self.offset)",
            ),
            Defect(
                "hdl.omap.records",
                "old.counter + hosts[k]",
                "old.counter + (hosts[k] & decision.keep)",
            ),
        ),
        cuts=("HBM keeps what is written, and its deadlines", "the bins of a pair differ"),
        method="bounded",
        depth=32,
    ),
    Proof(
        "hdl.omap.PairGenerators",
        "the bins of a pair differ",
        pairs,
        Defect("hdl.omap.pairs", "(high < config.bins) & (low != high)", "(high < config.bins)"),
        cuts=("the permutation gives any words",),
    ),
    Proof(
        "hdl.omap.Completion",
        "behind `ItemReader`: each operation's pages are sealed at most once, each with its count, under any "
        "soft resets",
        once,
        Defect(
            "hdl.omap.completion",
            "self.sealed.eq(self.answer & (self.at == 0))",
            "self.sealed.eq(self.answer)",
        ),
        cuts=("pages and frames come at any times",),
    ),
    Proof(
        "hdl.omap.PageClosing",
        "each page is given to one sealer, with its number and one more than its count as the nonce",
        handed,
        Defect("hdl.omap.closing", "Mux(two, self.pages[1], self.pages[0])", "self.pages[0]"),
        cuts=("sealers do anything",),
    ),
    Proof(
        "hdl.omap.Sealer",
        "the nonces of a page's pieces have its number, its count and the piece in bits of their own; two pieces",
        pieces,
        Defect(
            "hdl.omap.sealing",
            "m.d.sync += chunk.eq(Mux(final, 0, chunk + 1))",
            "m.d.sync += chunk.eq(0)",
        ),
        cuts=("the cipher ends at any times",),
    ),
]
