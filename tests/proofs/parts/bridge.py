# amaranth: UnusedElaboratable=no
"""Bridge: it gets on, and what it does and answers is what the request asks."""

from __future__ import annotations

import sys

from amaranth.hdl import Array, Cat, Const, Mux, Signal, Value
from harness import Bench, Defect, Proof
from harness.environment import awaited, offer, take
from harness.small import registers_of, shrunk

from penstock.hdl.link.bridge import Bridge
from penstock.hdl.memory import AXI4, AXI4Lite
from penstock.models.link.device import Identity
from penstock.models.link.frames import HEADER, NACK, RESPONSE, Space, Status

__all__ = ["BUSES", "IDENTITY", "Requests", "bus_answers"]


class Requests:
    """What has come of the request under way: `inside` one, or of its `header` alone."""

    def __init__(self, b: Bench, taken, payload, *, header: int = HEADER) -> None:
        self.place, self.writes, self.left = Signal(3), Signal(), Signal(8)
        self.inside = Signal()
        b.d.comb += self.inside.eq((self.place != 0) | (self.left != 0))
        with b.m.If(taken):
            with b.m.If((self.place == 0) & (self.left != 0)):
                b.d.sync += self.left.eq(self.left - 1)
            with b.m.Else():
                b.d.sync += self.place.eq(self.place + 1)
            with b.m.If(self.place == 1):
                b.d.sync += self.writes.eq(payload[0])
            with b.m.If(self.place == 2):
                b.d.sync += self.left.eq(payload & self.writes.replicate(8))
            with b.m.If(self.place == header - 1):
                b.d.sync += self.place.eq(0)


def bus_answers(
    b: Bench, name: str, bus, *, check: bool = True, fair: bool = True, data: int = 0
) -> None:
    """A bus that answers each of its channels, with anything; `fair`: within 2 cycles of what it may
    wait for (`awaited`). `data`: free bits of each byte of R.
    """
    reads, aw, w = (Signal(name=f"{name}_{what}") for what in ("reads", "aw", "w"))
    b.d.comb += [
        bus.arready.eq(b.free(f"{name}.arready") & ~reads),
        bus.awready.eq(b.free(f"{name}.awready") & ~aw),
        bus.wready.eq(b.free(f"{name}.wready") & ~w),
        bus.rvalid.eq(b.free(f"{name}.rvalid") & reads),
        bus.bvalid.eq(b.free(f"{name}.bvalid") & aw & w),
        bus.rresp.eq(b.free(f"{name}.rresp", 2)),
        bus.bresp.eq(b.free(f"{name}.bresp", 2)),
    ]
    given = [bus.rresp]
    if data:
        bytes_ = len(bus.rdata) // 8
        free = b.free(f"{name}.rdata, {data} bits of each byte", data * bytes_)
        b.d.comb += [
            bus.rdata.word_select(k, 8)[:data].eq(free.word_select(k, data)) for k in range(bytes_)
        ]
        given.append(bus.rdata)
    b.d.sync += [
        reads.eq((reads | (bus.arvalid & bus.arready)) & ~(bus.rvalid & bus.rready)),
        aw.eq((aw | (bus.awvalid & bus.awready)) & ~(bus.bvalid & bus.bready)),
        w.eq((w | (bus.wvalid & bus.wready)) & ~(bus.bvalid & bus.bready)),
    ]
    b.steady(b.assume, f"{name}.R (given)", bus.rvalid, bus.rready, *given)
    b.steady(b.assume, f"{name}.B (given)", bus.bvalid, bus.bready, bus.bresp)
    if check:
        early = bus.wvalid & ~aw & ~bus.awvalid
        b.check(f"{name}: W comes only when its AW is offered or taken", ~early)
    due = {"ar": Const(1)}
    if fair:
        due["aw"], due["w"] = awaited(
            b, name, given=bus.wvalid, passed=w, offered=aw | bus.awvalid, taken=aw
        )
    for channel, payload in (
        ("ar", bus.araddr),
        ("aw", bus.awaddr),
        ("w", Cat(bus.wdata, bus.wstrb)),
    ):
        valid, ready = getattr(bus, f"{channel}valid"), getattr(bus, f"{channel}ready")
        if check:
            b.steady(b.check, f"{name}.{channel.upper()}", valid, ready, payload)
        if fair:
            waits = valid & ~ready & due[channel]
            b.within(b.assume, f"{name} takes {channel.upper()} within 2 cycles", waits, 1)
    if fair:
        b.within(b.assume, f"{name} gives R within 2 cycles", reads & ~bus.rvalid, 1)
        b.within(b.assume, f"{name} gives B within 2 cycles", aw & w & ~bus.bvalid, 1)


