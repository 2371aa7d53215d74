"""hdl/qr/control against the cycle model, over random stages and all of their conditions, and over whole programs."""

from __future__ import annotations

import numpy as np
import pytest
from amaranth.hdl import Module, Signal

from penstock.hdl.qr.control import Control, Sequencer
from penstock.models.qr.programs import GIVENS, GRAM, Kind, tasks, walk
from penstock.models.qr.stages import Phase, Phased
from testbench.pysim import simulate

CONDITIONS = ("a", "b", "c")


def random_phases(source):
    """Up to five phases that name any conditions and follow each other in any order."""
    names = [f"P{k}" for k in range(int(source.integers(1, 6)))]
    phases = {}
    for name in names:
        then = {str(c): str(source.choice(names)) for c in CONDITIONS if source.random() < 0.4}
        cycles = int(source.choice([1, 1, 2, 5]))
        until = str(source.choice(["", *CONDITIONS])) if cycles == 1 else ""
        phases[name] = Phase({**then, "": str(source.choice(names))}, until, cycles)
    return phases


@pytest.mark.parametrize("seed", range(8))
def test_random_stages(seed):
    source = np.random.default_rng(seed)
    m, inputs, phases = Module(), {c: Signal(name=c) for c in CONDITIONS}, random_phases(source)
    control, stage = Control(m, phases, inputs), Phased(lambda cycle: None, phases)

    async def bench(ctx):
        for cycle in range(200):
            conditions = {name: bool(source.random() < 0.6) for name in CONDITIONS}
            for name, signal in inputs.items():
                ctx.set(signal, conditions[name])
            assert [name for name, on in control.now.items() if ctx.get(on)] == [stage.phase]
            turned = stage.turn(cycle, conditions)
            goes = [name for name, on in control.goes.items() if ctx.get(on)]
            assert goes == [stage.phase] * turned
            await ctx.tick()

    simulate(m, bench)


@pytest.mark.parametrize("columns", [2, 3, 6])
def test_programs(columns):
    """Each issue as soon as it may be: a job of `gram` whose rows are all there, then waves of `givens` and what solves behind them."""
    m, gram, givens = Module(), Signal(), Signal()
    short, start, first = Signal(), Signal(Kind), Signal(range(8))
    options, of_job = {"conditions": {"short": short}}, (8, columns - 1)
    one = Sequencer(m, GRAM, of_job, issue=gram, start=Kind.LOAD, **options)
    other = Sequencer(m, GIVENS, of_job, issue=givens, start=start, first=first, running=1, name="g", **options)  # fmt: skip
    m.d.comb += [gram.eq(one.may), givens.eq(other.may)]
    ends = []
    for task in tasks(columns):
        ends.append(
            max([*(ends[-1:] and [ends[-1] + 1]), *(ends[k] + w for k, w in task.after), 0])
        )
    runs = [(Kind.TURN, k, False) for k in range(columns)]
    runs += [(Kind.TURN, k, True) for k in range(columns)] + [(Kind.INVERT, 0, False)]
    at, issued, overs = 0, {}, []
    for begin, k, is_short in runs:
        at = walk(begin, issued, at, columns, k, is_short)
        overs.append(at - 1)

    async def bench(ctx):
        found, number = [], 0
        for cycle in range(max(ends[-1], overs[-1]) + 1):
            if number < len(runs):
                _, k, is_short = runs[number]
                ctx.set(first, k)
                ctx.set(short, is_short)
                ctx.set(start, runs[number + 1][0] if number + 1 < len(runs) else Kind.TURN)
                assert ctx.get(other.over) == (cycle == overs[number])
                number += cycle == overs[number]
            if ctx.get(gram) and cycle <= ends[-1]:
                found.append(cycle)
                assert ctx.get(one.over) == (len(found) == len(ends))
            await ctx.tick()
        assert found == ends

    simulate(m, bench)
