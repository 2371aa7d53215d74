"""The qr engine behind the shell: jobs from a ring of descriptors to results and memos in memory."""

from amaranth.hdl import Array, Cat, Module, Mux, Shape, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory

from ...models.errors import ErrorCode
from ...models.qr.config import FitPlan
from ...models.qr.job import Method
from ...models.qr.schedule import settling
from ...models.qr.shell import ADDRESS_BITS, register_map
from ..index import index
from ..memory.axi import AXI4, shared_by
from ..memory.reader import BurstReader
from ..memory.writer import BurstWriter
from ..modules import Parts
from ..shell.engine import engine_members, restarted
from ..stream.monitor import observe
from ..stream.passing import passed_on
from ..stream.queue import Queue
from .anchor_update import AnchorUpdate, errors_shape
from .bounds import Bounds
from .core import Core
from .fetch import ROUTE_BITS, Fetch
from .intake import Intake
from .writeback import WriteBack

__all__ = ["FitEngine"]

#: words on their way, by what they are
_ROUTE = data.StructLayout({"route": ROUTE_BITS, "final": 1})


class FitEngine(wiring.Component):
    """The engine of `config`, for `hdl.shell.Shell`; its cycles are `models.qr.cycles`.

    A run: all jobs of the ring, whose results and memos are written in the jobs' order. A job that is in error has the code in its result and leaves
    everything else as it was; the run goes on. An error of the bus ends the run, `block` being the first job without a result.

    Parameters
    ----------
    config
        `models.qr.config.FitPlan` that is `made`.
    library
        Takes the modules that are instantiated by name.

    Raises
    ------
    ValueError
        There is no hardware for the configuration.
    """

    def __init__(self, config: FitPlan, library: Parts, *, design: int = 0):
        if not config.built:
            raise ValueError(
                "there is hardware for method gram with at least n_max lanes and sums of whole bus words, and for a row in a bus word"
            )
        self.config, self.library, self.settling = config, library, settling(config.n_max)
        self.register_map = register_map(design)
        super().__init__(
            engine_members(
                self.register_map, [AXI4(address_width=ADDRESS_BITS, data_bytes=config.bus_bytes)]
            )
        )

    def elaborate(self, platform):
        return restarted(self._body())

    def _body(self) -> Module:
        m = self.m = Module()
        config, parts = self.config, self.library
        bus = {"bus_bytes": config.bus_bytes, "address_width": ADDRESS_BITS}
        m.submodules.reader = self.reader = BurstReader(**bus)
        m.submodules.writer = self.writer = BurstWriter(**bus)
        m.submodules.fetch = self.fetch = Fetch(config)
        m.submodules.intake = self.intake = Intake(config)
        self.givens = config.method is Method.GIVENS
        m.submodules.core = self.core = Core(config, parts)
        m.submodules.bounds = self.bounds = Bounds(config, parts)
        m.submodules.back = self.back = WriteBack(config)
        self.retired, self.slot, self.solver = Signal(32), index(config.jobs), index(config.solvers)
        shared_by(m, self.m0, self.reader.bus, self.writer.bus)
        self._words()
        self._jobs()
        self._ends()
        return m

    def _words(self) -> None:
        """Requests to the reader, words to their places."""
        m, reader = self.m, self.reader
        fetch, intake = self.fetch, self.intake
        core, bounds = self.core, self.bounds
        m.submodules.routes = routes = Queue(_ROUTE, reader.commands)
        m.d.comb += [
            fetch.start.eq(self.start),
            fetch.ring.eq(self.registers.ring),
            fetch.jobs.eq(self.registers.jobs),
            fetch.retired.eq(self.retired),
            fetch.descriptor_valid.eq(intake.descriptor_valid),
            fetch.descriptor.eq(intake.descriptor),
            reader.i.valid.eq(fetch.o.valid),
            reader.i.p.address.eq(fetch.o.p.address),
            reader.i.p.beats.eq(fetch.o.p.beats),
            fetch.o.ready.eq(reader.i.ready),
            routes.i.valid.eq(fetch.o.valid & reader.i.ready),
            routes.i.p.route.eq(fetch.o.p.route),
            routes.i.p.final.eq(fetch.o.p.final),
            intake.i.valid.eq(reader.o.valid),
            intake.i.p.data.eq(reader.o.p.data),
            intake.i.p.last.eq(reader.o.p.last),
            intake.i.p.route.eq(routes.o.p.route),
            intake.i.p.final.eq(routes.o.p.final),
            reader.o.ready.eq(intake.i.ready),
            routes.o.ready.eq(reader.o.valid & reader.o.ready & reader.o.p.last),
        ]
        for giver, taker in (
            (fetch.body, intake.body),
            (intake.command, core.command),
            (intake.changes, core.changes),
            (intake.sums, core.memo),
            (intake.bits, core.bits),
            (intake.rows, core.rows),
            (intake.pass_bits, bounds.bits),
            (intake.pass_rows, bounds.rows),
            (bounds.passing, fetch.passing),
            (core.words, self.back.sums),
            (bounds.o, self.back.i),
            *(((intake.factor, core.load), (core.factor, self.back.factor)) if self.givens else ()),
        ):
            m.d.comb += passed_on(giver, taker)

    def _kept(self, name, shape, enable, slot, value):
        """What is kept of each job under way: written when `enable`, read for the job that ends next, in the cycle after its turn has come."""
        m = self.m
        m.submodules[name] = memory = Memory(
            shape=unsigned(Shape.cast(shape).width), depth=self.config.jobs, init=[]
        )
        put, get = memory.write_port(), memory.read_port()
        m.d.comb += [
            put.en.eq(enable),
            put.addr.eq(slot),
            put.data.eq(Value.cast(value)),
            get.addr.eq(self.slot),
            get.en.eq(1),
        ]
        return get.data, memory

    def _jobs(self) -> None:
        """What is known of the jobs, until their turn has come."""
        m, config = self.m, self.config
        fetch, intake = self.fetch, self.intake
        core, bounds = self.core, self.bounds
        n = config.n_max
        job = bounds.i
        for name, whose, valid, slot, value in (
            ("of_descriptors", job.kept, fetch.slot_valid, fetch.slot, fetch.kept),
            ("of_heads", job.head, intake.head_valid, intake.slot, intake.head),
            ("of_records", job.report, core.report_valid, core.report.job, core.report.code),
        ):
            kept, _ = self._kept(name, value.shape(), valid, slot, value)
            m.d.comb += Value.cast(whose).eq(kept)
        # a job's turn has come when it has been solved, or will never be
        over = Signal(config.jobs)
        solutions = []
        for k in range(config.solvers):
            o, valid = getattr(core, f"o{k}"), getattr(core, f"o{k}_valid")
            fields = {"mask": o.mask, "weights": o.weights.as_value()}
            fields |= {"failed": core.failed} if self.givens else {}
            solution = Cat(*fields.values())
            solutions.append(self._kept(f"of_solver{k}", len(solution), valid, o.job, solution)[0])
            with m.If(valid):
                m.d.sync += over.bit_select(o.job, 1).eq(1)
        for fails, slot in (
            (fetch.slot_valid & (fetch.kept.code != 0), fetch.slot),
            (intake.head_valid & (intake.head.code != 0), intake.slot),
        ):
            with m.If(fails):
                m.d.sync += over.bit_select(slot, 1).eq(1)
        solved = Array(solutions)[self.solver] if len(solutions) > 1 else solutions[0]
        m.d.comb += [
            bounds.ready_next.eq(over.bit_select(self.slot, 1)),
            job.mask.eq(solved[:n]),
            job.weights.as_value().eq(solved[n : 33 * n]),
            job.failed.eq(solved[33 * n] if self.givens else 0),
        ]
        with m.If(bounds.o.valid & bounds.o.ready):
            m.d.sync += [
                over.bit_select(self.slot, 1).eq(0),
                self.slot.eq(Mux(self.slot == config.jobs - 1, 0, self.slot + 1)),
                self.solver.eq(Mux(self.solver == config.solvers - 1, 0, self.solver + 1)),
            ]
        if config.incremental:
            self._anchors(job)

    def _anchors(self, job) -> None:
        m, intake = self.m, self.intake
        core, bounds = self.core, self.bounds
        m.submodules.anchor_update = update = AnchorUpdate(self.config)
        anchor, record = intake.anchor, core.record
        box, errors = Signal(update.box_shape), Signal(errors_shape)
        for part in (box, errors):
            m.d.comb += [part[name].eq(anchor.segment[name]) for name, _ in part.shape()]
        weights, _ = self._kept(
            "of_anchors", anchor.weights.shape(), intake.anchor_valid, intake.slot, anchor.weights
        )
        _, before = self._kept("of_errors", errors_shape, intake.anchor_valid, intake.slot, errors)
        read = before.read_port(domain="comb")
        m.d.comb += [
            update.begin.eq(intake.command.valid & intake.command.ready),
            update.job.eq(intake.command.p.job),
            update.w.eq(anchor.weights),
            update.box.eq(box),
            update.valid.eq(core.record_valid & record.came),
            update.row.use.eq(1),
            *(update.row[name].eq(record[name]) for name in ("label", "a", "row")),
            bounds.dot_w.eq(update.dot_w),
            bounds.dot_x.eq(update.dot_x),
            update.guess.eq(bounds.guess),
            core.hold.eq(bounds.uses),
            update.end.eq(core.record_valid & record.end),
            read.addr.eq(update.read),
            update.errors.eq(read.data),
        ]
        boxes, _ = self._kept(
            "followed_boxes", update.box_shape, update.box_valid, update.box_job, update.o_box
        )
        found, _ = self._kept(
            "followed_errors", errors_shape, update.errors_valid, update.errors_job, update.o_errors
        )
        m.d.comb += job.anchor.weights.as_value().eq(weights)
        for shape, now in ((update.box_shape, boxes), (errors_shape, found)):
            part = data.View(shape, now)
            m.d.comb += [job.anchor.segment[name].eq(part[name]) for name, _ in shape]

    def _ends(self) -> None:
        m, back = self.m, self.back
        reader, writer = self.reader, self.writer
        bounds = self.bounds
        running = Signal()
        with m.If(self.start):
            m.d.sync += running.eq(1)
        with m.If(back.ended):
            m.d.sync += self.retired.eq(self.retired + 1)
        m.d.comb += [
            back.sums_job.eq(self.core.words_job),
            back.slot.eq(self.slot),
            *passed_on(back.command, writer.i),
            *passed_on(back.o, writer.i_data),
            self.done.eq(running & (self.retired == self.registers.jobs) & writer.idle),
            self.error.eq(reader.error | writer.error),
            self.report.block.eq(self.retired),
            self.report.code.eq(
                Mux(reader.error, ErrorCode.BUS_READ.value, ErrorCode.BUS_WRITE.value)
            ),
        ]
        steps = {
            "jobs_ended": back.ended,
            "jobs_failed": bounds.o.valid & bounds.o.ready & (bounds.o.p.code != 0),
            "passes": bounds.passing.valid & bounds.passing.ready,
            "records": self.core.record_valid & ~self.core.record.end,
            "held": reader.o.valid & ~reader.o.ready,
        }
        m.d.comb += [
            self.counters[counter.name].eq(steps[counter.name])
            for counter in self.register_map.counters
        ]
        m.d.comb += [
            *observe(self.monitors.words, reader.o),
            *observe(self.monitors.results, back.o),
        ]
