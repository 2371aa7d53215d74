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
from ..stream.passing import fields
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
        self.config, self.schedule = config, FrontSchedule.of(config)
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
        config, schedule, begin = self.config, self.schedule, Signal()
        timeline = Timeline(m, begin, schedule.end)
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
        m.submodules.port = port = HbmPort(
            bus_bytes=config.bus_bytes,
            reads=2 * schedule.within(schedule.hashed, schedule.decided),
            words=2 * config.bucket_beats * schedule.within(schedule.hashed, schedule.decided),
            writes=4,
            beats=4,
        )
        m.submodules.entries = entries = Entries(config)
        m.submodules.records = records = Records(config, timeline)
        shared_by(m, self.bucket_bus, port.bus)
        shared_by(m, self.record_bus, records.bus)
        for name in ("o", "o_pages", "o_counters"):
            wiring.connect(m, getattr(records, name), wiring.flipped(getattr(self, name)))
        m.d.comb += [
            entries.clear.eq(self.clear),
            records.clear.eq(self.clear),
            self.bus_error.eq(port.error | records.bus_error),
            *fields(self, error=records.error, code=records.code),
        ]
        self._fail(m, port.late, MapError.DEADLINE)
        asked = self._hash(m, begin, timeline, port.read)
        self._scan(m, timeline, port, entries, asked)
        self._decide(m, entries, asked.p, records.i)
        self._write(m, timeline, port, records.o_entry)
        return m

    def _fail(self, m, condition, code):
        with m.If(condition):
            m.d.comb += [self.error.eq(1), self.code.eq(code.value)]

    def _bucket_address(self, number):
        return (number * self.config.bucket_bytes)[:40]

    def _hash(self, m, begin, timeline, read):
        """Asks for the buckets; returns what is known of the operations until theirs are scanned."""
        config, schedule = self.config, self.schedule
        m.submodules.hash = hashed = SipHash(words=config.key_bytes // 8)
        asked = Signal(asked_layout(config))
        depth = schedule.within(schedule.hashed, schedule.decided + 1)
        m.submodules.waiting = waiting = Queue(asked.shape(), depth)
        half = config.buckets // 2  # one bucket lies in each half
        pairs = self.i_pairs.p
        m.d.comb += [
            *fields(hashed, start=begin, message=self.i.p.key, key=self.key),
            *fields(waiting.i, valid=timeline.at(schedule.hashed), payload=asked),
            waiting.i.p.bucket0.eq(hashed.hash[:32] & (half - 1)),
            waiting.i.p.bucket1.eq((hashed.hash[32:] & (half - 1)) | half),
        ]
        with m.If(begin):
            m.d.sync += [
                *fields(asked, operation=self.i.p.operation, key=self.i.p.key),
                *fields(asked, new0=pairs.new0, new1=pairs.new1),
                *fields(asked, shown0=pairs.shown0, shown1=pairs.shown1),
            ]
        asking, second = timeline.within(m, schedule.hashed, 2, "asking")
        bucket = Mux(second, waiting.i.p.bucket1, waiting.i.p.bucket0)
        m.d.comb += [
            read.valid.eq(asking),
            *fields(read.p, address=self._bucket_address(bucket), beats=config.bucket_beats),
        ]
        return waiting.o

    def _scan(self, m, timeline, port, entries, asked):
        """Words of both buckets, one a cycle."""
        schedule, count = self.schedule, 2 * self.config.bucket_beats
        scanning, number = timeline.within(m, schedule.scan, count, "scanning")
        m.d.comb += [
            asked.ready.eq(entries.push),
            port.take.eq(scanning),
            *fields(entries, asked=asked.p, scanning=scanning, number=number, word=port.word),
            entries.decide.eq(timeline.at(schedule.decided)),
            entries.push.eq(timeline.at(schedule.decided + 1)),
        ]

    def _decide(self, m, entries, asked, decision):
        """What the request means; the operations before it are decided."""
        config, match, now = self.config, entries.found, entries.push
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
            *fields(shown, found=hit, kept0=match.entry.bin0, kept1=match.entry.bin1),
            *fields(shown, drawn0=asked.shown0, drawn1=asked.shown1),
            *fields(entries, changes=keep | hit, keep=keep),
            entries.place.eq(Mux(hit, match.place, match.free)),
        ]
        with m.If(now & insert):
            m.d.sync += items.eq(items + 1)
        with m.If(now & hit & ~keep):
            m.d.sync += items.eq(items - 1)
        self._fail(m, now & insert & ~match.room, MapError.BUCKET_FULL)
        missing = Mux(put & ~insert, Status.FULL.value, Status.MISSING.value)
        status = Mux(known, Mux(hit, Status.FOUND.value, missing), Status.UNKNOWN.value)
        m.d.comb += [
            decision.valid.eq(now),
            *fields(decision.p, key=asked.key, status=status, put=put, found=hit, keep=keep),
            *fields(decision.p, second=match.entry.second, frame=match.entry.frame),
            *fields(decision.p, forwarded=match.forwarded, source=match.source),
            decision.p.place.eq(entries.place),
            decision.p.bins.eq(Cat(shown.bin0, shown.bin1, asked.new0, asked.new1)),
        ]

    def _write(self, m, timeline, port, written):
        """The entry; a word is written whether it changes or not."""
        config, size = self.config, self.config.entry_bytes
        lanes = config.bus_bytes // size
        bits = (lanes - 1).bit_length()
        place = written.p.place
        lane = place.slot[:bits] if lanes > 1 else Const(0, 1)
        shift = (config.bus_bytes - 1).bit_length()
        entry = written.p.entry.as_value() | Const(0, 8 * size)
        strobe = Const((1 << size) - 1, config.bus_bytes) << (lane * size)
        m.d.comb += [
            written.ready.eq(1),
            port.write.valid.eq(written.valid),
            port.write.p.address.eq(
                self._bucket_address(place.bucket) + ((place.slot >> bits) << shift)
            ),
            port.write.p.beats.eq(1),
            port.data.valid.eq(written.valid),
            port.data.p.word.eq(Cat(*[entry[: 8 * size]] * lanes)),
            port.data.p.strobe.eq(Mux(written.p.changes, strobe, 0)),
            port.due.eq(timeline.at(self.schedule.entry_seen)),
        ]
