"""Datagrams in and out: requests whose CRC is right, answers with theirs. Twin of the layout in `models.link.envelope`."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.link.envelope import BUFFER, LONGEST
from ...models.link.frames import CRC_BYTES, CRC_POLYNOMIAL, CRC_RESIDUE
from ..apart import APART

__all__ = ["BYTES", "HEAD", "DatagramReceiver", "DatagramSender", "crc_after"]

#: bytes of which one is the last of its datagram
BYTES = data.StructLayout({"data": 8, "last": 1})
#: bytes of a request before its data, and the places in it that the receiver looks at
HEAD, _KIND, _LENGTH = 20, 8, 10


def crc_after(crc, byte):
    """The CRC's register after one more byte."""
    for bit in range(8):
        mask = Mux(crc[0] ^ byte[bit], Const(CRC_POLYNOMIAL, 32), Const(0, 32))
        crc = crc[1:] ^ mask
    return crc


class DatagramReceiver(wiring.Component):
    """Datagrams in; head and data of those that are sound requests out, one after the other.

    A datagram's byte takes a cycle, its last one two. One that is not sound, or for which there is no room, leaves no trace. Bytes are offered from two
    cycles after a datagram's last one on, one a cycle. Between a datagram's bytes the line may rest.

    Parameters
    ----------
    buffer
        Bytes of the ring: heads and data of all that waits, and the CRC of what comes, are fewer. A power of two.
    peer
        Bytes before each datagram, of who sent it: handed on, no part of its CRC.

    Members
    -------
    i : In(stream.Signature(BYTES)), spoilt : In(1)
        `spoilt` with the last byte: the datagram is not sound.
    o : Out(stream.Signature(8))
        The peer, 20 bytes of head, then the data of a write. Where a request ends is in its head, which was checked.
    """

    def __init__(self, buffer: int = BUFFER, peer: int = 0):
        self.buffer, self.peer = buffer, peer
        requests = {"i": In(stream.Signature(BYTES)), "spoilt": In(1)}
        super().__init__({**requests, "o": Out(stream.Signature(8))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.ring = ring = memory.Memory(shape=8, depth=self.buffer, init=[], attrs=APART)
        write, read = ring.write_port(), ring.read_port()
        put, kept = Signal(range(self.buffer)), Signal(range(self.buffer))
        get, ahead = Signal(range(self.buffer)), Signal(range(self.buffer))
        m.d.comb += [
            ahead.eq(get + (self.o.valid & self.o.ready)),
            read.addr.eq(ahead),
            read.en.eq(1),
            self.o.payload.eq(read.data),
        ]
        m.d.sync += [get.eq(ahead), self.o.valid.eq(ahead != kept)]

        crc = Signal(32, init=0xFFFF_FFFF)
        most = self.peer + HEAD + LONGEST + CRC_BYTES + 1
        count = Signal(range(most + 1))
        kind, length = Signal(8), Signal(16)
        bad, ended, full = Signal(), Signal(), Signal()
        size = self.peer + HEAD + CRC_BYTES + Mux(kind[0], length, 0)
        sound = ~bad & ~kind[7] & (crc == CRC_RESIDUE) & (count == size) & (length <= LONGEST)
        m.d.comb += [
            # one place stays free, to tell full from empty
            full.eq((put + 1)[: len(get)] == get),
            self.i.ready.eq(~ended),
            write.addr.eq(put),
            write.data.eq(self.i.p.data),
            write.en.eq(self.i.valid & self.i.ready & ~full & ~bad),
        ]
        with m.If(ended):
            m.d.sync += [ended.eq(0), bad.eq(0), count.eq(0), crc.eq(0xFFFF_FFFF), put.eq(kept)]
            with m.If(sound):
                m.d.sync += [kept.eq(put - CRC_BYTES), put.eq(put - CRC_BYTES)]
        with m.Elif(self.i.valid):
            m.d.sync += [
                crc.eq(Mux(count < self.peer, crc, crc_after(crc, self.i.p.data))),
                ended.eq(self.i.p.last),
                bad.eq(bad | full | (self.spoilt & self.i.p.last)),
                put.eq(put + write.en),
            ]
            with m.If(count != most):  # no request is as long
                m.d.sync += count.eq(count + 1)
            with m.Switch(count):
                with m.Case(self.peer + _KIND):
                    m.d.sync += kind.eq(self.i.p.data)
                with m.Case(self.peer + _LENGTH):
                    m.d.sync += length[:8].eq(self.i.p.data)
                with m.Case(self.peer + _LENGTH + 1):
                    m.d.sync += length[8:].eq(self.i.p.data)
        return m


class DatagramSender(wiring.Component):
    """Appends the CRC to each datagram: a byte a cycle, four more at its end. It is not of the first `peer` bytes.

    Members
    -------
    i, o : streams of BYTES
    """

    def __init__(self, peer: int = 0):
        self.peer = peer
        super().__init__({"i": In(stream.Signature(BYTES)), "o": Out(stream.Signature(BYTES))})

    def elaborate(self, platform):
        m = Module()
        crc = Signal(32, init=0xFFFF_FFFF)
        left = Signal(range(CRC_BYTES + 1))
        before = Signal(range(self.peer + 1), init=self.peer)  # of the peer's bytes, to come
        with m.If(left == 0):
            m.d.comb += [
                self.o.valid.eq(self.i.valid),
                self.o.p.data.eq(self.i.p.data),
                self.i.ready.eq(self.o.ready),
            ]
            with m.If(self.i.valid & self.o.ready & (before != 0)):
                m.d.sync += before.eq(before - 1)
            with m.Elif(self.i.valid & self.o.ready):
                m.d.sync += crc.eq(crc_after(crc, self.i.p.data))
                with m.If(self.i.p.last):
                    m.d.sync += [left.eq(CRC_BYTES), before.eq(self.peer)]
        with m.Else():
            m.d.comb += [
                self.o.valid.eq(1),
                self.o.p.data.eq(~crc[:8]),
                self.o.p.last.eq(left == 1),
            ]
            with m.If(self.o.ready):
                # ones come in: what a new CRC begins with
                m.d.sync += [left.eq(left - 1), crc.eq(Cat(crc[8:], Const(0xFF, 8)))]
        return m
