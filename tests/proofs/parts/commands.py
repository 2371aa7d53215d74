# amaranth: UnusedElaboratable=no
"""Splitter, BurstReader and BurstWriter: the bursts of commands, and what passes through them."""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal, Value
from harness import Bench, Defect, Proof
from harness.environment import WriteMemory

from penstock.hdl.memory import BurstReader, BurstWriter, Prefetcher
from penstock.hdl.memory.splitter import Splitter
from penstock.models.memory.burst_split import window_beats


class Bursts:
    """Gives commands, and checks the bursts that they become: in order, as few as there can be,
    each as AXI allows it.

    `left`: beats of the command under way that no burst has asked for yet; `beats`: of the burst
    that is offered.
    """

    def __init__(self, b: Bench, i, valid, ready, address, length, *, bus_bytes: int) -> None:
        shift, window = (bus_bytes - 1).bit_length(), window_beats(bus_bytes)
        given, counts = len(i.p.address), len(i.p.beats)
        word = b.free("command.address in words", given - shift)
        b.d.comb += [
            i.valid.eq(b.free("command.valid")),
            i.p.address.eq(word << shift),
            i.p.beats.eq(b.free("command.beats", counts)),
        ]
        b.assume("a command has at least one beat", i.p.beats != 0)
        b.steady(b.assume, "command (given)", i.valid, i.ready, i.payload)
        for name, value in (
            ("command.ready", i.ready),
            ("burst.valid", valid),
            ("burst.ready", ready),
            ("burst.address", address),
            ("burst.length", length),
        ):
            b.show(name, value)
        due, self.left = Signal(given - shift, name="due"), Signal(counts, name="left")
        self.beats, self.taken, self.accepted = Signal(9), Signal(), Signal()
        b.d.comb += [
            self.beats.eq(length + 1),
            self.taken.eq(valid & ready),
            self.accepted.eq(i.valid & i.ready),
        ]
        with b.m.If(self.taken):
            b.d.sync += [due.eq(due + self.beats), self.left.eq(self.left - self.beats)]
        with b.m.If(self.accepted):
            b.d.sync += [due.eq(word), self.left.eq(i.p.beats)]
        last = self.beats == self.left
        inside = Signal(20)
        b.d.comb += inside.eq(address[:12] + (self.beats << shift))
        b.check(
            "a command is accepted when the one before is split",
            ~self.accepted | (self.left == 0) | (self.taken & last),
        )
        b.check("a burst is offered only for a command", ~valid | (self.left != 0))
        b.check(
            "bursts follow each other without gap or overlap", ~valid | (address == due << shift)
        )
        b.check("a burst is not longer than what is left", ~valid | (self.beats <= self.left))
        b.check("a burst has at most 256 beats", ~valid | (self.beats <= 256))
        b.check("a burst does not cross 4 KiB", ~valid | (inside <= 4096))
        b.check(
            "bursts are as few as there can be",
            ~valid | last | ((address[shift:] + self.beats)[: (window - 1).bit_length()] == 0),
        )
        b.steady(b.check, "burst", valid, ready, address, length)
        if counts > (window - 1).bit_length():
            b.cover("a command takes two bursts", self.taken & ~last)


def splitter(bus_bytes: int, address_width: int, beats_width: int, *, inner: bool = False) -> Bench:
    b = Bench()
    dut = Splitter(bus_bytes=bus_bytes, address_width=address_width, beats_width=beats_width)
    if inner:
        m, named = b.inside(dut)
        b.m.submodules.dut = m
    else:
        b.m.submodules.dut = dut
    b.d.comb += [dut.enable.eq(b.free("enable")), dut.o.ready.eq(b.free("burst taken"))]
    bursts = Bursts(
        b, dut.i, dut.o.valid, dut.o.ready, dut.o.p.address, dut.o.p.length, bus_bytes=bus_bytes
    )
    b.check("a burst is offered in each cycle while one is left", dut.o.valid == (bursts.left != 0))
    if inner:  # what induction needs to know of the registers inside
        last = bursts.beats == bursts.left
        b.check("inside: `final` marks the last burst", ~dut.o.valid | (named["final"] == last))
        b.check(
            "inside: `after` is what is left behind it",
            ~dut.o.valid | last | (named["after"] == bursts.left - bursts.beats),
        )
    b.cover("a command follows another at once", bursts.accepted & bursts.taken)
    return b


