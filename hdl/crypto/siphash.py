"""SipHash-2-4 of a short key, two rounds a cycle. Specification: `models.crypto.siphash`."""

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.crypto.siphash import INITIAL


class SipHash(wiring.Component):
    """Hashes `message`, started in cycle s: `hash` holds from cycle s + 4 + `words` on, until the next start.

    * `words`: of 8 bytes that a message has: 1 to 4.
    """

    def __init__(self, *, words=1):
        self.words = words
        super().__init__(
            {"start": In(1), "message": In(64 * words), "key": In(128), "hash": Out(64)}
        )

    def elaborate(self, platform):
        m = Module()
        count = self.words
        words = [Signal(64, name=f"word{k}") for k in range(4)]
        step, message = Signal(3), Signal.like(self.message, name="held_message")
        length, none = Const(8 * count << 56, 64), Const(0, 64)
        after = self._round(m, self._round(m, words, 0), 1)
        # each word is mixed in before its two rounds and after them; the last four rounds have none
        mixed = [*(message.word_select(k, 64) for k in range(count)), length, none, none]
        last = step == count
        m.d.comb += self.hash.eq(words[0] ^ words[1] ^ words[2] ^ words[3])
        with m.If(self.start):
            low, high = self.key[:64], self.key[64:]
            begun = (low, high, low, high ^ self.message[:64])
            m.d.sync += [word.eq(k ^ c) for word, k, c in zip(words, begun, INITIAL, strict=True)]
            m.d.sync += [message.eq(self.message), step.eq(0)]
        with m.Elif(step < count + 3):
            m.d.sync += [
                words[0].eq(after[0] ^ Array(mixed)[step]),
                words[1].eq(after[1]),
                words[2].eq(after[2] ^ Mux(last, 0xFF, 0)),
                words[3].eq(after[3] ^ Array([*mixed[1:], none])[step]),
                step.eq(step + 1),
            ]
        return m

    def _round(self, m, words, number):
        """Return the four words after a round; `number` goes into the names of its signals."""
        (a, b), (c, d) = words[:2], words[2:]

        def half(name, left, right, by):
            """`left` and `right` summed and mixed: an addition, a rotation, an exclusive or."""
            total, mixed = Signal(64, name=f"{name}_{number}"), Signal(64, name=f"{name}x_{number}")
            m.d.comb += [total.eq(left + right), mixed.eq(right.rotate_left(by) ^ total)]
            return total, mixed

        (a, b), (c, d) = half("ab", a, b, 13), half("cd", c, d, 16)
        (c, b), (a, d) = half("cb", c, b, 17), half("ad", a.rotate_left(32), d, 21)
        return a, b, c.rotate_left(32), d
