"""Which words the engine reads, and when: descriptors ahead, bodies of jobs in their order, passes when they are asked for."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.utils import exact_log2

from ...models.qr.config import FitPlan
from ...models.qr.descriptor import descriptor_faults
from ...models.qr.layout import DESCRIPTOR_BYTES, Size, memo_reads, words
from ...models.qr.requests import AHEAD, Route
from ...models.qr.shell import ADDRESS_BITS
from ...models.qr.stages import fetch
from ..arith.pipeline import Pipeline
from ..index import index, index_range
from ..stream.passing import fields, passed_on
from ..stream.queue import Queue
from .control import Control
from .descriptor import checked, descriptor_shape
from .group_rows import RowRequests
from .records import COUNTS

#: bits of a `Route`
ROUTE_BITS = 4


def request_shape():
    """Words to read; `final`: the last request of a job's body."""
    return data.StructLayout(
        {"address": ADDRESS_BITS, "beats": 24, "route": ROUTE_BITS, "final": 1}
    )


def body_shape(config):
    """A job whose body has been asked for."""
    numbers = {"slot": index_range(config.jobs), "solver": index_range(config.solvers)}
    return data.StructLayout({**numbers, "descriptor": descriptor_shape})


#: what is kept of a descriptor
_KEPT = "group prefix length rows span epoch limit rows_at result".split()


def slot_shape():
    """What the end of a job must know of its descriptor; `code`: `models.errors.ErrorCode` of the descriptor."""
    kept = {name: descriptor_shape[name].shape for name in _KEPT}
    return data.StructLayout({**kept, "full": 1, "code": 8})


def _asked(request, valid, address, beats, route):
    """Assignments of a request's fields; add them to the combinational domain."""
    return [request.valid.eq(valid), *fields(request.p, address=address, beats=beats, route=route)]


