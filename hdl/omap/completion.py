"""The back's last stage: the response, and the item into its new frame."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.back import BackSchedule
from ...models.omap.config import BLOCK
from ...models.omap.state import What
from ..memory import AXI4, BurstWriter
from ..stream.passing import fields
from ..stream.queue import Queue
from .deadlines import Deadline
from .frames import frame_address
from .item_reader import part_bits, stage_layout


def record_members(config):
    """The ports of blocks of records, a cycle behind those of answers."""
    return {
        "record": Out(1),
        "record_block": Out(range(max(config.message_blocks, 2))),
        "record_data": Out(128),
        "recorded": Out(1),
    }


class Completion(wiring.Component):
    """Answers an operation whose merge ends, a block of the response a cycle from the next cycle on,
    and writes its item, if it is kept.
    """

    def __init__(self, config, ticket):
        self.config, self.schedule = config, BackSchedule.of(config)
        stage, width = stage_layout(config, ticket), 128 * config.merge_blocks
        super().__init__(
            {
                "ends": In(1),
                "i": In(stage),
                # the item that was asked for: data in the same cycle
                "value_row": Out(part_bits(config)),
                "value": In(width),
                # the item that gets a frame: data in the next cycle
                "kept_row": Out(part_bits(config)),
                "kept": In(width),
                "stage": Out(stage),  # of the operation that is answered
                # as in `hdl.omap.back.Back`, down to `recorded`
                "sealed": Out(1),
                "answer": Out(1),
                "answer_block": Out(range(max(config.message_blocks, 2))),
                "answer_data": Out(128),
                "answered": Out(1),
                **record_members(config),
                "late": Out(1),
                "bus_error": Out(1),
                "idle": Out(1),
                "bus": Out(AXI4(data_bytes=config.bus_bytes, read=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self.at = Signal(range(self.config.message_blocks))
        last = self.at == self.config.message_blocks - 1
        with m.If(self.ends):
            m.d.sync += [self.answer.eq(1), self.at.eq(0), self.stage.eq(self.i)]
        with m.Elif(self.answer):
            m.d.sync += [self.at.eq(self.at + 1), self.answer.eq(~last)]
        m.d.comb += [
            self.sealed.eq(self.answer & (self.at == 0)),
            self.answer_block.eq(self.at),
            self.answered.eq(self.answer & last),
        ]
        self._answer(m, last)
        self._write(m)
        self._record(m, last)
        return m

    def _record(self, m, last):
        """What is there now: key, value, what (`models.omap.state.What`)."""
        op = self.stage.op
        key, keep, what = Signal.like(op.key, name="key"), Signal(), Signal(8)
        of_row = self._row(self.at)[1]
        lane, ends = Signal(max(len(of_row), 1)), Signal()
        m.d.sync += [
            *fields(self, record=self.answer, record_block=self.at, recorded=self.answered),
            ends.eq(last),
            key.eq(op.key),
            keep.eq(op.keep),
            what.eq(
                Mux(op.keep, What.HELD.value, Mux(op.hit, What.GONE.value, What.NOTHING.value))
            ),
            lane.eq(of_row),
        ]
        kept = self.kept.word_select(lane[: len(of_row)], 128)
        value = Mux(keep, kept, 0)
        text = Mux(self.record_block == 0, Cat(key, value[len(key) :]), value)
        m.d.comb += self.record_data.eq(Mux(ends, self._closing(text, what), text))

    def _closing(self, text, code):
        """The last block: a code lies in the last 8 bytes that are used of it."""
        code = Cat(code, Const(0, 64))[:64]
        if (self.config.key_bytes + self.config.value_bytes) % BLOCK:
            return Cat(text[:64], code)
        return Cat(code, Const(0, 64))

    def _answer(self, m, last):
        """The response: key, value, status."""
        op = self.stage.op
        row, lane = self._row(self.at)
        value = Mux(op.hit, self.value.word_select(lane, 128), 0)
        text = Mux(self.at == 0, Cat(op.key, value[len(op.key) :]), value)
        closing = self._closing(text, op.status)
        m.d.comb += [self.value_row.eq(row), self.answer_data.eq(Mux(last, closing, text))]

    def _row(self, block):
        """The row of a block of an item, and its lane there."""
        bits, width = (self.config.merge_blocks - 1).bit_length(), part_bits(self.config)
        return (block >> bits)[:width] | Const(0, width), block[:bits]

    def _write(self, m):
        """The item into its new frame, if it is kept."""
        config, schedule, op = self.config, self.schedule, self.stage.op
        depth = schedule.stored // schedule.apart + 2
        m.submodules.writer = writer = BurstWriter(bus_bytes=config.bus_bytes)
        m.submodules.writes = writes = Queue(writer.i.p.shape(), depth)
        m.submodules.words = words = Queue(8 * config.bus_bytes, depth * config.frame_beats)
        m.submodules.stored = stored = Deadline(schedule.stored, depth)
        wiring.connect(m, writes.o, writer.i)
        wiring.connect(m, words.o, writer.i_data)
        wiring.connect(m, writer.bus, wiring.flipped(self.bus))
        m.d.comb += [
            writes.i.valid.eq(self.sealed & op.keep),
            writes.i.p.address.eq(frame_address(config, op.frame)),
            writes.i.p.beats.eq(config.frame_beats),
            stored.begun.eq(self.sealed),
            # an operation that keeps nothing has its time too
            stored.met.eq((self.sealed & ~op.keep) + writer.bus.bvalid),
            self.late.eq(stored.late),
            self.bus_error.eq(writer.error),
            self.idle.eq(~self.answer & stored.idle),
        ]
        self._pack(m, words.i)

    def _pack(self, m, words):
        """Blocks of the item, as they are read, into words of the bus."""
        config = self.config
        parts, lanes = config.slot_blocks, config.bus_bytes // BLOCK
        row, of_row = self._row(self.at)
        source = Signal(max(len(of_row), 1))
        block = Signal(range(max(parts, 2)))  # whose data are there
        valid = Signal()
        lane = Signal(range(max(lanes, 2)))  # of the bus word
        held, word = Signal(128 * max(lanes - 1, 1)), Signal(8 * config.bus_bytes)
        full = (lane == lanes - 1) | (block == parts - 1)
        m.d.comb += [
            self.kept_row.eq(row),
            words.payload.eq(word),
            words.valid.eq(valid & full),
        ]
        m.d.sync += [
            valid.eq(self.answer & self.stage.op.keep & (self.at < parts)),
            block.eq(self.at),
            source.eq(of_row),
        ]
        kept = self.kept.word_select(source[: len(of_row)], 128)
        with m.Switch(lane):
            for k in range(lanes):
                with m.Case(k):
                    m.d.comb += word.eq(Cat(held[: 128 * k], kept))
        with m.If(valid):
            m.d.sync += [held.eq(word), lane.eq(Mux(full, 0, lane + 1))]
