"""A UART: eight bits, no parity, one stop bit."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out


class UartReceiver(wiring.Component):
    """From the pin to bytes.

    The pin passes two flip-flops. A start bit is believed if it is still low half a bit after its edge; bits are sampled in their middle. A byte
    is offered in the middle of its stop bit, and dropped where that is low (a broken byte, or a break). A byte that is not taken before the next one is
    lost.

    * `divisor`: cycles of a bit, ≥ 4.
    """

    def __init__(self, divisor):
        if divisor < 4:
            raise ValueError(f"a bit takes at least 4 cycles, not {divisor!r}")
        self.divisor = divisor
        # `rx` is high at rest
        super().__init__({"rx": In(1, init=1), "o": Out(stream.Signature(8))})

    def elaborate(self, platform):
        m = Module()
        pin = Signal(init=1)
        m.submodules.pin = FFSynchronizer(self.rx, pin, init=1)
        timer = Signal(range(self.divisor))
        bits = Signal(4)  # left, the start and stop bits among them; 0: at rest
        shift = Signal(8)
        before = Signal(init=1)
        m.d.sync += before.eq(pin)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(bits == 0):
            # the edge is seen a cycle after the pin fell: half a bit from there to the start bit's middle
            m.d.sync += timer.eq(self.divisor // 2 - 1)
            with m.If(before & ~pin):
                m.d.sync += bits.eq(10)
        with m.Elif(timer != 0):
            m.d.sync += timer.eq(timer - 1)
        with m.Else():
            m.d.sync += [
                timer.eq(self.divisor - 1),
                bits.eq(bits - 1),
                shift.eq(Cat(shift[1:], pin)),
            ]
            with m.If((bits == 10) & pin):
                m.d.sync += bits.eq(0)
            with m.If(bits == 1):
                m.d.sync += shift.eq(shift)
                with m.If(pin):
                    m.d.sync += [self.o.payload.eq(shift), self.o.valid.eq(1)]
        return m


class UartTransmitter(wiring.Component):
    """From bytes to the pin; the next byte is taken in the last cycle of a stop bit, so that bytes follow each other every 10 × divisor cycles.

    * `divisor`: cycles of a bit.
    """

    def __init__(self, divisor):
        self.divisor = divisor
        # `tx` comes straight from a flip-flop
        super().__init__({"i": In(stream.Signature(8)), "tx": Out(1, init=1)})

    def elaborate(self, platform):
        m = Module()
        timer = Signal(range(self.divisor))
        bits = Signal(4)  # still to come after the one on the pin
        shift = Signal(9)
        ending = Signal()
        m.d.comb += [ending.eq(timer == 0), self.i.ready.eq(ending & (bits == 0))]
        with m.If(~ending):
            m.d.sync += timer.eq(timer - 1)
        with m.Elif(bits != 0):
            m.d.sync += [
                timer.eq(self.divisor - 1),
                bits.eq(bits - 1),
                self.tx.eq(shift[0]),
                shift.eq(Cat(shift[1:], Const(1))),
            ]
        with m.Elif(self.i.valid):
            m.d.sync += [
                timer.eq(self.divisor - 1),
                bits.eq(9),
                self.tx.eq(0),
                shift.eq(Cat(self.i.payload, Const(1))),
            ]
        return m
