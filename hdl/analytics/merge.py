"""One lane of a merge tree over the threads, with the step that accumulates a batch's groups. The tree itself is `datapath.tree`."""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.analytics.config import AnalyticsPlan
from ...models.analytics.golden import identity
from ..modules import Parts
from .datapath import combine, tree


class MergeLane(wiring.Component):
    """Combines the threads' codes in a balanced tree of neighbours, then with the total of the groups before; II = 1."""

    def __init__(self, plan: AnalyticsPlan, fn: str, library: Parts):
        self.plan, self.fn, self.library = plan, fn, library
        width = plan.format.width
        codes = {f"code{t}": In(width) for t in range(plan.threads)}
        super().__init__(
            {
                **codes,  # one from each thread
                "mask": In(plan.threads),  # threads outside it count as the operation's identity
                # the total so far, `depth(threads) * latency(fn)` cycles after the codes
                "previous": In(width),
                "first": In(1),  # with `previous`: there is no total yet
                "total": Out(width),  # `latency(fn)` cycles after `previous`
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan, fn, width = self.plan, self.fn, self.plan.format.width
        neutral = Const(identity(fn, plan.format), width)
        values: list[Value] = []
        for t in range(plan.threads):
            value = Signal(width, name=f"value{t}")
            m.d.comb += value.eq(Mux(self.mask[t], getattr(self, f"code{t}"), neutral))
            values.append(value)
        partial = tree(m, self.library, plan, fn, "tree", values)
        before = Signal(width)
        m.d.comb += before.eq(Mux(self.first, neutral, self.previous))
        m.d.comb += self.total.eq(combine(m, self.library, plan, fn, "accumulate", before, partial))
        return m
