"""From requests to the buses, and back to responses. Twin of `models.link.device`."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.link.device import Identity
from ...models.link.frames import HEADER, NACK, RESPONSE, Space, Status
from ..memory.axi import AXI4, AXI4Lite

__all__ = ["Bridge"]

#: bytes of an address, the last of a header
_ADDRESS = 4


class Bridge(wiring.Component):
    """Does what requests ask, one bus word at a time, and answers each.

    Parameters
    ----------
    identity
        What the identity space reads.
    registers
        AXI4Lite signature of the control port.
    memory
        AXI4 signature of the memory port: single beats, identifier 0.

    Members
    -------
    i : In(stream.Signature(8))
        Requests as `Deframer` gives them.
    dropped : In(1)
        From `Deframer`: answered by a nack when the request under way is.
    o : Out(stream.Signature({data: 8, last: 1}))
        Bodies of responses, without CRC.
    axil : Out(AXI4Lite)
    bus : Out(AXI4)
    """

    def __init__(self, identity: Identity, *, registers: AXI4Lite, memory: AXI4, src_loc_at=0):
        self.identity = identity
        self.registers = registers
        self.memory = memory
        super().__init__({
            "i": In(stream.Signature(8)), "dropped": In(1), "o": Out(stream.Signature(data.StructLayout({"data": 8, "last": 1}))),
            "axil": Out(registers), "bus": Out(memory)}, src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        m = Module()
        axil, bus, count = self.axil, self.bus, self.memory.data_bytes
        lanes = (count - 1).bit_length()

        # an address has the bits that the memory's has, but for its highest: that stands for all bits above, and stays once it is set
        sequence, kind, left, far = Signal(8), Signal(8), Signal(8), Signal()
        address = Signal(min(8 * _ADDRESS, self.memory.address_width - 1))
        writes, space = kind[0], kind[1:]
        in_registers, in_memory, in_identity = space == Space.REGISTERS, space == Space.MEMORY, space == Space.IDENTITY
        status = Signal(2)
        word = Signal(8 * count)                             # to be written
        found = Signal(8)                                    # the byte that was read
        strobes = Signal(count)
        refused = Signal()                                   # a nack is owed
        done_once = Signal()                                 # there was a write to the registers,
        done_sequence = Signal(8)                            # with this sequence
        done_status = Signal(2)                              # and this end
        again = Signal()
        position = Signal(range(HEADER))
        lane = Signal(range(max(count, 4)))
        edge = Signal()                                      # the lane is the word's last
        m.d.comb += [lane.eq(Mux(in_registers, address[:2], address[:lanes])), edge.eq(lane == Mux(in_registers, 3, count - 1)),
                     again.eq(in_registers & done_once & (done_sequence == sequence))]
        with m.If(self.dropped):
            m.d.sync += refused.eq(1)

        # both buses see the same word; only one is asked
        place, there = Cat(Const(0, 2), address[2:]), Cat(Const(0, lanes), address[lanes:], far)
        m.d.comb += [
            axil.awaddr.eq(place), axil.araddr.eq(place), axil.wdata.eq(word[:32]), axil.wstrb.eq(strobes[:4]),
            bus.awaddr.eq(there), bus.araddr.eq(there), bus.wdata.eq(word), bus.wstrb.eq(strobes), bus.wlast.eq(1),
            bus.awsize.eq(lanes), bus.arsize.eq(lanes), bus.awburst.eq(1), bus.arburst.eq(1)]

        def ask(channel):
            """Offer on one channel of the bus that the space means; return whether it is taken."""
            m.d.comb += [getattr(axil, f"{channel}valid").eq(in_registers), getattr(bus, f"{channel}valid").eq(in_memory)]
            return Mux(in_registers, getattr(axil, f"{channel}ready"), getattr(bus, f"{channel}ready"))

        def answer(channel, taken):
            """Return whether the answer on a channel is there, and the response; it is taken when `taken`."""
            m.d.comb += [getattr(axil, f"{channel}ready").eq(in_registers & taken), getattr(bus, f"{channel}ready").eq(in_memory & taken)]
            valid = Mux(in_registers, getattr(axil, f"{channel}valid"), getattr(bus, f"{channel}valid"))
            return valid, Mux(in_registers, getattr(axil, f"{channel}resp"), getattr(bus, f"{channel}resp"))

        after = Signal(len(address) + 1)
        m.d.comb += after.eq(address + 1)
        step = [address.eq(after), far.eq(far | after[-1]), left.eq(left - 1)]
        with m.FSM(name="bridge"):
            with m.State("REST"):
                m.d.sync += [position.eq(0), status.eq(0), strobes.eq(0), far.eq(0)]
                with m.If(self.i.valid):
                    m.next = "HEADER"
                with m.Elif(refused):
                    m.d.sync += [refused.eq(self.dropped), sequence.eq(0), kind.eq(NACK), left.eq(0), status.eq(Status.DROPPED)]
                    m.next = "SEQUENCE"
            with m.State("HEADER"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += position.eq(position + 1)
                    with m.Switch(position):
                        for at, part in enumerate((sequence, kind, left)):
                            with m.Case(at):
                                m.d.sync += part.eq(self.i.payload)
                        for at in range(_ADDRESS):
                            with m.Case(HEADER - _ADDRESS + at):
                                m.d.sync += [address[8 * at:8 * at + 8].eq(self.i.payload),
                                             far.eq(far | self.i.payload[min(max(len(address) - 8 * at, 0), 8):].any())]
                    with m.If(position == HEADER - 1):
                        m.next = "BEGIN"
            with m.State("BEGIN"):
                with m.If(in_identity):
                    m.d.sync += done_once.eq(0)
                with m.If((in_identity & writes) | ~(in_identity | in_registers | in_memory)):
                    m.d.sync += status.eq(Status.DECERR)
                with m.If(writes):
                    m.next = "WRITE"
                with m.Else():
                    m.next = "SEQUENCE"

            with m.State("WRITE"):                           # gather a word's bytes
                with m.If(left == 0):
                    m.next = "WRITTEN"
                with m.Else():
                    m.d.comb += self.i.ready.eq(1)
                    with m.If(self.i.valid):
                        m.d.sync += [word.word_select(lane, 8).eq(self.i.payload), strobes.bit_select(lane, 1).eq(1)]
                        with m.If((edge | (left == 1)) & (in_registers | in_memory) & ~again):
                            m.next = "WRITE_ADDRESS"
                        with m.Else():
                            m.d.sync += step
            with m.State("WRITE_ADDRESS"):
                with m.If(ask("aw")):
                    m.next = "WRITE_DATA"
            with m.State("WRITE_DATA"):
                with m.If(ask("w")):
                    m.next = "WRITE_ANSWER"
            with m.State("WRITE_ANSWER"):
                valid, response = answer("b", 1)
                with m.If(valid):
                    m.d.sync += [status.eq(status | response), strobes.eq(0), *step]
                    m.next = "WRITE"
            with m.State("WRITTEN"):
                with m.If(again):
                    m.d.sync += status.eq(done_status)
                with m.Elif(in_registers):
                    m.d.sync += [done_once.eq(1), done_sequence.eq(sequence), done_status.eq(status)]
                m.next = "SEQUENCE"

            with m.State("SEQUENCE"):
                m.d.comb += [self.o.valid.eq(1), self.o.p.data.eq(sequence)]
                with m.If(self.o.ready):
                    m.next = "KIND"
            with m.State("KIND"):
                m.d.comb += [self.o.valid.eq(1), self.o.p.data.eq(kind | RESPONSE)]
                with m.If(self.o.ready):
                    m.next = "LENGTH"
            with m.State("LENGTH"):
                m.d.comb += [self.o.valid.eq(1), self.o.p.data.eq(left)]
                with m.If(self.o.ready):
                    m.next = "READ"
            with m.State("READ"):                            # bytes that nothing is asked for
                with m.If(left == 0):
                    m.next = "STATUS"
                with m.Elif(in_registers | in_memory):
                    m.next = "READ_ADDRESS"
                with m.Else():
                    m.d.comb += self.o.valid.eq(1)
                    with m.If(in_identity):
                        rom = Array(Const(byte, 8) for byte in self.identity.encode())
                        m.d.comb += self.o.p.data.eq(rom[address[:4]])
                    with m.If(self.o.ready):
                        m.d.sync += step
            with m.State("READ_ADDRESS"):
                with m.If(ask("ar")):
                    m.next = "READ_ANSWER"
            with m.State("READ_ANSWER"):                     # the bus holds its word until the last of its bytes is sent
                valid, response = answer("r", 0)
                m.d.sync += found.eq(0)
                with m.If(~response[1]):
                    m.d.sync += found.eq(Mux(in_registers, axil.rdata.word_select(address[:2], 8), bus.rdata.word_select(address[:lanes], 8)))
                with m.If(valid):
                    m.d.sync += status.eq(status | response)
                    m.next = "READ_BYTE"
            with m.State("READ_BYTE"):                       # from a register: the way from a memory's data is long
                m.d.comb += [self.o.valid.eq(1), self.o.p.data.eq(found)]
                with m.If(self.o.ready):
                    m.d.sync += step
                    m.next = "READ_ANSWER"
                    with m.If(edge | (left == 1)):
                        m.next = "READ_TAKEN"
            with m.State("READ_TAKEN"):
                answer("r", 1)
                m.next = "READ"
            with m.State("STATUS"):
                m.d.comb += [self.o.valid.eq(1), self.o.p.data.eq(status), self.o.p.last.eq(1)]
                with m.If(self.o.ready):
                    m.next = "REST"
        return m
