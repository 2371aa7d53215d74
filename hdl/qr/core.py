"""From a job's changes and its memo's sums to new sums and weights."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect

from ...models.qr.config import Config
from ..modules import Parts, Submodules
from ..stream.queue import Queue
from .delta import Delta
from .loader import Loader
from .merge import Merge
from .records import Records
from .solver import Solver, solution_shape

__all__ = ["Core", "core_command_shape"]

_COUNTS = ("inserted", "buried", "removed", "moved")


def core_command_shape(n_max, jobs):
    """A job: its window's length and offsets, numbers of changes, whether it has no memo (`fresh`), and its number among those in flight."""
    return data.StructLayout({"length": range(n_max), **dict.fromkeys(_COUNTS, 24), "fresh": 1, "job": range(max(jobs, 2)),
                              "offsets": data.ArrayLayout(8, n_max - 1)})


class Core(wiring.Component):
    """Jobs of method `gram` with target `slot` from their records to their weights. While one job's records are added up, the words of the one before pass
    the memo's sums, and those before it are solved.

    Golden: `models.qr.golden.refit` (weights, mask; c and AᵀA of the memo). A job of k changes keeps the records' side for k + 4 cycles, its w words of c and
    AᵀA the other side for w + `MIDDLE` + columns + 4 cycles at the most. A job whose records are in disorder goes through like
    any other; its report says so, and what it gives is not to be published.

    Parameters
    ----------
    config
        `models.qr.Config`.

    Members
    -------
    command : In(stream.Signature(core_command_shape(n_max, jobs)))
    changes : In(stream.Signature(8 * bus_bytes))
        Words of changes, job by job.
    memo : In(stream.Signature(8 * bus_bytes))
        Words of the memos' parts c and AᵀA, job by job.
    words : Out(stream.Signature({data, gram, last}))
        Words of these parts of the new memos.
    report : Out({job, live, code}), report_valid : Out(1)
        Before a job's first word: by how much its live rows change, and `models.errors.ErrorCode`. For one cycle.
    o : Out(solution_shape(n_max, jobs)), o_valid : Out(1)
        Weights, for one cycle; later jobs may come before earlier ones.
    """

    def __init__(self, config: Config, parts: Parts | None = None, *, src_loc_at=0):
        self.config, self.parts = config, parts or Submodules()
        n, jobs, bus = config.n_max, config.jobs, 8 * config.bus_bytes
        super().__init__({
            "command": In(stream.Signature(core_command_shape(n, jobs))), "changes": In(stream.Signature(bus)), "memo": In(stream.Signature(bus)),
            "words": Out(stream.Signature(data.StructLayout({"data": bus, "gram": 1, "last": 1}))),
            "report": Out(data.StructLayout({"job": range(max(jobs, 2)), "live": signed(25), "code": 8})), "report_valid": Out(1),
            "o": Out(solution_shape(n, jobs)), "o_valid": Out(1)}, src_loc_at=1 + src_loc_at)

    def elaborate(self, platform):
        m = Module()
        config, command = self.config, self.command
        m.submodules.records = records = Records(config)
        m.submodules.delta = delta = Delta(config)
        m.submodules.merge = merge = Merge(config)
        m.submodules.loader = loader = Loader(config, self.parts)
        m.submodules.solver = solver = Solver(config, self.parts)
        connect(m, records.o, delta.i)
        connect(m, loader.o, solver.i)

        # offsets and columns stay until the job's last record has been added
        busy, offsets, columns = Signal(), Signal.like(command.p.offsets), Signal(range(config.n_max + 1))
        m.submodules.waiting = waiting = Queue(data.StructLayout({"columns": len(columns), "fresh": 1, "job": len(command.p.job)}), 2)
        m.d.comb += [
            command.ready.eq(~busy & records.command.ready & waiting.i.ready),
            records.command.valid.eq(command.valid & ~busy & waiting.i.ready), records.command.p.length.eq(command.p.length),
            *(records.command.p[name].eq(command.p[name]) for name in _COUNTS),
            waiting.i.valid.eq(command.valid & command.ready), waiting.i.p.columns.eq(command.p.length + 1), waiting.i.p.fresh.eq(command.p.fresh),
            waiting.i.p.job.eq(command.p.job),
            records.offsets.eq(offsets), delta.columns.eq(columns), records.i.payload.eq(self.changes.payload), records.i.valid.eq(self.changes.valid),
            self.changes.ready.eq(records.i.ready)]
        with m.If(command.valid & command.ready):
            m.d.sync += [busy.eq(1), offsets.eq(command.p.offsets), columns.eq(command.p.length + 1)]
        with m.Elif(delta.i.valid & delta.i.ready & delta.i.p.end):
            m.d.sync += busy.eq(0)

        # the words of the oldest job whose changes are known
        merging, begin = Signal(), Signal()
        m.d.comb += [
            begin.eq(delta.done.valid & ~merging & merge.command.ready & loader.command.ready),
            merge.command.valid.eq(begin), loader.command.valid.eq(begin), merge.command.p.columns.eq(waiting.o.p.columns),
            merge.command.p.fresh.eq(waiting.o.p.fresh), loader.command.p.columns.eq(waiting.o.p.columns), loader.command.p.job.eq(waiting.o.p.job),
            waiting.o.ready.eq(begin), self.report_valid.eq(begin), self.report.job.eq(waiting.o.p.job), self.report.live.eq(delta.done.p.live),
            self.report.code.eq(delta.done.p.code),
            delta.chunk.eq(merge.chunk), merge.moments.eq(delta.moments), merge.entries.eq(delta.entries),
            merge.i.payload.eq(self.memo.payload), merge.i.valid.eq(self.memo.valid), self.memo.ready.eq(merge.i.ready)]
        last_taken = Signal()
        m.d.comb += [last_taken.eq(merge.o.valid & merge.o.ready & merge.o.p.last), delta.done.ready.eq(last_taken)]
        with m.If(begin):
            m.d.sync += merging.eq(1)
        with m.Elif(last_taken):
            m.d.sync += merging.eq(0)

        # each word goes to both the loader and the memo's writer, in the same cycle
        m.d.comb += [
            loader.i.payload.eq(merge.o.payload), self.words.payload.eq(merge.o.payload), merge.o.ready.eq(loader.i.ready & self.words.ready),
            loader.i.valid.eq(merge.o.valid & self.words.ready), self.words.valid.eq(merge.o.valid & loader.i.ready),
            self.o.eq(solver.o), self.o_valid.eq(solver.o_valid)]
        return m
