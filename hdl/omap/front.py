"""The front: position map, loads, waiting items and frames, with many operations under way."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.errors import MapError
from ...models.omap.front_schedule import FrontSchedule
from ...models.omap.messages import Operation, Status
from ..crypto.siphash import SipHash
from ..memory import AXI4
from ..memory.axi import shared_by
from ..stream.queue import Queue
from .entries import Entries
from .hbm import HbmPort
from .layout import asked_layout, head_layout, operation_layout
from .pairs import pairs_shape
from .records import Records
from .shown import Shown
from .timeline import Timeline


class Front(wiring.Component):
    """Finds where items are, where they go, and what is shown: `models.omap.front_schedule`.

    An operation begins `interval` cycles after the one before at the earliest, and takes every step
    at a fixed distance from its beginning. What operations under way wrote and memory may not show
    yet is kept and put in its place (`Entries`, `Records`): nothing ever waits for it.
    """

    def __init__(self, config):
        self.config = config
        super().__init__(
            {
                "clear": In(1),  # no operation is under way, and HBM may be another's
                "i": In(stream.Signature(head_layout(config))),
                "i_pairs": In(stream.Signature(pairs_shape(config.bin_bits))),
                # these three have room for every operation that was offered on `i`
                "o": Out(stream.Signature(operation_layout(config))),
                "o_pages": Out(stream.Signature(config.bin_bits)),
                "o_counters": Out(stream.Signature(64)),  # how often these pages were written
                "key": In(128),
                "error": Out(1),
                "code": Out(8),
                "bus_error": Out(1),
                "idle": Out(1),
                "bucket_bus": Out(AXI4(data_bytes=config.bus_bytes)),  # where the position map lies
                "record_bus": Out(AXI4(data_bytes=config.bus_bytes)),  # where the bins' records lie
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        self.schedule = schedule = FrontSchedule.of(config)
        begin = Signal()
        self.timeline = timeline = Timeline(m, begin, schedule.end)
        pause = Signal(range(schedule.interval))
        m.d.comb += [
            self.idle.eq(timeline.idle),
            begin.eq(self.i.valid & self.i_pairs.valid & (pause == 0)),
            self.i.ready.eq(begin),
            self.i_pairs.ready.eq(begin),
        ]
        with m.If(begin):
            m.d.sync += pause.eq(schedule.interval - 1)
        with m.Elif(pause != 0):
            m.d.sync += pause.eq(pause - 1)
        m.submodules.port = self.port = HbmPort(
            bus_bytes=config.bus_bytes,
            reads=2 * schedule.within(schedule.hashed, schedule.decided),
            words=2 * config.bucket_beats * schedule.within(schedule.hashed, schedule.decided),
            writes=4,
            beats=4,
        )
        m.submodules.entries = self.entries = Entries(config)
        m.submodules.records = self.records = Records(config, timeline)
        shared_by(m, self.bucket_bus, self.port.bus)
        shared_by(m, self.record_bus, self.records.bus)
        wiring.connect(m, self.records.o, wiring.flipped(self.o))
        wiring.connect(m, self.records.o_pages, wiring.flipped(self.o_pages))
        wiring.connect(m, self.records.o_counters, wiring.flipped(self.o_counters))
        m.d.comb += [
            self.entries.clear.eq(self.clear),
            self.records.clear.eq(self.clear),
            self.bus_error.eq(self.port.error | self.records.bus_error),
            self.error.eq(self.records.error),
            self.code.eq(self.records.code),
        ]
        self._fail(m, self.port.late, MapError.DEADLINE)
        self._hash(m, begin)
        self._scan(m)
        self._decide(m)
        self._write(m)
        return m

    def _fail(self, m, condition, code):
        with m.If(condition):
            m.d.comb += [self.error.eq(1), self.code.eq(code.value)]

    def _bucket_address(self, number):
        return (number * self.config.bucket_bytes)[:40]

    def _hash(self, m, begin):
        """The buckets, and what is known of the operation until it is scanned."""
        config, schedule = self.config, self.schedule
        m.submodules.hash = hashed = SipHash(words=config.key_bytes // 8)
        asked = Signal(asked_layout(config))
        shape = asked_layout(config)
        depth = schedule.within(schedule.hashed, schedule.decided + 1)
        m.submodules.waiting = self.waiting = Queue(shape, depth)
        half = config.buckets // 2  # one bucket lies in each half
        pairs = self.i_pairs.p
        m.d.comb += [
            hashed.start.eq(begin),
            hashed.message.eq(self.i.p.key),
            hashed.key.eq(self.key),
            self.waiting.i.valid.eq(self.timeline.at(schedule.hashed)),
            self.waiting.i.payload.eq(asked),
            self.waiting.i.p.bucket0.eq(hashed.hash[:32] & (half - 1)),
            self.waiting.i.p.bucket1.eq((hashed.hash[32:] & (half - 1)) | half),
        ]
        with m.If(begin):
            m.d.sync += [
                asked.operation.eq(self.i.p.operation),
                asked.key.eq(self.i.p.key),
                asked.new0.eq(pairs.new0),
                asked.new1.eq(pairs.new1),
                asked.shown0.eq(pairs.shown0),
                asked.shown1.eq(pairs.shown1),
            ]
        asking, second = self.timeline.within(m, schedule.hashed, 2, "asking")
        bucket = Mux(second, self.waiting.i.p.bucket1, self.waiting.i.p.bucket0)
        m.d.comb += [
            self.port.read.valid.eq(asking),
            self.port.read.p.address.eq(self._bucket_address(bucket)),
            self.port.read.p.beats.eq(config.bucket_beats),
        ]

    def _scan(self, m):
        schedule, entries = self.schedule, self.entries
        count = 2 * self.config.bucket_beats
        scanning, number = self.timeline.within(m, schedule.scan, count, "scanning")
        m.d.comb += [
            self.waiting.o.ready.eq(entries.push),
            self.port.take.eq(scanning),
            entries.asked.eq(self.waiting.o.p),
            entries.scanning.eq(scanning),
            entries.number.eq(number),
            entries.word.eq(self.port.word),
            entries.decide.eq(self.timeline.at(schedule.decided)),
            entries.push.eq(self.timeline.at(schedule.decided + 1)),
        ]

    def _decide(self, m):
        """What the request means; the operations before it are decided."""
        config, asked, match = self.config, self.waiting.o.p, self.entries.found
        now = self.entries.push
        items = Signal(range(config.capacity + 1), reset_less=True)
        known, hit = Signal(), Signal()
        put, insert, keep = Signal(), Signal(), Signal()
        m.submodules.shown = shown = Shown(config.bin_bits)
        operation = asked.operation
        m.d.comb += [
            known.eq((operation >= Operation.GET) & (operation <= Operation.DELETE)),
            hit.eq(known & match.hit),
            put.eq(operation == Operation.PUT),
            insert.eq(put & ~hit & (items < config.capacity)),
            keep.eq(insert | (hit & (operation != Operation.DELETE))),
            shown.found.eq(hit),
            shown.kept0.eq(match.entry.bin0),
            shown.kept1.eq(match.entry.bin1),
            shown.drawn0.eq(asked.shown0),
            shown.drawn1.eq(asked.shown1),
            self.entries.changes.eq(keep | hit),
            self.entries.keep.eq(keep),
            self.entries.place.eq(Mux(hit, match.place, match.free)),
        ]
        with m.If(now & insert):
            m.d.sync += items.eq(items + 1)
        with m.If(now & hit & ~keep):
            m.d.sync += items.eq(items - 1)
        self._fail(m, now & insert & ~match.room, MapError.BUCKET_FULL)
        missing = Mux(put & ~insert, Status.FULL.value, Status.MISSING.value)
        status = Mux(known, Mux(hit, Status.FOUND.value, missing), Status.UNKNOWN.value)
        o = self.records.i.p
        m.d.comb += [
            self.records.i.valid.eq(now),
            o.key.eq(asked.key),
            o.status.eq(status),
            o.put.eq(put),
            o.found.eq(hit),
            o.keep.eq(keep),
            o.second.eq(match.entry.second),
            o.frame.eq(match.entry.frame),
            o.forwarded.eq(match.forwarded),
            o.source.eq(match.source),
            o.place.eq(self.entries.place),
            o.bins.eq(Cat(shown.bin0, shown.bin1, asked.new0, asked.new1)),
        ]

    def _write(self, m):
        """The entry; a word is written whether it changes or not."""
        config, written = self.config, self.records.o_entry
        size = config.entry_bytes
        lanes = config.bus_bytes // size
        bits = (lanes - 1).bit_length()
        place = written.p.place
        lane = place.slot[:bits] if lanes > 1 else Const(0, 1)
        shift = (config.bus_bytes - 1).bit_length()
        entry = written.p.entry.as_value() | Const(0, 8 * size)
        strobe = Const((1 << size) - 1, config.bus_bytes) << (lane * size)
        m.d.comb += [
            written.ready.eq(1),
            self.port.write.valid.eq(written.valid),
            self.port.write.p.address.eq(
                self._bucket_address(place.bucket) + ((place.slot >> bits) << shift)
            ),
            self.port.write.p.beats.eq(1),
            self.port.data.valid.eq(written.valid),
            self.port.data.p.word.eq(Cat(*[entry[: 8 * size]] * lanes)),
            self.port.data.p.strobe.eq(Mux(written.p.changes, strobe, 0)),
            self.port.due.eq(self.timeline.at(self.schedule.entry_seen)),
        ]
