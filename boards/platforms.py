"""Amaranth platforms of boards that amaranth-boards does not have.

Pin numbers: Colorlight i5 v7.0 on its extension board from the wuxx/Colorlight-FPGA-Projects documentation; CrossLink-NX Evaluation Board from Lattice
FPGA-EB-02028.
"""

from typing import Any

from amaranth.build import Attrs, Clock, Pins, PinsN, Resource, Subsignal
from amaranth.vendor import LatticePlatform
from amaranth_boards.resources import SDRAMResource, UARTResource

_LVCMOS33 = Attrs(IO_TYPE="LVCMOS33")


class ColorlightI5Platform(LatticePlatform):
    """Colorlight i5 (LFE5U-25F) on the extension board, whose CMSIS-DAP adapter has a serial port. Its SDRAM's masks are tied low."""

    device = "LFE5U-25F"
    package = "BG381"
    speed = "6"
    default_clk = "clk25"
    resources = [  # noqa: RUF012  as Amaranth's platforms have it
        Resource("clk25", 0, Pins("P3", dir="i"), Clock(25e6), _LVCMOS33),
        UARTResource(0, rx="H18", tx="J17", attrs=_LVCMOS33),
        SDRAMResource(
            0,
            clk="B9",
            we_n="A10",
            ras_n="B10",
            cas_n="A9",
            ba="B11 C8",
            a="B13 C14 A16 A17 B16 B15 A14 A13 A12 A11 B12",
            dq="B6 A5 A6 A7 C7 B8 B5 A8 D8 D7 E8 D6 C6 D5 E7 C5 C10 D9 E11 D11 C11 D12 E9 C12 E14 C15 E13 D15 E12 B17 D14 D13",
            attrs=Attrs(IO_TYPE="LVCMOS33", SLEWRATE="FAST"),
        ),
        Resource(  # Broadcom B50612D
            "eth_rgmii",
            0,
            Subsignal("rst", PinsN("P4", dir="o")),
            Subsignal("mdio", Pins("P5", dir="io")),
            Subsignal("mdc", Pins("N5", dir="o")),
            Subsignal("tx_clk", Pins("G1", dir="o")),
            Subsignal("tx_ctrl", Pins("K1", dir="o")),
            Subsignal("tx_data", Pins("G2 H1 J1 J3", dir="o")),
            Subsignal("rx_clk", Pins("H2", dir="i")),
            Subsignal("rx_ctrl", Pins("P2", dir="i")),
            Subsignal("rx_data", Pins("K2 L1 N1 P1", dir="i")),
            _LVCMOS33,
        ),
    ]
    connectors: list[Any] = []  # noqa: RUF012


class CrossLinkNXEVNPlatform(LatticePlatform):
    """Lattice CrossLink-NX Evaluation Board. Its USB chip's serial port needs R18 and R19 removed, and R15 and R17 fitted."""

    device = "LIFCL-40"
    package = "BG400"
    speed = "9"
    grade = "C"
    default_clk = "clk12"
    resources = [  # noqa: RUF012
        Resource("clk12", 0, Pins("L13", dir="i"), Clock(12e6), _LVCMOS33),
        UARTResource(0, rx="F16", tx="F18", attrs=_LVCMOS33),
    ]
    connectors: list[Any] = []  # noqa: RUF012
