"""Timing presets by name, each figure with its source.

Where a standard leaves a figure to the maker, the source says whose it is. Figures in ns are rounded
up to whole cycles, intervals between refreshes down.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from .organisation import Organisation
from .timing import Timing

__all__ = ["ALIASES", "PRESETS", "preset"]

_M = 1_000_000


def _up(ns: float, clock_hz: Fraction) -> int:
    return math.ceil(Fraction(str(ns)) * clock_hz / 1_000_000_000)


def _down(ns: float, clock_hz: Fraction) -> int:
    return math.floor(Fraction(str(ns)) * clock_hz / 1_000_000_000)


def _sdr(mhz: int, clock: Fraction) -> Timing:
    sheet = "ISSI IS42S16160 (-6), as on the ULX3S; Micron MT48LC16M16A2 (-6A) has the same"
    return Timing(
        name=f"sdr-{mhz}",
        title=f"32 MB of 16-bit SDR SDRAM at {mhz} MHz, as on the ULX3S",
        clock_hz=clock,
        organisation=Organisation(width=16, rows=1 << 13, columns=1 << 9, banks=4),
        nBL=4,
        beats=4,
        nCL=3,
        nCWL=0,
        nRCDRD=_up(18, clock),
        nRCDWR=_up(18, clock),
        nRP=_up(18, clock),
        nRAS=_up(42, clock),
        nRC=_up(60, clock),
        nCCDS=4,
        nCCDL=4,
        nRRDS=_up(12, clock),
        nRRDL=_up(12, clock),
        nFAW=0,
        nWTRS=0,
        nWTRL=0,
        nRTW=8,
        nWR=1,
        nRTP=4,
        nRFC=_up(60, clock),
        nRFCpb=0,
        nRREFD=0,
        nREFI=_down(7_812.5, clock),
        row_bus=False,
        sources={
            "": sheet,
            "nBL": "the mode register: bursts of 4 words, a word a cycle",
            "nCCDS": "a burst of 4 that is not cut short",
            "nCCDL": "a burst of 4 that is not cut short",
            "nFAW": "SDR SDRAM has no such rule",
            "nWTRS": "a READ may follow the last word of a write at once (tCDL = 1)",
            "nWTRL": "a READ may follow the last word of a write at once (tCDL = 1)",
            "nRTW": "CL + BL + 1: one cycle for the data pins to turn",
            "nWR": "two cycles from the last word's edge (tDPL), one from the end of the burst",
            "nRTP": "a PRECHARGE CL before the data's end would cut the burst: BL after READ",
            "nREFI": "8,192 refreshes in 64 ms",
        },
    )


def _ddr4(rate: int, cl: int, cwl: int, grade: str, faw_ns: float, ccd_l: int) -> Timing:
    clock = Fraction(rate * _M, 2)
    ns = lambda value: _up(value, clock)
    ras = ns(32)
    standard = f"JESD79-4, DDR4-{rate}{grade}"
    return Timing(
        name=f"ddr4-{rate}",
        title=f"64 bits of DDR4-{rate} ({cl}-{cl}-{cl}), eight chips of 8 Gb and 8 bits",
        clock_hz=clock,
        organisation=Organisation(width=64, rows=1 << 16, columns=1 << 10, banks=4, groups=4),
        nBL=4,
        beats=8,
        nCL=cl,
        nCWL=cwl,
        nRCDRD=cl,
        nRCDWR=cl,
        nRP=cl,
        nRAS=ras,
        nRC=ras + cl,
        nCCDS=4,
        nCCDL=ccd_l,
        nRRDS=max(4, ns(3.3 if rate <= 2400 else 2.5)),
        nRRDL=max(4, ns(4.9)),
        nFAW=max(20, ns(faw_ns)),
        nWTRS=max(2, ns(2.5)),
        nWTRL=max(4, ns(7.5)),
        nWR=ns(15),
        nRTP=max(4, ns(7.5)),
        nRFC=ns(350),
        nRFCpb=0,
        nRREFD=0,
        nREFI=_down(7_800, clock),
        row_bus=False,
        sources={
            "": standard,
            "nRTW": "CL + BL + 2 - CWL: a preamble of one cycle and one for the bus to turn",
            "nRRDS": f"{standard}, pages of 1 KB",
            "nRRDL": f"{standard}, pages of 1 KB",
            "nFAW": f"{standard}, pages of 1 KB",
            "nRFC": "JESD79-4, tRFC1 of 8 Gb: 350 ns",
            "nREFI": "JESD79-4, up to 85 °C: 7.8 us",
        },
    )


def _hbm2() -> Timing:
    clock = Fraction(1_000 * _M)
    public = "JESD235 leaves it to the maker; Ramulator 2.1's HBM2 at 2 Gb/s has it"
    return Timing(
        name="hbm2-2000",
        title="a pseudo-channel of HBM2 at 2 Gb/s a pin, 8 Gb a channel",
        clock_hz=clock,
        organisation=Organisation(
            width=64, rows=1 << 15, columns=1 << 7, banks=4, groups=4, pseudos=2
        ),
        nBL=2,
        beats=4,
        nCL=14,
        nCWL=5,
        nRCDRD=14,
        nRCDWR=12,
        nRP=14,
        nRAS=34,
        nRC=48,
        nCCDS=2,
        nCCDL=4,
        nRRDS=_up(4, clock),
        nRRDL=_up(4, clock),
        nFAW=_up(15, clock),
        nWTRS=6,
        nWTRL=8,
        nWR=16,
        nRTP=5,
        nRFC=_up(350, clock),
        nREFI=_down(3_900, clock),
        nRFCpb=_up(160, clock),
        nRREFD=_up(8, clock),
        act_cycles=2,
        row_bus=True,
        sources={
            "": public,
            "nBL": "JESD235: a burst of 4 on both edges",
            "nCCDS": "JESD235",
            "nCCDL": "JESD235",
            "nRTW": "CL + BL + 2 - CWL: two cycles for the bus to turn",
            "nRFC": "JESD235: 350 ns for 8 Gb a channel",
            "nRFCpb": "JESD235: 160 ns",
            "nRREFD": "JESD235: 8 ns",
            "nREFI": "JESD235: 3.9 us",
            "act_cycles": "JESD235: two cycles on the row bus",
            "row_bus": "JESD235: rows and columns have buses of their own",
        },
    )


def _hbm2e() -> Timing:
    """HBM2E: the row times of HBM2 in ns, at 3.2 Gb/s."""
    base, clock = _hbm2(), Fraction(1_600 * _M)
    scaled = {
        name: _up(getattr(base, name), clock)  # a cycle of HBM2 at 2 Gb/s is 1 ns
        for name in (
            *("nCL", "nCWL", "nRCDRD", "nRCDWR", "nRP", "nRAS", "nRC", "nRRDS", "nRRDL", "nFAW"),
            *("nWTRS", "nWTRL", "nWR", "nRTP", "nRFCpb", "nRREFD"),
        )
    }
    same = "the time in ns of the preset hbm2-2000: makers do not publish figures of HBM2E"
    return base.with_(
        name="hbm2e-3200",
        title="a pseudo-channel of HBM2E at 3.2 Gb/s a pin, 16 Gb a channel",
        clock_hz=clock,
        organisation=replace(base.organisation, rows=1 << 16),
        nRFC=_up(450, clock),
        nREFI=_down(3_900, clock),
        **scaled,
        sources={
            **base.sources,
            "": same,
            "nBL": "JESD235D: a burst of 4 on both edges",
            "nRFC": "JESD235D: 450 ns above 8 Gb a channel",
        },
    )


def _hbm3() -> Timing:
    clock = Fraction(1_600 * _M)
    public = "JESD238 leaves it to the maker; Ramulator 2.1's HBM3 at 6.4 Gb/s has it"
    return Timing(
        name="hbm3-6400",
        title="a pseudo-channel of HBM3 at 6.4 Gb/s a pin, 8 Gb a channel",
        clock_hz=clock,
        organisation=Organisation(
            width=32, rows=1 << 15, columns=1 << 8, banks=4, groups=4, pseudos=2
        ),
        nBL=2,
        beats=8,
        nCL=20,
        nCWL=10,
        nRCDRD=31,
        nRCDWR=15,
        nRP=26,
        nRAS=45,
        nRC=72,
        nCCDS=2,
        nCCDL=4,
        nRRDS=4,
        nRRDL=5,
        nFAW=24,
        nWTRS=7,
        nWTRL=10,
        nRTW=20,
        nWR=33,
        nRTP=9,
        nRFC=_up(350, clock),
        nREFI=_down(3_900, clock),
        nRFCpb=_up(200, clock),
        nRREFD=max(3, _up(8, clock)),
        nPPD=2,
        act_cycles=2,
        row_bus=True,
        sources={
            "": public,
            "nBL": "JESD238: a burst of 8 on both edges of a strobe of twice the clock",
            "nCCDS": "JESD238",
            "nCCDL": "JESD238",
            "nRFC": "JESD238: 350 ns for 8 Gb a channel",
            "nRFCpb": "JESD238: 200 ns for 8 Gb a channel",
            "nRREFD": "JESD238: 8 ns, three cycles at least",
            "nREFI": "JESD238: 3.9 us",
            "nPPD": "JESD238",
            "act_cycles": "JESD238: one and a half cycles on the row bus, taken as two",
            "row_bus": "JESD238: rows and columns have buses of their own",
        },
    )


def _pimba() -> Timing:
    clock = Fraction(1_512 * _M)
    paper, code = "Pimba (MICRO 2025), table 1", "Pimba's public simulator (d9ab7e2)"
    printed = ("nRP", "nRAS", "nCCDS", "nCCDL", "nWR", "nRTP", "nREFI", "nFAW")
    return Timing(
        name="pimba",
        title="a pseudo-channel of HBM2E as Pimba's simulator has it, 8 Gb a channel, 1.512 GHz",
        clock_hz=clock,
        organisation=Organisation(
            width=64, rows=1 << 15, columns=1 << 7, banks=4, groups=4, pseudos=2
        ),
        nBL=2,
        beats=4,
        nCL=14,
        nCWL=4,
        nRCDRD=14,
        nRCDWR=14,
        nRP=14,
        nRAS=34,
        nRC=48,
        nCCDS=2,
        nCCDL=4,
        nRRDS=4,
        nRRDL=6,
        nFAW=30,
        nWTRS=6,
        nWTRL=8,
        nRTW=3,
        nWR=16,
        nRTP=6,
        nRFC=350,
        nREFI=3_900,
        nRFCpb=160,
        nRREFD=8,
        row_bus=True,
        sources={
            "": code,
            **dict.fromkeys(printed, paper),
            "nRTP": f"{paper}: tRTP_L; tRTP_S, 4, is not used",
            "nRFC": f"{code}: 350 cycles for 8 Gb, which it never charges",
            "nRFCpb": "the preset hbm2-2000: neither paper nor simulator refreshes single banks",
            "act_cycles": "neither paper nor simulator charges the second cycle of ACT",
            "row_bus": "JESD235: rows and columns have buses of their own",
        },
    )


_ALL = (
    _sdr(60, Fraction(60 * _M)),
    _sdr(166, Fraction(500_000_000, 3)),  # a cycle of 6 ns
    _ddr4(2400, 16, 12, "R", 21, 6),
    _ddr4(3200, 22, 16, "AA", 21, 8),
    _hbm2(),
    _hbm2e(),
    _hbm3(),
    _pimba(),
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
