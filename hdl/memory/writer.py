"""From commands and data to AXI write bursts."""

from amaranth.hdl import Const, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.memory.bursts import Writer
from ..stream.passing import passed_on
from ..stream.queue import Queue
from .axi import AXI4, Response
from .outstanding import none_left
from .splitter import Splitter, command_shape


class BurstWriter(wiring.Component):
    """Writes memory by commands: whole bus words, or, with `strobes`, bytes of them.

    Timing (twin: `models.memory.Writer`): a command accepted in cycle t has its first AWVALID in cycle t + 1; its data pass from
    cycle t + 2 on, combinationally from `i_data` to W; the next command is accepted in the cycle of the last AW at the earliest.
    AWs run at most `ahead` bursts ahead of the data; WVALID comes from the cycle after its AW was first offered on, whether that was
    accepted or not. BREADY is always high.

    Memory may serve nothing else from a burst's address to its last word: give a command when no word of it waits for a read.

    * `bus_bytes`: bytes of a bus word.
    * `address_width`, `beats_width`: bits of a command's fields.
    * `ahead`: bursts; the twin's unless there are fewer in all.
    * `strobes`: whether `i_data` says which bytes of a word are written.
    """

    def __init__(
        self,
        *,
        bus_bytes,
        address_width=40,
        beats_width=24,
        ahead=Writer.AHEAD,
        strobes=False,
    ):
        self.bus_bytes = bus_bytes
        self.ahead = ahead
        self.strobes = strobes
        word = data.StructLayout({"word": 8 * bus_bytes, "strobe": bus_bytes})
        self.address_width = address_width
        self.beats_width = beats_width
        super().__init__(
            {
                # `address` is a multiple of `bus_bytes`, `beats` ≥ 1
                "i": In(stream.Signature(command_shape(address_width, beats_width))),
                # the words of all commands, in order; with `strobes` the payload is {word, strobe}
                "i_data": In(stream.Signature(word if strobes else 8 * bus_bytes)),
                "error": Out(1),  # high in the cycle in which an error response is transferred
                # every accepted command is written and answered: high from the cycle after the last
                # B transfer on, low from the cycle after a command was accepted
                "idle": Out(1),
                "bus": Out(AXI4(address_width=address_width, data_bytes=bus_bytes, read=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        m.submodules.splitter = splitter = Splitter(
            bus_bytes=self.bus_bytes, address_width=self.address_width, beats_width=self.beats_width
        )
        m.submodules.owed = owed = Queue(8, self.ahead)  # lengths of bursts whose AW was offered
        noted = Signal()  # the AW that is offered is in the queue
        # ARM IHI 0022 A3.3.1: neither of AWVALID and WVALID may wait for the other's READY
        m.d.comb += [
            *passed_on(self.i, splitter.i),
            splitter.enable.eq(1),
            bus.awvalid.eq(splitter.o.valid & (owed.i.ready | noted)),
            splitter.o.ready.eq(bus.awready & (owed.i.ready | noted)),
            bus.awaddr.eq(splitter.o.p.address),
            bus.awlen.eq(splitter.o.p.length),
            bus.awsize.eq(Const((self.bus_bytes - 1).bit_length(), 3)),
            bus.awburst.eq(1),
            bus.awid.eq(0),
            owed.i.payload.eq(splitter.o.p.length),
            owed.i.valid.eq(splitter.o.valid & ~noted),
        ]
        m.d.sync += noted.eq(bus.awvalid & ~bus.awready)

        passed = Signal(8)
        m.d.comb += [
            bus.wdata.eq(self.i_data.p.word if self.strobes else self.i_data.payload),
            bus.wstrb.eq(self.i_data.p.strobe if self.strobes else Const(-1, self.bus_bytes)),
            bus.wlast.eq(passed == owed.o.payload),
            bus.wvalid.eq(self.i_data.valid & owed.o.valid),
            self.i_data.ready.eq(bus.wready & owed.o.valid),
            owed.o.ready.eq(bus.wvalid & bus.wready & bus.wlast),
        ]
        with m.If(bus.wvalid & bus.wready):
            m.d.sync += passed.eq(passed + 1)
            with m.If(bus.wlast):
                m.d.sync += passed.eq(0)

        sent = Signal()
        answered = Signal()
        m.d.comb += [
            bus.bready.eq(1),
            sent.eq(bus.awvalid & bus.awready),
            answered.eq(bus.bvalid),
            self.error.eq(
                answered
                & ((bus.bresp == Response.SLVERR.value) | (bus.bresp == Response.DECERR.value))
            ),
            self.idle.eq(none_left(m, sent, answered, "open") & ~splitter.o.valid),
        ]
        return m