IDENTITY = Identity(4, 4096, 1_000_000)
BUSES = {"registers": AXI4Lite(address_width=8), "memory": AXI4(address_width=12, data_bytes=4)}
#: words of the memory are wider than registers
WIDE = BUSES | {"memory": AXI4(address_width=12, data_bytes=8)}


def bridge() -> Bench:
    """Between a deframer that gives requests whole and buses that answer within 2 cycles."""
    b = Bench()
    dut = b.m.submodules.dut = Bridge(IDENTITY, **BUSES)
    offer(b, dut.i, "i")
    take(b, dut.o, "o")
    b.d.comb += dut.dropped.eq(b.free("dropped"))
    taken = dut.i.valid & dut.i.ready
    request = Requests(b, taken, dut.i.payload)
    b.assume("a request that has begun comes without gap", ~request.inside | dut.i.valid)
    for name, bus in (("registers", dut.axil), ("memory", dut.bus)):
        bus_answers(b, name, bus)
    moved = taken | (dut.o.valid & dut.o.ready)
    b.within(
        b.check,
        "within 12 cycles a byte is taken or given, while there is something to do",
        (request.inside | dut.i.valid) & ~moved,
        12,
        but=dut.o.valid & ~dut.o.ready,
    )
    b.cover("a response ends", dut.o.valid & dut.o.p.last)
    b.cover("a word is written", dut.bus.bvalid & dut.bus.bready)
    return b


class _Asked:
    """The request whose answer is due, as its bytes say. They come before the answer's first byte;
    `address` and `left` are those of the next byte of data, taken or given.
    """

    def __init__(self, b: Bench, dut: Bridge) -> None:
        taken, byte = dut.i.valid & dut.i.ready, dut.i.payload
        given = dut.o.valid & dut.o.ready
        bits = BUSES["memory"].address_width - 1
        self.place, self.left = Signal(3, name="header_bytes"), Signal(8, name="data_left")
        self.sequence, self.kind = (
            Signal(8, name=f"asked_{name}") for name in ("sequence", "kind")
        )
        # the memory's addresses have one bit for all above these
        self.address, self.above = Signal(bits, name="next_address"), Signal(name="next_above")
        self.count = Signal(2, name="given_before_data")
        self.whole, self.writes, self.data = Signal(), self.kind[0], Signal()
        space = self.kind[1:]
        self.registers, self.memory = space == Space.REGISTERS, space == Space.MEMORY
        self.identity = space == Space.IDENTITY
        self.lane, self.edge = Signal(3, name="next_lane"), Signal(name="next_edge")
        after = Signal(bits + 1)
        header = self.place == HEADER
        b.d.comb += [
            self.lane.eq(self.lane_of(self.address)),
            self.edge.eq(self.lane == Mux(self.registers, 3, 7)),
            self.whole.eq(header & (~self.writes | (self.left == 0))),
            self.data.eq(Mux(self.writes, taken & header, given & (self.count == 3))),
            after.eq(self.address + 1),
        ]
        with b.m.If(self.data):
            b.d.sync += [
                self.left.eq(self.left - 1),
                self.address.eq(after),
                self.above.eq(self.above | after[-1]),
            ]
        with b.m.Elif(taken):
            b.d.sync += self.place.eq(self.place + 1)
            with b.m.Switch(self.place):
                for at, part in enumerate((self.sequence, self.kind, self.left)):
                    with b.m.Case(at):
                        b.d.sync += part.eq(byte)
                with b.m.Case(3):
                    b.d.sync += self.address[:8].eq(byte)
                with b.m.Case(4):
                    b.d.sync += [
                        self.address[8:].eq(byte),
                        self.above.eq(self.above | byte[bits - 8 :].any()),
                    ]
                with b.m.Default():
                    b.d.sync += self.above.eq(self.above | byte.any())
        with b.m.If(given):
            b.d.sync += self.count.eq(Mux(self.count == 3, 3, self.count + 1))
            with b.m.If(dut.o.p.last):
                b.d.sync += [part.eq(0) for part in (self.count, self.place, self.left, self.above)]

    def lane_of(self, address) -> Value:
        """The byte of a word at an address."""
        return Mux(self.registers, address[:2], address[:3])

    def word_of(self, address) -> Value:
        """The word of a byte at an address, as the address of its first byte."""
        return Cat(Const(0, 2), address[2] & self.registers, address[3:])


