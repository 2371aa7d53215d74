"""Which words the engine reads, and when: descriptors ahead, bodies of jobs in their order, passes when they are asked for."""

from amaranth.hdl import Array, Const, Module, Mux, Signal
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

    * `registers`, `start`: `ring`: where the first descriptor lies, `jobs`: how many there are; constant
      during the run, which begins with `start`.
    * `retired`: jobs that have ended.
    * `intake`: gives descriptors as they come, which are always taken; takes jobs whose bodies come, offered
      until they have come.
    """

    def __init__(self, m: Module, config: FitPlan, registers, start, retired, intake):
        m.submodules.came = came = Queue(descriptor_shape, AHEAD)
        m.submodules.bodies = bodies = Queue(body_shape(config), AHEAD)
        m.d.comb += [
            came.i.payload.eq(intake.descriptor),
            came.i.valid.eq(intake.descriptor_valid),
            *passed_on(bodies.o, intake.body),
        ]
        rows, passes = RowRequests(m, config, "rows"), RowRequests(m, config, "passes")
        self.passing = passes.i  # passes to be asked for
        ask = stream.Signature(request_shape())
        pass_, ring, body = (ask.create(path=(name,)) for name in ("of_pass", "of_ring", "of_body"))
        self.o = ask.create(path=("request",))
        _ask_for_pass(m, pass_, passes.o)
        begun = Signal(32)  # jobs
        _ask_for_descriptors(m, ring, config.bus_bytes, registers, start, begun)
        _first_of(m, (pass_, ring, body), self.o)

        # the descriptor is there from LOOK on, its code a cycle later
        d, taken = came.o.p, body.ready | ~body.valid
        code = checked(m, descriptor_faults(d, config))
        conditions = {
            "begins": came.o.valid & ((begun - retired)[:32] < config.jobs) & bodies.i.ready,
            "wrong": code != 0,
            "asked": taken,
            "last": taken & rows.o.p.last,
            "full": d.flags[0],
            "places": d.span != 0,
            "empty": d.flags[0] & (d.span == 0),
        }
        control = Control(m, fetch(config), conditions)
        now, done = control.now, control.goes["LOOK"]
        _ask_for_body(Pipeline(m), config, d, rows, body, now)
        self.slot_valid = now["KEEP"]  # a job has begun
        self.slot, self.kept = index(config.jobs, name="slot"), Signal(slot_shape())
        solver = index(config.solvers, name="solver")
        m.d.comb += [
            came.o.ready.eq(done),
            body.p.final.eq(done),
            *fields(self.kept, code=code, full=d.flags[0]),
            *(self.kept[name].eq(d[name]) for name in _KEPT),
            bodies.i.valid.eq(now["KEEP"] & (code == 0)),
            *fields(bodies.i.p, slot=self.slot, solver=solver, descriptor=d),
        ]
        with m.If(done):
            m.d.sync += begun.eq(begun + 1)
            for number, count in ((self.slot, config.jobs), (solver, config.solvers)):
                m.d.sync += number.eq(Mux(number == count - 1, 0, number + 1))


def _first_of(m, requests, o):
    """The first of `requests` that asks goes into a register, and from there to `o`."""
    free, request, some = Signal(), Signal(request_shape(), reset_less=True), Const(0)
    m.d.comb += [free.eq(~o.valid | o.ready), o.payload.eq(request)]
    for each in requests:
        m.d.comb += each.ready.eq(free & ~some)
        some = some | each.valid
    with m.If(free):
        m.d.sync += [o.valid.eq(some), request.eq(requests[-1].payload)]
        for each in reversed(requests[:-1]):
            with m.If(each.valid):
                m.d.sync += request.eq(each.payload)


def _ask_for_pass(m, request, rows):
    route = Mux(rows.p.bits, Route.PASS_BITS, Route.PASS_ROWS)
    m.d.comb += _asked(request, rows.valid, rows.p.address, rows.p.beats, route)
    m.d.comb += rows.ready.eq(request.ready)


def _ask_for_descriptors(m, request, bus_bytes, registers, start, begun):
    """Descriptors of the ring, up to `AHEAD` of them before their jobs begin."""
    running, asked = Signal(), Signal(32)
    next_at = Signal(ADDRESS_BITS, reset_less=True)
    beats = words(DESCRIPTOR_BYTES, bus_bytes)
    wanted = running & (asked != registers.jobs) & ((asked - begun)[:32] < AHEAD)
    m.d.comb += _asked(request, wanted, next_at, beats, Route.DESCRIPTOR)
    with m.If(start):
        m.d.sync += [running.eq(1), next_at.eq(registers.ring)]
    with m.If(request.valid & request.ready):
        m.d.sync += [asked.eq(asked + 1), next_at.eq(next_at + beats * bus_bytes)]


def _ask_for_body(pipe, config, d, rows, request, now):
    """What is asked for in each phase of a job's body."""
    m, parts = pipe.m, _parts_of_memo(pipe, config, d)
    some, of_changes = _changes(pipe, config, d)
    each, bits = rows.o.p, Mux(rows.o.p.bits, Route.BITS, Route.ROWS)
    asks = {
        "HEAD": (1, d.memo, parts["HEAD"][1], Route.HEAD),
        "ANCHOR": (1, *parts["ANCHOR"], Route.ANCHOR),
        "FACTOR": (1, *parts["FACTOR"], Route.FACTOR),
        "CHANGES": (some, d.changes, of_changes, Route.CHANGES),
        "ROWS": (1, each.address, each.beats, bits),
        "SUMS": (1, *parts["SUMS"], Route.SUMS),
    }
    for name in filter(asks.__contains__, now):
        with m.If(now[name]):
            m.d.comb += _asked(request, *asks[name])
    m.d.comb += [
        rows.i.valid.eq(now["PLACES"]),
        *fields(rows.i.p, address=d.rows_at, span=d.span, length=d.length),
        rows.o.ready.eq(now["ROWS"] & request.ready),
    ]


def _parts_of_memo(pipe, config, d):
    """Return the address and the words of each part of the memo that is read, two cycles after the descriptor."""
    columns, shift, parts = d.length + 1, exact_log2(config.bus_bytes), {}
    reads = [memo_reads(Size(max(n, 1), 0), config) for n in range(config.n_max + 1)]
    for name in reads[0]:
        before, counts = zip(*(read[name] for read in reads), strict=True)
        of = pipe.delay(Array(counts)[columns], 1, name=f"of_{name}")
        behind = pipe.delay(Array(before)[columns], 1, name=f"before_{name}")
        parts[name] = pipe.delay(d.memo + (behind << shift), 1, name=f"at_{name}"), of
    return parts


def _changes(pipe, config, d):
    """Return whether there are changes, and their words: three cycles after the descriptor, when the memo's head has been asked for."""
    delay, each = pipe.delay, config.bus_bytes // 4  # units of 4 bytes in a word
    records = delay(sum(d[name] for name in COUNTS)[:26], 1, name="records")
    units = records * delay(2 + ((d.length + 3) >> 2), 1, name="of_record")
    units = delay(units[:32], 1, name="units")
    return records != 0, delay((units + (each - 1)) >> exact_log2(each), 1, name="of_changes")
