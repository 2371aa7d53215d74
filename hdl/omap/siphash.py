"""SipHash-2-4 of one 8-byte key, a round a cycle. Specification: `models.omap.siphash`."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.siphash import INITIAL

__all__ = ["SipHash"]


class SipHash(wiring.Component):
    """Hashes `message`, started in cycle s: `hash` holds from cycle s + 9 on, until the next start.

    Members
    -------
    start : In(1), message : In(64), key : In(128)
    hash : Out(64)
    """

    def __init__(self):
        super().__init__({"start": In(1), "message": In(64), "key": In(128), "hash": Out(64)})

    def elaborate(self, platform):
        m = Module()
        words = [Signal(64, name=f"word{k}") for k in range(4)]
        step, message = Signal(4), Signal(64)
        length = Const(8 << 56, 64)
        a, b, c, d = words
        a1, c1 = Signal(64), Signal(64)
        b1, d1, a2 = Signal(64), Signal(64), Signal(64)
        c2, a3, b2, d2 = Signal(64), Signal(64), Signal(64), Signal(64)
        m.d.comb += [
            a1.eq(a + b),
            c1.eq(c + d),
            b1.eq(b.rotate_left(13) ^ a1),
            d1.eq(d.rotate_left(16) ^ c1),
            a2.eq(a1.rotate_left(32)),
            c2.eq(c1 + b1),
            a3.eq(a2 + d1),
            b2.eq(b1.rotate_left(17) ^ c2),
            d2.eq(d1.rotate_left(21) ^ a3),
        ]
        # what is mixed in behind the second and the fourth round
        mixed = Mux(step == 1, message, Mux(step == 3, length, 0))
        joined = Mux(step == 1, length, 0)
        m.d.comb += self.hash.eq(a ^ b ^ c ^ d)
        with m.If(self.start):
            low, high = self.key[:64], self.key[64:]
            m.d.sync += [
                a.eq(low ^ INITIAL[0]),
                b.eq(high ^ INITIAL[1]),
                c.eq(low ^ INITIAL[2]),
                d.eq(high ^ INITIAL[3] ^ self.message),
                message.eq(self.message),
                step.eq(0),
            ]
        with m.Elif(step < 8):
            m.d.sync += [
                a.eq(a3 ^ mixed),
                b.eq(b2),
                c.eq(Cat(c2.rotate_left(32)[:8] ^ Mux(step == 3, 0xFF, 0), c2.rotate_left(32)[8:])),
                d.eq(d2 ^ joined),
                step.eq(step + 1),
            ]
        return m
