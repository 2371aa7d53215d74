"""Partners that benches share: each may do all that its protocol allows, and no more."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Mux, Signal, Value

from .bench import Bench

__all__ = [
    "Manager",
    "ReadMemory",
    "WriteMemory",
    "awaited",
    "flatten",
    "offer",
    "remember",
    "take",
]


def flatten(payload) -> Value:
    """A payload as bits."""
    return Value.cast(payload)


def offer(bench: Bench, stream, name: str, *, payload: int | None = None) -> None:
    """Give to a stream whatever its rules allow; `payload` bits of it are free, all unless told
    otherwise.
    """
    bits = flatten(stream.payload)
    width = len(bits) if payload is None else payload
    valid = bench.free(f"{name}.valid")
    bench.d.comb += stream.valid.eq(valid)
    if width:
        bench.d.comb += bits.eq(bench.free(f"{name}.payload", width))
    bench.show(f"{name}.ready", stream.ready)
    bench.steady(
        bench.assume,
        f"{name} (given)",
        stream.valid,
        stream.ready,
        *([bits[:width]] if width else []),
    )


def take(bench: Bench, stream, name: str, *, within: int | None = None, payload=None) -> None:
    """Take from a stream whenever it likes, or `within` so many cycles; check that what it offers
    stays.
    """
    bench.d.comb += stream.ready.eq(bench.free(f"{name}.ready"))
    bench.show(f"{name}.valid", stream.valid)
    bits = flatten(stream.payload if payload is None else payload)
    if len(bits):
        bench.show(f"{name}.payload", bits)
        bench.steady(bench.check, name, stream.valid, stream.ready, bits)
    else:
        bench.steady(bench.check, name, stream.valid, stream.ready)
    if within is not None:
        bench.within(
            bench.assume,
            f"{name} is taken within {within} cycles",
            stream.valid & ~stream.ready,
            within,
        )


class ReadMemory:
    """The memory's side of AR and R: up to `opened` bursts, answered in order, with any timing.

    With `exact` RLAST is right for the ARLEN given (of up to `beats` beats), else it comes when it
    likes. `fair`: AR is taken while fewer bursts are open, and a beat comes, within so many cycles.
    """

    def __init__(
        self,
        bench: Bench,
        bus,
        name: str,
        *,
        opened: int = 2,
        fair: int | None = None,
        beats: int = 2,
        exact: bool = True,
    ) -> None:
        self.open = Signal(range(opened + 1), name=f"{name}_r_open")
        self.begun, self.beat, self.ended = (
            Signal(name=f"{name}_{what}") for what in ("ar_taken", "r_beat", "r_ended")
        )
        ready, valid = bench.free(f"{name}.arready"), bench.free(f"{name}.rvalid")
        bench.d.comb += [
            bus.arready.eq(ready & (self.open != opened)),
            bus.rvalid.eq(valid & (self.open != 0)),
            self.begun.eq(bus.arvalid & bus.arready),
            self.beat.eq(bus.rvalid & bus.rready),
            self.ended.eq(self.beat & bus.rlast),
        ]
        bench.d.sync += self.open.eq(self.open + self.begun - self.ended)
        if exact:
            length = _lengths(bench, f"{name}_r", self.begun, bus.arlen, self.ended, opened, beats)
            done = Signal(range(beats), name=f"{name}_r_done")
            with bench.m.If(self.beat):
                bench.d.sync += done.eq(Mux(bus.rlast, 0, done + 1))
            bench.d.comb += bus.rlast.eq(done == length)
        else:
            bench.d.comb += bus.rlast.eq(bench.free(f"{name}.rlast"))
        bench.steady(bench.assume, f"{name}.R", bus.rvalid, bus.rready, bus.rlast)
        for what in ("arvalid", "rready", "rlast"):
            bench.show(f"{name}.{what}", getattr(bus, what))
        if fair is not None:
            bench.within(
                bench.assume,
                f"{name} takes AR within {fair} cycles while it has room",
                bus.arvalid & ~bus.arready & (self.open != opened),
                fair,
            )
            bench.within(
                bench.assume,
                f"{name} answers AR within {fair} cycles",
                (self.open != 0) & ~bus.rvalid,
                fair,
            )


def awaited(b: Bench, name: str, *, given, passed, offered, taken) -> tuple[Value, Value]:
    """Return whether a memory takes AW, and W, which it may let wait for each other (ARM IHI 0022,
    A3.3.1): what for is chosen once.

    AW waits for nothing, until W is `given`, or until all of its burst has `passed`; W waits until
    its burst's AW is `offered`, or until it is `taken`.
    """
    choice = b.constant(f"{name}: what AW and W wait for", 2)
    neither, each, words, addresses = (choice == k for k in range(4))
    return (
        neither | addresses | (each & (given | passed)) | (words & passed),
        offered & (neither | words | taken),
    )


class WriteMemory:
    """The memory's side of AW, W and B: up to `opened` bursts that are not answered, B after AW and
    the last W, any timing. W may come from the cycle after its AW was first offered on.

    `fair`: AW is taken while fewer bursts are open, W, and B comes, within so many cycles of what
    the memory may wait for (`awaited`); it does so with `waits`.
    """

    def __init__(
        self,
        bench: Bench,
        bus,
        name: str,
        *,
        opened: int = 2,
        fair: int | None = None,
        beats: int = 2,
        waits: bool = True,
    ) -> None:
        bits = range(opened + 2)
        self.open, self.owed, self.unanswered = (
            Signal(bits, name=f"{name}_{what}") for what in ("w_open", "w_owed", "b_owed")
        )
        #: AW was offered and not taken; it is offered for the first time
        self.held, self.offered = Signal(name=f"{name}_aw_held"), Signal(name=f"{name}_aw_offered")
        self.begun, self.beat, self.last, self.answered = (
            Signal(name=f"{name}_{what}") for what in ("aw_taken", "w_beat", "w_last", "b_taken")
        )
        aw, w, b = (bench.free(f"{name}.{what}") for what in ("awready", "wready", "bvalid"))
        self.length = _lengths(
            bench, f"{name}_w", self.offered, bus.awlen, self.last, opened + 1, beats
        )
        self.done = Signal(range(beats), name=f"{name}_w_done")
        self.due = Signal(name=f"{name}_wlast_due")  #: this beat has to be its burst's last
        bench.d.comb += [
            bus.awready.eq(aw & (self.open != opened)),
            bus.wready.eq(w),
            bus.bvalid.eq(b & (self.unanswered != 0) & (self.open != 0)),
            self.begun.eq(bus.awvalid & bus.awready),
            self.offered.eq(bus.awvalid & ~self.held),
            self.beat.eq(bus.wvalid & bus.wready),
            self.due.eq(self.done == self.length),
            self.last.eq(self.beat & self.due & (self.owed != 0)),
            self.answered.eq(bus.bvalid & bus.bready),
        ]
        bench.d.sync += [
            self.open.eq(self.open + self.begun - self.answered),
            self.held.eq(bus.awvalid & ~bus.awready),
            self.owed.eq(self.owed + self.offered - self.last),
            self.unanswered.eq(self.unanswered + self.last - self.answered),
        ]
        with bench.m.If(self.beat):
            bench.d.sync += self.done.eq(Mux(self.due, 0, self.done + 1))
        bench.steady(bench.assume, f"{name}.B", bus.bvalid, bus.bready)
        for what in ("awvalid", "wvalid", "wlast", "wstrb", "bready"):
            bench.show(f"{name}.{what}", getattr(bus, what))
        if fair is not None:
            takes_aw, takes_w = awaited(
                bench,
                name,
                given=self.held & (self.owed == 1) & bus.wvalid,
                passed=self.held & (self.owed == 0),
                offered=self.owed != 0,
                taken=~(self.held & (self.owed == 1)),
            )
            if not waits:
                takes_aw, takes_w = Const(1), Const(1)
            answers = (self.unanswered != 0) & (self.open != 0)
            for what, waiting in (
                ("AW", bus.awvalid & ~bus.awready & (self.open != opened) & takes_aw),
                ("W", bus.wvalid & ~bus.wready & takes_w),
                ("AW and the last W, by B,", answers & ~bus.bvalid),
            ):
                bench.within(
                    bench.assume, f"{name} answers {what} within {fair} cycles", waiting, fair
                )


def _lengths(bench: Bench, name: str, begun, length, ended, opened: int, beats: int) -> Value:
    """Return the length of the oldest burst that has not ended, less one; one that begins now is
    seen in the next cycle.
    """
    width = max((beats - 1).bit_length(), 1)
    return _kept(bench, f"{name}_length", begun, length[:width], ended, opened, width)


def _kept(bench: Bench, name: str, begun, value, ended, opened: int, width: int) -> Value:
    """Return what was given with the oldest of up to `opened` bursts that have not ended."""
    store = [Signal(width, name=f"{name}{k}") for k in range(opened)]
    there, after = Signal(range(opened + 1), name=f"{name}s"), Signal(range(opened + 1))
    bench.d.comb += after.eq(there - ended)
    bench.d.sync += there.eq(after + begun)
    for k, signal in enumerate(store):
        behind = store[k + 1] if k + 1 < opened else Const(0)
        bench.d.sync += signal.eq(
            Mux(begun & (after == k), value[:width], Mux(ended, behind, signal))
        )
    return store[0]


class Manager:
    """The manager's side of a whole port in front of a memory: AR and AW as it likes, W from the
    cycle after its AW was first offered on, any readiness. `data`: its bits of W; 0: W's data and strobes are given otherwise.

    At most `opened` bursts of each direction, of up to `beats` beats, are begun and not answered.
    Addresses have `address_bits` bits, in bus words; `fair` bounds the cycles for which R and B are
    refused. `early`: W may be offered before its AW, and has to wait; for bursts of one beat.
    """

    def __init__(
        self,
        b: Bench,
        bus,
        *,
        address_bits: int,
        data: int = 1,
        opened: int = 3,
        beats: int = 2,
        fair: int | None = None,
        early: bool = False,
    ) -> None:
        self.opened = opened
        length = (beats - 1).bit_length()
        shift = (len(bus.wstrb) - 1).bit_length()
        bits = range(opened + 1)
        self.reading, self.writing, self.owed = (
            Signal(bits, name="reads_open"),
            Signal(bits, name="writes_open"),
            Signal(bits, name="writes_owed"),
        )
        held, self.offered = Signal(name="aw_held"), Signal(name="aw_offered")
        #: bursts whose AW was taken that lack words; bursts with AW and all words, not answered
        self.lacking, self.unanswered = (
            Signal(bits, name="words_lacking"),
            Signal(bits, name="writes_unanswered"),
        )
        self.ar, self.r, self.r_last, self.aw, self.w, self.w_last, self.b = (
            Signal(name=name)
            for name in (
                "ar_taken",
                "r_taken",
                "r_last_taken",
                "aw_taken",
                "w_taken",
                "w_last_taken",
                "b_taken",
            )
        )
        free = b.free
        b.d.comb += [
            bus.arvalid.eq(free("arvalid") & (self.reading != opened)),
            bus.araddr.eq(free("araddr in words", address_bits) << shift),
            bus.awvalid.eq(free("awvalid") & (self.writing != opened)),
            bus.awaddr.eq(free("awaddr in words", address_bits) << shift),
            bus.wvalid.eq(free("wvalid") & (early | (self.owed != 0))),
            bus.rready.eq(free("rready")),
            bus.bready.eq(free("bready")),
            self.ar.eq(bus.arvalid & bus.arready),
            self.aw.eq(bus.awvalid & bus.awready),
            # with `early` W waits for AW itself
            self.offered.eq(self.aw if early else bus.awvalid & ~held),
            self.lacking.eq(self.owed - (0 if early else held & (self.owed != 0))),
            self.unanswered.eq(self.writing - self.lacking),
            self.r.eq(bus.rvalid & bus.rready),
            self.w.eq(bus.wvalid & bus.wready),
            self.b.eq(bus.bvalid & bus.bready),
        ]
        if data:
            b.d.comb += [bus.wdata.eq(free("wdata", data)), bus.wstrb.eq(free("wstrb"))]
        if length:
            b.d.comb += [bus.arlen.eq(free("arlen", length)), bus.awlen.eq(free("awlen", length))]
        self.read_length = _lengths(b, "read", self.ar, bus.arlen, self.r_last, opened, beats)
        self.write_length = _lengths(
            b, "write", self.offered, bus.awlen, self.w_last, opened, beats
        )
        self.read_done, self.write_done = (
            Signal(range(max(beats, 2)), name="read_done"),
            Signal(range(max(beats, 2)), name="write_done"),
        )
        b.d.comb += [
            bus.wlast.eq(self.write_done == self.write_length),
            self.w_last.eq(self.w & bus.wlast),
            self.r_last.eq(self.r & (self.read_done == self.read_length)),
        ]
        with b.m.If(self.w):
            b.d.sync += self.write_done.eq(Mux(bus.wlast, 0, self.write_done + 1))
        with b.m.If(self.r):
            b.d.sync += self.read_done.eq(Mux(self.r_last, 0, self.read_done + 1))
        b.d.sync += [
            self.reading.eq(self.reading + self.ar - self.r_last),
            self.writing.eq(self.writing + self.aw - self.b),
            held.eq(bus.awvalid & ~bus.awready),
            self.owed.eq(self.owed + self.offered - self.w_last),
        ]
        address = shift + address_bits
        b.steady(
            b.assume,
            "AR (given)",
            bus.arvalid,
            bus.arready,
            bus.araddr[shift:address],
            bus.arlen[: max(length, 1)],
        )
        b.steady(
            b.assume,
            "AW (given)",
            bus.awvalid,
            bus.awready,
            bus.awaddr[shift:address],
            bus.awlen[: max(length, 1)],
        )
        own = [bus.wdata[:data], bus.wstrb[0]] if data else []
        b.steady(b.assume, "W (given)", bus.wvalid, bus.wready, *own)
        for name in ("arready", "awready", "wready", "rvalid", "rlast", "bvalid"):
            b.show(name, getattr(bus, name))
        if fair is not None:
            b.within(b.assume, f"R is taken within {fair} cycles", bus.rvalid & ~bus.rready, fair)
            b.within(b.assume, f"B is taken within {fair} cycles", bus.bvalid & ~bus.bready, fair)

    def check_answers(
        self, b: Bench, bus, *, bound: int | None = None, data: int = 1, writes_first: bool = False
    ) -> None:
        """Check R and B: only what was asked for, RLAST where the burst ends, B after the last W,
        all steady, within `bound` cycles.

        `writes_first`: cycles in which W passes do not count for R.
        """
        b.steady(b.check, "R", bus.rvalid, bus.rready, bus.rlast, bus.rresp, bus.rdata[:data])
        b.steady(b.check, "B", bus.bvalid, bus.bready, bus.bresp)
        b.check("R comes only after its AR", ~bus.rvalid | (self.reading != 0))
        b.check(
            "RLAST marks the burst's last beat, and no other",
            ~bus.rvalid | (bus.rlast == (self.read_done == self.read_length)),
        )
        b.check(
            "B comes only after the burst's AW and its last W", ~bus.bvalid | (self.unanswered != 0)
        )
        b.check("R and B have the identifier 0", Cat(bus.rid, bus.bid) == 0)
        b.cover("a burst of several beats is read", self.r & bus.rlast & (self.read_length != 0))
        b.cover("a write is answered", self.b)
        if self.opened > 1:
            b.cover(
                "a write is answered while another waits for its answer",
                self.b & (self.unanswered > 1),
            )
        if bound is not None:
            text = f"R comes within {bound} cycles" + (" without W" if writes_first else "")
            b.within(
                b.check,
                text,
                (self.reading != 0) & ~bus.rvalid & ~(self.w if writes_first else 0),
                bound,
            )
            b.within(
                b.check,
                f"B comes within {bound} cycles of the last W",
                (self.unanswered != 0) & ~bus.bvalid,
                bound,
            )
            b.within(
                b.check,
                f"W is taken within {bound} cycles once its AW is",
                bus.wvalid & ~bus.wready & (self.lacking != 0),
                bound,
            )


def remember(
    b: Bench, manager: Manager, bus, *, words: int, shift: int, opened: int, beats: int = 2
) -> tuple[Signal, Signal]:
    """One byte of one word, chosen once, with no read beside a write: what is read of it
    is what was written last, by bursts of up to `beats` words; a word beyond the end is refused.

    Each byte of W is all ones or all zeros, and has a free strobe. Returns the word's number and the
    byte's.
    """
    bytes_ = len(bus.wstrb)
    place = b.constant("the word", (words - 1).bit_length())
    lane = b.constant("the byte", (bytes_ - 1).bit_length())
    value, free = Signal(name="written_last"), b.free("wdata, a bit of each byte", bytes_)
    b.d.comb += [
        bus.wdata.eq(Cat(free[k].replicate(8) for k in range(bytes_))),
        bus.wstrb.eq(b.free("all of wstrb", bytes_)),
    ]
    b.steady(b.assume, "all of W (given)", bus.wvalid, bus.wready, bus.wdata, bus.wstrb)
    b.assume(
        "no read is open beside a write", ~bus.arvalid | ((manager.writing == 0) & ~bus.awvalid)
    )
    b.assume(
        "no write is open beside a read", ~bus.awvalid | ((manager.reading == 0) & ~bus.arvalid)
    )
    for channel in ("ar", "aw"):
        word = getattr(bus, f"{channel}addr")[shift:]
        last = word[: (words - 1).bit_length()] + getattr(bus, f"{channel}len")
        b.assume(
            f"a burst of {channel.upper()} does not cross the end, as none crosses 4 KiB",
            ~getattr(bus, f"{channel}valid") | (last < words),
        )
    b.assume("the word and the byte are inside", (place < words) & (lane < bytes_))
    bits = len(bus.awaddr) - shift
    read, write = (
        _kept(b, f"{name}_word", begun, address[shift:], ended, opened, bits)
        for name, begun, address, ended in (
            ("read", manager.ar, bus.araddr, manager.r_last),
            ("write", manager.aw, bus.awaddr, manager.w_last),
        )
    )
    mine = Signal(name="the_word_is_written")
    b.d.comb += mine.eq(
        manager.w & (write + manager.write_done == place) & bus.wstrb.bit_select(lane, 1)
    )
    data = lambda whole: whole.word_select(lane, 8)
    with b.m.If(mine):
        b.d.sync += value.eq(data(bus.wdata)[0])
    b.show("what was written last", value)
    here = bus.rvalid & (read + manager.read_done == place)
    b.check(
        "what is read is what was written last", ~here | (data(bus.rdata) == value.replicate(8))
    )
    b.check(
        "a word is refused with SLVERR where it is beyond the end, and nowhere else",
        ~bus.rvalid | (bus.rresp == Mux(read < words, 0, 2)),
    )
    b.check(
        "a write is refused with SLVERR where it is beyond the end, and nowhere else",
        ~bus.bvalid
        | (
            bus.bresp
            == Mux(
                _kept(b, "answered", manager.aw, bus.awaddr[shift:], manager.b, opened, bits)
                < words,
                0,
                2,
            )
        ),
    )
    b.cover("a one is read", here & data(bus.rdata)[0])
    b.cover(
        "a one is read of a burst's second word",
        here & data(bus.rdata)[0] & (manager.read_done == 1),
    )
    b.cover("a word beyond the end is written", bus.bvalid & (bus.bresp == 2))
    return place, lane
