"""The order in which rows are asked of DRAM, and where they lie, under the controller's own timing."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.models.memory.dram import presets
from penstock.models.memory.dram.controller import Controller, Mapping
from testbench.row_requests import (
    Placement,
    in_bank_order,
    least_clocks,
    ordered_bursts,
)

PRESETS = ("sdr-166", "ddr4-2400", "hbm2-2000")


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("size", [4, 32, 64, 512, 8192])
def test_a_row_lies_in_one_dram_row(name: str, size: int) -> None:
    timing = presets.PRESETS[name]
    placement, mapping = Placement(timing, size), Mapping(timing)
    rows = max(8, 4 * timing.burst_bytes // size)
    seen = [burst for row in range(rows) for burst in placement.of_row(row)]
    assert sorted(set(seen)) == list(range(max(seen) + 1))  # nothing is left between
    assert len(seen) == len(set(seen)) or size < timing.burst_bytes
    for row in range(rows):
        places = [mapping.address(burst) for burst in placement.of_row(row)]
        opened = {(at.group, at.bank, at.row) for at in places}
        assert len(opened) == -(-placement.bursts // mapping.bursts), row


def test_order_by_bank() -> None:
    """All rows come, each once, those of one bank in their order, and none overtakes more than the window lets in."""
    for seed in range(50):
        rng = np.random.default_rng(seed)
        banks = [(int(g), int(b)) for g, b in rng.integers(0, 3, (rng.integers(0, 60), 2))]
        window = int(rng.integers(1, 20))
        order = list(in_bank_order(banks, window))
        assert sorted(order) == list(range(len(banks)))
        for bank in set(banks):
            own = [n for n in order if banks[n] == bank]
            assert own == sorted(own)
        for place, n in enumerate(order):
            assert n < place + window
        if window == 1:
            assert order == sorted(order)


def test_another_group_goes_first() -> None:
    assert list(in_bank_order([(0, 0), (0, 1), (1, 0), (1, 1)], 3)) == [0, 2, 1, 3]
    assert list(in_bank_order([(0, 0), (0, 0), (0, 1)], 1)) == [0, 1, 2]
    assert list(in_bank_order([(0, 0), (0, 0), (0, 1)], 2)) == [0, 2, 1]


def clocks(name: str, size: int, window: int, count: int) -> float:
    """DRAM clocks a row of `count` at random; in order and as they come where the window is 0."""
    timing = presets.PRESETS[name]
    placement = Placement(timing, size)
    most = timing.organisation.pseudo_bytes // size
    rows = np.random.default_rng(1).integers(0, most, count).tolist()
    bursts = [row * size // timing.burst_bytes + n for row in rows for n in range(placement.bursts)]
    controller, last = Controller(timing), 0
    for burst in ordered_bursts(placement, rows, window) if window else bursts:
        last = controller.serve(False, 0, burst)
    return last / count


@pytest.mark.parametrize(
    ("name", "today", "most"),
    [("sdr-166", 33.5, 32.25 / 0.8), ("ddr4-2400", 13.5, 6.81 / 0.8), ("hbm2-2000", 18.5, 5.5)],
)
def test_rows_at_random(name: str, today: float, most: float) -> None:
    """64 bytes each: as they come, and with 16 that wait; never fewer clocks than the bound says."""
    timing, count = presets.PRESETS[name], 150 if name == "sdr-166" else 600
    # a short run has fewer refreshes
    least = float(least_clocks(timing, 64)) * (1 - timing["nRFC"] / timing["nREFI"])
    assert clocks(name, 64, 0, 150) > today
    assert least < clocks(name, 64, 16, count) < most


def test_bound() -> None:
    found = [round(float(least_clocks(presets.PRESETS[name], 64)), 1) for name in PRESETS]
    assert found == [32.2, 6.8, 4.4]
