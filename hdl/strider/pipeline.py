"""A Strider without its tuple buffer: `models.strider.machine` in hardware."""

from itertools import pairwise

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .address import Addresses
from .body import Body
from .decode import Decoder, tag_layout
from .fetch import Fetch, program_layout
from .front import Front, State
from .pages import PageBuffers


def policy_layout():
    """What values do that do not fit: `saturate`: an overflow is no error; `skip`: a NaN leaves its tuple out; `go`: it passes."""
    return data.StructLayout({"saturate": 1, "skip": 1, "go": 1})


class StriderPipeline(Front, Body, Addresses, Fetch, wiring.Component):
    """Walks the pages written to it, one after the other; cycle by cycle what `models.strider.machine.StriderMachine` says.

    A page whose last word is written in cycle t starts in cycle t + 1 at the earliest. An issue in cycle t forms its address and reads the page buffer in
    t + 1, is compared with the tuple's end in t + 2, and reaches the decode stage in t + 3, both a cycle later with a `latency` of 5: then it goes to the tuple
    buffer as `tag` and `window`.

    Parameters
    ----------
    config
        The port's configuration.
    parts
        Gives the page buffers' banks.
    """

    def __init__(self, config, parts):
        self.config = config
        self.parts = parts
        layout = tag_layout(config)
        super().__init__(
            {
                # bus words of pages
                "word": In(8 * config.bus_bytes),
                "write": In(1),
                "program": In(program_layout(config)),  # the program memory's write port
                "program_length": In(range(config.program_depth + 1)),  # instructions in it
                # a slot of the tuple buffer is free; counts what `taken` has taken until the cycle
                # before
                "room": In(1),
                "taken": Out(1),  # a slot is used up
                "freed": Out(1),  # a page buffer is free again
                "tag": Out(layout),
                "window": Out(8 * config.bus_bytes),
                # as the program says; it stands still while tuples come
                "policy": Out(policy_layout()),
                # the first error and its line pointer, from the cycle after its `tag` on; what
                # comes after it does not count. Before it `line` is the line pointer of the `tag`'s
                # tuple, from the cycle after the first tag of it on.
                "code": Out(8),
                "line": Out(13),
            }
        )

    def elaborate(self, platform):
        self.m = m = Module()
        self._address_registers(m)
        m.submodules.pages = self.pages = PageBuffers(
            page_size=self.config.page_size,
            bus_bytes=self.config.bus_bytes,
            buffers=self.config.buffers,
            granule=1 if self.config.fixed is None else self.config.fixed.granule,
            registered=self.config.latency > 4,
            parts=self.parts,
        )
        m.submodules.decoder = self.decoder = Decoder(self.config)
        m.d.comb += [self.pages.word.eq(self.word), self.pages.write.eq(self.write)]
        full = Signal(range(self.config.buffers + 1))
        m.d.sync += full.eq(full + self.pages.full - self.freed)
        with m.If(self.freed):
            m.d.sync += self.pages.page.eq(
                Mux(self.pages.page == self.config.buffers - 1, 0, self.pages.page + 1)
            )
        self.page_ready = full != 0

        self.state = Signal(State)
        self.part = Signal(3)
        self._fetch(m)
        self._front_registers(m)
        self._body_registers(m)
        self._stages(m)

        self._states(m)
        return m

    def _stages(self, m):
        """Issue -> address and memory (-> the memory's register) -> comparison with the tuple's end -> decode."""
        self.tag_in = Signal(tag_layout(self.config))
        names = (
            ("forming", "waiting", "measuring", "decoded")
            if self.config.latency > 4
            else ("forming", "measuring", "decoded")
        )
        tags = [Signal(tag_layout(self.config), name=name) for name in names]
        forming = tags[0]
        measuring = tags[-2]
        decoded = tags[-1]
        m.d.sync += [after.eq(before) for before, after in pairwise([self.tag_in, *tags])]
        self._known_origin(m)
        address, reach = self._form(m, tags[-3])
        self._measure(m, measuring, address, reach)
        crooked = (address[:3] & self._size(lambda name: self.alignment(name), forming.type)) != 0
        m.d.sync += [tags[1].unaligned.eq(crooked), self.crooked.eq(crooked)]
        m.d.comb += [
            self.decoder.tag.eq(decoded),
            self.decoder.window.eq(self.pages.window),
            self.decoder.line.eq(self._line()),
            self.window.eq(self.pages.window),
            self.tag.eq(decoded),
            self.code.eq(self.decoder.code),
            self.line.eq(self.decoder.at),
        ]

    def _states(self, m):
        with m.Switch(self.state):
            with m.Case(State.START):
                self._start(m)
            with m.Case(State.PAGE):
                self._read_page(m, self.part)
            with m.Case(State.POINTERS):
                self._read_pointers(m)
                m.d.sync += [self.state.eq(State.SETTLE), self.part.eq(0)]
            with m.Case(State.SETTLE):
                m.d.sync += self.part.eq(self.part + 1)
                with m.If(self.part == self.config.latency - 3):
                    m.d.sync += self.state.eq(State.CHECK)
            with m.Case(State.CHECK):
                self._check(m)
            with m.Case(State.SCAN):
                m.d.comb += [self.scanning.eq(1), self.going.eq(self.inside)]
            with m.Case(State.SCAN_MORE):
                self._scan_more(m)
            with m.Case(State.SCAN_REFILL):
                self._read_pointers(m)
                self._scanned(m, self.inside)
            with m.Case(State.LOOP):
                self._loop(m)
            with m.Case(State.BODY):
                self._body(m)
        with m.If(self.scanning):
            self._scan(m, self.going)
        if self.config.fixed is not None:
            self._prepare(m)
        halt = Signal()
        m.d.sync += halt.eq(self.decoder.code != 0)
        with m.If(halt):
            m.d.sync += self.state.eq(State.HALT)

    def _token(self, m, *, code=None, end=0):
        """Issue an error or the end of a page, which takes the slot; the caller has made sure of `room`."""
        m.d.comb += self.taken.eq(1)
        if end:
            m.d.comb += self.tag_in.end.eq(1)
        else:
            m.d.comb += [self.tag_in.code.eq(code), self.tag_in.token.eq(1)]
