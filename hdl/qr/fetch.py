"""Which words the engine reads, and when: descriptors ahead, bodies of jobs in their order, passes when they are asked for."""

from amaranth.hdl import Array, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.job import Method
from ...models.qr.layout import (
    DESCRIPTOR_BYTES,
    Size,
    anchor_words,
    factor_words,
    head_words,
    read_sums,
    sums_words,
    words,
)
from ...models.qr.requests import AHEAD, Route
from ...models.qr.shell import ADDRESS_BITS
from ..arith.pipeline import Pipeline
from ..index import index, index_range
from ..stream.queue import Queue
from .core import COUNTS
from .descriptor import JobCheck, descriptor_shape
from .row_requests import RowRequests, pass_shape

__all__ = ["ROUTE_BITS", "Fetch", "body_shape", "request_shape", "slot_shape"]


#: bits of a `Route`
ROUTE_BITS = 4


def request_shape():
    """Words to read; `final`: the last request of a job's body."""
    return data.StructLayout(
        {"address": ADDRESS_BITS, "beats": 24, "route": ROUTE_BITS, "final": 1}
    )


def body_shape(config):
    """A job whose body has been asked for."""
    return data.StructLayout(
        {
            "slot": index_range(config.jobs),
            "solver": index_range(config.solvers),
            "descriptor": descriptor_shape,
        }
    )


def slot_shape():
    """What the end of a job must know of its descriptor; `code`: `models.errors.ErrorCode` of the descriptor."""
    return data.StructLayout(
        {
            "group": 32,
            "prefix": 16,
            "length": 8,
            "full": 1,
            "rows": 32,
            "span": 32,
            "epoch": 32,
            "limit": signed(32),
            "rows_at": ADDRESS_BITS,
            "result": ADDRESS_BITS,
            "code": 8,
        }
    )


def _asked(request, valid, address, beats, route, final=None):
    """Assignments of a request's fields; add them to the combinational domain."""
    last = [] if final is None else [request.p.final.eq(final)]
    return [
        request.valid.eq(valid),
        request.p.address.eq(address),
        request.p.beats.eq(beats),
        request.p.route.eq(route),
        *last,
    ]


