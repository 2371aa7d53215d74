"""From a job's changes, or all its rows, and its memo's sums to new sums and weights."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect

from ...models.qr.blocks import LISTED
from ...models.qr.config import FitPlan
from ...models.qr.errors import FitError
from ...models.qr.job import Sums
from ...models.qr.layout import Size, block_words, frame_words, shift_words, sums_words
from ..index import index, index_range
from ..modules import Parts, Submodules
from ..stream.queue import Queue
from .full_scan import FullScan
from .loader import Loader
from .merge import Merge
from .normal_equations import NormalEquationAccumulator
from .records import Records, record_shape
from .shift import Shift, trend_shape
from .solver import Solver, solution_shape

__all__ = ["COUNTS", "Core", "core_command_shape"]

#: lists of changes, in their order
COUNTS = ("inserted", "buried", "removed", "moved")


def core_command_shape(n_max, jobs, solvers):
    """A job: its window's length and offsets, numbers of changes, whether it has no memo (`full`; then `span` places of rows come instead of changes, with sums
    by `scan` they come behind them in any case), its number among those in flight, and its solver.
    """
    return data.StructLayout({"length": range(n_max), **dict.fromkeys(COUNTS, 24), "full": 1, "span": 32, "job": index_range(jobs),
                              "solver": index_range(solvers), "offsets": data.ArrayLayout(8, n_max - 1)})


class Core(wiring.Component):
    """Jobs of method `gram` from their records to their weights. While one job's records are added up, the words of the one before pass
    the memo's sums, and those before it are solved.

    Golden: `models.qr.golden.refit` (weights, mask; c and AᵀA of the memo). Twin in cycles: `models.qr.blocks`. A job of k changes keeps the records' side for
    k + 4 cycles and those in which `hold` is high, its w words of c and AᵀA the other side for w + `MIDDLE` + columns + 4 cycles at the
    most. A job whose records are in disorder goes through like any other; its report says so, and what it gives is not to be published.

    Parameters
    ----------
    config
        `models.qr.FitPlan`.

    Members
    -------
    command : In(stream.Signature(core_command_shape(n_max, jobs, solvers)))
    changes : In(stream.Signature(8 * bus_bytes))
        Words of changes, job by job.
    bits, rows : In(stream.Signature(8 * bus_bytes))
        Words of full jobs' rows, as `Rows` takes them.
    memo : In(stream.Signature(8 * bus_bytes))
        Words of the memos' sums, job by job (frames, moves and sums of blocks, c, AᵀA); as many as the largest job has may come before they are wanted.
    hold : In(1)
        No change is taken in this cycle: what follows the records has no time for one.
    record : Out(record_shape(n_max)), record_valid : Out(1), record_job : Out
        What the sums take in this cycle, a job's `end` too.
    words : Out(stream.Signature({data, gram, last})), words_job : Out
        Words of these parts of the new memos; those of blocks are always taken.
    report : Out({job, live, code}), trend : Out(trend_shape), report_valid : Out(1)
        Before a job's first word of c: by how much its live rows change, and `models.errors.ErrorCode`; of blocks what `Shift` says. For one cycle.
    o0, o1, … : Out(solution_shape(n_max, jobs)), o0_valid, … : Out(1)
        Weights from each solver, for one cycle; later jobs may come before earlier ones.
    """

    def __init__(self, config: FitPlan, parts: Parts | None = None, *, src_loc_at=0):
        self.config, self.parts = config, parts or Submodules()
        n, jobs, bus = config.n_max, config.jobs, 8 * config.bus_bytes
        number = index_range(jobs)
        members = {
            "command": In(stream.Signature(core_command_shape(n, jobs, config.solvers))), "changes": In(stream.Signature(bus)),
            "bits": In(stream.Signature(bus)), "rows": In(stream.Signature(bus)), "memo": In(stream.Signature(bus)),
            "hold": In(1), "record": Out(record_shape(n)), "record_valid": Out(1), "record_job": Out(number),
            "words": Out(stream.Signature(data.StructLayout({"data": bus, "gram": 1, "last": 1}))), "words_job": Out(number),
            "report": Out(data.StructLayout({"job": number, "live": signed(25), "code": 8})), "report_valid": Out(1), "trend": Out(trend_shape)}
        for k in range(config.solvers):
            members |= {f"o{k}": Out(solution_shape(n, jobs)), f"o{k}_valid": Out(1)}
        super().__init__(members, src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        m = Module()
        config, command = self.config, self.command
        m.submodules.records = records = Records(config)
        m.submodules.full_scan = full_scan = FullScan(config)
        m.submodules.accumulator = accumulator = NormalEquationAccumulator(config)
        m.submodules.merge = merge = Merge(config)
        m.submodules.loader = loader = Loader(config, self.parts)
        # a job's sums are there before its changes have been added up: they must not keep the next job's changes from coming
        largest = Size(config.n_max, 0)
        m.submodules.sums = sums = Queue(8 * config.bus_bytes, frame_words(config) + shift_words(config) + block_words(largest, config) +
                                              sum(sums_words(largest, config)))

        # offsets and columns stay until the job's last record has been added
        busy, places = Signal(), Signal()
        offsets, columns = Signal(command.p.offsets.shape(), reset_less=True), Signal(range(config.n_max + 1), reset_less=True)
        scans = config.sums is Sums.SCAN
        m.submodules.waiting = waiting = Queue(data.StructLayout(
            {"columns": len(columns), "fresh": 1, "job": len(command.p.job), "solver": len(command.p.solver)}), 2)
        begins = Signal()
        m.d.comb += [
            command.ready.eq(~busy & (full_scan.command.ready | ~(command.p.full | scans)) & (records.command.ready | command.p.full) & waiting.i.ready),
            begins.eq(command.valid & command.ready),
            records.command.valid.eq(begins & ~command.p.full), records.command.p.length.eq(command.p.length),
            *(records.command.p[name].eq(command.p[name]) for name in COUNTS),
            full_scan.command.valid.eq(begins & (command.p.full | scans)), full_scan.command.p.full.eq(command.p.full),
            full_scan.command.p.length.eq(command.p.length), full_scan.command.p.span.eq(command.p.span),
            waiting.i.valid.eq(command.valid & command.ready), waiting.i.p.columns.eq(command.p.length + 1), waiting.i.p.fresh.eq(command.p.full),
            waiting.i.p.job.eq(command.p.job), waiting.i.p.solver.eq(command.p.solver),
            records.offsets.eq(offsets), full_scan.offsets.eq(offsets), accumulator.columns.eq(columns)]
        listed = self.changes
        if config.blocks:
            # words come faster than their records are added up: the sums behind them need not wait
            m.submodules.listed = lists = Queue(8 * config.bus_bytes, LISTED)
            m.d.comb += [lists.i.payload.eq(self.changes.payload), lists.i.valid.eq(self.changes.valid), self.changes.ready.eq(lists.i.ready)]
            listed = lists.o
        for inner, outer in ((records.i, listed), (full_scan.bits, self.bits), (full_scan.words, self.rows)):
            m.d.comb += [inner.payload.eq(outer.payload), inner.valid.eq(outer.valid), outer.ready.eq(inner.ready)]
        # with sums by `scan` the rows come behind the changes, whose end is passed over
        passed, wrong = Signal(), Signal(8)
        m.d.comb += passed.eq(scans & records.o.valid & records.o.p.end & ~places)
        with m.If(places):
            m.d.comb += [accumulator.i.payload.eq(full_scan.o.payload), accumulator.i.valid.eq(full_scan.o.valid), full_scan.o.ready.eq(accumulator.i.ready)]
            with m.If(wrong != 0):
                m.d.comb += accumulator.i.p.code.eq(wrong)
        with m.Else():
            m.d.comb += [accumulator.i.payload.eq(records.o.payload), accumulator.i.valid.eq(records.o.valid & ~passed & ~self.hold),
                         records.o.ready.eq((accumulator.i.ready & ~self.hold) | passed)]
        with m.If(passed):
            m.d.sync += [places.eq(1), wrong.eq(records.o.p.code)]
        with m.If(command.valid & command.ready):
            m.d.sync += [busy.eq(1), places.eq(command.p.full), wrong.eq(0), offsets.eq(command.p.offsets), columns.eq(command.p.length + 1),
                         self.record_job.eq(command.p.job)]
        with m.Elif(accumulator.i.valid & accumulator.i.ready & accumulator.i.p.end):
            m.d.sync += busy.eq(0)
        m.d.comb += [self.record.eq(accumulator.i.payload), self.record_valid.eq(accumulator.i.valid & accumulator.i.ready)]

        # the words of the oldest job whose changes are known
        merging, begin = Signal(), Signal()
        m.d.comb += [
            merge.command.valid.eq(begin), loader.command.valid.eq(begin), merge.command.p.columns.eq(waiting.o.p.columns),
            merge.command.p.fresh.eq(waiting.o.p.fresh), loader.command.p.columns.eq(waiting.o.p.columns), loader.command.p.job.eq(waiting.o.p.job),
            waiting.o.ready.eq(begin), self.report_valid.eq(begin), self.report.job.eq(waiting.o.p.job), self.report.live.eq(accumulator.done.p.live),
            accumulator.chunk.eq(merge.chunk), merge.entries.eq(accumulator.entries),
            sums.i.payload.eq(self.memo.payload), sums.i.valid.eq(self.memo.valid), self.memo.ready.eq(sums.i.ready),
            merge.i.payload.eq(sums.o.payload), merge.i.valid.eq(sums.o.valid)]
        last_taken, solver = Signal(), index(config.solvers, name="solver")
        m.d.comb += [last_taken.eq(merge.o.valid & merge.o.ready & merge.o.p.last), accumulator.done.ready.eq(last_taken)]
        free, code = merge.command.ready & loader.command.ready, accumulator.done.p.code
        if config.blocks:
            # words of blocks go before those of c
            m.submodules.shift = shift = Shift(config)
            staged = Signal()
            m.d.comb += [
                shift.record.eq(self.record), shift.valid.eq(self.record_valid), shift.freed.eq(last_taken), shift.chunk.eq(merge.chunk),
                shift.command.valid.eq(accumulator.done.valid & ~merging & ~staged), shift.command.p.columns.eq(waiting.o.p.columns),
                shift.command.p.fresh.eq(waiting.o.p.fresh), shift.i.payload.eq(sums.o.payload), shift.i.valid.eq(sums.o.valid),
                sums.o.ready.eq(merge.i.ready | shift.i.ready), self.trend.eq(shift.trend), begin.eq(staged & shift.done & free),
                self.report.code.eq(Mux(code != 0, code, shift.crowded * FitError.QR_ROWS.value)),
                *(merge.right_hand_side[k].eq(accumulator.right_hand_side[k] + shift.right_hand_side[k]) for k in range(config.bus_bytes // 8))]
            with m.If(shift.command.valid & shift.command.ready):
                m.d.sync += [staged.eq(1), self.words_job.eq(waiting.o.p.job)]
            with m.If(begin):
                m.d.sync += staged.eq(0)
        else:
            m.d.comb += [begin.eq(accumulator.done.valid & ~merging & free), sums.o.ready.eq(merge.i.ready), self.report.code.eq(code),
                         merge.right_hand_side.eq(accumulator.right_hand_side)]
            with m.If(begin):
                m.d.sync += self.words_job.eq(waiting.o.p.job)
        with m.If(begin):
            m.d.sync += [merging.eq(1), solver.eq(waiting.o.p.solver)]
        with m.Elif(last_taken):
            m.d.sync += merging.eq(0)

        # each word goes to both the loader and the memo's writer, in the same cycle
        m.d.comb += [
            loader.i.payload.eq(merge.o.payload), self.words.payload.eq(merge.o.payload), merge.o.ready.eq(loader.i.ready & self.words.ready),
            loader.i.valid.eq(merge.o.valid & self.words.ready), self.words.valid.eq(merge.o.valid & loader.i.ready)]
        if config.blocks:
            with m.If(shift.o_valid):
                m.d.comb += [self.words.valid.eq(1), self.words.p.eq(shift.o)]
        if config.solvers == 1:
            m.submodules.solver0 = unit = Solver(config, self.parts)
            connect(m, loader.o, unit.i)
            m.d.comb += [self.o0.eq(unit.o), self.o0_valid.eq(unit.o_valid)]
            return m
        for k in range(config.solvers):
            ends = self.parts.instance(m, f"solver{k}", "qr_solver", lambda: Solver(config, self.parts), i__payload=loader.o.payload,
                                       i__valid=loader.o.valid & (solver == k))
            m.d.comb += [getattr(self, f"o{k}").eq(ends["o"]), getattr(self, f"o{k}_valid").eq(ends["o_valid"])]
            with m.If(solver == k):
                m.d.comb += loader.o.ready.eq(ends["i__ready"])
        return m
