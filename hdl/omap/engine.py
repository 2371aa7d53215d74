"""The oblivious map as an engine: its ports are `models.omap.shell.PORTS`."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring

from ...models.errors import ErrorCode
from ...models.omap.config import OmapConfig
from ...models.omap.errors import MapError
from ...models.omap.shell import port_bytes, register_map
from ..memory import AXI4
from ..memory.axi import lent_to, shared_by
from ..shell import engine_members
from .answers import Answers
from .back import Back
from .clear import Clear
from .closing import PageClosing, ticket_layout
from .front import Front
from .opening import PageOpening
from .pairs import PairGenerators
from .requests import Requests

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
        ports = [AXI4(data_bytes=size) for size in port_bytes(config)]
        super().__init__(engine_members(self.register_map, ports))

    def elaborate(self, platform):
        m = Module()
        config, registers = self.config, self.registers
        self.failures = []
        self.active, self.stopped = Signal(), Signal(reset_less=True)
        self.number = Signal(64, reset_less=True)
        self.retired = Signal(33)
        self.begin = Signal()  # cycle 0 of the operations
        keys = {
            name: Cat(registers[f"{name}_key_low"], registers[f"{name}_key_high"])
            for name in ("page", "session", "hash", "pairs")
        }
        m.submodules.pairs = pairs = PairGenerators(config)
        m.submodules.front = self.front = Front(config)
        m.submodules.back = self.back = Back(config, ticket_layout(config))
        m.d.comb += [
            pairs.start.eq(self.begin),
            pairs.number.eq(self.number),
            pairs.key.eq(keys["pairs"]),
            self.front.clear.eq(self.begin),
            self.front.key.eq(keys["hash"]),
            self.front.base.eq(registers.hbm),
            self.back.base.eq(registers.hbm),
        ]
        wiring.connect(m, pairs.o, self.front.i_pairs)
        buckets, records = self._clear(m)
        m.d.comb += self.counters.scanned.eq(buckets.moved + records.moved)
        lent_to(m, self.m2, self.front.bucket_bus, (buckets.bus, buckets.busy))
        lent_to(m, self.m3, self.front.record_bus, (records.bus, records.busy))
        shared_by(m, self.m4, self.back.bus0)
        shared_by(m, self.m5, self.back.bus1)
        self._requests(m, keys["session"])
        self._answers(m, keys["session"])
        self._join(m, keys["page"])
        shared_by(m, self.m1, self.requests.bus, self.answers.bus)
        self._end(m)
        return m

    def _clear(self, m):
        """Regions of HBM that have to be zero at first are filled behind the first start, before the
        first operation. Returns their writers, by port."""
        config, registers = self.config, self.registers
        cleared, clearing = Signal(reset_less=True), Signal()
        begins = self.start & ~cleared & ~registers.zeroed
        clears = [Clear(bus_bytes=config.bus_bytes, at=at, size=size) for at, size in config.zeros]
        for k, clear in enumerate(clears):
            m.submodules[f"clear{k}"] = clear
            m.d.comb += [clear.start.eq(begins), clear.base.eq(registers.hbm)]
            self.failures.append((clear.error, ErrorCode.BUS_WRITE))
        ended = clearing & ~Cat(clear.busy for clear in clears).any()
        m.d.comb += [
            self.begin.eq((self.start & ~begins) | ended),
        ]
        with m.If(begins):
            m.d.sync += clearing.eq(1)
        with m.Elif(ended):
            m.d.sync += clearing.eq(0)
        with m.If(self.begin):
            m.d.sync += cleared.eq(1)
        return clears

    def _requests(self, m, key):
        registers = self.registers
        m.submodules.requests = requests = self.requests = Requests(self.config)
        wiring.connect(m, requests.head, self.front.i)
        m.d.comb += [
            requests.start.eq(self.begin),
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

    def _answers(self, m, key):
        m.submodules.answers = self.answers = answers = Answers(self.config)
        m.d.comb += [
            answers.start.eq(self.begin),
            answers.number.eq(self.number),
            answers.base.eq(self.registers.responses),
            answers.key.eq(key),
        ]

    def _join(self, m, page_key):
        """Pages to the back and from it. An operation begins there when its pages are open, and where
        it writes is room."""
        config, registers = self.config, self.registers
        front, back, answers = self.front, self.back, self.answers
        m.submodules.opening = self.opening = opening = PageOpening(config)
        m.submodules.closing = self.closing = closing = PageClosing(config)
        wiring.connect(m, front.o, back.i)
        wiring.connect(m, front.o_pages, opening.i)
        wiring.connect(m, front.o_counters, opening.i_counter)
        shared_by(m, self.m0, opening.bus, closing.bus)
        slot = Signal(range(config.window))
        m.d.comb += [
            back.go.eq(opening.open & closing.room & answers.room),
            back.ticket.eq(closing.ticket),
            self.requests.slot.eq(slot),
            self.requests.row.eq(back.message),
            back.request.eq(self.requests.data),
            opening.row.eq(back.row),
            opening.released.eq(closing.released),
            closing.merging.eq(back.merging),
            closing.closing.eq(back.closing),
            answers.put.eq(back.answer),
            answers.block.eq(back.answer_block),
            answers.data.eq(back.answer_data),
            answers.given.eq(back.answered),
            *(back.page[k].eq(opening.page[k]) for k in range(2)),
        ]
        for stage in (opening, closing):
            m.d.comb += [
                stage.key.eq(page_key),
                stage.base.eq(registers.pages),
                stage.host0.eq(back.host0),
                stage.host1.eq(back.host1),
            ]
        for stage in (opening, closing, answers):
            m.d.comb += stage.taken.eq(back.begun)
        for name in ("put", "put_row", "put_data", "hosts", "pages", "counters", "used"):
            for into, out in zip(getattr(closing, name), getattr(back, name), strict=True):
                m.d.comb += into.eq(out)
        m.d.comb += closing.sealed.eq(back.sealed)
        with m.If(back.passed):
            m.d.sync += slot.eq(slot + 1)
        with m.If(back.sealed):
            m.d.sync += self.retired.eq(self.retired + 1)
        self.failures += [
            (opening.forged, MapError.PAGE_TAG),
            (opening.bus_error, ErrorCode.BUS_READ),
            (closing.bus_error | answers.bus_error, ErrorCode.BUS_WRITE),
        ]

    def _end(self, m):
        refused = Signal()  # an earlier run left the map's memory half changed
        with m.If(self.begin):
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
            self.counters.pages.eq(self.opening.sent),
            self.counters.conflicts.eq(self.opening.waits),
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
            & (self.answers.answered == self.registers.count)
            & self.answers.idle
            & self.opening.empty
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
