"""From a job's changes, or all its rows, and its memo's sums to new sums and weights."""

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect

from ...models.qr.config import FitPlan
from ...models.qr.job import Method
from ...models.qr.layout import held_words
from ..index import index, index_range
from ..modules import Parts, Submodules
from ..stream.passing import passed_on
from ..stream.queue import Queue
from .full_scan import FullScan
from .gearbox import Gearbox
from .givens import Givens, factor_shape
from .loader import Loader
from .merge import Merge
from .normal_equations import NormalEquationAccumulator
from .records import COUNTS, Records, record_shape
from .solver import Solver, solution_shape

__all__ = ["Core", "core_command_shape"]


def core_command_shape(n_max, jobs, solvers):
    """A job: its window's length and offsets, numbers of changes, whether it has no memo (`full`; then `rows` in `span` places come instead of changes,
    where c comes from passes they come behind them in any case), its number among those in flight, and its solver.
    """
    return data.StructLayout(
        {
            "length": range(n_max),
            **dict.fromkeys(COUNTS, 24),
            "full": 1,
            "rows": 24,
            "span": 32,
            "job": index_range(jobs),
            "solver": index_range(solvers),
            "offsets": data.ArrayLayout(8, n_max - 1),
        }
    )


def _members(config: FitPlan) -> dict[str, wiring.Member]:
    n, jobs, bus = config.n_max, config.jobs, 8 * config.bus_bytes
    number = index_range(jobs)
    members = {
        "command": In(stream.Signature(core_command_shape(n, jobs, config.solvers))),
        "changes": In(stream.Signature(bus)),
        "bits": In(stream.Signature(bus)),
        "rows": In(stream.Signature(bus)),
        "memo": In(stream.Signature(bus)),
        "hold": In(1),
        "record": Out(record_shape(n)),
        "record_valid": Out(1),
        "record_job": Out(number),
        "words": Out(stream.Signature(data.StructLayout({"data": bus, "gram": 1, "last": 1}))),
        "words_job": Out(number),
        "report": Out(data.StructLayout({"job": number, "code": 8})),
        "report_valid": Out(1),
    }
    if config.method is Method.GIVENS:
        factor = stream.Signature(factor_shape(config))
        members |= {"load": In(stream.Signature(bus)), "factor": Out(factor), "failed": Out(1)}
    for k in range(config.solvers):
        members |= {f"o{k}": Out(solution_shape(n, jobs)), f"o{k}_valid": Out(1)}
    return members


