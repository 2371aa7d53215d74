"""The page walker: `models.strider.machine` in hardware."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ...models.strider.isa import FIELDS
from .body import Body
from .decode import Decoder, tag_layout
from .front import Front, State
from .pages import PageBuffers

__all__ = ["Walker", "program_layout"]


def program_layout(config):
    """The write port of a program memory."""
    return data.StructLayout({"index": range(config.program_depth), "data": 96, "write": 1})


def _instruction_layout():
    return data.FlexibleLayout(96, {name: data.Field(bits, first) for name, (first, bits) in FIELDS.items()})


class Walker(Front, Body, wiring.Component):
    """Walks the pages written to it, one after the other; cycle by cycle what `models.strider.machine.Machine` says.

    A page whose last word is written in cycle t starts in cycle t + 1 at the earliest. Issues go to the tuple buffer as `tag` and `window`
    in the decode stage, two cycles after the issue.

    Parameters
    ----------
    config
        The port's configuration.
    parts
        Gives the page buffers' banks.

    Members
    -------
    word, write : In
        Bus words of pages.
    program : In({index, data, write}), program_length : In
        The program memory's write port; instructions in it.
    room : In(1)
        A slot of the tuple buffer is free; counts what `taken` has taken until the cycle before.
    slot, base : In
        That slot.
    taken : Out(1)
        The slot is used up.
    freed : Out(1)
        A page buffer is free again.
    tag : Out(tag_layout(config)), window : Out(8 * bus_bytes)
    """

    def __init__(self, config, parts, *, src_loc_at=0):
        self.config = config
        self.parts = parts
        layout = tag_layout(config)
        super().__init__({
            "word": In(8 * config.bus_bytes), "write": In(1),
            "program": In(program_layout(config)),
            "program_length": In(range(config.program_depth + 1)),
            "room": In(1), "slot": In(layout["slot"].shape), "base": In(layout["base"].shape), "taken": Out(1),
            "freed": Out(1), "tag": Out(layout), "window": Out(8 * config.bus_bytes)}, src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        config = self.config
        self.m = m = Module()
        self._fetch(m)
        m.submodules.pages = pages = PageBuffers(page_size=config.page_size, bus_bytes=config.bus_bytes, buffers=config.buffers,
                                             parts=self.parts)
        m.submodules.decoder = self.decoder = decoder = Decoder(config)
        self.pages = pages
        m.d.comb += [pages.word.eq(self.word), pages.write.eq(self.write)]
        full = Signal(range(config.buffers + 1))
        m.d.sync += full.eq(full + pages.full - self.freed)
        with m.If(self.freed):
            m.d.sync += pages.page.eq(Mux(pages.page == config.buffers - 1, 0, pages.page + 1))
        self.page_ready = full != 0

        # the pipeline: issue -> stage 1 (memory) -> stage 2 (decode)
        self.tag_in = tag_in = Signal(tag_layout(config))
        stage = Signal(tag_layout(config))
        decoded = Signal(tag_layout(config))
        m.d.sync += [stage.eq(tag_in), decoded.eq(stage)]
        m.d.comb += [
            decoder.tag.eq(decoded), decoder.window.eq(pages.window), self.window.eq(pages.window), self.tag.eq(decoded),
            self.tag.valid.eq(decoder.valid), self.tag.code.eq(decoder.code),
            tag_in.valid.eq(~decoder.halted), tag_in.slot.eq(self.slot), tag_in.base.eq(self.base)]

        self.state = Signal(State)
        self.part = Signal(3)
        self._front_registers(m)
        self._body_registers(m)
        with m.If(~decoder.halted):
            with m.Switch(self.state):
                with m.Case(State.START):
                    self._start(m)
                with m.Case(State.PAGE):
                    self._read_page(m, self.part)
                with m.Case(State.POINTERS):
                    self._read_pointers(m)
                    m.d.sync += self.state.eq(State.SETTLE)
                with m.Case(State.SETTLE):
                    m.d.sync += self.state.eq(State.CHECK)
                with m.Case(State.CHECK):
                    self._check(m)
                with m.Case(State.SCAN):
                    self._scan(m, self.inside)
                with m.Case(State.SCAN_MORE):
                    self._scan_more(m)
                with m.Case(State.SCAN_REFILL):
                    self._read_pointers(m)
                    self._scanned(m, self.inside)
                with m.Case(State.LOOP):
                    self._loop(m)
                with m.Case(State.BODY):
                    self._body(m)
        return m

    # -- program -------------------------------------------------------------------------------------------------------

    def _fetch(self, m):
        depth, fixed = self.config.program_depth, self.config.fixed
        if fixed is not None:
            self._built_in(m, fixed)
            return
        m.submodules.program_store = store = memory.Memory(shape=96, depth=depth, init=[])
        write, read = store.write_port(), store.read_port()
        self.pc = Signal(range(max(depth, 1 << 16)))
        self.pc_next = Signal.like(self.pc)
        m.d.comb += [write.addr.eq(self.program.index), write.data.eq(self.program.data), write.en.eq(self.program.write),
                     self.pc_next.eq(self.pc), read.addr.eq(self.pc_next), read.en.eq(1)]
        m.d.sync += self.pc.eq(self.pc_next)
        self.i = Signal(_instruction_layout())
        m.d.comb += self.i.eq(read.data)
        self.op = Signal(4)
        m.d.comb += self.op.eq(Mux(self.pc < self.program_length, self.i.op, 0))

    def _built_in(self, m, fixed):
        """A read-only program: bits that never change are no part of the memory."""
        varying = [bit for bit in range(96) if (fixed.ever & ~fixed.always) >> bit & 1]
        words = [sum((word >> bit & 1) << n for n, bit in enumerate(varying)) for word in fixed.words]
        m.submodules.program_store = store = memory.Memory(shape=max(1, len(varying)), depth=len(words), init=words)
        read = store.read_port()
        self.pc = Signal(range(len(words)))
        self.pc_next = Signal.like(self.pc)
        m.d.comb += [self.pc_next.eq(self.pc), read.addr.eq(self.pc_next), read.en.eq(1)]
        m.d.sync += self.pc.eq(self.pc_next)
        self.i = Signal(_instruction_layout())
        stored = {bit: read.data[n] for n, bit in enumerate(varying)}
        m.d.comb += self.i.eq(Cat(stored.get(bit, Const(fixed.ever >> bit & 1, 1)) for bit in range(96)))
        self.op = Signal(4)
        m.d.comb += self.op.eq(self.i.op)

    def _token(self, m, *, code=None, line=0, end=0):
        """Issue an error or the end of a page, which takes the slot; the caller has made sure of `room`."""
        m.d.comb += [self.tag_in.line.eq(line), self.taken.eq(1)]
        if end:
            m.d.comb += self.tag_in.end.eq(1)
        else:
            m.d.comb += self.tag_in.code.eq(code)
