"""A device's station on Ethernet: ARP, ICMP echo, and UDP on one port. Twin of `models.link.ethernet`."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect

from ...models.link.ethernet import PEER, SHIFT, Station
from .datagrams import BYTES, WORD, WORDS
from .mac import SIZE, FrameReceiver, FrameSender

_ICMP, _UDP = 1, 17
#: bytes of a frame before what UDP carries, and before what an ICMP echo does behind its checksum
_HEAD, _ECHO = 42, 38
#: words of a frame's ring before them
_HEAD_WORDS, _ECHO_WORDS = (_HEAD + SHIFT) // WORD, (_ECHO + SHIFT) // WORD
#: place of a header at which a composer begins
_FIRST = 26
_ALL = (1 << 16) - 1


class _Sum:
    """A checksum of bytes that come one a cycle: a sum of 16 bits, and a carry that is not added yet (RFC 1071)."""

    def __init__(self, name):
        self.low, self.carry = Signal(16, name=f"{name}_low"), Signal(name=f"{name}_carry")

    def start(self, value=0):
        return [self.low.eq(value), self.carry.eq(0)]

    def add(self, byte, odd, twice=0):
        """Have a byte added: the low one of two where `odd`, doubled where `twice`, as a number that wraps."""
        pair = Mux(odd, byte, byte << 8)[:16]
        return Cat(self.low, self.carry).eq(
            self.low + Mux(twice, pair.rotate_left(1), pair) + self.carry
        )

    @property
    def checksum(self):
        return ~(self.low + self.carry)[:16]


def _word(*values):
    """Bytes as a word has them."""
    return int.from_bytes(bytes(values), "little")


class _Words:
    """A checksum of words, which have two numbers of 16 bits each, their bytes the other way round; carries are added with the next one (RFC 1071)."""

    def __init__(self, name):
        self.sum = Signal(18, name=f"{name}_sum")

    def start(self, value=0):
        return self.sum.eq(value)

    def add(self, word, first=0):
        """Have a word added, its first number doubled where `first`."""
        low, high = word[:16], word[16:]
        carried = self.sum[:16] + self.sum[16:]
        return self.sum.eq(carried + low + high + Mux(first, low, 0))

    @property
    def right(self):
        """Whether the sum, a checksum in it, is none."""
        return (self.sum[:16] + self.sum[16:])[:16] == _ALL


class Reader(wiring.Component):
    """Looks at sound frames; hands on what is for the station, behind the 12 bytes of who sent it.

    A frame's word takes a cycle. One that is taken takes three more, behind its header, and one behind what it carries.
    """

    def __init__(self, station: Station):
        self.station = station
        words = stream.Signature(WORDS)
        super().__init__(
            {
                "i": In(words),  # frames as a `FrameReceiver` gives them
                # `models.link.ethernet.Peer`, then what UDP carries, or an ICMP echo behind its
                # checksum; of an ARP request the peer alone, without a port
                "o": Out(words),
                # with the last word: the checksum is wrong, or the frame too short, and what was
                # offered is to be dropped
                "spoilt": Out(1),
                # what it is, while it is offered; else an echo
                "udp": Out(1),
                "arp": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self.at = Signal(range(_HEAD_WORDS + 1))  # in the header
        self.peer = Signal(8 * PEER)
        self.wrong, self.bad = Signal(), Signal()  # this word, one before
        self.length, self.left = Signal(16), Signal(16)
        self.body, self.unchecked = _Words("body"), Signal()
        self.over, self.cut = Signal(), Signal()
        self.take, self.carries = Signal(), Signal()
        m.d.comb += self.take.eq(self.i.valid & self.i.ready)
        self._judge(m)
        self._sums(m)
        self._peer(m)
        with m.FSM(name="reader"):
            self._walk(m)
        return m

    def _judge(self, m):
        """Whether the word at `at` is as it has to be."""
        word, at, ip = self.i.p.data, self.at, self.station.ip
        low, high = word[:16], word[16:]
        one = [word.word_select(k, 8) for k in range(WORD)]
        ours, all_ = Signal(), Signal()
        head = _Words("head")
        with m.If(self.take & (at >= 4) & (at < 9)):
            m.d.sync += head.add(word)
        with m.Elif(at == 0):
            m.d.sync += head.start()
        self.segment = segment = Signal(16)  # bytes behind IP's header
        m.d.comb += segment.eq(self.length - 20)
        is_ip, is_arp = Cat(one[2], one[3]) == _word(8, 0), Cat(one[2], one[3]) == _word(8, 6)
        always = {2: word[0], 3: ~(ours & is_ip | (ours | all_) & is_arp)}
        for_ip = {4: one[0] != 0x45, 5: ((one[2] & 0x3F) != 0) | (one[3] != 0)}
        for_ip |= {6: (one[1] != _UDP) & (one[1] != _ICMP), 8: word != _word(*ip)}
        short = self.length < _HEAD - 14
        port = _word(*self.station.port.to_bytes(2, "big"))
        for_udp = {9: (high != port) | ~head.right | short}
        for_udp |= {10: (Cat(one[1], one[0]) != segment) | (segment == 8)}
        for_echo = {9: (low != _word(8, 0)) | ~head.right | short}
        for_arp = {4: word != _word(0, 1, 8, 0), 5: word != _word(6, 4, 0, 1), 6: word[0]}
        for_arp |= {10: word != _word(*ip)}
        with m.Switch(at):
            for k in range(_HEAD_WORDS):
                with m.Case(k):
                    parts = [
                        ~self.arp & for_ip.get(k, 0),
                        ~self.arp & self.udp & for_udp.get(k, 0),
                        ~self.arp & ~self.udp & for_echo.get(k, 0),
                        self.arp & for_arp.get(k, 0),
                        always.get(k, 0),
                    ]
                    m.d.comb += self.wrong.eq(Cat(parts).any())
        mac = self.station.mac
        with m.If(self.take):
            m.d.sync += self.bad.eq(Mux(at == 0, 0, self.bad | self.wrong))
            with m.Switch(at):
                with m.Case(0):
                    m.d.sync += [ours.eq(high == _word(*mac[:2])), all_.eq(high.all())]
                with m.Case(1):
                    same = word == _word(*mac[2:])
                    m.d.sync += [ours.eq(ours & same), all_.eq(all_ & word.all())]
                with m.Case(3):
                    m.d.sync += self.arp.eq(one[3][1])
                with m.Case(4):
                    m.d.sync += self.length.eq(Cat(one[3], one[2]))
                with m.Case(6):
                    m.d.sync += self.udp.eq(one[1][4])

    def _sums(self, m):
        """The checksum of what is carried: of UDP with its addresses, protocol and length."""
        at, word, body = self.at, self.i.p.data, self.body
        bytes_ = [
            word.word_select(k, 8) & (~self.carries | (self.left > k)).replicate(8)
            for k in range(WORD)
        ]
        with m.If(self.take):
            with m.If((at >= 9) | (self.udp & (at >= 7))):
                m.d.sync += body.add(Cat(bytes_), self.udp & (at == 10))
            with m.If(at == 6):
                m.d.sync += body.start(Mux(word[12], _word(0, _UDP), 0))
            with m.If(at == 10):
                m.d.sync += self.unchecked.eq(self.udp & (word[16:] == 0))

    def _peer(self, m):
        """Who sent it: MAC, address and port."""
        word, peer = self.i.p.data, self.peer
        parts = [peer.word_select(k, 8 * WORD) for k in range(PEER // WORD)]
        with m.If(self.take):
            with m.Switch(self.at):
                with m.Case(2):
                    m.d.sync += parts[0].eq(word)
                with m.Case(3):
                    m.d.sync += parts[1][:16].eq(word[:16])
                with m.Case(6), m.If(self.arp):
                    m.d.sync += parts[0].eq(word)
                with m.Case(7):
                    m.d.sync += peer[48:80].eq(word)
                    with m.If(self.arp):
                        m.d.sync += parts[1].eq(word)
                with m.Case(8), m.If(self.arp):
                    m.d.sync += parts[2].eq(word)
                with m.Case(9), m.If(~self.arp):
                    m.d.sync += parts[2][16:].eq(word[:16])

    def _walk(self, m):
        left, count = self.left, Signal(range(PEER // WORD))
        kept, held = Signal(8 * WORD), Signal()
        last, size = Signal(), Signal(2)
        right = self.body.right | (self.udp & self.unchecked)
        m.d.comb += self.spoilt.eq(~self.arp & (self.cut | ~right))
        with m.State("HEAD"):
            m.d.comb += self.i.ready.eq(1)
            m.d.sync += count.eq(PEER // WORD - 1)
            with m.If(self.take):
                m.d.sync += self.at.eq(self.at + 1)
                ends = Mux(self.arp | self.udp, _HEAD_WORDS, _ECHO_WORDS) - 1
                with m.If((self.at == ends) & ~self.bad & ~self.wrong):
                    m.next = "PEER"
                with m.Elif(self.at == _HEAD_WORDS - 1):
                    m.next = "TAIL"
        with m.State("PEER"):
            m.d.comb += [
                self.o.valid.eq(1),
                self.o.p.data.eq(self.peer),
                self.o.p.size.eq(WORD - 1),
                self.o.p.last.eq(self.arp & (count == 0)),
            ]
            m.d.sync += left.eq(self.length - Mux(self.udp, _HEAD - 14, _ECHO - 14))
            with m.If(self.o.ready):
                m.d.sync += [self.peer.eq(self.peer >> 8 * WORD), count.eq(count - 1)]
                with m.If(count == 0):
                    m.next = "BODY"
                    with m.If(self.arp):
                        m.next = "TAIL"
        with m.State("BODY"):  # a word late: then its sum is known
            m.d.comb += [
                self.carries.eq(1),
                self.o.valid.eq(held),
                self.o.p.data.eq(kept),
                self.o.p.last.eq(last),
                self.o.p.size.eq(size),
                self.i.ready.eq(~held | (self.o.ready & ~last)),
            ]
            cut = self.i.p.last & (left > self.i.p.size + 1)
            m.d.sync += held.eq(self.take | (held & ~self.o.ready))
            with m.If(self.take):
                m.d.sync += [
                    kept.eq(self.i.p.data),
                    last.eq((left <= WORD) | self.i.p.last),
                    size.eq(Mux(cut | (left > WORD), self.i.p.size, left - 1)),
                    self.cut.eq(cut),
                    self.over.eq(self.i.p.last),
                    left.eq(left - WORD),
                ]
            with m.If(held & last & self.o.ready):
                m.next = "TAIL"
                with m.If(self.over):
                    m.d.sync += self.at.eq(0)
                    m.next = "HEAD"
        with m.State("TAIL"):
            m.d.comb += self.i.ready.eq(1)
            with m.If(self.take & self.i.p.last):
                m.d.sync += self.at.eq(0)
                m.next = "HEAD"


class Composer(wiring.Component):
    """Makes the frames of answers in the buffer of a `FrameSender`: what is carried first, then the headers, for checksums stand before what they are of.

    It takes a peer's 12 bytes, then a byte a cycle; the header takes 42 cycles, that of an echo 38.
    """

    def __init__(self, station: Station):
        self.station = station
        bytes_ = stream.Signature(BYTES)
        # of a `FrameSender`, with `busy`
        buffer = {"at": Out(SIZE), "data": Out(8), "en": Out(1), "go": Out(1), "length": Out(SIZE)}
        asked = {
            # what a `Reader` gives that is not UDP
            "echo": In(bytes_),
            "spoilt": In(1),
            "arp": In(1),
            "i": In(bytes_),  # datagrams, each behind its peer
        }
        super().__init__({**asked, **buffer, "busy": In(1)})

    def elaborate(self, platform):
        m = Module()
        self.peer = Signal(8 * PEER)
        self.is_arp, self.is_udp = Signal(), Signal()
        self.head, self.body = _Sum("head"), _Sum("body")
        self.came, self.valid, self.ready = Signal(BYTES), Signal(), Signal()
        m.d.comb += [
            self.came.eq(Mux(self.is_udp, self.i.payload, self.echo.payload)),
            self.valid.eq(Mux(self.is_udp, self.i.valid, self.echo.valid)),
            self.i.ready.eq(self.is_udp & self.ready),
            self.echo.ready.eq(~self.is_udp & self.ready),
        ]
        with m.FSM(name="composer"):
            self._fill(m)
            with m.State("HEAD"):
                self._head(m)
        return m

    def _fill(self, m):
        """Peer and what is carried."""
        count = Signal(range(PEER))
        with m.State("REST"):
            m.d.sync += [
                count.eq(PEER - 1),
                self.is_udp.eq(~self.echo.valid),
                self.is_arp.eq(self.arp & self.echo.valid),
                *self.head.start(),
                *self.body.start(Mux(self.echo.valid, 0, _UDP)),
            ]
            with m.If(~self.busy & (self.echo.valid | self.i.valid)):
                m.next = "PEER"
        with m.State("PEER"):
            m.d.comb += self.ready.eq(1)
            m.d.sync += self.at.eq(Mux(self.is_udp, _HEAD, _ECHO))
            with m.If(self.valid):
                m.d.sync += [self.peer.eq(Cat(self.came.data, self.peer)), count.eq(count - 1)]
                with m.If(count == 0):
                    m.next = "BODY"
                    with m.If(self.came.last):
                        m.d.sync += [self.at.eq(_FIRST), self.length.eq(_HEAD)]
                        m.next = "HEAD"
        with m.State("BODY"):
            m.d.comb += [self.ready.eq(1), self.data.eq(self.came.data), self.en.eq(self.valid)]
            with m.If(self.valid):
                m.d.sync += [self.at.eq(self.at + 1), self.body.add(self.came.data, self.at[0])]
                with m.If(self.came.last):
                    m.d.sync += [self.at.eq(_FIRST), self.length.eq(self.at + 1)]
                    m.next = "HEAD"
                    with m.If(~self.is_udp & self.spoilt):
                        m.next = "REST"

    def _head(self, m):
        """From the addresses on to the end of the headers, then from the begin: each checksum comes behind what it is of."""
        at = self.at
        m.d.comb += self.en.eq(1)
        with m.Switch(at):
            for k, (ip, udp, echo, arp) in enumerate(self._layout()):
                with m.Case(k):
                    other = Mux(self.is_udp, udp, echo) if k >= 34 else ip
                    m.d.comb += self.data.eq(
                        arp if k < 14 and ip is arp else Mux(self.is_arp, arp, other)
                    )
        m.d.sync += at.eq(at + 1)
        with m.If((at == _HEAD - 1) | (~(self.is_udp | self.is_arp) & (at == _ECHO - 1))):
            m.d.sync += at.eq(0)
        with m.If(((at >= 26) & (at < 34)) | ((at >= 14) & (at < 24))):
            m.d.sync += self.head.add(self.data, at[0])
        with m.If(self.is_udp & (at >= 26) & (at < 40)):
            m.d.sync += self.body.add(self.data, at[0], (at == 38) | (at == 39))
        with m.If(at == _FIRST - 1):
            m.d.comb += self.go.eq(1)
            m.next = "REST"

    def _layout(self):
        """Return the bytes of headers at each place: of IP, UDP, an echo and ARP."""
        own_mac, ip, port = self.station.mac, self.station.ip, self.station.port.to_bytes(2, "big")
        peer = [self.peer.word_select(k, 8) for k in reversed(range(PEER))]
        mac, peer_ip, sink = peer[:6], peer[6:10], peer[10:]
        two = lambda value: [value[8:16], value[:8]]
        total, segment = (Cat((self.length - k)[:11], Const(0, 5)) for k in (14, 34))
        check = self.body.checksum
        of_udp = two(Mux(check == 0, _ALL, check))
        ethernet = [*mac, *own_mac, 8]
        protocol = Mux(self.is_udp, _UDP, _ICMP)
        of_ip = [*ethernet, 0, 0x45, 0, *two(total), 0, 0, 0x40, 0, 64, protocol]
        of_ip += [*two(self.head.checksum), *ip, *peer_ip]
        of_arp = [*ethernet, 6, *b"\0\1\x08\0\6\4\0\2", *own_mac, *ip, *mac, *peer_ip]
        udp = [*of_ip, *port, *sink, *two(segment), *of_udp]
        echo = [*of_ip, 0, 0, *two(check), *[0] * 4]
        of_ip += [0] * 8
        return list(zip(of_ip, udp, echo, of_arp, strict=True))


class Ethernet(wiring.Component):
    """What stands between a PHY and a device's datagrams; `models.link.ethernet` says what it answers, and when."""

    def __init__(self, station: Station):
        self.station = station
        datagrams, answers = stream.Signature(WORDS), stream.Signature(BYTES)
        # GMII, in domain `eth`, of 125 MHz; all else is in `sync`
        pins = {"rxd": In(8), "rx_dv": In(1), "rx_er": In(1), "txd": Out(8), "tx_en": Out(1)}
        super().__init__(
            {
                **pins,
                # datagrams to the station's port, each behind its `models.link.ethernet.Peer`
                "o": Out(datagrams),
                "spoilt": Out(1),  # with the last word: the datagram is to be dropped
                "i": In(answers),  # datagrams that are sent, each behind its peer
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver = receiver = FrameReceiver()
        m.submodules.reader = reader = Reader(self.station)
        m.submodules.composer = composer = Composer(self.station)
        m.submodules.sender = sender = FrameSender()
        for name in ("rxd", "rx_dv", "rx_er"):
            m.d.comb += getattr(receiver, name).eq(getattr(self, name))
        m.d.comb += [self.txd.eq(sender.txd), self.tx_en.eq(sender.tx_en)]
        connect(m, receiver.o, reader.i)
        # what is echoed goes on byte by byte
        lane, ends, is_udp = Signal(range(WORD)), Signal(), reader.udp & ~reader.arp
        with m.If(composer.echo.valid & composer.echo.ready):
            m.d.sync += lane.eq(Mux(ends, 0, lane + 1))
        m.d.comb += [
            ends.eq(lane == reader.o.p.size),
            self.o.payload.eq(reader.o.payload),
            self.o.valid.eq(reader.o.valid & is_udp),
            composer.echo.p.data.eq(reader.o.p.data.word_select(lane, 8)),
            composer.echo.p.last.eq(reader.o.p.last & ends),
            composer.echo.valid.eq(reader.o.valid & ~is_udp),
            reader.o.ready.eq(Mux(is_udp, self.o.ready, composer.echo.ready & ends)),
            composer.arp.eq(reader.arp),
            composer.spoilt.eq(reader.spoilt),
            self.spoilt.eq(reader.spoilt),
            composer.busy.eq(sender.busy),
        ]
        for name in ("at", "data", "en", "go", "length"):
            m.d.comb += getattr(sender, name).eq(getattr(composer, name))
        connect(m, wiring.flipped(self.i), composer.i)
        return m
