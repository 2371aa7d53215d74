"""The whole link: pins on one side, buses on the other."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect

from ...models.link.device import Identity
from ...models.link.envelope import BUFFER
from ..memory.axi import AXI4, AXI4Lite
from .bridge import Bridge
from .datagrams import BYTES, WORDS, DatagramReceiver, DatagramSender
from .filler import Filler
from .frames import Deframer, Framer
from .pusher import Pusher
from .responder import Responder
from .uart import UartReceiver, UartTransmitter


class Link(wiring.Component):
    """A device's end of the host link; `models.link.device.Device` says what it answers, or `models.link.envelope.Envelope` to datagrams.

    * `identity`, `registers`, `memory`: as of `Bridge`.
    * `divisor`: cycles of a bit on the wire, ≥ 4. None: there are datagrams, without what carries these.
    * `peer`: bytes before each datagram, of who sent it or whom it goes to.
    * `rings`: of the engine, into which datagrams push pages; as `models.ring.places` gives them.
    """

    def __init__(
        self, identity: Identity, *, registers: AXI4Lite, memory: AXI4, divisor, peer=0, rings=()
    ):
        self.identity = identity
        self.peer, self.rings = peer, tuple(rings)
        self.divisor = divisor
        self.registers = registers
        self.memory = memory
        if divisor is None:
            datagrams, answers = stream.Signature(WORDS), stream.Signature(BYTES)
            # `spoilt` as of `DatagramReceiver`, `tick` as of `Responder`
            members = {"i": In(datagrams), "spoilt": In(1), "o": Out(answers), "tick": In(1)}
        else:
            members = {"rx": In(1, init=1), "tx": Out(1, init=1)}
        super().__init__({**members, "axil": Out(registers), "bus": Out(memory)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.bridge = bridge = Bridge(
            self.identity, registers=self.registers, memory=self.memory
        )
        connect(m, wiring.flipped(self.axil), bridge.axil)
        if self.divisor is None:
            self._datagrams(m, bridge)
        else:
            connect(m, wiring.flipped(self.bus), bridge.bus)
            self._uart(m, bridge)
        return m

    def _uart(self, m, bridge):
        m.submodules.receiver = receiver = UartReceiver(self.divisor)
        m.submodules.deframer = deframer = Deframer()
        m.submodules.framer = framer = Framer()
        m.submodules.transmitter = transmitter = UartTransmitter(self.divisor)
        m.d.comb += [
            receiver.rx.eq(self.rx),
            self.tx.eq(transmitter.tx),
            bridge.dropped.eq(deframer.dropped),
        ]
        connect(m, receiver.o, deframer.i)
        connect(m, deframer.o, bridge.i)
        connect(m, bridge.o, framer.i)
        connect(m, framer.o, transmitter.i)

    def _datagrams(self, m, bridge):
        m.submodules.receiver = receiver = DatagramReceiver(BUFFER, self.peer)
        m.submodules.responder = responder = Responder(
            self.memory, self.identity.memory_bytes, self.peer, bool(self.rings)
        )
        m.submodules.filler = filler = Filler(self.memory)
        connect(m, bridge.bus, filler.bridge)
        connect(m, filler.bus, wiring.flipped(self.bus))
        connect(m, responder.fill, filler.i)
        connect(m, responder.filling, filler.data)
        m.d.comb += [
            responder.fill_idle.eq(filler.idle),
            responder.fill_status.eq(filler.status),
        ]
        m.submodules.sender = sender = DatagramSender(self.peer)
        m.d.comb += [responder.tick.eq(self.tick), receiver.spoilt.eq(self.spoilt)]
        connect(m, wiring.flipped(self.i), receiver.i)
        connect(m, receiver.o, responder.i)
        asks, answers = bridge.i, bridge.o
        if self.rings:
            m.submodules.pusher = pusher = Pusher(self.rings)
            connect(m, responder.pushes, pusher.of)
            connect(m, pusher.o, asks)
            connect(m, answers, pusher.i)
            asks, answers = pusher.asks, pusher.told
        connect(m, responder.asks, asks)
        connect(m, answers, responder.told)
        connect(m, responder.o, sender.i)
        connect(m, sender.o, wiring.flipped(self.o))
