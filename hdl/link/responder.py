"""Sessions and sequences: which request is done, and what is answered. Twin of `models.link.envelope.Envelope`."""

from functools import cached_property

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.link.envelope import LONGEST
from ...models.link.frames import HEADER, MAXIMUM, RESPONSE, Space, Status
from ..apart import APART
from ..memory.axi import AXI4
from ..memory.splitter import command_shape
from .datagrams import BYTES, HEAD, WORD
from .pusher import PUSHING
from .session import Session

#: bytes of an answer before its data
_ANSWER = 28
#: a request before its data
_REQUEST = data.StructLayout(
    {"number": 32, "sequence": 32, "kind": 8, "port": 8, "length": 16, "address": 64}
)


class Responder(wiring.Component):
    """Takes requests of datagrams, has a `Bridge` do what is to be done, in pieces of `MAXIMUM` bytes, and answers. Whole bus words that are to be written
    to memory go to a `Filler`, a word of 32 bits a cycle.

    * `memory`, `memory_bytes`: AXI4 signature of the memory port; bytes that there are, less than half of
      what it addresses.
    * `peer`: bytes before each request, which stand before its answer.
    * `rings`: there is a `Pusher`, which takes requests about rings.
    """

    def __init__(self, memory: AXI4, memory_bytes: int, peer: int = 0, rings: bool = False) -> None:
        self.peer, self.rings = peer, rings
        self.sizes = memory.data_bytes, memory_bytes
        beats = (LONGEST // memory.data_bytes).bit_length()
        super().__init__(
            {
                "i": In(stream.Signature(8 * WORD)),  # requests as a `DatagramReceiver` gives them
                # a `Filler`'s `i`, `data`, `idle` and `status`
                "fill": Out(stream.Signature(command_shape(memory.address_width, beats))),
                "filling": Out(stream.Signature(8 * WORD)),
                "fill_idle": In(1),
                "fill_status": In(2),
                # a `Bridge`'s `i` and `o`
                "asks": Out(stream.Signature(8)),
                "told": In(stream.Signature(BYTES)),
                "o": Out(stream.Signature(BYTES)),  # answers, without CRC
                # high for a cycle in each second: `SILENCE` of them without a request of its
                # session, and the device may be taken over
                "tick": In(1),
                **({"pushes": Out(PUSHING)} if rings else {}),
            }
        )

        self.session = Session()
        self.head = Signal(8 * (peer + HEAD))  # the peer before it
        self.asked = data.View(_REQUEST, self.head[8 * peer :])
        self.at = Signal(range(peer + _ANSWER))  # in a head
        self.left = Signal(range(LONGEST + 1))  # bytes of the request that are not done
        self.piece = Signal(range(MAXIMUM + 1))  # of them in this piece
        self.place = Signal(32)  # its address
        self.far = Signal()  # that has more bits
        self.filled = Signal(range(LONGEST + 1))  # bytes that were read
        self.status = Signal(3)
        self.turn = Signal()  # a bridge does register writes of the same sequence once
        # statuses that the session keeps
        self.worst = Signal(2)  # of all its writes to memory
        self.wrote = Signal(2)  # of the last one to registers
        self.again = Signal()  # the request's sequence was done before
        self.taken = Signal()  # it is done now

    @cached_property
    def writes(self):
        return self.asked.kind[0]

    @cached_property
    def opens(self):
        """The request is for the device."""
        return (self.asked.kind[1:6] == Space.IDENTITY) & ~self.writes

    @cached_property
    def in_registers(self):
        return self.asked.kind[1:6] == Space.REGISTERS

    @cached_property
    def in_memory(self):
        return self.asked.kind[1:6] == Space.MEMORY

    @cached_property
    def in_ring(self):
        return Const(self.rings, 1) & (self.asked.kind[1:6] == Space.RING)

    def elaborate(self, platform):
        m = Module()
        m.submodules.found = content = memory.Memory(shape=8, depth=LONGEST, init=[], attrs=APART)
        store, load = content.write_port(), content.read_port()
        m.submodules.session = session = self.session
        m.d.comb += [
            session.number.eq(self.asked.number),
            session.sequence.eq(self.asked.sequence),
            session.tick.eq(self.tick),
        ]
        with m.FSM(name="responder"):
            self._decide(m)
            self._fill(m)
            self._ask(m)
            self._listen(m, store)
            self._settle(m)
            self._answer(m, load)
        return m

    def _decide(self, m):
        with m.State("HEAD"):
            m.d.comb += self.i.ready.eq(1)
            m.d.sync += [self.filled.eq(0), self.status.eq(0), self.taken.eq(0), self.again.eq(0)]
            with m.If(self.i.valid):
                m.d.sync += [
                    self.head.eq(Cat(self.head[8 * WORD :], self.i.payload)),
                    self.at.eq(self.at + 1),
                ]
                with m.If(self.at == (self.peer + HEAD) // WORD - 1):
                    m.d.sync += self.at.eq(0)
                    m.next = "DECIDE"
        with m.State("DECIDE"):
            below, above = self.asked.address[:32], self.asked.address[32:]
            m.d.sync += self.left.eq(self.asked.length)
            m.d.sync += [self.place.eq(below), self.far.eq(above.any())]
            m.next = "DRAIN"
            with m.If(self.opens):
                self._open(m, (below == self.session.mine) & ~above.any())
            with m.Elif((self.asked.number != self.session.mine) | (self.session.mine == 0)):
                m.d.sync += self.status.eq(Status.GONE)
            with m.Else():
                again = self.session.done
                m.d.comb += self.session.heard.eq(1)
                m.d.sync += [self.again.eq(again), self.taken.eq(~again)]
                with m.If(self.session.far):
                    m.next = "FORGET"
                with m.Elif(~again | (~self.writes & ~self.in_ring)):
                    m.next = "WAY"
                    if self.rings:
                        with m.If(self.in_ring):
                            m.next = "JUDGE"
        if self.rings:
            self._push(m)
        for name, then in (("DRAIN", "SETTLE"), ("FORGET", "HEAD")):
            with m.State(name):  # data that nobody needs
                with m.If(~self.writes | (self.left == 0)):
                    m.next = then
                with m.Else():
                    m.d.comb += self.i.ready.eq(1)
                    with m.If(self.i.valid):
                        self._less(m)

    def _push(self, m):
        """Have a request about a ring judged, and a piece kept once memory has it. What is refused does not take its sequence."""
        of, asked = self.pushes, self.asked
        m.d.comb += [
            of.port.eq(asked.port),
            of.address.eq(asked.address),
            of.length.eq(asked.length),
            of.asked.eq(asked.kind[6]),
        ]
        with m.State("JUDGE"):
            m.d.comb += [of.begin.eq(~self.writes), of.take.eq(self.writes)]
            m.next = "JUDGED"
        with m.State("JUDGED"), m.If(of.done):
            m.d.sync += [
                *(self.status.eq(of.status), self.taken.eq(of.status == 0)),
                *(self.place.eq(of.place), self.far.eq(0)),
            ]
            m.next = "DRAIN"
            with m.If(of.goes):
                m.next = "WAY"
        with m.State("KEEP"):
            m.d.comb += of.kept.eq(self.status == 0)
            m.d.sync += self.taken.eq(self.status == 0)
            m.next = "SETTLE"
            with m.If(self.status == 0):
                m.next = "KEPT"
        with m.State("KEPT"), m.If(of.done):
            m.next = "SETTLE"

    def _open(self, m, follows):
        """A request for the device: of the session that has it, or of another one."""
        session, number = self.session, self.asked.number
        silent = session.silent & (number != 0)
        with m.If((number == session.mine) | (session.mine == 0) | follows | silent):
            m.d.comb += [session.heard.eq(1), session.begin.eq(number != session.mine)]
            m.d.sync += [self.place.eq(0), self.far.eq(0)]
            with m.If(number != session.mine):
                m.d.sync += [self.worst.eq(0), self.wrote.eq(0)]
            m.next = "PIECE"
        with m.Else():
            m.d.sync += self.status.eq(Status.BUSY)

    def _less(self, m):
        """A word of the request's data is done."""
        m.d.sync += self.left.eq(Mux(self.left < WORD, 0, self.left - WORD))

    def _fill(self, m):
        """Bytes in whole bus words, to memory that there is, go past the bridge."""
        # what lies just behind memory has an address, too
        within, highest = ((size - 1).bit_length() for size in self.sizes)
        uneven = Cat(self.place[:within], self.left[:within], self.place[highest:], self.far).any()
        memory = self.writes & (self.in_memory | self.in_ring)
        m.d.comb += [
            self.fill.p.address.eq(self.place),
            self.fill.p.beats.eq(self.left >> within),
            self.filling.payload.eq(self.i.payload),
        ]
        with m.State("WAY"):
            m.next = "PIECE"
            with m.If(memory & ~uneven & (self.left != 0)):
                m.next = "BURSTS"
        with m.State("BURSTS"):
            m.d.comb += self.fill.valid.eq(1)
            with m.If(self.fill.ready):
                m.next = "FILL"
        with m.State("FILL"):
            m.d.comb += [
                self.filling.valid.eq(self.i.valid & (self.left != 0)),
                self.i.ready.eq(self.filling.ready & (self.left != 0)),
            ]
            with m.If(self.filling.valid & self.filling.ready):
                self._less(m)
            with m.If((self.left == 0) & self.fill_idle):
                m.d.sync += self.status.eq(self.fill_status)
                m.next = "SETTLE"
                if self.rings:
                    with m.If(self.in_ring):
                        m.next = "KEEP"

    def _ask(self, m):
        """A piece of a request, to the bridge."""
        with m.State("PIECE"):
            m.d.sync += self.piece.eq(Mux(self.left > MAXIMUM, MAXIMUM, self.left))
            m.next = "ASK"
        with m.State("ASK"):
            # what is too far for the bridge is too far for every memory
            above = self.place[16:] | self.far.replicate(16)
            head = Cat(
                self.turn,
                Const(0, 7),
                Mux(self.in_ring, Space.MEMORY << 1 | 1, self.asked.kind[:6])[:6],
                Const(0, 2),
                self.piece,
                self.place[:16],
                above,
            )
            assert len(head) == 8 * HEADER
            m.d.comb += [
                self.asks.valid.eq(1),
                self.asks.payload.eq(head.word_select(self.at[:3], 8)),
            ]
            with m.If(self.asks.ready):
                m.d.sync += self.at.eq(self.at + 1)
                with m.If(self.at == HEADER - 1):
                    m.d.sync += self.at.eq(0)
                    m.next = "PASS"
        with m.State("PASS"):
            with m.If(~self.writes | (self.piece == 0)):
                m.next = "TOLD"
            with m.Else():
                lane = (self.asked.length[:2] - self.left[:2])[:2]
                m.d.comb += [
                    self.asks.valid.eq(self.i.valid),
                    self.asks.payload.eq(self.i.payload.word_select(lane, 8)),
                    self.i.ready.eq(self.asks.ready & (lane.all() | (self.left == 1))),
                ]
                with m.If(self.i.valid & self.asks.ready):
                    m.d.sync += [self.piece.eq(self.piece - 1), self.left.eq(self.left - 1)]

    def _listen(self, m, store):
        """The bridge's answer: sequence, kind, length; what was read; the status."""
        m.d.comb += [store.addr.eq(self.filled), store.data.eq(self.told.p.data)]
        with m.State("TOLD"):
            m.d.comb += self.told.ready.eq(1)
            with m.If(self.told.valid):
                m.d.sync += self.at.eq(self.at + 1)
                with m.If(self.at == 2):
                    m.d.sync += self.at.eq(0)
                    m.next = "FOUND"
        with m.State("FOUND"):
            m.d.comb += self.told.ready.eq(1)
            with m.If(self.told.valid & ~self.told.p.last):
                m.d.comb += store.en.eq(1)
                m.d.sync += [self.filled.eq(self.filled + 1), self.left.eq(self.left - 1)]
            with m.Elif(self.told.valid):
                after = self.place + MAXIMUM
                m.d.sync += [
                    self.status.eq(self.status | self.told.p.data[:2]),
                    self.place.eq(after),
                    self.far.eq(self.far | after[32]),
                    self.turn.eq(self.turn ^ (self.in_registers & self.writes)),
                ]
                m.next = "SETTLE"
                with m.If(self.left != 0):
                    m.next = "PIECE"
                if self.rings:
                    with m.Elif(self.in_ring):
                        m.next = "KEEP"

    def _settle(self, m):
        """What is remembered of it, and whether it is answered."""
        with m.State("SETTLE"):
            with m.If(self.writes & (self.taken | self.again) & ~self.in_ring):
                with m.If(self.in_registers):
                    m.d.sync += [
                        self.wrote.eq(Mux(self.again, self.wrote, self.status)),
                        self.status.eq(Mux(self.again, self.wrote, self.status)),
                    ]
                with m.Else():
                    both = self.worst | self.status
                    m.d.sync += [self.worst.eq(both), self.status.eq(both)]
            m.d.comb += self.session.take.eq(self.taken)
            m.next = "SLIDE"
        with m.State("SLIDE"):
            m.d.comb += self.session.slide.eq(self.session.bitmap[0])
            with m.If(~self.session.bitmap[0]):
                m.next = "ANSWER"
                asked = (
                    self.asked.kind[6] | self.again | self.session.bitmap.any() | self.status.any()
                )
                with m.If((self.in_memory | self.in_ring) & self.writes & ~asked):
                    m.next = "HEAD"

    def _answer(self, m, load):
        head = Cat(
            self.asked.number,
            self.asked.sequence,
            self.asked.kind | RESPONSE,
            self.status,
            Const(0, 5),
        )
        filled = Cat(self.filled, Const(0, 16 - len(self.filled)))
        head = Cat(head, filled, self.session.bitmap, self.session.first)
        pages = (
            Mux(self.in_ring & (self.status != Status.GONE), self.pushes.pages, 0)
            if self.rings
            else Const(0, 32)
        )
        head = Cat(self.head[: 8 * self.peer], head, pages)
        assert len(head) == 8 * (self.peer + _ANSWER)
        position = Signal.like(self.filled)
        m.d.comb += [load.addr.eq(position), load.en.eq(1)]
        with m.State("ANSWER"):
            last = self.at == self.peer + _ANSWER - 1
            m.d.comb += [
                self.o.valid.eq(1),
                self.o.p.data.eq(head.word_select(self.at, 8)),
                self.o.p.last.eq(last & (self.filled == 0)),
            ]
            m.d.sync += position.eq(0)
            with m.If(self.o.ready):
                m.d.sync += self.at.eq(self.at + 1)
                with m.If(last):
                    m.d.sync += self.at.eq(0)
                    m.next = "DATA"
                    with m.If(self.filled == 0):
                        m.next = "HEAD"
        with m.State("DATA"):
            m.next = "GIVE"
        with m.State("GIVE"):
            ends = position + 1 == self.filled
            m.d.comb += [
                self.o.valid.eq(1),
                self.o.p.data.eq(load.data),
                self.o.p.last.eq(ends),
            ]
            with m.If(self.o.ready):
                m.d.sync += position.eq(position + 1)
                m.next = "DATA"
                with m.If(ends):
                    m.next = "HEAD"
