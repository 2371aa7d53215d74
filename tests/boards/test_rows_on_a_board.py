"""Factors of 10,000 users and items in a board's SDRAM: the whole device trains as golden says, and so does what synthesis makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.boards.build import elaborate
from penstock.boards.catalogue import boards
from penstock.boards.flow import synthesise
from penstock.boards.top import clock_setting
from penstock.host.device import Device, simulated_device
from penstock.models.link.timing import SIMULATED_DIVISOR
from testbench.sdram_board import device_of_netlist

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:Using platform.request without:DeprecationWarning"),
]
EXAMPLE = Path(__file__).parents[2] / "examples" / "lrmf.psk"
ROWS = 10_000
#: MHz at which it is placed (benchmarks/history/boards.md)
CLOCK = 40.0


class Sparse:
    """A device with tables of `ROWS` rows, of which only those that are asked for pass the wire, both ways."""

    def __init__(self, device: Device, asked: list[np.ndarray]) -> None:
        self.device, self.asked = device, [np.unique(rows).tolist() for rows in asked]
        self.tables: dict[int, tuple[bytes, list[int]]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.device, name)

    def write(self, at: int, data: Any) -> None:
        content = np.ascontiguousarray(data).tobytes()
        if len(content) < 8 * ROWS:
            self.device.write(at, content)
            return
        self.tables[at] = content, self.asked[len(self.tables)]
        size = len(content) // ROWS
        for row in self.tables[at][1]:
            self.device.write(at + row * size, content[row * size :][:size])

    def read(self, at: int, length: int) -> bytes:
        if at not in self.tables:
            return self.device.read(at, length)
        found, size = bytearray(self.tables[at][0]), length // ROWS
        for row in self.tables[at][1]:
            found[row * size : row * size + size] = self.device.read(at + row * size, size)
        return bytes(found)


@pytest.mark.parametrize("netlist", [False, True])
def test_factors(netlist: bool, tmp_path: Path) -> None:
    """240 ratings, twice; rows and pages take the chip in turn. The netlist is that of the device that is placed, but for a quicker line."""
    rng, count = np.random.default_rng(30), 240
    table = {name: (rng.zipf(1.3, count) % ROWS).astype(np.int32) for name in "ui"}
    table["r"] = rng.uniform(-1, 1, count).astype(np.float32)
    dims, board = {"m": ROWS, "n": ROWS, "k": 4}, boards()["ulx3s-85f-sdram"]
    design = ps.compile(EXAMPLE, board, table, "fixed:8,16", dims=dims, epochs=2)
    golden = design.run(table, backend="golden")
    if netlist:
        hertz = round(CLOCK * 1e6)
        link = replace(board.link, baud=hertz // SIMULATED_DIVISOR)
        board = replace(board, link=link)
        hardware = design.compiled.on_board(board).hardware
        synthesise(board, elaborate(hardware, board, setting=clock_setting(board, CLOCK)), tmp_path)
        source = device_of_netlist((tmp_path / "netlist.v").read_text(), board)
        registers = design.compiled.registers
        with simulated_device(source, registers, sdram=(board.sdram, hertz)) as device:
            sparse: Any = Sparse(device, [table["u"], table["i"]])
            run = design.run(table, backend="board", device=sparse)
    else:
        run = design.run(table, backend="board")
    assert not run.errors and run.counters["tuples"] == 2 * count
    for name, codes in golden.codes.items():
        assert np.array_equal(run.codes[name], codes), name
