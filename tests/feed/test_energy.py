"""Joules and carbon: the sheet's worked numbers, data sheets by hand, commands counted one by one."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.models.energy import Carbon, embodied, energy
from penstock.models.memory import FixedLatency, parse_memory
from penstock.models.memory.dram.checker import Checker
from penstock.models.memory.dram.controller import Mapping
from penstock.models.memory.dram.energy import picojoules
from penstock.models.memory.dram.memory import PlainChannel, counted
from penstock.models.memory.dram.presets import PRESETS, preset
from penstock.sim.memory.dram import FastChannel, fast

#: presets whose energy is known
KNOWN = [name for name, timing in PRESETS.items() if picojoules(timing)]


def test_worked_numbers() -> None:
    """22 nm, made in Taiwan: 1,576.8 g a cm²; 31.99 mm² cost 0.504 kg, 1 GB of LPDDR3 0.210 kg."""
    assert round(embodied(100, 22).grams or 0, 1) == 1576.8
    assert round((embodied(31.99, 22).grams or 0) / 1000, 3) == 0.504
    assert round((embodied(0, 22, dram="lpddr3", dram_gb=1).grams or 0) / 1000, 3) == 0.210


def test_nodes() -> None:
    """Linear between rows; nothing beyond them, and the reason."""
    at = [embodied(100, nm).grams or 0 for nm in (22, 18, 14)]
    assert at[1] == pytest.approx((at[0] + at[2]) / 2)
    assert embodied(100, 28).grams and not embodied(100, 40).grams
    assert embodied(100, 40).source == "embodied carbon: no figures for 40 nm"
    assert embodied(None, 16).source == "embodied carbon: the die's area is not published"
    assert "hbm2 taken as DDR4" in embodied(1, 16, dram="hbm2", dram_gb=1).source


def test_runs() -> None:
    """2 s of a board that idles at 10 W and takes 30, half used, working a quarter of the time."""
    found = energy(2, idle_w=10, max_w=30, share=0.5, activity=0.25, link_bytes=10**9, source="x")
    assert (found.idle, found.activity, found.ceiling) == (20, 5, 60)
    assert found.joules == pytest.approx(25 + 0.0104)
    made = embodied(31.99, 22)
    carbon = Carbon(3.6e6, 3 * 365.25 * 86400, made, "california")
    assert made.grams == pytest.approx(504, abs=1)
    assert carbon.kg == pytest.approx(0.224 + made.grams / 1000)
    assert found.to_json(carbon)["source"] == (
        "estimate; power: x; 224 g a kWh (california); "
        "embodied carbon: ACT at 22 nm, made in taiwan; a life of 3 years"
    )
    full = energy(2, idle_w=0, max_w=0.001, link_bytes=10**9)
    assert full.joules == full.ceiling == 0.002  # the board takes no more
    unknown = energy(2, commands={"RD": 3}, of_commands=None)
    assert unknown.joules is None and "joules" not in unknown.to_json()
    with pytest.raises(ValueError, match="watts"):
        energy(2, idle_w=10, max_w=3)


def test_commands_by_hand() -> None:
    """The formulas, in ns and mA: DDR4-2400 has 45.32 ns of tRC in 55 cycles, 32 of tRAS in 39, 350 of tRFC."""
    found = picojoules(preset("ddr4-2400"))
    ns = 1 / 1.2
    assert found is not None and found.of == pytest.approx(
        {
            "ACT": 8 * 1.2 * (48 * 55 * ns - 43 * 39 * ns - 34 * 16 * ns),
            "RD": 8 * 1.2 * (135 - 43) * 4 * ns,
            "WR": 8 * 1.2 * (123 - 43) * 4 * ns,
            "REFab": 8 * 1.2 * (250 - 43) * 420 * ns,
        }
    )
    bits = picojoules(preset("hbm2"))
    assert bits is not None and (bits.of["ACT"], bits.of["RD"]) == (0.11 * 8192, 3.59 * 256)
    assert bits.of["REFab"] == pytest.approx(64 * 901.12)
    assert {*PRESETS} - {*KNOWN} == {"sdr-60x32"}  # its maker's currents are not at hand
    assert picojoules(preset("ddr4").with_(name="mine")) is None


@pytest.mark.parametrize("seed", range(10))
def test_ten_traces(seed: int) -> None:
    """Both channels count what a hand does that follows which rows are open, and what the checker sees."""
    name = KNOWN[seed % len(KNOWN)]
    memory = parse_memory(f"{name},ratio=1/1")
    timing, rng = preset(name), np.random.default_rng(seed)
    plain, quick = PlainChannel(memory), FastChannel(memory)
    mapping, size, now = Mapping(timing), timing.burst_bytes, 0
    for _ in range(150):
        now += int(rng.choice([0, 3, 40, timing["nREFI"] // 3]))
        at = int(rng.choice([rng.integers(0, 64), rng.integers(0, 1 << 16)])) * size
        write, beats = rng.random() < 0.3, int(rng.integers(1, 5))
        for channel in (plain, quick):
            (channel.write if write else channel.read)(now, at, beats, size)
    open_rows: dict[tuple[int, int], int] = {}
    hand = dict.fromkeys(("ACT", "PRE", "PREA", "RD", "WR", "REFab"), 0)
    for _, command, address in plain.controller.issued:
        if command == "REFab":  # all that is open is closed first, by one command
            hand["REFab"] += 1
            hand["PREA"] += bool(open_rows)
            open_rows.clear()
        elif command in ("RD", "WR"):
            hand[command] += 1
            bank = address.group, address.bank
            if open_rows.get(bank) != address.row:
                hand["ACT"] += 1
                hand["PRE"] += bank in open_rows
            open_rows[bank] = address.row
    assert mapping.address(0).row == 0 and hand["REFab"] and hand["PRE"] and hand["WR"]
    checker = Checker(timing)
    for cycle, command, address in sorted(plain.controller.issued):
        checker.issue(command, address, cycle)
    for found in (plain.commands(), quick.commands()):
        assert found == {name: count for name, count in hand.items() if count}
        assert found == {name: count for name, count in checker.count.items() if count}
    cost = picojoules(timing)
    assert cost is not None
    by_hand = sum(
        cost.of[command] for _, command, _ in plain.controller.issued if command[:3] != "PRE"
    )
    assert cost.total(quick.commands()) == pytest.approx(by_hand, rel=1e-12)


def test_all_channels_count() -> None:
    memory, commands = counted(fast(parse_memory("hbm2")))
    ports = [memory.port(32), memory.port(32)]
    for port in ports:
        port.read(5, 4, 0)
    assert commands() == {"ACT": 8, "RD": 8}
    fixed, none = counted(FixedLatency(3, 8))
    assert fixed.port(8).read(1, 1) and none() == {}
