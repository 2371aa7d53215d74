"""models/memory/dram: presets, the table of constraints, the checker."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from penstock.models.memory.dram.checker import Broken, Checker
from penstock.models.memory.dram.commands import Command, Constraint, constraints_of
from penstock.models.memory.dram.organisation import Address, Organisation
from penstock.models.memory.dram.presets import PRESETS, preset
from penstock.models.memory.dram.timing import Timing

HERE = Address(row=3)
SAME_GROUP, OTHER_GROUP = Address(bank=1, row=3), Address(group=1, row=3)
OTHER_PSEUDO = Address(pseudo=1, row=3)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_whole(name):
    """Every figure has a source; density is the product of the counts; times make sense."""
    timing = preset(name)
    assert timing.name == name and all(timing.source(figure) for figure in timing.cycles)
    assert set(timing.sources) - {""} <= {*timing.cycles, "beats", "act_cycles", "row_bus"}
    parts = timing.organisation
    assert parts.bytes == (
        parts.channels * parts.pseudos * parts.ranks * parts.groups * parts.banks * parts.rows
    ) * (parts.columns * parts.width // 8)
    assert timing["nRAS"] + timing["nRP"] <= timing["nRC"] + 1  # rounded each on its own
    assert timing["nCCDS"] >= timing["nBL"]


def test_densities_and_rates():
    """What makers print on the label."""
    found = {
        name: (timing.organisation.bytes >> 20, round(timing.bandwidth / 1e6))
        for name, timing in PRESETS.items()
    }
    assert found == {
        "sdr-60": (32, 120),
        "sdr-60x32": (8, 240),
        "sdr-166": (32, 333),
        "ddr4-2400": (8 << 10, 19_200),
        "ddr4-3200": (8 << 10, 25_600),
        "hbm2-2000": (1 << 10, 16_000),
        "hbm2e-3200": (2 << 10, 25_600),
        "hbm3-6400": (1 << 10, 25_600),
        "pimba": (1 << 10, 24_192),
    }


def edges(timing, first, place, cycle=1000):
    """First legal cycles of every command at several places, after one command."""
    checker = Checker(timing, buses=False)
    checker.note(first, place, cycle)
    return {
        (then, where): checker.earliest(then, address, cycle) - cycle
        for then in checker.commands
        for where, address in (
            ("bank", HERE),
            ("group", SAME_GROUP),
            ("rank", OTHER_GROUP),
            ("pseudo", OTHER_PSEUDO),
        )
        if address.pseudo < timing.organisation.pseudos
    }


def test_edges_of_ddr4_2400():
    """The rows of JESD79-4's tables for DDR4-2400R, worked out by hand."""
    ddr4 = preset("ddr4-2400")
    act = edges(ddr4, "ACT", HERE)
    assert (act["RD", "bank"], act["WRA", "bank"], act["PRE", "bank"]) == (16, 16, 39)
    assert (act["ACT", "bank"], act["ACT", "group"], act["ACT", "rank"]) == (55, 6, 4)
    assert (act["PREA", "rank"], act["REFab", "rank"], act["RD", "group"]) == (39, 55, 0)
    read = edges(ddr4, "RD", HERE)
    assert (read["RD", "bank"], read["RD", "rank"], read["PRE", "bank"]) == (6, 4, 9)
    assert read["WR", "rank"] == 16 + 4 + 2 - 12 and read["PRE", "group"] == 0
    write = edges(ddr4, "WR", HERE)
    assert (write["RD", "bank"], write["RD", "rank"]) == (12 + 4 + 9, 12 + 4 + 3)
    assert (write["PRE", "bank"], write["PREA", "rank"]) == (12 + 4 + 18, 12 + 4 + 18)
    assert edges(ddr4, "WRA", HERE)["ACT", "bank"] == 12 + 4 + 18 + 16
    assert edges(ddr4, "RDA", HERE)["REFab", "rank"] == 9 + 16
    assert edges(ddr4, "REFab", HERE)["ACT", "rank"] == 420
    assert edges(ddr4, "PREA", HERE)["ACT", "rank"] == 16


def test_edges_of_hbm2():
    hbm2 = preset("hbm2")
    act = edges(hbm2, "ACT", HERE)
    assert (act["RD", "bank"], act["WR", "bank"], act["REFpb", "bank"]) == (14, 12, 48)
    assert act["REFpb", "group"] == 4 and act["ACT", "pseudo"] == 0
    refresh = edges(hbm2, "REFpb", HERE)
    assert (refresh["ACT", "bank"], refresh["ACT", "group"], refresh["RD", "rank"]) == (160, 8, 0)
    assert (refresh["REFpb", "rank"], refresh["REFab", "rank"]) == (8, 160)
    assert edges(hbm2, "REFab", HERE)["REFpb", "rank"] == 350


