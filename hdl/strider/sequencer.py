"""The page sequencer: one read command a page, as credits allow."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..memory.splitter import command_shape


class PageSequencer(wiring.Component):
    """Asks for a port's pages in order, epoch after epoch, never more than there are page buffers for.

    After `start` in cycle 0 the first command is offered in cycle 1; one a cycle follows while credits last. A pulse on `free` in
    cycle t allows a command from cycle t + 1 on, and so does a `ready` that is larger.

    * `bus_bytes`, `page_size`: bytes of a bus word and of a page.
    * `credits`: page buffers of the port, all free at `start`.
    * `address_width`, `beats_width`: bits of the commands' fields.
    * `count_width`, `epochs_width`: bits of the numbers of pages and epochs.
    * `ring`: slots for pages (`models.ring`), 0: the table lies in memory whole.
    """

    def __init__(
        self,
        *,
        bus_bytes,
        page_size,
        credits,
        address_width=40,
        beats_width=24,
        count_width=32,
        epochs_width=32,
        ring=0,
    ):
        self.beats = page_size // bus_bytes
        self.credits = credits
        self.ring = ring
        super().__init__(
            {
                # begins a run; the other inputs hold from then on. At a time when no run is going
                # on.
                "start": In(1),
                # ends the run: a command that is offered stays until it is taken, no other follows
                "stop": In(1),
                # page k lies at base + k * stride (bytes, multiples of `bus_bytes`). Nothing is
                # read if `pages` or `epochs` is 0.
                "base": In(address_width),
                "stride": In(32),
                "pages": In(count_width),
                "epochs": In(epochs_width),
                "free": In(1),  # a page buffer is free again
                "busy": Out(1),  # commands are still to come
                "o": Out(stream.Signature(command_shape(address_width, beats_width))),
                # page n of the stream lies in slot n mod `ring`. `ready`: how many pages are there,
                # modulo 2^32. `anew`: `start` begins the stream (high where nothing is connected),
                # or goes on with it behind the pages before.
                **({"ready": In(32), "anew": In(1, init=1)} if ring else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        credits = Signal(range(self.credits + 1))
        # pages and epochs that are to come after this one, and whether there are none: known before the command leaves
        page, epoch = Signal.like(self.pages), Signal.like(self.epochs)
        final, final_epoch = Signal(), Signal()
        address = Signal.like(self.base)
        offered = Signal()  # the command was offered in the cycle before and not taken
        moved = Signal()
        available, wraps = self._ring(m, moved) if self.ring else (1, 0)
        m.d.comb += [
            self.o.valid.eq(self.busy & (credits != 0) & available & (offered | ~self.stop)),
            self.o.p.address.eq(address),
            self.o.p.beats.eq(self.beats),
            moved.eq(self.o.valid & self.o.ready),
        ]
        m.d.sync += [
            credits.eq(credits + self.free - moved),
            offered.eq(self.o.valid & ~self.o.ready),
        ]
        with m.If(self.stop & ~(self.o.valid & ~self.o.ready)):
            m.d.sync += self.busy.eq(0)
        with m.Elif(moved):
            m.d.sync += [page.eq(page - 1), final.eq(page == 1), address.eq(address + self.stride)]
            with m.If(final):
                m.d.sync += [
                    page.eq(self.pages - 1),
                    final.eq(self.pages == 1),
                    epoch.eq(epoch - 1),
                    final_epoch.eq(epoch == 1),
                    self.busy.eq(~final_epoch),
                ]
            with m.If(wraps if self.ring else final):
                m.d.sync += address.eq(self.base)
        with m.If(self.start):
            m.d.sync += [
                credits.eq(self.credits),
                page.eq(self.pages - 1),
                final.eq(self.pages == 1),
                epoch.eq(self.epochs - 1),
                final_epoch.eq(self.epochs == 1),
                address.eq(Mux(self.anew, self.base, address) if self.ring else self.base),
                offered.eq(0),
                self.busy.eq((self.pages != 0) & (self.epochs != 0) & ~self.stop),
            ]
        return m

    def _ring(self, m, moved):
        """Return whether the next page is there, known a cycle after it is, and whether it lies in the last slot."""
        asked, slot = Signal(32), Signal(range(self.ring))
        available, last = Signal(), Signal()
        ahead = Signal(32)
        m.d.comb += [ahead.eq(self.ready - asked - moved), last.eq(slot == self.ring - 1)]
        # what is asked for can only grow up to what is there
        m.d.sync += [available.eq((ahead != 0) & ~ahead[-1]), asked.eq(asked + moved)]
        with m.If(moved):
            m.d.sync += slot.eq(Mux(last, 0, slot + 1))
        with m.If(self.start & self.anew):
            m.d.sync += [asked.eq(0), slot.eq(0), available.eq((self.ready != 0) & ~self.ready[-1])]
        return available, last
