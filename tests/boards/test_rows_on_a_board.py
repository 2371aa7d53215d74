"""Factors of 10,000 users and items in a board's SDRAM: what synthesis makes of the whole device trains as golden says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.boards.build import elaborate
from penstock.boards.catalogue import boards
from penstock.boards.flow import synthesise
from penstock.boards.top import clock_setting
from penstock.host.device import simulated_device
from penstock.models.link.timing import SIMULATED_DIVISOR
from testbench.sdram_board import device_of_netlist

pytestmark = pytest.mark.filterwarnings("ignore:Using platform.request without:DeprecationWarning")
EXAMPLE = Path(__file__).parents[2] / "examples" / "lrmf.psk"
DIMS = {"m": 10_000, "n": 10_000, "k": 4}


@pytest.mark.long
@pytest.mark.parametrize("netlist", [False, True])
def test_factors(netlist: bool, tmp_path: Path) -> None:
    """240 ratings, twice, in more rows than lines hold at a time: the RTL of the device, and its netlist."""
    rng, count = np.random.default_rng(30), 240
    table = {name: (rng.zipf(1.3, count) % 10_000).astype(np.int32) for name in "ui"}
    table["r"] = rng.uniform(-1, 1, count).astype(np.float32)
    place = dict.fromkeys("PQ", "memory:64")
    design = ps.compile(
        EXAMPLE,
        "ulx3s-85f-sdram",
        table,
        "fixed:8,16",
        dims=DIMS,
        epochs=2,
        choices=ps.Choices(place=place),
    )
    golden = design.run(table, backend="golden")
    if netlist:
        board = boards()["ulx3s-85f-sdram"]
        clock = board.clock_mhz
        board = replace(
            board, link=replace(board.link, baud=round(clock * 1e6) // SIMULATED_DIVISOR)
        )
        made = elaborate(
            design.compiled.on_board(board).hardware, board, setting=clock_setting(board, clock)
        )
        synthesise(board, made, tmp_path)
        source = device_of_netlist((tmp_path / "netlist.v").read_text(), board)
        device = simulated_device(
            source, design.compiled.registers, sdram=(board.sdram, round(clock * 1e6))
        )
        with device:
            run = design.run(table, backend="board", device=device)
    else:
        run = design.run(table, backend="board")
    assert not run.errors and run.counters["tuples"] == 2 * count
    for name, codes in golden.codes.items():
        assert np.array_equal(run.codes[name], codes), name
