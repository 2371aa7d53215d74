"""Frames of Ethernet from and to the bytes of a gigabit PHY: one a cycle of domain `eth`, 125 MHz; behind a block RAM the engine's clock, `sync`.

Source: IEEE 802.3, clauses 3 (frames, FCS) and 35 (GMII).
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ...models.link.ethernet import (
    FCS,
    FRAMES,
    GAP,
    LONGEST_FRAME,
    PREAMBLE,
    SHIFT,
    SHORTEST,
    SLACK,
    START,
)
from ...models.link.frames import CRC_RESIDUE
from .datagrams import WORD, WORDS, crc_after, offer

#: bits of a frame's length; of a byte in the ring, with whether it is its frame's last
SIZE, _BYTE = 11, 9


class FrameReceiver(wiring.Component):
    """Takes frames from a PHY and gives the sound ones, without their FCS.

    A frame is sound if it has 64 to 1,518 bytes and the right FCS, the PHY reported no error, and there was room for it. Others are dropped. The first
    word of a sound frame is offered seven cycles after its last byte, counted as if both domains were one. One idle cycle between frames is enough.

    * `buffer`: bytes of the ring, a power of two.
    """

    def __init__(self, buffer: int = FRAMES):
        self.buffer = buffer
        super().__init__(
            {
                # GMII, in domain `eth`
                "rxd": In(8),
                "rx_dv": In(1),
                "rx_er": In(1),
                # frames of 60 bytes or more, in domain `sync`, which is not slower than a twentieth of
                # `eth`. The first `SHIFT` bytes of a frame's first word are no part of it, so that what
                # UDP carries begins with a word.
                "o": Out(stream.Signature(WORDS)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        words = self.buffer // WORD
        m.submodules.ring = ring = memory.Memory(shape=WORD * _BYTE, depth=words, init=[])
        self.write = ring.write_port(domain="eth", granularity=_BYTE)
        self.read = ring.read_port(domain="sync")
        self.kept, self.toggle = Signal(range(words)), Signal()  # toggle: changes with `kept`
        self.grey = Signal(range(words))  # of the place that is read
        self._take(m)
        self._give(m)
        return m

    def _room(self, m, put):
        """Return whether fewer than `SLACK` bytes are free; a few cycles late, as the reader's place comes from the other domain."""
        crossed, get, full = Signal.like(self.grey), Signal.like(self.grey), Signal()
        m.submodules.crossed = FFSynchronizer(self.grey, crossed, o_domain="eth")
        bits = [crossed[k:].xor() for k in range(len(crossed))]
        room = Signal.like(get)
        m.d.comb += room.eq(get - put - 1)
        m.d.eth += [get.eq(Cat(*bits)), full.eq(room < SLACK // WORD)]
        return full

    def _take(self, m):
        put, lane = Signal.like(self.kept), Signal(range(WORD))
        # the last five bytes: four that may be the FCS, and the one before, which is written
        late = Signal(8 * (FCS + 1))
        # bytes that have come; it wraps round, so the flags below keep what it reached
        count = Signal(range(LONGEST_FRAME + 1))
        past, enough, over = Signal(), Signal(), Signal()
        crc, bad, right = Signal(32), Signal(), Signal()
        full = self._room(m, put)
        m.d.comb += [
            self.write.addr.eq(put),
            # the ninth bit marks a frame's last byte: `rx_dv` has just fallen
            self.write.data.eq(Cat(late[:8], ~self.rx_dv).replicate(WORD)),
        ]
        m.d.eth += right.eq(crc == CRC_RESIDUE)
        with m.FSM(name="receive", domain="eth"):
            with m.State("REST"):
                m.d.eth += [crc.eq(0xFFFF_FFFF), count.eq(0), bad.eq(0), put.eq(self.kept)]
                m.d.eth += [lane.eq(SHIFT), past.eq(0), enough.eq(0), over.eq(0)]
                with m.If(self.rx_dv & (self.rxd == START)):
                    m.next = "BODY"
                with m.Elif(self.rx_dv & (self.rxd != PREAMBLE)):
                    m.next = "SKIP"
            with m.State("SKIP"), m.If(~self.rx_dv):
                m.next = "REST"
            with m.State("BODY"):
                # the word at `put` is free: `put` does not go on once there is no room
                m.d.comb += self.write.en.bit_select(lane, 1).eq(1)
                with m.If(self.rx_dv):
                    m.d.eth += [
                        crc.eq(crc_after(crc, self.rxd)),
                        late.eq(Cat(late[8:], self.rxd)),
                        bad.eq(bad | self.rx_er | full),
                        count.eq(count + 1),
                        past.eq(past | (count == FCS)),
                        enough.eq(enough | (count == SHORTEST - 1)),
                        over.eq(over | (count == LONGEST_FRAME)),
                    ]
                    with m.If(past & ~bad & ~full):
                        m.d.eth += Cat(lane, put).eq(Cat(lane, put) + 1)
                with m.Else():
                    m.d.eth += put.eq(put + 1)  # frames begin with a word
                    m.next = "END"
            with m.State("END"):
                with m.If(right & enough & ~over & ~bad & ~full):
                    m.d.eth += [self.kept.eq(put), self.toggle.eq(~self.toggle)]
                m.next = "REST"

    def _give(self, m):
        toggle, before, begins = Signal(), Signal(), Signal(init=1)
        limit = Signal.like(self.kept)
        _, ahead = offer(m, self.read, self.o, limit)
        m.submodules.toggle = FFSynchronizer(self.toggle, toggle)
        lanes = [self.read.data.word_select(k, _BYTE) for k in range(WORD)]
        ends = [lane[8] & (~begins if k < SHIFT else 1) for k, lane in enumerate(lanes)]
        m.d.comb += [
            self.o.p.data.eq(Cat(lane[:8] for lane in lanes)),
            self.o.p.last.eq(Cat(ends).any()),
            self.o.p.size.eq(Mux(ends[0], 0, Mux(ends[1], 1, Mux(ends[2], 2, 3)))),
        ]
        m.d.sync += [before.eq(toggle), self.grey.eq(ahead ^ (ahead >> 1))]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += begins.eq(self.o.p.last)
        # `kept` stands still for the 72 bytes of the shortest frame with its preamble, which is longer
        # than `toggle` takes to get here
        with m.If(toggle != before):
            m.d.sync += limit.eq(self.kept)


class FrameSender(wiring.Component):
    """Sends a frame that was written into a buffer to the PHY: with preamble, padding, FCS and gap.

    Its first byte of preamble is there six cycles after `go`, counted as if both domains were one.
    """

    def __init__(self):
        super().__init__(
            {
                # a byte of the buffer is written, in domain `sync`; not while `busy`
                "at": In(SIZE),
                "data": In(8),
                "en": In(1),
                "go": In(1),  # the frame has `length` bytes, 14 or more
                "length": In(SIZE),  # stays while `busy`
                "busy": Out(1),
                # GMII, in domain `eth`, straight from flip-flops
                "txd": Out(8),
                "tx_en": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.store = store = memory.Memory(shape=8, depth=1 << SIZE, init=[])
        write, self.read = store.write_port(domain="sync"), store.read_port(domain="eth")
        asked, done = Signal(), Signal()
        self.seen, self.ended = Signal(), Signal()
        m.submodules.asked = FFSynchronizer(asked, self.seen, o_domain="eth")
        m.submodules.ended = FFSynchronizer(self.ended, done)
        m.d.comb += [
            write.addr.eq(self.at),
            write.data.eq(self.data),
            write.en.eq(self.en),
            self.busy.eq(asked != done),
        ]
        m.d.sync += asked.eq(asked ^ self.go)
        self._send(m)
        return m

    def _send(self, m):
        """Which byte is next, and of what: what knows that is a cycle before the CRC."""
        place, fetched = Signal(SIZE), Signal(8)  # the memory's data is late in its cycle
        count, left, filled = Signal(4), Signal(SIZE), Signal(SIZE)
        last, empty = Signal(), Signal()  # what `left` and `filled` come to, from registers
        byte, sends = Signal(8), Signal()
        body, check = Signal(), Signal()
        m.d.comb += [self.read.addr.eq(place), self.read.en.eq(1)]
        m.d.eth += [fetched.eq(self.read.data), sends.eq(0), byte.eq(0), body.eq(0), check.eq(0)]
        with m.FSM(name="send", domain="eth"):
            with m.State("REST"):
                m.d.eth += [place.eq(0), count.eq(7), filled.eq(self.length)]
                m.d.eth += [last.eq(0), empty.eq(0)]
                m.d.eth += left.eq(Mux(self.length < SHORTEST - FCS, SHORTEST - FCS, self.length))
                with m.If(self.seen != self.ended):
                    m.next = "PREAMBLE"
            with m.State("PREAMBLE"):
                m.d.eth += [
                    sends.eq(1),
                    byte.eq(Mux(count == 0, START, PREAMBLE)),
                    count.eq(count - 1),
                    place.eq(place + (count < 2)),
                ]
                with m.If(count == 0):
                    m.next = "BODY"
            with m.State("BODY"):
                m.d.eth += [
                    sends.eq(1),
                    body.eq(1),
                    byte.eq(Mux(empty, 0, fetched)),
                    place.eq(place + 1),
                    left.eq(left - 1),
                    filled.eq(filled - 1),
                    last.eq(left == 2),
                    empty.eq(empty | (filled == 1)),
                    count.eq(FCS - 1),
                ]
                with m.If(last):
                    m.d.eth += self.ended.eq(self.seen)
                    m.next = "FCS"
            with m.State("FCS"):
                m.d.eth += [sends.eq(1), check.eq(1), count.eq(count - 1)]
                with m.If(count == 0):
                    m.d.eth += count.eq(GAP - 1)
                    m.next = "GAP"
            with m.State("GAP"):
                m.d.eth += count.eq(count - 1)
                with m.If(count == 1):  # and one at rest
                    m.next = "REST"
        m.d.eth += self.tx_en.eq(sends)
        self._check(m, byte, body, check)

    def _check(self, m, byte, body, check):
        """Send bytes, while `check` is high those of the CRC in their place; it counts the bytes for which `body` is high."""
        crc = Signal(32)
        with m.If(body | check):  # its own bits in place of a byte's move it on
            m.d.eth += crc.eq(crc_after(crc, Mux(body, byte, crc[:8])))
        with m.Else():
            m.d.eth += crc.eq(0xFFFF_FFFF)
        m.d.eth += self.txd.eq(Mux(check, ~crc[:8], byte))
