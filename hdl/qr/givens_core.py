"""Method `givens`: from a job's changes, or all its rows, its memo's factor and sums, to new sums, weights and a new factor."""

from amaranth.hdl import Array, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.config import FitPlan
from ...models.qr.errors import FitError
from ...models.qr.job import Sums
from ...models.qr.layout import Size, block_words, frame_words, shift_words, sums_words
from ..index import index_range
from ..modules import Parts, Submodules
from ..stream.queue import Queue
from .core import COUNTS, core_command_shape
from .factor_writer import factor_shape
from .full_scan import FullScan
from .gearbox import Gearbox
from .givens import Givens
from .givens_issue import start_shape
from .records import Records, record_shape
from .shift import Shift, trend_shape
from .solver import solution_shape
from .totals import Refresh, Totals

__all__ = ["GivensCore"]


class GivensCore(wiring.Component):
    """Jobs of method `givens`. New rows go into the sums and to the solver at once.

    Golden: `models.qr.golden.refit` (weights, mask; c, sums, squares, d and u of the memo). A job's record a cycle, as long as the solver takes its rows; its
    3 n sums one a cycle, beside the next job's records. Words of the job's factor must not wait for words of its changes: the rows wait for the factor.

    Parameters
    ----------
    config
        `models.qr.FitPlan`.

    Members
    -------
    command, changes, bits, rows, hold, record, record_valid, record_job, report, trend, report_valid, o0, o0_valid
        As of `Core`.
    load : In(stream.Signature(8 * bus_bytes))
        Words of the memos' factors, job by job.
    memo : In(stream.Signature(8 * bus_bytes))
        Words of the memos' frames, moves and sums of blocks, of c (not with sums by `scan`), then of column sums and sums of squares, job by job; as many as
        the largest job has may come before they are wanted.
    words : Out(stream.Signature({data, gram, last})), words_job : Out
        Words of these parts of the new memos (`gram`: not of blocks or c); those of blocks are always taken.
    factor : Out(stream.Signature(factor_shape(config)))
        Words of the new factors, one job's behind the other's, in the order in which they are done.
    """

    def __init__(self, config: FitPlan, parts: Parts | None = None, *, src_loc_at=0):
        self.config, self.parts = config, parts or Submodules()
        n, jobs, bus = config.n_max, config.jobs, 8 * config.bus_bytes
        number = index_range(jobs)
        super().__init__({
            "command": In(stream.Signature(core_command_shape(n, jobs, config.solvers))), "changes": In(stream.Signature(bus)),
            "bits": In(stream.Signature(bus)), "rows": In(stream.Signature(bus)), "load": In(stream.Signature(bus)), "memo": In(stream.Signature(bus)),
            "hold": In(1), "record": Out(record_shape(n)), "record_valid": Out(1), "record_job": Out(number),
            "words": Out(stream.Signature(data.StructLayout({"data": bus, "gram": 1, "last": 1}))), "words_job": Out(number),
            "report": Out(data.StructLayout({"job": number, "live": signed(25), "code": 8})), "report_valid": Out(1),
            "trend": Out(trend_shape), "o0": Out(solution_shape(n, jobs)), "o0_valid": Out(1), "factor": Out(stream.Signature(factor_shape(config)))},
            src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        m = Module()
        config, command = self.config, self.command
        n = config.n_max
        triangle = Array([k * (k + 1) // 2 for k in range(n + 1)])
        m.submodules.records = records = Records(config)
        m.submodules.full_scan = full_scan = FullScan(config)
        m.submodules.totals = totals = Totals(config)
        m.submodules.refresh = refresh = Refresh(config, self.parts)
        m.submodules.solver = solver = Givens(config, self.parts)
        m.submodules.cutter = cutter = Gearbox(word_units=config.bus_bytes // 4, unit_bits=32, chunk_units=n, count_bits=len(refresh.command.p.columns))
        # a job's sums are there before its changes have been added up: they must not keep the next job's changes from coming
        largest = Size(n, 0)
        m.submodules.sums = sums = Queue(8 * config.bus_bytes, frame_words(config) + shift_words(config) + block_words(largest, config) +
                                         sum(sums_words(largest, config)))
        job_shape = start_shape(n, config.jobs)
        m.submodules.waiting = waiting = Queue(job_shape, 2)
        m.submodules.starts = starts = Queue(job_shape, 2)
        m.submodules.factors = factors = Queue(job_shape, 2)

        # offsets stay until the job's last record has been added
        busy, places, offsets, begins = Signal(), Signal(), Signal.like(command.p.offsets), Signal()
        scans = config.sums is Sums.SCAN
        room = waiting.i.ready & starts.i.ready & factors.i.ready
        m.d.comb += [
            begins.eq(command.valid & command.ready),
            command.ready.eq(~busy & (full_scan.command.ready | ~(command.p.full | scans)) & (records.command.ready | command.p.full) & room),
            records.command.valid.eq(begins & ~command.p.full), records.command.p.length.eq(command.p.length),
            *(records.command.p[name].eq(command.p[name]) for name in COUNTS), records.offsets.eq(offsets),
            full_scan.command.valid.eq(begins & (command.p.full | scans)), full_scan.command.p.length.eq(command.p.length),
            full_scan.command.p.span.eq(command.p.span), full_scan.command.p.full.eq(command.p.full), full_scan.offsets.eq(offsets)]
        for queue in (waiting, starts, factors):
            m.d.comb += [queue.i.p.columns.eq(command.p.length + 1), queue.i.p.fresh.eq(command.p.full), queue.i.p.job.eq(command.p.job),
                         queue.i.valid.eq(begins & (~command.p.full if queue is factors else 1))]
        for inner, outer in ((records.i, self.changes), (full_scan.bits, self.bits), (full_scan.words, self.rows), (cutter.i, self.load),
                             (sums.i, self.memo), (refresh.i, sums.o)):
            m.d.comb += [inner.payload.eq(outer.payload), inner.valid.eq(outer.valid), outer.ready.eq(inner.ready)]

        # records: to the sums, and rows that came to the solver
        record, offered, folded, taken = Signal(record_shape(n)), Signal(), Signal(), Signal()
        # with sums by `scan` the rows come behind the changes, whose end is passed over
        passed, wrong = Signal(), Signal(8)
        m.d.comb += [
            passed.eq(scans & records.o.valid & records.o.p.end & ~places),
            record.eq(Mux(places, full_scan.o.payload.as_value(), records.o.payload.as_value())),
            offered.eq(Mux(places, full_scan.o.valid, records.o.valid & ~passed & ~self.hold))]
        with m.If(places & (wrong != 0)):
            m.d.comb += record.code.eq(wrong)
        with m.If(passed):
            m.d.sync += [places.eq(1), wrong.eq(records.o.p.code)]
        m.d.comb += [
            folded.eq(record.end | (record.sign > 0)), totals.i.payload.eq(record), solver.rows.p.end.eq(record.end),
            *(solver.rows.p.a[k].eq(record.a[1 + k]) for k in range(n - 1)),
            totals.i.valid.eq(offered & (~folded | solver.rows.ready)), solver.rows.valid.eq(offered & folded & totals.i.ready),
            taken.eq(totals.i.valid & totals.i.ready), records.o.ready.eq((taken & ~places) | passed),
            full_scan.o.ready.eq(taken & places), self.record.eq(record), self.record_valid.eq(taken)]
        with m.If(begins):
            m.d.sync += [busy.eq(1), places.eq(command.p.full), wrong.eq(0), offsets.eq(command.p.offsets), self.record_job.eq(command.p.job)]
        with m.Elif(taken & record.end):
            m.d.sync += busy.eq(0)

        # the factor into a context
        m.d.comb += [
            solver.start.payload.eq(starts.o.payload), solver.start.valid.eq(starts.o.valid), starts.o.ready.eq(solver.start.ready),
            cutter.command.valid.eq(factors.o.valid), factors.o.ready.eq(cutter.command.ready), cutter.command.p.size.eq(factors.o.p.columns),
            cutter.command.p.shrink.eq(1), cutter.command.p.count.eq(factors.o.p.columns),
            cutter.command.p.units.eq(triangle[factors.o.p.columns]),
            solver.load.payload.eq(cutter.o.p.data), solver.load.valid.eq(cutter.o.valid & ~cutter.o.p.end),
            cutter.o.ready.eq(cutter.o.p.end | solver.load.ready)]

        # the sums of the oldest job whose changes are known
        merging, begin, last = Signal(), Signal(), Signal()
        m.d.comb += [
            refresh.command.valid.eq(begin), refresh.command.p.columns.eq(waiting.o.p.columns),
            refresh.command.p.fresh.eq(waiting.o.p.fresh), waiting.o.ready.eq(begin), self.report_valid.eq(begin), self.report.job.eq(waiting.o.p.job),
            self.report.live.eq(totals.done.p.live), totals.part.eq(refresh.part), totals.column.eq(refresh.column),
            self.words.payload.eq(refresh.o.payload), self.words.valid.eq(refresh.o.valid), refresh.o.ready.eq(self.words.ready),
            last.eq(refresh.o.valid & refresh.o.ready & refresh.o.p.last), totals.done.ready.eq(last),
            solver.side.payload.eq(refresh.side.payload), solver.side.valid.eq(refresh.side.valid), refresh.side.ready.eq(solver.side.ready),
            self.o0.eq(solver.o), self.o0_valid.eq(solver.o_valid),
            self.factor.payload.eq(solver.factor.payload), self.factor.valid.eq(solver.factor.valid), solver.factor.ready.eq(self.factor.ready)]
        starting, code = self.words_job.eq(waiting.o.p.job), totals.done.p.code
        if config.blocks:
            # words of blocks go before those of c
            m.submodules.shift = shift = Shift(config)
            staged, width = Signal(), config.bus_bytes // 8
            sides = shift.right_hand_side
            grows = Array([sides[k] for k in range(width)])[refresh.column[:(width - 1).bit_length()]] if width > 1 else sides[0]
            m.d.comb += [
                shift.record.eq(record), shift.valid.eq(taken), shift.freed.eq(last), shift.chunk.eq(refresh.following >> (width - 1).bit_length()),
                shift.command.valid.eq(totals.done.valid & ~merging & ~staged), shift.command.p.columns.eq(waiting.o.p.columns),
                shift.command.p.fresh.eq(waiting.o.p.fresh), shift.i.payload.eq(sums.o.payload), shift.i.valid.eq(sums.o.valid),
                sums.o.ready.eq(refresh.i.ready | shift.i.ready), self.trend.eq(shift.trend),
                begin.eq(staged & shift.done & refresh.command.ready), self.report.code.eq(Mux(code != 0, code, shift.crowded * FitError.QR_ROWS.value)),
                refresh.value.eq(totals.value + Mux(refresh.part == 0, grows, 0))]
            with m.If(shift.o_valid):
                m.d.comb += [self.words.valid.eq(1), self.words.p.data.eq(shift.o), self.words.p.gram.eq(0), self.words.p.last.eq(0)]
            with m.If(shift.command.valid & shift.command.ready):
                m.d.sync += [staged.eq(1), starting]
            with m.If(begin):
                m.d.sync += staged.eq(0)
        else:
            m.d.comb += [begin.eq(totals.done.valid & ~merging & refresh.command.ready), self.report.code.eq(code), refresh.value.eq(totals.value)]
            with m.If(begin):
                m.d.sync += starting
        with m.If(begin):
            m.d.sync += merging.eq(1)
        with m.Elif(last):
            m.d.sync += merging.eq(0)
        return m

