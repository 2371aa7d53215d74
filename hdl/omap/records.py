"""The bins' records: an operation takes its item out of one bin and puts it into another."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.errors import MapError
from ...models.omap.front_schedule import FrontSchedule
from ..memory import AXI4
from ..memory.axi import shared_by
from ..stream.queue import Queue
from .free_frames import FreeFrames
from .hbm import HbmPort
from .layout import (
    decision_layout,
    entry_layout,
    operation_layout,
    place_layout,
    record_layout,
    ring_bits,
)


def written_layout(config):
    """An entry to write: `changes`: it differs from what is there."""
    return data.StructLayout(
        {"changes": 1, "place": place_layout(config), "entry": entry_layout(config)}
    )


class Records(wiring.Component):
    """Reads four records an operation, those of the bins that it shows and of its new pair, and writes
    all four of them. Those that the last `kept_records` operations wrote are kept here, as memory may
    not show them yet: the latest one's in registers, the others in RAM.

    * `timeline`: of the operations (`hdl.omap.timeline.Timeline`), after `models.omap.front_schedule`.
    """

    def __init__(self, config, timeline):
        self.config, self.timeline = config, timeline
        self.schedule = FrontSchedule.of(config)
        self.shape = decision_layout(config, self.schedule.kept_entries)
        super().__init__(
            {
                "clear": In(1),  # no operation is under way: forget what they wrote
                # decisions, in cycle `ask` - 1 of each operation
                "i": In(stream.Signature(self.shape)),
                "o": Out(stream.Signature(operation_layout(config))),  # these three must have room
                # as soon as they are known: in cycles `ask` - 1 and `ask`
                "o_pages": Out(stream.Signature(config.bin_bits)),
                "o_counters": Out(stream.Signature(64)),  # how often these pages were written
                # entries to write, in cycle `placed` + 2
                "o_entry": Out(stream.Signature(written_layout(config))),
                "error": Out(1),
                "code": Out(8),
                "bus_error": Out(1),
                "bus": Out(AXI4(data_bytes=config.bus_bytes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, schedule = self.config, self.schedule
        beats = 4 * config.record_beats
        m.submodules.port = self.port = HbmPort(
            bus_bytes=config.bus_bytes,
            reads=4 * schedule.within(schedule.ask, schedule.placed),
            words=beats * schedule.within(schedule.ask, schedule.placed),
            writes=8,
            beats=2 * beats,
        )
        shared_by(m, self.bus, self.port.bus)
        depth = schedule.within(schedule.decided, schedule.placed + 2)
        m.submodules.waiting = waiting = Queue(self.shape, depth)
        wiring.connect(m, wiring.flipped(self.i), waiting.i)
        m.d.comb += [
            waiting.o.ready.eq(self.timeline.at(schedule.placed + 1)),
            self.port.due.eq(Mux(self.timeline.at(schedule.records_seen), 4, 0)),
            self.bus_error.eq(self.port.error),
        ]
        self.decision = waiting.o.p
        self._fail(m, self.port.late, MapError.DEADLINE)
        self._ask(m)
        self._take(m)
        self._leave(m)
        self._settle(m)
        self._hand_on(m)
        self._write(m)
        return m

    def _fail(self, m, condition, code):
        with m.If(condition):
            m.d.comb += [self.error.eq(1), self.code.eq(code.value)]

    def _address(self, number):
        shift = (self.config.record_bytes - 1).bit_length()
        return (self.config.records_at + (number << shift))[:40]

    def _ask(self, m):
        bins = Signal(data.ArrayLayout(self.config.bin_bits, 4))
        with m.If(self.i.valid):
            m.d.sync += bins.eq(self.i.p.bins)
        asking, number = self.timeline.within(m, self.schedule.ask, 4, "asking")
        m.d.comb += [
            self.port.read.valid.eq(asking),
            self.port.read.p.address.eq(self._address(bins[number])),
            self.port.read.p.beats.eq(self.config.record_beats),
        ]
        # the first page in the cycle in which it is known, the second one in the next
        shown = Mux(self.i.valid, self.i.p.bins[0], bins[1])
        m.d.comb += [
            self.o_pages.valid.eq(
                (self.i.valid | (asking & (number == 0))) & (shown >= self.config.hbm_bins)
            ),
            self.o_pages.payload.eq(shown - self.config.hbm_bins),
        ]

    def _take(self, m):
        """Four records into registers, each as the last operation that wrote it left it."""
        config, schedule = self.config, self.schedule
        parts, bits = config.record_beats, 8 * config.bus_bytes
        size = record_layout(config).size
        taking, word = self.timeline.within(m, schedule.records, 4 * parts, "taking")
        which = word // parts if parts > 1 else word
        last = Signal()
        m.d.comb += [
            self.port.take.eq(taking),
            last.eq(taking & ((word % parts == parts - 1) if parts > 1 else 1)),
        ]
        before = Signal(bits * max(parts - 1, 1), reset_less=True)
        with m.If(taking):
            m.d.sync += before.eq(Cat(before, self.port.word)[bits:])
        content = Cat(before, self.port.word) if parts > 1 else self.port.word
        hit, kept = self._find(m, which)
        whole_q, which_q, last_q = Signal(size), Signal(2), Signal()
        m.d.sync += [whole_q.eq(content[:size]), which_q.eq(which), last_q.eq(last)]
        self.old = [Signal(record_layout(config), name=f"old{k}") for k in range(4)]
        for k, record in enumerate(self.old):
            with m.If(last_q & (which_q == k)):
                m.d.sync += record.eq(Mux(hit, kept, whole_q))

    def _find(self, m, which):
        """Return whether one of the last operations wrote record `which`, and that record as it left
        it: both in the next cycle."""
        config = self.config
        layout, pending = record_layout(config), self._pending(m)
        m.submodules.kept = self.store = memory.Memory(
            shape=layout.size, depth=4 << self.bits, init=[]
        )
        read = self.store.read_port()
        number = Signal(config.bin_bits)
        hit, latest, at = Signal(), Signal(), Signal(self.bits + 2)
        m.d.comb += [number.eq(self.decision.bins[which]), read.addr.eq(at)]
        for distance, (numbers, known) in reversed(list(enumerate(pending))):
            for k in range(4):  # the records of the new pair are written last
                with m.If(known & (numbers[k] == number)):
                    place = (self.operation - distance)[: self.bits]
                    m.d.comb += [
                        hit.eq(1),
                        latest.eq(distance == 0),
                        at.eq(Cat(Const(k, 2), place)),
                    ]
        self.updated = [Signal(layout, name=f"updated{k}") for k in range(4)]
        updated = Array(record.as_value() for record in self.updated)
        found_q, latest_q, at_q = Signal(), Signal(), Signal(2)
        m.d.sync += [found_q.eq(hit), latest_q.eq(latest), at_q.eq(at[:2])]
        return found_q, Mux(latest_q, updated[at_q], read.data)

    def _pending(self, m):
        """Return which bins the last operations wrote, the latest first, whose number is `operation`,
        and whether there was one."""
        kept = self.schedule.kept_records
        self.bits = ring_bits(kept)
        self.operation = Signal(self.bits)
        shape = data.ArrayLayout(self.config.bin_bits, 4)
        pending = [Signal(shape, name=f"pending{k}") for k in range(kept)]
        valids = [Signal(name=f"valid{k}") for k in range(kept)]
        self.numbers = pending[0]
        with m.If(self.timeline.at(self.schedule.placed + 1)):
            following, some = self.decision.bins, Const(1)
            for numbers, known in zip(pending, valids, strict=True):
                m.d.sync += [numbers.eq(following), known.eq(some)]
                following, some = numbers, known
            m.d.sync += self.operation.eq(self.operation + 1)
        with m.Elif(self.clear):
            m.d.sync += [known.eq(0) for known in valids]
        return list(zip(pending, valids, strict=True))

    def _leave(self, m):
        """Cycle `placed`: the records without the item, the new pair's as far as it is the same bin."""
        config, decision = self.config, self.decision
        layout = record_layout(config)
        # what a forwarded entry says of its item
        where = data.StructLayout({"second": 1, "frame": config.frame_bits})
        ring = ring_bits(self.schedule.kept_entries)
        self.moved_number = Signal(ring)
        m.submodules.moved = moved = memory.Memory(shape=where, depth=1 << ring, init=[])
        self.moved, get = moved.write_port(), moved.read_port(domain="comb")
        m.d.comb += get.addr.eq(decision.source)
        second, frame = Signal(), Signal(config.frame_bits)
        m.d.comb += [
            second.eq(Mux(decision.forwarded, get.data.second, decision.second)),
            frame.eq(Mux(decision.forwarded, get.data.frame, decision.frame)),
        ]
        hosts = [decision.bins[k] >= config.hbm_bins for k in range(2)]
        shown = []
        for k in range(2):
            record, old = Signal(layout, name=f"shown{k}"), self.old[k]
            m.d.comb += [
                record.eq(old),
                record.counter.eq(old.counter + hosts[k]),
                record.load.eq(old.load - (decision.found & (second == k))),
                record.waiting.eq(0),
            ]
            shown.append(record)
        self.shown = [Signal(layout, name=f"left{k}") for k in range(2)]
        self.fresh = [Signal(layout, name=f"fresh{k}") for k in range(2)]
        self.own, self.own_frame = Signal(), Signal(config.frame_bits)
        for k in range(2):
            record = Signal(layout, name=f"current{k}")
            m.d.comb += record.eq(self.old[2 + k])
            for other in range(2):
                with m.If(decision.bins[2 + k] == decision.bins[other]):
                    m.d.comb += record.eq(shown[other])
            m.d.sync += [self.shown[k].eq(shown[k]), self.fresh[k].eq(record)]
        m.d.sync += [
            self.own.eq(decision.found & Mux(second, ~hosts[1], ~hosts[0])),
            self.own_frame.eq(frame),
        ]

    def _settle(self, m):
        """Cycle `placed` + 1: where the item goes; what is written and handed on is there from the
        next cycle on."""
        config, decision = self.config, self.decision
        settle = self.timeline.at(self.schedule.placed + 1)
        m.submodules.frames = frames = FreeFrames(config)
        second, to_host, load = Signal(), Signal(), Signal(config.load_bits)
        m.d.comb += [
            second.eq(self.fresh[1].load < self.fresh[0].load),
            to_host.eq(Mux(second, decision.bins[3], decision.bins[2]) >= config.hbm_bins),
            load.eq(Mux(second, self.fresh[1].load, self.fresh[0].load)),
            frames.settle.eq(settle),
            frames.take.eq(decision.keep),
        ]
        overfull = settle & decision.keep & to_host & (load >= config.slots)
        self._fail(m, overfull, MapError.PAGE_FULL)
        self._fail(m, frames.full, MapError.FRAMES)
        freed = []
        for k in range(2):
            for slot in range(config.slots):
                freed.append((self.old[k].waiting > slot, self.old[k].frames[slot]))
        freed.append((self.own, self.own_frame))
        for k, (valid, frame) in enumerate(freed):
            m.d.comb += [frames.there[k].eq(valid), frames.freed[k].eq(frame)]
        self.written = Signal(written_layout(config))
        for k in range(2):
            record = Signal(record_layout(config), name=f"with_item{k}")
            m.d.comb += record.eq(self.fresh[k])
            with m.If(decision.keep & (second == k)):
                m.d.comb += record.load.eq(self.fresh[k].load + 1)
                with m.If(to_host):
                    m.d.comb += [
                        record.waiting.eq(self.fresh[k].waiting + 1),
                        record.frames[self.fresh[k].waiting].eq(frames.frame),
                    ]
            with m.If(settle):
                m.d.sync += [self.updated[k].eq(self.shown[k]), self.updated[2 + k].eq(record)]
        self._tell(m, settle, second, frames.frame)

    def _tell(self, m, settle, second, frame):
        """What is handed on, and the entry."""
        config, decision, o = self.config, self.decision, self.o.p
        entry = self.written.entry
        hosts = [decision.bins[k] >= config.hbm_bins for k in range(2)]
        self.placed_operation = operation = Signal(operation_layout(config))
        with m.If(settle):
            for k, side in enumerate((operation.side0, operation.side1)):
                old = self.old[k]
                m.d.sync += [
                    side.host.eq(hosts[k]),
                    side.page.eq(decision.bins[k] - config.hbm_bins),
                    side.counter.eq(old.counter),
                    side.items.eq(old.load - old.waiting),
                    side.waiting.eq(old.waiting),
                    side.frames.eq(old.frames),
                ]
            m.d.sync += [
                operation.key.eq(decision.key),
                operation.status.eq(decision.status),
                operation.put.eq(decision.put),
                operation.hit.eq(decision.found),
                operation.own.eq(self.own),
                operation.own_frame.eq(self.own_frame),
                operation.keep.eq(decision.keep),
                operation.frame.eq(frame),
                self.written.changes.eq(decision.keep | decision.found),
                self.written.place.eq(decision.place),
                entry.key.eq(decision.key),
                entry.valid.eq(decision.keep),
                entry.second.eq(second),
                entry.bin0.eq(decision.bins[2]),
                entry.bin1.eq(decision.bins[3]),
                entry.frame.eq(frame),
            ]
        m.d.comb += o.eq(operation)

    def _hand_on(self, m):
        placed, timeline, entry = self.schedule.placed, self.timeline, self.written.entry
        m.d.comb += [
            self.o.valid.eq(timeline.at(placed + 3)),
            self.o_entry.valid.eq(timeline.at(placed + 2)),
            self.o_entry.payload.eq(self.written),
            self.moved.en.eq(timeline.at(placed + 2)),
            self.moved.addr.eq(self.moved_number),
            self.moved.data.second.eq(entry.second),
            self.moved.data.frame.eq(entry.frame),
        ]
        for k, side in enumerate((self.placed_operation.side0, self.placed_operation.side1)):
            with m.If(timeline.at(placed + 2 + k)):
                m.d.comb += [
                    self.o_counters.valid.eq(side.host),
                    self.o_counters.payload.eq(side.counter),
                ]

    def _write(self, m):
        """All four records, changed or not."""
        config, schedule = self.config, self.schedule
        parts, bits, first = config.record_beats, 8 * config.bus_bytes, schedule.placed + 2
        records = Array(record.as_value() for record in self.updated)
        giving, number = self.timeline.within(m, first, 4, "giving")
        keep = self.store.write_port()
        m.d.comb += [
            self.port.write.valid.eq(giving),
            self.port.write.p.address.eq(self._address(self.numbers[number])),
            self.port.write.p.beats.eq(parts),
            keep.en.eq(giving),
            keep.addr.eq(Cat(number, self.operation)),
            keep.data.eq(records[number]),
        ]
        sending, word = self.timeline.within(m, first, 4 * parts, "sending")
        full = Signal(8 * config.record_bytes)
        m.d.comb += [
            full.eq(records[word // parts]),
            self.port.data.valid.eq(sending),
            self.port.data.p.word.eq(full.word_select(word % parts, bits)),
            self.port.data.p.strobe.eq(Const(-1, config.bus_bytes)),
        ]
        with m.If(self.timeline.at(first)):
            m.d.sync += self.moved_number.eq(self.moved_number + 1)
