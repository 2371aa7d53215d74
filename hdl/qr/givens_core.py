"""Method `givens`: from a job's changes, or all its rows, its memo's factor and sums, to new sums, weights and a new factor."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.layout import held_words
from ..modules import Parts, Submodules
from ..stream.passing import passed_on
from ..stream.queue import Queue
from .core import COUNTS, core_members
from .factor_writer import factor_shape
from .full_scan import FullScan
from .gearbox import Gearbox
from .givens import Givens
from .givens_issue import start_shape
from .records import Records, record_shape
from .totals import Refresh, Totals

__all__ = ["GivensCore"]


class GivensCore(wiring.Component):
    """Jobs of method `givens`. New rows go into the sums and to the solver at once.

    Golden: `models.qr.golden.refit` (weights, mask; c, sums, squares, d and u of the memo). A job's record a cycle, as long as the solver takes its rows; its
    3 n sums one a cycle, beside the next job's records. Words of the job's factor must not wait for words of its changes: the rows wait for the factor.

    Parameters
    ----------
    config
        `models.qr.config.FitPlan`.

    Members
    -------
    command, changes, bits, rows, hold, record, record_valid, record_job, report, report_valid, o0, o0_valid
        As of `Core`.
    load : In(stream.Signature(8 * bus_bytes))
        Words of the memos' factors, job by job.
    memo : In(stream.Signature(8 * bus_bytes))
        Words of the memos' c (not where it comes from a pass), then of column sums and sums of squares, job by job; as many as
        the largest job has may come before they are wanted.
    words : Out(stream.Signature({data, gram, last})), words_job : Out
        Words of these parts of the new memos (`gram`: not of c).
    factor : Out(stream.Signature(factor_shape(config)))
        Words of the new factors, one job's behind the other's, in the order in which they are done.
    """

    def __init__(self, config: FitPlan, parts: Parts | None = None):
        self.config, self.parts = config, parts or Submodules()
        bus = stream.Signature(8 * config.bus_bytes)
        own = {"load": In(bus), "factor": Out(stream.Signature(factor_shape(config)))}
        super().__init__({**core_members(config), **own})

    def elaborate(self, platform):
        m = Module()
        self.n = self.config.n_max
        self.triangle = Array([k * (k + 1) // 2 for k in range(self.n + 1)])
        m.submodules.records = self.records = Records(self.config)
        m.submodules.full_scan = self.full_scan = FullScan(self.config)
        m.submodules.totals = self.totals = Totals(self.config)
        m.submodules.refresh = self.refresh = Refresh(self.config, self.parts)
        m.submodules.solver = self.solver = Givens(self.config, self.parts)
        m.submodules.cutter = self.cutter = Gearbox(
            word_units=self.config.bus_bytes // 4,
            unit_bits=32,
            chunk_units=self.n,
            count_bits=len(self.refresh.command.p.columns),
        )
        # a job's sums are there before its changes have been added up: they must not keep the next job's changes from coming
        words = held_words(self.config)
        m.submodules.sums = self.sums = Queue(8 * self.config.bus_bytes, words)
        job_shape = start_shape(self.n, self.config.jobs)
        m.submodules.waiting = self.waiting = Queue(job_shape, 2)
        m.submodules.starts = self.starts = Queue(job_shape, 2)
        m.submodules.factors = self.factors = Queue(job_shape, 2)

        self._commands(m)
        self._records(m)

        self._load_factor(m)
        self._refresh(m)
        return m

    def _commands(self, m):
        """A job begins: its command goes to those who read its words. Offsets stay until its last record has been added up."""
        self.busy = Signal()
        self.places = Signal()
        self.offsets = Signal.like(self.command.p.offsets)
        self.begins = Signal()
        self.scans = not self.config.incremental
        room = self.waiting.i.ready & self.starts.i.ready & self.factors.i.ready
        m.d.comb += [
            self.begins.eq(self.command.valid & self.command.ready),
            self.command.ready.eq(
                ~self.busy
                & (self.full_scan.command.ready | ~(self.command.p.full | self.scans))
                & (self.records.command.ready | self.command.p.full)
                & room
            ),
            self.records.command.valid.eq(self.begins & ~self.command.p.full),
            self.records.command.p.length.eq(self.command.p.length),
            *(self.records.command.p[name].eq(self.command.p[name]) for name in COUNTS),
            self.records.offsets.eq(self.offsets),
            self.full_scan.command.valid.eq(self.begins & (self.command.p.full | self.scans)),
            self.full_scan.command.p.length.eq(self.command.p.length),
            self.full_scan.command.p.span.eq(self.command.p.span),
            self.full_scan.command.p.full.eq(self.command.p.full),
            self.full_scan.offsets.eq(self.offsets),
        ]
        for queue in (self.waiting, self.starts, self.factors):
            m.d.comb += [
                queue.i.p.columns.eq(self.command.p.length + 1),
                queue.i.p.fresh.eq(self.command.p.full),
                queue.i.p.job.eq(self.command.p.job),
                queue.i.valid.eq(
                    self.begins & (~self.command.p.full if queue is self.factors else 1)
                ),
            ]
        for inner, outer in (
            (self.records.i, self.changes),
            (self.full_scan.bits, self.bits),
            (self.full_scan.words, self.rows),
            (self.cutter.i, self.load),
            (self.sums.i, self.memo),
            (self.refresh.i, self.sums.o),
        ):
            m.d.comb += passed_on(outer, inner)

    def _records(self, m):
        """Records go to the sums, and rows that came to the solver."""
        self.taken_record = Signal(record_shape(self.n))
        offered = Signal()
        folded = Signal()
        self.taken = Signal()
        # where c comes from a pass the rows come behind the changes, whose end is passed over
        passed, wrong = Signal(), Signal(8)
        m.d.comb += [
            passed.eq(self.scans & self.records.o.valid & self.records.o.p.end & ~self.places),
            self.taken_record.eq(
                Mux(
                    self.places,
                    self.full_scan.o.payload.as_value(),
                    self.records.o.payload.as_value(),
                )
            ),
            offered.eq(
                Mux(
                    self.places, self.full_scan.o.valid, self.records.o.valid & ~passed & ~self.hold
                )
            ),
        ]
        with m.If(self.places & (wrong != 0)):
            m.d.comb += self.taken_record.code.eq(wrong)
        with m.If(passed):
            m.d.sync += [self.places.eq(1), wrong.eq(self.records.o.p.code)]
        m.d.comb += [
            folded.eq(self.taken_record.end | (self.taken_record.sign > 0)),
            self.totals.i.payload.eq(self.taken_record),
            self.solver.rows.p.end.eq(self.taken_record.end),
            *(self.solver.rows.p.a[k].eq(self.taken_record.a[1 + k]) for k in range(self.n - 1)),
            self.totals.i.valid.eq(offered & (~folded | self.solver.rows.ready)),
            self.solver.rows.valid.eq(offered & folded & self.totals.i.ready),
            self.taken.eq(self.totals.i.valid & self.totals.i.ready),
            self.records.o.ready.eq((self.taken & ~self.places) | passed),
            self.full_scan.o.ready.eq(self.taken & self.places),
            self.record.eq(self.taken_record),
            self.record_valid.eq(self.taken),
        ]
        with m.If(self.begins):
            m.d.sync += [
                self.busy.eq(1),
                self.places.eq(self.command.p.full),
                wrong.eq(0),
                self.offsets.eq(self.command.p.offsets),
                self.record_job.eq(self.command.p.job),
            ]
        with m.Elif(self.taken & self.taken_record.end):
            m.d.sync += self.busy.eq(0)

    def _load_factor(self, m):
        """The factor goes into a context."""
        m.d.comb += [
            *passed_on(self.starts.o, self.solver.start),
            self.cutter.command.valid.eq(self.factors.o.valid),
            self.factors.o.ready.eq(self.cutter.command.ready),
            self.cutter.command.p.size.eq(self.factors.o.p.columns),
            self.cutter.command.p.shrink.eq(1),
            self.cutter.command.p.count.eq(self.factors.o.p.columns),
            self.cutter.command.p.units.eq(self.triangle[self.factors.o.p.columns]),
            self.solver.load.payload.eq(self.cutter.o.p.data),
            self.solver.load.valid.eq(self.cutter.o.valid & ~self.cutter.o.p.end),
            self.cutter.o.ready.eq(self.cutter.o.p.end | self.solver.load.ready),
        ]

    def _refresh(self, m):
        """The sums of the oldest job whose changes are known."""
        merging = Signal()
        begin = Signal()
        last = Signal()
        m.d.comb += [
            self.refresh.command.valid.eq(begin),
            self.refresh.command.p.columns.eq(self.waiting.o.p.columns),
            self.refresh.command.p.fresh.eq(self.waiting.o.p.fresh),
            self.waiting.o.ready.eq(begin),
            self.report_valid.eq(begin),
            self.report.job.eq(self.waiting.o.p.job),
            self.report.live.eq(self.totals.done.p.live),
            self.totals.part.eq(self.refresh.part),
            self.totals.column.eq(self.refresh.column),
            *passed_on(self.refresh.o, self.words),
            last.eq(self.refresh.o.valid & self.refresh.o.ready & self.refresh.o.p.last),
            self.totals.done.ready.eq(last),
            *passed_on(self.refresh.side, self.solver.side),
            begin.eq(self.totals.done.valid & ~merging & self.refresh.command.ready),
            self.report.code.eq(self.totals.done.p.code),
            self.refresh.value.eq(self.totals.value),
            self.o0.eq(self.solver.o),
            self.o0_valid.eq(self.solver.o_valid),
            *passed_on(self.solver.factor, self.factor),
        ]
        with m.If(begin):
            m.d.sync += [merging.eq(1), self.words_job.eq(self.waiting.o.p.job)]
        with m.Elif(last):
            m.d.sync += merging.eq(0)
