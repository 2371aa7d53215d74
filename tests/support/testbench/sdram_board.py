"""What synthesis makes of an ULX3S with SDRAM, as a device for `sim.board`: look-up tables, flip-flops, block RAMs and pads in place of the RTL.

The clock comes straight from its pin: the PLL's two outputs are one clock, so that what the chip gives is there at the edge behind its own.
"""

from __future__ import annotations

import re

from penstock.boards.flow import NAME
from penstock.models.memory.sdram import Chip
from penstock.models.target import Target
from penstock.sim.netlist.cells import LINT, _without, cell_models

__all__ = ["device_of_netlist"]

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
