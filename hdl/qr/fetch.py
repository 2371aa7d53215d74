"""Which words the engine reads, and when: descriptors ahead, bodies of jobs in their order, passes when they are asked for."""

from amaranth.hdl import Array, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.job import Bounds, Method, Sums
from ...models.qr.layout import DESCRIPTOR_BYTES, Size, anchor_words, factor_words, frame_words, head_words, read_sums, shift_words, sums_words, words
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
    return data.StructLayout({"address": ADDRESS_BITS, "beats": 24, "route": ROUTE_BITS, "final": 1})


def body_shape(config):
    """A job whose body has been asked for."""
    return data.StructLayout({"slot": index_range(config.jobs), "solver": index_range(config.solvers), "descriptor": descriptor_shape})


def slot_shape():
    """What the end of a job must know of its descriptor; `code`: `models.errors.ErrorCode` of the descriptor."""
    return data.StructLayout({"group": 32, "prefix": 16, "length": 8, "full": 1, "rows": 32, "span": 32, "epoch": 32, "limit": signed(32),
                              "rows_at": ADDRESS_BITS, "result": ADDRESS_BITS, "code": 8})


class Fetch(wiring.Component):
    """Makes the requests of a run, one a cycle: a pass's first, then descriptors, then bodies.

    Descriptors are asked for as long as fewer than `AHEAD` have come or are on their way without their job having begun. A job begins when fewer than
    `jobs` are between here and their end: one cycle to check its descriptor, one to keep it, then a request a cycle (head and offsets, anchor, factor, moves of
    blocks, changes, rows where c is scanned, sums; or head and rows). A descriptor that is wrong is kept with its code, and nothing is read for it.

    Parameters
    ----------
    config
        `models.qr.FitPlan`.

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

    def __init__(self, config: FitPlan, *, src_loc_at=0):
        self.config = config
        super().__init__({
            "start": In(1), "ring": In(ADDRESS_BITS), "jobs": In(32), "retired": In(32), "descriptor_valid": In(1), "descriptor": In(descriptor_shape),
            "passing": In(stream.Signature(pass_shape(config.n_max))), "o": Out(stream.Signature(request_shape())),
            "body": Out(stream.Signature(body_shape(config))), "slot_valid": Out(1), "slot": Out(index_range(config.jobs)), "kept": Out(slot_shape())},
            src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m)
        config = self.config
        bus = config.bus_bytes
        shift = bus.bit_length() - 1
        m.submodules.came = came = Queue(descriptor_shape, AHEAD)
        m.submodules.bodies = bodies = Queue(body_shape(config), AHEAD)
        m.submodules.check = check = JobCheck(config)
        m.submodules.row_requests = requests = RowRequests(config)
        m.submodules.passes = passes = RowRequests(config)
        for name in ("payload", "valid"):
            m.d.comb += [getattr(came.i, name).eq(getattr(self, "descriptor" if name == "payload" else "descriptor_valid")),
                         getattr(self.body, name).eq(getattr(bodies.o, name)), getattr(passes.i, name).eq(getattr(self.passing, name))]
        m.d.comb += [bodies.o.ready.eq(self.body.ready), self.passing.ready.eq(passes.i.ready), check.descriptor.eq(came.o.payload)]

        # three that ask; the one that is heard is held in a register
        pass_, ring, own = (stream.Signature(request_shape()).create(path=(name,)) for name in ("pass", "ring", "own"))
        free = Signal()
        request = Signal(request_shape(), reset_less=True)
        m.d.comb += [
            free.eq(~self.o.valid | self.o.ready), pass_.ready.eq(free), ring.ready.eq(free & ~pass_.valid), own.ready.eq(free & ~pass_.valid & ~ring.valid),
            self.o.payload.eq(request)]
        with m.If(free):
            m.d.sync += [self.o.valid.eq(pass_.valid | ring.valid | own.valid),
                         request.eq(Mux(pass_.valid, pass_.payload.as_value(), Mux(ring.valid, ring.payload.as_value(), own.payload.as_value())))]
        m.d.comb += [
            pass_.valid.eq(passes.o.valid), passes.o.ready.eq(pass_.ready), pass_.p.address.eq(passes.o.p.address), pass_.p.beats.eq(passes.o.p.beats),
            pass_.p.route.eq(Mux(passes.o.p.bits, Route.PASS_BITS, Route.PASS_ROWS))]

        # descriptors
        running, asked, begun, next_at = Signal(), Signal(32), Signal(32), Signal(ADDRESS_BITS, reset_less=True)
        per = words(DESCRIPTOR_BYTES, bus)
        m.d.comb += [ring.valid.eq(running & (asked != self.jobs) & ((asked - begun)[:32] < AHEAD)), ring.p.address.eq(next_at), ring.p.beats.eq(per),
                     ring.p.route.eq(Route.DESCRIPTOR)]
        with m.If(self.start):
            m.d.sync += [running.eq(1), next_at.eq(self.ring)]
        with m.If(ring.valid & ring.ready):
            m.d.sync += [asked.eq(asked + 1), next_at.eq(next_at + per * bus)]

        # a job's body; the descriptor is there from LOOK on, what is made of it a cycle later, sums of that two
        d = came.o.p
        full = d.flags[0]
        slot, solver = index(config.jobs, name="slot"), index(config.solvers, name="solver")
        sizes = [Size(max(n, 1), 0) for n in range(config.n_max + 1)]
        scans = config.sums is Sums.SCAN                         # then the memo's c is not read
        anchored, givens, of_moves = config.bounds is Bounds.WIDENED, config.method is Method.GIVENS, shift_words(config)

        # words of the memo's parts in their order, and where each ends
        of, end, behind = {}, {}, [0] * len(sizes)
        for name, counts in (("head", [head_words(size, config) for size in sizes]), ("frames", [frame_words(config)] * len(sizes)),
                             ("c", [sums_words(size, config)[0] if scans else 0 for size in sizes]), ("sums", [read_sums(size, config) for size in sizes]),
                             ("factor", [factor_words(size, config) for size in sizes]), ("anchor", [anchor_words(size, config) for size in sizes])):
            behind = [before + count for before, count in zip(behind, counts, strict=True)]
            of[name] = pipe.delay(Array(counts)[d.length + 1], 1, name=f"of_{name}")
            end[name] = pipe.delay(d.memo + (pipe.delay(Array(behind)[d.length + 1], 1, name=f"behind_{name}") << shift), 1, name=f"end_{name}")
        lists, of_frames = "FRAMES" if of_moves else "CHANGES", frame_words(config)
        # units of 4 bytes; asked for three cycles after LOOK at the earliest, behind the head
        records = pipe.delay(sum((d[name] for name in COUNTS), 0)[:26], 1, name="records")
        units = pipe.delay((records * pipe.delay(2 + ((d.length + 3) >> 2), 1, name="of_record"))[:32], 1, name="units")
        of_changes = pipe.delay((units + (bus // 4 - 1)) >> (bus // 4).bit_length() - 1, 1, name="of_changes")
        done = Signal()
        m.d.comb += [
            self.slot.eq(slot), self.kept.code.eq(check.descriptor_code), self.kept.full.eq(full),
            *(self.kept[name].eq(d[name]) for name in ("group", "prefix", "length", "rows", "span", "epoch", "limit", "rows_at", "result")),
            bodies.i.p.slot.eq(slot), bodies.i.p.solver.eq(solver), bodies.i.p.descriptor.eq(d), came.o.ready.eq(done),
            requests.i.p.address.eq(d.rows_at), requests.i.p.span.eq(d.span), requests.i.p.length.eq(d.length)]
        with m.If(done):
            m.d.sync += [begun.eq(begun + 1), slot.eq(Mux(slot == config.jobs - 1, 0, slot + 1)), solver.eq(Mux(solver == config.solvers - 1, 0, solver + 1))]
        with m.FSM():
            with m.State("LOOK"):
                with m.If(came.o.valid & ((begun - self.retired)[:32] < config.jobs) & bodies.i.ready):
                    m.next = "KEEP"
            with m.State("KEEP"):
                m.d.comb += self.slot_valid.eq(1)
                with m.If(check.descriptor_code == 0):
                    m.d.comb += bodies.i.valid.eq(1)
                    m.next = "HEAD"
                with m.Else():
                    m.d.comb += done.eq(1)
                    m.next = "LOOK"
            with m.State("HEAD"):
                m.d.comb += [own.valid.eq(1), own.p.address.eq(d.memo), own.p.beats.eq(of["head"]), own.p.route.eq(Route.HEAD),
                             own.p.final.eq(full & (d.span == 0))]
                with m.If(own.ready):
                    with m.If(own.p.final):
                        m.d.comb += done.eq(1)
                        m.next = "LOOK"
                    with m.Elif(full):
                        m.next = "PLACES"
                    with m.Else():
                        m.next = "ANCHOR" if anchored else "FACTOR" if givens else lists
            with m.State("PLACES"):
                m.d.comb += requests.i.valid.eq(1)
                m.next = "ROWS"
            with m.State("ROWS"):
                m.d.comb += [own.valid.eq(requests.o.valid), requests.o.ready.eq(own.ready), own.p.address.eq(requests.o.p.address),
                             own.p.beats.eq(requests.o.p.beats),
                             own.p.route.eq(Mux(requests.o.p.bits, Route.BITS, Route.ROWS)), own.p.final.eq(requests.o.p.last & full)]
                with m.If(own.valid & own.ready & requests.o.p.last):
                    with m.If(full):
                        m.d.comb += done.eq(1)
                        m.next = "LOOK"
                    with m.Else():
                        m.next = "SUMS"
            with m.State("ANCHOR"):
                m.d.comb += [own.valid.eq(1), own.p.address.eq(end["factor"]),
                             own.p.beats.eq(of["anchor"]), own.p.route.eq(Route.ANCHOR)]
                with m.If(own.ready):
                    m.next = "FACTOR" if givens else lists
            if givens:
                with m.State("FACTOR"):
                    m.d.comb += [own.valid.eq(1), own.p.address.eq(end["sums"]),
                                 own.p.beats.eq(of["factor"]), own.p.route.eq(Route.FACTOR)]
                    with m.If(own.ready):
                        m.next = lists
            if of_moves:
                with m.State("FRAMES"):
                    m.d.comb += [own.valid.eq(1), own.p.address.eq(end["head"]), own.p.beats.eq(of_frames), own.p.route.eq(Route.SHIFTS)]
                    with m.If(own.ready):
                        m.next = "SHIFTS"
                with m.State("SHIFTS"):
                    m.d.comb += [own.valid.eq(1), own.p.address.eq(d.changes), own.p.beats.eq(of_moves), own.p.route.eq(Route.SHIFTS)]
                    with m.If(own.ready):
                        m.next = "CHANGES"
            with m.State("CHANGES"):
                m.d.comb += [own.valid.eq(records != 0), own.p.address.eq(d.changes + of_moves * bus), own.p.beats.eq(of_changes),
                             own.p.route.eq(Route.CHANGES)]
                with m.If(own.ready | (records == 0)):
                    m.next = "SUMS"
                    if scans:
                        with m.If(d.span != 0):
                            m.next = "PLACES"
            with m.State("SUMS"):
                m.d.comb += [own.valid.eq(1), own.p.address.eq(end["c"]), own.p.beats.eq(of["sums"]),
                             own.p.route.eq(Route.SUMS), own.p.final.eq(1)]
                with m.If(own.ready):
                    m.d.comb += done.eq(1)
                    m.next = "LOOK"
        return m
