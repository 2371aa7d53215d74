"""What synthesis makes of an ULX3S with SDRAM, as a device for `sim.board`: look-up tables, flip-flops, block RAMs and pads in place of the RTL.

The clock comes straight from its pin: the PLL's two outputs are one clock, so that what the chip gives is there at the edge behind its own.

    python tests/support/testbench/sdram_board.py OUT [RATINGS]     # ten minutes

trains what `penstock build examples/lrmf.psk --board ulx3s-85f-sdram … --out OUT` placed, its netlist, on drawn ratings, and compares with golden.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.boards.catalogue import boards
from penstock.boards.flow import NAME
from penstock.engines.analytics.in_memory import row_places
from penstock.host.device.device import Device
from penstock.host.device.opening import serial_device
from penstock.models.analytics.config import AnalyticsPlan
from penstock.models.memory.sdram import Chip
from penstock.models.target import Target
from penstock.sim.board import Board, build
from penstock.sim.netlist.cells import LINT, _without, cell_models
from penstock.sim.serial import SerialServer

__all__ = ["Sparse", "device_of_netlist", "ratings"]

_SWITCHES = "PLLRST_ENA INTFB_WAKE STDBY_ENABLE DPHASE_SOURCE OUTDIVIDER_MUXA OUTDIVIDER_MUXB FEEDBK_PATH CLKOP_ENABLE CLKOS_ENABLE"
_NUMBERS = (
    "CLKI_DIV CLKFB_DIV CLKOP_DIV CLKOP_CPHASE CLKOP_FPHASE CLKOS_DIV CLKOS_CPHASE CLKOS_FPHASE"
)
_INPUTS = (
    "CLKI CLKFB RST STDBY PHASESEL0 PHASESEL1 PHASEDIR PHASESTEP PHASELOADREG PLLWAKESYNC ENCLKOP"
)
#: pads and PLL as far as they are used
_CELLS = f"""
module TRELLIS_IO(inout B, input I, input T, output O);
    parameter DIR = "INPUT";
    generate
        if (DIR == "OUTPUT") begin assign B = I; assign O = 1'b0; end
        else if (DIR == "BIDIR") begin assign B = T ? 1'bz : I; assign O = B; end
        else assign O = B;
    endgenerate
endmodule
module TRELLIS_IN(input B, input I, input T, output O);
    assign O = B;
endmodule
module EHXPLLL({", ".join(f"input {name}" for name in _INPUTS.split())}, output CLKOP, output CLKOS, output LOCK);
    {" ".join(f"parameter {name} = 0;" for name in f"{_SWITCHES} {_NUMBERS}".split())}
    assign CLKOP = CLKI, CLKOS = CLKI, LOCK = 1'b1;
endmodule
"""


def device_of_netlist(netlist: str, board: Target) -> str:
    """Return the Verilog of a device with the pins of `sim.board.generate_with_sdram` around a build's `netlist.v`."""
    chip: Chip = board.sdram
    width, masks = chip.width, chip.width // 8
    pins = {"a": 13, "ba": chip.bank_bits}
    inner = netlist.replace(f"module {NAME}(", "module chip(", 1)
    inner = re.sub(r'TRELLIS_IO #\(\s*\.DIR\("INPUT"\)\s*\)', "TRELLIS_IN", inner)
    ties = [
        f".sdram_0__{n}__io({n})"
        for n in ("clk", "clk_en", "cs", "ras", "cas", "we", "ba", "a", "dqm", "dq")
    ]
    top = f"""
module {NAME}(input clk, input rst, input rx, output tx, output busy,
    output sd_cke, output sd_cs_n, output sd_ras_n, output sd_cas_n, output sd_we_n, output [{pins["ba"] - 1}:0] sd_ba,
    output [{pins["a"] - 1}:0] sd_a, output [{masks - 1}:0] sd_dqm, output [{width - 1}:0] sd_dq_o, output sd_dq_oe,
    input [{width - 1}:0] sd_dq_i);
    wire clk_, clk_en, cs, ras, cas, we;
    wire [{width - 1}:0] dq;
    wire writes = ~cs & ras & ~cas & ~we;
    assign busy = 1'b0;
    assign sd_cke = clk_en, sd_cs_n = cs, sd_ras_n = ras, sd_cas_n = cas, sd_we_n = we;
    assign dq = writes ? {{{width}{{1'bz}}}} : sd_dq_i;
    assign sd_dq_o = dq, sd_dq_oe = writes;
    chip chip(.clk25_0__io(clk), .uart_0__rx__io(rx), .uart_0__tx__io(tx), {", ".join(ties)});
endmodule
"""
    for name, inside in (("clk", "clk_"), ("ba", "sd_ba"), ("a", "sd_a"), ("dqm", "sd_dqm")):
        top = top.replace(f"__{name}__io({name})", f"__{name}__io({inside})")
    cells = _without(cell_models(board.family), {"TRELLIS_IO", "EHXPLLL"})
    return "\n".join([LINT, top, inner, _CELLS, cells])


