"""An iCE40 bitstream turned back into Verilog: what the device does, read from its configuration bits.

Project IceStorm's `icebox_vlog` (Debian's package fpga-icestorm) does the reading; of the cells it leaves block RAMs alone, whose models are Yosys's.
Phase-locked loops have none: a bitstream to be simulated takes its clock straight from a pin.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from penstock.boards.tools import ToolError, ToolMissing, run_tool
from penstock.models.target import Target
from penstock.sim.netlist import cell_models
from penstock.sim.netlist.cells import LINT

__all__ = ["device_verilog"]

_HEADER = re.compile(r"^module (\w+) \(([^)]*)\);", re.MULTILINE)
_SET_IO = re.compile(r"^\s*set_io\s+(?:-\S+\s+)*(\S+)\s+(\S+)", re.MULTILINE)


def _verilog(bitstream: bytes, constraints: str) -> str:
    """Return a bitstream as a Verilog module `chip`, its ports named as the constraints (pcf) name the pins.

    Raises ToolMissing, ToolError.
    """
    reader = shutil.which("icebox_vlog")
    if reader is None:
        raise ToolMissing("fpga-icestorm")
    with tempfile.TemporaryDirectory(prefix="penstock-") as temporary:
        folder = Path(temporary)
        (folder / "chip.bin").write_bytes(bitstream)
        (folder / "chip.pcf").write_text(
            "".join(f"set_io {name} {pin}\n" for name, pin in _SET_IO.findall(constraints))
        )
        run_tool("iceunpack", ["chip.bin", "chip.asc"], folder)
        # it finds its own modules beside itself, and knows nothing of ours
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
        }
        done = subprocess.run(
            [reader, "-s", "-n", "chip", "-p", "chip.pcf", "chip.asc"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise ToolError(
            "icebox_vlog",
            done.stderr[-4000:],
            (done.stderr.strip().splitlines() or ["no output"])[-1],
        )
    return _HEADER.sub(_plain_header, done.stdout, count=1)


def _plain_header(found: re.Match[str]) -> str:
    """Return a module's header with the ports' directions after it: `icebox_vlog` declares the ports as wires later, which is for such headers alone."""
    ports = [port.split() for port in found[2].split(",")]
    return f"module {found[1]} ({', '.join(name for _, name in ports)});\n" + "".join(
        f"{direction} {name};\n" for direction, name in ports
    )


def device_verilog(bitstream: bytes, constraints: str, board: Target) -> str:
    """Return what a board's bitstream does as a device for `sim.board`. Raises as `_verilog`; LookupError where a pin is not found.

    The chip resets itself after its configuration, so the device's reset goes nowhere; whether a run is under way cannot be seen from outside, so that a device
    at rest is clocked for a little while only, unless the host asks.
    """
    pins = [name for name, _ in _SET_IO.findall(constraints)]

    def pin(start: str, part: str = "") -> str:
        found = [name for name in pins if name.startswith(start) and part in name]
        if len(found) != 1:
            raise LookupError(f"{len(found)} pins are called {start}…{part}: {', '.join(pins)}")
        return found[0]

    top = [
        "module penstock(input clk, input rst, input rx, output tx, output busy);",
        "    assign busy = 1'b0;",
        f"    chip chip(.{pin(board.pins.clock)}(clk), .{pin(board.pins.uart, 'rx')}(rx), .{pin(board.pins.uart, 'tx')}(tx));",
        "endmodule",
    ]
    return "\n".join([LINT, *top, _verilog(bitstream, constraints), cell_models("ice40")])
