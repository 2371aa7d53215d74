"""The controller of models/memory/dram: every rule kept, the pins reached, refreshes in time; and sim/memory, which equals it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from penstock.models.memory import parse_memory
from penstock.models.memory.dram.checker import Checker
from penstock.models.memory.dram.controller import Controller, Mapping
from penstock.models.memory.dram.memory import Dram, PlainChannel
from penstock.models.memory.dram.presets import PRESETS, preset
from penstock.models.memory.dram.timing import Timing
from penstock.sim.memory.dram import FastChannel, fast, serve


def requests(rng: np.random.Generator, timing: Timing, count: int):
    """Reads and writes in runs and at random, with pauses, some as long as several refreshes."""
    jumps = rng.random(count) < rng.choice([0.02, 0.3, 1.0])
    bursts, place = rng.integers(0, 1 << 24, count), 0
    for k in range(count):
        bursts[k] = place = int(bursts[k]) if jumps[k] else place + 1
    pauses = rng.integers(0, rng.choice([2, 60]), count) * (rng.random(count) < 0.3)
    pauses[rng.random(count) < 0.01] = 3 * timing["nREFI"] + 7
    writes = np.cumsum(rng.random(count) < 0.1) % 2 == 1
    return writes, np.cumsum(pauses), bursts


@pytest.mark.parametrize("name", PRESETS)
def test_fast_is_the_specification_and_keeps_the_rules(name):
    """Every command, in the order of cycles, passes the checker with its buses; C++ has the same."""
    timing = preset(name)
    for seed in range(2):
        writes, arrivals, bursts = requests(np.random.default_rng(seed), timing, 150)
        controller = Controller(timing)
        cycles = [
            controller.serve(bool(w), int(a), int(b))
            for w, a, b in zip(writes, arrivals, bursts, strict=True)
        ]
        found, refreshes = serve(timing, writes, arrivals, bursts.astype(np.uint64))
        assert found.tolist() == cycles and refreshes == controller.refreshes
        assert all(cycle >= arrival for cycle, arrival in zip(cycles, arrivals, strict=True))
        checker = Checker(timing)
        for cycle, command, address in sorted(controller.issued):
            checker.issue(command, address, cycle)
        due = [c.cycle for c in controller.issued if c.command == "REFab"]
        # tREFI from one to the next, but for what one request and the closing of rows take
        late = [cycle - timing["nREFI"] * (k + 1) for k, cycle in enumerate(due)]
        assert min(late, default=0) >= 0
        assert max(late, default=0) <= 2 * timing["nRC"] + timing.write_latency + timing["nWR"] + timing["nRP"]


@pytest.mark.parametrize("name", PRESETS)
def test_streams_reach_the_pins(name):
    """A long stream of reads takes what the pins give, but for refreshes: one every tREFI."""
    timing = preset(name)
    count = 200_000
    cycles, refreshes = serve(
        timing, np.zeros(count, bool), np.zeros(count), np.arange(count, dtype=np.uint64)
    )
    took = int(cycles[-1]) + timing.read_latency
    assert refreshes == took // timing["nREFI"]
    reached = count * timing.burst_bytes / took
    sustained = Dram(timing).sustained
    assert 0.98 < reached / sustained < 1.03
    assert sustained <= Fraction(timing.burst_bytes, timing["nBL"])


def test_random_rows_cost_tRC():
    """Requests for ever new rows of one bank come tRC apart, or after precharge and activate."""
    timing = preset("ddr4-2400")
    count = 200
    stride = timing.organisation.groups * Mapping(timing).bursts * timing.organisation.banks
    cycles, _ = serve(
        timing.with_(nREFI=1 << 40),
        np.zeros(count, bool),
        np.zeros(count),
        np.arange(count, dtype=np.uint64) * stride,
    )
    assert set(np.diff(cycles)) == {timing["nRC"]}


def test_mapping_covers_the_memory():
    timing = preset("hbm2")
    mapping, parts = Mapping(timing), timing.organisation
    assert mapping.address(0) == (0,) * 7
    assert mapping.address(1) == (0, 0, 1, 0, 0, 0, 0)
    assert mapping.address(4) == (0, 0, 0, 0, 0, 4, 0)
    assert mapping.address(4 * 32) == (0, 0, 0, 1, 0, 0, 0)
    last = parts.pseudo_bytes // timing.burst_bytes - 1
    assert mapping.address(last) == (0, 0, 3, 3, parts.rows - 1, parts.columns - 4, 0)
    assert mapping.address(last + 1) == mapping.address(0)


@pytest.mark.parametrize("text", ["sdr-166,ratio=3/5", "ddr4-2400,ratio=1/8", "hbm3,transit=9"])
@pytest.mark.parametrize("bus_bytes", [4, 64])
def test_channels(text, bus_bytes):
    """Bursts of an AXI port, in engine cycles: C++ against the specification, beat by beat."""
    memory = parse_memory(text)
    rng = np.random.default_rng(8)
    plain, quick = PlainChannel(memory), FastChannel(memory)
    now = 0
    for _ in range(60):
        now += int(rng.integers(0, 50))
        beats = int(rng.integers(1, min(256, 4096 // bus_bytes) + 1))
        address = int(rng.integers(0, 1 << 20)) * 4096
        address += int(rng.integers(0, 4096 // bus_bytes - beats + 1)) * bus_bytes
        if rng.random() < 0.6:
            ready = plain.read(now, address, beats, bus_bytes)
            assert quick.read(now, address, beats, bus_bytes) == ready
            assert ready[0] > now + memory.transit and ready == sorted(ready)
        else:
            done = plain.write(now, address, beats, bus_bytes)
            assert quick.write(now, address, beats, bus_bytes) == done > now + memory.transit


def test_a_command_at_once():
    """A whole command for a consumer that always takes is its beats, one by one."""
    rng, memory = np.random.default_rng(9), fast(parse_memory("ddr4-2400,ratio=1/8"))
    one, other = memory.port(8), memory.port(8)
    for start in np.cumsum(rng.integers(1, 2_000, 60)).tolist():
        beats, address = int(rng.integers(1, 2_000)), int(rng.integers(0, 1 << 20)) * 8
        if rng.random() < 0.3:  # words that nobody has taken yet are there
            for port in (one, other):
                port.address(start, 3, address)
                port.accept(start)
            beats += 2
        one.address(start + 1, beats, address)
        late = int(rng.choice([0, start + 100]))
        taken = [one.accept(late) for _ in range(beats)]
        if late:
            other.address(start + 1, beats, address)
            assert other.drain(beats, late) == (taken[0], taken[-1])
        else:
            assert other.read(start + 1, beats, address) == (taken[0], taken[-1])
        assert one.idle_from == other.idle_from


def test_clock_ratio():
    """DRAM cycle n is engine cycle ⌈n·p/q⌉: worked out by hand for DDR4-2400 and 150 MHz."""
    memory = parse_memory("ddr4-2400", 150.0)
    assert memory.ratio == Fraction(1, 8) and str(memory) == "ddr4-2400,ratio=1/8"
    assert parse_memory(str(memory)) == memory
    # AR in cycle 10: DRAM cycle 81 is the first after it; ACT in 81, RD in 97, data end at 117
    for channel in (PlainChannel(memory), FastChannel(memory)):
        assert channel.read(10, 0, 2, 64) == [15, 16]  # 117 / 8, and 121 / 8 one burst later


def test_ports_share_a_controller():
    """A write that comes before a read delays it; one that comes after does not."""
    memory = fast(parse_memory("hbm2"))

    def read(when: int) -> int:
        channel = memory.channel()
        reads, writes = channel.port(32), channel.write_port(32)
        last = writes.data(100)
        writes.sent(100, last, 1 << 16, 1)
        return reads.read(when, 1, 0)[0] - when

    alone = memory.port(32).read(500, 1, 0)[0] - 500
    assert read(99) == read(100) == alone < read(101)
    assert memory.latency >= alone
