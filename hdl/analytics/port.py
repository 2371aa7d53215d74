"""Everything between one memory port and the core: reader, page sequencer, Striders, loader."""

from amaranth.hdl import Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.analytics.config import AnalyticsPlan
from ...models.analytics.shell import address_bits, beats_bits, count_bits, page_bits
from ...models.memory.bursts import COMMANDS
from ...models.strider.config import PortConfig
from ..memory.axi import AXI4
from ..memory.reader import BurstReader
from ..memory.splitter import command_shape
from ..modules import Parts
from ..stream.monitor import monitor_shape, observe
from ..stream.passing import passed_on
from ..stream.queue import Spare
from ..strider.port import AccessPort, error_layout
from ..strider.sequencer import PageSequencer
from .loader import Loader, beat_layout
from .reorder import Reorder


class MemoryPort(wiring.Component):
    """Reads a port's pages and deals their tuples to its threads. All ports of an engine are alike: what only the first does, boot, the others can.

    * `plan`, `port`: what to compute, and how its memory ports are built.
    * `parts`: gives the parts that there are many of.
    """

    def __init__(self, plan: AnalyticsPlan, port: PortConfig, parts: Parts):
        self.plan = plan
        self.port = port
        self.parts = parts
        self.loader = Loader(plan)
        loader = {
            name: member for name, member in self.loader.signature.members.items() if name != "i"
        }
        beats = stream.Signature(beat_layout(plan))
        # where rows of models lie in memory: tuples on their way to the loader, with rows for
        # indices, and back, with lines
        between = {"o_tuples": Out(beats), "i_tuples": In(beats)} if plan.rows.tables else {}
        self.sizes = {"address_width": address_bits(plan), "beats_width": beats_bits(plan)}
        self.commands = command_shape(address_bits(plan), beats_bits(plan))
        words = data.StructLayout({"data": 8 * plan.bus_bytes, "last": 1})
        bus = AXI4(address_width=address_bits(plan), data_bytes=plan.bus_bytes, write=False)
        super().__init__(
            {
                # as `bus` and `error` of `BurstReader`
                "bus": Out(bus),
                "bus_error": Out(1),
                # until `booted` commands and beats of the reader; then pages have it
                "i_command": In(stream.Signature(self.commands)),
                "o_words": Out(stream.Signature(words)),
                "booted": In(1),
                # the Striders' program
                "i_program": In(stream.Signature(unsigned(32), always_ready=True)),
                # start of the training; its end
                "begin": In(1),
                "stop": In(1),
                # where the port's pages lie, how many there are, how often they are read
                "address": In(address_bits(plan)),
                "pages": In(page_bits(plan)),
                "epochs": In(count_bits(plan)),
                "first_block": In(32),  # the first page's block number, for errors
                "error": Out(error_layout()),  # as of `AccessPort`
                "tuples": Out(monitor_shape()),  # the stream into the loader
                # of a port with a ring (`models.ring`): pages that are there; a page was read
                **({"ready": In(32), "done": Out(1)} if plan.striders.ring else {}),
                **between,
                **loader,  # as of `Loader`
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        m.submodules.reader = reader = BurstReader(
            bus_bytes=plan.bus_bytes, commands=min(COMMANDS, self.port.credits), **self.sizes
        )
        m.submodules.sequencer = sequencer = PageSequencer(
            bus_bytes=plan.bus_bytes,
            page_size=plan.page_size,
            credits=self.port.credits,
            **self.sizes,
            count_width=page_bits(plan),
            epochs_width=count_bits(plan),
            ring=plan.striders.ring,
        )
        # one command waits here instead of at its source: bursts leave when they would without, and `ready` ends in a register
        m.submodules.ahead = ahead = Spare(self.commands)
        m.submodules.access = access = AccessPort(self.port, self.parts)
        m.submodules.loader = loader = self.loader
        wiring.connect(m, reader.bus, wiring.flipped(self.bus))
        for name, member in loader.signature.members.items():
            if name != "i":
                inner, outer = getattr(loader, name), getattr(self, name)
                m.d.comb += outer.eq(inner) if member.flow is Out else inner.eq(outer)
        some = Signal()
        empty = Signal()
        m.d.comb += [
            some.eq(self.pages != 0),
            empty.eq(~some & self.booted),  # a port without pages is one whose epochs are empty
            sequencer.start.eq(self.begin & some),
            sequencer.stop.eq(self.stop),
            sequencer.base.eq(self.address),
            sequencer.stride.eq(plan.page_size),
            sequencer.pages.eq(self.pages),
            sequencer.epochs.eq(self.epochs),
            sequencer.free.eq(access.free),
            ahead.i.payload.eq(
                Mux(self.booted, sequencer.o.payload.as_value(), self.i_command.payload.as_value())
            ),
            ahead.i.valid.eq(Mux(self.booted, sequencer.o.valid, self.i_command.valid)),
            *passed_on(ahead.o, reader.i),
            sequencer.o.ready.eq(ahead.i.ready & self.booted),
            self.i_command.ready.eq(ahead.i.ready),
            self.o_words.payload.eq(reader.o.payload),
            self.o_words.valid.eq(reader.o.valid),
            self.bus_error.eq(reader.error),
        ]
        if plan.striders.ring:
            m.d.comb += [
                sequencer.ready.eq(self.ready),
                self.done.eq(self.booted & reader.o.valid & reader.o.ready & reader.o.p.last),
            ]
        self._access(m, access, reader, empty)
        return m

    def _access(self, m, access, reader, empty):
        """Words go to the Striders, their tuples to the loader."""
        loader = self.loader
        into = self.o_tuples if self.plan.rows.tables else loader.i
        if self.plan.rows.tables:
            m.d.comb += passed_on(self.i_tuples, loader.i)
        if self.plan.rows.reorder:
            m.submodules.reorder = reorder = Reorder(self.plan)
            m.d.comb += passed_on(reorder.o, into)
            into = reorder.i
        m.d.comb += [
            access.i.payload.eq(reader.o.p.data),
            access.i.valid.eq(reader.o.valid & self.booted),
            reader.o.ready.eq(self.booted | self.o_words.ready),
            access.i_program.payload.eq(self.i_program.payload),
            access.i_program.valid.eq(self.i_program.valid),
            access.pages.eq(self.pages),
            access.first_block.eq(self.first_block),
            access.block_stride.eq(Const(self.plan.ports)),
            self.error.eq(access.error),
            into.p.lanes.eq(access.o.p.lanes),
            into.p.last.eq(access.o.p.last),
            into.p.end.eq(access.o.p.end | empty),
            into.valid.eq(access.o.valid | empty),
            access.o.ready.eq(into.ready),
            *observe(self.tuples, loader.i),
        ]
