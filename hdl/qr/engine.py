"""The qr engine behind the shell: jobs from a ring of descriptors to results and memos in memory."""

from amaranth.hdl import Array, Cat, Module, Mux, Shape, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory

from ...models.errors import ErrorCode
from ...models.qr.config import FitPlan
from ...models.qr.schedule import settling
from ...models.qr.shell import ADDRESS_BITS, register_map
from ..index import index
from ..memory.axi import AXI4, shared_by
from ..memory.reader import BurstReader
from ..memory.writer import BurstWriter
from ..modules import Parts
from ..shell.engine_hardware import engine_members, restarted
from ..stream.monitor import observe
from ..stream.passing import fields
from ..stream.queue import Queue
from .bounds import Bounds, solved_shape
from .core import Core
from .dot import AnchorUpdate
from .fetch import ROUTE_BITS, Fetch
from .intake import Intake
from .writeback import WriteBack

#: words on their way, by what they are
_ROUTE = data.StructLayout({"route": ROUTE_BITS, "final": 1})


class FitEngine(wiring.Component):
    """The engine of `config`, for `hdl.shell.Shell`; its cycles are `models.qr.cycles`.

    A run: all jobs of the ring, whose results and memos are written in the jobs' order. A job that is in error has the code in its result and leaves
    everything else as it was; the run goes on. An error of the bus ends the run, `block` being the first job without a result.

    * `config`: `models.qr.config.FitPlan` that is `built`.
    * `library`: takes the modules that are instantiated by name.

    Raises ValueError: there is no hardware for the configuration.
    """

    def __init__(self, config: FitPlan, library: Parts, *, design: int = 0):
        if not config.built:
            raise ValueError(
                "there is hardware for method gram with sums of whole bus words, and for a row in a bus word"
            )
        self.config, self.library, self.settling = config, library, settling(config.n_max)
        self.register_map = register_map(config, design)
        port = AXI4(address_width=ADDRESS_BITS, data_bytes=config.bus_bytes)
        super().__init__(engine_members(self.register_map, [port]))

    def elaborate(self, platform):
        return restarted(self._body())

    def _body(self) -> Module:
        m = self.m = Module()
        config, parts = self.config, self.library
        bus = {"bus_bytes": config.bus_bytes, "address_width": ADDRESS_BITS}
        m.submodules.reader = self.reader = BurstReader(**bus)
        m.submodules.writer = self.writer = BurstWriter(**bus)
        m.submodules.routes = self.routes = Queue(_ROUTE, self.reader.commands)
        self.intake = Intake(m, config, self.reader, self.routes.o)
        self.retired, self.slot, self.solver = Signal(32), index(config.jobs), index(config.solvers)
        self.back = WriteBack(m, config, self.writer, self.slot)
        self.fetch = Fetch(m, config, self.registers, self.start, self.retired, self.intake)
        self.update = None
        if config.incremental:
            self.update = AnchorUpdate(config)
        self.job, ready_next = Signal(solved_shape(config.n_max), name="job"), Signal()
        self.bounds = Bounds(m, config, parts, ready_next, self.job, self)
        self.core = Core(m, config, parts, self.intake, self.back, self.bounds.uses)
        shared_by(m, self.m0, self.reader.bus, self.writer.bus)
        self._words()
        self._jobs(ready_next)
        self._ends()
        return m

    def _words(self) -> None:
        """Requests to the reader, and what they are of to the intake."""
        fetch, reader, routes = self.fetch, self.reader, self.routes
        self.m.d.comb += [
            reader.i.valid.eq(fetch.o.valid),
            *fields(reader.i.p, address=fetch.o.p.address, beats=fetch.o.p.beats),
            fetch.o.ready.eq(reader.i.ready),
            routes.i.valid.eq(fetch.o.valid & reader.i.ready),
            *fields(routes.i.p, route=fetch.o.p.route, final=fetch.o.p.final),
        ]

    def _kept(self, name, shape, enable, slot, value):
        """What is kept of each job under way: written when `enable`, read for the job that ends next, in the cycle after its turn has come."""
        m = self.m
        m.submodules[name] = memory = Memory(
            shape=unsigned(Shape.cast(shape).width), depth=self.config.jobs, init=[]
        )
        put, get = memory.write_port(), memory.read_port()
        m.d.comb += fields(put, en=enable, addr=slot, data=Value.cast(value))
        m.d.comb += fields(get, addr=self.slot, en=1)
        return get.data, memory

    def _jobs(self, ready_next) -> None:
        """What is known of the jobs, until their turn has come."""
        m, config = self.m, self.config
        fetch, intake, core = self.fetch, self.intake, self.core
        n, job, outcome = config.n_max, self.job, self.back.i
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
        for k, (o, valid) in enumerate(core.solutions):
            solution = Cat(o.mask, o.weights.as_value(), core.failed)
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
            ready_next.eq(over.bit_select(self.slot, 1)),
            job.mask.eq(solved[:n]),
            job.weights.as_value().eq(solved[n : 33 * n]),
            job.failed.eq(solved[33 * n] if len(core.failed) else 0),
        ]
        with m.If(outcome.valid & outcome.ready):
            m.d.sync += [
                over.bit_select(self.slot, 1).eq(0),
                self.slot.eq(Mux(self.slot == config.jobs - 1, 0, self.slot + 1)),
                self.solver.eq(Mux(self.solver == config.solvers - 1, 0, self.solver + 1)),
            ]
        if self.update is not None:
            self.update.follow(m, intake, core, self._kept, job.anchor)

    def _ends(self) -> None:
        m, back = self.m, self.back
        reader, writer, passing = self.reader, self.writer, self.fetch.passing
        running = Signal()
        with m.If(self.start):
            m.d.sync += running.eq(1)
        with m.If(back.ended):
            m.d.sync += self.retired.eq(self.retired + 1)
        m.d.comb += [
            self.done.eq(running & (self.retired == self.registers.jobs) & writer.idle),
            self.error.eq(reader.error | writer.error),
            self.report.block.eq(self.retired),
            self.report.code.eq(
                Mux(reader.error, ErrorCode.BUS_READ.value, ErrorCode.BUS_WRITE.value)
            ),
        ]
        steps = {
            "jobs_ended": back.ended,
            "jobs_failed": back.i.valid & back.i.ready & (back.i.p.code != 0),
            "passes": passing.valid & passing.ready,
            "records": self.core.record_valid & ~self.core.record.end,
            "held": reader.o.valid & ~reader.o.ready,
        }
        m.d.comb += [
            self.counters[counter.name].eq(steps[counter.name])
            for counter in self.register_map.counters
        ]
        m.d.comb += observe(self.monitors.words, reader.o)
        m.d.comb += observe(self.monitors.results, writer.i_data)
