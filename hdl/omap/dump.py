"""HBM to the host, sealed: a snapshot's image. Specification: `models.omap.snapshot`."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.config import BLOCK
from ...models.omap.snapshot import PIECE, piece_bytes
from ..memory import AXI4, BurstReader
from .pages import WordDrain
from .sealing import Sealer

__all__ = ["Dump"]


class Dump(wiring.Component):
    """Reads HBM from its first byte to its last, piece after piece, and writes each piece sealed. A
    piece is read while the one before is sealed. Timing: `models.omap.cycles.dumped`.

    Members
    -------
    start : In(1)
        The first command comes in the next cycle.
    epoch : In(64), key : In(128), base, to : In(40)
        Of the snapshot; where HBM's content begins, and where the image goes.
    busy : Out(1)
        High from the cycle after `start` on.
    done : Out(1)
        While it is busy: all is written and answered.
    moved : Out(1)
        A bus word is read.
    read_error, write_error : Out(1)
    reads : Out(AXI4(write=False)), writes : Out(AXI4(read=False))
    """

    def __init__(self, config):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "epoch": In(64),
                "key": In(128),
                "base": In(40),
                "to": In(40),
                "busy": Out(1),
                "done": Out(1),
                "moved": Out(1),
                "read_error": Out(1),
                "write_error": Out(1),
                "reads": Out(AXI4(data_bytes=config.bus_bytes, write=False)),
                "writes": Out(AXI4(data_bytes=config.host_bus_bytes, read=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, bus = self.config, self.config.host_bus_bytes
        m.submodules.reader = reader = BurstReader(bus_bytes=config.bus_bytes)
        m.submodules.sealer = sealer = Sealer(
            bus_bytes=bus,
            chunks=1,
            blocks=PIECE // BLOCK,
            rounds=config.rounds,
        )
        m.submodules.drain = drain = WordDrain(bus, piece_bytes(config) // bus)
        wiring.connect(m, reader.bus, wiring.flipped(self.reads))
        wiring.connect(m, drain.bus, wiring.flipped(self.writes))
        m.d.comb += [
            self.moved.eq(reader.o.valid & reader.o.ready),
            self.read_error.eq(reader.error),
            self.write_error.eq(drain.error),
        ]
        with m.If(self.start):
            m.d.sync += self.busy.eq(1)
        self._read(m, reader, sealer)
        self._write(m, sealer, drain)
        return m

    def _read(self, m, reader, sealer):
        """Pieces into the sealer, a block a cycle."""
        bus, blocks = self.config.bus_bytes, PIECE // BLOCK
        lanes, pieces = bus // BLOCK, self.config.hbm_bytes // PIECE
        source, piece = Signal(40), Signal(32)
        block, lane = Signal(range(blocks)), Signal(range(max(lanes, 2)))
        reading, given = Signal(), Signal()
        slot, texts = Signal(), Signal(2)
        last, word = block == blocks - 1, Signal(8 * bus)
        m.d.comb += [
            word.eq(reader.o.p.data),
            reader.i.valid.eq(self.busy & ~reading & (piece != pieces) & (texts != 2)),
            reader.i.p.address.eq(source),
            reader.i.p.beats.eq(PIECE // bus),
            reader.o.ready.eq(lane == lanes - 1),
            sealer.put.eq(reader.o.valid),
            sealer.slot.eq(slot),
            sealer.row.eq(block),
            sealer.data.eq(word.word_select(lane, 128)),
            sealer.key.eq(self.key),
            sealer.i.valid.eq(given),
            sealer.i.p.nonce.eq(Cat(self.epoch, piece, Const(0, 30), Const(1, 2))),
            sealer.i.p.used.eq(blocks),
        ]
        m.d.sync += [given.eq(reader.o.valid & last), texts.eq(texts + given - sealer.ended)]
        with m.If(reader.i.valid & reader.i.ready):
            m.d.sync += [reading.eq(1), source.eq(source + PIECE)]
        with m.If(reader.o.valid):
            m.d.sync += [
                lane.eq(Mux(lane == lanes - 1, 0, lane + 1)),
                block.eq(Mux(last, 0, block + 1)),
            ]
        with m.If(given):
            m.d.sync += [reading.eq(0), piece.eq(piece + 1), slot.eq(~slot)]
        with m.If(self.start):
            m.d.sync += source.eq(self.base)

    def _write(self, m, sealer, drain):
        """Sealed pieces to the host."""
        target, left = Signal(40), Signal(32)
        m.d.comb += [
            sealer.o.ready.eq(drain.moved),
            sealer.taken.eq(drain.ended),
            drain.valid.eq(1),
            drain.coming.eq(sealer.coming),
            drain.whole.eq(sealer.whole),
            drain.word.eq(sealer.o.payload),
            drain.address.eq(target),
            self.done.eq(self.busy & (left == 0) & drain.idle),
        ]
        with m.If(self.start):
            m.d.sync += [left.eq(self.config.hbm_bytes // PIECE), target.eq(self.to)]
        with m.Elif(drain.ended):
            m.d.sync += [left.eq(left - 1), target.eq(target + piece_bytes(self.config))]
