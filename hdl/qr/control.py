"""The control of a stage, from its phases as `models.qr.stages` has them; and of a program of `models.qr.programs`: which step comes next, for which
column, and when it may be issued."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal

from ...models.qr.programs import Kind, Loop, Program
from ...models.qr.stages import Phases
from ..index import index


class Control:
    """Adds a stage's phases to a module.

    * `conditions`: what each condition of the phases is.
    """

    def __init__(self, m: Module, phases: Phases, conditions):
        # by phase: it is on; it begins with the next cycle, where it was not on or begins anew
        self.now, self.goes = (
            {name: Signal(name=f"{kind}_{name.lower()}") for name in phases}
            for kind in ("now", "goes")
        )
        elapsed = index(max(phase.cycles for phase in phases.values()), name="elapsed")
        m.d.sync += elapsed.eq(0)
        with m.FSM():
            for name, phase in phases.items():
                with m.State(name):
                    m.d.comb += self.now[name].eq(1)
                    until = conditions[phase.until] if phase.until else Const(1)
                    if phase.cycles > 1:
                        m.d.sync += elapsed.eq(elapsed + 1)
                        until = elapsed == phase.cycles - 1
                    with m.If(until):
                        if phase.cycles > 1:
                            m.d.sync += elapsed.eq(0)
                        self._follow(m, phase, conditions)

    def _follow(self, m, phase, conditions):
        goes, rest = dict.fromkeys(phase.then.values(), Const(0)), Const(1)
        for condition, name in phase.then.items():
            holds = conditions[condition] if condition else Const(1)
            goes[name] = goes[name] | (rest & holds)
            rest = rest & ~holds
        for name, value in goes.items():
            m.d.comb += self.goes[name].eq(value)
            with m.If(value):
                m.next = name


class Sequencer:
    """Adds a program's control to a module.

    Cycles are those of `models.qr.programs`.

    * `columns`: how many there are at the most, and the job's last one.
    * `issue`: the step is issued in this cycle: where `may` is high alone.
    * `start`: the step that begins the next run.
    * `conditions`: those that the program's steps name, but `last`: the first column in use is the job's last
      one.
    * `first`: the first column in use; None: it is counted here.
    * `running`: a loop of no columns is passed over in this cycle.
    """

    def __init__(self, m: Module, program: Program, columns, *, issue, start, conditions,
                 first=None, running=0, name=""):  # fmt: skip
        size, top = columns
        self.program, self.top, self.begin = program, top, (start, conditions)
        self.issue = issue
        # what is issued next: `step`, `column`, `first`, `may`; `over`: the program ends with this
        # cycle
        self.step = Signal(Kind, name=f"step{name}", init=next(iter(program)))
        self.column = index(size, name=f"column{name}")
        self.may, self.over = (Signal(name=f"{x}{name}") for x in ("may", "over"))
        self.counts = first is None
        self.first = index(size, name=f"first{name}") if first is None else first
        last, none = (Signal(name=f"{x}{name}") for x in ("last", "none"))
        ends, waits = (Signal(name=f"{x}{name}") for x in ("ends", "waits"))
        started = Signal(name=f"started{name}")  # the step's loop has begun
        timers = self._timers(m, program, issue, started, name)
        behind = self.first + 1
        m.d.comb += self.may.eq(~none & ~waits)
        m.d.comb += ends.eq((Const(1) & running & none) | (issue & last))
        with m.If(issue):
            down = self.column - 1, self.column + 1
            m.d.sync += started.eq(1)
            m.d.sync += self.column.eq(Mux(self.step == Kind.BACK, *down)[: len(self.column)])
        with m.If(ends):
            m.d.sync += started.eq(0)
        with m.Switch(self.step):
            for kind, step in program.items():
                with m.Case(kind):
                    waiting = [timers[kind, wait, False] != 0 for kind, wait in step.after]
                    waiting += [timers[kind, wait, True] != 0 for kind, wait in step.since]
                    end = {Loop.ONCE: self.column, Loop.DOWN: 1}.get(step.loop, top)
                    end = end + (step.loop in (Loop.SIDE, Loop.ROWS))
                    m.d.comb += [
                        last.eq(self.column == end),
                        none.eq((behind > top) if step.loop is Loop.BEHIND else 0),
                        waits.eq(Cat(waiting).any() if waiting else 0),
                    ]
                    with m.If(ends):
                        self._follow(m, step, behind)

    def _timers(self, m, program, issue, started, name):
        """Cycles that are left of each wait."""
        timers = {}
        for step in program.values():
            for waits, since in ((step.after, False), (step.since, True)):
                for kind, wait in waits:
                    timers[kind, wait, since] = index(wait, name=f"wait_{kind.name}{wait}{name}")
        for (kind, wait, since), timer in timers.items():
            starts = issue & (self.step == kind) & (~started if since else 1)
            m.d.sync += timer.eq(Mux(starts, wait - 1, Mux(timer == 0, 0, timer - 1)))
        return timers

    def _follow(self, m, step, behind):
        """The next step, and its first column."""
        program, top, (start, conditions) = self.program, self.top, self.begin
        kinds = list(program)
        came, rest = kinds[: kinds.index(step.kind)], Const(1)
        for condition, kind in step.then.items():
            holds = self.first == top if condition == "last" else conditions.get(condition, 1)
            with m.If(rest & holds):
                if kind is None:
                    m.d.comb += self.over.eq(1)
                    m.d.sync += [self.step.eq(start), self.column.eq(0)]
                    m.d.sync += self.first.eq(0) if self.counts else []
                else:
                    m.d.sync += self.step.eq(kind)
                    begins = {Loop.DOWN: top, Loop.ALL: 0, Loop.BEHIND: behind, Loop.SIDE: behind}
                    if program[kind].loop in begins:
                        m.d.sync += self.column.eq(begins[program[kind].loop])
                if kind in came:  # it comes again, for the next column
                    m.d.sync += self.first.eq(behind)
            rest = rest & ~(Const(1) & holds)