def test_four_activates():
    """tFAW counts from the fourth-latest ACT of the rank, whatever its bank group."""
    hbm2 = preset("hbm2")
    checker = Checker(hbm2)
    for group in range(4):
        assert checker.earliest("ACT", Address(group=group)) == (4 * group if group else 0)
        checker.issue("ACT", Address(group=group), 4 * group)
    assert checker.earliest("ACT", Address(bank=1)) == 16  # four tRRD are longer than tFAW
    slow = Checker(hbm2.with_(nFAW=40))
    for group in range(4):
        slow.issue("ACT", Address(group=group), 10 + 4 * group)
    assert slow.earliest("ACT", Address(bank=1)) == 50
    assert slow.binding("ACT", Address(bank=1)).name == "tFAW"
    assert slow.earliest("ACT", OTHER_PSEUDO) == 24  # the row bus alone


def test_command_buses():
    """DDR4 has one bus, HBM one for rows and one for columns, shared by both pseudo-channels."""
    ddr4, hbm2 = Checker(preset("ddr4-2400")), Checker(preset("hbm2"))
    for checker in (ddr4, hbm2):
        checker.issue("ACT", HERE, 100)
    assert ddr4.earliest("RD", OTHER_GROUP) == 101
    assert hbm2.earliest("RD", OTHER_GROUP) == 0
    assert hbm2.earliest("PRE", OTHER_PSEUDO) == 101
    assert hbm2.earliest("ACT", OTHER_PSEUDO) == 102  # it takes two cycles, and is its second


def test_ranks():
    timing = preset("ddr4-2400").with_(
        organisation=Organisation(width=64, rows=8, columns=64, banks=4, groups=4, ranks=2)
    )
    other = Address(rank=1)
    checker = Checker(timing)
    checker.note("RD", HERE, 50)
    assert checker.earliest("RD", other) == 50 + 4 + 2
    assert checker.earliest("WR", other) == 50 + 16 + 4 + 2 - 12
    checker = Checker(timing)
    checker.note("WR", HERE, 50)
    assert checker.earliest("RD", other) == 50 + 12 + 4 + 2 - 16
    assert checker.earliest("WR", other) == 56


def test_states_and_times_are_checked():
    checker = Checker(preset("ddr4-2400"))
    with pytest.raises(Broken, match=r"^cycle 5: RD: bank 0 is closed$"):
        checker.issue("RD", HERE, 5)
    checker.issue("ACT", HERE, 5)
    with pytest.raises(
        Broken,
        match=r"^cycle 20: RD may come in cycle 21 \(tRCD: ACT to RD in one bank, 16 cycles\)$",
    ):
        checker.issue("RD", HERE, 20)
    with pytest.raises(Broken, match=r"^cycle 21: RD: bank 0 has row 3 open, not 4$"):
        checker.issue("RD", HERE._replace(row=4), 21)
    with pytest.raises(Broken, match=r"^cycle 60: ACT: bank 0 is open$"):
        checker.issue("ACT", HERE, 60)
    checker.issue("RD", HERE, 21)
    with pytest.raises(ValueError, match=r"^PREA in cycle 20 comes after one in cycle 21$"):
        checker.issue("PREA", HERE, 20)
    checker.issue("PREA", HERE, 44)
    assert checker.row(HERE) is None and checker.earliest("REFab") == 60
    with pytest.raises(ValueError, match=r"^ddr4-2400 has no command 'REFpb'; it has ACT, PRE"):
        checker.earliest("REFpb")
    with pytest.raises(ValueError, match=r"has no Address\(channel=1"):
        checker.earliest("RD", Address(channel=1))


