"""Page buffers: filled by bus words, read by windows at any byte address."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

__all__ = ["PageBuffers"]


class PageBuffers(wiring.Component):
    """`buffers` pages in two banks of even and odd bus words, so that two neighbouring words can be read in a cycle.

    A window asked for in cycle t (`address`) is in the register `window` in cycle t + 2: `bus_bytes` bytes from `address` on, of page
    buffer `page`. A window that reaches past the page's end continues at its start; nothing outside the page is read.

    Parameters
    ----------
    page_size, bus_bytes, buffers
        As in `PortConfig`.

    Members
    -------
    write : In(1)
        `word` is the next bus word of the pages, which fill the buffers in turn.
    full : Out(1)
        High in the cycle in which a page's last word is written.
    page : In(range(buffers)), address : In(range(page_size)), window : Out(8 * bus_bytes)
    """

    def __init__(self, *, page_size, bus_bytes, buffers, src_loc_at=0):
        self.page_size = page_size
        self.bus_bytes = bus_bytes
        self.buffers = buffers
        super().__init__({
            "word": In(8 * bus_bytes), "write": In(1), "full": Out(1),
            "page": In(range(buffers)), "address": In(range(page_size)), "window": Out(8 * bus_bytes)}, src_loc_at=1 + src_loc_at)

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
        after = Signal(bits)
        m.d.comb += [word.eq(self.address >> shift), after.eq(word + 1)]
        outs = []
        for parity in range(2):
            store = memory.Memory(shape=8 * self.bus_bytes, depth=self.buffers * words // 2, init=[])
            m.submodules[f"bank{parity}"] = store
            write, read = store.write_port(), store.read_port()
            m.d.comb += [
                write.addr.eq(Cat(fill[1:], target)), write.data.eq(self.word), write.en.eq(self.write & (fill[0] == parity)),
                read.addr.eq(Cat(Mux(word[0] == parity, word, after)[1:], self.page)), read.en.eq(1)]
            outs.append(read.data)

        turn = Signal(shift)
        odd = Signal()
        m.d.sync += [turn.eq(self.address[:shift]), odd.eq(word[0])]
        pair = Mux(odd, Cat(outs[1], outs[0]), Cat(outs[0], outs[1]))
        m.d.sync += self.window.eq(pair >> (turn << 3))
        return m
