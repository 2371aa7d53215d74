"""From requests to the buses, and back to responses. Twin of `models.link.device`."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.link.device import Identity
from ...models.link.frames import HEADER, NACK, RESPONSE, Space, Status
from ..memory.axi import AXI4, AXI4Lite

__all__ = ["Bridge"]


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

        header = Signal(8 * HEADER)
        sequence, kind, left, address = header[:8], header[8:16], header[16:24], header[24:]
        writes, space = kind[0], kind[1:]
        in_registers, in_memory, in_identity = space == Space.REGISTERS, space == Space.MEMORY, space == Space.IDENTITY
        status = Signal(2)
        word = Signal(8 * count)
        strobes = Signal(count)
        fetched = Signal()                                   # `word` holds what a read asks for
        failed = Signal()                                    # … but was answered with an error: its bytes read 0
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
        place = Signal(32)
        m.d.comb += [
            place.eq(Cat(Const(0, 2), Mux(in_registers, address[2:lanes], 0) if lanes > 2 else Const(0, 0), address[lanes:])),
            axil.awaddr.eq(place), axil.araddr.eq(place), axil.wdata.eq(word[:32]), axil.wstrb.eq(strobes[:4]),
            bus.awaddr.eq(address[lanes:] << lanes), bus.araddr.eq(address[lanes:] << lanes), bus.wdata.eq(word), bus.wstrb.eq(strobes), bus.wlast.eq(1),
            bus.awsize.eq(lanes), bus.arsize.eq(lanes), bus.awburst.eq(1), bus.arburst.eq(1)]

        def ask(channel):
            """Offer on one channel of the bus that the space means; return whether it is taken."""
            m.d.comb += [getattr(axil, f"{channel}valid").eq(in_registers), getattr(bus, f"{channel}valid").eq(in_memory)]
            return Mux(in_registers, getattr(axil, f"{channel}ready"), getattr(bus, f"{channel}ready"))

        def answer(channel):
            """Take the answer on a channel; return whether it is there, and the response."""
            m.d.comb += [getattr(axil, f"{channel}ready").eq(in_registers), getattr(bus, f"{channel}ready").eq(in_memory)]
            valid = Mux(in_registers, getattr(axil, f"{channel}valid"), getattr(bus, f"{channel}valid"))
            return valid, Mux(in_registers, getattr(axil, f"{channel}resp"), getattr(bus, f"{channel}resp"))

        step = [address.eq(address + 1), left.eq(left - 1)]
        with m.FSM(name="bridge"):
            with m.State("REST"):
                m.d.sync += [position.eq(0), status.eq(0), strobes.eq(0), fetched.eq(0), failed.eq(0)]
                with m.If(self.i.valid):
                    m.next = "HEADER"
                with m.Elif(refused):
                    m.d.sync += [refused.eq(self.dropped), sequence.eq(0), kind.eq(NACK), left.eq(0), status.eq(Status.DROPPED)]
                    m.next = "SEQUENCE"
            with m.State("HEADER"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += [header.eq(Cat(header[8:], self.i.payload)), position.eq(position + 1)]
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
                valid, response = answer("b")
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
            with m.State("READ"):                            # a word's bytes, after it was fetched
                with m.If(left == 0):
                    m.next = "STATUS"
                with m.Elif(fetched | ~(in_registers | in_memory)):
                    m.d.comb += self.o.valid.eq(1)
                    with m.If(in_identity):
                        rom = Array(Const(byte, 8) for byte in self.identity.encode())
                        m.d.comb += self.o.p.data.eq(rom[address[:4]])
                    with m.Elif(fetched & ~failed):
                        m.d.comb += self.o.p.data.eq(word.word_select(lane, 8))
                    with m.If(self.o.ready):
                        m.d.sync += step
                        with m.If(edge):
                            m.d.sync += fetched.eq(0)
                with m.Else():
                    m.next = "READ_ADDRESS"
            with m.State("READ_ADDRESS"):
                with m.If(ask("ar")):
                    m.next = "READ_ANSWER"
            with m.State("READ_ANSWER"):
                valid, response = answer("r")
                with m.If(valid):
                    m.d.sync += [word.eq(Mux(in_registers, axil.rdata, bus.rdata)), failed.eq(response[1]), status.eq(status | response), fetched.eq(1)]
                    m.next = "READ"
            with m.State("STATUS"):
                m.d.comb += [self.o.valid.eq(1), self.o.p.data.eq(status), self.o.p.last.eq(1)]
                with m.If(self.o.ready):
                    m.next = "REST"
        return m
