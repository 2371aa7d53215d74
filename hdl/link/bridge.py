"""From requests to the buses, and back to responses. Twin of `models.link.device`."""

from functools import cached_property

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.link.device import Identity
from ...models.link.frames import HEADER, NACK, RESPONSE, Space, Status
from ..memory.axi import AXI4, AXI4Lite
from .datagrams import BYTES

#: bytes of an address, the last of a header
_ADDRESS = 4


class Bridge(wiring.Component):
    """Does what requests ask, one bus word at a time, and answers each.

    * `identity`: what the identity space reads.
    * `registers`: AXI4Lite signature of the control port.
    * `memory`: AXI4 signature of the memory port: single beats, identifier 0.
    """

    def __init__(self, identity: Identity, *, registers: AXI4Lite, memory: AXI4):
        self.identity = identity
        self.memory = memory
        super().__init__(
            {
                "i": In(stream.Signature(8)),  # requests as a `Deframer` gives them
                # of the `Deframer`: answered by a nack when the request under way is
                "dropped": In(1),
                "o": Out(stream.Signature(BYTES)),  # bodies of responses, without CRC
                "axil": Out(registers),
                "bus": Out(memory),
            }
        )

        self.lanes = (memory.data_bytes - 1).bit_length()
        # what a request says. An address has the bits that the memory's has, but for its highest:
        # that stands for all bits above (`far`), and stays once it is set.
        self.sequence = Signal(8)
        self.kind = Signal(8)
        self.left = Signal(8)
        self.far = Signal()
        self.address = Signal(min(8 * _ADDRESS, memory.address_width - 1))
        self.status = Signal(2)
        self.word = Signal(8 * memory.data_bytes)  # to be written
        self.byte = Signal(8)  # the byte that was read
        self.strobes = Signal(memory.data_bytes)
        self.refused = Signal()  # a nack is owed
        self.done_once = Signal()  # there was a write to the registers,
        self.done_sequence = Signal(8)  # with this sequence
        self.done_status = Signal(2)  # and this end
        self.again = Signal()  # the request is that write again
        self.lane = Signal(range(max(memory.data_bytes, 4)))
        self.edge = Signal()  # the lane is the word's last

    @cached_property
    def writes(self):
        return self.kind[0]

    @cached_property
    def in_registers(self):
        return self.kind[1:] == Space.REGISTERS

    @cached_property
    def in_memory(self):
        return self.kind[1:] == Space.MEMORY

    @cached_property
    def in_identity(self):
        return self.kind[1:] == Space.IDENTITY

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [
            self.lane.eq(Mux(self.in_registers, self.address[:2], self.address[: self.lanes])),
            self.edge.eq(self.lane == Mux(self.in_registers, 3, self.memory.data_bytes - 1)),
            self.again.eq(
                self.in_registers & self.done_once & (self.done_sequence == self.sequence)
            ),
        ]
        with m.If(self.dropped):
            m.d.sync += self.refused.eq(1)
        self._buses(m)
        after = Signal(len(self.address) + 1)
        m.d.comb += after.eq(self.address + 1)
        step = [
            self.address.eq(after),
            self.far.eq(self.far | after[-1]),
            self.left.eq(self.left - 1),
        ]
        with m.FSM(name="bridge"):
            self._take_header(m)
            self._write(m, step)
            self._send_header(m)
            self._read(m, step)
        return m

    def _buses(self, m):
        """Both buses see the same word; only one is asked."""
        place = Cat(Const(0, 2), self.address[2:])
        bus_address = Cat(Const(0, self.lanes), self.address[self.lanes :], self.far)
        m.d.comb += [
            self.axil.awaddr.eq(place),
            self.axil.araddr.eq(place),
            self.axil.wdata.eq(self.word[:32]),
            self.axil.wstrb.eq(self.strobes[:4]),
            self.bus.awaddr.eq(bus_address),
            self.bus.araddr.eq(bus_address),
            self.bus.wdata.eq(self.word),
            self.bus.wstrb.eq(self.strobes),
            self.bus.wlast.eq(1),
            self.bus.awsize.eq(self.lanes),
            self.bus.arsize.eq(self.lanes),
            self.bus.awburst.eq(1),
            self.bus.arburst.eq(1),
        ]

    def _take_header(self, m):
        """From rest to the end of a header."""
        position = Signal(range(HEADER))
        with m.State("REST"):
            m.d.sync += [position.eq(0), self.status.eq(0), self.strobes.eq(0), self.far.eq(0)]
            with m.If(self.i.valid):
                m.next = "HEADER"
            with m.Elif(self.refused):
                m.d.sync += [
                    self.refused.eq(self.dropped),
                    self.sequence.eq(0),
                    self.kind.eq(NACK),
                    self.left.eq(0),
                    self.status.eq(Status.DROPPED),
                ]
                m.next = "SEQUENCE"
        with m.State("HEADER"):
            m.d.comb += self.i.ready.eq(1)
            with m.If(self.i.valid):
                m.d.sync += position.eq(position + 1)
                with m.Switch(position):
                    for at, part in enumerate((self.sequence, self.kind, self.left)):
                        with m.Case(at):
                            m.d.sync += part.eq(self.i.payload)
                    for at in range(_ADDRESS):
                        with m.Case(HEADER - _ADDRESS + at):
                            m.d.sync += [
                                self.address[8 * at : 8 * at + 8].eq(self.i.payload),
                                self.far.eq(
                                    self.far
                                    | self.i.payload[
                                        min(max(len(self.address) - 8 * at, 0), 8) :
                                    ].any()
                                ),
                            ]
                with m.If(position == HEADER - 1):
                    m.next = "BEGIN"
        with m.State("BEGIN"):
            with m.If(self.in_identity):
                m.d.sync += self.done_once.eq(0)
            with m.If(
                (self.in_identity & self.writes)
                | ~(self.in_identity | self.in_registers | self.in_memory)
            ):
                m.d.sync += self.status.eq(Status.DECERR)
            with m.If(self.writes):
                m.next = "WRITE"
            with m.Else():
                m.next = "SEQUENCE"

    def _write(self, m, step):
        """A write's bytes, word by word; `step` goes on to the next byte."""
        with m.State("WRITE"):  # gather a word's bytes
            with m.If(self.left == 0):
                m.next = "WRITTEN"
            with m.Else():
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += [
                        self.word.word_select(self.lane, 8).eq(self.i.payload),
                        self.strobes.bit_select(self.lane, 1).eq(1),
                    ]
                    with m.If(
                        (self.edge | (self.left == 1))
                        & (self.in_registers | self.in_memory)
                        & ~self.again
                    ):
                        m.next = "WRITE_ADDRESS"
                    with m.Else():
                        m.d.sync += step
        # the data follow the address's offer: a memory may wait for them before it takes that
        addressed, data_done = Signal(), Signal()
        with m.State("WRITE_ADDRESS"):
            m.d.sync += [addressed.eq(self._ask(m, "aw", 1)), data_done.eq(0)]
            m.next = "WRITE_DATA"
        with m.State("WRITE_DATA"):
            taken = Cat(self._ask(m, "aw", ~addressed), self._ask(m, "w", ~data_done))
            m.d.sync += Cat(addressed, data_done).eq(Cat(addressed, data_done) | taken)
            with m.If((Cat(addressed, data_done) | taken).all()):
                m.next = "WRITE_ANSWER"
        with m.State("WRITE_ANSWER"):
            valid, response = self._answer(m, "b", 1)
            with m.If(valid):
                m.d.sync += [self.status.eq(self.status | response), self.strobes.eq(0), *step]
                m.next = "WRITE"
        with m.State("WRITTEN"):
            with m.If(self.again):
                m.d.sync += self.status.eq(self.done_status)
            with m.Elif(self.in_registers):
                m.d.sync += [
                    self.done_once.eq(1),
                    self.done_sequence.eq(self.sequence),
                    self.done_status.eq(self.status),
                ]
            m.next = "SEQUENCE"

    def _send_header(self, m):
        parts = {"SEQUENCE": self.sequence, "KIND": self.kind | RESPONSE, "LENGTH": self.left}
        for (name, part), then in zip(parts.items(), ("KIND", "LENGTH", "READ"), strict=True):
            with m.State(name):
                m.d.comb += [self.o.valid.eq(1), self.o.p.data.eq(part)]
                with m.If(self.o.ready):
                    m.next = then

    def _read(self, m, step):
        """A read's bytes, and the answer's end."""
        with m.State("READ"):  # bytes that nothing is asked for
            with m.If(self.left == 0):
                m.next = "STATUS"
            with m.Elif(self.in_registers | self.in_memory):
                m.next = "READ_ADDRESS"
            with m.Else():
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.in_identity):
                    rom = Array(Const(byte, 8) for byte in self.identity.encode())
                    m.d.comb += self.o.p.data.eq(rom[self.address[:4]])
                with m.If(self.o.ready):
                    m.d.sync += step
        with m.State("READ_ADDRESS"), m.If(self._ask(m, "ar", 1)):
            m.next = "READ_ANSWER"
        # the bus holds its word until the last of its bytes is sent
        with m.State("READ_ANSWER"):
            valid, response = self._answer(m, "r", 0)
            m.d.sync += self.byte.eq(0)
            with m.If(~response[1]):
                m.d.sync += self.byte.eq(
                    Mux(
                        self.in_registers,
                        self.axil.rdata.word_select(self.address[:2], 8),
                        self.bus.rdata.word_select(self.address[: self.lanes], 8),
                    )
                )
            with m.If(valid):
                m.d.sync += self.status.eq(self.status | response)
                m.next = "READ_BYTE"
        with m.State("READ_BYTE"):  # from a register: the way from a memory's data is long
            m.d.comb += [self.o.valid.eq(1), self.o.p.data.eq(self.byte)]
            with m.If(self.o.ready):
                m.d.sync += step
                m.next = "READ_ANSWER"
                with m.If(self.edge | (self.left == 1)):
                    m.next = "READ_TAKEN"
        with m.State("READ_TAKEN"):
            self._answer(m, "r", 1)
            m.next = "READ"
        with m.State("STATUS"):
            m.d.comb += [self.o.valid.eq(1), self.o.p.data.eq(self.status), self.o.p.last.eq(1)]
            with m.If(self.o.ready):
                m.next = "REST"

    def _ask(self, m, channel, offers):
        """Offer, where `offers`, on one channel of the bus that the space means; return whether it is taken."""
        self._tell(m, f"{channel}valid", offers)
        return offers & self._hear(f"{channel}ready")

    def _answer(self, m, channel, taken):
        """Return whether the answer on a channel is there, and the response; it is taken when `taken`."""
        self._tell(m, f"{channel}ready", taken)
        return self._hear(f"{channel}valid"), self._hear(f"{channel}resp")

    def _tell(self, m, name, value):
        """Drive a signal of the bus that the space means."""
        for bus, meant in ((self.axil, self.in_registers), (self.bus, self.in_memory)):
            m.d.comb += getattr(bus, name).eq(meant & value)

    def _hear(self, name):
        """Return a signal of that bus."""
        return Mux(self.in_registers, getattr(self.axil, name), getattr(self.bus, name))
