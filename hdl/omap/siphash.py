"""SipHash-2-4 of one 8-byte key, two rounds a cycle. Specification: `models.omap.siphash`."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.siphash import INITIAL

__all__ = ["SipHash"]


class SipHash(wiring.Component):
    """Hashes `message`, started in cycle s: `hash` holds from cycle s + 5 on, until the next start.

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
        step, message = Signal(3), Signal(64)
        length = Const(8 << 56, 64)
        a, b, c, d = self._round(m, self._round(m, words, 0), 1)
        # what is mixed in behind the second and the fourth round
        second, fourth = step == 0, step == 1
        m.d.comb += self.hash.eq(words[0] ^ words[1] ^ words[2] ^ words[3])
        with m.If(self.start):
            low, high = self.key[:64], self.key[64:]
            begun = (low, high, low, high ^ self.message)
            m.d.sync += [word.eq(k ^ c) for word, k, c in zip(words, begun, INITIAL, strict=True)]
            m.d.sync += [message.eq(self.message), step.eq(0)]
        with m.Elif(step < 4):
            m.d.sync += [
                words[0].eq(a ^ Mux(second, message, Mux(fourth, length, 0))),
                words[1].eq(b),
                words[2].eq(c ^ Mux(fourth, 0xFF, 0)),
                words[3].eq(d ^ Mux(second, length, 0)),
                step.eq(step + 1),
            ]
        return m

    def _round(self, m, words, number):
        a, b, c, d = words
        names = ("a1", "c1", "b1", "d1", "c2", "a3", "b2", "d2")
        a1, c1, b1, d1, c2, a3, b2, d2 = (Signal(64, name=f"{n}_{number}") for n in names)
        m.d.comb += [
            a1.eq(a + b),
            c1.eq(c + d),
            b1.eq(b.rotate_left(13) ^ a1),
            d1.eq(d.rotate_left(16) ^ c1),
            c2.eq(c1 + b1),
            a3.eq(a1.rotate_left(32) + d1),
            b2.eq(b1.rotate_left(17) ^ c2),
            d2.eq(d1.rotate_left(21) ^ a3),
        ]
        return a3, b2, c2.rotate_left(32), d2
