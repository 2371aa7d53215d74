"""The position map: two buckets are scanned together with what operations under way do to them."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.front_schedule import FrontSchedule
from ..stream.passing import fields
from .layout import asked_layout, bucket_bits, entry_layout, place_layout, ring_bits


def found_layout(config):
    """What two buckets hold for a key. `hit`: it has an entry, which lies at `place`; `forwarded`:
    operation `source`, still under way, wrote it, so that `second` and `frame` are not known yet;
    `room`: the bucket with fewer entries, the first one if both have as many, has room at `free`, its first
    empty slot.
    """
    return data.StructLayout(
        {
            "hit": 1,
            "entry": entry_layout(config),
            "place": place_layout(config),
            "forwarded": 1,
            "source": ring_bits(FrontSchedule.of(config).kept_entries),
            "room": 1,
            "free": place_layout(config),
        }
    )


class Entries(wiring.Component):
    """Scans the buckets of one operation after another.

    An operation that is under way may have written an entry that the memory's words do not show. The
    last `kept_entries` operations are therefore kept: their places count as they left them, whatever
    the words say.
    """

    def __init__(self, config):
        self.config = config
        super().__init__(
            {
                "clear": In(1),  # no operation is under way: forget them
                "asked": In(asked_layout(config)),  # the operation that is scanned
                "scanning": In(1),  # a word of its buckets is there
                "number": In(range(2 * config.bucket_beats)),  # which word it is
                "word": In(8 * config.bus_bytes),
                "decide": In(1),  # the cycle after the last word
                # in the cycle after `decide`, as is what follows
                "found": Out(found_layout(config)),
                "push": In(1),  # the operation's number is over
                "changes": In(1),  # it writes an entry at `place`
                "keep": In(1),  # the entry is a valid one
                "place": In(place_layout(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self._pending(m)
        self._scan(m)
        self._decide(m)
        return m

    def _pending(self, m):
        """The places that the last operations wrote, the latest first. `live`: no later one wrote it
        again."""
        config = self.config
        kept = FrontSchedule.of(config).kept_entries
        layout = data.StructLayout(
            {
                "live": 1,
                "valid": 1,
                "key": 8 * config.key_bytes,
                "place": place_layout(config),
                "bin0": config.bin_bits,
                "bin1": config.bin_bits,
            }
        )
        self.pending = [Signal(layout, name=f"pending{k}") for k in range(kept)]
        self.operation = Signal(ring_bits(kept))
        entering = Signal(layout)
        m.d.comb += fields(entering, live=self.changes, valid=self.keep, key=self.asked.key)
        m.d.comb += fields(entering, place=self.place, bin0=self.asked.new0, bin1=self.asked.new1)
        with m.If(self.push):
            m.d.sync += self.operation.eq(self.operation + 1)
            following = entering
            for entry in self.pending:
                m.d.sync += entry.eq(following)
                if following is not entering:
                    again = entering.live & (
                        following.place.as_value() == entering.place.as_value()
                    )
                    m.d.sync += entry.live.eq(following.live & ~again)
                following = entry
        with m.Elif(self.clear):
            m.d.sync += [entry.live.eq(0) for entry in self.pending]

    def _scan(self, m):
        config = self.config
        layout = entry_layout(config)
        lanes = config.bus_bytes // config.entry_bytes
        width = 8 * config.entry_bytes
        beats = config.bucket_beats
        which, bucket = Signal(), Signal(bucket_bits(config))
        slots = Signal(range(2 * config.bucket_slots))  # of the word's first entry
        m.d.comb += [
            which.eq(self.number >= beats),
            slots.eq((self.number - Mux(which, beats, 0))[: len(slots)] * lanes),
            bucket.eq(Mux(which, self.asked.bucket1, self.asked.bucket0)),
        ]
        hits = [p.live & (p.place.bucket == bucket) for p in self.pending]
        valid, same = [], []
        entries = []
        for lane in range(lanes):
            bits = self.word[lane * width : lane * width + layout.size]
            entry = Signal(layout, name=f"entry{lane}")
            written = [
                t & (p.place.slot == slots + lane) for t, p in zip(hits, self.pending, strict=True)
            ]
            stale, held = Signal(name=f"stale{lane}"), Signal(name=f"held{lane}")
            m.d.comb += [
                entry.eq(bits),
                stale.eq(Cat(written).any()),
                held.eq(Cat(w & p.valid for w, p in zip(written, self.pending, strict=True)).any()),
            ]
            entries.append(entry)
            valid.append(Mux(stale, held, entry.valid))
            same.append(entry.valid & ~stale & (entry.key == self.asked.key))
        count = Signal(range(lanes + 1))
        m.d.comb += count.eq(sum(valid, Const(0, 1)))
        self.hit, self.entry = Signal(), Signal(layout)
        self.place_hit = Signal(place_layout(config))
        self.room = [Signal(name=f"room{k}") for k in range(2)]
        self.free = [Signal.like(self.place_hit.slot, name=f"free{k}") for k in range(2)]
        self.filled = [Signal(range(config.bucket_slots + 1), name=f"filled{k}") for k in range(2)]
        with m.If(self.push):
            m.d.sync += [self.hit.eq(0), *(s.eq(0) for s in (*self.room, *self.filled))]
        with m.Elif(self.scanning):
            for lane in range(lanes):
                with m.If(same[lane]):
                    m.d.sync += [
                        self.hit.eq(1),
                        self.entry.eq(entries[lane]),
                        self.place_hit.bucket.eq(bucket),
                        self.place_hit.slot.eq(slots + lane),
                    ]
            for k in range(2):
                with m.If(which == k):
                    m.d.sync += self.filled[k].eq(self.filled[k] + count)
                    with m.If(~self.room[k]):
                        for lane in reversed(range(lanes)):
                            with m.If(~valid[lane]):
                                m.d.sync += [self.room[k].eq(1), self.free[k].eq(slots + lane)]

    def _decide(self, m):
        """Memory's entries and those of operations under way together."""
        config, asked = self.config, self.asked
        hit = Signal()
        pair = Signal(2 * config.bin_bits)
        place = Signal(place_layout(config))
        distance = Signal(range(len(self.pending)))
        for k, entry in enumerate(self.pending):
            with m.If(entry.live & entry.valid & (entry.key == asked.key)):
                m.d.comb += [
                    hit.eq(1),
                    pair.eq(Cat(entry.bin0, entry.bin1)),
                    place.eq(entry.place),
                    distance.eq(k),
                ]
        second = Signal()
        m.d.comb += second.eq(self.filled[1] < self.filled[0])
        with m.If(self.decide):
            m.d.sync += [
                self.found.hit.eq(hit | self.hit),
                self.found.forwarded.eq(hit),
                self.found.source.eq(self.operation - 1 - distance),
                self.found.entry.eq(self.entry),
                self.found.place.eq(Mux(hit, place, self.place_hit)),
                self.found.room.eq(Array(self.room)[second]),
                self.found.free.bucket.eq(Mux(second, asked.bucket1, asked.bucket0)),
                self.found.free.slot.eq(Array(self.free)[second]),
            ]
            with m.If(hit):
                m.d.sync += Cat(self.found.entry.bin0, self.found.entry.bin1).eq(pair)