class Core(wiring.Component):
    """Jobs from their records to their weights. While one job's records are added up, the words of the one before pass
    the memo's sums, and those before it are solved.

    Golden: `models.qr.golden.refit` (weights, mask; c and AᵀA of the memo). Twin in cycles: `models.qr.blocks`. A job of k changes keeps the records' side for
    k + 4 cycles and those in which `hold` is high, its w words of c and AᵀA the other side for w + `MIDDLE` + columns + 4 cycles at the
    most. A job whose records are in disorder goes through like any other; its report says so, and what it gives is not to be published.

    Parameters
    ----------
    config
        `models.qr.config.FitPlan`.

    Members
    -------
    command : In(stream.Signature(core_command_shape(n_max, jobs, solvers)))
    changes : In(stream.Signature(8 * bus_bytes))
        Words of changes, job by job.
    bits, rows : In(stream.Signature(8 * bus_bytes))
        Words of full jobs' rows, as `Rows` takes them.
    memo : In(stream.Signature(8 * bus_bytes))
        Words of the memos' sums, job by job (c, AᵀA); as many as the largest job has may come before they are wanted.
    hold : In(1)
        No change is taken in this cycle: what follows the records has no time for one.
    record : Out(record_shape(n_max)), record_valid : Out(1), record_job : Out
        What the sums take in this cycle, a job's `end` too.
    words : Out(stream.Signature({data, gram, last})), words_job : Out
        Words of these parts of the new memos.
    report : Out({job, code}), report_valid : Out(1)
        Before a job's first word of c: the `models.errors.ErrorCode` of its records. For one cycle.
    o0, o1, … : Out(solution_shape(n_max, jobs)), o0_valid, … : Out(1)
        Weights from each solver, for one cycle; later jobs may come before earlier ones.
    load : In(stream.Signature(8 * bus_bytes)), factor : Out(stream.Signature(factor_shape(config)))
        Method `givens`: words of the memos' factors, job by job, which must not wait for words of their changes; words of the new ones, which are always taken.
    failed : Out(1)
        Method `givens`, with the weights: what was removed could not be taken out of the factor.
    """

    def __init__(self, config: FitPlan, parts: Parts | None = None):
        self.config, self.parts = config, parts or Submodules()
        super().__init__(_members(config))

    def elaborate(self, platform):
        m = Module()
        m.submodules.records = self.records = Records(self.config)
        m.submodules.full_scan = self.full_scan = FullScan(self.config)
        m.submodules.accumulator = self.accumulator = NormalEquationAccumulator(self.config)
        m.submodules.merge = self.merge = Merge(self.config)
        m.submodules.loader = self.loader = Loader(self.config, self.parts)
        # a job's sums are there before its changes have been added up: they must not keep the next job's changes from coming
        words = held_words(self.config)
        m.submodules.sums = self.sums = Queue(8 * self.config.bus_bytes, words)

        self.givens = self.config.method is Method.GIVENS
        if self.givens:
            m.submodules.solver0 = self.rotated = Givens(self.config, self.parts)
            self._factors(m)
        self._commands(m)
        m.d.comb += [
            *passed_on(self.changes, self.records.i),
            *passed_on(self.bits, self.full_scan.bits),
            *passed_on(self.rows, self.full_scan.words),
        ]
        self._add_up(m)
        self._merge_words(m)
        self._solvers(m)
        return m

    def _commands(self, m):
        """A job begins: its command goes to those who read its words. Offsets and columns stay until its last record has been added up."""
        command, records, scan = self.command.p, self.records, self.full_scan
        self.busy, self.places, begins = Signal(), Signal(), Signal()
        self.offsets = Signal(command.offsets.shape(), reset_less=True)
        self.columns = Signal(range(self.config.n_max + 1), reset_less=True)
        self.scans = not self.config.incremental
        kept = {"columns": len(self.columns), "fresh": 1, "job": len(command.job)}
        m.submodules.waiting = self.waiting = Queue(
            data.StructLayout({**kept, "solver": len(command.solver)}), 2
        )
        scans, queues = command.full | self.scans, [self.waiting]
        queues += [self.starts, self.factors] if self.givens else []
        ready = ~self.busy & (scan.command.ready | ~scans) & (records.command.ready | command.full)
        for queue in queues:
            ready = ready & queue.i.ready
            m.d.comb += [
                queue.i.p.columns.eq(command.length + 1),
                queue.i.p.fresh.eq(command.full),
                queue.i.p.job.eq(command.job),
                queue.i.valid.eq(begins & ~command.full if queue in queues[2:] else begins),
            ]
        m.d.comb += [
            self.command.ready.eq(ready),
            begins.eq(self.command.valid & ready),
            records.command.valid.eq(begins & ~command.full),
            scan.command.valid.eq(begins & scans),
            *(records.command.p[name].eq(command[name]) for name in ("length", *COUNTS)),
            *(
                scan.command.p[name].eq(command[name])
                for name in ("full", "length", "rows", "span")
            ),
            self.waiting.i.p.solver.eq(command.solver),
            records.offsets.eq(self.offsets),
            scan.offsets.eq(self.offsets),
            self.accumulator.columns.eq(self.columns),
        ]

    def _factors(self, m):
        """Jobs on their way to the solver of method `givens`, and columns of the memos' factors."""
        n, solver = self.config.n_max, self.rotated
        job = solver.start.p.shape()
        m.submodules.starts = self.starts = Queue(job, 2)
        m.submodules.factors = self.factors = Queue(job, 2)
        m.submodules.cutter = cutter = Gearbox(
            word_units=self.config.bus_bytes // 4,
            unit_bits=32,
            chunk_units=n,
            count_bits=len(self.command.p.length) + 1,
        )
        columns = self.factors.o.p.columns
        m.d.comb += [
            *passed_on(self.starts.o, solver.start),
            *passed_on(self.load, cutter.i),
            *passed_on(solver.factor, self.factor),
            cutter.command.valid.eq(self.factors.o.valid),
            self.factors.o.ready.eq(cutter.command.ready),
            cutter.command.p.size.eq(1),
            cutter.command.p.grow.eq(1),
            cutter.command.p.count.eq(columns),
            cutter.command.p.units.eq(Array([k * (k + 1) // 2 for k in range(n + 1)])[columns]),
            solver.load.payload.eq(cutter.o.p.data),
            solver.load.valid.eq(cutter.o.valid & ~cutter.o.p.end),
            cutter.o.ready.eq(cutter.o.p.end | solver.load.ready),
        ]

    def _add_up(self, m):
        """Records go to the accumulator. Where c comes from a pass the rows come behind the changes, whose end is passed over."""
        passed, wrong = Signal(), Signal(8)
        item, offered, rest = self.accumulator.i.p, Signal(), Const(1)
        m.d.comb += [
            passed.eq(self.scans & self.records.o.valid & self.records.o.p.end & ~self.places),
            item.eq(
                Mux(self.places, self.full_scan.o.payload.as_value(), self.records.o.p.as_value())
            ),
            offered.eq(
                Mux(
                    self.places, self.full_scan.o.valid, self.records.o.valid & ~passed & ~self.hold
                )
            ),
        ]
        with m.If(self.places & (wrong != 0)):
            m.d.comb += item.code.eq(wrong)
        if self.givens:  # rows go to the solver too
            rows, folded = self.rotated.rows, item.end | (item.sign != 0)
            rest = ~folded | rows.ready
            m.d.comb += [
                rows.valid.eq(offered & folded & self.accumulator.i.ready),
                rows.p.a.eq(item.a),
                rows.p.gone.eq(item.sign < 0),
                rows.p.end.eq(item.end),
            ]
        taken = offered & rest & self.accumulator.i.ready
        m.d.comb += [
            self.accumulator.i.valid.eq(offered & rest),
            self.records.o.ready.eq((taken & ~self.places) | passed),
            self.full_scan.o.ready.eq(taken & self.places),
        ]
        with m.If(passed):
            m.d.sync += [self.places.eq(1), wrong.eq(self.records.o.p.code)]
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [
                self.busy.eq(1),
                self.places.eq(self.command.p.full),
                wrong.eq(0),
                self.offsets.eq(self.command.p.offsets),
                self.columns.eq(self.command.p.length + 1),
                self.record_job.eq(self.command.p.job),
            ]
        with m.Elif(self.accumulator.i.valid & self.accumulator.i.ready & self.accumulator.i.p.end):
            m.d.sync += self.busy.eq(0)
        m.d.comb += [
            self.record.eq(self.accumulator.i.payload),
            self.record_valid.eq(self.accumulator.i.valid & self.accumulator.i.ready),
        ]

    def _merge_words(self, m):
        """The words of the oldest job whose changes are known."""
        merging, begin = Signal(), Signal()
        waiting, accumulator, merge = self.waiting.o, self.accumulator, self.merge
        last_taken, self.solver = Signal(), index(self.config.solvers, name="solver")
        for taker in (merge, self.loader):
            m.d.comb += [
                taker.command.valid.eq(begin),
                taker.command.p.columns.eq(waiting.p.columns),
            ]
        m.d.comb += [
            merge.command.p.fresh.eq(waiting.p.fresh),
            self.loader.command.p.job.eq(waiting.p.job),
            waiting.ready.eq(begin),
            self.report_valid.eq(begin),
            self.report.job.eq(waiting.p.job),
            self.report.code.eq(accumulator.done.payload),
            accumulator.chunk.eq(merge.chunk),
            merge.entries.eq(accumulator.entries),
            merge.right_hand_side.eq(accumulator.right_hand_side),
            *passed_on(self.memo, self.sums.i),
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
                self.words_job.eq(waiting.p.job),
            ]
        with m.Elif(last_taken):
            m.d.sync += merging.eq(0)

    def _solvers(self, m):
        """Each word goes to both the loader and the memo's writer, in the same cycle; rows go to the job's solver."""
        m.d.comb += [
            self.loader.i.payload.eq(self.merge.o.payload),
            self.words.payload.eq(self.merge.o.payload),
            self.merge.o.ready.eq(self.loader.i.ready & self.words.ready),
            self.loader.i.valid.eq(self.merge.o.valid & self.words.ready),
            self.words.valid.eq(self.merge.o.valid & self.loader.i.ready),
        ]
        if self.givens:
            connect(m, self.loader.o, self.rotated.i)
            m.d.comb += [
                self.o0.eq(self.rotated.o),
                self.o0_valid.eq(self.rotated.o_valid),
                self.failed.eq(self.rotated.failed),
            ]
        for k in () if self.givens else range(self.config.solvers):
            here = self.solver == k if self.config.solvers > 1 else Const(1)
            ends = self.parts.instance(
                m,
                f"solver{k}",
                "qr_solver",
                lambda: Solver(self.config, self.parts),
                i__payload=self.loader.o.payload,
                i__valid=self.loader.o.valid & here,
            )
            m.d.comb += [
                getattr(self, f"o{k}").eq(ends["o"]),
                getattr(self, f"o{k}_valid").eq(ends["o_valid"]),
            ]
            with m.If(here):
                m.d.comb += self.loader.o.ready.eq(ends["i__ready"])