def test_further_commands_are_data():
    """A command of one's own, its edges, and one that acts on a bank group."""
    commands = (Command("COMP", "group", needs="open"),)
    table = (
        Constraint("COMP", "COMP", "group", 4, "tCCD_L"),
        Constraint("ACT", "COMP", "bank", 14, "tRCD"),
        Constraint("COMP", "PREA", "rank", 16, "tWR"),
    )
    checker = Checker(preset("pimba"), commands=commands, constraints=table)
    for bank in range(4):
        checker.issue("ACT", Address(bank=bank), 6 * bank)
    with pytest.raises(Broken, match="COMP may come in cycle 32"):
        checker.issue("COMP", Address(), 31)
    checker.issue("COMP", Address(), 32)
    assert checker.earliest("COMP") == 36 and checker.earliest("PREA") == 18 + 34
    with pytest.raises(ValueError, match=r"^GO: a command acts on "):
        Command("GO", "row")
    with pytest.raises(ValueError, match="there is no command GO"):
        Checker(preset("pimba"), constraints=(Constraint("GO", "ACT", "bank", 1, "x"),))


def test_figures_alone_and_plain_tuples():
    """A timing of figures, and addresses as tuples of six or seven."""
    checker = Checker(Timing(figures={"nRCDRD": 20, "nRP": 9, "nRAS": 30}))
    checker.issue("ACT", (0, 1, 2, 3, 100, 0), 50)
    assert checker.earliest("RD", (0, 1, 2, 3, 100, 8), 10) == 70
    assert checker.earliest("RD", (0, 1, 2, 3, 100, 8, 0), 90) == 90
    assert checker.row((0, 1, 2, 3, 0, 0)) == 100
    checker.issue("PREpb", (0, 1, 2, 3, 100, 0), 80)
    assert checker.earliest("REFpb", (0, 1, 2, 3, 0, 0), 0) == 98  # tRC; tRP is over
    assert checker.earliest("PREab", None, 0) == 81 == checker.earliest("PREA", None, 0)


def test_refusals():
    with pytest.raises(
        KeyError, match="there is no DRAM 'ddr9'; there are sdr-60, sdr-60x32, sdr-166"
    ):
        preset("ddr9")
    with pytest.raises(ValueError, match=r"^hbm2-2000: nRCDRD must be a whole number, not -1$"):
        preset("hbm2").with_(nRCDRD=-1)
    with pytest.raises(ValueError, match="leaves no time between two refreshes"):
        preset("hbm2").with_(nREFI=300)
    with pytest.raises(ValueError, match="rows must be a power of two, not 3"):
        Organisation(width=8, rows=3, columns=8)
    assert preset("HBM2") is PRESETS["hbm2-2000"] and preset("hbm2").clock_hz == Fraction(10**9)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("kind", ["RD", "WR"])
def test_the_pins_are_reached(name, kind):
    """Bursts over open rows of all bank groups take the data bus without a gap."""
    timing = preset(name)
    groups, checker = timing.organisation.groups, Checker(timing)
    now = 0
    for group in range(groups):
        now = checker.earliest("ACT", Address(group=group), now)
        checker.issue("ACT", Address(group=group), now)
    taken = []
    for k in range(200):
        now = checker.earliest(kind, Address(group=k % groups), now)
        checker.issue(kind, Address(group=k % groups), now)
        taken.append(now)
    assert set(np.diff(taken[groups:])) == {timing["nBL"]}


@pytest.mark.parametrize("name", ["sdr-166", "ddr4-2400", "hbm3-6400"])
def test_legal_is_the_largest_of_the_table(name):
    """The checker against the table read naively, over random commands in legal cycles."""
    timing, rng = preset(name), np.random.default_rng(5)
    parts = timing.organisation
    checker, table = Checker(timing), constraints_of(timing)
    issued: list[tuple[str, Address, int]] = []
    now = 0
    for _ in range(80):
        command = str(rng.choice(list(checker.commands)))
        place = Address(
            0,
            int(rng.integers(parts.pseudos)),
            int(rng.integers(parts.groups)),
            int(rng.integers(parts.banks)),
            0,
        )
        legal = 0
        for constraint in table:
            if constraint.then != command:
                continue
            for bank in parts.banks_in(place, checker.commands[command].acts_on):
                hits = [
                    cycle
                    for first, other, cycle in issued
                    if first == constraint.first
                    and any(
                        (
                            (b.within(constraint.level) == bank.within(constraint.level))
                            != constraint.other
                            and b.within("pseudo") == bank.within("pseudo")
                        )
                        or constraint.level in ("channel", "device")
                        for b in parts.banks_in(other, checker.commands[first].acts_on)
                    )
                ]
                if len(hits) >= constraint.window:
                    legal = max(legal, hits[-constraint.window] + constraint.cycles)
        assert checker.earliest(command, place) == legal, (command, place)
        now = max(now, legal + int(rng.integers(0, 3) * rng.integers(0, 40)))
        checker.note(command, place, now)
        issued.append((command, place, now))
