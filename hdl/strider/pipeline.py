"""A Strider without its tuple buffer: `models.strider.machine` in hardware."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..stream.passing import fields
from .address import AddressStage
from .body import Body
from .decode import Decoder
from .fetch import Fetch
from .front import Front
from .layouts import policy_layout, program_layout, tag_layout
from .pages import PageBuffers


class StriderPipeline(wiring.Component):
    """Walks the pages written to it, one after the other; cycle by cycle what `models.strider.machine.StriderMachine` says.

    ::

        fetch ── instruction ─┬─ front ─┐                   ┌─ pages ── window ─┐
                              └─ body ──┴─ issue ── address ┴─ tag ─────────────┴─ decoder

    Front and body take turns to issue. They see each window with its tag, and what the decoder says of those before.

    A page whose last word is written in cycle t starts in cycle t + 1 at the earliest. An issue in cycle t forms its address and reads the page buffer in
    t + 1, is compared with the tuple's end in t + 2, and reaches the decode stage in t + 3, both a cycle later with a `latency` of 5: then it goes to the tuple
    buffer as `tag` and `window`.

    * `config`: the port's configuration.
    * `parts`: gives the page buffers' banks.
    """

    def __init__(self, config, parts):
        self.config = config
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
                "tag": Out(tag_layout(config)),
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
        self.fetch, self.front, self.body = Fetch(config), Front(config), Body(config)
        self.address, self.decoder = AddressStage(config), Decoder(config)
        self.pages = PageBuffers(
            page_size=config.page_size,
            bus_bytes=config.bus_bytes,
            buffers=config.buffers,
            granule=1 if config.fixed is None else config.fixed.granule,
            registered=config.latency > 4,
            parts=parts,
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.fetch = fetch = self.fetch
        m.submodules.front = front = self.front
        m.submodules.body = body = self.body
        m.submodules.address = address = self.address
        m.submodules.pages = pages = self.pages
        m.submodules.decoder = decoder = self.decoder
        entered = {"enter": front.enter, "tuple": front.tuple}
        read = {"tag": address.tag, "window": pages.window}
        m.d.comb += [
            *fields(fetch, program=self.program, program_length=self.program_length),
            *fields(fetch, to_page=front.to_page, to_tuple=front.to_tuple),
            *fields(fetch, enter=front.enter, dense=decoder.header.dense),
            *fields(fetch, advance=body.advance, waiting=front.waiting),
            *fields(front, **read, page=decoder.page, header=decoder.header),
            *fields(front, instruction=fetch.o, full=self._full(m), room=self.room),
            *fields(front, ended=body.ended, failed=decoder.code != 0),
            *fields(body, **entered, active=front.active, waiting=front.waiting),
            *fields(body, instruction=fetch.o, following=fetch.following),
            *fields(body, **read, odd=decoder.odd, padded=decoder.padded, bases=address.bases),
            *fields(address, **entered, length=decoder.length),
            address.i.eq(Mux(front.active, body.o, front.o)),
            *fields(pages, word=self.word, write=self.write),
            *fields(pages, address=address.address, after=address.after),
            *fields(decoder, **read, left=address.left, spare=address.spare),
            *fields(decoder, offset=front.tuple.offset, finish=front.tuple.finish),
            *fields(decoder, setup=front.setup, line=front.line),
            *fields(self, **read, policy=front.policy, code=decoder.code, line=decoder.at),
            *fields(self, taken=front.taken | body.taken, freed=front.freed),
        ]
        return m

    def _full(self, m):
        """Whether a page is there; pages are read in the order in which the buffers are filled."""
        full, page = Signal(range(self.config.buffers + 1)), self.pages.page
        m.d.sync += full.eq(full + self.pages.full - self.front.freed)
        with m.If(self.front.freed):
            m.d.sync += page.eq(Mux(page == self.config.buffers - 1, 0, page + 1))
        return full != 0
