"""A controller for SDR SDRAM behind an AXI4 port."""

from itertools import pairwise

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...models.memory.sdram import CHIP, Chip, Command
from ..stream.queue import Queue
from .axi import AXI4

__all__ = ["SdramController", "SdramPins"]

#: words on their way from the chip to the manager
_WORDS = 16
#: refreshes at power-up
_FIRST_REFRESHES = 8


class SdramPins(wiring.Signature):
    """The chip's pins but clock (the domain's, inverted or shifted as the board needs) and the supplies; `dq_oe` drives `dq_o` out."""

    def __init__(self, chip: Chip = CHIP):
        super().__init__({
            "cke": Out(1), "cs_n": Out(1), "ras_n": Out(1), "cas_n": Out(1), "we_n": Out(1), "ba": Out(chip.bank_bits), "a": Out(chip.row_bits),
            "dqm": Out(2), "dq_o": Out(16), "dq_oe": Out(1), "dq_i": In(16)})


class SdramController(wiring.Component):
    """16-bit SDR SDRAM as AXI4 memory: INCR bursts of full words that do not cross 4 KiB, byte strobes obeyed.

    A burst opens a row, passes a column a cycle (2 bytes), and closes the row at its end, at the row's end, or between two words when a refresh is due.
    Reads and writes take turns. All pins are registers. A word beyond the chip's size is answered with SLVERR and changes nothing. Bursts wait for
    the chip's power-up time after a reset.

    Parameters
    ----------
    port
        AXI4 signature, reads and writes.
    clock_hz
        Of the domain; sets the cycles of the chip's rules (`models.memory.sdram.Chip.cycles`).
    chip
        What is there.

    Members
    -------
    bus : In(port)
    pins : Out(SdramPins(chip))
    """

    def __init__(self, port: AXI4, *, clock_hz: int, chip: Chip = CHIP, src_loc_at=0):
        self.port = port
        self.chip = chip
        self.cycles = chip.cycles(clock_hz)
        super().__init__({"bus": In(port), "pins": Out(SdramPins(chip))}, src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        m = Module()
        bus, pins, chip, cycles = self.bus, self.pins, self.chip, self.cycles
        count = self.port.data_bytes // 2                    # columns of a word
        bits = (count - 1).bit_length()

        # one burst at a time; the address is that of a column
        address = Signal(chip.column_bits + chip.bank_bits + chip.row_bits)
        left = Signal(9)                                     # words
        outside = Signal()
        writing = Signal()
        sub = address[:bits]
        column, bank, row = address[:chip.column_bits], address[chip.column_bits:][:chip.bank_bits], address[chip.column_bits + chip.bank_bits:]
        edge = Signal()                                      # the word's last column
        m.d.comb += edge.eq(sub == count - 1)

        # timers: cycles until something is allowed
        wait = Signal(range(cycles.power_up + 1), init=cycles.power_up)
        ras = Signal(range(cycles.ras + 1))
        rc = Signal(range(cycles.rc + 1))
        recover = Signal(range(cycles.wr + 1))
        for timer in (wait, ras, rc, recover):
            with m.If(timer != 0):
                m.d.sync += timer.eq(timer - 1)
        # refreshes come early by what a word and the row's closing may take
        margin = count + cycles.ras + cycles.rc + cycles.wr + cycles.rp + 8
        period = cycles.interval - margin
        if period < 2 * cycles.rfc:
            raise ValueError("the clock is too slow for the chip's refreshes")
        clock = Signal(range(period))
        due = Signal()
        first = Signal(range(_FIRST_REFRESHES + 1), init=_FIRST_REFRESHES)
        m.d.sync += clock.eq(Mux(clock == period - 1, 0, clock + 1))
        with m.If(clock == period - 1):
            m.d.sync += due.eq(1)

        command = Signal(3, init=Command.NOP)
        m.d.comb += Cat(pins.we_n, pins.cas_n, pins.ras_n).eq(command)
        m.d.sync += [pins.cke.eq(1), pins.cs_n.eq(0), command.eq(Command.NOP), pins.dq_oe.eq(0), pins.dqm.eq(0), pins.ba.eq(bank)]

        # what comes back: a READ decided in cycle t is on the pins in t + 1, its data in t + 1 + latency
        m.submodules.words = words = Queue(data.StructLayout({"data": 8 * self.port.data_bytes, "outside": 1, "last": 1}), _WORDS)
        owed = Signal(range(_WORDS + 1))                     # words asked for and not taken by the manager
        asked = Signal()
        taken = Signal()
        way = Signal(cycles.latency + 1)
        marks = [Signal(3, name=f"mark{k}") for k in range(cycles.latency + 1)]
        mark = Signal(3)                                     # word's last column, burst's last word, outside
        gather = Signal(16 * (count - 1))
        m.d.sync += [way.eq(Cat(asked, way)), marks[0].eq(mark), *(b.eq(a) for a, b in pairwise(marks)),
                     owed.eq(owed + (asked & mark[0]) - taken)]
        m.d.comb += [
            words.i.valid.eq(way[-1] & marks[-1][0]), words.i.p.data.eq(Cat(gather, pins.dq_i)), words.i.p.last.eq(marks[-1][1]),
            words.i.p.outside.eq(marks[-1][2]),
            bus.rvalid.eq(words.o.valid), words.o.ready.eq(bus.rready), bus.rdata.eq(words.o.p.data), bus.rlast.eq(words.o.p.last),
            bus.rresp[1].eq(words.o.p.outside), taken.eq(bus.rvalid & bus.rready)]
        with m.If(way[-1]):
            m.d.sync += gather.eq(Cat(gather, pins.dq_i)[16:])

        # answers to writes
        with m.If(bus.bvalid & bus.bready):
            m.d.sync += bus.bvalid.eq(0)

        room = Signal()
        m.d.comb += room.eq(owed != _WORDS)
        with m.FSM(name="sdram"):
            with m.State("POWER"):
                with m.If(wait == 0):
                    m.d.sync += [command.eq(Command.PRECHARGE), pins.a.eq(1 << 10), wait.eq(cycles.rp - 1)]
                    m.next = "SETUP"
            with m.State("SETUP"):
                with m.If((wait == 0) & (first != 0)):
                    m.d.sync += [command.eq(Command.REFRESH), wait.eq(cycles.rfc - 1), first.eq(first - 1), clock.eq(0), due.eq(0)]
                with m.Elif(wait == 0):
                    m.d.sync += [command.eq(Command.MODE), pins.a.eq(cycles.latency << 4), pins.ba.eq(0), wait.eq(cycles.mrd - 1)]
                    m.next = "REST"
            with m.State("REST"):
                with m.If(wait != 0):
                    pass
                with m.Elif(due):
                    m.d.sync += [command.eq(Command.REFRESH), wait.eq(cycles.rfc - 1), due.eq(0), clock.eq(0)]
                with m.Elif(left != 0):                      # what a refresh or a row's end cut off
                    m.next = "OPEN"
                with m.Elif(bus.awvalid & ~bus.bvalid & ~(bus.arvalid & writing)):
                    m.d.comb += bus.awready.eq(1)
                    m.d.sync += [address.eq(bus.awaddr >> 1), left.eq(bus.awlen + 1), outside.eq(bus.awaddr >= chip.bytes), writing.eq(1)]
                    m.next = "OPEN"
                with m.Elif(bus.arvalid):
                    m.d.comb += bus.arready.eq(1)
                    m.d.sync += [address.eq(bus.araddr >> 1), left.eq(bus.arlen + 1), outside.eq(bus.araddr >= chip.bytes), writing.eq(0)]
                    m.next = "OPEN"
            with m.State("OPEN"):
                with m.If(rc == 0):
                    m.d.sync += [command.eq(Command.ACTIVATE), pins.a.eq(row), wait.eq(cycles.rcd - 1), ras.eq(cycles.ras - 1), rc.eq(cycles.rc - 1)]
                    m.next = "PASS"
            with m.State("PASS"):
                step = Signal()
                with m.If((wait == 0) & (sub == 0) & due):
                    m.next = "CLOSE"
                with m.Elif((wait == 0) & writing):
                    m.d.comb += [step.eq(bus.wvalid), bus.wready.eq(edge)]
                with m.Elif(wait == 0):
                    m.d.comb += [step.eq(room | (sub != 0)), asked.eq(step), mark.eq(Cat(edge, edge & (left == 1), outside))]
                with m.If(step):
                    m.d.sync += [
                        command.eq(Mux(writing, Command.WRITE, Command.READ)), pins.a.eq(column), address.eq(address + 1), left.eq(left - edge),
                        pins.dq_oe.eq(writing), pins.dq_o.eq(bus.wdata.word_select(sub, 16)),
                        pins.dqm.eq(Mux(writing, ~bus.wstrb.word_select(sub, 2) | outside.replicate(2), 0)), recover.eq(Mux(writing, cycles.wr, 0))]
                    with m.If(edge & ((left == 1) | (column == (1 << chip.column_bits) - 1))):
                        m.next = "CLOSE"
            with m.State("CLOSE"):
                with m.If((ras == 0) & (recover == 0)):      # all banks: the address may be in the next one already
                    m.d.sync += [command.eq(Command.PRECHARGE), pins.a.eq(1 << 10), wait.eq(cycles.rp - 1)]
                    m.next = "REST"
                    with m.If(writing & (left == 0)):
                        m.d.sync += [bus.bvalid.eq(1), bus.bresp.eq(Cat(Const(0, 1), outside))]
        return m
