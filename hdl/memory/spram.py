"""Single-port RAM of the iCE40 UltraPlus on AXI4."""

from amaranth.hdl import ClockSignal, Const, Instance, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ...models.memory.blockram import SPRAM_WORDS
from .axi import AXI4


class SpramCell(wiring.Component):
    """One SB_SPRAM256KA: 16384 words of 16 bits, read or written in a cycle, never both (Lattice FPGA-TN-02022).

    On a part that has it this is the primitive, elsewhere a memory that behaves like it; what `read` shows after a write is nothing to rely on.
    """

    def __init__(self):
        super().__init__(
            {
                "select": In(1),
                "write": In(1),
                "address": In(range(SPRAM_WORDS)),
                "data": In(16),
                "strobes": In(2),  # of bytes
                "read": Out(16),  # the word that was read in the cycle before
            }
        )

    def elaborate(self, platform):
        m = Module()
        if getattr(platform, "device", "").startswith("iCE40UP"):
            m.submodules.ram = Instance(
                "SB_SPRAM256KA",
                i_CLOCK=ClockSignal(),
                i_CHIPSELECT=self.select,
                i_WREN=self.write,
                i_ADDRESS=self.address,
                i_DATAIN=self.data,
                i_MASKWREN=self.strobes[0].replicate(2) | (self.strobes[1].replicate(2) << 2),
                i_STANDBY=Const(0),
                i_SLEEP=Const(0),
                i_POWEROFF=Const(1),
                o_DATAOUT=self.read,
            )
            return m
        m.submodules.words = words = memory.Memory(shape=16, depth=SPRAM_WORDS, init=[])
        read, write = words.read_port(), words.write_port(granularity=8)
        spoilt = Signal()
        m.d.comb += [
            read.addr.eq(self.address),
            read.en.eq(self.select & ~self.write),
            write.addr.eq(self.address),
            write.data.eq(self.data),
            write.en.eq(Mux(self.select & self.write, self.strobes, 0)),
            self.read.eq(Mux(spoilt, 0x5A5A, read.data)),
        ]
        with m.If(self.select):
            m.d.sync += spoilt.eq(self.write)
        return m


class Spram(wiring.Component):
    """`size` bytes of single-port RAM behind an AXI4 port: INCR bursts of full words that do not cross 4 KiB, byte strobes obeyed.

    Timing: `models.memory.spram`, under the conditions of `BlockRam`, as long as reads and writes do not meet: a cycle belongs to one of them, to the
    write where both could go. There are no queues: AR and AW wait until the burst before is through, which never delays data. A burst that begins
    beyond the end is answered with SLVERR and changes nothing. A manager must take what it asked to read without waiting for its own writes.

    * `port`: AXI4 signature, reads and writes.
    * `size`: bytes, 16384 bus words, or a power of two times that.
    """

    def __init__(self, port: AXI4, size: int):
        bank = SPRAM_WORDS * port.data_bytes
        if size not in (bank << k for k in range(4)):
            raise ValueError(
                f"a memory of {port.data_bytes}-byte words has {bank} bytes or a power of two times that, not {size!r}"
            )
        if not port.read or not port.write:
            raise ValueError("a memory's port must read and write")
        self.port = port
        self.size = size
        super().__init__({"bus": In(port)})

    def elaborate(self, platform):
        m = Module()
        self.shift = (self.port.data_bytes - 1).bit_length()
        self.words = self.size // self.port.data_bytes

        self._reads(m)
        self._writes(m)

        self._cells(m)
        return m

    def _reads(self, m):
        """A beat's address is given a cycle before its data."""
        # the next beat, and how many come after it
        self.place, left = Signal(range(self.words)), Signal(8)
        asking = Signal()
        beyond = Signal()
        self.reading = Signal()
        self.writing = Signal()
        m.d.comb += [
            self.reading.eq(asking & ~self.writing & (~self.bus.rvalid | self.bus.rready)),
            self.bus.arready.eq(~asking | (self.reading & (left == 0))),
        ]
        with m.If(self.bus.rready):
            m.d.sync += self.bus.rvalid.eq(0)
        with m.If(self.reading):
            m.d.sync += [
                self.bus.rvalid.eq(1),
                self.bus.rlast.eq(left == 0),
                self.bus.rresp[1].eq(beyond),
                self.place.eq(self.place + 1),
                left.eq(left - 1),
            ]
        with m.If(self.bus.arready):
            m.d.sync += [
                asking.eq(self.bus.arvalid),
                self.place.eq(self.bus.araddr >> self.shift),
                left.eq(self.bus.arlen),
                beyond.eq(self.bus.araddr >= self.size),
            ]

    def _writes(self, m):
        """One burst at a time."""
        self.target = Signal(range(self.words))
        opened = Signal()
        self.outside = Signal()
        late = Signal()
        late_outside = Signal()
        held = Signal()
        m.d.comb += [
            held.eq(self.bus.bvalid & ~self.bus.bready),
            self.bus.wready.eq(opened & ~held & ~(self.bus.rvalid & ~self.bus.rready)),
            self.writing.eq(self.bus.wvalid & self.bus.wready),
            self.bus.awready.eq(~opened | (self.writing & self.bus.wlast)),
        ]
        with m.If(self.writing):
            m.d.sync += self.target.eq(self.target + 1)
        with m.If(self.bus.awready):
            m.d.sync += [
                opened.eq(self.bus.awvalid),
                self.target.eq(self.bus.awaddr >> self.shift),
                self.outside.eq(self.bus.awaddr >= self.size),
            ]
        with m.If(~held):
            m.d.sync += [
                late.eq(self.writing & self.bus.wlast),
                late_outside.eq(self.outside),
                self.bus.bvalid.eq(late),
                self.bus.bresp[1].eq(late_outside),
            ]

    def _cells(self, m):
        """The cells, chosen by the upper bits of the address."""
        address = Signal(range(self.words))
        m.d.comb += address.eq(Mux(self.writing, self.target, self.place))
        chosen, shown = (
            Signal(range(max(self.words // SPRAM_WORDS, 2)), name=name)
            for name in ("chosen", "shown")
        )
        m.d.comb += chosen.eq(address[(SPRAM_WORDS - 1).bit_length() :])
        with m.If(self.reading):
            m.d.sync += shown.eq(chosen)
        for k in range(self.words // SPRAM_WORDS):
            for lane in range(self.port.data_bytes // 2):
                m.submodules[f"cell{k}_{lane}"] = cell = SpramCell()
                m.d.comb += [
                    cell.select.eq((self.reading | (self.writing & ~self.outside)) & (chosen == k)),
                    cell.write.eq(self.writing),
                    cell.address.eq(address),
                    cell.data.eq(self.bus.wdata.word_select(lane, 16)),
                    cell.strobes.eq(self.bus.wstrb.word_select(lane, 2)),
                ]
                with m.If(shown == k):
                    m.d.comb += self.bus.rdata.word_select(lane, 16).eq(cell.read)
