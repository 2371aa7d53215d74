"""Devices: what the vendors' tables say of them.

Sources: Lattice FPGA-DS-02012 (ECP5), FPGA-DS-02008 and FPGA-DS-02029 (iCE40), FPGA-DS-02049 (CrossLink-NX); Gowin DS117 (GW1NR); AMD DS180 (Artix-7),
DS890 (UltraScale, UltraScale+).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEVICES", "Device"]


@dataclass(frozen=True)
class Device:
    """One device: look-up tables and flip-flops, multiplier blocks (`multiplier`: bits × bits), block RAMs of `bram_bits`.

    `tool`: what nextpnr takes for it, with the family that decides which tools are used.
    """

    name: str
    family: str
    tool: str
    lut: int
    ff: int
    dsp: int
    bram: int
    bram_bits: int
    multiplier: tuple[int, int]


_18K, _36K = 18 * 1024, 36 * 1024

DEVICES: dict[str, Device] = {d.name: d for d in (
    Device("LFE5U-12F", "ecp5", "--12k", 12_144, 12_144, 28, 32, _18K, (18, 18)),
    Device("LFE5U-25F", "ecp5", "--25k", 24_288, 24_288, 28, 56, _18K, (18, 18)),
    Device("LFE5U-45F", "ecp5", "--45k", 43_848, 43_848, 72, 108, _18K, (18, 18)),
    Device("LFE5U-85F", "ecp5", "--85k", 83_640, 83_640, 156, 208, _18K, (18, 18)),
    Device("LFE5UM5G-85F", "ecp5", "--um5g-85k", 83_640, 83_640, 156, 208, _18K, (18, 18)),
    Device("iCE40UP5K", "ice40", "--up5k", 5_280, 5_280, 8, 30, 4096, (16, 16)),
    Device("iCE40HX8K", "ice40", "--hx8k", 7_680, 7_680, 0, 32, 4096, (16, 16)),
    Device("GW1NR-9C", "gowin", "GW1NR-LV9QN88PC6/I5", 8_640, 6_480, 20, 26, _18K, (18, 18)),
    Device("LIFCL-40", "nexus", "LIFCL-40-9BG400C", 32_256, 32_256, 56, 84, _18K, (18, 18)),
    Device("XC7A100T", "vendor", "xc7a100tcsg324-1", 63_400, 126_800, 240, 135, _36K, (25, 18)),
    Device("XCKU040", "vendor", "xcku040-ffva1156-2-e", 242_400, 484_800, 1_920, 600, _36K, (27, 18)),
    Device("XCU55C", "vendor", "xcu55c-fsvh2892-2L-e", 1_303_680, 2_607_360, 9_024, 2_016, _36K, (27, 18)),
)}
