# amaranth: UnusedElaboratable=no
"""Strider: reads its own page alone, and always gets on, whatever the words of a page say."""

from __future__ import annotations

import sys

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from harness import Bench, Defect, Proof
from harness.small import shrunk

from penstock.hdl.modules import Submodules
from penstock.hdl.strider.decode import Decoder
from penstock.hdl.strider.layouts import Kind
from penstock.hdl.strider.pages import PageBuffers
from penstock.hdl.strider.pipeline import StriderPipeline
from penstock.hdl.strider.sequencer import PageSequencer
from penstock.models.heap.page import LP_SIZE, PAGE_HEADER_SIZE
from penstock.models.heap.schema import Column, Schema
from penstock.models.numerics.formats import parse_format
from penstock.models.strider.config import PortConfig, WalkConfig
from penstock.models.strider.layout import Source, TupleLayout, place
from penstock.models.strider.program import port_config
from testbench.strider_cases import regular_case


class FreeBanks(Submodules):
    """Parts as submodules, but for the banks of the page buffers: these read what they like. What
    is asked of them is kept.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.asked: list[dict] = []

    def instance(self, m: Module, label: str, name: str, make, *, reset=None, **inputs):
        if name != "penstock_bank":
            return super().instance(m, label, name, make, reset=reset, **inputs)
        seen = {}
        for port, value in inputs.items():
            seen[port] = Signal(len(Cat(value)), name=f"{label}_{port}")
            m.d.comb += seen[port].eq(value)
        self.asked.append(seen)
        return {"read": self.words[len(self.asked) - 1]}


class AnyDecoder(wiring.Component):
    """Says of a page's words whatever it likes, but for what the proof of `Decoder` shows: an error that the tag
    brings is one, the first error stays, and with `held` what is said of a page stays until a page's header is read.
    """

    def __init__(self, config, bench: Bench, *, held: bool) -> None:
        self.bench, self.held = bench, held
        super().__init__(Decoder(config).signature)

    def elaborate(self, platform):
        m, tag, error = Module(), self.tag, Signal(8)
        told, header = Signal(), Signal()
        for name, member in self.signature.members.items():
            if member.flow is Out:
                value = self.bench.free(f"decoder.{name}", member.shape)
                if name == "code":
                    value = Mux(error != 0, error, value | told)
                elif self.held and name == "page":
                    before = Signal(member.shape, name=f"before_{name}")
                    m.d.sync += before.eq(getattr(self, name))
                    value = Mux(header, Value.cast(value), Value.cast(before))
                m.d.comb += getattr(self, name).eq(value)
        m.d.sync += [
            error.eq(self.code),
            told.eq(tag.code != 0),
            header.eq(tag.kind == Kind.PAGE),
        ]
        return m


class AnyPages(wiring.Component):
    """Page buffers that are full at any time, with any words in them."""

    def __init__(self, bench: Bench, *, parts, **parameters) -> None:
        self.bench = bench
        super().__init__(PageBuffers(parts=parts, **parameters).signature)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [
            self.full.eq(self.bench.free("a page is written")),
            self.window.eq(self.bench.free("window", len(self.window))),
        ]
        return m


def decoder(**parameters) -> Bench:
    """What `AnyDecoder` keeps of a decoder: for any tags and words."""
    b = Bench()
    dut = b.m.submodules.dut = Decoder(_config(**parameters))
    for name, member in dut.signature.members.items():
        if member.flow is In:
            value = Value.cast(getattr(dut, name))
            b.d.comb += value.eq(b.free(name, len(value)))
    b.show("code", dut.code)
    before = b.past(dut.code)
    b.check("the first error stays", (before == 0) | (dut.code == before))
    b.check("an error of the tag is one", (b.past(dut.tag.code) == 0) | (dut.code != 0))
    header = b.past(dut.tag.kind == Kind.PAGE)
    page = Value.cast(dut.page)
    b.check("`page` changes with a page's header alone", header | (b.past(page) == page))
    b.cover("an error", before != 0)
    return b


def _mixed() -> WalkConfig:
    """Columns that may be NULL, behind a text: where they lie is in the tuple alone. A tuple whose
    column of the kernel's is NULL is left out.
    """
    names = (("note", "text"), ("small", "int2"), ("wide", "float8"), ("flag", "bool"))
    schema = Schema("t", tuple(Column(name, type_) for name, type_ in names), 1024)
    beats, fields = place({"x": (1, 2), "y": (1, 1)}, 2)
    at = {field.name: field.position for field in fields}
    sources = (Source(1, 0, 1, at["y"]), Source(2, 0, 1, at["x"]), Source(3, 0, 1, at["x"] + 1))
    layout = TupleLayout(2, beats, fields, sources, on_null="skip")
    return WalkConfig(schema, layout, parse_format("float32"))


def _config(
    *,
    bus_bytes: int = 16,
    features: int = 2,
    lean: bool = True,
    array: bool = False,
    latency: int = 4,
    page_size: int = 128,
    mixed: bool = False,
) -> PortConfig:
    walk = (
        _mixed()
        if mixed
        else regular_case(
            1,
            features=features,
            lanes=2,
            format=parse_format("float32"),
            page_size=1024,
            array=array,
        ).walk
    )
    config = port_config(walk, bus_bytes, lean=lean, latency=latency)
    object.__setattr__(config, "page_size", page_size)  # smaller than a port's may be
    return config


class Pages:
    """A Strider whose pages come by credits.

    `decoder`, `buffers`: what stands for the Strider's own.
    """

    def __init__(self, b: Bench, *, decoder=None, buffers=None, **parameters) -> None:
        self.config = config = _config(**parameters)
        self.parts = parts = FreeBanks(b)
        parts.words = [b.free(f"word {k}", 8 * config.bus_bytes) for k in range(2)]
        others = {"Decoder": decoder, "PageBuffers": buffers}
        self.dut, b.m.submodules.dut = dut, _ = shrunk(
            sys.modules["penstock.hdl.strider.pipeline"],
            lambda: StriderPipeline(config, parts),
            **{name: other for name, other in others.items() if other is not None},
        )
        write, self.room = b.free("write"), b.free("room")
        words = config.page_size // config.bus_bytes
        # whole pages, the word that comes next, pages written and freed
        self.full, place, self.freed, self.target = (
            Signal(range(config.buffers + 1)),
            Signal(range(words)),
            Signal(range(config.buffers)),
            Signal(range(config.buffers)),
        )
        done = write & (place == words - 1) if buffers is None else dut.pages.full
        b.d.comb += [dut.write.eq(write), dut.room.eq(self.room)]
        b.d.sync += [self.full.eq(self.full + done - dut.freed), place.eq(place + write)]
        if config.fixed is None:
            length = b.constant("program_length", len(dut.program_length))
            b.d.comb += dut.program_length.eq(length)
        after = lambda index: Mux(index == config.buffers - 1, 0, index + 1)
        with b.m.If(done):
            b.d.sync += self.target.eq(after(self.target))
        with b.m.If(dut.freed):
            b.d.sync += self.freed.eq(after(self.freed))
        b.assume("room stays until it is used", ~b.past(self.room & ~dut.taken) | self.room)
        b.assume(
            "pages come by credits",
            ~(write if buffers is None else done) | (self.full != config.buffers),
        )
        self.entry, self.alive = dut.front.pointers.entry, Signal()
        b.d.comb += self.alive.eq(dut.code == 0)
        for name, value in (
            ("pages that are there", self.full),
            ("taken", dut.taken),
            ("freed", dut.freed),
            ("kind", dut.tag.kind),
            ("code", dut.code),
            ("the next line pointer's word", self.entry),
        ):
            b.show(name, value)
        b.cover("a page ends", dut.freed)
        b.cover("a page is at fault", ~self.alive)


def _among_any(b: Bench, *, held: bool, **parameters) -> Pages:
    """A Strider with any pages, and any decoder that keeps the contract."""
    return Pages(
        b,
        decoder=lambda config: AnyDecoder(config, b, held=held),
        buffers=lambda **given: AnyPages(b, **given),
        **parameters,
    )


def reads(**parameters) -> Bench:
    b = Bench()
    strider = Pages(b, **parameters)
    dut, config, full, alive = strider.dut, strider.config, strider.full, strider.alive
    b.check("a page is freed only when there is one", ~dut.freed | (full != 0))
    b.check("a slot is used only where there is room", ~dut.taken | strider.room)
    # a window's words are asked for two cycles before it is looked at, from the oldest page
    there = b.past(b.past(full != 0))
    mine = b.past(b.past(dut.pages.page == strider.freed))
    looked = dut.tag.kind != Kind.NONE
    b.check("what is looked at was read from a page that is there", ~(alive & looked) | there)
    b.check("what is looked at was read from the oldest page", ~(alive & looked) | mine)
    for seen in strider.parts.asked:
        bits = (config.buffers - 1).bit_length()
        b.check(
            "words are read inside the page buffer that is chosen",
            seen["place"][len(seen["place"]) - bits :] == dut.pages.page,
        )
        b.check(
            "words are written where the page is filled",
            ~seen["write"] | (seen["to"][len(seen["to"]) - bits :] == strider.target),
        )
    b.check(
        "it never reads from a page that is being filled",
        (full == 0) | (full == config.buffers) | (dut.pages.page != strider.target),
    )
    b.cover("data are looked at", alive & (dut.tag.kind == Kind.DATA))
    return b


_FIRST = PAGE_HEADER_SIZE // LP_SIZE  # the first line pointer, in words


def pointers(**parameters) -> Bench:
    """The line pointers of a page are used in turn, each once, and there are no more than fit."""
    b = Bench()
    strider = _among_any(b, held=True, **parameters)
    dut, entry, alive = strider.dut, strider.entry, strider.alive
    before, fresh = b.past(entry, init=_FIRST), Signal(init=1)
    back = entry < before
    with b.m.If(dut.freed):
        b.d.sync += fresh.eq(1)
    with b.m.Elif(back):
        b.d.sync += fresh.eq(0)
    b.check(
        "line pointers are inside the page",
        (entry >= _FIRST) & (entry <= strider.config.page_size // LP_SIZE),
    )
    b.check(
        "the next line pointer is the same, the one behind it, or a new page's first",
        ~alive | (entry == before) | (entry == before + 1) | (entry == _FIRST),
    )
    b.check("a page's line pointers begin once", ~(alive & back) | fresh)
    b.cover("a page's second line pointer", entry == _FIRST + 1)
    b.cover("a page's line pointers begin again", alive & back)
    return b


def progress(bound: int, **parameters) -> Bench:
    b = Bench()
    strider = _among_any(b, held=False, **parameters)
    dut, entry, alive = strider.dut, strider.entry, strider.alive
    moved = Signal()
    b.d.comb += moved.eq(dut.taken | dut.freed | ~alive | (entry != b.past(entry)))
    b.within(
        b.check,
        f"within {bound} cycles it uses a line pointer, gives a tuple, ends the page or fails",
        (strider.full != 0) & strider.room & ~moved,
        bound,
    )
    b.cover("a tuple is given", dut.taken & ~dut.freed & alive)
    return b


_POINTERS, _PIPELINE = "hdl.strider.pointers", "hdl.strider.pipeline"
_DECODE = "hdl.strider.decode"
_BUILT_IN = "2 columns, program built in, 16-byte bus"
_FREE = f"with every word read free; {_BUILT_IN}, page of 64 bytes"

_KNOWN_POINTER = Defect(
    _POINTERS,
    "with m.Elif(arrives):\n            m.d.sync += self.busy.eq(0)",
    "with m.Elif(arrives & self.known):\n            m.d.sync += self.busy.eq(0)",
)


def ring(slots: int) -> Bench:
    """A port's ring: whatever a host says is there, as long as it only grows, up to 32 pages."""
    b = Bench()
    b.m.submodules.dut = dut = PageSequencer(
        bus_bytes=8,
        page_size=16,
        credits=2,
        address_width=8,
        count_width=3,
        epochs_width=3,
        ring=slots,
    )
    asked, there = Signal(6), Signal(6)
    more, started = b.free("more"), Signal()
    start = b.free("start")
    b.assume("it is started once", ~(start & started))
    b.d.sync += started.eq(started | start)
    moved = dut.o.valid & dut.o.ready
    pages, epochs = b.constant("pages", 2), b.constant("epochs", 2)
    b.m.d.comb += [
        dut.start.eq(start),
        dut.pages.eq(pages),
        dut.epochs.eq(epochs),
        dut.stride.eq(16),
        dut.ready.eq(there),
        dut.free.eq(moved),
        dut.o.ready.eq(b.free("taken")),
    ]
    with b.m.If(more & started & (there != 32)):
        b.d.sync += there.eq(there + 1)
    b.d.sync += asked.eq(asked + moved)
    b.check("no page is asked for before it is there", ~moved | (asked < there))
    slot = Signal(range(slots))
    with b.m.If(moved):
        b.d.sync += slot.eq(Mux(slot == slots - 1, 0, slot + 1))
    b.check("page n lies in slot n modulo the ring", ~moved | (dut.o.p.address == slot << 4))
    b.check("no more pages than of all epochs", ~moved | (asked < pages * epochs))
    b.cover("a page of the second round is read", moved & (asked == slots))
    return b


