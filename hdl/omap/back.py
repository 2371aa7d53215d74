"""The back: merges opened pages with the items that wait, and answers; one operation after another."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.config import BLOCK, KEY_BYTES
from ...models.omap.errors import MapError
from ...models.omap.schedule import BackSchedule
from ..memory import BurstReader, BurstWriter
from ..memory.axi import AXI4, shared_by
from ..stream.queue import Queue
from .layout import operation_layout

__all__ = ["Back"]


class Back(wiring.Component):
    """Carries out operations whose pages are open: `models.omap.schedule.BackSchedule`.

    Members
    -------
    i : In(stream of operations), go : In(1)
        The oldest operation begins when `go` is high: its pages are open, and there is room for what
        it writes. `first`, `second`: Out(1), it opens a page in its first or second bin.
    block : Out, page0, page1 : In(128)
        Read ports of the opened pages and of the request (`message`, `request`): data in the next
        cycle.
    put0, put1 : Out(1), put_block, put_data : Out
        Blocks of the merged pages.
    used0, used1 : Out
        How many blocks of them hold items, from `sealed` on.
    sealed : Out(1)
        High for one cycle: merged pages and response are whole, opened pages are consumed.
    answer, answer_block, answer_data : Out
        Blocks of the response.
    ended : Out(1)
        High in an operation's last cycle.
    base : In(40)
    error, code, bus_error, idle : Out
    bus : Out(AXI4)
    """

    def __init__(self, config):
        self.config = config
        blocks = max(config.page_blocks, 2)
        messages = max(config.message_blocks, 2)
        super().__init__(
            {
                "i": In(stream.Signature(operation_layout(config))),
                "go": In(1),
                "begun": Out(1),
                "block": Out(range(blocks)),
                "page0": In(128),
                "page1": In(128),
                "message": Out(range(messages)),
                "request": In(128),
                "put0": Out(1),
                "put1": Out(1),
                "put_block": Out(range(blocks)),
                "put_data": Out(128),
                "used0": Out(range(blocks + 1)),
                "used1": Out(range(blocks + 1)),
                "sealed": Out(1),
                "answer": Out(1),
                "answer_block": Out(range(messages)),
                "answer_data": Out(128),
                "base": In(40),
                "error": Out(1),
                "code": Out(8),
                "bus_error": Out(1),
                "idle": Out(1),
                "bus": Out(AXI4(data_bytes=config.bus_bytes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        self.schedule = schedule = BackSchedule.of(config)
        self.t, self.running = Signal(range(schedule.end + 1)), Signal()
        self.count = 2 * config.slots + 1
        m.d.comb += [
            self.idle.eq(~self.running),
            self.begun.eq(~self.running & self.i.valid & self.go),
            self.sealed.eq(self._at(schedule.sealed)),
            self.i.ready.eq(self._at(schedule.end)),
        ]
        with m.If(self.begun):
            m.d.sync += [self.running.eq(1), self.t.eq(1)]
        with m.Elif(self.running):
            m.d.sync += self.t.eq(self.t + 1)
            with m.If(self.t == schedule.end):
                m.d.sync += self.running.eq(0)
        self._ports(m)
        self._ask(m)
        self._stream(m)
        self._merge(m)
        self._answer(m)
        late = self._at(schedule.frames) & (self.beats != self.count * config.frame_beats)
        busy = self._at(schedule.end) & ~(self.writer.idle & ~self.words.o.valid)
        with m.If(late | busy):
            m.d.comb += [self.error.eq(1), self.code.eq(MapError.DEADLINE.value)]
        return m

    def _at(self, cycle):
        return self.running & (self.t == cycle)

    def _within(self, first, count):
        return self.running & (self.t >= first) & (self.t < first + count)

    def _ports(self, m):
        config = self.config
        bus = config.bus_bytes
        m.submodules.reader = reader = BurstReader(bus_bytes=bus, commands=self.count)
        m.submodules.writer = self.writer = BurstWriter(bus_bytes=bus)
        shared_by(m, self.bus, reader.bus, self.writer.bus)
        m.submodules.reads = self.reads = Queue(reader.i.p.shape(), self.count)
        m.submodules.writes = self.writes = Queue(self.writer.i.p.shape(), 2)
        m.submodules.words = self.words = Queue(8 * bus, config.frame_beats + 1)
        wiring.connect(m, self.reads.o, reader.i)
        wiring.connect(m, self.writes.o, self.writer.i)
        wiring.connect(m, self.words.o, self.writer.i_data)
        m.d.comb += [reader.o.ready.eq(1), self.bus_error.eq(reader.error | self.writer.error)]
        self.beat_valid, self.beat = reader.o.valid, reader.o.p.data

    def _frame_address(self, frame):
        shift = (self.config.frame_bytes - 1).bit_length()
        return (self.base + self.config.frames_at + (frame << shift))[:40]

    def _ask(self, m):
        """Commands for all frames; those that are not there are frame 0, whose data mean nothing."""
        config, slots = self.config, self.config.slots
        op = self.i.p
        frames = []
        for side in (op.side0, op.side1):
            for k in range(slots):
                frames.append(Mux(side.waiting > k, side.frames[k], 0))
        frames.append(Mux(op.own, op.own_frame, 0))
        number = Signal(range(self.count + 2))
        m.d.comb += number.eq(self.t - 1)
        with m.If(self._within(1, self.count)):
            m.d.comb += [
                self.reads.i.valid.eq(1),
                self.reads.i.p.address.eq(self._frame_address(Array(frames)[number])),
                self.reads.i.p.beats.eq(config.frame_beats),
            ]
        total = self.count * config.frame_beats
        m.submodules.kept = kept = memory.Memory(shape=8 * config.bus_bytes, depth=total, init=[])
        write, self.kept = kept.write_port(), kept.read_port()
        self.beats = Signal(range(total + 1))
        m.d.comb += [
            write.addr.eq(self.beats),
            write.data.eq(self.beat),
            write.en.eq(self.beat_valid),
        ]
        with m.If(self.begun):
            m.d.sync += self.beats.eq(0)
        with m.Elif(self.beat_valid):
            m.d.sync += self.beats.eq(self.beats + 1)

    def _stream(self, m):
        """Blocks of pages, then of frames, one a cycle: addresses in one cycle, data in the next.

        Makes, for the cycle of the data: `there` (the item is one), `side`, `own`, `part` (which
        block of the item) and `item` (the block)."""
        config, schedule = self.config, self.schedule
        size, parts = config.page_blocks, config.slot_blocks
        op = self.i.p
        lanes = config.bus_bytes // BLOCK
        # counters of what is addressed
        part, place = Signal(range(max(parts, 2))), Signal(range(self.count + 1))
        side, beat = Signal(), Signal(range(self.count * config.frame_beats + 1))
        lane = Signal(range(max(lanes, 2)))
        paging = self._within(1, 2 * size)
        framing = self._within(schedule.frames, self.count * parts)
        last = part == parts - 1
        with m.If(self.begun | self._at(schedule.frames - 1)):
            m.d.sync += [s.eq(0) for s in (part, place, side, beat, lane, self.block)]
        with m.Elif(paging | framing):
            m.d.sync += part.eq(Mux(last, 0, part + 1))
            with m.If(last):
                m.d.sync += place.eq(place + 1)
                with m.If(place == config.slots - 1):
                    m.d.sync += [place.eq(0), side.eq(1)]
                    with m.If(framing & side):
                        m.d.sync += place.eq(config.slots)
            with m.If(last | (lane == lanes - 1)):
                m.d.sync += [lane.eq(0), beat.eq(beat + 1)]
            with m.Else():
                m.d.sync += lane.eq(lane + 1)
            m.d.sync += self.block.eq(Mux(self.block == size - 1, 0, self.block + 1))
        items = Mux(side, op.side1.items, op.side0.items)
        waiting = Mux(side, op.side1.waiting, op.side0.waiting)
        host = Mux(side, op.side1.host, op.side0.host)
        own = framing & (place == config.slots)
        m.d.comb += self.kept.addr.eq(beat)
        # registers beside the memories' own
        self.there, self.own, self.side = Signal(), Signal(), Signal()
        self.part = Signal.like(part)
        from_page, from_side, from_lane = Signal(), Signal(), Signal.like(lane)
        m.d.sync += [
            self.there.eq(
                (paging & host & (place < items))
                | (framing & Mux(own, op.own, host & (place < waiting)))
            ),
            self.own.eq(own),
            self.side.eq(side),
            self.part.eq(part),
            from_page.eq(paging),
            from_side.eq(side),
            from_lane.eq(lane),
        ]
        self.item = Signal(128)
        frame = Array(self.kept.data.word_select(k, 128) for k in range(lanes))[from_lane]
        m.d.comb += self.item.eq(Mux(from_page, Mux(from_side, self.page1, self.page0), frame))

    def _merge(self, m):
        """Items that stay go to their page, the one that is asked for to `value`."""
        config, op = self.config, self.i.p
        parts = config.slot_blocks
        asked = Signal()
        held = Signal()  # for an item's later blocks
        match = op.hit & (self.own | (self.item[: 8 * KEY_BYTES] == op.key))
        m.d.comb += asked.eq(Mux(self.part == 0, match, held))
        m.d.sync += held.eq(asked)
        m.submodules.value = value = memory.Memory(shape=128, depth=max(parts, 2), init=[])
        write, self.value = value.write_port(), value.read_port(domain="comb")
        m.d.comb += [
            write.addr.eq(self.part),
            write.data.eq(self.item),
            write.en.eq(self.there & asked),
        ]
        stays = self.there & ~asked
        m.d.comb += [
            self.put0.eq(stays & ~self.side),
            self.put1.eq(stays & self.side),
            self.put_data.eq(self.item),
            self.put_block.eq(Mux(self.side, self.used1, self.used0)),
        ]
        for used, put in ((self.used0, self.put0), (self.used1, self.put1)):
            with m.If(self.begun):
                m.d.sync += used.eq(0)
            with m.Elif(put):
                m.d.sync += used.eq(used + 1)

    def _answer(self, m):
        """The response, and the item into its new frame."""
        config, op, schedule = self.config, self.i.p, self.schedule
        parts, blocks = config.slot_blocks, config.message_blocks
        lanes = config.bus_bytes // BLOCK
        at = Signal(range(max(blocks, 2)))
        writing = Signal()
        begin = self._within(schedule.write, blocks)
        m.d.comb += self.message.eq(self.t - schedule.write)
        m.d.sync += [writing.eq(begin), at.eq(self.message)]
        # the operation or the status lies in the last 8 bytes that are used of the last block
        high = (KEY_BYTES + config.value_bytes) % BLOCK != 0
        last = at == blocks - 1
        code = Cat(op.status, Const(0, 62))
        value = Mux(op.hit, self.value.data, 0)
        echoed = Cat(op.key, value[64:])
        text = Mux(at == 0, echoed, value)
        if high:
            closing = Cat(text[:64], code)
        else:
            closing = Cat(code, Const(0, 64))
        m.d.comb += [
            self.value.addr.eq(at),
            self.answer.eq(writing),
            self.answer_block.eq(at),
            self.answer_data.eq(Mux(last, closing, text)),
        ]
        item = Mux(op.put, self.request, self.value.data)
        if high:
            item = Cat(item[:64], Mux(last, 0, item[64:]))
        held = Signal(128 * max(lanes - 1, 1))
        word = Signal(8 * config.bus_bytes)
        lane = Signal(range(max(lanes, 2)))
        part = writing & (at < parts)
        with m.Switch(lane):
            for k in range(lanes):
                with m.Case(k):
                    m.d.comb += word.eq(Cat(held[: 128 * k], item))
        full = (lane == lanes - 1) | (at == parts - 1)
        m.d.comb += [
            self.words.i.payload.eq(word),
            self.words.i.valid.eq(part & full & op.keep),
            self.writes.i.valid.eq(self._at(schedule.write) & op.keep),
            self.writes.i.p.address.eq(self._frame_address(op.frame)),
            self.writes.i.p.beats.eq(config.frame_beats),
        ]
        with m.If(part):
            m.d.sync += [held.eq(word), lane.eq(Mux(full, 0, lane + 1))]