def answers() -> Bench:
    """The answer to each request, and the words that it reads and writes, by `models.link.device`."""
    b = Bench()
    dut, b.m.submodules.dut = part = shrunk(_BRIDGE, lambda: Bridge(IDENTITY, **WIDE))
    offer(b, dut.i, "i")
    b.d.comb += dut.o.ready.eq(b.free("o.ready"))
    b.steady(b.check, "o", dut.o.valid, dut.o.ready, dut.o.p.data, dut.o.p.last)
    b.d.comb += dut.dropped.eq(b.free("dropped"))
    asked = _Asked(b, dut)
    b.assume(
        "a request that has begun comes without gap",
        (asked.place == 0) | asked.whole | dut.i.valid,
    )
    for name, port in (("registers", dut.axil), ("memory", dut.bus)):
        bus_answers(b, name, port, check=False, fair=False, data=8)
        for channel in "rb":
            response = getattr(port, f"{channel}resp")
            b.assume(f"{name}: {channel.upper()} is OKAY, SLVERR or DECERR", response != 1)
    inside = registers_of(part[1])
    _written(b, dut, asked, inside, _given(b, dut, asked, inside))
    return b


def _same(value, address, above):
    """Whether a bus's address is a word's: the memory's has a bit for all above."""
    if len(value) <= len(address):
        return value == address[: len(value)]
    return value == Cat(address, above)


#: the states of its machine, in the order in which it names them
_STATES = (
    "REST HEADER SEQUENCE BEGIN WRITE WRITTEN WRITE_ADDRESS WRITE_DATA WRITE_ANSWER KIND LENGTH READ "
    "STATUS READ_ADDRESS READ_ANSWER READ_BYTE READ_TAKEN"
).split()


def _in(inside: dict[str, Signal], names: str) -> Value:
    """Whether the machine is in one of some states."""
    state = inside["bridge_state"]
    return Cat(state == _STATES.index(name) for name in names.split()).any()