def _followed(b: Bench, begin, beats, ahead, moved, bits: int):
    """Follow one run of `beats` beats, chosen when it begins behind `ahead` beats; return whether
    its turn has come, and how many are left.
    """
    chosen, on = b.free("followed from here"), Signal()
    before, left = Signal(bits), Signal(bits)
    with b.m.If(begin & chosen & ~on):
        b.d.sync += [on.eq(1), before.eq(ahead), left.eq(beats)]
    with b.m.Elif(on & moved):
        with b.m.If(before != 0):
            b.d.sync += before.eq(before - 1)
        with b.m.Else():
            b.d.sync += [left.eq(left - 1), on.eq(left != 1)]
    b.show("beats before the followed one", before)
    return on, before, left


def _full_words(b: Bench, bus, channel: str, bus_bytes: int) -> None:
    """Check what is the same for all bursts."""
    size, kind, number = (getattr(bus, channel + name) for name in ("size", "burst", "id"))
    b.check(
        "bursts are INCR, of full bus words, with identifier 0",
        ~getattr(bus, f"{channel}valid")
        | ((size == (bus_bytes - 1).bit_length()) & (kind == 1) & (number == 0)),
    )


def reader(
    bus_bytes: int = 128, address_width: int = 13, beats_width: int = 2, commands: int = 2
) -> Bench:
    b = Bench()
    dut = b.m.submodules.dut = BurstReader(
        bus_bytes=bus_bytes, address_width=address_width, beats_width=beats_width, commands=commands
    )
    bus = dut.bus
    b.d.comb += [
        bus.arready.eq(b.free("arready")),
        bus.rvalid.eq(b.free("rvalid")),
        bus.rresp.eq(b.free("rresp", 2)),
        bus.rdata.eq(b.free("rdata", len(bus.rdata))),
        bus.rlast.eq(b.free("rlast")),
        dut.o.ready.eq(b.free("o.ready")),
    ]
    bursts = Bursts(b, dut.i, bus.arvalid, bus.arready, bus.araddr, bus.arlen, bus_bytes=bus_bytes)
    _full_words(b, bus, "ar", bus_bytes)
    bits, beat = beats_width + 4, Signal()
    asked, wanted = Signal(bits, name="asked"), Signal(bits, name="wanted")
    b.d.comb += beat.eq(bus.rvalid & bus.rready)
    b.d.sync += [
        asked.eq(asked + Mux(bursts.taken, bursts.beats, 0) - beat),
        wanted.eq(wanted + Mux(bursts.accepted, dut.i.p.beats, 0) - beat),
    ]
    b.assume("R comes only after its AR", ~bus.rvalid | (asked != 0))
    b.steady(b.assume, "R (given)", bus.rvalid, bus.rready, bus.rdata[:2], bus.rresp)
    b.steady(b.check, "o", dut.o.valid, dut.o.ready, dut.o.p.data[:2], dut.o.p.last)
    b.check(
        "each beat of R is passed as it comes",
        (dut.o.valid == bus.rvalid)
        & (~bus.rvalid | ((bus.rready == dut.o.ready) & (dut.o.p.data == bus.rdata))),
    )
    b.check("`idle`: all that was asked for has come", dut.idle == (wanted == 0))
    b.check("what is wanted is asked for or left", wanted == asked + bursts.left)
    b.check("`error`: a beat with an error response is taken", dut.error == (beat & bus.rresp[1]))
    b.check(
        "no dead lock: a command waits only while AR or R has something to do",
        dut.i.ready | bus.arvalid | (asked != 0),
    )
    on, before, left = _followed(b, bursts.accepted, dut.i.p.beats, wanted - beat, beat, bits)
    b.check(
        "`last` marks the command's last beat, and no other",
        ~(on & dut.o.valid & (before == 0)) | (dut.o.p.last == (left == 1)),
    )
    b.check(
        "`last` marks the beat before the command",
        ~(on & dut.o.valid & (before == 1)) | dut.o.p.last,
    )
    last = on & dut.o.valid & (before == 0) & (left == 1)
    b.cover("the last beat of a command", last)
    if commands > 1:
        b.cover("the last beat of a command behind another", last & (wanted > 1))
    return b


