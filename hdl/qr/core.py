"""From a job's changes, or all its rows, and its memo's sums to new sums and weights."""

from typing import Any

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import data

from ...models.qr.config import FitPlan
from ...models.qr.job import Method
from ...models.qr.layout import held_words
from ..index import index, index_range
from ..modules import Parts
from ..stream.passing import fields, passed_on
from ..stream.queue import Queue
from .gearbox import Gearbox
from .givens import Givens, start_shape
from .group_rows import FullScan
from .loader import Loader
from .normal_equations import Merge, NormalEquationAccumulator
from .records import COUNTS, Records, record_shape
from .solver import Solver, solution_shape


class Core:
    """Adds the way of jobs from their records to their weights to the engine's module. While one job's records are added up, the words of the one before
    pass the memo's sums, and those before it are solved.

    Golden: `models.qr.golden.refit` (weights, mask; c and AᵀA of the memo). Twin in cycles: `models.qr.blocks`. A job of k changes keeps the records' side for
    k + 4 cycles and those in which `hold` is high, its w words of c and AᵀA the other side for w + `MIDDLE` + columns + 4 cycles at the
    most. A job whose records are in disorder goes through like any other; its report says so, and what it gives is not to be published.

    Parameters
    ----------
    intake
        Jobs, and words of changes, rows and memos, job by job: of sums as many as the largest job has may come before they are wanted, those of
        factors (method `givens`) must not wait for those of changes.
    back
        Takes words of the new memos' sums and factors.
    hold
        No change is taken in this cycle: what follows the records has no time for one.
    """

    def __init__(self, m: Module, config: FitPlan, parts: Parts, intake, back, hold):
        self.config, self.parts, self.hold = config, parts, hold
        self.intake, self.back, self.job = intake, back, intake.body.p
        number = index_range(config.jobs)
        # what the sums take in this cycle, a job's `end` too
        self.record = Signal(record_shape(config.n_max))
        self.record_valid, self.report_valid, self.begins = Signal(), Signal(), Signal()
        # before a job's first word of c, for one cycle: the `models.errors.ErrorCode` of its
        # records
        self.report = Signal(data.StructLayout({"job": number, "code": 8}))
        # weights from each solver with whether they are there, for one cycle; later jobs may come
        # before earlier ones
        self.solutions: list[tuple[Any, Any]] = []
        # method `givens`, with the weights: what was removed could not be taken out of the factor
        self.failed = Const(0, 0)
        self.columns = Signal(range(config.n_max + 1), reset_less=True)
        self.offsets = Signal(intake.head.offsets.shape(), reset_less=True)
        self.records = Records(m, config, self.offsets, intake.changes)
        self.accumulator = NormalEquationAccumulator(m, config, self.columns)
        self.merge = Merge(m, config, self.accumulator)
        self.loader = Loader(m, config, parts, self.merge.o)
        # a job's sums are there before its changes have been added up: they must not keep the next job's changes from coming
        m.submodules.sums = self.sums = Queue(8 * config.bus_bytes, held_words(config))

        self.rotated = self._rotated(m) if config.method is Method.GIVENS else None
        self._commands(m)
        self._add_up(m)
        self._merge_words(m)
        self._solvers(m)

    def _commands(self, m):
        """A job begins: those who read its words are told. Offsets and columns stay until its last record has been added up."""
        job, records = self.job.descriptor, self.records
        full, scans = job.flags[0], not self.config.incremental
        self.busy, self.places = Signal(), Signal()
        kept = {"columns": len(self.columns), "fresh": 1, "job": len(self.job.slot)}
        m.submodules.waiting = self.waiting = Queue(
            data.StructLayout({**kept, "solver": len(self.job.solver)}), 2
        )
        self.scan = scan = FullScan(
            m, self.config, job, self.begins & (full | scans), self.offsets, self.intake
        )
        ready = ~self.busy & (scan.ready | ~(full | scans)) & (records.command.ready | full)
        queues = [self.waiting, *(self.on_their_way if self.rotated else ())]
        for queue in queues:
            ready = ready & queue.i.ready
            m.d.comb += [
                *fields(queue.i.p, columns=job.length + 1, fresh=full, job=self.job.slot),
                queue.i.valid.eq(self.begins & ~full if queue in queues[2:] else self.begins),
            ]
        m.d.comb += [
            self.begins.eq(self.intake.pending & ready),
            self.intake.begins.eq(self.begins),
            records.command.valid.eq(self.begins & ~full),
            *(records.command.p[name].eq(job[name]) for name in ("length", *COUNTS)),
            self.waiting.i.p.solver.eq(self.job.solver),
        ]

    def _rotated(self, m):
        """Jobs on their way to the solver of method `givens`, and columns of the memos' factors."""
        n = self.config.n_max
        job = start_shape(n, self.config.jobs)
        m.submodules.starts = starts = Queue(job, 2)
        m.submodules.factors = factors = Queue(job, 2)
        self.on_their_way = starts, factors
        cutter = Gearbox(m, "factors", self.intake.factor, n, count_bits=len(self.columns))
        columns = factors.o.p.columns
        m.d.comb += [
            cutter.command.valid.eq(factors.o.valid),
            factors.o.ready.eq(cutter.command.ready),
            *fields(cutter.command.p, size=1, grow=1, count=columns),
            cutter.command.p.units.eq(Array([k * (k + 1) // 2 for k in range(n + 1)])[columns]),
        ]
        of_factors = cutter.o, self.back.factor
        return Givens(m, self.config, self.parts, starts.o, of_factors, self.loader.o)

    def _add_up(self, m):
        """Records go to the accumulator. Where c comes from a pass the rows come behind the changes, whose end is passed over."""
        passed, wrong, scans = Signal(), Signal(8), not self.config.incremental
        item, offered, rest = self.accumulator.i.p, Signal(), Const(1)
        m.d.comb += [
            passed.eq(scans & self.records.o.valid & self.records.o.p.end & ~self.places),
            item.eq(Mux(self.places, self.scan.o.payload.as_value(), self.records.o.p.as_value())),
            offered.eq(
                Mux(self.places, self.scan.o.valid, self.records.o.valid & ~passed & ~self.hold)
            ),
        ]
        with m.If(self.places & (wrong != 0)):
            m.d.comb += item.code.eq(wrong)
        if self.rotated:  # rows go to the solver too
            rows, folded = self.rotated.rows, item.end | (item.sign != 0)
            rest = ~folded | rows.ready
            m.d.comb += rows.valid.eq(offered & folded & self.accumulator.i.ready)
            m.d.comb += fields(rows.p, a=item.a, gone=item.sign < 0, end=item.end)
        taken = offered & rest & self.accumulator.i.ready
        m.d.comb += [
            self.accumulator.i.valid.eq(offered & rest),
            self.records.o.ready.eq((taken & ~self.places) | passed),
            self.scan.o.ready.eq(taken & self.places),
        ]
        with m.If(passed):
            m.d.sync += [self.places.eq(1), wrong.eq(self.records.o.p.code)]
        with m.If(self.begins):
            m.d.sync += [
                self.busy.eq(1),
                self.places.eq(self.job.descriptor.flags[0]),
                wrong.eq(0),
                self.offsets.eq(self.intake.head.offsets),
                self.columns.eq(self.job.descriptor.length + 1),
            ]
        with m.Elif(self.accumulator.i.valid & self.accumulator.i.ready & self.accumulator.i.p.end):
            m.d.sync += self.busy.eq(0)
        m.d.comb += self.record.eq(self.accumulator.i.payload)
        m.d.comb += self.record_valid.eq(self.accumulator.i.valid & self.accumulator.i.ready)

    def _merge_words(self, m):
        """The words of the oldest job whose changes are known."""
        merging, begin = Signal(), Signal()
        waiting, accumulator, merge = self.waiting.o, self.accumulator, self.merge
        last_taken, self.solver = Signal(), index(self.config.solvers, name="solver")
        for taker in (merge, self.loader):
            m.d.comb += taker.command.valid.eq(begin)
            m.d.comb += taker.command.p.columns.eq(waiting.p.columns)
        m.d.comb += [
            merge.command.p.fresh.eq(waiting.p.fresh),
            self.loader.command.p.job.eq(waiting.p.job),
            waiting.ready.eq(begin),
            self.report_valid.eq(begin),
            *fields(self.report, job=waiting.p.job, code=accumulator.done.payload),
            *passed_on(self.intake.sums, self.sums.i),
            *passed_on(self.sums.o, merge.i),
            last_taken.eq(merge.o.valid & merge.o.ready & merge.o.p.last),
            accumulator.done.ready.eq(last_taken),
            begin.eq(
                accumulator.done.valid & ~merging & merge.command.ready & self.loader.command.ready
            ),
        ]
        with m.If(begin):
            m.d.sync += [
                merging.eq(1),
                self.solver.eq(waiting.p.solver),
                self.back.sums_job.eq(waiting.p.job),
            ]
        with m.Elif(last_taken):
            m.d.sync += merging.eq(0)

    def _solvers(self, m):
        """Each word goes to both the loader and the memo's writer, in the same cycle; rows go to the job's solver."""
        m.d.comb += [
            self.back.sums.payload.eq(self.merge.o.payload),
            self.back.sums.valid.eq(self.merge.o.valid & self.merge.o.ready),
        ]
        if self.rotated:
            self.solutions.append((self.rotated.o, self.rotated.o_valid))
            self.failed = self.rotated.failed
        for k in () if self.rotated else range(self.config.solvers):
            here = self.solver == k if self.config.solvers > 1 else Const(1)
            ends = self.parts.instance(
                m,
                f"solver{k}",
                "qr_solver",
                lambda: Solver(self.config, self.parts),
                i__payload=self.loader.o.payload,
                i__valid=self.loader.o.valid & here,
            )
            shape = solution_shape(self.config.n_max, self.config.jobs)
            self.solutions.append((data.View(shape, ends["o"]), ends["o_valid"]))
            with m.If(here):
                m.d.comb += self.loader.o.ready.eq(ends["i__ready"])