class Fetch:
    """Adds the requests of a run to the engine's module, one a cycle: a pass's first, then descriptors, then bodies.

    Descriptors are asked for as long as fewer than `AHEAD` have come or are on their way without their job having begun. A job begins when fewer than
    `jobs` are between here and their end: one cycle to check its descriptor, one to keep it, then a request a cycle (head and offsets, anchor, factor,
    changes, rows where c comes from a pass, sums; or head and rows). A descriptor that is wrong is kept with its code, and nothing is read for it.

    Parameters
    ----------
    registers, start
        `ring`: where the first descriptor lies, `jobs`: how many there are; constant during the run, which begins with `start`.
    retired
        Jobs that have ended.
    intake
        Gives descriptors as they come, which are always taken; takes jobs whose bodies come, offered until they have come.
    """

    def __init__(self, m: Module, config: FitPlan, registers, start, retired, intake):
        self.config, self.intake, self.pipe = config, intake, Pipeline(m)
        # `slot_valid`, `slot`, `kept`: a job has begun
        self.retired, self.slot_valid, self.kept = retired, Signal(), Signal(slot_shape())
        self.bus, self.shift = config.bus_bytes, exact_log2(config.bus_bytes)
        m.submodules.came = self.came = Queue(descriptor_shape, AHEAD)
        m.submodules.bodies = self.bodies = Queue(body_shape(config), AHEAD)
        self.requests = RowRequests(m, config, "rows")
        self.passes = RowRequests(m, config, "passes")
        self.passing = self.passes.i  # passes to be asked for
        self.o = stream.Signature(request_shape()).create(path=("request",))
        self._requests(m)
        self._descriptors(m, registers, start)

        # a job's body; the descriptor is there from LOOK on, what is made of it a cycle later, sums of that two
        self.d = self.came.o.p
        self.code = checked(m, descriptor_faults(self.d, self.config))
        self.slot, self.solver = index(config.jobs), index(config.solvers)
        self.sizes = [Size(max(n, 1), 0) for n in range(self.config.n_max + 1)]
        self._places()
        self._body_done(m)
        self._phases(m)

    def _requests(self, m):
        """Three that ask; the one that is heard is held in a register."""
        m.d.comb += [
            self.came.i.payload.eq(self.intake.descriptor),
            self.came.i.valid.eq(self.intake.descriptor_valid),
            *passed_on(self.bodies.o, self.intake.body),
        ]
        ask = stream.Signature(request_shape())
        pass_, self.ring_request = ask.create(path=("pass",)), ask.create(path=("ring",))
        self.own = ask.create(path=("own",))
        free = Signal()
        request = Signal(request_shape(), reset_less=True)
        m.d.comb += [
            free.eq(~self.o.valid | self.o.ready),
            pass_.ready.eq(free),
            self.ring_request.ready.eq(free & ~pass_.valid),
            self.own.ready.eq(free & ~pass_.valid & ~self.ring_request.valid),
            self.o.payload.eq(request),
        ]
        with m.If(free):
            m.d.sync += self.o.valid.eq(pass_.valid | self.ring_request.valid | self.own.valid)
            m.d.sync += request.eq(self.own.payload)
            for other in (self.ring_request, pass_):
                with m.If(other.valid):
                    m.d.sync += request.eq(other.payload)
        rows = self.passes.o
        of_pass = Mux(rows.p.bits, Route.PASS_BITS, Route.PASS_ROWS)
        m.d.comb += _asked(pass_, rows.valid, rows.p.address, rows.p.beats, of_pass)
        m.d.comb += rows.ready.eq(pass_.ready)

    def _descriptors(self, m, registers, start):
        """Descriptors of the ring, up to `AHEAD` of them before their bodies."""
        running = Signal()
        asked = Signal(32)
        self.begun = Signal(32)
        next_at = Signal(ADDRESS_BITS, reset_less=True)
        per = words(DESCRIPTOR_BYTES, self.bus)
        wanted = running & (asked != registers.jobs) & ((asked - self.begun)[:32] < AHEAD)
        m.d.comb += _asked(self.ring_request, wanted, next_at, per, Route.DESCRIPTOR)
        with m.If(start):
            m.d.sync += [running.eq(1), next_at.eq(registers.ring)]
        with m.If(self.ring_request.valid & self.ring_request.ready):
            m.d.sync += [asked.eq(asked + 1), next_at.eq(next_at + per * self.bus)]

    def _places(self):
        """Words of what is read of the memo, and where it lies; then those of the changes."""
        self.of, self.at, columns = {}, {}, self.d.length + 1
        reads = [memo_reads(size, self.config) for size in self.sizes]
        for name in reads[0]:
            before, counts = zip(*(read[name] for read in reads), strict=True)
            self.of[name] = self.pipe.delay(Array(counts)[columns], 1, name=f"of_{name}")
            behind = self.pipe.delay(Array(before)[columns], 1, name=f"before_{name}")
            self.at[name] = self.pipe.delay(
                self.d.memo + (behind << self.shift), 1, name=f"at_{name}"
            )
        # units of 4 bytes; asked for three cycles after LOOK at the earliest, behind the head
        delay, each, records = self.pipe.delay, self.bus // 4, sum(self.d[name] for name in COUNTS)
        self.records = delay(records[:26], 1, name="records")
        units = self.records * delay(2 + ((self.d.length + 3) >> 2), 1, name="of_record")
        units = delay(units[:32], 1, name="units")
        self.of_changes = delay((units + (each - 1)) >> exact_log2(each), 1, name="of_changes")

    def _body_done(self, m):
        """What a job's body is, and its end."""
        self.done = Signal()
        m.d.comb += [
            *fields(self.kept, code=self.code, full=self.d.flags[0]),
            *(self.kept[name].eq(self.d[name]) for name in _KEPT),
            *fields(self.bodies.i.p, slot=self.slot, solver=self.solver, descriptor=self.d),
            self.came.o.ready.eq(self.done),
            self.requests.i.p.address.eq(self.d.rows_at),
            *fields(self.requests.i.p, span=self.d.span, length=self.d.length),
        ]
        with m.If(self.done):
            m.d.sync += [
                self.begun.eq(self.begun + 1),
                self.slot.eq(Mux(self.slot == self.config.jobs - 1, 0, self.slot + 1)),
                self.solver.eq(Mux(self.solver == self.config.solvers - 1, 0, self.solver + 1)),
            ]

    def _phases(self, m):
        """What is asked for in each phase of a job's body."""
        d, ask, rows = self.d, self.own, self.requests.o
        asks = {
            "HEAD": (d.memo, self.of["HEAD"], Route.HEAD),
            "ANCHOR": (self.at["ANCHOR"], self.of["ANCHOR"], Route.ANCHOR),
            "FACTOR": (self.at["FACTOR"], self.of["FACTOR"], Route.FACTOR),
            "CHANGES": (d.changes, self.of_changes, Route.CHANGES),
            "ROWS": (rows.p.address, rows.p.beats, Mux(rows.p.bits, Route.BITS, Route.ROWS)),
            "SUMS": (self.at["SUMS"], self.of["SUMS"], Route.SUMS),
        }
        phases, wrong = fetch(self.config), self.code != 0
        asked, room = ask.ready | ~ask.valid, (self.begun - self.retired)[:32] < self.config.jobs
        conditions = {
            "begins": self.came.o.valid & room & self.bodies.i.ready,
            "wrong": wrong,
            "asked": asked,
            "last": asked & rows.p.last,
            "full": d.flags[0],
            "places": d.span != 0,
            "empty": d.flags[0] & (d.span == 0),
        }
        control = Control(m, phases, conditions)
        for name in filter(asks.__contains__, phases):
            with m.If(control.now[name]):
                some = self.records != 0 if name == "CHANGES" else 1
                m.d.comb += _asked(ask, some, *asks[name])
        m.d.comb += [
            self.done.eq(control.goes["LOOK"]),
            ask.p.final.eq(self.done),
            self.slot_valid.eq(control.now["KEEP"]),
            self.bodies.i.valid.eq(control.now["KEEP"] & ~wrong),
            self.requests.i.valid.eq(control.now["PLACES"]),
            rows.ready.eq(control.now["ROWS"] & ask.ready),
        ]