def writer(
    bus_bytes: int = 128,
    address_width: int = 13,
    beats_width: int = 2,
    ahead: int = 2,
    strobes: bool = False,
) -> Bench:
    b = Bench()
    dut = b.m.submodules.dut = BurstWriter(
        bus_bytes=bus_bytes,
        address_width=address_width,
        beats_width=beats_width,
        ahead=ahead,
        strobes=strobes,
    )
    bus = dut.bus
    given = Value.cast(dut.i_data.payload)
    b.d.comb += [
        bus.awready.eq(b.free("awready")),
        bus.wready.eq(b.free("wready")),
        bus.bvalid.eq(b.free("bvalid")),
        bus.bresp.eq(b.free("bresp", 2)),
        dut.i_data.valid.eq(b.free("i_data.valid")),
        given.eq(b.free("i_data.payload", len(given))),
    ]
    b.steady(b.assume, "i_data (given)", dut.i_data.valid, dut.i_data.ready, given[:2])
    bursts = Bursts(b, dut.i, bus.awvalid, bus.awready, bus.awaddr, bus.awlen, bus_bytes=bus_bytes)
    _full_words(b, bus, "aw", bus_bytes)
    bits, beat = beats_width + 4, Signal()
    owed, unanswered, ended = Signal(bits), Signal(2), Signal(3)
    offered, held = Signal(), Signal()
    b.d.comb += [beat.eq(bus.wvalid & bus.wready), offered.eq(bus.awvalid & ~held)]
    answered = bus.bvalid & bus.bready
    b.d.sync += [
        held.eq(bus.awvalid & ~bus.awready),
        owed.eq(owed + Mux(offered, bursts.beats, 0) - beat),
        unanswered.eq(unanswered + bursts.taken - answered),
        ended.eq(ended + (beat & bus.wlast) - answered),
    ]
    b.assume(
        "B comes only after the burst's AW and its last W",
        ~bus.bvalid | ((ended != 0) & (unanswered != 0)),
    )
    b.assume("at most 3 bursts wait for B", ~bursts.taken | answered | (unanswered != 3))
    b.steady(b.check, "W", bus.wvalid, bus.wready, bus.wdata[:2], bus.wlast)
    b.check("W never comes before its AW was offered", ~bus.wvalid | (owed != 0))
    b.check(
        "data pass while a burst that was offered lacks some",
        (bus.wvalid == (dut.i_data.valid & (owed != 0)))
        & (~bus.wvalid | (bus.wdata == (dut.i_data.p.word if strobes else given))),
    )
    b.check("a word is taken when it is written", (dut.i_data.ready & dut.i_data.valid) == beat)
    b.check(
        "the strobes are those given" if strobes else "all strobes are high",
        ~bus.wvalid | (bus.wstrb == dut.i_data.p.strobe if strobes else bus.wstrb.all()),
    )
    b.check("BREADY is always high", bus.bready)
    b.check(
        "`idle`: every accepted command is written and answered",
        dut.idle == (Cat(bursts.left, owed, unanswered) == 0),
    )
    b.check("`error`: an error response is taken", dut.error == (answered & bus.bresp[1]))
    b.check(
        "no dead lock: a command waits only while AW or W has something to do",
        dut.i.ready | bus.awvalid | (owed != 0),
    )
    on, before, left = _followed(b, offered, bursts.beats, owed - beat, beat, bits)
    b.check(
        "WLAST marks the burst's last beat, and no other",
        ~(on & bus.wvalid & (before == 0)) | (bus.wlast == (left == 1)),
    )
    b.check("WLAST marks the beat before the burst", ~(on & bus.wvalid & (before == 1)) | bus.wlast)
    b.cover("a burst's last beat", on & bus.wvalid & (before == 0) & (left == 1))
    if ahead > 1:
        b.cover("a burst waits behind another", on & (before != 0))
    return b


