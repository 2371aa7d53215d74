"""Page buffers: filled by bus words, read by windows at any byte address."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..apart import APART


class PageBuffers(wiring.Component):
    """`buffers` pages in two banks of even and odd bus words, so that two neighbouring words can be read in a cycle; in one, where windows are bus words.

    A window asked for in cycle t (`address`) is in the register `window` in cycle t + 2, or t + 3 if `registered`: `bus_bytes` bytes from `address` on, of page
    buffer `page`. A window that reaches past the page's end continues at its start; nothing outside the page is read.

    * `page_size`, `bus_bytes`, `buffers`: as in `PortConfig`.
    * `granule`: what addresses are multiples of, a power of two.
    * `registered`: what a bank reads passes a register before it is turned: a block RAM may take half a cycle
      by itself.
    * `parts`: gives the banks.
    """

    def __init__(self, *, page_size, bus_bytes, buffers, parts, granule=1, registered=False):
        self.granule = granule
        self.registered = registered
        self.parts = parts
        self.page_size = page_size
        self.bus_bytes = bus_bytes
        self.buffers = buffers
        super().__init__(
            {
                # the next bus word of the pages, which fill the buffers in turn
                "word": In(8 * bus_bytes),
                "write": In(1),
                "full": Out(1),  # high in the cycle in which a page's last word is written
                "page": In(range(buffers)),
                "address": In(range(page_size)),
                # the address two bus words further on, but for its lowest bits, which do not count
                "after": In(range(page_size)),
                "window": Out(8 * bus_bytes),
            }
        )

    def elaborate(self, platform):
        m = Module()
        words = self.page_size // self.bus_bytes
        bits = exact_log2(words)
        shift = exact_log2(self.bus_bytes)

        fill = Signal(bits)
        target = Signal(range(self.buffers))
        m.d.comb += self.full.eq(self.write & fill.all())
        with m.If(self.write):
            m.d.sync += fill.eq(fill + 1)
        with m.If(self.full):
            m.d.sync += target.eq(Mux(target == self.buffers - 1, 0, target + 1))

        word = Signal(bits)
        m.d.comb += word.eq(self.address >> shift)
        if self.granule >= self.bus_bytes:
            bank = self.parts.instance(
                m,
                "bank",
                "penstock_bank",
                lambda: Bank(8 * self.bus_bytes, self.buffers * words),
                to=Cat(fill, target),
                word=self.word,
                write=self.write,
                place=Cat(word, self.page),
            )
            m.d.sync += self.window.eq(self._held(m, bank["read"], 8 * self.bus_bytes))
            return m
        even = Mux(word[0], self.after[shift + 1 :], word[1:])
        outs = []
        for parity in range(2):
            bank = self.parts.instance(
                m,
                f"bank{parity}",
                "penstock_bank",
                lambda: Bank(8 * self.bus_bytes, self.buffers * words // 2),
                to=Cat(fill[1:], target),
                word=self.word,
                write=self.write & (fill[0] == parity),
                place=Cat(word[1:] if parity else even, self.page),
            )
            outs.append(self._held(m, bank["read"], 8 * self.bus_bytes, parity))

        turn = Signal(shift)
        odd = Signal()
        m.d.sync += [
            turn.eq(self._held(m, self.address[:shift], shift, "_turn")),
            odd.eq(self._held(m, word[0], 1, "_odd")),
        ]
        pair = Mux(odd, Cat(outs[1], outs[0]), Cat(outs[0], outs[1]))
        for bit in reversed(range(exact_log2(self.granule), shift)):
            # by granules, in steps; each keeps the bytes that the steps to come may still need
            moved = Signal(8 * (self.bus_bytes + (1 << bit) - 1), name=f"moved{bit}")
            m.d.comb += moved.eq(Mux(turn[bit], pair[8 << bit :], pair))
            pair = moved
        m.d.sync += self.window.eq(pair)
        return m

    def _held(self, m, value, width, name=""):
        if not self.registered:
            return value
        held = Signal(width, name=f"held{name}")
        m.d.sync += held.eq(value)
        return held


class Bank(wiring.Component):
    """`depth` words: `write` puts `word` at `to`; the word at `place` is in `read` in the next cycle."""

    #: pages are read after they were written
    collisions_unseen = True

    def __init__(self, width, depth):
        self.width = width
        self.depth = depth
        super().__init__(
            {
                "to": In(range(depth)),
                "word": In(width),
                "write": In(1),
                "place": In(range(depth)),
                "read": Out(width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.store = store = memory.Memory(
            shape=self.width, depth=self.depth, init=[], attrs=APART
        )
        write, read = store.write_port(), store.read_port()
        m.d.comb += [
            write.addr.eq(self.to),
            write.data.eq(self.word),
            write.en.eq(self.write),
            read.addr.eq(self.place),
            read.en.eq(1),
            self.read.eq(read.data),
        ]
        return m