def _given(b: Bench, dut: Bridge, asked: _Asked, inside: dict[str, Signal]) -> Value:
    """The answer, byte by byte; what it reads. Returns whether the request is a register's write that
    was done before.
    """
    axil, bus, count, nack = dut.axil, dut.bus, asked.count, asked.place == 0
    status, given = Signal(2, name="asked_status"), dut.o.valid & dut.o.ready
    # what the words answer
    for port, on in ((axil, asked.registers), (bus, asked.memory)):
        for channel in "rb":
            valid, ready = getattr(port, f"{channel}valid"), getattr(port, f"{channel}ready")
            with b.m.If(valid & ready):
                b.d.sync += status.eq(status | getattr(port, f"{channel}resp"))
            b.check(f"{channel.upper()} is taken from who was asked", ~(valid & ready) | on)
    # a register's write is done once
    done, done_sequence, done_status = Signal(), Signal(8), Signal(2)
    again = asked.registers & asked.writes & done & (done_sequence == asked.sequence)
    nowhere = ~(asked.registers | asked.memory | (asked.identity & ~asked.writes))
    due = Mux(again, done_status, Mux(nowhere, Status.DECERR, status))
    with b.m.If(given & dut.o.p.last):
        b.d.sync += status.eq(0)
        with b.m.If(~nack & asked.identity):
            b.d.sync += done.eq(0)
        with b.m.Elif(~nack & asked.registers & asked.writes):
            b.d.sync += [done.eq(1), done_sequence.eq(asked.sequence), done_status.eq(due)]
    data, words = (count == 3) & (asked.left != 0), asked.registers | asked.memory
    port = lambda name: Mux(asked.registers, getattr(axil, name), getattr(bus, name))
    rom = Array(Const(byte, 8) for byte in IDENTITY.encode())
    byte = Mux(
        words,
        Mux(port("rresp")[1], 0, port("rdata").word_select(asked.lane, 8)),
        Mux(asked.identity, rom[asked.address[:4]], 0),
    )
    here, said = dut.o.valid, dut.o.p.data
    for text, holds in {
        "an answer comes when its request is whole, or for a nack": asked.whole
        | (count != 0)
        | nack,
        "first the sequence": (count != 0) | (said == Mux(nack, 0, asked.sequence)),
        "then the kind": (count != 1) | (said == (Mux(nack, NACK, asked.kind) | RESPONSE)),
        "then the length of what is read": (count != 2) | (said == Mux(nack, 0, asked.left)),
        "then what was read": ~data | (said == byte),
        "of a word that is there": ~(data & words) | port("rvalid"),
        "then the status, and it is the last": dut.o.p.last == ((count == 3) & (asked.left == 0)),
        "the status is that of all words": ~dut.o.p.last | (said == Mux(nack, Status.DROPPED, due)),
    }.items():
        b.check(text, ~here | holds)
    read = Signal()  # the word of the byte that is due
    b.d.sync += read.eq(Mux(asked.data & asked.edge, 0, read))
    for port_, on in ((axil, asked.registers), (bus, asked.memory)):
        with b.m.If(port_.arvalid & port_.arready):
            b.d.sync += read.eq(1)
        b.check(
            "a word is read for a byte of it, once",
            ~port_.arvalid | (on & ~asked.writes & data & ~read),
        )
        b.check(
            "the address read is the word's",
            ~port_.arvalid | _same(port_.araddr, asked.word_of(asked.address), asked.above),
        )
    with b.m.If(given & dut.o.p.last):
        b.d.sync += read.eq(0)
    # a nack is due for a drop until one begins behind it
    dropped = b.past(dut.dropped)
    owed, begins = Signal(name="nack_due"), here & nack & (count == 0) & ~b.past(here)
    with b.m.If(dut.dropped):
        b.d.sync += owed.eq(1)
    with b.m.Elif(begins):
        b.d.sync += owed.eq(dropped)
    b.check(
        "a nack that is due begins while no request comes",
        ~b.past(owed & nack & ~here & ~dut.i.valid) | here,
    )
    b.check("a nack is due for a drop", ~begins | owed)
    b.cover("a nack begins, and another is due", begins & dropped)
    # what induction has to know
    at = lambda names: _in(inside, names)
    answers, nacks = "SEQUENCE KIND LENGTH READ STATUS", nack & ~at("REST HEADER")
    reads = "READ_ADDRESS READ_ANSWER READ_BYTE READ_TAKEN"
    for text, holds in {
        "states": inside["bridge_state"] < len(_STATES),
        "at rest": ~at("REST")
        | (Cat(asked.place, count, asked.left, asked.above, status, read) == 0),
        "a header": ~at("HEADER")
        | (
            (asked.place == inside["position"])
            & (asked.place < HEADER)
            & (Cat(count, status, read) == 0)
        ),
        "a header comes without gap": ~at("HEADER") | dut.i.valid,
        "a header's parts": ~at("HEADER")
        | (
            ((asked.place < 1) | (inside["sequence"] == asked.sequence))
            & ((asked.place < 2) | (inside["kind"] == asked.kind))
            & ((asked.place < 3) | (inside["left"] == asked.left))
            & ((asked.place < 4) | (inside["address"][:8] == asked.address[:8]))
            & ((asked.place < 5) | (inside["address"] == asked.address))
            & (inside["far"] == asked.above)
            & (inside["status"] == 0)
        ),
        "nacks that are due": inside["refused"] == Mux(begins, dropped, owed),
        "a nack": ~nacks
        | (
            at(answers)
            & (Cat(inside["sequence"], inside["left"], asked.left, status, read) == 0)
            & (inside["kind"] == NACK)
            & (inside["status"] == Status.DROPPED)
        ),
        "a request": at("REST HEADER")
        | nack
        | (
            (asked.place == HEADER)
            & (inside["sequence"] == asked.sequence)
            & (inside["kind"] == asked.kind)
        ),
        "data that are left": at("REST HEADER WRITE_ADDRESS WRITE_DATA WRITE_ANSWER")
        | nack
        | (
            (inside["left"] == asked.left)
            & (inside["address"] == asked.address)
            & (inside["far"] == asked.above)
        ),
        "writes": ~at("WRITE WRITTEN WRITE_ADDRESS WRITE_DATA WRITE_ANSWER")
        | (asked.writes & (count == 0) & ~nack),
        "written": ~at("WRITTEN") | (asked.left == 0),
        "what is answered": ~at(answers) | nack | asked.whole | (count != 0),
        "of a write nothing is left": ~at(answers) | ~asked.writes | nack | (asked.left == 0),
        "the answer's byte": (count == Mux(at("KIND"), 1, Mux(at("LENGTH"), 2, 3)))
        | ~at("KIND LENGTH READ STATUS " + reads),
        "before the answer": ~at("SEQUENCE BEGIN") | (count == 0),
        "reads": ~at(reads)
        | (~nack & ~asked.writes & words & (asked.left != 0))
        | (at("READ_TAKEN") & ~nack & ~asked.writes & words),
        "the answer's end": ~at("STATUS") | (asked.left == 0),
        "the word that is read": Mux(at("READ_ANSWER READ_BYTE"), read, 1)
        & ~(at("READ_ADDRESS BEGIN SEQUENCE KIND LENGTH") & read)
        & ~(at("READ") & read & (asked.left != 0))
        & ~(at("WRITE WRITTEN WRITE_ADDRESS WRITE_DATA WRITE_ANSWER") & read),
        "a word stays until it is taken": ~at("READ_BYTE READ_TAKEN") | port("rvalid"),
        "a byte of it": ~at("READ_BYTE") | (inside["byte"] == byte),
        "the status under way": at("REST HEADER")
        | nack
        | (
            inside["status"]
            == Mux(
                at("BEGIN"),
                0,
                Mux(
                    again & at(answers),
                    done_status,
                    Mux(
                        nowhere,
                        Status.DECERR,
                        status | Mux(at("READ_BYTE READ_TAKEN"), port("rresp"), 0),
                    ),
                ),
            )
        )
        | at("READ_ANSWER"),
        "the status while a word is there": ~at("READ_ANSWER")
        | (inside["status"] == status)
        | (port("rvalid") & (inside["status"] == status | port("rresp"))),
        "nowhere nothing answers": ~(nowhere | asked.identity)
        | nack
        | at("REST HEADER")
        | (status == 0),
        "nothing answers a write again": ~again | nack | at("REST HEADER") | (status == 0),
        "the last write to a register": ~at("REST HEADER BEGIN")
        | (
            (inside["done_once"] == done)
            & (inside["done_sequence"] == done_sequence)
            & (inside["done_status"] == done_status)
        ),
        "the last write, as answered": ~at(answers)
        | Mux(
            ~nack & asked.registers & asked.writes,
            inside["done_once"]
            & (inside["done_sequence"] == asked.sequence)
            & (inside["done_status"] == inside["status"]),
            Mux(~nack & asked.identity, ~inside["done_once"], inside["done_once"] == done)
            & (inside["done_sequence"] == done_sequence)
            & (inside["done_status"] == done_status),
        ),
        "the last write meanwhile": ~at(
            "WRITE WRITTEN WRITE_ADDRESS WRITE_DATA WRITE_ANSWER " + reads
        )
        | (
            Mux(asked.identity, ~inside["done_once"], inside["done_once"] == done)
            & (inside["done_sequence"] == done_sequence)
            & (inside["done_status"] == done_status)
        ),
    }.items():
        b.check(f"inside: {text}", holds)
    b.cover("a byte that was read is not zero", here & data & words & (said != 0))
    b.cover("a nack", here & dut.o.p.last & nack)
    b.cover("the last byte of two of a word", here & data & words & b.past(b.past(b.past(given))))
    b.cover("a register's write again", here & dut.o.p.last & again)
    return again


