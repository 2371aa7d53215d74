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


_18K, _36K = 18 * 1024, 36 * 1024

DEVICES: dict[str, Device] = {
    d.name: d
    for d in (
        Device(
            "LFE5U-12F",
            "--12k",
            family="ecp5",
            lut=12_144,
            ff=12_144,
            dsp=28,
            bram=32,
            bram_bits=_18K,
            multiplier=(18, 18),
        ),
        Device(
            "LFE5U-25F",
            "--25k",
            family="ecp5",
            lut=24_288,
            ff=24_288,
            dsp=28,
            bram=56,
            bram_bits=_18K,
            multiplier=(18, 18),
        ),
        Device(
            "LFE5U-45F",
            "--45k",
            family="ecp5",
            lut=43_848,
            ff=43_848,
            dsp=72,
            bram=108,
            bram_bits=_18K,
            multiplier=(18, 18),
        ),
        Device(
            "LFE5U-85F",
            "--85k",
            family="ecp5",
            lut=83_640,
            ff=83_640,
            dsp=156,
            bram=208,
            bram_bits=_18K,
            multiplier=(18, 18),
        ),
        Device(
            "LFE5UM5G-85F",
            "--um5g-85k",
            family="ecp5",
            lut=83_640,
            ff=83_640,
            dsp=156,
            bram=208,
            bram_bits=_18K,
            multiplier=(18, 18),
        ),
        Device(
            "iCE40UP5K",
            "--up5k",
            family="ice40",
            lut=5_280,
            ff=5_280,
            dsp=8,
            bram=30,
            bram_bits=4096,
            multiplier=(16, 16),
        ),
        Device(
            "iCE40HX8K",
            "--hx8k",
            family="ice40",
            lut=7_680,
            ff=7_680,
            dsp=0,
            bram=32,
            bram_bits=4096,
            multiplier=(16, 16),
        ),
        Device(
            "GW1NR-9C",
            "GW1NR-LV9QN88PC6/I5",
            family="gowin",
            lut=8_640,
            ff=6_480,
            dsp=20,
            bram=26,
            bram_bits=_18K,
            multiplier=(18, 18),
        ),
        Device(
            "LIFCL-40",
            "LIFCL-40-9BG400C",
            family="nexus",
            lut=32_256,
            ff=32_256,
            dsp=56,
            bram=84,
            bram_bits=_18K,
            multiplier=(18, 18),
        ),
        Device(
            "XC7A100T",
            "xc7a100tcsg324-1",
            family="amd",
            lut=63_400,
            ff=126_800,
            dsp=240,
            bram=135,
            bram_bits=_36K,
            multiplier=(25, 18),
        ),
        Device(
            "XCKU040",
            "xcku040-ffva1156-2-e",
            family="amd",
            lut=242_400,
            ff=484_800,
            dsp=1_920,
            bram=600,
            bram_bits=_36K,
            multiplier=(27, 18),
        ),
        Device(
            "XCU55C",
            "xcu55c-fsvh2892-2L-e",
            family="amd",
            lut=1_303_680,
            ff=2_607_360,
            dsp=9_024,
            bram=2_016,
            bram_bits=_36K,
            multiplier=(27, 18),
        ),
    )
}
