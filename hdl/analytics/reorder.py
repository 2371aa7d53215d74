"""The next tuple of a batch: one whose rows no change before it still holds."""

from collections.abc import Callable
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.analytics.config import AnalyticsPlan
from ...models.analytics.reorder import codes, places, reach, row_bits
from ..index import index
from ..rows.gate import tuple_layout

#: rows that a tuple changes, by models
Rows = list[list[Value]]


class Reorder(wiring.Component):
    """Hands on tuples of one beat, batch by batch, in the order of `models.analytics.reorder`, which has its cycles too."""

    def __init__(self, plan: AnalyticsPlan):
        self.window, self.batch, self.reach = plan.rows.reorder, plan.merge_count, reach(plan)
        self.codes, self.places = codes(plan), places(plan)
        self.bits = row_bits(plan)
        kept = {f"code{at}": plan.format.width for at in self.codes}
        self.kept = data.StructLayout({**kept, "end": 1})
        beats = stream.Signature(tuple_layout(plan.lanes, plan.format.width))
        # codes that belong to no field leave as 0
        super().__init__({"i": In(beats), "o": Out(beats)})

    def elaborate(self, platform):
        m, count = Module(), range(self.window)
        self.held = held = [Signal(self.kept, name=f"held{k}") for k in count]
        self.valid = valid = [Signal(name=f"valid{k}") for k in count]
        # which tuples meet, in registers: each one those before it, and the batch's latest
        self.near = [[Signal(name=f"near{k}_{n}") for n in range(k)] for k in count]
        self.late = [Signal(self.reach, name=f"late{k}") for k in count]
        left = index(self.batch, init=self.batch - 1)  # tuples of the batch behind the oldest
        self.chosen, self.over, self.leaves = Signal(self.kept), Signal(), Signal()
        # no tuple of the batch at hand: it is one of the next (k > left), or the epoch ends before it
        next_one = [Signal(name=f"next{k}") for k in count]
        behind = [next_one[k] | Cat(held[n].end & valid[n] for n in range(k)).any() for k in count]
        meets = [
            late.any() | Cat(near).any() for late, near in zip(self.late, self.near, strict=True)
        ]
        free = [v & ~h.end & ~b & ~f for f, v, h, b in zip(meets, valid, held, behind, strict=True)]
        self.first = first = [~Cat(free[1:]).any() | free[0]]
        first += [free[k] & ~Cat(free[:k]).any() for k in count[1:]]
        these = [
            f.replicate(self.kept.size) & h.as_value() for f, h in zip(first, held, strict=True)
        ]
        m.d.comb += [
            self.chosen.as_value().eq(reduce(or_, these)),
            self.o.valid.eq(
                valid[0] & Cat(v | b for v, b in zip(valid, behind, strict=True)).all()
            ),
            self.o.p.end.eq(held[0].end),  # it goes on alone
            self.o.p.last.eq(1),
            *(self.o.p.lanes[at].eq(self.chosen[f"code{at}"]) for at in self.codes),
            self.leaves.eq(self.o.valid & self.o.ready),
            self.i.ready.eq(~valid[-1] | self.leaves),
            self.over.eq(held[0].end | next_one[1]),
        ]
        with m.If(self.leaves):
            m.d.sync += left.eq(Mux(self.over, self.batch - 1, left - 1))
            m.d.sync += [n.eq(~self.over & (left <= k)) for k, n in enumerate(next_one)]
        self._move(m, *self._met(m))
        return m

    def _rows(self, of: Callable[[int], Value]) -> Rows:
        """Return the rows that a tuple with these codes changes."""
        return [[(of(at) + n)[: self.bits] for at, n in group] for group in self.places]

    @staticmethod
    def _code_of(held: data.View) -> Callable[[int], Value]:
        return lambda at: held[f"code{at}"]

    def _met(self, m: Module) -> tuple[list[Value], Value]:
        """Return whether the tuple that comes meets each one that is held, and which of the batch's latest, from the next cycle on."""
        comes = self._rows(lambda at: self.i.p.lanes[at])
        near = [_meet(comes, self._rows(self._code_of(held))) for held in self.held]
        then, before, late = self._rows(self._code_of(self.chosen)), Const(1), []
        for n in range(self.reach):
            present = Signal(name=f"present{n}")
            kept = [
                [Signal(self.bits, name=f"latest{n}_{g}_{k}") for k in range(len(group))]
                for g, group in enumerate(self.places)
            ]
            with m.If(self.leaves):
                m.d.sync += present.eq(before & ~self.over)
                for new, old in zip(kept, then, strict=True):
                    m.d.sync += [a.eq(b) for a, b in zip(new, old, strict=True)]
            late.append(present & _meet(comes, kept))
            then, before = kept, present
        return near, self._later(Cat(late), near)

    def _later(self, late: Value, near: list[Value]) -> Value:
        """Return which of the latest a tuple meets from the next cycle on, that met these, and the tuples at hand so."""
        one = Cat(f & n for f, n in zip(self.first, near, strict=True)).any()
        gone = Cat(one, late[:-1]) & (~self.over).replicate(self.reach)
        return Mux(self.leaves, gone, late)

    def _move(self, m: Module, near: list[Value], late: Value) -> None:
        """Let all behind the one that leaves move up, and put the one that comes behind the last."""
        comes, last = self.i.valid & self.i.ready, Const(1)
        comer = Cat(*(self.i.p.lanes[at] for at in self.codes), self.i.p.end)
        moves = [self.leaves & Cat(self.first[: k + 1]).any() for k in range(self.window)]
        up = lambda n, of: Mux(moves[n], of[min(n + 1, len(of) - 1)], of[n])
        past = [*self.valid[1:], Const(0)]
        pair = lambda k, n: Const(0) if k == n else self.near[max(k, n)][min(k, n)]
        lates = [
            self._later(of, [pair(k, n) for n in range(self.window)])
            for k, of in enumerate(self.late)
        ]
        for k, of in enumerate(self.held):
            stays, after = Signal(name=f"stays{k}"), min(k + 1, self.window - 1)
            m.d.comb += stays.eq(Mux(moves[k], past[k], self.valid[k]))
            m.d.sync += self.valid[k].eq(stays | comes & last)
            with m.If(stays):
                m.d.sync += of.eq(Mux(moves[k], self.held[after].as_value(), of.as_value()))
                m.d.sync += self.late[k].eq(Mux(moves[k], lates[after], lates[k]))
                m.d.sync += [
                    bit.eq(Mux(moves[k], up(n, self.near[after]), self.near[k][n]))
                    for n, bit in enumerate(self.near[k])
                ]
            with m.Else():
                m.d.sync += [of.as_value().eq(comer), self.late[k].eq(late)]
                m.d.sync += [bit.eq(up(n, near)) for n, bit in enumerate(self.near[k])]
            last = stays


def _meet(one: Rows, two: Rows) -> Value:
    """Return whether two tuples change a row of the same model."""
    pairs = zip(one, two, strict=True)
    return Cat(a == b for mine, others in pairs for a in mine for b in others).any()