def _written(b: Bench, dut: Bridge, asked: _Asked, inside: dict[str, Signal], again: Value) -> None:
    """The words that are written, each once, with the bytes that came; one lane is followed."""
    lane = b.constant("the lane", 3)
    first, above = Signal(len(asked.address)), Signal()
    strobes, kept = Signal(8), Signal(8)
    with b.m.If(asked.data & asked.writes):
        b.d.sync += [
            strobes.eq(strobes | (1 << asked.lane)),
            first.eq(asked.address),
            above.eq(asked.above),
        ]
        with b.m.If(asked.lane == lane):
            b.d.sync += kept.eq(dut.i.payload)
    for port, on in ((dut.axil, asked.registers), (dut.bus, asked.memory)):
        with b.m.If(port.bvalid & port.bready):
            b.d.sync += strobes.eq(0)
        b.check(
            "a word is written only for its bytes",
            ~(port.awvalid | port.wvalid) | (on & asked.writes & (strobes != 0)),
        )
        b.check(
            "the address written is the word's",
            ~port.awvalid | _same(port.awaddr, asked.word_of(first), above),
        )
        b.check(
            "the bytes that came are written, and no others",
            ~port.wvalid
            | (
                (port.wstrb == strobes)
                & (~strobes.bit_select(lane, 1) | (port.wdata.word_select(lane, 8) == kept))
            ),
        )
    for channel in ("ar", "aw"):
        valid, *fields = (
            getattr(dut.bus, channel + name) for name in ("valid", "id", "len", "size", "burst")
        )
        b.check(
            f"{channel.upper()}: a burst is one whole word, INCR, with identifier 0",
            ~valid
            | (Cat(fields) == Cat(Const(0, len(fields[0])), Const(0, 8), Const(3, 3), Const(1, 2))),
        )
    b.check("WLAST marks the one beat", ~dut.bus.wvalid | dut.bus.wlast)
    with b.m.If(dut.o.valid & dut.o.ready & dut.o.p.last):
        b.d.sync += strobes.eq(0)
    b.check(
        "a memory's write is answered when all its words are written",
        ~(dut.o.valid & asked.memory & asked.writes & (asked.place == HEADER)) | (strobes == 0),
    )
    words = (asked.registers | asked.memory) & ~again
    b.check(
        "a word is written before the next one's bytes are taken",
        ~(asked.data & asked.writes & words)
        | (strobes == 0)
        | (asked.word_of(asked.address) == asked.word_of(first)),
    )
    # what induction has to know
    at, out = lambda names: _in(inside, names), "WRITE_ADDRESS WRITE_DATA WRITE_ANSWER"
    after = Signal(len(first) + 1)
    b.d.comb += after.eq(first + 1)
    for text, holds in {
        "nothing is written yet": ~at("REST HEADER BEGIN") | (strobes == 0),
        "strobes begin low": ~at("HEADER BEGIN") | (inside["strobes"] == 0),
        "reads and nacks write nothing": asked.writes | (strobes == 0),
        "strobes": ~at(f"BEGIN WRITE {out}") | (inside["strobes"] == strobes),
        "a byte of the word": ~at(f"WRITE {out}")
        | ~strobes.bit_select(lane, 1)
        | (inside["word"].word_select(lane, 8) == kept),
        "the next byte is behind the last": (strobes == 0)
        | at("REST HEADER")
        | ((asked.address == after[:-1]) & (asked.above == (above | after[-1]))),
        "a register has four bytes": ~asked.registers | (strobes[4:] == 0),
        "a word goes on": ~(at("WRITE") & words & (strobes != 0))
        | ((asked.lane != 0) & (asked.left != 0)),
        "a word is whole": ~at(out)
        | (
            words
            & (strobes != 0)
            & (inside["left"] == (asked.left + 1)[:8])
            & (inside["address"] == first)
            & (inside["far"] == above)
            & ((asked.lane == 0) | (asked.left == 0))
        ),
        "all words are written": ~at("WRITTEN SEQUENCE KIND LENGTH READ STATUS")
        | ~(asked.registers | asked.memory)
        | again
        | (asked.place == 0)
        | (strobes == 0),
        "its last byte is not the first one of 256": ~at(out) | (asked.left != 255),
    }.items():
        b.check(f"inside: {text}", holds)
    b.cover("a word's last byte is written alone", dut.bus.wvalid & (dut.bus.wstrb == 128))


_B = "hdl.link.bridge"
_BRIDGE = sys.modules[f"penstock.{_B}"]

PROOFS = [
    Proof(
        "hdl.link.Bridge",
        "AXI's rules on both buses; within 12 cycles a byte is taken or given, those not counted in "
        "which a byte given has to wait; buses answer within 2, but AW and W may wait for each other",
        bridge,
        (
            Defect(_B, 'm.next = "READ_BYTE"', 'm.next = "READ_ANSWER"'),
            Defect(
                _B, 'self._ask(m, "w", ~data_done)', 'self._ask(m, "w", addressed & ~data_done)'
            ),
        ),
        covers=40,
    ),
    Proof(
        "hdl.link.Bridge",
        "each request has its answer, each drop a nack: the sequence, the kind, the length, what was "
        "read, the status of all words; words are read once, and written once, where and with what "
        "the request says; a register's write is done once; any requests, any answers of the buses",
        answers,
        Defect(
            _B,
            "self.status.eq(self.status | response), self.strobes.eq(0)",
            "self.status.eq(response), self.strobes.eq(0)",
        ),
        method="induction",
        depth=2,
        covers=36,
        search=40,
    ),
]
