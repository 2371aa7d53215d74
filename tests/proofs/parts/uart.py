# amaranth: UnusedElaboratable=no
"""UartTransmitter and UartReceiver: what one sends the other receives."""

from __future__ import annotations

from amaranth.hdl import Signal
from harness import Bench, Defect, Proof
from harness.environment import offer

from penstock.hdl.link.uart import UartReceiver, UartTransmitter

DIVISOR = 4


def line() -> Bench:
    """A transmitter, a wire, a receiver whose bytes are taken at once."""
    b = Bench()
    sender = b.m.submodules.sender = UartTransmitter(DIVISOR)
    receiver = b.m.submodules.receiver = UartReceiver(DIVISOR)
    offer(b, sender.i, "i")
    b.d.comb += [receiver.rx.eq(sender.tx), receiver.o.ready.eq(1)]
    taken, comes = sender.i.valid & sender.i.ready, receiver.o.valid
    for name, value in (("tx", sender.tx), ("o.valid", comes), ("o", receiver.o.payload)):
        b.show(name, value)
    # bytes on their way: at most the one that is sent and the one before it; any bit of them
    bit, bits = b.constant("the bit", 3), lambda byte: byte.bit_select(bit, 1)
    way, count = [Signal(name=f"bit_of_byte{k}") for k in range(2)], Signal(2)
    b.d.sync += count.eq(count + taken - comes)
    with b.m.If(comes):
        b.d.sync += way[0].eq(way[1])
    for k, byte in enumerate(way):
        with b.m.If(taken & (count - comes == k)):
            b.d.sync += byte.eq(bits(sender.i.payload))
    b.check("a byte comes only when one was sent", ~comes | (count != 0))
    b.check("bytes come in order, as they were", ~comes | (bits(receiver.o.payload) == way[0]))
    b.check("no byte is lost: two at most are on their way", ~taken | (count - comes < 2))
    whole = 10 * DIVISOR + 4
    b.within(b.check, f"a byte comes within {whole} cycles", (count != 0) & ~comes, whole)
    b.within(
        b.check,
        f"a byte is taken within {10 * DIVISOR} cycles",
        sender.i.valid & ~sender.i.ready,
        10 * DIVISOR,
    )
    b.cover("a byte follows another at once", taken & (count != 0))
    b.cover("a byte with ones and zeros comes", comes & (receiver.o.payload == 0xA5))
    return b


_UART = "hdl.link.uart"

PROOFS = [
    Proof(
        "hdl.link.UartTransmitter",
        f"what it sends a receiver receives: order, no loss, no copy, each within "
        f"{10 * DIVISOR + 4} cycles; {DIVISOR} cycles a bit",
        line,
        Defect(_UART, "bits.eq(9),", "bits.eq(8),"),
        covers=60,
        search=100,
        long="25 s",
    ),
]
