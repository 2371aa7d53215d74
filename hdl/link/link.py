"""The whole link: pins on one side, buses on the other."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from ...models.link.device import Identity
from ..memory.axi import AXI4, AXI4Lite
from .bridge import Bridge
from .frames import Deframer, Framer
from .uart import UartReceiver, UartTransmitter

__all__ = ["Link"]


class Link(wiring.Component):
    """A device's end of the host link; `models.link.Device` says what it answers.

    Parameters
    ----------
    identity, registers, memory
        As of `Bridge`.
    divisor
        Cycles of a bit on the wire, ≥ 4.

    Members
    -------
    rx : In(1), tx : Out(1)
    axil : Out(AXI4Lite)
    bus : Out(AXI4)
    """

    def __init__(self, identity: Identity, *, registers: AXI4Lite, memory: AXI4, divisor):
        self.identity = identity
        self.divisor = divisor
        self.registers = registers
        self.memory = memory
        super().__init__(
            {"rx": In(1, init=1), "tx": Out(1, init=1), "axil": Out(registers), "bus": Out(memory)}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver = receiver = UartReceiver(self.divisor)
        m.submodules.deframer = deframer = Deframer()
        m.submodules.bridge = bridge = Bridge(
            self.identity, registers=self.registers, memory=self.memory
        )
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
        connect(m, wiring.flipped(self.axil), bridge.axil)
        connect(m, wiring.flipped(self.bus), bridge.bus)
        return m
