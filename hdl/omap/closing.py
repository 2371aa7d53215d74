"""Merged pages are sealed and written back, in their order."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..memory import AXI4
from ..stream.passing import fields
from .pages import PageWrites, WordDrain
from .sealing import Sealer


def ticket_layout(config):
    """Where the pages of an operation are sealed: the sealers, and the slots of their RAM."""
    sealer = (config.cores.sealers - 1).bit_length()
    return data.StructLayout({"sealers": data.ArrayLayout(sealer, 2), "slots": 2})


class PageClosing(wiring.Component):
    """Seals each page in the next sealer, and writes whole ciphertexts."""

    def __init__(self, config):
        self.config = config
        rows = max(config.page_rows, 2)
        ticket = ticket_layout(config)
        super().__init__(
            {
                "key": In(128),
                "base": In(40),
                # whether the next operation has pages
                "host0": In(1),
                "host1": In(1),
                "room": Out(1),  # there is room for them
                "ticket": Out(ticket),  # in these places
                "taken": In(1),  # the places are taken
                # rows of pages, and their places
                "merging": In(ticket),
                "put": In(1).array(2),
                "put_row": In(range(rows)).array(2),
                "put_data": In(128 * config.merge_blocks).array(2),
                # pages are whole, and their places
                "closing": In(ticket),
                "sealed": In(1),
                "hosts": In(1).array(2),
                "pages": In(config.bin_bits).array(2),
                "counters": In(64).array(2),
                "used": In(range(rows + 1)).array(2),
                "released": Out(1),  # the oldest page is written, and the write is answered
                "idle": Out(1),
                "bus_error": Out(1),
                "bus": Out(AXI4(data_bytes=config.host_bus_bytes, read=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        first, second = Signal(range(config.cores.sealers)), Signal(range(config.cores.sealers))
        m.d.comb += [
            second.eq(first + self.host0),
            self.ticket.sealers[0].eq(first),
            self.ticket.sealers[1].eq(second),
        ]
        with m.If(self.taken):
            m.d.sync += first.eq(second + self.host1)
        sealers, texts, slots = [], [], []
        for k in range(config.cores.sealers):
            sealer = Sealer(
                bus_bytes=config.host_bus_bytes,
                chunks=config.chunks,
                blocks=config.chunk_blocks,
                rounds=config.cores.rounds,
                parts=config.slot_blocks,
                lanes=config.merge_blocks,
            )
            m.submodules[f"sealer{k}"] = sealer
            slot, count = Signal(name=f"slot{k}"), Signal(2, name=f"texts{k}")
            takes = Signal(name=f"takes{k}")
            m.d.comb += takes.eq(
                self.taken & ((self.host0 & (first == k)) | (self.host1 & (second == k)))
            )
            m.d.sync += [count.eq(count + takes - sealer.ended), slot.eq(slot ^ takes)]
            self._connect(m, k, sealer)
            sealers.append(sealer)
            texts.append(count)
            slots.append(slot)
        counts, slot = Array(texts), Array(slots)
        m.d.comb += [
            self.room.eq(
                (~self.host0 | (counts[first] != 2)) & (~self.host1 | (counts[second] != 2))
            ),
            self.ticket.slots.eq(Cat(slot[first], slot[second])),
        ]
        self._write(m, sealers)
        return m

    def _connect(self, m, k, sealer):
        """What a sealer gets of the merge and of whole pages."""
        two = self.merging.sealers[1] == k
        one = self.merging.sealers[0] == k
        second = self.put[1] & two
        m.d.comb += [
            sealer.key.eq(self.key),
            sealer.put.eq(second | (self.put[0] & one)),
            sealer.slot.eq(Mux(second, self.merging.slots[1], self.merging.slots[0])),
            sealer.row.eq(Mux(second, self.put_row[1], self.put_row[0])),
            sealer.data.eq(Mux(second, self.put_data[1], self.put_data[0])),
        ]
        one = self.hosts[0] & (self.closing.sealers[0] == k)
        two = self.hosts[1] & (self.closing.sealers[1] == k)
        page = Mux(two, self.pages[1], self.pages[0])
        counter = Mux(two, self.counters[1], self.counters[0]) + 1
        m.d.comb += [
            sealer.i.valid.eq(self.sealed & (one | two)),
            sealer.i.p.nonce.eq(Cat(counter[:64], page)),
            sealer.i.p.used.eq(Mux(two, self.used[1], self.used[0])),
        ]

    def _write(self, m, sealers):
        """Whole pages leave in their order."""
        config = self.config
        m.submodules.writes = writes = PageWrites(config)
        m.submodules.drain = drain = WordDrain(config.host_bus_bytes, config.page_beats)
        later, page = Signal(), Signal(config.bin_bits)
        source = Signal(range(config.cores.sealers))
        m.d.sync += [later.eq(self.sealed & self.hosts[1]), page.eq(self.pages[1])]
        wiring.connect(m, drain.bus, wiring.flipped(self.bus))
        m.d.comb += [
            writes.base.eq(self.base),
            writes.i.valid.eq((self.sealed & self.hosts[0]) | later),
            writes.i.payload.eq(Mux(later, page, self.pages[0])),
            writes.o.ready.eq(drain.ended),
            writes.begun.eq(drain.begun),
            writes.answered.eq(drain.bus.bvalid),
            drain.coming.eq(Array(s.coming for s in sealers)[source]),
            drain.whole.eq(Array(s.whole for s in sealers)[source]),
            drain.word.eq(Array(s.o.payload for s in sealers)[source]),
            drain.address.eq(writes.o.payload),
            drain.valid.eq(writes.o.valid),
            *fields(self, released=writes.released, idle=drain.idle, bus_error=drain.error),
        ]
        for k, sealer in enumerate(sealers):
            m.d.comb += [
                sealer.o.ready.eq(drain.moved & (source == k)),
                sealer.taken.eq(drain.ended & (source == k)),
            ]
        with m.If(drain.ended):
            m.d.sync += source.eq(source + 1)