class Sparse(Device):
    """A device of whose tables, written at once with all their rows, only those that are asked for pass the wire, both ways."""

    def __init__(self, device: Device, plan: AnalyticsPlan, asked: list[np.ndarray]) -> None:
        self.__dict__.update(device.__dict__)
        self.plan = plan
        self.wanted = [np.unique(those).tolist() for those in asked]
        self.content = b""

    def _rows(self, at: int) -> Iterator[tuple[int, int]]:
        """Yield where each row that is asked for lies in tables that begin at an address, and its bytes."""
        unit = self.plan.row_unit
        assert unit is not None
        begins, _ = row_places(self.plan, at)
        for begin, (size, _), asked in zip(begins, unit.sizes, self.wanted, strict=True):
            yield from ((begin - at + row * size, size) for row in asked)

    def write(self, at: int, data: Any) -> None:
        content = np.ascontiguousarray(data).tobytes()
        if len(content) < row_places(self.plan, at)[1]:
            super().write(at, content)
            return
        self.content = content
        for place, size in self._rows(at):
            super().write(at + place, content[place:][:size])

    def read(self, at: int, length: int) -> bytes:
        if not self.content or length < len(self.content):
            return super().read(at, length)
        found = bytearray(self.content)
        for place, size in self._rows(at):
            found[place : place + size] = super().read(at + place, size)
        return bytes(found)


def ratings(rows: int, count: int) -> dict[str, np.ndarray]:
    """Return so many ratings of users and items, of whom there are `rows` each, and few are drawn often."""
    rng = np.random.default_rng(30)
    drawn = {name: (rng.zipf(1.3, count) % rows).astype(np.int32) for name in "ui"}
    return {"r": rng.uniform(-1, 1, count).astype(np.float32), **drawn}


def main(folder: Path, count: int) -> None:
    design, board = ps.load(folder), boards()["ulx3s-85f-sdram"]
    table = ratings(design.compiled.plan.rows.tables[0].rows, count)
    built = json.loads((folder / "manifest.json").read_text())["board"]
    golden, clock = design.run(table), round(built["clock_mhz"] * 1e6)
    library = build(device_of_netlist((folder / "netlist.v").read_text(), board))
    divisor = clock // built["baud"]
    with (
        Board(library, divisor, sdram=(board.sdram, clock)) as chip,
        SerialServer(chip) as server,
    ):
        registers = design.compiled.registers
        device: Any = serial_device(server.path, timeout=300.0, register_map=registers)
        judged = Sparse(device, design.compiled.plan, [table["u"], table["i"]])
        run = design.run(table, backend="board", device=judged)
    print(run.counters, *run.errors)
    for name, codes in golden.codes.items():
        print(name, "equal" if np.array_equal(run.codes[name], codes) else "not equal")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 240)
