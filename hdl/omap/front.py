"""The front: position map, loads, waiting items and frames; one operation after another."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.config import KEY_BYTES
from ...models.omap.errors import MapError
from ...models.omap.messages import Operation, Status
from ...models.omap.schedule import FrontSchedule
from ..memory import BurstReader, BurstWriter
from ..memory.axi import AXI4, shared_by
from ..stream.queue import Queue
from .layout import entry_layout, operation_layout, page_layout, record_layout
from .pairs import pairs_shape
from .shown import Shown
from .siphash import SipHash

__all__ = ["Front", "head_layout"]

#: commands to HBM that wait for their turn
_COMMANDS = 8


def head_layout():
    """What the front needs of a request."""
    return data.StructLayout({"operation": 8, "key": 8 * KEY_BYTES})


class _Port:
    """A port to HBM."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    @property
    def idle(self):
        return self.writer.idle & ~self.words.o.valid


class Front(wiring.Component):
    """Finds where an item is, where it goes, and what is shown: `models.omap.schedule.FrontSchedule`.

    Members
    -------
    i : In(stream of {operation, key}), i_pairs : In(stream of pairs)
    o : Out(stream of operations), o_pages : Out(stream of {page, counter})
        Both have room whenever an operation is offered on `i`.
    base : In(40)
        Where HBM's content begins.
    key : In(128)
    error : Out(1), code : Out(8)
    idle : Out(1)
    bucket_bus, record_bus : Out(AXI4)
        Where the position map lies, and the bins' records.
    """

    def __init__(self, config):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(head_layout())),
                "i_pairs": In(stream.Signature(pairs_shape(config.bin_bits))),
                "o": Out(stream.Signature(operation_layout(config))),
                "o_pages": Out(stream.Signature(page_layout(config))),
                "base": In(40),
                "key": In(128),
                "error": Out(1),
                "code": Out(8),
                "bus_error": Out(1),
                "idle": Out(1),
                "bucket_bus": Out(AXI4(data_bytes=config.bus_bytes)),
                "record_bus": Out(AXI4(data_bytes=config.bus_bytes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        self.schedule = FrontSchedule.of(config)
        self.t = Signal(range(self.schedule.end + 1))
        self.running = Signal()
        self.head = Signal(head_layout())
        self.pairs = Signal(pairs_shape(config.bin_bits))
        m.submodules.hash = self.hash = SipHash()
        m.d.comb += [
            self.idle.eq(~self.running),
            self.i.ready.eq(~self.running & self.i_pairs.valid),
            self.i_pairs.ready.eq(~self.running & self.i.valid),
            self.hash.start.eq(self.i.valid & self.i.ready),
            self.hash.message.eq(self.i.p.key),
            self.hash.key.eq(self.key),
        ]
        with m.If(self.hash.start):
            m.d.sync += [
                self.running.eq(1),
                self.t.eq(1),
                self.head.eq(self.i.payload),
                self.pairs.eq(self.i_pairs.payload),
            ]
        with m.Elif(self.running):
            m.d.sync += self.t.eq(self.t + 1)
            with m.If(self.t == self.schedule.end):
                m.d.sync += self.running.eq(0)
        self._ports(m)
        self._commands(m)
        self._receive(m)
        self._decide(m)
        self._place(m)
        self._writes(m)
        self._frames(m)
        return m

    def _at(self, cycle):
        return self.running & (self.t == cycle)

    def _fail(self, m, condition, code):
        with m.If(condition):
            m.d.comb += [self.error.eq(1), self.code.eq(code.value)]

    def _ports(self, m):
        self.buckets_port = self._port(m, "bucket", self.bucket_bus, 1)
        self.records_port = self._port(m, "record", self.record_bus, 4 * self.config.record_beats)
        ports = (self.buckets_port, self.records_port)
        m.d.comb += self.bus_error.eq(Cat(p.reader.error | p.writer.error for p in ports).any())

    def _port(self, m, name, outer, words):
        """A port's reader and writer, and the queues before them."""
        bus = self.config.bus_bytes
        port = _Port(BurstReader(bus_bytes=bus), BurstWriter(bus_bytes=bus, strobes=True))
        shared_by(m, outer, port.reader.bus, port.writer.bus)
        port.reads = Queue(port.reader.i.p.shape(), _COMMANDS)
        port.writes = Queue(port.writer.i.p.shape(), _COMMANDS)
        port.words = Queue(port.writer.i_data.p.shape(), words)
        for part in ("reader", "writer", "reads", "writes", "words"):
            setattr(m.submodules, f"{name}_{part}", getattr(port, part))
        wiring.connect(m, port.reads.o, port.reader.i)
        wiring.connect(m, port.writes.o, port.writer.i)
        wiring.connect(m, port.words.o, port.writer.i_data)
        m.d.comb += port.reader.o.ready.eq(1)
        return port

    def _record_address(self, number):
        shift = (self.config.record_bytes - 1).bit_length()
        return (self.base + self.config.records_at + (number << shift))[:40]

    def _bucket_address(self, number):
        return (self.base + number * self.config.bucket_bytes)[:40]

    def _commands(self, m):
        config, pairs = self.config, self.pairs
        bits = max((config.buckets - 1).bit_length(), 1)
        mask = config.buckets - 1
        self.buckets = [Signal(bits, name=f"bucket{k}") for k in range(2)]
        m.d.comb += [
            self.buckets[0].eq(self.hash.hash[:32] & mask),
            self.buckets[1].eq(self.hash.hash[32:] & mask),
        ]
        self.shown = [Signal(config.bin_bits, name=f"bin{k}") for k in range(2)]
        scanned = self.schedule.scanned
        records, whole = config.record_beats, config.bucket_beats
        bucket_reads, record_reads = self.buckets_port.reads, self.records_port.reads
        for cycle, reads, address, beats in (
            (1, record_reads, self._record_address(pairs.new0), records),
            (2, record_reads, self._record_address(pairs.new1), records),
            (9, bucket_reads, self._bucket_address(self.buckets[0]), whole),
            (10, bucket_reads, self._bucket_address(self.buckets[1]), whole),
            (scanned + 1, record_reads, self._record_address(self.shown[0]), records),
            (scanned + 2, record_reads, self._record_address(self.shown[1]), records),
        ):
            with m.If(self._at(cycle)):
                m.d.comb += [
                    reads.i.valid.eq(1),
                    reads.i.p.address.eq(address),
                    reads.i.p.beats.eq(beats),
                ]

    def _receive(self, m):
        """Records into registers, buckets past the comparison with the key."""
        config = self.config
        records, whole = config.record_beats, config.bucket_beats
        bucket, record = self.buckets_port.reader.o, self.records_port.reader.o
        self.beat = bucket.p.data
        scanned, beats = Signal(range(2 * whole + 2)), Signal(range(4 * records + 2))
        for counter, source in ((scanned, bucket), (beats, record)):
            with m.If(self._at(1)):
                m.d.sync += counter.eq(0)
            with m.Elif(source.valid):
                m.d.sync += counter.eq(counter + 1)
        self.records = [
            Signal(8 * config.record_bytes, name=f"raw{k}", reset_less=True) for k in range(4)
        ]
        for number, kept in enumerate(self.records):
            for part in range(records):
                with m.If(record.valid & (beats == number * records + part)):
                    m.d.sync += kept.word_select(part, 8 * config.bus_bytes).eq(record.p.data)
        early = (scanned != 2 * whole) | (beats != 2 * records)
        late = (self._at(self.schedule.scanned) & early) | (
            self._at(self.schedule.shown) & (beats != 4 * records)
        )
        self._fail(m, late, MapError.DEADLINE)
        self._scan(m, bucket.valid, scanned)

    def _scan(self, m, valid, beats):
        config = self.config
        layout = entry_layout(config)
        lanes = config.bus_bytes // config.entry_bytes
        width = 8 * config.entry_bytes
        position = Signal(range(config.bucket_slots * 2))
        which = Signal()
        m.d.comb += [
            which.eq(beats >= config.bucket_beats),
            position.eq((beats - Mux(which, config.bucket_beats, 0))[: len(position)] * lanes),
        ]
        self.hit = Signal()
        self.entry = Signal(layout)
        self.entry_bucket, self.entry_slot = Signal(), Signal(range(config.bucket_slots))
        self.room = [Signal(name=f"room{k}") for k in range(2)]
        self.room_slot = [
            Signal(range(config.bucket_slots), name=f"room_slot{k}") for k in range(2)
        ]
        self.filled = [Signal(range(config.bucket_slots + 1), name=f"filled{k}") for k in range(2)]
        with m.If(self._at(1)):
            m.d.sync += [self.hit.eq(0), *(s.eq(0) for s in (*self.room, *self.filled))]
        entries = [
            data.View(layout, self.beat[k * width : k * width + layout.size]) for k in range(lanes)
        ]
        with m.If(valid):
            for lane, entry in enumerate(entries):
                with m.If(entry.valid & (entry.key == self.head.key)):
                    m.d.sync += [
                        self.hit.eq(1),
                        self.entry.eq(entry),
                        self.entry_bucket.eq(which),
                        self.entry_slot.eq(position + lane),
                    ]
            count = sum((entry.valid for entry in entries), Const(0, 1))
            for k in range(2):
                with m.If(which == k):
                    m.d.sync += self.filled[k].eq(self.filled[k] + count)
                    with m.If(~self.room[k]):
                        for lane, entry in reversed(list(enumerate(entries))):
                            with m.If(~entry.valid):
                                m.d.sync += [
                                    self.room[k].eq(1),
                                    self.room_slot[k].eq(position + lane),
                                ]

    def _decide(self, m):
        """What the request means, from the cycle after the scan on."""
        head, config = self.head, self.config
        operation = head.operation
        self.items = Signal(range(config.capacity + 1), reset_less=True)
        self.known, self.found = Signal(), Signal()
        room = Signal()  # as it was before the operation
        with m.If(self._at(1)):
            m.d.sync += room.eq(self.items < config.capacity)
        self.put, self.insert, self.keep = Signal(), Signal(), Signal()
        m.submodules.shown = shown = Shown(config.bin_bits)
        m.d.comb += [
            self.known.eq((operation >= Operation.GET) & (operation <= Operation.DELETE)),
            self.found.eq(self.known & self.hit),
            self.put.eq(operation == Operation.PUT),
            self.insert.eq(self.put & ~self.hit & room),
            self.keep.eq(self.insert | (self.found & (operation != Operation.DELETE))),
            shown.found.eq(self.found),
            shown.kept0.eq(self.entry.bin0),
            shown.kept1.eq(self.entry.bin1),
            shown.drawn0.eq(self.pairs.shown0),
            shown.drawn1.eq(self.pairs.shown1),
            self.shown[0].eq(shown.bin0),
            self.shown[1].eq(shown.bin1),
        ]
        second = self.filled[1] < self.filled[0]
        full = self.insert & ~Mux(second, self.room[1], self.room[0])
        self._fail(m, self._at(self.schedule.scanned + 1) & full, MapError.BUCKET_FULL)
        # where the entry is written
        self.at_bucket = Signal.like(self.buckets[0])
        self.at_slot = Signal(range(config.bucket_slots))
        m.d.comb += [
            self.at_bucket.eq(Array(self.buckets)[Mux(self.found, self.entry_bucket, second)]),
            self.at_slot.eq(Mux(self.found, self.entry_slot, Array(self.room_slot)[second])),
        ]

    def _place(self, m):
        """New records: of the bins that are shown, then of the new pair, which may be the same."""
        config, layout = self.config, record_layout(self.config)
        new0, new1, old0, old1 = (
            data.View(layout, record[: layout.size]) for record in self.records
        )
        shown = []
        for k, old in enumerate((old0, old1)):
            record = Signal(layout, name=f"shown_record{k}")
            leaves = self.found & (self.entry.second == k)
            host = self.shown[k] >= config.hbm_bins
            m.d.comb += [
                record.eq(old),
                record.counter.eq(old.counter + host),
                record.load.eq(old.load - leaves),
                record.waiting.eq(0),
            ]
            shown.append(record)
        fresh = []
        numbers = (self.pairs.new0, self.pairs.new1)
        for k, (number, old) in enumerate(zip(numbers, (new0, new1), strict=True)):
            record = Signal(layout, name=f"current{k}")
            m.d.comb += record.eq(old)
            for other, same in zip(self.shown, shown, strict=True):
                with m.If(number == other):
                    m.d.comb += record.eq(same)
            fresh.append(record)
        self.second, self.to_host = Signal(), Signal()
        goes = Array(numbers)[self.second]
        m.d.comb += [
            self.second.eq(fresh[1].load < fresh[0].load),
            self.to_host.eq(goes >= config.hbm_bins),
        ]
        self.frame = Signal(config.frame_bits)
        load = Mux(self.second, fresh[1].load, fresh[0].load)
        overfull = self.keep & self.to_host & (load >= config.slots)
        self._fail(m, self._at(self.schedule.shown + 1) & overfull, MapError.PAGE_FULL)
        self.updated = [Signal(8 * config.record_bytes, name=f"updated{k}") for k in range(4)]
        with m.If(self._at(self.schedule.shown + 1)):
            for k in range(2):
                m.d.sync += self.updated[k].eq(shown[k].as_value())
                chosen = self.keep & (self.second == k)
                record = Signal(layout, name=f"new_record{k}")
                m.d.comb += record.eq(fresh[k])
                with m.If(chosen):
                    m.d.comb += record.load.eq(fresh[k].load + 1)
                    with m.If(self.to_host):
                        m.d.comb += [
                            record.waiting.eq(fresh[k].waiting + 1),
                            record.frames[fresh[k].waiting].eq(self.frame),
                        ]
                m.d.sync += self.updated[2 + k].eq(record.as_value())
        self._hand_on(m, (old0, old1))

    def _hand_on(self, m, old):
        config, shown = self.config, self.schedule.shown
        status = Mux(
            self.known,
            Mux(
                self.found,
                Status.FOUND.value,
                Mux(self.put & ~self.insert, Status.FULL.value, Status.MISSING.value),
            ),
            Status.UNKNOWN.value,
        )
        o = self.o.p
        hosts = [number >= config.hbm_bins for number in self.shown]
        self.taken_frame, self.second_held = Signal(config.frame_bits), Signal()
        self.own = Signal()
        m.d.comb += [
            self.own.eq(self.found & Mux(self.entry.second, ~hosts[1], ~hosts[0])),
            self.o.valid.eq(self._at(shown + 3)),
            o.key.eq(self.head.key),
            o.status.eq(status),
            o.put.eq(self.put),
            o.hit.eq(self.found),
            o.own.eq(self.own),
            o.own_frame.eq(self.entry.frame),
            o.keep.eq(self.keep),
            o.frame.eq(self.taken_frame),
        ]
        for k, (side, record) in enumerate(zip((o.side0, o.side1), old, strict=True)):
            page = self.shown[k] - config.hbm_bins
            m.d.comb += [
                side.host.eq(hosts[k]),
                side.page.eq(page),
                side.counter.eq(record.counter),
                side.items.eq(record.load - record.waiting),
                side.waiting.eq(record.waiting),
                side.frames.eq(record.frames),
            ]
            with m.If(self._at(shown + 2 + k)):
                m.d.comb += [
                    self.o_pages.valid.eq(hosts[k]),
                    self.o_pages.p.page.eq(page),
                    self.o_pages.p.counter.eq(record.counter),
                ]
        self.sides = old

    def _writes(self, m):
        """Records, then the entry; all are written, changed or not."""
        config, shown = self.config, self.schedule.shown
        records = config.record_beats
        numbers = (*self.shown, self.pairs.new0, self.pairs.new1)
        everything = Const(-1, config.bus_bytes)
        for k, number in enumerate(numbers):
            with m.If(self._at(shown + 2 + k)):
                m.d.comb += [
                    self.records_port.writes.i.valid.eq(1),
                    self.records_port.writes.i.p.address.eq(self._record_address(number)),
                    self.records_port.writes.i.p.beats.eq(records),
                ]
            for part in range(records):
                with m.If(self._at(shown + 2 + k * records + part)):
                    word = self.updated[k].word_select(part, 8 * config.bus_bytes)
                    m.d.comb += [
                        self.records_port.words.i.valid.eq(1),
                        self.records_port.words.i.p.word.eq(word),
                        self.records_port.words.i.p.strobe.eq(everything),
                    ]
        entry = Signal(entry_layout(config))
        m.d.comb += [
            entry.key.eq(self.head.key),
            entry.valid.eq(self.keep),
            entry.second.eq(self.second_held),
            entry.bin0.eq(self.pairs.new0),
            entry.bin1.eq(self.pairs.new1),
            entry.frame.eq(self.taken_frame),
        ]
        size = config.entry_bytes
        lanes = config.bus_bytes // size
        lane = self.at_slot[: (lanes - 1).bit_length()] if lanes > 1 else Const(0, 1)
        beat = self.at_slot >> (lanes - 1).bit_length()
        shift = (config.bus_bytes - 1).bit_length()
        address = self._bucket_address(self.at_bucket) + (beat << shift)
        with m.If(self._at(shown + 6)):
            m.d.comb += [
                self.buckets_port.writes.i.valid.eq(1),
                self.buckets_port.writes.i.p.address.eq(address),
                self.buckets_port.writes.i.p.beats.eq(1),
            ]
        with m.If(self._at(shown + 2 + 4 * records)):
            changes = self.keep | self.found
            filled = entry.as_value() | Const(0, 8 * size)
            m.d.comb += [
                self.buckets_port.words.i.valid.eq(1),
                self.buckets_port.words.i.p.word.eq(Cat(*[filled[: 8 * size]] * lanes)),
                self.buckets_port.words.i.p.strobe.eq(
                    Mux(changes, Const((1 << size) - 1, config.bus_bytes) << (lane * size), 0)
                ),
            ]
        late = self._at(self.schedule.end) & ~(self.buckets_port.idle & self.records_port.idle)
        self._fail(m, late, MapError.DEADLINE)

    def _frames(self, m):
        """Frames that are free: a ring of those that were used before, then those that never were."""
        config, shown = self.config, self.schedule.shown
        m.submodules.ring = ring = memory.Memory(
            shape=config.frame_bits, depth=config.frames, init=[]
        )
        get, put = ring.read_port(), ring.write_port()
        head = Signal(range(config.frames), reset_less=True)
        tail = Signal(range(config.frames), reset_less=True)
        level = Signal(range(config.frames + 1), reset_less=True)
        fresh = Signal(range(config.frames + 1), reset_less=True)

        def advance(pointer):
            return Mux(pointer == config.frames - 1, 0, pointer + 1)

        take, give = Signal(), Signal()
        used = Signal(range(config.frames + 1))
        m.d.comb += [
            get.addr.eq(head),
            self.frame.eq(Mux(level != 0, get.data, fresh)),
            take.eq(self._at(shown + 1) & self.keep),
            used.eq(fresh - level),
        ]
        m.d.sync += self.taken_frame.eq(Mux(take, self.frame, self.taken_frame))
        with m.If(self._at(shown + 1)):
            m.d.sync += self.second_held.eq(self.second)
        # frames of the bins that are shown, one a cycle from `shown` + 2 on
        step = Signal(range(self.schedule.end + 1))
        m.d.comb += step.eq(self.t - (shown + 2))
        slots = config.slots
        candidates = []
        for record in self.sides:
            for k in range(slots):
                candidates.append((record.waiting > k, record.frames[k]))
        candidates.append((self.own, self.entry.frame))
        freed = Signal(config.frame_bits)
        with m.Switch(step):
            for k, (there, frame) in enumerate(candidates):
                with m.Case(k):
                    m.d.comb += [
                        freed.eq(frame),
                        give.eq(there & self.running & (self.t >= shown + 2)),
                    ]
        m.d.comb += [put.addr.eq(tail), put.data.eq(freed), put.en.eq(give)]
        with m.If(give):
            m.d.sync += [tail.eq(advance(tail)), level.eq(level + 1)]
        with m.If(take):
            with m.If(level != 0):
                m.d.sync += [head.eq(advance(head)), level.eq(level - 1)]
            with m.Else():
                m.d.sync += fresh.eq(fresh + 1)
            m.d.sync += self.items.eq(self.items + self.insert)
        with m.If(self._at(shown + 1) & self.found & ~self.keep):
            m.d.sync += self.items.eq(self.items - 1)
        # when all frames of the bins are freed, the new one has to be within the bound
        end = self._at(shown + 3 + len(candidates))
        self._fail(m, end & (used > config.frames - 1), MapError.FRAMES)