def gets_on(bound: int) -> Bench:
    """A writer whose data come within 2 cycles, before a memory that is fair but may let AW and W wait
    for each other."""
    b = Bench()
    dut = b.m.submodules.dut = BurstWriter(bus_bytes=128, address_width=13, beats_width=2, ahead=2)
    bus = dut.bus
    memory = WriteMemory(b, bus, "memory", opened=2, fair=1, beats=4)
    b.d.comb += dut.i_data.valid.eq(b.free("i_data.valid"))
    b.steady(b.assume, "i_data (given)", dut.i_data.valid, dut.i_data.ready)
    b.within(b.assume, "data are given within 2 cycles", ~dut.i_data.valid, 1)
    bursts = Bursts(b, dut.i, bus.awvalid, bus.awready, bus.awaddr, bus.awlen, bus_bytes=128)
    moved = memory.begun | memory.beat | memory.answered
    waited = b.within(
        b.check,
        f"within {bound} cycles AW, W or B moves, while something is to be written",
        (dut.i.valid | (bursts.left != 0) | (memory.owed != 0) | (memory.open != 0)) & ~moved,
        bound,
    )
    b.check_only("AW, W or B moves")
    b.cover(f"something moves after {bound // 2} cycles", waited == bound // 2)
    b.cover(
        "all words pass while their AW waits",
        memory.held & (memory.owed == 0) & b.past(memory.last),
    )
    return b


def prefetcher(bus_bytes: int = 128, depth: int = 2, burst: int = 1) -> Bench:
    """Regions of up to 7 words, a consumer and a memory that do as they like."""
    b = Bench()
    dut = b.m.submodules.dut = Prefetcher(
        bus_bytes=bus_bytes, address_width=13, beats_width=3, depth=depth, burst=burst
    )
    bus, shift = dut.bus, (bus_bytes - 1).bit_length()
    b.d.comb += [
        dut.i.valid.eq(b.free("region.valid")),
        dut.i.p.address.eq(b.free("region.address in words", 13 - shift) << shift),
        dut.i.p.beats.eq(b.free("region.beats", 3)),
        bus.arready.eq(b.free("arready")),
        bus.rvalid.eq(b.free("rvalid")),
        bus.rdata.eq(b.free("rdata", len(bus.rdata))),
        bus.rresp.eq(b.free("rresp", 2)),
        dut.o.ready.eq(b.free("o.ready")),
    ]
    due, left = Signal(13 - shift), Signal(4)  # the next word to ask for, and how many
    b.assume("a region has at least one word", dut.i.p.beats != 0)
    b.assume("a region is given when the one before is asked for", ~dut.i.valid | (left == 0))
    b.steady(b.assume, "region (given)", dut.i.valid, dut.i.ready, dut.i.payload)
    b.steady(b.assume, "R (given)", bus.rvalid, bus.rready, bus.rdata[:2], bus.rresp)
    accepted, asked = dut.i.valid & dut.i.ready, bus.arvalid & bus.arready
    comes, leaves = bus.rvalid & bus.rready, dut.o.valid & dut.o.ready
    open_, held = Signal(4), Signal(4)  # words that were asked for and have not come; that are held
    with b.m.If(accepted):
        b.d.sync += [due.eq(dut.i.p.address >> shift), left.eq(dut.i.p.beats)]
    with b.m.Elif(asked):
        b.d.sync += [due.eq(due + bus.arlen + 1), left.eq(left - bus.arlen - 1)]
    b.d.sync += [
        open_.eq(open_ + Mux(asked, bus.arlen + 1, 0) - comes),
        held.eq(held + comes - leaves),
    ]
    b.assume("R comes only after its AR", ~bus.rvalid | (open_ != 0))
    b.check("no word waits on the bus", ~bus.rvalid | bus.rready)
    b.check("what is asked for has room", open_ + held <= depth)
    b.check("a word is offered while one is held", dut.o.valid == (held != 0))
    b.check("words are asked for in order", ~bus.arvalid | (bus.araddr == due << shift))
    b.check("no word beyond the region is asked for", ~asked | (bus.arlen + 1 <= left))
    b.check("`error`: a word with an error response comes", dut.error == (comes & bus.rresp[1]))
    b.check("`idle`: nothing is to come and none is held", ~dut.idle | (open_ + held == 0))
    b.cover("the queue is full", held == depth)
    b.cover("a region follows one whose words are held", accepted & (held != 0))
    return b


_SPLITTER = "hdl.memory.splitter"
_READER, _WRITER = "hdl.memory.reader", "hdl.memory.writer"
_PREFETCHER = "hdl.memory.prefetcher"
_SPLIT = "all beats, in order, in the fewest bursts; ≤ 256 beats, none across 4 KiB"

PROOFS = [
    Proof(
        "hdl.memory.Splitter",
        f"{_SPLIT}; bus of 128 bytes, 14-bit addresses, 7-bit lengths",
        lambda: splitter(128, 14, 7),
        Defect(_SPLITTER, "fits.eq(total <= window)", "fits.eq(total <= window + 1)"),
    ),
    *(
        Proof(
            "hdl.memory.Splitter",
            f"{_SPLIT}; bus of {bus} bytes, {address}-bit addresses, {beats}-bit lengths",
            lambda bus=bus, address=address, beats=beats: splitter(bus, address, beats, inner=True),
            Defect(
                _SPLITTER, "((word >> inner) + 1) << inner", "((word >> inner) + 1) << (inner - 1)"
            ),
            method="induction",
            depth=3,
            covers=6,
        )
        for bus, address, beats in ((4, 40, 24), (64, 64, 32))
    ),
    Proof(
        "hdl.memory.BurstReader",
        "bursts as of Splitter, data, `last`, `idle`, `error`, no dead lock; 2 commands in flight",
        reader,
        Defect(_READER, "splitter.enable.eq(flight.i.ready)", "splitter.enable.eq(1)"),
    ),
    Proof(
        "hdl.memory.BurstReader",
        "the same; 1 command in flight",
        lambda: reader(commands=1),
        Defect(
            _READER, "bus.rready.eq(self.o.ready & flight.o.valid)", "bus.rready.eq(flight.o.valid)"
        ),
    ),
    Proof(
        "hdl.memory.BurstWriter",
        "bursts as of Splitter, W from the cycle after its AW's first offer on, WLAST, data, `idle`, `error`, no dead lock; "
        "2 bursts ahead",
        writer,
        Defect(
            _WRITER,
            "bus.wvalid.eq(self.i_data.valid & owed.o.valid)",
            "bus.wvalid.eq(self.i_data.valid)",
        ),
    ),
    Proof(
        "hdl.memory.BurstWriter",
        "the same; 1 burst ahead",
        lambda: writer(ahead=1),
        Defect(_WRITER, "& ~splitter.o.valid)]", ")]"),
    ),
    Proof(
        "hdl.memory.BurstWriter",
        "within 4 cycles something moves, while something is to be written; data come within 2, the "
        "memory is fair within 1, but AW may wait for W",
        lambda: gets_on(4),
        Defect(
            _WRITER,
            "owed.i.valid.eq(splitter.o.valid & ~noted)",
            "owed.i.valid.eq(splitter.o.valid & bus.awready)",
        ),
    ),
    Proof(
        "hdl.memory.BurstWriter",
        "the same with strobes, which are those given",
        lambda: writer(strobes=True),
        Defect(_WRITER, "self.i_data.p.strobe if self.strobes else", ""),
    ),
    Proof(
        "hdl.memory.Prefetcher",
        "no word waits on the bus, whatever its consumer does; as many words, addresses, `idle`, `error`; "
        "a queue of 2 words",
        prefetcher,
        Defect(_PREFETCHER, "room >= self.burst", "room >= self.burst - 1"),
    ),
]
