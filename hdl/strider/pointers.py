"""A page's line pointers."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from ...models.heap import page as p
from .layouts import Kind, page_bits, page_layout, tag_layout

#: words of a page before its line pointers
HEADER_WORDS = p.PAGE_HEADER_SIZE // p.LP_SIZE


class Target(enum.Enum, shape=2):
    """What a line pointer leads to."""

    TUPLE = 0
    PASS = 1
    BOUNDS = 2  #: an error
    FLAGS = 3  #: an error


class LinePointers(wiring.Component):
    """Takes windows of line pointers, judges each, and gives one after the other: the next one is looked at where it leaves its window, or the queue
    behind it."""

    def __init__(self, config):
        self.config = config
        inside = page_bits(config)
        super().__init__(
            {
                # a window and what it was read for
                "tag": In(tag_layout(config)),
                "window": In(8 * config.bus_bytes),
                "page": In(page_layout(config)),
                "begin": In(1),  # a page begins
                "checked": In(1),  # its header was read: it says how many line pointers there are
                "ask": In(1),  # a window of them is issued
                "take": In(1),  # the next line pointer is used
                "busy": Out(1),  # a window is on its way
                "queued": Out(1),  # behind the next line pointer another one is at hand
                # the next line pointer, in words from the page's start
                "entry": Out(inside - 2, init=HEADER_WORDS),
                "over": Out(1),  # there is none
                "final": Out(1),  # it is the last
                "known": Out(1),  # it is at hand; then the following holds
                "target": Out(Target),
                # of its tuple: where it begins and ends
                "offset": Out(inside),
                "finish": Out(inside),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self._count(m)
        arrives = Signal()
        m.d.comb += arrives.eq(self.tag.kind == Kind.POINTERS)
        with m.If(self.ask):
            m.d.sync += self.busy.eq(1)
        with m.Elif(arrives):
            m.d.sync += self.busy.eq(0)
        word, fill = self._queue(m, arrives)
        target, finish = Signal(Target), Signal(16)
        m.d.comb += finish.eq(word[:15] + word[17:])
        judged = self._judge(m, word, finish)
        with m.If(fill):
            m.d.sync += [target.eq(judged), self.offset.eq(word[:15]), self.finish.eq(finish)]
        with m.If(self.begin):
            m.d.sync += self.known.eq(0)
        with m.Elif(fill | self.take):
            m.d.sync += self.known.eq(fill)
        past = (target == Target.TUPLE) & (self.finish > self.page.special)
        m.d.comb += self.target.eq(Mux(past, Target.BOUNDS, target))
        return m

    def _count(self, m):
        """Where the next line pointer lies, and whether there is one."""
        behind = self.page.lower[2:]  # the last one
        with m.If(self.begin):
            m.d.sync += self.entry.eq(HEADER_WORDS)
        with m.Elif(self.checked):
            m.d.sync += [self.over.eq(0), self.final.eq(behind == HEADER_WORDS + 1)]
        with m.Elif(self.take):
            m.d.sync += [
                self.entry.eq(self.entry + 1),
                self.over.eq(self.final),
                self.final.eq(self.entry + 2 == behind),
            ]

    def _queue(self, m, arrives):
        """Return a line pointer that may be the next, and whether it is."""
        per_window = self.config.bus_bytes // p.LP_SIZE
        if per_window == 1:
            return self.window, arrives
        queue, left = Signal(32 * (per_window - 1)), Signal(range(per_window))
        m.d.comb += self.queued.eq(left != 0)
        moves = Signal()
        m.d.comb += moves.eq(self.take & self.queued)
        with m.If(self.begin):
            m.d.sync += left.eq(0)
        with m.Elif(arrives):
            m.d.sync += [queue.eq(self.window[32:]), left.eq(per_window - 1)]
        with m.Elif(moves):
            m.d.sync += [queue.eq(queue[32:]), left.eq(left - 1)]
        word = Signal(32)
        m.d.comb += word.eq(Mux(arrives, self.window, queue))
        return word, arrives | moves

    def _judge(self, m, word, finish):
        """Return what a line pointer leads to, but for the end of the page's tuples."""
        inside, target = page_bits(self.config), Signal(Target)
        offset, flags, length = word[:15], word[15:17], word[17:]
        outside = (
            offset[:3].any()
            | (offset[:inside] < self.page.upper)
            | finish[inside:].any()
            | ((length[3:5] != 3) & ~length[5:].any())
        )
        redirected = (offset != 0) & (offset + HEADER_WORDS <= self.page.lower[2:])
        with m.If(flags == p.LP_NORMAL):
            m.d.comb += target.eq(Mux(outside, Target.BOUNDS, Target.TUPLE))
        with m.Elif(
            ((flags == p.LP_UNUSED) & length.any())
            | ((flags == p.LP_REDIRECT) & (length.any() | ~redirected))
        ):
            m.d.comb += target.eq(Target.FLAGS)
        with m.Else():
            m.d.comb += target.eq(Target.PASS)
        return target