class Fetch(wiring.Component):
    """Makes the requests of a run, one a cycle: a pass's first, then descriptors, then bodies.

    Descriptors are asked for as long as fewer than `AHEAD` have come or are on their way without their job having begun. A job begins when fewer than
    `jobs` are between here and their end: one cycle to check its descriptor, one to keep it, then a request a cycle (head and offsets, anchor, factor,
    changes, rows where c comes from a pass, sums; or head and rows). A descriptor that is wrong is kept with its code, and nothing is read for it.

    Parameters
    ----------
    config
        `models.qr.config.FitPlan`.

    Members
    -------
    start : In(1), ring : In(ADDRESS_BITS), jobs : In(32)
        Where the first descriptor lies, and how many there are; constant during the run.
    retired : In(32)
        Jobs that have ended.
    descriptor_valid : In(1), descriptor : In(descriptor_shape)
        Descriptors as they come; always taken.
    passing : In(stream.Signature(pass_shape(n_max)))
    o : Out(stream.Signature(request_shape()))
    body : Out(stream.Signature(body_shape(config)))
        Jobs whose bodies come, offered until they have come.
    slot_valid : Out(1), slot : Out, kept : Out(slot_shape())
        A job has begun.
    """

    def __init__(self, config: FitPlan):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "ring": In(ADDRESS_BITS),
                "jobs": In(32),
                "retired": In(32),
                "descriptor_valid": In(1),
                "descriptor": In(descriptor_shape),
                "passing": In(stream.Signature(pass_shape(config.n_max))),
                "o": Out(stream.Signature(request_shape())),
                "body": Out(stream.Signature(body_shape(config))),
                "slot_valid": Out(1),
                "slot": Out(index_range(config.jobs)),
                "kept": Out(slot_shape()),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self.pipe = Pipeline(m)
        self.bus = self.config.bus_bytes
        self.shift = self.bus.bit_length() - 1
        m.submodules.came = self.came = Queue(descriptor_shape, AHEAD)
        m.submodules.bodies = self.bodies = Queue(body_shape(self.config), AHEAD)
        m.submodules.check = self.check = JobCheck(self.config)
        m.submodules.row_requests = self.requests = RowRequests(self.config)
        m.submodules.passes = self.passes = RowRequests(self.config)
        self._requests(m)
        self._descriptors(m)

        # a job's body; the descriptor is there from LOOK on, what is made of it a cycle later, sums of that two
        self.d = self.came.o.p
        self.full = self.d.flags[0]
        self.slot_now, self.solver = (
            index(self.config.jobs, name="slot"),
            index(self.config.solvers, name="solver"),
        )
        self.sizes = [Size(max(n, 1), 0) for n in range(self.config.n_max + 1)]
        self.scans = not self.config.incremental  # then the memo's c is not read
        self.givens = self.config.method is Method.GIVENS

        self._places(m)
        self._body_done(m)
        with m.FSM():
            self._head_states(m)
            self._memo_states(m)
            self._change_states(m)
        return m

    def _requests(self, m):
        """Three that ask; the one that is heard is held in a register."""
        for name in ("payload", "valid"):
            m.d.comb += [
                getattr(self.came.i, name).eq(
                    getattr(self, "descriptor" if name == "payload" else "descriptor_valid")
                ),
                getattr(self.body, name).eq(getattr(self.bodies.o, name)),
                getattr(self.passes.i, name).eq(getattr(self.passing, name)),
            ]
        m.d.comb += [
            self.bodies.o.ready.eq(self.body.ready),
            self.passing.ready.eq(self.passes.i.ready),
            self.check.descriptor.eq(self.came.o.payload),
        ]

        # three that ask; the one that is heard is held in a register
        pass_, self.ring_request, self.own = (
            stream.Signature(request_shape()).create(path=(name,))
            for name in ("pass", "ring", "own")
        )
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
            m.d.sync += [
                self.o.valid.eq(pass_.valid | self.ring_request.valid | self.own.valid),
                request.eq(
                    Mux(
                        pass_.valid,
                        pass_.payload.as_value(),
                        Mux(
                            self.ring_request.valid,
                            self.ring_request.payload.as_value(),
                            self.own.payload.as_value(),
                        ),
                    )
                ),
            ]
        m.d.comb += [
            pass_.valid.eq(self.passes.o.valid),
            self.passes.o.ready.eq(pass_.ready),
            pass_.p.address.eq(self.passes.o.p.address),
            pass_.p.beats.eq(self.passes.o.p.beats),
            pass_.p.route.eq(Mux(self.passes.o.p.bits, Route.PASS_BITS, Route.PASS_ROWS)),
        ]

    def _descriptors(self, m):
        """Descriptors of the ring, up to `AHEAD` of them before their bodies."""
        running = Signal()
        asked = Signal(32)
        self.begun = Signal(32)
        next_at = Signal(ADDRESS_BITS, reset_less=True)
        per = words(DESCRIPTOR_BYTES, self.bus)
        m.d.comb += [
            self.ring_request.valid.eq(
                running & (asked != self.jobs) & ((asked - self.begun)[:32] < AHEAD)
            ),
            self.ring_request.p.address.eq(next_at),
            self.ring_request.p.beats.eq(per),
            self.ring_request.p.route.eq(Route.DESCRIPTOR),
        ]
        with m.If(self.start):
            m.d.sync += [running.eq(1), next_at.eq(self.ring)]
        with m.If(self.ring_request.valid & self.ring_request.ready):
            m.d.sync += [asked.eq(asked + 1), next_at.eq(next_at + per * self.bus)]

    def _places(self, m):
        """Words of the memo's parts in their order, and where each ends; then those of the changes."""
        self.of = {}
        self.end = {}
        behind = [0] * len(self.sizes)
        for name, counts in (
            ("head", [head_words(size, self.config) for size in self.sizes]),
            ("c", [sums_words(size, self.config)[0] if self.scans else 0 for size in self.sizes]),
            ("sums", [read_sums(size, self.config) for size in self.sizes]),
            ("factor", [factor_words(size, self.config) for size in self.sizes]),
            ("anchor", [anchor_words(size, self.config) for size in self.sizes]),
        ):
            behind = [before + count for before, count in zip(behind, counts, strict=True)]
            self.of[name] = self.pipe.delay(Array(counts)[self.d.length + 1], 1, name=f"of_{name}")
            self.end[name] = self.pipe.delay(
                self.d.memo
                + (
                    self.pipe.delay(Array(behind)[self.d.length + 1], 1, name=f"behind_{name}")
                    << self.shift
                ),
                1,
                name=f"end_{name}",
            )
        # units of 4 bytes; asked for three cycles after LOOK at the earliest, behind the head
        self.records = self.pipe.delay(
            sum((self.d[name] for name in COUNTS), 0)[:26], 1, name="records"
        )
        units = self.pipe.delay(
            (self.records * self.pipe.delay(2 + ((self.d.length + 3) >> 2), 1, name="of_record"))[
                :32
            ],
            1,
            name="units",
        )
        self.of_changes = self.pipe.delay(
            (units + (self.bus // 4 - 1)) >> (self.bus // 4).bit_length() - 1, 1, name="of_changes"
        )

    def _body_done(self, m):
        """What a job's body is, and its end."""
        self.done = Signal()
        m.d.comb += [
            self.slot.eq(self.slot_now),
            self.kept.code.eq(self.check.descriptor_code),
            self.kept.full.eq(self.full),
            *(
                self.kept[name].eq(self.d[name])
                for name in (
                    "group",
                    "prefix",
                    "length",
                    "rows",
                    "span",
                    "epoch",
                    "limit",
                    "rows_at",
                    "result",
                )
            ),
            self.bodies.i.p.slot.eq(self.slot_now),
            self.bodies.i.p.solver.eq(self.solver),
            self.bodies.i.p.descriptor.eq(self.d),
            self.came.o.ready.eq(self.done),
            self.requests.i.p.address.eq(self.d.rows_at),
            self.requests.i.p.span.eq(self.d.span),
            self.requests.i.p.length.eq(self.d.length),
        ]
        with m.If(self.done):
            m.d.sync += [
                self.begun.eq(self.begun + 1),
                self.slot_now.eq(Mux(self.slot_now == self.config.jobs - 1, 0, self.slot_now + 1)),
                self.solver.eq(Mux(self.solver == self.config.solvers - 1, 0, self.solver + 1)),
            ]

    def _head_states(self, m):
        """From a descriptor to the request of its head."""
        behind = "FACTOR" if self.givens else "CHANGES"
        with m.State("LOOK"):
            with m.If(
                self.came.o.valid
                & ((self.begun - self.retired)[:32] < self.config.jobs)
                & self.bodies.i.ready
            ):
                m.next = "KEEP"
        with m.State("KEEP"):
            m.d.comb += self.slot_valid.eq(1)
            with m.If(self.check.descriptor_code == 0):
                m.d.comb += self.bodies.i.valid.eq(1)
                m.next = "HEAD"
            with m.Else():
                m.d.comb += self.done.eq(1)
                m.next = "LOOK"
        with m.State("HEAD"):
            m.d.comb += _asked(
                self.own,
                1,
                self.d.memo,
                self.of["head"],
                Route.HEAD,
                self.full & (self.d.span == 0),
            )
            with m.If(self.own.ready):
                with m.If(self.own.p.final):
                    m.d.comb += self.done.eq(1)
                    m.next = "LOOK"
                with m.Elif(self.full):
                    m.next = "PLACES"
                with m.Else():
                    m.next = "ANCHOR" if not self.scans else behind
        with m.State("PLACES"):
            m.d.comb += self.requests.i.valid.eq(1)
            m.next = "ROWS"

    def _memo_states(self, m):
        """Rows of a full job; anchor and factor."""
        with m.State("ROWS"):
            m.d.comb += [
                self.own.valid.eq(self.requests.o.valid),
                self.requests.o.ready.eq(self.own.ready),
                self.own.p.address.eq(self.requests.o.p.address),
                self.own.p.beats.eq(self.requests.o.p.beats),
                self.own.p.route.eq(Mux(self.requests.o.p.bits, Route.BITS, Route.ROWS)),
                self.own.p.final.eq(self.requests.o.p.last & self.full),
            ]
            with m.If(self.own.valid & self.own.ready & self.requests.o.p.last):
                with m.If(self.full):
                    m.d.comb += self.done.eq(1)
                    m.next = "LOOK"
                with m.Else():
                    m.next = "SUMS"
        with m.State("ANCHOR"):
            m.d.comb += _asked(self.own, 1, self.end["factor"], self.of["anchor"], Route.ANCHOR)
            with m.If(self.own.ready):
                m.next = "FACTOR" if self.givens else "CHANGES"
        if self.givens:
            with m.State("FACTOR"):
                m.d.comb += _asked(self.own, 1, self.end["sums"], self.of["factor"], Route.FACTOR)
                with m.If(self.own.ready):
                    m.next = "CHANGES"

    def _change_states(self, m):
        """Changes and sums."""
        with m.State("CHANGES"):
            m.d.comb += _asked(
                self.own,
                self.records != 0,
                self.d.changes,
                self.of_changes,
                Route.CHANGES,
            )
            with m.If(self.own.ready | (self.records == 0)):
                m.next = "SUMS"
                if self.scans:
                    with m.If(self.d.span != 0):
                        m.next = "PLACES"
        with m.State("SUMS"):
            m.d.comb += _asked(self.own, 1, self.end["c"], self.of["sums"], Route.SUMS, 1)
            with m.If(self.own.ready):
                m.d.comb += self.done.eq(1)
                m.next = "LOOK"
