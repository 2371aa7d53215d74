"""Framing: bytes of the wire to requests, responses to bytes of the wire. Twin of `models.link.frames`."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.link.frames import (
    CRC_BYTES,
    CRC_POLYNOMIAL,
    CRC_RESIDUE,
    ESCAPE,
    ESCAPE_XOR,
    FLAG,
    HEADER,
    MAXIMUM,
    RING,
)
from ..apart import APART
from .datagrams import BYTES, offer


def _crc_step(crc, bit):
    """The CRC's register after one more bit."""
    return (crc >> 1) ^ Mux(crc[0] ^ bit, Const(CRC_POLYNOMIAL, 32), Const(0, 32))


class Deframer(wiring.Component):
    """Bytes of the wire in; header and data of well-formed requests out, one after the other.

    Requests wait in a ring until their CRC was seen; one that is dropped leaves no trace but a pulse on `dropped`. A byte takes nine cycles (the CRC
    goes bit by bit), an escape or a flag one; a request's bytes are offered from two cycles after its closing flag on, one a cycle.
    """

    def __init__(self):
        super().__init__(
            {
                "i": In(stream.Signature(8)),
                # 7 bytes of header, then a write's data; the header, which was checked, says where
                # they end
                "o": Out(stream.Signature(8)),
                "dropped": Out(1),  # high for one cycle when a body was dropped
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.ring = ring = memory.Memory(shape=8, depth=RING, init=[], attrs=APART)
        self.write, read = ring.write_port(), ring.read_port()
        self.put = Signal(range(RING))
        self.kept = Signal(range(RING))  # behind the last whole request
        self.get, _ = offer(m, read, self.o, self.kept)
        m.d.comb += self.o.payload.eq(read.data)
        self._crc(m)
        self._bytes(m)
        return m

    def _crc(self, m):
        """The CRC, a bit a cycle."""
        self.crc = Signal(32, init=0xFFFF_FFFF)
        self.turns = Signal(4)  # bits of the byte that the CRC still has to see
        self.shift = Signal(8)
        with m.If(self.turns != 0):
            m.d.sync += [
                self.crc.eq(_crc_step(self.crc, self.shift[0])),
                self.shift.eq(self.shift >> 1),
                self.turns.eq(self.turns - 1),
            ]

    def _bytes(self, m):
        """What each byte of a frame is."""
        byte = Signal(8)
        seen = Signal()
        escape = Signal()
        bad = Signal()
        header = Signal(range(HEADER + 1))  # bytes of it seen
        left = Signal(range(MAXIMUM + 1))  # bytes of data to come
        tail = Signal(range(CRC_BYTES + 1))  # bytes of the CRC seen
        writes = Signal()
        taken = Signal()
        in_header = header != HEADER
        in_data = left != 0
        in_tail = tail != CRC_BYTES
        m.d.comb += [
            self.i.ready.eq(self.turns == 0),
            taken.eq(self.i.valid & self.i.ready),
            byte.eq(self.i.payload ^ Mux(escape, Const(ESCAPE_XOR, 8), Const(0, 8))),
            self.write.addr.eq(self.put),
            self.write.data.eq(byte),
        ]
        with m.If(taken & (self.i.payload == FLAG)):
            m.d.sync += [
                seen.eq(0),
                escape.eq(0),
                bad.eq(0),
                header.eq(0),
                left.eq(0),
                tail.eq(0),
                self.crc.eq(0xFFFF_FFFF),
            ]
            with m.If(seen & ~escape & ~bad & ~in_tail & (self.crc == CRC_RESIDUE)):
                m.d.sync += self.kept.eq(self.put)
            with m.Else():
                m.d.sync += self.put.eq(self.kept)
                m.d.comb += self.dropped.eq(seen)
        with m.Elif(taken & (self.i.payload == ESCAPE) & ~escape):
            m.d.sync += [seen.eq(1), escape.eq(1)]
        with m.Elif(taken):
            m.d.sync += [seen.eq(1), escape.eq(0), self.shift.eq(byte), self.turns.eq(8)]
            with m.If(in_header | in_data):
                self._put(m, bad)
            with m.If(in_header):
                m.d.sync += header.eq(header + 1)
                with m.If(header == 1):
                    m.d.sync += writes.eq(byte[0])
                with m.If(header == 2):
                    m.d.sync += left.eq(Mux(writes, byte, 0))
                    with m.If(byte > MAXIMUM):
                        m.d.sync += bad.eq(1)
            with m.Elif(in_data):
                m.d.sync += left.eq(left - 1)
            with m.Elif(in_tail):
                m.d.sync += tail.eq(tail + 1)
            with m.Else():
                m.d.sync += bad.eq(1)

    def _put(self, m, bad):
        """A byte into the ring, if there is room."""
        m.d.comb += self.write.en.eq(1)
        m.d.sync += self.put.eq(self.put + 1)
        # full: one place stays free, to tell full from empty
        with m.If((self.put + 1)[: len(self.get)] == self.get):
            m.d.comb += self.write.en.eq(0)
            m.d.sync += [self.put.eq(self.put), bad.eq(1)]


class Framer(wiring.Component):
    """Bodies in; bytes of the wire out: a flag, the stuffed body with its CRC, a flag."""

    def __init__(self):
        super().__init__({"i": In(stream.Signature(BYTES)), "o": Out(stream.Signature(8))})

    def elaborate(self, platform):
        m = Module()
        crc = Signal(32, init=0xFFFF_FFFF)
        byte = Signal(8)
        shift = Signal(8)
        turns = Signal(range(9))
        last = Signal()
        tail = Signal(range(CRC_BYTES + 1))  # bytes of the CRC still to be sent
        escaped = Signal()
        special = (byte == FLAG) | (byte == ESCAPE)
        with m.If(turns != 0):
            m.d.sync += [
                crc.eq(_crc_step(crc, shift[0])),
                shift.eq(shift >> 1),
                turns.eq(turns - 1),
            ]
        with m.FSM():
            with m.State("REST"):
                m.d.sync += [crc.eq(0xFFFF_FFFF), last.eq(0), tail.eq(CRC_BYTES)]
                m.d.comb += [self.o.payload.eq(FLAG), self.o.valid.eq(self.i.valid)]
                with m.If(self.i.valid & self.o.ready):
                    m.next = "BODY"
            with m.State("BODY"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [
                    byte.eq(self.i.p.data),
                    shift.eq(self.i.p.data),
                    last.eq(self.i.p.last),
                ]
                with m.If(self.i.valid):
                    m.d.sync += turns.eq(8)
                    m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += [self.o.valid.eq(1), self.o.payload.eq(byte)]
                with m.If(special & ~escaped):
                    m.d.comb += self.o.payload.eq(ESCAPE)
                with m.Elif(special):
                    m.d.comb += self.o.payload.eq(byte ^ ESCAPE_XOR)
                with m.If(self.o.ready):
                    m.d.sync += escaped.eq(special & ~escaped)
                    with m.If(~special | escaped):
                        m.next = "NEXT"
            with m.State("NEXT"):
                with m.If((turns == 0) & ~last):
                    m.next = "BODY"
                with m.Elif((turns == 0) & (tail != 0)):
                    m.d.sync += [byte.eq(~crc[:8]), crc.eq(crc >> 8), tail.eq(tail - 1)]
                    m.next = "SEND"
                with m.Elif(turns == 0):
                    m.next = "END"
            with m.State("END"):
                m.d.comb += [self.o.payload.eq(FLAG), self.o.valid.eq(1)]
                with m.If(self.o.ready):
                    m.next = "REST"
        return m
