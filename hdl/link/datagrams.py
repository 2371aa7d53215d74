"""Datagrams in and out: requests whose CRC is right, answers with theirs. Twin of the layout in `models.link.envelope`."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.link.envelope import BUFFER, LONGEST
from ...models.link.frames import CRC_BYTES, CRC_POLYNOMIAL, CRC_RESIDUE
from ..apart import APART

#: bytes of which one is the last of its datagram
BYTES = data.StructLayout({"data": 8, "last": 1})
#: bytes of a word; words, the low byte first, of which one is the last, with `size` bytes beside its first; others are whole
WORD = 4
WORDS = data.StructLayout({"data": 8 * WORD, "size": 2, "last": 1})
#: bytes of a request before its data, and the place of the word in it that has its kind and its length
HEAD, _KIND = 20, 8


def crc_after(crc, came):
    """The CRC's register after more bits, 32 at most: each of its bits as the sum of those that it depends on."""
    mixed, columns = crc[: len(came)] ^ came, []
    for bit in range(len(came)):
        state = 1 << bit
        for _ in came:
            state = state >> 1 ^ (CRC_POLYNOMIAL if state & 1 else 0)
        columns.append(state)
    rows = ([mixed[b] for b, column in enumerate(columns) if column >> k & 1] for k in range(32))
    return Cat(Cat(row, crc[k + len(came) : k + len(came) + 1]).xor() for k, row in enumerate(rows))


def offer(m, read, o, end):
    """Offer what a ring holds before `end`, one a cycle, but for what it is; return the place that is read, and the one read next."""
    get = Signal.like(end)
    ahead = Signal.like(end)
    m.d.comb += [ahead.eq(get + (o.valid & o.ready)), read.addr.eq(ahead), read.en.eq(1)]
    m.d.sync += [get.eq(ahead), o.valid.eq(ahead != end)]
    return get, ahead


class DatagramReceiver(wiring.Component):
    """Datagrams in; head and data of those that are sound requests out, one after the other.

    A datagram's word takes a cycle, its last one two and one more for each of its bytes. One that is not sound, or for which there is no room, leaves no
    trace. Words are offered from two cycles after a datagram was looked at on, one a cycle. Between a datagram's words the line may rest.

    * `buffer`: bytes of the ring: heads and data of all that waits, and the CRC of what comes, are fewer. A
      power of two.
    * `peer`: bytes before each datagram, of who sent it: handed on, no part of its CRC. Whole words.
    """

    def __init__(self, buffer: int = BUFFER, peer: int = 0):
        self.buffer, self.peer = buffer, peer
        # `spoilt`, with the last word: the datagram is not sound
        requests = {"i": In(stream.Signature(WORDS)), "spoilt": In(1)}
        # `o`: the peer, 20 bytes of head, then the data of a write, each from a word on. Where a
        # request ends is in its head, which was checked.
        super().__init__({**requests, "o": Out(stream.Signature(8 * WORD))})

    def elaborate(self, platform):
        m = Module()
        words = self.buffer // WORD
        m.submodules.ring = ring = memory.Memory(shape=8 * WORD, depth=words, init=[], attrs=APART)
        write, read = ring.write_port(), ring.read_port()
        put, kept = Signal(range(words)), Signal(range(words))
        bad, full = Signal(), Signal()
        get, _ = offer(m, read, self.o, kept)
        m.d.comb += [
            self.o.payload.eq(read.data),
            # one place stays free, to tell full from empty
            full.eq((put + 1)[: len(get)] == get),
            write.addr.eq(put),
            write.data.eq(self.i.p.data),
            write.en.eq(self.i.valid & self.i.ready & ~full & ~bad),
        ]
        sound = self._look(m, bad)
        with m.If(self.ended):
            m.d.sync += [bad.eq(0), put.eq(kept)]
            with m.If(sound):  # behind the data lies but a word with the CRC's end
                m.d.sync += [kept.eq(put - 1), put.eq(put - 1)]
        with m.Elif(self.i.valid & self.i.ready):
            m.d.sync += [
                bad.eq(bad | full | (self.spoilt & self.i.p.last)),
                put.eq(put + write.en),
            ]
        return m

    def _look(self, m, bad):
        """The CRC, the length and the kind; return whether a datagram that has ended is a sound request."""
        crc = Signal(32, init=0xFFFF_FFFF)
        most = self.peer + HEAD + LONGEST + CRC_BYTES + 1
        count = Signal(range(most + WORD))
        kind, length = Signal(8), Signal(16)
        tail, left = Signal(8 * WORD), Signal(range(WORD + 1))
        taken, self.ended = self.i.valid & self.i.ready, Signal()
        m.d.comb += self.i.ready.eq(~self.ended & (left == 0))
        m.d.sync += self.ended.eq(left == 1)
        with m.If(self.ended):
            m.d.sync += [count.eq(0), crc.eq(0xFFFF_FFFF)]
        with m.Elif(left != 0):
            m.d.sync += [
                crc.eq(crc_after(crc, tail[:8])),
                tail.eq(tail >> 8),
                left.eq(left - 1),
            ]
        with m.Elif(taken):
            with m.If(self.i.p.last):
                m.d.sync += [tail.eq(self.i.p.data), left.eq(self.i.p.size + 1)]
            with m.Elif(count >= self.peer):
                m.d.sync += crc.eq(crc_after(crc, self.i.p.data))
            with m.If(count < most):  # no request is as long
                m.d.sync += count.eq(count + Mux(self.i.p.last, self.i.p.size + 1, WORD))
            with m.If(count == self.peer + _KIND):
                m.d.sync += Cat(kind, Signal(8, name="port"), length).eq(self.i.p.data)
        size = self.peer + HEAD + CRC_BYTES + Mux(kind[0], length, 0)
        return ~bad & ~kind[7] & (crc == CRC_RESIDUE) & (count == size) & (length <= LONGEST)


class DatagramSender(wiring.Component):
    """Appends the CRC to each datagram: a byte a cycle, four more at its end. It is not of the first `peer` bytes."""

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
