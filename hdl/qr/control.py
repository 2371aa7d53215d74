"""The control of a stage, from its phases as `models.qr.stages` has them."""

from amaranth.hdl import Const, Module, Signal

from ...models.qr.stages import Phases
from ..index import index

__all__ = ["Control"]


class Control:
    """Adds a stage's phases to a module.

    Parameters
    ----------
    conditions
        What each condition of the phases is.

    Attributes
    ----------
    now, goes
        By phase: it is on; it begins with the next cycle, where it was not on or begins anew.
    """

    def __init__(self, m: Module, phases: Phases, conditions):
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
