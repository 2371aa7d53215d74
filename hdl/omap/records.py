"""The bins' records: an operation takes its item out of one bin and puts it into another."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.errors import MapError
from ...models.omap.front_schedule import FrontSchedule
from ..memory import AXI4
from ..memory.axi import shared_by
from ..stream.passing import fields
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
    """An entry to write: `changes`: it differs from what lies in its place."""
    return data.StructLayout(
        {"changes": 1, "place": place_layout(config), "entry": entry_layout(config)}
    )


class KeptRecords(wiring.Component):
    """What the last `count` operations wrote: the records of the latest one in registers, those of the others in RAM."""

    def __init__(self, config, count):
        self.config, self.count, self.bits = config, count, ring_bits(count)
        records = data.ArrayLayout(record_layout(config), 4)
        bins = data.ArrayLayout(config.bin_bits, 4)
        super().__init__(
            {
                "clear": In(1),  # forget all of them
                # an operation writes `records` of `bins`; from the next cycle on it is the latest one
                "settle": In(1),
                "bins": In(bins),
                "records": In(records),
                "latest_bins": Out(bins),
                "latest": Out(records),
                "store": In(1),  # the latest one's record `place` goes into RAM
                "place": In(2),
                "number": In(config.bin_bits),  # a bin that is looked up
                # in the next cycle: whether its record is here, and that record
                "hit": Out(1),
                "record": Out(record_layout(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        size = record_layout(self.config).size
        m.submodules.store = self.ram = memory.Memory(shape=size, depth=4 << self.bits, init=[])
        read, keep = self.ram.read_port(), self.ram.write_port()
        self.operation = Signal(self.bits)  # number of the latest one
        with m.If(self.settle):
            m.d.sync += self.operation.eq(self.operation + 1)
            m.d.sync += self.latest.eq(self.records)
        hit, latest, at = Signal(), Signal(), Signal(self.bits + 2)
        for distance, (bins, known) in reversed(list(enumerate(self._shift(m)))):
            for k in range(4):  # the records of the new pair are written last
                with m.If(known & (bins[k] == self.number)):
                    place = (self.operation - distance)[: self.bits]
                    m.d.comb += [
                        hit.eq(1),
                        latest.eq(distance == 0),
                        at.eq(Cat(Const(k, 2), place)),
                    ]
        was_latest, was_at = Signal(), Signal(2)
        m.d.sync += [self.hit.eq(hit), was_latest.eq(latest), was_at.eq(at[:2])]
        records = Array(self.latest[k].as_value() for k in range(4))
        m.d.comb += [
            read.addr.eq(at),
            self.record.eq(Mux(was_latest, records[was_at], read.data)),
            *fields(keep, en=self.store, addr=Cat(self.place, self.operation)),
            keep.data.eq(records[self.place]),
        ]
        return m

    def _shift(self, m):
        """Return which bins the last operations wrote, the latest one's first, and whether there was one."""
        pending = [Signal.like(self.bins, name=f"pending{k}") for k in range(self.count)]
        valids = [Signal(name=f"valid{k}") for k in range(self.count)]
        self.pending = list(zip(pending, valids, strict=True))
        m.d.comb += self.latest_bins.eq(pending[0])
        with m.If(self.settle):
            following, some = self.bins, Const(1)
            for bins, known in self.pending:
                m.d.sync += [bins.eq(following), known.eq(some)]
                following, some = bins, known
        with m.Elif(self.clear):
            m.d.sync += [known.eq(0) for known in valids]
        return self.pending


@dataclass(frozen=True)
class _Left:
    """The bins without the operation's item, from cycle `placed` + 1 on."""

    shown: list[Any]  # records of the bins that are shown
    new: list[Any]  # of the new pair
    own: Signal  # the item was in a bin of HBM,
    own_frame: Signal  # in this frame


