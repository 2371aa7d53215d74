"""A controller for SDR SDRAM behind an AXI4 port."""

from itertools import pairwise

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.memory.sdram import CHIP, Chip, Command
from ..stream.passing import passed_on
from ..stream.queue import Queue
from .axi import AXI4

#: words on their way from the chip to the manager
_WORDS = 16
#: refreshes at power-up
_FIRST_REFRESHES = 8


class SdramPins(wiring.Signature):
    """The chip's pins but clock (the domain's, inverted or shifted as the board needs) and the supplies; `dq_oe` drives `dq_o` out."""

    def __init__(self, chip: Chip = CHIP):
        super().__init__(
            {
                "cke": Out(1),
                "cs_n": Out(1),
                "ras_n": Out(1),
                "cas_n": Out(1),
                "we_n": Out(1),
                "ba": Out(chip.bank_bits),
                "a": Out(chip.row_bits),
                "dqm": Out(chip.width // 8),
                "dq_o": Out(chip.width),
                "dq_oe": Out(1),
                "dq_i": In(chip.width),
            }
        )


class _Returns(wiring.Component):
    """What comes back: a READ decided in cycle t (`asks`) is on the pins in t + 1, its data in t + 1 + latency."""

    def __init__(self, chip, latency, count):
        self.latency = latency
        #: columns of a word
        self.count = count
        self.mark_layout = data.StructLayout({"edge": 1, "last": 1, "outside": 1})
        bits = chip.width * count
        super().__init__(
            {
                "asks": In(1),  # a column is read
                # of the column: `edge`: its word's last one; `last`: the word is its burst's last; `outside`: it lies beyond the chip
                "mark": In(self.mark_layout),
                "dq": In(chip.width),
                "o": Out(
                    stream.Signature(data.StructLayout({"data": bits, "mark": self.mark_layout}))
                ),
                "room": Out(1),  # for another word
                "idle": Out(1),  # no column is on its way
                "gathered": Out(bits),  # the columns that came last
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = Queue(self.o.payload.shape(), _WORDS)
        owed = Signal(range(_WORDS + 1))  # words asked for and not taken by the manager
        way = Signal(self.latency + 1)
        marks = [Signal(self.mark_layout, name=f"mark{k}") for k in range(self.latency + 1)]
        arrived = Cat(self.gathered, self.dq)[len(self.dq) :]
        m.d.sync += [
            way.eq(Cat(self.asks, way)),
            *(later.eq(earlier) for earlier, later in pairwise([self.mark, *marks])),
            owed.eq(owed + (self.asks & self.mark.edge) - (self.o.valid & self.o.ready)),
        ]
        m.d.comb += [
            words.i.valid.eq(way[-1] & marks[-1].edge),
            words.i.p.data.eq(arrived),
            words.i.p.mark.eq(marks[-1]),
            *passed_on(words.o, self.o),
            self.room.eq(owed != _WORDS),
            self.idle.eq(way == 0),
        ]
        with m.If(way[-1]):
            m.d.sync += self.gathered.eq(arrived)
        return m


class SdramController(wiring.Component):
    """SDR SDRAM of 16 or 32 bits as AXI4 memory: INCR bursts of full words that do not cross 4 KiB, byte strobes obeyed.

    A burst opens a row, passes a column a cycle, and closes the row at its end, at the row's end, or between two words when a refresh is due.
    Reads and writes take turns. Where nobody drives the chip's masks, a word with strobes is read, and written whole.
    All pins are registers. A word beyond the chip's size is answered with SLVERR and changes nothing. Bursts wait for
    the chip's power-up time after a reset.

    * `port`: AXI4 signature, reads and writes; words of two columns or more.
    * `clock_hz`: of the domain; sets the cycles of the chip's rules (`models.memory.sdram.Chip.cycles`).
    * `chip`: what is there.
    """

    def __init__(self, port: AXI4, *, clock_hz: int, chip: Chip = CHIP):
        self.port, self.chip = port, chip
        self.cycles = cycles = chip.cycles(clock_hz)
        self.count = port.data_bytes * 8 // chip.width  # columns of a word
        super().__init__({"bus": In(port), "pins": Out(SdramPins(chip))})
        self.returns = _Returns(chip, cycles.latency, self.count)
        self.command = Signal(3, init=Command.NOP)
        # one burst at a time: the next column, words that are left
        self.at = Signal(
            data.StructLayout(
                {"column": chip.column_bits, "bank": chip.bank_bits, "row": chip.row_bits}
            )
        )
        self.left = Signal(9)
        self.outside = Signal()  # it lies beyond the chip
        self.writing = Signal()
        self.merged = Signal()  # what is not written of a word is there
        # cycles until something is allowed: a command, PRECHARGE, ACTIVATE, PRECHARGE behind a WRITE
        self.wait = Signal(range(cycles.power_up + 1), init=cycles.power_up)
        self.ras = Signal(range(cycles.ras + 1))
        self.rc = Signal(range(cycles.rc + 1))
        self.recover = Signal(range(cycles.wr + 1))
        self.refreshes = Signal()  # REFRESH is given
        self.due = Signal()  # it is to be

    @property
    def sub(self):
        """The next column within its word."""
        return self.at.column[: (self.count - 1).bit_length()]

    def elaborate(self, platform):
        m = Module()
        m.submodules.returns = returns = self.returns
        m.d.comb += Cat(self.pins.we_n, self.pins.cas_n, self.pins.ras_n).eq(self.command)
        m.d.sync += [
            self.pins.cke.eq(1),
            self.pins.cs_n.eq(0),
            self.command.eq(Command.NOP),
            self.pins.dq_oe.eq(0),
            self.pins.dqm.eq(0),
            self.pins.ba.eq(self.at.bank),
        ]
        for timer in (self.wait, self.ras, self.rc, self.recover):
            with m.If(timer != 0):
                m.d.sync += timer.eq(timer - 1)
        self._refresh(m)
        m.d.comb += [
            returns.dq.eq(self.pins.dq_i),
            self.bus.rvalid.eq(returns.o.valid),
            returns.o.ready.eq(self.bus.rready),
            self.bus.rdata.eq(returns.o.p.data),
            self.bus.rlast.eq(returns.o.p.mark.last),
            self.bus.rresp[1].eq(returns.o.p.mark.outside),
        ]
        # answers to writes
        with m.If(self.bus.bvalid & self.bus.bready):
            m.d.sync += self.bus.bvalid.eq(0)
        with m.FSM(name="sdram"):
            self._set_up(m)
            self._work(m)
        return m

    def _refresh(self, m):
        """When a refresh is due; it comes early by what a word and the row's closing may take."""
        cycles = self.cycles
        margin = self.count + cycles.ras + cycles.rc + cycles.wr + cycles.rp + 8
        if not self.chip.masks:
            margin += self.count + cycles.latency + 4
        period = cycles.interval - margin
        if period < 2 * cycles.rfc:
            raise ValueError("the clock is too slow for the chip's refreshes")
        clock = Signal(range(period))
        with m.If(self.refreshes):
            m.d.sync += [clock.eq(0), self.due.eq(0)]
        with m.Elif(clock == period - 1):
            m.d.sync += [clock.eq(0), self.due.eq(1)]
        with m.Else():
            m.d.sync += clock.eq(clock + 1)

    def _set_up(self, m):
        """Power-up and the mode register."""
        first = Signal(range(_FIRST_REFRESHES + 1), init=_FIRST_REFRESHES)
        with m.State("POWER"):
            with m.If(self.wait == 0):
                m.d.sync += [
                    self.command.eq(Command.PRECHARGE),
                    self.pins.a.eq(1 << 10),
                    self.wait.eq(self.cycles.rp - 1),
                ]
                m.next = "SETUP"
        with m.State("SETUP"):
            with m.If((self.wait == 0) & (first != 0)):
                m.d.sync += [
                    self.command.eq(Command.REFRESH),
                    self.wait.eq(self.cycles.rfc - 1),
                    first.eq(first - 1),
                ]
                m.d.comb += self.refreshes.eq(1)
            with m.Elif(self.wait == 0):
                m.d.sync += [
                    self.command.eq(Command.MODE),
                    self.pins.a.eq(self.cycles.latency << 4),
                    self.pins.ba.eq(0),
                    self.wait.eq(self.cycles.mrd - 1),
                ]
                m.next = "REST"

    def _work(self, m):
        """Bursts and refreshes."""
        with m.State("REST"):
            with m.If(self.wait != 0):
                pass
            with m.Elif(self.due):
                m.d.sync += [
                    self.command.eq(Command.REFRESH),
                    self.wait.eq(self.cycles.rfc - 1),
                ]
                m.d.comb += self.refreshes.eq(1)
            with m.Elif(self.left != 0):  # what a refresh or a row's end cut off
                m.next = "OPEN"
            with m.Elif(self.bus.awvalid & ~self.bus.bvalid & ~(self.bus.arvalid & self.writing)):
                self._take(m, "aw")
            with m.Elif(self.bus.arvalid):
                self._take(m, "ar")
        with m.State("OPEN"):
            with m.If(self.rc == 0):
                m.d.sync += [
                    self.command.eq(Command.ACTIVATE),
                    self.pins.a.eq(self.at.row),
                    self.wait.eq(self.cycles.rcd - 1),
                    self.ras.eq(self.cycles.ras - 1),
                    self.rc.eq(self.cycles.rc - 1),
                ]
                m.next = "PASS"
        with m.State("PASS"):
            self._pass(m)
        if not self.chip.masks:
            with m.State("FETCH"):
                self._fetch(m)
        with m.State("CLOSE"):
            self._close(m)

    def _take(self, m, channel):
        """A burst from an address channel."""
        address, length = getattr(self.bus, f"{channel}addr"), getattr(self.bus, f"{channel}len")
        m.d.comb += getattr(self.bus, f"{channel}ready").eq(1)
        m.d.sync += [
            self.at.eq(address >> (self.chip.width // 8).bit_length() - 1),
            self.left.eq(length + 1),
            self.outside.eq(address >= self.chip.bytes),
            self.writing.eq(channel == "aw"),
        ]
        m.next = "OPEN"

    def _pass(self, m):
        """A column a cycle, while data or room are there."""
        step, width = Signal(), self.chip.width
        edge = Signal()  # the word's last column
        m.d.comb += edge.eq(self.sub == self.count - 1)
        strobes = self.bus.wstrb
        full = Const(1) if self.chip.masks else strobes.all() | self.merged | self.outside
        with m.If((self.wait == 0) & (self.sub == 0) & self.due):
            m.next = "CLOSE"
        with m.Elif((self.wait == 0) & self.writing):
            m.d.comb += [step.eq(self.bus.wvalid & full), self.bus.wready.eq(edge & full)]
            if not self.chip.masks:
                with m.If(self.bus.wvalid & ~full):
                    m.next = "FETCH"
        with m.Elif(self.wait == 0):
            m.d.comb += [
                step.eq(self.returns.room | (self.sub != 0)),
                self.returns.asks.eq(step),
                self.returns.mark.eq(Cat(edge, edge & (self.left == 1), self.outside)),
            ]
        content = self.bus.wdata
        if not self.chip.masks:
            byte = lambda word, k: word.word_select(k, 8)
            content = Cat(
                Mux(strobe, byte(content, k), byte(self.returns.gathered, k))
                for k, strobe in enumerate(strobes)
            )
        write = Mux(self.outside, Command.NOP, Command.WRITE)
        with m.If(step):
            m.d.sync += [
                self.command.eq(Mux(self.writing, write, Command.READ)),
                self.pins.a.eq(self.at.column),
                self.at.eq(self.at.as_value() + 1),
                self.left.eq(self.left - edge),
                self.pins.dq_oe.eq(self.writing & ~self.outside),
                self.pins.dq_o.eq(content.word_select(self.sub, width)),
                self.recover.eq(Mux(self.writing, self.cycles.wr, 0)),
            ]
            if self.chip.masks:
                masked = ~strobes.word_select(self.sub, width // 8)
                m.d.sync += self.pins.dqm.eq(Mux(self.writing, masked, 0))
            ends = (self.left == 1) | (self.at.column == (1 << self.chip.column_bits) - 1)
            with m.If(edge):
                m.d.sync += self.merged.eq(0)
                with m.If(ends):
                    m.next = "CLOSE"

    def _fetch(self, m):
        """Read the word that is written in part: its columns come last into `gathered`, and into no word of the manager's."""
        which = Signal(range(self.count + 1))
        with m.If(which != self.count):
            m.d.comb += self.returns.asks.eq(1)
            m.d.sync += [
                self.command.eq(Command.READ),
                self.pins.a.eq(self.at.column | which),
                which.eq(which + 1),
            ]
        with m.Elif(self.returns.idle):
            m.d.sync += [which.eq(0), self.merged.eq(1)]
            m.next = "PASS"

    def _close(self, m):
        """The row, and a write that is through."""
        # all banks: the address may be in the next one already
        with m.If((self.ras == 0) & (self.recover == 0)):
            m.d.sync += [
                self.command.eq(Command.PRECHARGE),
                self.pins.a.eq(1 << 10),
                self.wait.eq(self.cycles.rp - 1),
            ]
            m.next = "REST"
            with m.If(self.writing & (self.left == 0)):
                m.d.sync += [
                    self.bus.bvalid.eq(1),
                    self.bus.bresp.eq(Cat(Const(0, 1), self.outside)),
                ]
