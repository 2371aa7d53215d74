"""Devices: what the vendors' tables say of them.

Sources: Lattice FPGA-DS-02012 (ECP5), FPGA-DS-02008 and FPGA-DS-02029 (iCE40), FPGA-DS-02049 (CrossLink-NX); Gowin DS117 (GW1NR); AMD DS180 (Artix-7),
DS890 (UltraScale, UltraScale+).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..models.target import Capacity

__all__ = ["DEVICES", "Device"]


@dataclass(frozen=True)
class Device(Capacity):
    """One device. `tool`: what nextpnr takes for it; its family decides which tools are used."""

    name: str
    tool: str


#: bits of a block RAM, by family
_BLOCK_RAM = {
    "ecp5": 18 * 1024,
    "ice40": 4096,
    "gowin": 18 * 1024,
    "nexus": 18 * 1024,
    "amd": 36 * 1024,
}

DEVICES: dict[str, Device] = {
    name: Device(
        name,
        tool,
        family=family,
        lut=lut,
        ff=ff,
        dsp=dsp,
        bram=bram,
        bram_bits=_BLOCK_RAM[family],
        multiplier=multiplier,
    )
    for name, tool, family, lut, ff, dsp, bram, multiplier in (
        ("LFE5U-12F", "--12k", "ecp5", 12_144, 12_144, 28, 32, (18, 18)),
        ("LFE5U-25F", "--25k", "ecp5", 24_288, 24_288, 28, 56, (18, 18)),
        ("LFE5U-45F", "--45k", "ecp5", 43_848, 43_848, 72, 108, (18, 18)),
        ("LFE5U-85F", "--85k", "ecp5", 83_640, 83_640, 156, 208, (18, 18)),
        ("LFE5UM5G-85F", "--um5g-85k", "ecp5", 83_640, 83_640, 156, 208, (18, 18)),
        ("iCE40UP5K", "--up5k", "ice40", 5_280, 5_280, 8, 30, (16, 16)),
        ("iCE40HX8K", "--hx8k", "ice40", 7_680, 7_680, 0, 32, (16, 16)),
        ("GW1NR-9C", "GW1NR-LV9QN88PC6/I5", "gowin", 8_640, 6_480, 20, 26, (18, 18)),
        ("LIFCL-40", "LIFCL-40-9BG400C", "nexus", 32_256, 32_256, 56, 84, (18, 18)),
        ("XC7A100T", "xc7a100tcsg324-1", "amd", 63_400, 126_800, 240, 135, (25, 18)),
        ("XCKU040", "xcku040-ffva1156-2-e", "amd", 242_400, 484_800, 1_920, 600, (27, 18)),
        ("XCU55C", "xcu55c-fsvh2892-2L-e", "amd", 1_303_680, 2_607_360, 9_024, 2_016, (27, 18)),
    )
}
