"""On-chip memory on AXI4."""

from itertools import pairwise

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In

from ...models.memory.blockram import LATENCY
from ..apart import APART
from ..stream.queue import Queue
from .axi import AXI4, Response

#: bursts that wait beside the one under way: enough that neither address channel ever delays data
_WAITING = 2
#: write bursts between their last beat and their answer's transfer; with BREADY high, as many as the pipeline has
_ANSWERS = LATENCY + 1


class BlockRam(wiring.Component):
    """`size` bytes of block RAM behind an AXI4 port: INCR bursts of full words that do not cross 4 KiB, byte strobes obeyed.

    Timing: `models.memory.block_ram`, for a manager whose W never comes before the cycle after its AW (as `Guard` sees to). Reads and writes go at full
    rate beside each other; a word that is written and read in the same cycle reads either value. A burst that begins beyond the end is answered with
    SLVERR and changes nothing. Ports and enables of the blocks, which may be spread over a whole device, have registers of their own.

    * `port`: AXI4 signature, reads and writes.
    * `size`: bytes, a multiple of 4096, so that a burst is inside whole or not at all.
    """

    def __init__(self, port: AXI4, size: int):
        if size <= 0 or size % 4096:
            raise ValueError(f"a memory has a multiple of 4096 bytes, not {size!r}")
        if not port.read or not port.write:
            raise ValueError("a memory's port must read and write")
        self.port = port
        self.size = size
        super().__init__({"bus": In(port)})

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        self.shift = (self.port.data_bytes - 1).bit_length()
        self.depth = self.size // self.port.data_bytes
        m.submodules.storage = storage = memory.Memory(
            shape=8 * self.port.data_bytes, depth=self.depth, init=[], attrs=APART
        )
        self._reads(m, bus, storage)
        self._writes(m, bus, storage)
        return m

    def _bursts(self, m, channel):
        """A queue of bursts from an address channel: word address, length, whether it lies outside."""
        layout = data.StructLayout({"word": range(self.depth), "length": 8, "outside": 1})
        m.submodules[channel] = queue = Queue(layout, _WAITING)
        address = getattr(self.bus, f"{channel}addr")
        m.d.comb += [
            queue.i.valid.eq(getattr(self.bus, f"{channel}valid")),
            getattr(self.bus, f"{channel}ready").eq(queue.i.ready),
            queue.i.p.word.eq(address[self.shift :]),
            queue.i.p.length.eq(getattr(self.bus, f"{channel}len")),
            queue.i.p.outside.eq(address >= self.size),
        ]
        return queue.o

    def _reads(self, m, bus, storage):
        burst = self._bursts(m, "ar")
        read = storage.read_port()
        word = Signal(range(self.depth))
        # beats to be asked of the RAM; whether there are any; whether it is the last
        left, some, final = Signal(9), Signal(), Signal()
        outside = Signal()
        move = Signal()  # the beat that is offered may change
        layout = data.StructLayout({"valid": 1, "last": 1, "outside": 1})
        # of the RAM's output, and of what of it had to wait
        fresh, kept = Signal(layout), Signal(layout)
        waiting = Signal(len(read.data))
        m.d.comb += [
            move.eq(~bus.rvalid | bus.rready),
            read.addr.eq(word),
            read.en.eq(1),
            burst.ready.eq(~some | (final & move)),
        ]
        m.d.sync += [fresh.valid.eq(some & move), fresh.last.eq(final), fresh.outside.eq(outside)]
        with m.If(~kept.valid):
            m.d.sync += waiting.eq(read.data)
        with m.If(move):
            chosen = Mux(kept.valid, kept, fresh)
            m.d.sync += [
                Cat(bus.rvalid, bus.rlast, bus.rresp[1]).eq(chosen),
                bus.rdata.eq(Mux(kept.valid, waiting, read.data)),
                kept.valid.eq(0),
            ]
        with m.Elif(fresh.valid):
            m.d.sync += kept.eq(fresh)
        with m.If(burst.ready):
            m.d.sync += [
                word.eq(burst.p.word),
                outside.eq(burst.p.outside),
                left.eq(burst.p.length + 1),
                some.eq(burst.valid),
                final.eq(burst.p.length == 0),
            ]
        with m.Elif(move):
            m.d.sync += [word.eq(word + 1), left.eq(left - 1), final.eq(left == 2)]

    def _writes(self, m, bus, storage):
        burst = self._bursts(m, "aw")
        write = storage.write_port(granularity=8)
        passed = Signal(8)
        moved = Signal()
        ended = Signal()
        m.submodules.answers = answers = Queue(1, _ANSWERS)
        # LATENCY cycles from the last beat to the answer's offer: these, and one through the queue
        way = [
            Signal(data.StructLayout({"valid": 1, "outside": 1}), name=f"answer{k}")
            for k in range(LATENCY - 1)
        ]
        under_way = Signal(range(_ANSWERS + 1))  # ended and not taken yet
        m.d.comb += [
            bus.wready.eq(burst.valid & (under_way != _ANSWERS)),
            moved.eq(bus.wvalid & bus.wready),
            ended.eq(moved & bus.wlast),
            burst.ready.eq(ended),
            answers.i.valid.eq(way[-1].valid),
            answers.i.payload.eq(way[-1].outside),
            bus.bvalid.eq(answers.o.valid),
            answers.o.ready.eq(bus.bready),
            bus.bresp[1].eq(answers.o.payload),
        ]
        m.d.sync += [
            write.addr.eq(burst.p.word + passed),
            write.data.eq(bus.wdata),
            write.en.eq(Cat(strobe & moved & ~burst.p.outside for strobe in bus.wstrb)),
        ]
        m.d.sync += [
            way[0].valid.eq(ended),
            way[0].outside.eq(burst.p.outside),
            *(after.eq(before) for before, after in pairwise(way)),
            under_way.eq(under_way + ended - (bus.bvalid & bus.bready)),
        ]
        with m.If(moved):
            m.d.sync += passed.eq(passed + 1)
        with m.If(ended):
            m.d.sync += passed.eq(0)


assert Response.SLVERR == 2, "responses are made of bit 1 alone"
