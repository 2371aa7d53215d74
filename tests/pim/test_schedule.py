"""Schedules: the published cycles of a round, ours beside them, all by the table of rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.models.memory.dram.presets import PRESETS
from penstock.models.pim.config import Design, PimConfig
from penstock.models.pim.rounds import (
    HARDWARE,
    PUBLISHED,
    Charges,
    Round,
    round_cycles,
)
from penstock.models.pim.rules import check, expand, rules
from penstock.models.pim.schedule import Schedule, schedule
from penstock.models.pim.timing import PIMBA, PimTiming, timing_named

MX8 = PimConfig()
FP16 = PimConfig("float16", design=Design.PER_BANK)
HALVES = PimConfig(sets=2)
QUARTERS = PimConfig(sets=4, bank_local=True)
#: first and later chunks of all banks together, halves and quarters, published and in hardware, where tRTW is 14
TURNED = [(573, 410), (585, 422), (432, 336), (444, 348), (356, 308), (368, 320)]


def update(config: PimConfig, first: bool) -> Round:
    registers = {"mx8": (4, 1), "float16": (5, 2)}[config.format][0 if first else 1]
    return Round(registers=registers, reads=config.result_reads)


def attention(config: PimConfig, mode: str) -> Round:
    return Round(mode, 1, reads=config.result_reads if mode == "score" else 1)


def many(config: PimConfig, given: Round, charges: Charges, count: int = 12) -> Schedule:
    made = schedule(config, [[given] * count for _ in range(config.sets)], charges)
    assert check(made) == []
    return made


def drawn(rng: np.random.Generator) -> PimTiming:
    """Return random figures."""
    ccd_s = int(rng.integers(1, 4))
    return PIMBA.with_(
        tCCD_S=ccd_s,
        tCCD_L=int(rng.integers(max(2, ccd_s), 8)),
        burst=int(rng.integers(1, 3)),
        tRCD=int(rng.integers(2, 30)),
        tRP=int(rng.integers(2, 30)),
        tRAS=int(rng.integers(10, 60)),
        tFAW=int(rng.integers(4, 50)),
        tWR=int(rng.integers(4, 30)),
        tRTW=int(rng.integers(1, 12)),
        tWTR=int(rng.integers(1, 12)),
    )


def each(config: PimConfig, charges: Charges) -> tuple[int, int]:
    return tuple(many(config, update(config, f), charges).period() for f in (True, False))


@pytest.mark.parametrize(
    ("config", "published", "hardware"),
    [
        (MX8, (566, 410), (578, 422)),
        (FP16, (662, 470), (670, 478)),
        (replace(FP16, design=Design.TIME_MULTIPLEXED), (918, 726), (918, 726)),
        (replace(FP16, design=Design.HBM_PIM), (1430, 1238), (1430, 1238)),
    ],
)
def test_published_rounds(config, published, hardware):
    assert each(config, PUBLISHED) == published
    assert each(config, HARDWARE) == hardware


def test_rounds_are_those_of_the_closed_form():
    """What the scheduler places is what `models.pim.rounds` says, for any timing and device of one set."""
    rng = np.random.default_rng(8)
    for _ in range(60):
        config = PimConfig(
            design=rng.choice(list(Design)),
            groups=int(rng.choice([1, 2, 4])),
            banks=int(rng.choice([2, 4])),
            timing=drawn(rng),
        )
        mode = str(rng.choice(["update", "score", "attend"]))
        given = Round(mode, int(rng.integers(0, 6)), reads=int(rng.integers(0, 3)))
        if mode == "update":
            given = replace(given, seeds=int(rng.integers(2)))
        for charges in (PUBLISHED, HARDWARE):
            expected = round_cycles(config, given, charges)
            assert many(config, given, charges, 3).period() == expected, (config, given)
    for config, given in ((HALVES, Round()), (MX8, Round("load"))):
        with pytest.raises(ValueError, match="no closed form"):
            round_cycles(config, given)


def test_attention_rounds():
    for config, score, attend in ((MX8, 410, 410), (replace(FP16, design=Design.PIMBA), 442, 410)):
        for charges in (PUBLISHED, HARDWARE):  # nothing is written back: no slots to drain
            assert many(config, attention(config, "score"), charges).period() == score
            assert many(config, attention(config, "attend"), charges).period() == attend


def test_staggered_rounds():
    """Two halves keep tCCD_S between COMPs; four groups need COMP to be bank-local."""
    assert each(HALVES, PUBLISHED)[1] <= 340 and each(HALVES, HARDWARE)[1] <= 352
    assert each(QUARTERS, PUBLISHED)[1] <= 305 and each(QUARTERS, HARDWARE)[1] <= 317
    # exactly, so that a change is seen
    assert [each(c, p) for c in (HALVES, QUARTERS) for p in (PUBLISHED, HARDWARE)] == [
        (424, 336),
        (436, 348),
        (352, 304),
        (364, 316),
    ]


def test_every_preset_turns_the_bus():
    """tRTW = CL + BL + 2 − CWL: the published 3 of one preset are for the published figures alone."""
    for name, preset in PRESETS.items():
        assert timing_named(name).tRTW >= preset["nCL"] + preset["nBL"] + 2 - preset["nCWL"]
    assert (PIMBA.tRTW, timing_named("pimba").tRTW) == (3, 14)
    turned = [replace(c, timing=timing_named("pimba")) for c in (MX8, HALVES, QUARTERS)]
    found = [each(config, charges) for config in turned for charges in (PUBLISHED, HARDWARE)]
    assert found == TURNED


def test_seeds_and_a_second_register_of_rates():
    """A seed is written once for a pair of banks: 32 cycles as published."""
    for config, seeds, vectors in ((MX8, 32, 64), (HALVES, 16, 32)):
        plain = update(config, True)
        periods = [
            many(config, given, PUBLISHED).period()
            for given in (plain, replace(plain, seeds=1), replace(plain, registers=5, rates=2))
        ]
        assert periods[1] - periods[0] == seeds and periods[2] - periods[0] == vectors


def test_what_else_may_be_charged():
    """Commands of each pseudo-channel's own on the shared bus."""

    def period(config, charges):
        return many(config, update(config, False), charges).period()

    apart = Charges(False, lockstep=False)
    assert period(MX8, apart) == 410
    assert period(HALVES, apart) <= 340
    assert period(QUARTERS, apart) > 500  # the bus has no room for eight COMPs in 8 cycles less


