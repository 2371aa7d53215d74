"""From a job's changes, or all its rows, and its memo's sums to new sums and weights."""

from dataclasses import dataclass

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import data

from ...models.qr.config import FitPlan
from ...models.qr.job import Method
from ...models.qr.layout import held_words
from ..index import index, index_range
from ..modules import Parts
from ..named import named
from ..stream.passing import fields, passed_on
from ..stream.queue import Queue
from .gearbox import Gearbox
from .givens import Givens, start_shape
from .group_rows import FullScan
from .loader import Loader
from .normal_equations import Merge, NormalEquationAccumulator
from .records import COUNTS, Records, record_shape
from .solver import Solver, solution_shape


@dataclass(frozen=True)
class _Job:
    """The job whose records are added up."""

    begins: Signal  # it is the next one
    busy: Signal  # there is one
    scanned: Signal  # its rows come, all of them, no longer its changes
    columns: Signal
    offsets: Signal


class Core:
    """Adds the way of jobs from their records to their weights to the engine's module. While one job's records are added up, the words of the one before
    pass the memo's sums, and those before it are solved.

    Golden: `models.qr.golden.refit` (weights, mask; c and AᵀA of the memo). Twin in cycles: `models.qr.blocks`. A job of k changes keeps the records' side for
    k + 4 cycles and those in which `hold` is high, its w words of c and AᵀA the other side for w + `MIDDLE` + columns + 4 cycles at the
    most. A job whose records are in disorder goes through like any other; its report says so, and what it gives is not to be published.

    * `intake`: jobs, and words of changes, rows and memos, job by job: of sums as many as the largest job has
      may come before they are wanted, those of factors (method `givens`) must not wait for those of changes.
    * `back`: takes words of the new memos' sums and factors.
    * `hold`: no change is taken in this cycle: what follows the records has no time for one.
    """

    def __init__(self, m: Module, config: FitPlan, parts: Parts, intake, back, hold):
        n, descriptor, number = config.n_max, intake.body.p.descriptor, index_range(config.jobs)
        # before a job's first word of c, for one cycle: the `models.errors.ErrorCode` of its
        # records
        self.report = Signal(data.StructLayout({"job": number, "code": 8}))
        self.report_valid = Signal()
        offsets = Signal(intake.head.offsets.shape(), name="offsets", reset_less=True)
        columns = Signal(range(n + 1), name="columns", reset_less=True)
        job = named(_Job, columns=columns, offsets=offsets)
        records = Records(m, config, offsets, intake.changes)
        accumulator = NormalEquationAccumulator(m, config, columns)
        # what the sums take in this cycle, a job's `end` too
        self.record, self.record_valid = Signal(record_shape(n)), Signal()
        m.d.comb += self.record.eq(accumulator.i.payload)
        m.d.comb += self.record_valid.eq(accumulator.i.valid & accumulator.i.ready)
        merge = Merge(m, config, accumulator)
        loader = Loader(m, config, parts, merge.o)
        # a job's sums are there before its changes have been added up: they must not keep the next job's changes from coming
        m.submodules.sums = sums = Queue(8 * config.bus_bytes, held_words(config))
        rotated, starts = None, []
        if config.method is Method.GIVENS:
            rotated, starts = _rotations(m, config, parts, intake.factor, back.factor, loader.o)
        kept = {"columns": len(columns), "fresh": 1, "job": len(intake.slot)}
        kept["solver"] = len(intake.body.p.solver)
        m.submodules.waiting = waiting = Queue(data.StructLayout(kept), 2)
        scans = descriptor.flags[0] | (not config.incremental)
        scan = FullScan(m, config, descriptor, job.begins & scans, offsets, intake)
        free = scan.ready | ~scans
        _begin_jobs(m, intake, job, records.command, free, [waiting, *starts])
        m.d.comb += waiting.i.p.solver.eq(intake.body.p.solver)
        taken = accumulator.i, None if rotated is None else rotated.rows
        _add_up(m, config, job, hold, (records.o, scan.o), taken)
        with m.If(job.begins):
            m.d.sync += fields(job, busy=1, scanned=descriptor.flags[0])
            m.d.sync += fields(job, columns=descriptor.length + 1, offsets=intake.head.offsets)
        with m.Elif(self.record_valid & self.record.end):
            m.d.sync += job.busy.eq(0)

        begin = _merge_in_turn(m, waiting.o, accumulator.done, merge, loader)
        # each word goes to both the loader and the memo's writer, in the same cycle
        m.d.comb += [
            *passed_on(intake.sums, sums.i),
            *passed_on(sums.o, merge.i),
            self.report_valid.eq(begin),
            *fields(self.report, job=waiting.o.p.job, code=accumulator.done.payload),
            back.sums.payload.eq(merge.o.payload),
            back.sums.valid.eq(merge.o.valid & merge.o.ready),
        ]
        with m.If(begin):
            m.d.sync += back.sums_job.eq(waiting.o.p.job)
        # weights from each solver with whether they are there, for one cycle; later jobs may come before earlier ones
        self.solutions = [] if rotated is None else [(rotated.o, rotated.o_valid)]
        # method `givens`, with the weights: what was removed could not be taken out of the factor
        self.failed = Const(0, 0) if rotated is None else rotated.failed
        if rotated is None:
            self.solutions = _solvers(m, config, parts, loader.o, begin, waiting.o.p.solver)


