"""Sessions and sequences: which request is done, and what is answered. Twin of `models.link.envelope.Envelope`."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.link.envelope import LONGEST, SILENCE, WINDOW
from ...models.link.frames import HEADER, MAXIMUM, RESPONSE, Space, Status
from ..apart import APART
from ..memory.axi import AXI4
from ..memory.splitter import command_shape
from .datagrams import BYTES, HEAD, WORD
from .pusher import PUSHING

#: bytes of an answer before its data
_ANSWER = 28
#: a request before its data
_REQUEST = data.StructLayout(
    {"number": 32, "sequence": 32, "kind": 8, "port": 8, "length": 16, "address": 64}
)


class Request:
    """What a request says, and the peer before it. `rings`: there are any."""

    def __init__(self, peer: int, rings: bool):
        self.head = Signal(8 * (peer + HEAD))
        self.fields = data.View(_REQUEST, self.head[8 * peer :])
        self.writes, space = self.fields.kind[0], self.fields.kind[1:6]
        self.opens = (space == Space.IDENTITY) & ~self.writes
        self.in_registers, self.in_memory = space == Space.REGISTERS, space == Space.MEMORY
        self.in_ring = Const(rings, 1) & (space == Space.RING)


class Progress:
    """What has become of a request."""

    def __init__(self, peer: int):
        self.at = Signal(range(peer + _ANSWER))  # in a head
        self.left = Signal(range(LONGEST + 1))  # bytes of the request that are not done
        self.piece = Signal(range(MAXIMUM + 1))  # of them in this piece
        self.place, self.far = Signal(32), Signal()  # its address; whether that has more bits
        self.filled = Signal(range(LONGEST + 1))  # bytes that were read
        self.status = Signal(3)


class Session:
    """Whose the device is, and what it has of that session."""

    def __init__(self):
        self.mine = Signal(32)
        self.first = Signal(32)
        self.bitmap = Signal(WINDOW)
        self.quiet = Signal(range(SILENCE + 1))
        self.worst, self.wrote = Signal(2), Signal(2)
        self.distance = Signal(32)  # of the request's sequence from the first
        self.again, self.taken = Signal(), Signal()


class Responder(wiring.Component):
    """Takes requests of datagrams, has a `Bridge` do what is to be done, in pieces of `MAXIMUM` bytes, and answers. Whole bus words that are to be written
    to memory go to a `Filler`, a word of 32 bits a cycle.

    Parameters
    ----------
    memory, memory_bytes
        AXI4 signature of the memory port; bytes that there are, less than half of what it addresses.
    peer
        Bytes before each request, which stand before its answer.
    rings
        There is a `Pusher`, which takes requests about rings.
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

    def elaborate(self, platform):
        m = Module()
        m.submodules.found = content = memory.Memory(shape=8, depth=LONGEST, init=[], attrs=APART)
        store, load = content.write_port(), content.read_port()
        self.request, self.progress = Request(self.peer, self.rings), Progress(self.peer)
        self.turn = Signal()  # a bridge does register writes of the same sequence once
        self.session = session = Session()
        m.d.comb += session.distance.eq(self.request.fields.sequence - session.first)
        with m.If(self.tick & (session.quiet != SILENCE)):
            m.d.sync += session.quiet.eq(session.quiet + 1)
        with m.FSM(name="responder"):
            self._decide(m)
            self._fill(m)
            self._ask(m)
            self._listen(m, store)
            self._settle(m)
            self._answer(m, load)
        return m

    def _decide(self, m):
        request, progress, session = self.request, self.progress, self.session
        with m.State("HEAD"):
            m.d.comb += self.i.ready.eq(1)
            m.d.sync += [
                progress.filled.eq(0),
                progress.status.eq(0),
                session.taken.eq(0),
                session.again.eq(0),
            ]
            with m.If(self.i.valid):
                m.d.sync += [
                    request.head.eq(Cat(request.head[8 * WORD :], self.i.payload)),
                    progress.at.eq(progress.at + 1),
                ]
                with m.If(progress.at == (self.peer + HEAD) // WORD - 1):
                    m.d.sync += progress.at.eq(0)
                    m.next = "DECIDE"
        with m.State("DECIDE"):
            below, above = request.fields.address[:32], request.fields.address[32:]
            m.d.sync += progress.left.eq(request.fields.length)
            m.d.sync += [progress.place.eq(below), progress.far.eq(above.any())]
            m.next = "DRAIN"
            with m.If(request.opens):
                self._open(m, (below == session.mine) & ~above.any())
            with m.Elif((request.fields.number != session.mine) | (session.mine == 0)):
                m.d.sync += progress.status.eq(Status.GONE)
            with m.Else():
                old = session.distance[-1]
                again = old | session.bitmap.bit_select(session.distance[:6], 1)
                m.d.sync += [
                    session.quiet.eq(0),
                    session.again.eq(again),
                    session.taken.eq(~again),
                ]
                with m.If(~old & (session.distance >= WINDOW)):
                    m.next = "FORGET"
                with m.Elif(~again | (~request.writes & ~request.in_ring)):
                    m.next = "WAY"
                    if self.rings:
                        with m.If(request.in_ring):
                            m.next = "JUDGE"
        if self.rings:
            self._push(m)
        for name, then in (("DRAIN", "SETTLE"), ("FORGET", "HEAD")):
            with m.State(name):  # data that nobody needs
                with m.If(~request.writes | (progress.left == 0)):
                    m.next = then
                with m.Else():
                    m.d.comb += self.i.ready.eq(1)
                    with m.If(self.i.valid):
                        self._less(m)

    def _push(self, m):
        """Have a request about a ring judged, and a piece kept once memory has it. What is refused does not take its sequence."""
        request, progress, session = self.request, self.progress, self.session
        of, asked = self.pushes, request.fields
        m.d.comb += [
            of.port.eq(asked.port),
            of.address.eq(asked.address),
            of.length.eq(asked.length),
            of.asked.eq(asked.kind[6]),
        ]
        with m.State("JUDGE"):
            m.d.comb += [of.begin.eq(~request.writes), of.take.eq(request.writes)]
            m.next = "JUDGED"
        with m.State("JUDGED"), m.If(of.done):
            m.d.sync += [
                *(progress.status.eq(of.status), session.taken.eq(of.status == 0)),
                *(progress.place.eq(of.place), progress.far.eq(0)),
            ]
            m.next = "DRAIN"
            with m.If(of.goes):
                m.next = "WAY"
        with m.State("KEEP"):
            m.d.comb += of.kept.eq(progress.status == 0)
            m.d.sync += session.taken.eq(progress.status == 0)
            m.next = "SETTLE"
            with m.If(progress.status == 0):
                m.next = "KEPT"
        with m.State("KEPT"), m.If(of.done):
            m.next = "SETTLE"

    def _open(self, m, follows):
        """A request for the device: of the session that has it, or of another one."""
        request, progress, session = self.request, self.progress, self.session
        silent = (session.quiet == SILENCE) & (request.fields.number != 0)
        with m.If((request.fields.number == session.mine) | (session.mine == 0) | follows | silent):
            m.d.sync += [session.quiet.eq(0), progress.place.eq(0), progress.far.eq(0)]
            with m.If(request.fields.number != session.mine):
                m.d.sync += [
                    session.mine.eq(request.fields.number),
                    session.first.eq(session.first + WINDOW),
                    session.bitmap.eq(0),
                    session.worst.eq(0),
                    session.wrote.eq(0),
                ]
            m.next = "PIECE"
        with m.Else():
            m.d.sync += progress.status.eq(Status.BUSY)

    def _less(self, m):
        """A word of the request's data is done."""
        progress = self.progress
        m.d.sync += progress.left.eq(Mux(progress.left < WORD, 0, progress.left - WORD))

    def _fill(self, m):
        """Bytes in whole bus words, to memory that there is, go past the bridge."""
        request, progress = self.request, self.progress
        # what lies just behind memory has an address, too
        within, highest = ((size - 1).bit_length() for size in self.sizes)
        uneven = Cat(
            progress.place[:within],
            progress.left[:within],
            progress.place[highest:],
            progress.far,
        ).any()
        memory = request.writes & (request.in_memory | request.in_ring)
        m.d.comb += [
            self.fill.p.address.eq(progress.place),
            self.fill.p.beats.eq(progress.left >> within),
            self.filling.payload.eq(self.i.payload),
        ]
        with m.State("WAY"):
            m.next = "PIECE"
            with m.If(memory & ~uneven & (progress.left != 0)):
                m.next = "BURSTS"
        with m.State("BURSTS"):
            m.d.comb += self.fill.valid.eq(1)
            with m.If(self.fill.ready):
                m.next = "FILL"
        with m.State("FILL"):
            m.d.comb += [
                self.filling.valid.eq(self.i.valid & (progress.left != 0)),
                self.i.ready.eq(self.filling.ready & (progress.left != 0)),
            ]
            with m.If(self.filling.valid & self.filling.ready):
                self._less(m)
            with m.If((progress.left == 0) & self.fill_idle):
                m.d.sync += progress.status.eq(self.fill_status)
                m.next = "SETTLE"
                if self.rings:
                    with m.If(request.in_ring):
                        m.next = "KEEP"

    def _ask(self, m):
        """A piece of a request, to the bridge."""
        request, progress = self.request, self.progress
        with m.State("PIECE"):
            m.d.sync += progress.piece.eq(Mux(progress.left > MAXIMUM, MAXIMUM, progress.left))
            m.next = "ASK"
        with m.State("ASK"):
            # what is too far for the bridge is too far for every memory
            above = progress.place[16:] | progress.far.replicate(16)
            head = Cat(
                self.turn,
                Const(0, 7),
                Mux(request.in_ring, Space.MEMORY << 1 | 1, request.fields.kind[:6])[:6],
                Const(0, 2),
                progress.piece,
                progress.place[:16],
                above,
            )
            assert len(head) == 8 * HEADER
            m.d.comb += [
                self.asks.valid.eq(1),
                self.asks.payload.eq(head.word_select(progress.at[:3], 8)),
            ]
            with m.If(self.asks.ready):
                m.d.sync += progress.at.eq(progress.at + 1)
                with m.If(progress.at == HEADER - 1):
                    m.d.sync += progress.at.eq(0)
                    m.next = "PASS"
        with m.State("PASS"):
            with m.If(~request.writes | (progress.piece == 0)):
                m.next = "TOLD"
            with m.Else():
                lane = (request.fields.length[:2] - progress.left[:2])[:2]
                m.d.comb += [
                    self.asks.valid.eq(self.i.valid),
                    self.asks.payload.eq(self.i.payload.word_select(lane, 8)),
                    self.i.ready.eq(self.asks.ready & (lane.all() | (progress.left == 1))),
                ]
                with m.If(self.i.valid & self.asks.ready):
                    m.d.sync += [
                        progress.piece.eq(progress.piece - 1),
                        progress.left.eq(progress.left - 1),
                    ]

    def _listen(self, m, store):
        """The bridge's answer: sequence, kind, length; what was read; the status."""
        request, progress = self.request, self.progress
        m.d.comb += [store.addr.eq(progress.filled), store.data.eq(self.told.p.data)]
        with m.State("TOLD"):
            m.d.comb += self.told.ready.eq(1)
            with m.If(self.told.valid):
                m.d.sync += progress.at.eq(progress.at + 1)
                with m.If(progress.at == 2):
                    m.d.sync += progress.at.eq(0)
                    m.next = "FOUND"
        with m.State("FOUND"):
            m.d.comb += self.told.ready.eq(1)
            with m.If(self.told.valid & ~self.told.p.last):
                m.d.comb += store.en.eq(1)
                m.d.sync += [
                    progress.filled.eq(progress.filled + 1),
                    progress.left.eq(progress.left - 1),
                ]
            with m.Elif(self.told.valid):
                after = progress.place + MAXIMUM
                m.d.sync += [
                    progress.status.eq(progress.status | self.told.p.data[:2]),
                    progress.place.eq(after),
                    progress.far.eq(progress.far | after[32]),
                    self.turn.eq(self.turn ^ (request.in_registers & request.writes)),
                ]
                m.next = "SETTLE"
                with m.If(progress.left != 0):
                    m.next = "PIECE"
                if self.rings:
                    with m.Elif(request.in_ring):
                        m.next = "KEEP"

    def _settle(self, m):
        """What is remembered of it, and whether it is answered."""
        request, progress, session = self.request, self.progress, self.session
        with m.State("SETTLE"):
            with m.If(request.writes & (session.taken | session.again) & ~request.in_ring):
                with m.If(request.in_registers):
                    m.d.sync += [
                        session.wrote.eq(Mux(session.again, session.wrote, progress.status)),
                        progress.status.eq(Mux(session.again, session.wrote, progress.status)),
                    ]
                with m.Else():
                    both = session.worst | progress.status
                    m.d.sync += [session.worst.eq(both), progress.status.eq(both)]
            with m.If(session.taken):
                m.d.sync += session.bitmap.bit_select(session.distance[:6], 1).eq(1)
            m.next = "SLIDE"
        with m.State("SLIDE"):
            with m.If(session.bitmap[0]):
                m.d.sync += [
                    session.bitmap.eq(session.bitmap >> 1),
                    session.first.eq(session.first + 1),
                ]
            with m.Else():
                m.next = "ANSWER"
                asked = (
                    request.fields.kind[6]
                    | session.again
                    | session.bitmap.any()
                    | progress.status.any()
                )
                with m.If((request.in_memory | request.in_ring) & request.writes & ~asked):
                    m.next = "HEAD"

    def _answer(self, m, load):
        request, progress, session = self.request, self.progress, self.session
        head = Cat(
            request.fields.number,
            request.fields.sequence,
            request.fields.kind | RESPONSE,
            progress.status,
            Const(0, 5),
        )
        head = Cat(
            head,
            progress.filled,
            Const(0, 16 - len(progress.filled)),
            session.bitmap,
            session.first,
        )
        pages = (
            Mux(request.in_ring & (progress.status != Status.GONE), self.pushes.pages, 0)
            if self.rings
            else Const(0, 32)
        )
        head = Cat(request.head[: 8 * self.peer], head, pages)
        assert len(head) == 8 * (self.peer + _ANSWER)
        position = Signal.like(progress.filled)
        m.d.comb += [load.addr.eq(position), load.en.eq(1)]
        with m.State("ANSWER"):
            last = progress.at == self.peer + _ANSWER - 1
            m.d.comb += [
                self.o.valid.eq(1),
                self.o.p.data.eq(head.word_select(progress.at, 8)),
                self.o.p.last.eq(last & (progress.filled == 0)),
            ]
            m.d.sync += position.eq(0)
            with m.If(self.o.ready):
                m.d.sync += progress.at.eq(progress.at + 1)
                with m.If(last):
                    m.d.sync += progress.at.eq(0)
                    m.next = "DATA"
                    with m.If(progress.filled == 0):
                        m.next = "HEAD"
        with m.State("DATA"):
            m.next = "GIVE"
        with m.State("GIVE"):
            ends = position + 1 == progress.filled
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