def per_round(config: PimConfig, charges: Charges = HARDWARE) -> float:
    """Cycles a round over many refreshes."""
    made = many(config, update(config, False), charges, count=90)
    return max((own[-1] - own[0]) / (len(own) - 1) for own in made.starts)


def test_refresh_is_charged():
    plain = per_round(MX8)
    window = per_round(replace(MX8, refresh="window"), PUBLISHED)
    assert window == pytest.approx(3900 / 9, rel=0.02)  # 9 rounds of 410 in a window, as published
    for config in (MX8, HALVES, QUARTERS):
        free = per_round(config)
        every = per_round(replace(config, refresh="all-bank"))
        banks = per_round(replace(config, refresh="per-bank"))
        assert 0.97 * free * 3900 / (3900 - 350) < every < 1.2 * free
        if config.sets > 1:  # the other sets go on while one refreshes
            assert free < banks < every
    assert plain == 422


def test_refreshes_come_in_time():
    for config, name in ((replace(MX8, refresh="all-bank"), "REFab"), (HALVES, "REFpb")):
        config = replace(config, refresh="all-bank" if name == "REFab" else "per-bank")
        made = many(config, update(config, False), HARDWARE, count=150)
        banks = {}
        for c in made.commands:
            if c.name == name:
                banks.setdefault((c.groups, c.index), []).append(c.cycle)
        assert len(banks) == (1 if name == "REFab" else 16)
        for cycles in banks.values():
            assert len(cycles) >= made.length // 3900 - 1
            assert np.diff([0, *cycles]).max() < 3900 + 500


def test_rows_are_moved_by_plain_reads_and_writes():
    for config in (MX8, HALVES, replace(MX8, groups=1, banks=2)):
        rounds = [
            [Round("load", row=1), Round(), Round("store", row=1)] for _ in range(config.sets)
        ]
        made = schedule(config, rounds)
        assert check(made) == []
        moved = [c for c in made.commands if c.name in ("READ", "WRITE")]
        assert len(moved) == 2 * 32 * config.groups * config.banks


@pytest.mark.parametrize("config", [MX8, replace(HALVES, refresh="per-bank")])
def test_the_check_sees_commands_that_come_too_early(config):
    """For each rule, a command is moved to the last cycle in which the rule forbids it."""
    plain = [update(config, True), *[update(config, False)] * 11]
    rounds = [[Round("load"), *plain, Round("store")] for _ in range(config.sets)]
    made = schedule(config, rounds)
    assert check(made) == []
    seen = set()
    for rule in rules(config):
        for number, command in enumerate(made.commands):
            if command.name != rule.then or (rule.name in seen and number > 300):
                continue
            early = [
                c
                for c in made.commands[max(0, number - 40) : number]
                if c.name == rule.first
                and bool(set(c.groups) & set(command.groups)) == (rule.scope == "same")
            ]
            if not early:
                continue
            last = early[-1].cycle + (early[-1].count - 1) * made.interval
            if last + rule.cycles - 1 >= command.cycle:
                moved = replace(command, cycle=command.cycle - 1)
            else:
                moved = replace(command, cycle=last + rule.cycles - 1)
            part = [*made.commands[max(0, number - 40) : number], moved]
            wrong = check(replace(made, commands=part))
            if any(f"({rule.name})" in text for text in wrong):
                seen.add(rule.name)
                break
    expected = {"tFAW", "tRCD", "tCCD_L", "tWR", "tRP", "tRTP", "data bus", "tRAS"}
    assert expected - {"tRAS"} <= seen
    assert len(expand(made)) == sum(c.count for c in made.commands)


def test_random_timings_give_legal_schedules():
    rng = np.random.default_rng(7)
    for _ in range(15):
        sets = int(rng.choice([1, 2, 4]))
        config = replace(
            MX8,
            timing=drawn(rng),
            sets=sets,
            bank_local=bool(rng.integers(2)),
            refresh=str(rng.choice(["none", "window", "all-bank", "per-bank"])),
        )
        rounds = []
        for _ in range(sets):
            own = [update(config, bool(rng.integers(2))) for _ in range(8)]
            own.insert(int(rng.integers(8)), attention(config, "attend"))
            rounds.append([Round("load"), *own, Round("store")])
        made = schedule(config, rounds)
        assert check(made) == [], (config, check(made)[:3])
