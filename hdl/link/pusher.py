"""Pages that are pushed into rings. Twin of `models.link.pushes`."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.link.frames import HEADER, Space, Status
from ...models.link.pushes import PIECE, WINDOW
from ..stream.passing import passed_on
from .datagrams import BYTES

#: what a `Responder` says of a request, and hears: `begin`, `take` and `kept` are pulses, each answered by `done`, with which `status`, `goes`
#: and `place` stand; `pages` always. `goes`: the piece is to be written to memory at `place`, then `kept` if it was.
PUSHING = wiring.Signature(
    {
        "port": Out(8),
        "address": Out(64),
        "length": Out(16),
        "asked": Out(1),
        "begin": Out(1),
        "take": Out(1),
        "kept": Out(1),
        "done": In(1),
        "status": In(3),
        "goes": In(1),
        "place": In(32),
        "pages": In(32),
    }
)
_PIECE = PIECE.bit_length() - 1
#: bits of an address that are a count of pieces, bytes of a register, bytes of an answer before its data
_COUNT, _WORD, _BEFORE = 32 + 7, 4, 3
#: what a port's stream is
_STREAM = data.StructLayout(
    {"at": 32, "size": 16, "shift": 3, "first": _COUNT, "slot": 16, "bitmap": WINDOW, "done": 32}
)


class Pusher(wiring.Component):
    """Stands between a `Responder` and a `Bridge`; asks that for registers itself. At rest it hands on, without a cycle more.

    To judge a piece takes four cycles, 23 more where the counter is looked at; to keep it takes three and one for each piece that is not missing any
    more, 24 more where a page is whole.

    * `places`: of each port's ring, as `models.ring.places` gives them.
    """

    def __init__(self, places):
        self.places = tuple(places)
        bytes_, ends = stream.Signature(8), stream.Signature(BYTES)
        super().__init__(
            {
                "of": In(PUSHING),
                # of the responder
                "asks": In(bytes_),
                "told": Out(ends),
                # of the bridge
                "o": Out(bytes_),
                "i": In(ends),
            }
        )

    def elaborate(self, platform):
        m = Module()
        of = self.of
        known = of.port < len(self.places)
        self.port = Mux(known, of.port, 0)[: (len(self.places) - 1).bit_length()]
        raw = [Signal(_STREAM.size, name=f"stream{q}") for q in range(len(self.places))]
        self.stream = data.View(_STREAM, self._of_port(raw))
        self.piece = of.address[_PIECE:][:_COUNT]
        self.ahead = Signal(_COUNT)  # how far the piece is behind the first one that is missing
        self.behind = Signal(32)  # how far its page is behind those that were read
        self.looked = Signal()
        self.message, self.left = Signal(8 * (HEADER + _WORD)), Signal(range(HEADER + _WORD + 1))
        self.heard, self.count = Signal(8 * _WORD), Signal(3)
        self.writes = Signal()
        m.d.comb += of.pages.eq(Mux(known, self.stream.done, 0))
        with m.FSM(name="pusher"):
            self._rest(m, known)
            self._judge(m)
            self._keep(m)
            self._ask(m)
        return m

    def _of_port(self, values):
        return Array(values)[self.port] if len(values) > 1 else values[0]

    def _rest(self, m, known):
        of, stream = self.of, self.stream
        with m.State("REST"):
            m.d.comb += [passed_on(self.asks, self.o), passed_on(self.i, self.told)]
            m.d.sync += [of.goes.eq(0), of.status.eq(0), self.looked.eq(0)]
            with m.If((of.begin | of.take) & ~known):
                m.d.sync += of.status.eq(Status.DECERR)
                m.next = "DONE"
            with m.Elif(of.begin):
                begun = Cat(of.address[:32], of.length, of.address[32:35])
                m.d.sync += stream.as_value().eq(begun)
                m.next = "DONE"
            with m.Elif(of.take & ((of.length != PIECE) | of.address[:_PIECE].any())):
                m.d.sync += of.status.eq(Status.SLVERR)
                m.next = "DONE"
            with m.Elif(of.take):
                m.next = "AHEAD"
            with m.Elif(of.kept):
                m.d.sync += stream.bitmap.bit_select(self.ahead[:6], 1).eq(1)
                m.next = "SLIDE"
        with m.State("DONE"):
            m.d.comb += of.done.eq(1)
            m.next = "REST"

    def _judge(self, m):
        of, stream = self.of, self.stream
        with m.State("AHEAD"):
            m.d.sync += [
                self.ahead.eq(self.piece - stream.first),
                self.behind.eq((self.piece >> stream.shift)[:32] - stream.done),
            ]
            m.next = "JUDGE"
        free = self.behind < stream.size >> stream.shift
        near = self.ahead[6:] == 0
        with m.State("JUDGE"):
            place = Signal(17)
            m.d.comb += place.eq(stream.slot + self.ahead[:6])
            beyond = Signal(17)
            m.d.comb += beyond.eq(Mux(place >= stream.size, place - stream.size, place))
            m.d.sync += of.place.eq(stream.at + (beyond << _PIECE))
            m.next = "DONE"
            with m.If((of.asked | ~free) & ~self.looked):
                self._request(m, 1, None)
            with m.Elif(self.ahead[-1] | (near & stream.bitmap.bit_select(self.ahead[:6], 1))):
                pass
            with m.Elif(~near | (self.ahead[:6] >= stream.size) | ~free):
                m.d.sync += of.status.eq(Status.FULL)
            with m.Else():
                m.d.sync += of.goes.eq(1)

    def _keep(self, m):
        stream, after, boundary = self.stream, Signal(_COUNT), Signal()
        below = (Const(1, 8) << stream.shift) - 1
        m.d.comb += after.eq(stream.first + 1)
        with m.State("SLIDE"):
            m.d.sync += self.looked.eq(1)  # what is asked now is no look
            with m.If(stream.bitmap[0]):
                m.d.sync += [
                    stream.bitmap.eq(stream.bitmap >> 1),
                    stream.first.eq(after),
                    stream.slot.eq(Mux(stream.slot + 1 == stream.size, 0, stream.slot + 1)),
                    boundary.eq(boundary | ((after[:7] & below[:7]) == 0)),
                ]
            with m.Elif(boundary):
                m.d.sync += boundary.eq(0)
                self._request(m, 0, (stream.first >> stream.shift)[:32])
            with m.Else():
                m.next = "DONE"

    def _request(self, m, which, value):
        """Ask the bridge for one of the port's registers, to write a value or to read it."""
        where = self._of_port([Const(place[which], 32) for place in self.places])
        kind = Space.REGISTERS << 1 | (value is not None)
        # a write is no copy of the one before: a responder's sequences are 0 and 1
        turn = self.writes if value is not None else 0
        head = Cat(turn, Const(1, 7), Const(kind, 8), Const(_WORD, 8), where)
        m.d.sync += [
            self.message.eq(head if value is None else Cat(head, value)),
            self.left.eq(HEADER if value is None else HEADER + _WORD),
            self.count.eq(0),
        ]
        if value is not None:
            m.d.sync += self.writes.eq(~self.writes)
        m.next = "ASK"

    def _ask(self, m):
        with m.State("ASK"):
            m.d.comb += [self.o.valid.eq(1), self.o.payload.eq(self.message[:8])]
            with m.If(self.o.ready):
                m.d.sync += [self.message.eq(self.message >> 8), self.left.eq(self.left - 1)]
                with m.If(self.left == 1):
                    m.next = "HEAR"
        with m.State("HEAR"):
            m.d.comb += self.i.ready.eq(1)
            with m.If(self.i.valid):
                m.d.sync += self.count.eq(self.count + 1)
                with m.If(self.count >= _BEFORE):
                    m.d.sync += self.heard.eq(Cat(self.heard[8:], self.i.p.data))
                with m.If(self.i.p.last):
                    m.next = "HEARD"
                    with m.If(self.looked):
                        m.next = "DONE"
                    with m.Else():
                        m.d.sync += self.stream.done.eq(self.heard)
        with m.State("HEARD"):
            m.d.sync += self.looked.eq(1)
            m.next = "AHEAD"