class Records(wiring.Component):
    """Reads four records an operation, those of the bins that it shows and of its new pair, and writes
    all four of them. What the last operations wrote is kept (`KeptRecords`), as memory may not show it yet.

    * from cycle `ask` of an operation on records are read, from `records` on their words are taken
    * `placed`: the item leaves its bin; `placed` + 1: it goes into a bin of the new pair
    * from `placed` + 2 on records are written, in `placed` + 3 the operation is handed on

    `timeline`: that of the operations (`hdl.omap.timeline.Timeline`), after `models.omap.front_schedule`.
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
        config, schedule, timeline = self.config, self.schedule, self.timeline
        beats = 4 * config.record_beats
        m.submodules.port = port = HbmPort(
            bus_bytes=config.bus_bytes,
            reads=4 * schedule.within(schedule.ask, schedule.placed),
            words=beats * schedule.within(schedule.ask, schedule.placed),
            writes=8,
            beats=2 * beats,
        )
        shared_by(m, self.bus, port.bus)
        depth = schedule.within(schedule.decided, schedule.placed + 2)
        m.submodules.waiting = waiting = Queue(self.shape, depth)
        wiring.connect(m, wiring.flipped(self.i), waiting.i)
        settle, decision = timeline.at(schedule.placed + 1), waiting.o.p
        m.submodules.kept = self.kept = kept = KeptRecords(config, schedule.kept_records)
        m.d.comb += [
            waiting.o.ready.eq(settle),
            port.due.eq(Mux(timeline.at(schedule.records_seen), 4, 0)),
            self.bus_error.eq(port.error),
            *fields(kept, clear=self.clear, settle=settle, bins=decision.bins),
        ]
        self._fail(m, port.late, MapError.DEADLINE)
        self._ask(m, port)
        old = self._take(m, port, decision)
        # of the latest operation, from cycle `placed` + 2 on: what is handed on, and its entry
        operation = Signal(operation_layout(config), name="operation")
        written = Signal(written_layout(config), name="written")
        left = self._leave(m, decision, old, self._place(m, decision, written.entry))
        second, to_host = self._choose(m, decision, left.new, settle)
        frame = self._exchange(m, decision, old, left, settle)
        m.d.comb += [
            *(kept.records[k].eq(left.shown[k]) for k in range(2)),
            *(kept.records[2 + k].eq(left.new[k]) for k in range(2)),
        ]
        for k, record in enumerate(left.new):
            with m.If(decision.keep & (second == k)):
                m.d.comb += kept.records[2 + k].load.eq(record.load + 1)
                with m.If(to_host):
                    m.d.comb += [
                        kept.records[2 + k].waiting.eq(record.waiting + 1),
                        kept.records[2 + k].frames[record.waiting].eq(frame),
                    ]
        with m.If(settle):
            m.d.sync += [
                *self._operation(operation, decision, old, left, frame),
                *self._entry(written, decision, second, frame),
            ]
        self._hand_on(m, operation, written)
        self._write(m, port)
        return m

    def _fail(self, m, condition, code):
        with m.If(condition):
            m.d.comb += [self.error.eq(1), self.code.eq(code.value)]

    def _address(self, number):
        shift = (self.config.record_bytes - 1).bit_length()
        return (self.config.records_at + (number << shift))[:40]

    def _ask(self, m, port):
        """Records of the four bins."""
        bins = Signal(data.ArrayLayout(self.config.bin_bits, 4))
        with m.If(self.i.valid):
            m.d.sync += bins.eq(self.i.p.bins)
        asking, number = self.timeline.within(m, self.schedule.ask, 4, "asking")
        m.d.comb += [
            port.read.valid.eq(asking),
            *fields(
                port.read.p, address=self._address(bins[number]), beats=self.config.record_beats
            ),
        ]
        # the first page in the cycle in which it is known, the second one in the next
        shown = Mux(self.i.valid, self.i.p.bins[0], bins[1])
        m.d.comb += [
            self.o_pages.valid.eq(
                (self.i.valid | (asking & (number == 0))) & (shown >= self.config.hbm_bins)
            ),
            self.o_pages.payload.eq(shown - self.config.hbm_bins),
        ]

    def _take(self, m, port, decision):
        """Return four registers with the records, each as the last operation that wrote it left it."""
        config, kept = self.config, self.kept
        parts, bits = config.record_beats, 8 * config.bus_bytes
        size = record_layout(config).size
        taking, word = self.timeline.within(m, self.schedule.records, 4 * parts, "taking")
        which = word // parts if parts > 1 else word
        last = Signal()
        m.d.comb += [
            port.take.eq(taking),
            last.eq(taking & ((word % parts == parts - 1) if parts > 1 else 1)),
            kept.number.eq(decision.bins[which]),
        ]
        before = Signal(bits * max(parts - 1, 1), reset_less=True)
        with m.If(taking):
            m.d.sync += before.eq(Cat(before, port.word)[bits:])
        content = Cat(before, port.word) if parts > 1 else port.word
        content_q, which_q, last_q = Signal(size), Signal(2), Signal()
        m.d.sync += [content_q.eq(content[:size]), which_q.eq(which), last_q.eq(last)]
        old = [Signal(record_layout(config), name=f"old{k}") for k in range(4)]
        for k, record in enumerate(old):
            with m.If(last_q & (which_q == k)):
                m.d.sync += record.eq(Mux(kept.hit, kept.record.as_value(), content_q))
        return old

    def _place(self, m, decision, entry):
        """Return in which of the shown bins the item is, and its frame: as the entry says, or as the operation under way that moved it has left it."""
        where = data.StructLayout({"second": 1, "frame": self.config.frame_bits})
        number, written = Signal.like(decision.source), self.schedule.placed + 2
        m.submodules.moved = moved = memory.Memory(shape=where, depth=1 << len(number), init=[])
        put, get = moved.write_port(), moved.read_port(domain="comb")
        m.d.comb += [
            get.addr.eq(decision.source),
            *fields(put, en=self.timeline.at(written), addr=number),
            *fields(put.data, second=entry.second, frame=entry.frame),
        ]
        with m.If(self.timeline.at(written)):
            m.d.sync += number.eq(number + 1)
        place = Signal(where, name="place")
        for name in ("second", "frame"):
            m.d.comb += place[name].eq(
                Mux(decision.forwarded, get.data[name], getattr(decision, name))
            )
        return place

    def _leave(self, m, decision, old, item):
        """Cycle `placed`: the records without the item, the new pair's as far as it is the same bin."""
        config, layout = self.config, record_layout(self.config)
        hosts = [decision.bins[k] >= config.hbm_bins for k in range(2)]
        shown, new = [], []
        for k, host in enumerate(hosts):
            record, before = Signal(layout, name=f"shown{k}"), old[k]
            m.d.comb += [
                record.eq(before),
                record.counter.eq(before.counter + host),
                record.load.eq(before.load - (decision.found & (item.second == k))),
                record.waiting.eq(0),
            ]
            shown.append(record)
        for k in range(2):
            record = Signal(layout, name=f"current{k}")
            m.d.comb += record.eq(old[2 + k])
            for other in range(2):
                with m.If(decision.bins[2 + k] == decision.bins[other]):
                    m.d.comb += record.eq(shown[other])
            new.append(record)
        left = _Left(
            [Signal(layout, name=f"left{k}") for k in range(2)],
            [Signal(layout, name=f"new{k}") for k in range(2)],
            Signal(name="own"),
            Signal(config.frame_bits, name="own_frame"),
        )
        m.d.sync += [
            *(a.eq(b) for a, b in zip([*left.shown, *left.new], [*shown, *new], strict=True)),
            left.own.eq(decision.found & Mux(item.second, ~hosts[1], ~hosts[0])),
            left.own_frame.eq(item.frame),
        ]
        return left

    def _choose(self, m, decision, new, settle):
        """Cycle `placed` + 1: return in which bin of the new pair the item goes, the one with fewer items, and whether that is a page."""
        config = self.config
        second, to_host, load = Signal(), Signal(), Signal(config.load_bits)
        m.d.comb += [
            second.eq(new[1].load < new[0].load),
            to_host.eq(Mux(second, decision.bins[3], decision.bins[2]) >= config.hbm_bins),
            load.eq(Mux(second, new[1].load, new[0].load)),
        ]
        overfull = settle & decision.keep & to_host & (load >= config.slots)
        self._fail(m, overfull, MapError.PAGE_FULL)
        return second, to_host

    def _exchange(self, m, decision, old, left, settle):
        """Frees the frames of items that waited for a page, and of the item; returns the one where the item goes."""
        m.submodules.frames = frames = FreeFrames(self.config)
        self._fail(m, frames.full, MapError.FRAMES)
        freed = [
            (old[k].waiting > slot, old[k].frames[slot])
            for k in range(2)
            for slot in range(self.config.slots)
        ]
        m.d.comb += fields(frames, settle=settle, take=decision.keep)
        for k, (valid, frame) in enumerate([*freed, (left.own, left.own_frame)]):
            m.d.comb += [frames.there[k].eq(valid), frames.freed[k].eq(frame)]
        return frames.frame

    def _operation(self, operation, decision, old, left, frame):
        """Assignments of what is handed on."""
        first = self.config.hbm_bins
        assigned = []
        for k, side in enumerate((operation.side0, operation.side1)):
            assigned += fields(
                side,
                host=decision.bins[k] >= first,
                page=decision.bins[k] - first,
                counter=old[k].counter,
                items=old[k].load - old[k].waiting,
                waiting=old[k].waiting,
                frames=old[k].frames,
            )
        names = ("key", "status", "put", "keep")
        assigned += fields(operation, **{name: getattr(decision, name) for name in names})
        return assigned + fields(
            operation, hit=decision.found, own=left.own, own_frame=left.own_frame, frame=frame
        )

    def _entry(self, written, decision, second, frame):
        """Assignments of the entry."""
        return [
            *fields(written, changes=decision.keep | decision.found, place=decision.place),
            *fields(written.entry, key=decision.key, valid=decision.keep, second=second),
            *fields(written.entry, bin0=decision.bins[2], bin1=decision.bins[3], frame=frame),
        ]

    def _hand_on(self, m, operation, written):
        placed, timeline = self.schedule.placed, self.timeline
        m.d.comb += [
            *fields(self.o, valid=timeline.at(placed + 3), payload=operation),
            *fields(self.o_entry, valid=timeline.at(placed + 2), payload=written),
        ]
        for k, side in enumerate((operation.side0, operation.side1)):
            with m.If(timeline.at(placed + 2 + k)):
                m.d.comb += fields(self.o_counters, valid=side.host, payload=side.counter)

    def _write(self, m, port):
        """All four records, changed or not."""
        config, kept, first = self.config, self.kept, self.schedule.placed + 2
        parts, bits = config.record_beats, 8 * config.bus_bytes
        records = Array(kept.latest[k].as_value() for k in range(4))
        giving, number = self.timeline.within(m, first, 4, "giving")
        m.d.comb += [
            port.write.valid.eq(giving),
            port.write.p.address.eq(self._address(kept.latest_bins[number])),
            port.write.p.beats.eq(parts),
            *fields(kept, store=giving, place=number),
        ]
        sending, word = self.timeline.within(m, first, 4 * parts, "sending")
        full = Signal(8 * config.record_bytes)
        m.d.comb += [
            full.eq(records[word // parts]),
            port.data.valid.eq(sending),
            port.data.p.word.eq(full.word_select(word % parts, bits)),
            port.data.p.strobe.eq(Const(-1, config.bus_bytes)),
        ]
