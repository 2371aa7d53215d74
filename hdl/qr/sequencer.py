"""Runs a program of `models.qr.programs`: which step is issued in a cycle, and for which column."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.qr.programs import SOLVE, WAVE, Kind, Loop
from ..index import index_range

__all__ = ["Sequencer"]

_STEPS = (*WAVE, *SOLVE)


class Sequencer(wiring.Component):
    """Cycles are `models.qr.programs.walk`.

    Members
    -------
    running : In(1)
        A program runs, until it is `over`.
    solves, short : In(1)
        It is `SOLVE`, else a wave; that is `SHORT`.
    then_solves : In(1)
        With `over`: the next one is `SOLVE`.
    first, top : In(range(n_max))
        The first lane in use, and the model's last column.
    issue : Out(1), step, column : Out
        What is issued.
    over : Out(1)
        In the cycle of the last issue.
    """

    def __init__(self, n_max: int):
        number = index_range(n_max)
        super().__init__(
            {
                **dict.fromkeys(("running", "solves", "short", "then_solves"), In(1)),
                **dict.fromkeys(("first", "top"), In(number)),
                "issue": Out(1),
                "over": Out(1),
                "step": Out(range(len(_STEPS))),
                "column": Out(number),
            }
        )

    def elaborate(self, platform):
        m = Module()
        last, none, ends = Signal(), Signal(), Signal()
        started = Signal()  # the step's loop has begun
        behind = self.first + 1
        waits = self._waits(m, started)
        with m.Switch(self.step):
            for number, step in enumerate(_STEPS):
                with m.Case(number):
                    m.d.comb += none.eq((behind > self.top) if step.loop is Loop.BEHIND else 0)
                    end = 1 if step.loop is Loop.DOWN else self.top
                    m.d.comb += last.eq(1 if step.loop is Loop.ONCE else self.column == end)
        final = Mux(self.solves, Kind.FINAL, Mux(self.short, Kind.REST, Kind.ADD))
        m.d.comb += [
            self.issue.eq(self.running & ~none & ~waits),
            ends.eq(self.running & (none | (self.issue & last))),
            self.over.eq(ends & (self.step == final)),
        ]
        with m.If(self.issue):
            back = self.step == Kind.BACK
            m.d.sync += [
                started.eq(1),
                self.column.eq(Mux(back, self.column - 1, self.column + 1)[: len(self.column)]),
            ]
        with m.If(ends):
            m.d.sync += started.eq(0)
            with m.If(self.over):
                m.d.sync += [
                    self.step.eq(Mux(self.then_solves, Kind.INVERT, Kind.TURN)),
                    self.column.eq(0),
                ]
            with m.Else():
                self._next(m, behind)
        return m

    def _waits(self, m, started):
        """Whether the step that is to be issued has to wait."""
        waits = Signal()
        timers = {key: Signal(range(key[1])) for step in _STEPS for key in step.after}
        for (kind, wait), timer in timers.items():
            starts = self.issue & (self.step == kind)
            if _STEPS[kind].loop is Loop.BEHIND:
                starts = starts & ~started
            m.d.sync += timer.eq(Mux(starts, wait - 1, Mux(timer == 0, 0, timer - 1)))
        with m.Switch(self.step):
            for number, step in enumerate(_STEPS):
                with m.Case(number):
                    if step.after:
                        m.d.comb += waits.eq(Cat(timers[key] != 0 for key in step.after).any())
        return waits

    def _next(self, m, behind):
        """The next step, and its first column."""
        with m.Switch(self.step):
            for number, step in enumerate(_STEPS[1:]):
                with m.Case(number):
                    following = Mux(self.short, Kind.REST, step.kind) if not number else step.kind
                    m.d.sync += self.step.eq(following)
                    if step.loop is Loop.DOWN:
                        m.d.sync += self.column.eq(self.top)
                    elif step.loop is Loop.ALL:
                        m.d.sync += self.column.eq(0)
                    else:  # of a step without a loop it means nothing
                        m.d.sync += self.column.eq(behind)
