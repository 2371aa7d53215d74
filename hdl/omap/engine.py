"""The oblivious map as an engine: its ports are `models.omap.shell.PORTS`."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring

from ...models.errors import ErrorCode
from ...models.omap.config import OmapConfig
from ...models.omap.errors import MapError
from ...models.omap.messages import response_nonce
from ...models.omap.shell import PORTS, register_map
from ..memory import AXI4
from ..memory.axi import shared_by
from ..shell import engine_members
from ..stream.queue import Queue
from .back import Back
from .front import Front
from .pages import PageReads, PageWrites, WordDrain
from .pairs import PairGenerators
from .requests import Requests
from .sealing import Opener, Sealer

__all__ = ["MapEngine"]


class MapEngine(wiring.Component):
    """Answers `count` sealed requests with sealed responses, in their order.

    Requests pass one after another through `Requests`, the front (`Front`), the page readers
    with their openers, the back (`Back`), and the page sealers with their writer. Each of these takes
    a time that depends on nothing but arrivals and on which pages are opened. Timing:
    `models.omap.cycles`.
    """

    def __init__(self, config: OmapConfig, design: int = 0):
        self.config, self.register_map = config, register_map(design)
        port = AXI4(data_bytes=config.bus_bytes)
        super().__init__(engine_members(self.register_map, [port] * len(PORTS)))

    def elaborate(self, platform):
        m = Module()
        config, registers = self.config, self.registers
        self.failures = []
        self.active, self.stopped = Signal(), Signal(reset_less=True)
        self.number = Signal(64, reset_less=True)
        self.retired = Signal(33)
        keys = {
            name: Cat(registers[f"{name}_key_low"], registers[f"{name}_key_high"])
            for name in ("page", "session", "hash", "pairs")
        }
        m.submodules.pairs = pairs = PairGenerators(config)
        m.submodules.front = self.front = Front(config)
        m.submodules.back = self.back = Back(config)
        m.d.comb += [
            pairs.start.eq(self.start),
            pairs.number.eq(self.number),
            pairs.key.eq(keys["pairs"]),
            self.front.clear.eq(self.start),
            self.front.key.eq(keys["hash"]),
            self.front.base.eq(registers.hbm),
            self.back.base.eq(registers.hbm),
        ]
        wiring.connect(m, pairs.o, self.front.i_pairs)
        shared_by(m, self.m2, self.front.bucket_bus)
        shared_by(m, self.m3, self.front.record_bus)
        shared_by(m, self.m4, self.back.bus)
        m.submodules.operations = operations = Queue(self.front.o.p.shape(), config.window)
        wiring.connect(m, self.front.o, operations.i)
        wiring.connect(m, operations.o, self.back.i)
        self._requests(m, keys["session"])
        self._open(m, keys["page"])
        self._seal(m, keys["page"])
        self._responses(m, keys["session"])
        self._join(m)
        self._end(m)
        return m

    def _requests(self, m, key):
        registers = self.registers
        m.submodules.requests = requests = self.requests = Requests(self.config)
        shared_by(m, self.m1, requests.bus)
        wiring.connect(m, requests.head, self.front.i)
        m.d.comb += [
            requests.start.eq(self.start),
            requests.active.eq(self.active),
            requests.number.eq(self.number),
            requests.address.eq(registers.requests),
            requests.interval.eq(registers.interval),
            requests.count.eq(registers.count),
            requests.retired.eq(self.retired),
            requests.key.eq(key),
        ]
        self.failures += [
            (requests.bus_error, ErrorCode.BUS_READ),
            (requests.refused, MapError.REQUEST_TAG),
        ]

    def _open(self, m, key):
        """Pages are read in the order in which they are shown, each one by the next opener."""
        config = self.config
        m.submodules.reads = reads = self.reads = PageReads(config)
        wiring.connect(m, self.front.o_pages, reads.i)
        m.d.comb += reads.base.eq(self.registers.pages)
        slots = max(config.pages_in_flight // config.openers, 1)
        self.openers = []
        self.open_slots = []
        self.open_texts = []
        for k in range(config.openers):
            opener = Opener(
                bus_bytes=config.bus_bytes,
                chunks=config.chunks,
                blocks=config.chunk_blocks,
                slots=slots,
                rounds=config.rounds,
                cipher=config.cipher,
            )
            m.submodules[f"opener{k}"] = opener
            slot = Signal(range(max(slots, 2)), name=f"open_slot{k}")
            texts = Signal(range(slots + 1), name=f"open_texts{k}")
            consumed = Signal(name=f"consumed{k}")
            m.d.comb += [
                opener.key.eq(key),
                opener.i.payload.eq(reads.o.payload),
                opener.i.valid.eq(reads.o.valid & (reads.to == k)),
                opener.i_data.payload.eq(reads.data),
                opener.i_data.valid.eq(reads.data_valid & (reads.data_to == k)),
                opener.slot.eq(slot),
                opener.block.eq(self.back.block),
            ]
            m.d.sync += texts.eq(texts + opener.ended - consumed)
            with m.If(consumed):
                m.d.sync += slot.eq(Mux(slot == slots - 1, 0, slot + 1))
            self.failures.append((opener.ended & ~opener.fits, MapError.PAGE_TAG))
            self.openers.append(opener)
            self.open_slots.append(consumed)
            self.open_texts.append(texts)
        m.d.comb += reads.o.ready.eq(1)
        self.failures.append((reads.bus_error, ErrorCode.BUS_READ))

    def _seal(self, m, key):
        config, back = self.config, self.back
        m.submodules.writes = writes = self.writes = PageWrites(config)
        m.submodules.drain = drain = WordDrain(config.bus_bytes, config.page_beats)
        m.d.comb += writes.base.eq(self.registers.pages)
        op = back.i.p
        self.first_sealer = Signal(range(config.sealers))
        self.second_sealer = Signal(range(config.sealers))
        m.d.comb += self.second_sealer.eq(self.first_sealer + op.side0.host)
        self.seal_texts = []
        sealers = []
        for k in range(config.sealers):
            sealer = Sealer(
                bus_bytes=config.bus_bytes,
                chunks=config.chunks,
                blocks=config.chunk_blocks,
                rounds=config.rounds,
                cipher=config.cipher,
            )
            m.submodules[f"sealer{k}"] = sealer
            slot, texts = Signal(name=f"seal_slot{k}"), Signal(2, name=f"seal_texts{k}")
            one = op.side0.host & (self.first_sealer == k)
            two = op.side1.host & (self.second_sealer == k)
            page = Mux(two, op.side1.page, op.side0.page)
            counter = Mux(two, op.side1.counter, op.side0.counter) + 1
            given = back.sealed & (one | two)
            m.d.comb += [
                sealer.key.eq(key),
                sealer.put.eq(Mux(two, back.put1, one & back.put0)),
                sealer.slot.eq(slot),
                sealer.block.eq(back.put_block),
                sealer.data.eq(back.put_data),
                sealer.i.valid.eq(given),
                sealer.i.p.nonce.eq(Cat(counter[:64], page)),
                sealer.i.p.used.eq(Mux(two, back.used1, back.used0)),
            ]
            m.d.sync += [texts.eq(texts + given - sealer.ended), slot.eq(slot ^ given)]
            self.seal_texts.append(texts)
            sealers.append(sealer)
        with m.If(back.sealed):
            m.d.sync += self.first_sealer.eq(self.second_sealer + op.side1.host)
        later = Signal()
        m.d.sync += later.eq(back.sealed)
        m.d.comb += [
            writes.i.valid.eq((back.sealed & op.side0.host) | (later & op.side1.host)),
            writes.i.payload.eq(Mux(later, op.side1.page, op.side0.page)),
        ]
        # whole pages leave in order
        source = Signal(range(config.sealers))
        m.d.comb += [
            drain.whole.eq(Array(s.whole for s in sealers)[source]),
            drain.word.eq(Array(s.o.payload for s in sealers)[source]),
            drain.address.eq(writes.o.payload),
            drain.valid.eq(writes.o.valid),
            writes.o.ready.eq(drain.ended),
            writes.begun.eq(drain.begun),
        ]
        for k, sealer in enumerate(sealers):
            m.d.comb += [
                sealer.o.ready.eq(drain.moved & (source == k)),
                sealer.taken.eq(drain.ended & (source == k)),
            ]
        with m.If(drain.ended):
            m.d.sync += source.eq(source + 1)
        shared_by(m, self.m0, self.reads.bus, drain.bus)
        m.d.comb += [
            writes.answered.eq(drain.bus.bvalid),
            self.reads.released.eq(writes.released),
        ]
        self.failures.append((drain.error, ErrorCode.BUS_WRITE))
        self.page_drain = drain

    def _responses(self, m, key):
        config, back = self.config, self.back
        m.submodules.response_sealer = sealer = Sealer(
            bus_bytes=config.bus_bytes,
            chunks=1,
            blocks=config.message_blocks,
            rounds=config.rounds,
            cipher=config.cipher,
        )
        m.submodules.response_drain = drain = WordDrain(config.bus_bytes, config.message_beats)
        slot, texts = Signal(), Signal(2)
        address, answered = Signal(40), Signal(33)
        high = response_nonce(0) >> 64
        m.d.comb += [
            sealer.key.eq(key),
            sealer.put.eq(back.answer),
            sealer.slot.eq(slot),
            sealer.block.eq(back.answer_block),
            sealer.data.eq(back.answer_data),
            sealer.i.valid.eq(back.sealed),
            sealer.i.p.nonce.eq(Cat((self.number + self.retired)[:64], Const(high, 64))),
            sealer.i.p.used.eq(config.message_blocks),
            drain.valid.eq(1),
            drain.whole.eq(sealer.whole),
            drain.word.eq(sealer.o.payload),
            drain.address.eq(address),
            sealer.o.ready.eq(drain.moved),
            sealer.taken.eq(drain.ended),
        ]
        m.d.sync += [texts.eq(texts + back.sealed - sealer.ended), slot.eq(slot ^ back.sealed)]
        with m.If(self.start):
            m.d.sync += [address.eq(self.registers.responses), answered.eq(0)]
        with m.Elif(drain.ended):
            m.d.sync += [address.eq(address + config.message_bytes), answered.eq(answered + 1)]
        shared_by(m, self.m1, drain.bus)
        self.failures.append((drain.error, ErrorCode.BUS_WRITE))
        self.response_texts, self.answered, self.response_drain = texts, answered, drain

    def _join(self, m):
        """The back begins when the pages of its operation are open, and where it writes is room."""
        config, back = self.config, self.back
        op = back.i.p
        opener0, opener1 = Signal(range(config.openers)), Signal(range(config.openers))
        m.d.comb += opener1.eq(opener0 + op.side0.host)
        for k in range(config.openers):
            one = op.side0.host & (opener0 == k)
            two = op.side1.host & (opener1 == k)
            m.d.comb += self.open_slots[k].eq(back.sealed & (one | two))
        with m.If(back.sealed):
            m.d.sync += [
                opener0.eq(opener1 + op.side1.host),
                self.retired.eq(self.retired + 1),
            ]
        texts, sealing = Array(self.open_texts), Array(self.seal_texts)
        ready = [
            ~op.side0.host | ((texts[opener0] != 0) & (sealing[self.first_sealer] != 2)),
            ~op.side1.host | ((texts[opener1] != 0) & (sealing[self.second_sealer] != 2)),
            self.response_texts != 2,
        ]
        datas = Array(opener.data for opener in self.openers)
        slot = Signal(range(config.window))
        m.d.comb += [
            back.go.eq(Cat(*ready).all()),
            back.page0.eq(datas[opener0]),
            back.page1.eq(datas[opener1]),
            self.requests.block.eq(back.message),
            back.request.eq(self.requests.data),
            self.requests.slot.eq(slot),
        ]
        with m.If(back.sealed):
            m.d.sync += slot.eq(slot + 1)

    def _end(self, m):
        refused = Signal()  # an earlier run left the map's memory half changed
        with m.If(self.start):
            m.d.sync += [
                self.active.eq(1),
                refused.eq(self.stopped),
                self.stopped.eq(1),
                self.retired.eq(0),
            ]
        front, back = self.front, self.back
        failures = [
            (self.active & refused, MapError.STOPPED),
            *self.failures,
            (front.bus_error | back.bus_error, ErrorCode.BUS_READ),
        ]
        m.d.comb += [
            self.counters.operations.eq(back.sealed),
            self.counters.pages.eq(self.reads.sent),
            self.counters.conflicts.eq(self.reads.waits),
        ]
        with m.If(front.error):
            m.d.comb += [self.error.eq(1), self.report.code.eq(front.code)]
        with m.If(back.error):
            m.d.comb += [self.error.eq(1), self.report.code.eq(back.code)]
        for condition, code in reversed(failures):
            with m.If(condition):
                m.d.comb += [self.error.eq(1), self.report.code.eq(code.value)]
        m.d.comb += self.done.eq(
            self.active
            & (self.answered == self.registers.count)
            & self.response_drain.idle
            & self.reads.empty
            & front.idle
            & back.idle
            & ~refused
            & ~self.error
        )
        with m.If(self.done):
            m.d.sync += [
                self.active.eq(0),
                self.stopped.eq(0),
                self.number.eq(self.number + self.registers.count),
            ]
