"""Banks that are an FPGA's own block RAM: an iteration each cycle, operands sent once, a wide port, columns of a head dealt over pairs of banks."""

from __future__ import annotations

import numpy as np
import pytest

import penstock as ps
from penstock.dsl.core.load import from_text as parse_kernel
from penstock.engines.base import Given
from penstock.models.pim.config import PimConfig
from penstock.models.pim.device import Step, registers_of
from penstock.models.pim.operands import shared
from penstock.models.pim.program import program
from penstock.models.pim.rounds import Round
from penstock.models.pim.rules import check
from penstock.models.pim.timing import timing_named
from penstock.runs.outcome import differences

RETNET = """recurrence retnet(S: state[k, v], decay: input, key: input[k], value: input[v], q: input[k])
  S <- decay * S + outer(key, value)
  y <- q @ S
"""
#: reads the old state before it changes it, and has rates of its own in each lane
DELTA = """recurrence delta(S: state[k, v], gate: input[k], beta: input, key: input[k], value: input[v], q: input[k])
  c = sigmoid(gate)
  S <- c[:, None] * S + outer(key, beta * (value - (c * key) @ S))
  y <- q @ S
"""


def compiled(text, k, v, heads, **options):
    given = {"target": "u55c", "dram": "on-chip", "schedule": "halves"} | options
    return ps.compile(parse_kernel(text), dims={"k": k, "v": v}, heads=heads, **given)


def on_hardware(design, **given):
    runs = [design.run(backend=name, **given) for name in ("golden", "model", "rtl")]
    golden, model, rtl = runs
    assert differences(golden, rtl) == [] and model.cycles == rtl.cycles
    assert model.counters["stalled"] == rtl.counters["stalled"]


def test_on_hardware():
    design = compiled(RETNET, 70, 128, 1, banks=8)
    device = design.compiled.device
    assert (device.stripes, device.bus, device.interval) == (2, 32, 1)
    on_hardware(design, data="random:rows=4,seed=1")
    on_hardware(design, data="random:rows=2,seed=2", memory="hbm2")


@pytest.mark.parametrize(
    ("size", "banks", "tokens"),
    [(64, 4, 4), *(pytest.param(*of, 64, marks=pytest.mark.long) for of in ((64, 8), (128, 16)))],
)
def test_plans_with_fewer_units_on_hardware(size, banks, tokens):
    """Two of the plans that benchmarks/pim_core.py has beside a core, which have 16 and 64 banks."""
    design = compiled(RETNET, size, size, 4, banks=banks)
    on_hardware(design, data=f"random:rows={tokens},seed=1")


@pytest.mark.long
@pytest.mark.parametrize("format", ["mx8", "float16"])
@pytest.mark.parametrize("schedule", ["together", "halves", "quarters"])
@pytest.mark.parametrize("text", [RETNET, DELTA], ids=["retnet", "delta"])
def test_kinds_on_hardware(text, schedule, format):
    design = compiled(text, 40, 128, 2, banks=8, schedule=schedule, format=format)
    on_hardware(design, data="random:rows=5,seed=3")


@pytest.mark.long
@pytest.mark.parametrize("unit", ["per-bank", "time-multiplexed", "hbm-pim"])
def test_other_units_on_hardware(unit):
    on_hardware(compiled(RETNET, 40, 96, 2, banks=4, unit=unit), data="random:rows=3,seed=4")


@pytest.mark.parametrize("text", [RETNET, DELTA], ids=["retnet", "delta"])
def test_steps_of_a_session_give_the_bits_of_a_run(text):
    design = compiled(text, 40, 96, 2, banks=16)
    assert design.compiled.device.stripes == 3
    rng = np.random.default_rng(0)
    shape = dict.fromkeys(("decay", "beta"), ()) | {"value": (96,)}
    names = [name for name, _ in design.compiled.recurrent.dims if name != "S"]
    drawn = {n: rng.normal(size=(6, 1, 2, *shape.get(n, (40,)))) for n in names}
    whole = design.run(drawn, backend="golden", seed=7, first=0)
    assert whole.details["float64"]["within_bound"]
    with design.open(backend="model", seed=7) as session:
        who = session.join(seed=0)
        first = session.step({who: {n: x[:2, 0] for n, x in drawn.items()}})
        saved = session.snapshot(who)
        session.leave(who)
        again = session.join(state=saved)
        second = session.step({again: {n: x[2:, 0] for n, x in drawn.items()}})
    assert (np.concatenate([first[who], second[again]]) == whole.result["y"][:, 0]).all()


def test_random_bits_are_a_part_of_columns_own():
    """No two pairs of banks, nor two tokens, begin with the same bits."""
    design = compiled(RETNET, 40, 128, 2, banks=16).compiled
    assert design.device.stripes == 4
    workload = design.workload(Given(data="random:rows=3,seed=1"))
    steps = [step for own in workload._first.steps for step in own if step.seeds is not None]
    seeds = np.concatenate([step.seeds for step in steps])
    assert len(np.unique(seeds, axis=0)) == len(seeds) == 3 * 8


def test_operands_reach_their_banks():
    """Each bank's registers hold what its own REG_WRITE would have brought, in fewer of them; the rules of the table are kept."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        sets, groups, banks = int(rng.choice([1, 2])), 4, int(rng.choice([2, 4]))
        config = PimConfig(
            "mx8",
            True,
            groups,
            banks,
            sets=sets,
            timing=timing_named("on-chip", "mx8", True),
            bus=32,
        )
        given = Round("update", 4, 0, 1, first=True, seeds=1)
        names, count = registers_of(config, given), groups * banks // sets
        few = rng.integers(0, 256, (3, 32), dtype=np.uint8)
        data = few[rng.integers(0, 3, (count, len(names)))]
        seeds = rng.integers(0, 256, (count // 2, 32), dtype=np.uint8)
        puts = shared(banks, names, data, seeds)
        assert len(puts) <= count * len(names) + count // (2 if banks == 2 else 4)
        found, begun = np.full_like(data, 0), np.zeros((count // 2, 16), dtype=np.uint8)
        for put in puts:
            for place in range(count):
                group, bank = divmod(place, banks)
                if put.groups >> group & 1 and put.banks >> bank & 1:
                    if put.register == "seed":  # by the bottom bank, of the upper half
                        begun[place // 2] = put.data[16 * (place % 2) :][:16]
                    else:
                        found[place, names.index(put.register)] = put.data
        assert (found == data).all() and (begun == seeds[:, :16]).all()
        one = Step(
            Round("update", 4, 0, 1, first=True, seeds=1, shared=len(puts)), data, seeds, puts=puts
        )
        made = program(config, [[one] * 3] * sets).schedule
        assert not check(made)
        for number in range(sets):
            turn = (
                ended
            ) = -1  # operands come before their ROUND, results leave before others are kept
            for c in (c for c in made.commands if c.set == number):
                turn, ended = turn + (c.name == "ROUND"), ended + (c.name == "PRECHARGES")
                assert c.round == {"REG_WRITE": turn + 1, "RESULT_READ": ended}.get(c.name, turn)


@pytest.mark.parametrize(("size", "most"), [(64, 7_600), (128, 15_200), (256, 32_000)])
def test_quicker_than_a_core(size, most):
    """Cycles of 64 tokens of four heads at 250 MHz: a half, a quarter, an eighth of what a core takes (benchmarks/pim_core.py)."""
    design = compiled(RETNET, size, size, 4)
    assert design.run("random:rows=64,seed=1", backend="model").cycles <= most