PROOFS = [
    Proof(
        "hdl.strider.sequencer.PageSequencer",
        "with a ring of three slots: asks for no page before the host says that it is there, and for page n in slot n "
        "modulo three; 3 pages and 3 epochs at most",
        lambda: ring(3),
        (
            Defect("hdl.strider.sequencer", "self.ready - asked - moved", "self.ready - asked"),
            Defect(
                "hdl.strider.sequencer",
                "last.eq(slot == self.ring - 1)",
                "last.eq(slot == self.ring)",
            ),
        ),
    ),
    Proof(
        "hdl.strider.StriderPipeline",
        "reads pages that are there, the oldest alone, and the page buffer that is chosen (the "
        f"address inside it has no more bits than a page), {_FREE}",
        lambda: reads(page_size=64),
        Defect(_PIPELINE, "return full != 0", "return full == full"),
    ),
    Proof(
        "hdl.strider.StriderPipeline",
        "within 18 cycles it uses a line pointer, gives a tuple, ends the page or fails, with any "
        f"pages and any decoder that keeps its contract; {_BUILT_IN}",
        lambda: progress(18),
        _KNOWN_POINTER,
        search=46,
    ),
    Proof(
        "hdl.strider.StriderPipeline",
        "the same within 36 cycles, where columns may be NULL and lie behind a text; program built "
        "in, 16-byte bus",
        lambda: progress(36, mixed=True),
        _KNOWN_POINTER,
        search=46,
        seconds=400,
        long="140 s",
    ),
    Proof(
        "hdl.strider.StriderPipeline",
        "a page's line pointers are used in turn, each once, all of them inside the page, with any "
        f"pages and any decoder that keeps its contract; {_BUILT_IN}, page of 64 bytes",
        lambda: pointers(page_size=64),
        Defect(
            _POINTERS,
            "self.final.eq(self.entry + 2 == behind)",
            "self.final.eq(self.entry + 1 == behind)",
        ),
        seconds=300,
        long="10 s",
    ),
]

PROOFS.extend(
    Proof(
        "hdl.strider.decode.Decoder",
        "the contract that these rest on: an error of the tag is "
        f"one, the first error stays, what is said of a page stays until a page's header is read; {words}",
        lambda parameters=parameters: decoder(**parameters),
        defect,
    )
    for words, parameters, defect in (
        (
            "page of 128 bytes, an array's elements among the columns",
            {"array": True},
            Defect(_DECODE, "self.code.eq(first)", "self.code.eq(last)"),
        ),
        (
            "page of 64 bytes, 2 columns",
            {"page_size": 64},
            Defect(
                _DECODE,
                "comes = (tag.kind == Kind.PAGE) & (tag.part == part)",
                "comes = tag.part == part",
            ),
        ),
        (
            "page of 128 bytes, columns that may be NULL behind a text",
            {"mixed": True},
            Defect(_DECODE, "m.d.comb += self.code.eq(first)", "m.d.comb += self.code.eq(last)"),
        ),
        (
            "page of 128 bytes, 2 columns",
            {},
            Defect(
                _DECODE,
                "comes = (tag.kind == Kind.PAGE) & (tag.part == part)",
                "comes = tag.part == part",
            ),
        ),
    )
)