def _begin_jobs(m, intake, job, of_records, free, queues):
    """A job begins when all who take a part of it are `free`, and are told. Offsets and columns stay until its last record has been added up.

    `queues`: of jobs on their way to the merge of sums, to the solver of method `givens`, and (jobs with a factor) to the cutter of its columns.
    """
    descriptor = intake.body.p.descriptor
    full, ready = descriptor.flags[0], ~job.busy & free
    ready = ready & (of_records.ready | full)
    for k, queue in enumerate(queues):
        ready = ready & queue.i.ready
        m.d.comb += [
            *fields(queue.i.p, columns=descriptor.length + 1, fresh=full, job=intake.slot),
            queue.i.valid.eq(job.begins & ~full if k > 1 else job.begins),
        ]
    m.d.comb += [
        job.begins.eq(intake.pending & ready),
        intake.begins.eq(job.begins),
        of_records.valid.eq(job.begins & ~full),
        *(of_records.p[name].eq(descriptor[name]) for name in ("length", *COUNTS)),
    ]


def _rotations(m, config, parts, old, new, i):
    """The solver of method `givens`, to which columns of the memos' factors go, cut from words of `old`; return it, and the queues of jobs before it and
    before the cutter."""
    n = config.n_max
    job = start_shape(n, config.jobs)
    m.submodules.starts = starts = Queue(job, 2)
    m.submodules.factors = factors = Queue(job, 2)
    columns = factors.o.p.columns
    cutter = Gearbox(m, "factors", old, n, count_bits=len(columns))
    m.d.comb += [
        cutter.command.valid.eq(factors.o.valid),
        factors.o.ready.eq(cutter.command.ready),
        *fields(cutter.command.p, size=1, grow=1, count=columns),
        cutter.command.p.units.eq(Array([k * (k + 1) // 2 for k in range(n + 1)])[columns]),
    ]
    return Givens(m, config, parts, starts.o, (cutter.o, new), i), [starts, factors]


def _add_up(m, config, job, hold, sources, takers):
    """Records go to the accumulator, and to the solver if there is one that takes rows. Where c comes from a pass the rows come behind the changes, whose
    end is passed over."""
    (records, scan), (sums, rows) = sources, takers
    passed, wrong, scans = Signal(), Signal(8), not config.incremental
    item, offered, rest = sums.p, Signal(), Const(1)
    m.d.comb += [
        passed.eq(scans & records.valid & records.p.end & ~job.scanned),
        item.eq(Mux(job.scanned, scan.payload.as_value(), records.p.as_value())),
        offered.eq(Mux(job.scanned, scan.valid, records.valid & ~passed & ~hold)),
    ]
    with m.If(job.scanned & (wrong != 0)):
        m.d.comb += item.code.eq(wrong)
    if rows is not None:
        folded = item.end | (item.sign != 0)
        rest = ~folded | rows.ready
        m.d.comb += rows.valid.eq(offered & folded & sums.ready)
        m.d.comb += fields(rows.p, a=item.a, gone=item.sign < 0, end=item.end)
    taken = offered & rest & sums.ready
    m.d.comb += [
        sums.valid.eq(offered & rest),
        records.ready.eq((taken & ~job.scanned) | passed),
        scan.ready.eq(taken & job.scanned),
    ]
    with m.If(passed):
        m.d.sync += [job.scanned.eq(1), wrong.eq(records.p.code)]
    with m.If(job.begins):
        m.d.sync += wrong.eq(0)


def _merge_in_turn(m, waiting, done, merge, loader):
    """The oldest job whose sums are `done`: its words begin to go through the merge, in the cycle that is returned; they end with the last one."""
    merging, begin, last = Signal(), Signal(), Signal()
    for taker in (merge, loader):
        m.d.comb += taker.command.valid.eq(begin)
        m.d.comb += taker.command.p.columns.eq(waiting.p.columns)
    m.d.comb += [
        merge.command.p.fresh.eq(waiting.p.fresh),
        loader.command.p.job.eq(waiting.p.job),
        waiting.ready.eq(begin),
        last.eq(merge.o.valid & merge.o.ready & merge.o.p.last),
        done.ready.eq(last),
        begin.eq(done.valid & ~merging & merge.command.ready & loader.command.ready),
    ]
    with m.If(begin):
        m.d.sync += merging.eq(1)
    with m.Elif(last):
        m.d.sync += merging.eq(0)
    return begin


def _solvers(m, config, parts, rows, begin, number):
    """Rows go to the solver with the number that a job has when it begins; return each solver's solutions with whether they are there."""
    solver = index(config.solvers, name="solver")
    with m.If(begin):
        m.d.sync += solver.eq(number)
    solutions = []
    for k in range(config.solvers):
        here = solver == k if config.solvers > 1 else Const(1)
        ends = parts.instance(
            m,
            f"solver{k}",
            "qr_solver",
            lambda: Solver(config, parts),
            i__payload=rows.payload,
            i__valid=rows.valid & here,
        )
        shape = solution_shape(config.n_max, config.jobs)
        solutions.append((data.View(shape, ends["o"]), ends["o_valid"]))
        with m.If(here):
            m.d.comb += rows.ready.eq(ends["i__ready"])
    return solutions
