"""The back: merges opened pages with the items that wait, and answers."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.back import BackSchedule
from ...models.omap.errors import MapError
from ..memory import AXI4
from ..memory.axi import shared_by
from ..stream.passing import fields
from ..stream.queue import Queue
from .completion import Completion, record_members
from .frames import Frames
from .item_merge import ItemMerge
from .item_reader import ItemReader, part_bits
from .layout import merge_layout, operation_layout


class Back(wiring.Component):
    """Carries out operations in their order: `models.omap.back.BackSchedule`.

    An operation passes four stages: addresses of the opened pages, the fetched frames and the request;
    their data; the merge, in which items that stay go to their page and the one that is asked for is
    kept; and the answer, in which the response is made and the item is written to its new frame. Each
    of the last two holds another operation. Up to the merge, a row of `merge_blocks` blocks of an item
    passes a cycle, and a block in the answer.
    """

    def __init__(self, config, ticket):
        self.config, self.tickets = config, ticket
        rows, width = max(config.page_rows, 2), 128 * config.merge_blocks
        messages = max(config.message_blocks, 2)
        super().__init__(
            {
                # operations; it has room for all in flight
                "i": In(stream.Signature(operation_layout(config))),
                # the next operation opens a page in its first or second bin
                "host0": Out(1),
                "host1": Out(1),
                # the next operation begins when its frames are there and `go` is high: its pages
                # are open, and there is room for what it writes
                "go": In(1),
                "begun": Out(1),  # it does, and its first blocks are addressed in the next cycle
                # comes back with the operation, taken in the cycle of `begun`: as `merging` with
                # its merge, as `closing` with its answer
                "ticket": In(ticket),
                "merging": Out(ticket),
                "closing": Out(ticket),
                # read ports of the opened pages: data in the next cycle
                "row": Out(range(rows)),
                "page": In(width).array(2),
                # the same of the request, until `passed`
                "message": Out(range(max(config.slot_rows, 2))),
                "request": In(width),
                "passed": Out(1),
                # rows of the merged pages
                "put": Out(1).array(2),
                "put_row": Out(range(rows)).array(2),
                "put_data": Out(width).array(2),
                "sealed": Out(1),  # high for one cycle: the merged pages are whole
                "hosts": Out(1).array(2),  # which ones they are
                "pages": Out(config.bin_bits).array(2),
                "counters": Out(64).array(2),  # how often they were written
                "used": Out(range(rows + 1)).array(2),  # how many of their rows hold items
                # blocks of the response
                "answer": Out(1),
                "answer_block": Out(range(messages)),
                "answer_data": Out(128),
                "answered": Out(1),  # this block is the last one
                # the same of what a log says of the operation
                **record_members(config),
                "error": Out(1),
                "code": Out(8),
                "bus_error": Out(1),
                "idle": Out(1),
                # to the frames of a side; the first one writes too
                "bus0": Out(AXI4(data_bytes=config.bus_bytes)),
                "bus1": Out(AXI4(data_bytes=config.bus_bytes, write=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.frames = self.frames = frames = Frames(config)
        m.submodules.queue = self.queue = queue = Queue(merge_layout(config), config.window)
        m.submodules.reader = self.reader = reader = ItemReader(config, self.tickets)
        m.submodules.merge = self.merge = ItemMerge(config, self.tickets)
        m.submodules.completion = self.completion = last = Completion(config, self.tickets)
        self._accept(m)
        self._read(m)
        self._keep(m)
        self._merge(m)
        self._complete(m)
        shared_by(m, self.bus0, frames.bus0, last.bus)
        shared_by(m, self.bus1, frames.bus1)
        m.d.comb += [
            self.bus_error.eq(frames.bus_error | last.bus_error),
            self.idle.eq(~queue.o.valid & reader.idle & frames.idle & last.idle),
        ]
        with m.If(frames.late | last.late):
            m.d.comb += [self.error.eq(1), self.code.eq(MapError.DEADLINE.value)]
        return m

    def _accept(self, m):
        """Operations to the fetch, and to the merge."""
        op, config = self.i.p, self.config
        fetch, merge = self.frames.i, self.queue.i
        m.d.comb += [
            self.i.ready.eq(fetch.ready & merge.ready),
            fetch.valid.eq(self.i.valid & merge.ready),
            merge.valid.eq(self.i.valid & fetch.ready),
            fetch.p.keep.eq(op.keep),
            fetch.p.frame.eq(op.frame),
        ]
        for name in ("key", "status", "put", "hit", "keep", "frame"):
            m.d.comb += getattr(merge.p, name).eq(getattr(op, name))
        fetched, counts = (fetch.p.frames0, fetch.p.frames1), (fetch.p.count0, fetch.p.count1)
        for k, side in enumerate((op.side0, op.side1)):
            is_own = op.own & (op.side0.host if k else ~op.side0.host)
            m.d.comb += [fetched[k][n].eq(side.frames[n]) for n in range(config.slots)]
            with m.If(is_own):
                m.d.comb += fetched[k][0].eq(op.own_frame)
            m.d.comb += counts[k].eq(Mux(side.host, side.waiting, is_own))
            m.d.comb += merge.p.sides[k].own.eq(is_own)
            for name in ("host", "page", "counter", "items", "waiting"):
                m.d.comb += getattr(merge.p.sides[k], name).eq(getattr(side, name))

    def _read(self, m):
        """The next operation begins when its frames are there; its rows come from pages and frames."""
        reader, frames, queue = self.reader, self.frames, self.queue
        wiring.connect(m, queue.o, reader.i)
        fetched = Signal(range(self.config.window + 1))  # operations whose frames are there
        m.d.sync += fetched.eq(fetched + frames.due - self.begun)
        m.d.comb += [
            self.host0.eq(queue.o.p.sides[0].host),
            self.host1.eq(queue.o.p.sides[1].host),
            *fields(reader, go=(fetched != 0) & self.go, ticket=self.ticket, request=self.request),
            frames.operation.eq(reader.operation),
        ]
        for name in ("begun", "row", "message", "passed"):
            m.d.comb += getattr(self, name).eq(getattr(reader, name))
        for k in range(2):
            m.d.comb += [
                reader.page[k].eq(self.page[k]),
                frames.word[k].eq(reader.word[k]),
                frames.index[k].eq(reader.index[k]),
                reader.data[k].eq(frames.data[k]),
                reader.found[k].eq(frames.found[k]),
            ]

    def _keep(self, m):
        """RAM for items that get a frame, and for the values of answers."""
        merge, last, row = self.merge, self.completion, self.reader.o
        size, number, bits = len(merge.kept), row.stage.number, part_bits(self.config)
        m.submodules.items = items = memory.Memory(
            shape=size, depth=BackSchedule.of(self.config).items << bits, init=[]
        )
        keeps, kept = items.write_port(), items.read_port()
        # the value of the answer before this one is still read
        m.submodules.values = values = memory.Memory(shape=size, depth=2 << bits, init=[])
        write, value = values.write_port(), values.read_port(domain="comb")
        m.d.comb += [
            *fields(keeps, addr=Cat(row.part, number), data=merge.kept, en=merge.keeps),
            *fields(write, addr=Cat(row.part, number[0]), data=merge.found, en=merge.finds),
            value.addr.eq(Cat(last.value_row, last.stage.number[0])),
            last.value.eq(value.data),
            kept.addr.eq(Cat(last.kept_row, last.stage.number)),
            last.kept.eq(kept.data),
        ]
        for k in range(2):
            read = items.read_port(transparent_for=(keeps,))
            m.d.comb += [
                read.addr.eq(self.reader.kept_address[k]),
                self.reader.kept[k].eq(read.data),
            ]

    def _merge(self, m):
        """Rows of the merged pages."""
        merge = self.merge
        m.d.comb += [merge.i.eq(self.reader.o), self.merging.eq(merge.i.stage.ticket)]
        for name in ("put", "put_row", "put_data", "used"):
            for into, out in zip(getattr(self, name), getattr(merge, name), strict=True):
                m.d.comb += into.eq(out)

    def _complete(self, m):
        """The answer, and which pages are whole."""
        last = self.completion
        m.d.comb += [
            last.ends.eq(self.reader.o.ends),
            last.i.eq(self.reader.o.stage),
            self.closing.eq(last.stage.ticket),
        ]
        names = ("sealed", "answer", "answer_block", "answer_data", "answered")
        for name in (*names, *record_members(self.config)):
            m.d.comb += getattr(self, name).eq(getattr(last, name))
        for k, side in enumerate(last.stage.op.sides):
            m.d.comb += [
                self.hosts[k].eq(side.host),
                self.pages[k].eq(side.page),
                self.counters[k].eq(side.counter),
            ]
