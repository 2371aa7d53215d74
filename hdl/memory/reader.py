"""From commands to AXI read bursts: one AR a cycle, data passed through."""

from amaranth.hdl import Const, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.memory.bursts import COMMANDS
from ..stream.passing import passed_on
from ..stream.queue import Queue
from .axi import AXI4, Response
from .splitter import Splitter, command_shape


class BurstReader(wiring.Component):
    """Reads memory by commands; beats come out in order, back to back over commands.

    Timing (twin: `models.memory.Reader`): a command accepted in cycle t has its first ARVALID in cycle t + 1, one AR a cycle
    follows; the next command is accepted in the cycle of the last AR at the earliest (no bubble), and only while fewer than
    `commands` are in flight (a command is in flight from the cycle after its acceptance to the cycle of its last beat). R passes
    to `o` combinationally: RREADY is `o.ready` while a command is in flight.

    * `bus_bytes`: bytes of a bus word.
    * `address_width`, `beats_width`: bits of a command's fields.
    * `commands`: commands in flight.
    """

    def __init__(self, *, bus_bytes, address_width=40, beats_width=24, commands=COMMANDS):
        self.bus_bytes = bus_bytes
        self.address_width = address_width
        self.beats_width = beats_width
        self.commands = commands
        super().__init__(
            {
                # `address` is a multiple of `bus_bytes`, `beats` ≥ 1
                "i": In(stream.Signature(command_shape(address_width, beats_width))),
                # `last` marks the final beat of a command. Beats of a failed burst come like
                # others.
                "o": Out(stream.Signature(data.StructLayout({"data": 8 * bus_bytes, "last": 1}))),
                # high in the cycle in which a beat with an error response is transferred
                "error": Out(1),
                # no command is in flight. To stop: give no more commands, keep `o.ready` high, wait
                # for `idle`.
                "idle": Out(1),
                "bus": Out(AXI4(address_width=address_width, data_bytes=bus_bytes, write=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        m.submodules.splitter = splitter = Splitter(
            bus_bytes=self.bus_bytes, address_width=self.address_width, beats_width=self.beats_width
        )
        # lengths of the commands in flight, less one: the data side marks their last beats
        m.submodules.flight = flight = Queue(self.beats_width, self.commands)
        m.d.comb += [
            *passed_on(self.i, splitter.i),
            splitter.enable.eq(flight.i.ready),
            flight.i.payload.eq(self.i.p.beats - 1),
            flight.i.valid.eq(self.i.valid & splitter.i.ready),
            bus.arvalid.eq(splitter.o.valid),
            splitter.o.ready.eq(bus.arready),
            bus.araddr.eq(splitter.o.p.address),
            bus.arlen.eq(splitter.o.p.length),
            bus.arsize.eq(Const((self.bus_bytes - 1).bit_length(), 3)),
            bus.arburst.eq(1),
            bus.arid.eq(0),
        ]

        passed = Signal(self.beats_width)
        moved = Signal()
        m.d.comb += [
            self.o.p.data.eq(bus.rdata),
            self.o.p.last.eq(passed == flight.o.payload),
            self.o.valid.eq(bus.rvalid & flight.o.valid),
            bus.rready.eq(self.o.ready & flight.o.valid),
            moved.eq(self.o.valid & self.o.ready),
            flight.o.ready.eq(moved & self.o.p.last),
            self.error.eq(
                moved
                & ((bus.rresp == Response.SLVERR.value) | (bus.rresp == Response.DECERR.value))
            ),
            self.idle.eq(flight.level == 0),
        ]
        with m.If(moved):
            m.d.sync += passed.eq(passed + 1)
            with m.If(self.o.p.last):
                m.d.sync += passed.eq(0)
        return m
