"""What datagrams bring in whole bus words, to memory in bursts, past the `Bridge`."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.link.envelope import LONGEST
from ..memory.axi import AXI4
from ..memory.splitter import command_shape
from ..memory.writer import BurstWriter
from .datagrams import WORD


class Filler(wiring.Component):
    """Stands between a `Bridge` and memory; hands on what that asks while it has nothing to write itself.

    * `memory`: AXI4 signature of the memory port, of 4 bytes or more.
    """

    def __init__(self, memory: AXI4):
        self.memory = memory
        self.beats = (LONGEST // memory.data_bytes).bit_length()
        super().__init__(
            {
                # what to write, as of `BurstWriter`, while the bridge rests
                "i": In(stream.Signature(command_shape(memory.address_width, self.beats))),
                # its words, behind it; they do not wait for others
                "data": In(stream.Signature(8 * WORD)),
                "idle": Out(1),  # all is written and answered
                "status": Out(2),  # the answers, ORed
                "bridge": In(memory),
                "bus": Out(memory),
            }
        )

    def elaborate(self, platform):
        m = Module()
        memory, bus = self.memory, self.bus
        m.submodules.writer = writer = BurstWriter(
            bus_bytes=memory.data_bytes,
            address_width=memory.address_width,
            beats_width=self.beats,
            ahead=1,
        )
        wiring.connect(m, wiring.flipped(self.i), writer.i)
        m.d.comb += self.idle.eq(writer.idle)
        self._words(m, writer)
        for name, member in memory.members.items():
            ours, its = getattr(bus, name), getattr(self.bridge, name)
            if member.flow is In:
                m.d.comb += its.eq(ours)
            elif not hasattr(writer.bus, name):
                m.d.comb += ours.eq(its)
            else:
                m.d.comb += ours.eq(its)
                with m.If(~writer.idle):
                    m.d.comb += ours.eq(getattr(writer.bus, name))
        m.d.comb += [
            writer.bus.awready.eq(bus.awready),
            writer.bus.wready.eq(bus.wready),
            writer.bus.bvalid.eq(bus.bvalid & ~writer.idle),
            writer.bus.bresp.eq(bus.bresp),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += self.status.eq(0)
        with m.Elif(bus.bvalid):
            m.d.sync += self.status.eq(self.status | bus.bresp)
        return m

    def _words(self, m, writer):
        """Bus words of those of 32 bits."""
        count = self.memory.data_bytes // WORD
        if count == 1:
            wiring.connect(m, wiring.flipped(self.data), writer.i_data)
            return
        parts = [Signal(8 * WORD, name=f"part{k}") for k in range(count - 1)]
        place, complete = Signal(range(count)), Signal()
        m.d.comb += [
            complete.eq(place == count - 1),
            writer.i_data.payload.eq(Cat(*parts, self.data.payload)),
            writer.i_data.valid.eq(self.data.valid & complete),
            self.data.ready.eq(~complete | writer.i_data.ready),
        ]
        with m.If(self.data.valid & self.data.ready):
            m.d.sync += place.eq(place + 1)
            with m.Switch(place):
                for k, part in enumerate(parts):
                    with m.Case(k):
                        m.d.sync += part.eq(self.data.payload)
