"""Timing presets by name, each figure with its source.

Where a standard leaves a figure to the maker, the source says whose it is. Figures in ns are rounded
up to whole cycles, intervals between refreshes down.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from .organisation import Organisation
from .timing import HBM2, Timing

__all__ = ["ALIASES", "PRESETS", "preset"]

#: parameters of `Timing`, a row each, by preset: cycles, a time in ns, or the larger one of both
#: ("4|7.5ns"); "-": the parameter's default. HBM2E has the times of HBM2, whose cycle is 1 ns
_FIGURES = """
            sdr-60    sdr-166   ddr4-2400  ddr4-3200  hbm2-2000  hbm2e-3200  hbm3-6400  pimba
nBL         4         4         4          4          2          2           2          2
beats       4         4         8          8          4          4           8          4
nCL         3         3         16         22         14         14ns        20         14
nCWL        0         0         12         16         5          5ns         10         4
nRCDRD      18ns      18ns      16         22         14         14ns        31         14
nRCDWR      18ns      18ns      16         22         12         12ns        15         14
nRP         18ns      18ns      16         22         14         14ns        26         14
nRAS        42ns      42ns      32ns       32ns       34         34ns        45         34
nRC         60ns      60ns      45.32ns    45.75ns    48         48ns        72         48
nCCDS       4         4         4          4          2          2           2          2
nCCDL       4         4         6          8          4          4           4          4
nRRDS       12ns      12ns      4|3.3ns    4|2.5ns    4ns        4ns         4          4
nRRDL       12ns      12ns      4|4.9ns    4|4.9ns    4ns        4ns         5          6
nFAW        0         0         20|21ns    20|21ns    15ns       15ns        24         30
nWTRS       0         0         2|2.5ns    2|2.5ns    6          6ns         7          6
nWTRL       0         0         4|7.5ns    4|7.5ns    8          8ns         10         8
nRTW        8         8         -          -          -          -           20         3
nWR         1         1         15ns       15ns       16         16ns        33         16
nRTP        4         4         4|7.5ns    4|7.5ns    5          5ns         9          6
nRFC        60ns      60ns      350ns      350ns      350ns      450ns       350ns      350
nRFCpb      0         0         0          0          160ns      160ns       200ns      160
nRREFD      0         0         0          0          8ns        8ns         3|8ns      8
nREFI       7812.5ns  7812.5ns  7800ns     7800ns     3900ns     3900ns      3900ns     3900
nPPD        -         -         -          -          -          -           2          -
act_cycles  -         -         -          -          2          2           2          -
"""
_NAMES, *_ROWS = [line.split() for line in _FIGURES.strip().splitlines()]


def _cycles(name: str, text: str, clock_hz: Fraction) -> int:
    """Return what a cell of the table says."""
    whole = math.floor if name == "nREFI" else math.ceil
    return max(
        whole(Fraction(part[:-2]) * clock_hz / 10**9) if part.endswith("ns") else int(part)
        for part in text.split("|")
    )


def _preset(name: str, title: str, clock_hz: Fraction | int, **more: Any) -> Timing:
    """Return the preset of a column of the table. `more`: what is no time."""
    clock = Fraction(clock_hz)
    column = _NAMES.index(name) + 1
    cells = {row[0]: row[column] for row in _ROWS if row[column] != "-"}
    figures: dict[str, Any] = {row: _cycles(row, text, clock) for row, text in cells.items()}
    return Timing(name=name, title=title, clock_hz=clock, **figures, **more)


_SDR: dict[str, Any] = {
    "organisation": Organisation(width=16, rows=1 << 13, columns=1 << 9, banks=4),
    "row_bus": False,
    "sources": {
        "": "ISSI IS42S16160 (-6), as on the ULX3S; Micron MT48LC16M16A2 (-6A) has the same",
        "nBL": "the mode register: bursts of 4 words, a word a cycle",
        **dict.fromkeys(("nCCDS", "nCCDL"), "a burst of 4 that is not cut short"),
        "nFAW": "SDR SDRAM has no such rule",
        **dict.fromkeys(
            ("nWTRS", "nWTRL"),
            "a READ may follow the last word of a write at once (tCDL = 1)",
        ),
        "nRTW": "CL + BL + 1: one cycle for the data pins to turn",
        "nWR": "two cycles from the last word's edge (tDPL), one from the end of the burst",
        "nRTP": "a PRECHARGE CL before the data's end would cut the burst: BL after READ",
        "nREFI": "8,192 refreshes in 64 ms",
    },
}


def _ddr4(standard: str) -> dict[str, Any]:
    return {
        "organisation": Organisation(width=64, rows=1 << 16, columns=1 << 10, banks=4, groups=4),
        "row_bus": False,
        "sources": {
            "": standard,
            "nRTW": "CL + BL + 2 - CWL: a preamble of one cycle and one for the bus to turn",
            **dict.fromkeys(("nRRDS", "nRRDL", "nFAW"), f"{standard}, pages of 1 KB"),
            "nRFC": "JESD79-4, tRFC1 of 8 Gb: 350 ns",
            "nREFI": "JESD79-4, up to 85 °C: 7.8 us",
        },
    }


_BUSES = "rows and columns have buses of their own"
_HBM2_SOURCES = {
    "": "JESD235 leaves it to the maker; Ramulator 2.1's HBM2 at 2 Gb/s has it",
    "nBL": "JESD235: a burst of 4 on both edges",
    "nCCDS": "JESD235",
    "nCCDL": "JESD235",
    "nRTW": "CL + BL + 2 - CWL: two cycles for the bus to turn",
    "nRFC": "JESD235: 350 ns for 8 Gb a channel",
    "nRFCpb": "JESD235: 160 ns",
    "nRREFD": "JESD235: 8 ns",
    "nREFI": "JESD235: 3.9 us",
    "act_cycles": "JESD235: two cycles on the row bus",
    "row_bus": f"JESD235: {_BUSES}",
}
_HBM2E_SOURCES = {
    **_HBM2_SOURCES,
    "": "the time in ns of the preset hbm2-2000: makers do not publish figures of HBM2E",
    "nBL": "JESD235D: a burst of 4 on both edges",
    "nRFC": "JESD235D: 450 ns above 8 Gb a channel",
}
_HBM3_SOURCES = {
    "": "JESD238 leaves it to the maker; Ramulator 2.1's HBM3 at 6.4 Gb/s has it",
    "nBL": "JESD238: a burst of 8 on both edges of a strobe of twice the clock",
    "nCCDS": "JESD238",
    "nCCDL": "JESD238",
    "nRFC": "JESD238: 350 ns for 8 Gb a channel",
    "nRFCpb": "JESD238: 200 ns for 8 Gb a channel",
    "nRREFD": "JESD238: 8 ns, three cycles at least",
    "nREFI": "JESD238: 3.9 us",
    "nPPD": "JESD238",
    "act_cycles": "JESD238: one and a half cycles on the row bus, taken as two",
    "row_bus": f"JESD238: {_BUSES}",
}
_PAPER, _CODE = "Pimba (MICRO 2025), table 1", "Pimba's public simulator (d9ab7e2)"
_PIMBA_SOURCES = {
    "": _CODE,
    **dict.fromkeys(
        ("nRP", "nRAS", "nCCDS", "nCCDL", "nWR", "nRTP", "nREFI", "nFAW"),
        _PAPER,
    ),
    "nRTP": f"{_PAPER}: tRTP_L; tRTP_S, 4, is not used",
    "nRFC": f"{_CODE}: 350 cycles for 8 Gb, which it never charges",
    "nRFCpb": "the preset hbm2-2000: neither paper nor simulator refreshes single banks",
    "act_cycles": "neither paper nor simulator charges the second cycle of ACT",
    "row_bus": f"JESD235: {_BUSES}",
}

_ALL = (
    _preset("sdr-60", "32 MB of 16-bit SDR SDRAM at 60 MHz, as on the ULX3S", 60_000_000, **_SDR),
    _preset(
        "sdr-166",
        "32 MB of 16-bit SDR SDRAM at 166 MHz, as on the ULX3S",
        Fraction(500_000_000, 3),  # a cycle of 6 ns
        **_SDR,
    ),
    _preset(
        "ddr4-2400",
        "64 bits of DDR4-2400 (16-16-16), eight chips of 8 Gb and 8 bits",
        1_200_000_000,
        **_ddr4("JESD79-4, DDR4-2400R"),
    ),
    _preset(
        "ddr4-3200",
        "64 bits of DDR4-3200 (22-22-22), eight chips of 8 Gb and 8 bits",
        1_600_000_000,
        **_ddr4("JESD79-4, DDR4-3200AA"),
    ),
    _preset(
        "hbm2-2000",
        "a pseudo-channel of HBM2 at 2 Gb/s a pin, 8 Gb a channel",
        1_000_000_000,
        organisation=HBM2,
        sources=_HBM2_SOURCES,
    ),
    _preset(
        "hbm2e-3200",
        "a pseudo-channel of HBM2E at 3.2 Gb/s a pin, 16 Gb a channel",
        1_600_000_000,
        organisation=replace(HBM2, rows=1 << 16),
        sources=_HBM2E_SOURCES,
    ),
    _preset(
        "hbm3-6400",
        "a pseudo-channel of HBM3 at 6.4 Gb/s a pin, 8 Gb a channel",
        1_600_000_000,
        organisation=replace(HBM2, width=32, columns=1 << 8),
        sources=_HBM3_SOURCES,
    ),
    _preset(
        "pimba",
        "a pseudo-channel of HBM2E as Pimba's simulator has it, 8 Gb a channel, 1.512 GHz",
        1_512_000_000,
        organisation=HBM2,
        sources=_PIMBA_SOURCES,
    ),
)
#: every preset by its name
PRESETS: Mapping[str, Timing] = {timing.name: timing for timing in _ALL}


#: short names of presets
ALIASES: Mapping[str, str] = {
    "sdr": "sdr-166",
    "ddr4": "ddr4-2400",
    "hbm2": "hbm2-2000",
    "hbm2e": "hbm2e-3200",
    "hbm3": "hbm3-6400",
}


def preset(name: str) -> Timing:
    """Return the preset of that name or short name, capitals aside. Raises KeyError with the names
    there are."""
    found = name.lower()
    try:
        return PRESETS[ALIASES.get(found, found)]
    except KeyError:
        raise KeyError(f"there is no DRAM {name!r}; there are {', '.join(PRESETS)}") from None
