"""The device in hardware: bits and cycles are those of the models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.models.memory import FixedLatency, parse_memory
from penstock.models.pim import rate
from penstock.models.pim.config import PimConfig
from penstock.models.pim.device import Step
from penstock.models.pim.errors import PimError
from penstock.models.pim.program import OPCODES, program
from penstock.models.pim.rounds import Round
from penstock.models.pim.softmax import Taken
from penstock.sim.native import Library
from penstock.sim.native.machine import NativeMachine
from testbench.pim import build, compare, encoded, step

MEMORIES = (
    FixedLatency(),
    FixedLatency(3, 8),
    FixedLatency(40, 2),
    *(parse_memory(name, 50.0) for name in ("hbm2", "ddr4-2400", "sdr-166,transit=3")),
)


def first_chunk(config: PimConfig) -> Round:
    """Return the round of a first chunk, with one rate for all lanes."""
    count = 5 if config.format == "float16" else 4
    return Round("update", count, 0, config.result_reads, True, int(config.stochastic))


def mixed(config: PimConfig, rng: np.random.Generator, attention: bool = True) -> list:
    """Every kind of round, for each set."""
    wide = config.format == "float16"
    reads = config.result_reads

    def update(first: bool, row: int) -> Round:
        rates = int(rng.integers(1, 3)) if not wide else 1
        count = (2 if wide else 1) + first * (2 + rates)
        seeds, read = int(first and config.stochastic), reads * int(rng.integers(3) > 0)
        return Round("update", count, row, read, first, seeds, rates)

    def own() -> list:
        rows = range(min(config.rows, 2))
        steps = [step(config, Round("load", row=r), rng) for r in rows]
        for row in rows:
            steps.append(step(config, update(True, row), rng))
            steps.append(step(config, update(False, row), rng))
        if attention:
            steps.append(step(config, Round("score", 1, 0, reads), rng))
            steps.append(step(config, Round("attend", 2 if wide else 1, 1, 1), rng))
            steps.append(step(config, update(True, 1), rng))
        if config.soft_items:
            steps += softened(config, rng)
        return steps + [step(config, Round("store", row=r), rng) for r in rows]

    return [own() for _ in range(config.sets)]


def softened(config: PimConfig, rng: np.random.Generator) -> list:
    """Tiles of one item whose scores go to the softmax unit, and whose weights come from it."""
    steps, reads = [], config.result_reads
    for number in range(3):
        slot = number % 2 * config.soft_items
        for chunk in (0, 1):
            score = Round("score", 1, 0, reads, soft=True, ended=(reads - 1,) * chunk)
            taken = Taken(
                (slot * 2 + chunk,), (slot,) * chunk, (int(rng.integers(33, 65)),) * chunk
            )
            steps.append(replace(step(config, score, rng), taken=taken))
        attend = Round("attend", reads, 1, 1, soft=True, after=number + 1, totals=1)
        none = np.zeros(0, dtype=np.uint8)
        steps.append(Step(attend, none, taken=Taken((slot,), (slot,))))
    return steps


def stops_where_rules_are_broken(config: PimConfig, library: Library, steps: list) -> None:
    """A row that is closed a cycle too early, a row that is not opened, and weights that are not there yet."""
    made = program(config, steps)
    places = np.cumsum(made.sizes) - made.sizes
    opcodes = made.words[places] & 15
    close, first = (int(np.flatnonzero(opcodes == OPCODES[n])[-1]) for n in ("PRECHARGES", "ACT4"))
    weigh = np.flatnonzero(opcodes == OPCODES["WEIGH"])[0]
    begin = np.flatnonzero(opcodes[:weigh] == OPCODES["ROUND"])[-1]
    for number, change, code in (
        (close, lambda word: word - (1 << 4), PimError.PIM_TIMING),
        (first, lambda word: word & ~15 | OPCODES["IDLE"], PimError.PIM_STATE),
        (begin, lambda word: word - (100 << 4), PimError.PIM_TIMING),
    ):
        words = made.words.copy()
        words[places[number]] = change(int(words[places[number]]))
        with NativeMachine(library, FixedLatency()) as machine:
            machine.write(0, words.view(np.uint8))
            count = int(made.reads.sum())
            machine.reserve(1 << 20, 32 * count + 8)
            given = {"program": 0, "words": len(words), "results": 1 << 20}
            ended = machine.run({**given, "result_words": 4 * count}, limit=1_000_000)
        assert ended.error is not None and ended.error.code == code, ended.error


@pytest.mark.parametrize(
    "config",
    [
        PimConfig(groups=1, banks=2, rows=4, stochastic=True, soft_items=2, soft_parts=1),
        pytest.param(
            PimConfig("float16", groups=1, banks=2, rows=4, soft_items=1, soft_parts=1),
            marks=pytest.mark.long,
            id="float16",
        ),
    ],
    ids=lambda c: c.format,
)
def test_one_pair(config):
    library = build(config)
    rng = np.random.default_rng(1)
    for memory in MEMORIES[config.stochastic :: 2]:
        compare(config, library, mixed(config, rng), memory)
    stops_where_rules_are_broken(config, library, mixed(config, rng))
    # a state at the end of the range, doubled
    full = {"mx8": 2.0**126, "float16": 2.0**14}[config.format]
    one = step(config, first_chunk(config), rng)
    one.data[:, 0] = rate.codes(np.full((2, 16), -1.0)).astype("<u2").view(np.uint8)
    kept = step(config, first_chunk(config), rng)  # which changes no bit, infinities neither
    kept.data[:, 0], kept.data[:, 1] = 0, encoded(config, np.zeros((2, config.lanes)))
    steps = [step(config, Round("load"), rng, full), one, kept, step(config, Round("store"), rng)]
    assert compare(config, library, [steps]).counters["saturated"] > 0


@pytest.mark.long
def test_rounds_of_sixteen_banks():
    """The cycles of a round on the RTL: 578 for a first chunk, 422 for a later one."""
    config = PimConfig(rows=2)
    library, rng = build(config), np.random.default_rng(4)
    for first, cycles in ((True, 578), (False, 422)):
        one = first_chunk(config) if first else Round("update", 1, 0, 1)
        steps = [step(config, Round("load"), rng), *[step(config, one, rng) for _ in range(4)]]
        taken = [compare(config, library, [steps[:count]], FixedLatency(1, 8)) for count in (4, 5)]
        run = [ended.cycles - ended.counters["stalled"] for ended in taken]
        assert run[1] - run[0] == cycles


@pytest.mark.long
def test_four_thousand_steps():
    for config in (
        PimConfig(groups=1, banks=2, rows=1, stochastic=True),
        PimConfig("float16", groups=1, banks=2, rows=1),
    ):
        rng = np.random.default_rng(5)
        one = first_chunk(config)
        steps = [step(config, Round("load"), rng)]
        steps += [step(config, one, rng, 0.1) for _ in range(4096)]
        compare(config, build(config), [[*steps, step(config, Round("store"), rng)]])
