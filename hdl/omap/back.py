"""The back: merges opened pages with the items that wait, and answers."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.back import BackSchedule
from ...models.omap.config import BLOCK, KEY_BYTES
from ...models.omap.errors import MapError
from ..memory import AXI4, BurstWriter
from ..memory.axi import shared_by
from ..stream.queue import Queue
from .deadlines import Deadline
from .frames import Frames, frame_address
from .layout import merge_layout, operation_layout

__all__ = ["Back"]


class Back(wiring.Component):
    """Carries out operations in their order: `models.omap.back.BackSchedule`.

    An operation passes four stages: addresses of the opened pages, the fetched frames and the request;
    their data; the merge, in which items that stay go to their page and the one that is asked for is
    kept; and the answer, in which the response is made and the item is written to its new frame. Each
    of the last two holds another operation. Up to the merge, a row of `merge_blocks` blocks of an item
    passes a cycle, and a block in the answer.

    Members
    -------
    i : In(stream of operations)
        It has room for all operations in flight.
    host0, host1 : Out(1)
        The next operation opens a page in its first or second bin.
    go : In(1)
        The next operation begins when its frames are there and `go` is high: its pages are open, and
        there is room for what it writes.
    begun : Out(1)
        It does, and its first blocks are addressed in the next cycle.
    ticket : In
        What comes back with the operation, taken in that cycle: `merging` with its merge, `closing`
        with its answer.
    row : Out, page : In, two
        Read ports of the opened pages: data in the next cycle.
    message : Out, request : In, passed : Out(1)
        The same of the request, until `passed`.
    put : Out(1), put_row, put_data : Out, two each
        Rows of the merged pages.
    sealed : Out(1), hosts, pages, counters, used : Out, two each
        High for one cycle: the merged pages are whole. Which ones they are, how often they were
        written, and how many of their rows hold items.
    answer : Out(1), answer_block, answer_data : Out, answered : Out(1)
        Blocks of the response; this is the last one.
    base : In(40)
    error, bus_error, idle : Out(1), code : Out(8)
    bus0, bus1 : Out(AXI4)
        To the frames; the first one writes too.
    """

    def __init__(self, config, ticket):
        self.config, self.tickets = config, ticket
        rows, width = max(config.page_rows, 2), 128 * config.merge_blocks
        messages = max(config.message_blocks, 2)
        super().__init__(
            {
                "i": In(stream.Signature(operation_layout(config))),
                "host0": Out(1),
                "host1": Out(1),
                "go": In(1),
                "begun": Out(1),
                "ticket": In(ticket),
                "merging": Out(ticket),
                "closing": Out(ticket),
                "row": Out(range(rows)),
                "page": In(width).array(2),
                "message": Out(range(max(config.slot_rows, 2))),
                "request": In(width),
                "passed": Out(1),
                "put": Out(1).array(2),
                "put_row": Out(range(rows)).array(2),
                "put_data": Out(width).array(2),
                "sealed": Out(1),
                "hosts": Out(1).array(2),
                "pages": Out(config.bin_bits).array(2),
                "counters": Out(64).array(2),
                "used": Out(range(rows + 1)).array(2),
                "answer": Out(1),
                "answer_block": Out(range(messages)),
                "answer_data": Out(128),
                "answered": Out(1),
                "base": In(40),
                "error": Out(1),
                "code": Out(8),
                "bus_error": Out(1),
                "idle": Out(1),
                "bus0": Out(AXI4(data_bytes=config.bus_bytes)),
                "bus1": Out(AXI4(data_bytes=config.bus_bytes, write=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        self.schedule = BackSchedule.of(config)
        self.stage = data.StructLayout(
            {
                "op": merge_layout(config),
                "ticket": self.tickets,
                "number": (self.schedule.items - 1).bit_length(),
            }
        )
        m.submodules.frames = self.frames = Frames(config)
        m.submodules.queue = self.queue = Queue(merge_layout(config), config.window)
        self._accept(m)
        self._address(m)
        self._read(m)
        self._merge(m)
        self._answer(m)
        self._write(m)
        m.d.comb += [
            self.frames.base.eq(self.base),
            self.bus_error.eq(self.frames.bus_error | self.writer.error),
            self.idle.eq(
                ~self.queue.o.valid
                & ~self.addressing
                & ~self.reading
                & ~self.merging_now
                & ~self.answering
                & self.frames.idle
                & self.stored.idle
            ),
        ]
        with m.If(self.frames.late | self.stored.late):
            m.d.comb += [self.error.eq(1), self.code.eq(MapError.DEADLINE.value)]
        return m

    def _accept(self, m):
        """Operations to the fetch, and to the merge."""
        op, config = self.i.p, self.config
        fetch, merge = self.frames.i, self.queue.i
        frames0, frames1 = (
            [Mux(side.waiting > k, side.frames[k], 0) for k in range(config.slots)]
            for side in (op.side0, op.side1)
        )
        owns = (op.own & ~op.side0.host, op.own & op.side0.host)
        m.d.comb += [
            self.i.ready.eq(fetch.ready & merge.ready),
            fetch.valid.eq(self.i.valid & merge.ready),
            merge.valid.eq(self.i.valid & fetch.ready),
            fetch.p.keep.eq(op.keep),
            fetch.p.frame.eq(op.frame),
        ]
        for name in ("key", "status", "put", "hit", "keep", "frame"):
            m.d.comb += getattr(merge.p, name).eq(getattr(op, name))
        for k, (side, frames) in enumerate(((op.side0, frames0), (op.side1, frames1))):
            frames[0] = Mux(owns[k], op.own_frame, frames[0])
            fetched = (fetch.p.frames0, fetch.p.frames1)[k]
            m.d.comb += [fetched[n].eq(frame) for n, frame in enumerate(frames)]
            m.d.comb += merge.p.sides[k].own.eq(owns[k])
            for name in ("host", "page", "counter", "items", "waiting"):
                m.d.comb += getattr(merge.p.sides[k], name).eq(getattr(side, name))
        fetched = Signal(range(config.window + 1))  # operations whose frames are there
        self.fetched = fetched != 0
        m.d.sync += fetched.eq(fetched + self.frames.due - self.begun)

    def _address(self, m):
        """Both sides pass their places, first items of the page, then frames."""
        config, queue = self.config, self.queue
        parts, lanes = config.slot_rows, config.bus_bytes // BLOCK // config.merge_blocks
        last = self.schedule.merge - 1
        self.addressing = Signal()
        at, part = Signal(range(last + 1)), Signal(range(max(parts, 2)))
        place = Signal(range(self.schedule.merge + 1))
        self.addressed = Signal(self.stage)
        number = Signal(range(self.schedule.items))
        first, final = Signal(), Signal()
        m.d.comb += [
            self.host0.eq(queue.o.p.sides[0].host),
            self.host1.eq(queue.o.p.sides[1].host),
            first.eq(self.addressing & (at == 0)),
            final.eq(self.addressing & (at == last)),
            self.begun.eq(queue.o.valid & self.fetched & self.go & (~self.addressing | final)),
            queue.o.ready.eq(self.begun),
            self.row.eq(at),
            self.message.eq(part),
            self.passed.eq(final),
        ]
        with m.If(self.begun):
            m.d.sync += [
                self.addressing.eq(1),
                at.eq(0),
                part.eq(0),
                place.eq(0),
                self.addressed.op.eq(queue.o.payload),
                self.addressed.ticket.eq(self.ticket),
                self.addressed.number.eq(number),
                number.eq(number + 1),
            ]
        with m.Else():
            m.d.sync += [
                self.addressing.eq(self.addressing & ~final),
                at.eq(at + 1),
                part.eq(Mux(part == parts - 1, 0, part + 1)),
                place.eq(place + (part == parts - 1)),
            ]
        m.d.comb += self.frames.operation.eq(self.addressed.number)
        # of the cycle in which the data come
        self.reading, self.first, self.last = Signal(), Signal(), Signal()
        self.read_part, self.fresh = Signal.like(part), Signal()
        m.d.sync += [
            self.reading.eq(self.addressing),
            self.first.eq(first),
            self.last.eq(final),
            self.read_part.eq(part),
            self.fresh.eq(place == 0),
        ]
        self.paged, self.there, self.own, self.lane = [], [], [], []
        for k in range(2):
            side = self.addressed.op.sides[k]
            word, index = self.frames.word[k], self.frames.index[k]
            lane = Signal(range(max(lanes, 2)), name=f"at_lane{k}")
            paged, there, own = (Signal(name=f"{n}{k}") for n in ("paged", "there", "own"))
            read_lane = Signal.like(lane, name=f"lane{k}")
            page = side.host & (place < side.items)
            with m.If(self.begun):
                m.d.sync += [word.eq(0), index.eq(0), lane.eq(0)]
            with m.Elif(~page):
                whole = part == parts - 1
                m.d.sync += lane.eq(Mux(whole | (lane == lanes - 1), 0, lane + 1))
                with m.If(whole | (lane == lanes - 1)):
                    m.d.sync += word.eq(word + 1)
                with m.If(whole):
                    m.d.sync += index.eq(index + 1)
            taken = side.items + side.waiting
            m.d.sync += [
                paged.eq(page),
                there.eq(Mux(side.host, place < taken, side.own & (place == 0))),
                own.eq(side.own),
                read_lane.eq(lane),
            ]
            self.paged.append(paged)
            self.there.append(there)
            self.own.append(own)
            self.lane.append(read_lane)

    def _read(self, m):
        """Data into registers; an item that may not be in HBM yet is read where it is kept."""
        config = self.config
        parts, size = config.slot_rows, 128 * config.merge_blocks
        lanes = 8 * config.bus_bytes // size
        width = (max(parts, 2) - 1).bit_length()
        m.submodules.items = items = memory.Memory(
            shape=size, depth=self.schedule.items << width, init=[]
        )
        self.keeps = items.write_port()
        self.kept = items.read_port()
        self.merging_now, self.merged = Signal(), Signal(self.stage)
        self.begins, self.ends = Signal(), Signal()
        self.part, self.stores, self.new = Signal(width), Signal(), Signal(size)
        text = self.request
        end = 8 * (KEY_BYTES + config.value_bytes) % size
        if end:  # what lies behind the value is no part of the item
            text = Cat(text[:end], Mux(self.read_part == parts - 1, 0, text[end:]))
        m.d.sync += [
            self.merging_now.eq(self.reading),
            self.begins.eq(self.first),
            self.ends.eq(self.last),
            self.part.eq(self.read_part),
            self.stores.eq(self.fresh & self.reading),
            self.new.eq(text),
        ]
        with m.If(self.first):
            m.d.sync += self.merged.eq(self.addressed)
        m.d.comb += self.merging.eq(self.merged.ticket)
        self.item, self.is_there, self.is_own = [], [], []
        for k in range(2):
            item, plain = Signal(size, name=f"item{k}"), Signal(size, name=f"plain{k}")
            late, there, own = (Signal(name=f"{n}{k}") for n in ("late", "is_there", "is_own"))
            read = items.read_port(transparent_for=(self.keeps,))
            found = self.frames.found[k]
            rows = Array(self.frames.data[k].word_select(n, size) for n in range(lanes))
            m.d.comb += [
                read.addr.eq(Cat(self.read_part, found.item)),
                item.eq(Mux(late, read.data, plain)),
            ]
            m.d.sync += [
                plain.eq(Mux(self.paged[k], self.page[k], rows[self.lane[k]])),
                late.eq(found.late & ~self.paged[k]),
                there.eq(self.there[k] & self.reading),
                own.eq(self.own[k]),
            ]
            self.item.append(item)
            self.is_there.append(there)
            self.is_own.append(own)

    def _merge(self, m):
        """Items that stay go to their page; the one that is asked for is kept, or the new one."""
        op = self.merged.op
        width = len(self.part)
        takes = []
        for k in range(2):
            there, item = self.is_there[k], self.item[k]
            asked, held = Signal(name=f"asked{k}"), Signal(name=f"held{k}")
            used, put = Signal.like(self.used[k], name=f"count{k}"), self.put[k]
            match = op.hit & (self.is_own[k] | (item[: 8 * KEY_BYTES] == op.key))
            before = Mux(self.begins, 0, used)
            m.d.comb += [
                asked.eq(Mux(self.part == 0, match, held)),  # of all rows of an item
                put.eq(there & ~asked),
                self.put_row[k].eq(before),
                self.put_data[k].eq(item),
                self.used[k].eq(used),
            ]
            m.d.sync += [held.eq(asked), used.eq(before + put)]
            takes.append(there & asked)
        found, item = takes[0] | takes[1], Mux(takes[1], self.item[1], self.item[0])
        # the value of the answer before this one is still read
        size = 128 * self.config.merge_blocks
        m.submodules.values = values = memory.Memory(shape=size, depth=2 << width, init=[])
        write, self.value = values.write_port(), values.read_port(domain="comb")
        m.d.comb += [
            write.addr.eq(Cat(self.part, self.merged.number[0])),
            write.data.eq(item),
            write.en.eq(found),
            self.keeps.addr.eq(Cat(self.part, self.merged.number)),
            self.keeps.data.eq(Mux(op.put, self.new, item)),
            self.keeps.en.eq(Mux(op.put, self.stores, found)),
        ]

    def _answer(self, m):
        """The response: key, value, status."""
        config, blocks = self.config, self.config.message_blocks
        self.answering, self.at = Signal(), Signal(range(blocks))
        self.closed = closed = Signal(self.stage)
        last = self.at == blocks - 1
        with m.If(self.ends):
            m.d.sync += [self.answering.eq(1), self.at.eq(0), closed.eq(self.merged)]
        with m.Elif(self.answering):
            m.d.sync += [self.at.eq(self.at + 1), self.answering.eq(~last)]
        op = closed.op
        m.d.comb += [
            self.closing.eq(closed.ticket),
            self.sealed.eq(self.answering & (self.at == 0)),
        ]
        for k in range(2):
            m.d.comb += [
                self.hosts[k].eq(op.sides[k].host),
                self.pages[k].eq(op.sides[k].page),
                self.counters[k].eq(op.sides[k].counter),
            ]
        # the status lies in the last 8 bytes that are used of the last block
        row, lane = self._row(self.at)
        value = Mux(op.hit, self.value.data.word_select(lane, 128), 0)
        text = Mux(self.at == 0, Cat(op.key, value[64:]), value)
        code = Cat(op.status, Const(0, 62))
        if (KEY_BYTES + config.value_bytes) % BLOCK:
            closing = Cat(text[:64], code)
        else:
            closing = Cat(code, Const(0, 64))
        m.d.comb += [
            self.value.addr.eq(Cat(row, closed.number[0])),
            self.answer.eq(self.answering),
            self.answer_block.eq(self.at),
            self.answer_data.eq(Mux(last, closing, text)),
            self.answered.eq(self.answering & last),
        ]

    def _row(self, block):
        """The row of a block of an item, and its lane there."""
        bits = (self.config.merge_blocks - 1).bit_length()
        width = len(self.part)
        return (block >> bits)[:width] | Const(0, width), block[:bits]

    def _write(self, m):
        """The item into its new frame, if it is kept."""
        config, schedule, op = self.config, self.schedule, self.closed.op
        parts, lanes = config.slot_blocks, config.bus_bytes // BLOCK
        depth = schedule.stored // schedule.merge + 2
        m.submodules.writer = self.writer = writer = BurstWriter(bus_bytes=config.bus_bytes)
        m.submodules.writes = writes = Queue(writer.i.p.shape(), depth)
        m.submodules.words = words = Queue(8 * config.bus_bytes, depth * config.frame_beats)
        m.submodules.stored = self.stored = stored = Deadline(schedule.stored, depth)
        wiring.connect(m, writes.o, writer.i)
        wiring.connect(m, words.o, writer.i_data)
        shared_by(m, self.bus0, self.frames.bus0, writer.bus)
        shared_by(m, self.bus1, self.frames.bus1)
        row, of_row = self._row(self.at)
        source = Signal(max(len(of_row), 1))
        block = Signal(range(max(parts, 2)))  # whose data are there
        there = Signal()
        lane = Signal(range(max(lanes, 2)))  # of the bus word
        held, word = Signal(128 * max(lanes - 1, 1)), Signal(8 * config.bus_bytes)
        full = (lane == lanes - 1) | (block == parts - 1)
        m.d.comb += [
            self.kept.addr.eq(Cat(row, self.closed.number)),
            writes.i.valid.eq(self.sealed & op.keep),
            writes.i.p.address.eq(frame_address(config, self.base, op.frame)),
            writes.i.p.beats.eq(config.frame_beats),
            words.i.payload.eq(word),
            words.i.valid.eq(there & full),
            stored.begun.eq(self.sealed),
            # an operation that keeps nothing has its time too
            stored.met.eq((self.sealed & ~op.keep) + writer.bus.bvalid),
        ]
        m.d.sync += [
            there.eq(self.answering & op.keep & (self.at < parts)),
            block.eq(self.at),
            source.eq(of_row),
        ]
        kept = self.kept.data.word_select(source[: len(of_row)], 128)
        with m.Switch(lane):
            for k in range(lanes):
                with m.Case(k):
                    m.d.comb += word.eq(Cat(held[: 128 * k], kept))
        with m.If(there):
            m.d.sync += [held.eq(word), lane.eq(Mux(full, 0, lane + 1))]
