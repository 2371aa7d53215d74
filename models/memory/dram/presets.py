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

__all__ = ["PRESETS", "preset"]

_M = 1_000_000


def _up(ns: float, clock_hz: Fraction) -> int:
    return math.ceil(Fraction(str(ns)) * clock_hz / 1_000_000_000)


def _down(ns: float, clock_hz: Fraction) -> int:
    return math.floor(Fraction(str(ns)) * clock_hz / 1_000_000_000)


def _sdr() -> Timing:
    clock = Fraction(500_000_000, 3)  # a cycle of 6 ns
    sheet = "ISSI IS42S16160 (-6), as on the ULX3S; Micron MT48LC16M16A2 (-6A) has the same"
    return Timing(
        name="sdr-166",
        title="32 MB of 16-bit SDR SDRAM at 166 MHz, as on the ULX3S",
        clock_hz=clock,
        organisation=Organisation(width=16, rows=1 << 13, columns=1 << 9, banks=4),
        BL=4,
        beats=4,
        CL=3,
        CWL=0,
        tRCDRD=_up(18, clock),
        tRCDWR=_up(18, clock),
        tRP=_up(18, clock),
        tRAS=_up(42, clock),
        tRC=_up(60, clock),
        tCCD_S=4,
        tCCD_L=4,
        tRRD_S=_up(12, clock),
        tRRD_L=_up(12, clock),
        tFAW=0,
        tWTR_S=0,
        tWTR_L=0,
        tRTW=8,
        tWR=1,
        tRTP=4,
        tRFCab=_up(60, clock),
        tREFI=_down(7_812.5, clock),
        sources={
            "": sheet,
            "BL": "the mode register: bursts of 4 words, a word a cycle",
            "tCCD_S": "a burst of 4 that is not cut short",
            "tCCD_L": "a burst of 4 that is not cut short",
            "tFAW": "SDR SDRAM has no such rule",
            "tWTR_S": "a READ may follow the last word of a write at once (tCDL = 1)",
            "tWTR_L": "a READ may follow the last word of a write at once (tCDL = 1)",
            "tRTW": "CL + BL + 1: one cycle for the data pins to turn",
            "tWR": "two cycles from the last word's edge (tDPL), one from the end of the burst",
            "tRTP": "a PRECHARGE CL before the data's end would cut the burst: BL after READ",
            "tREFI": "8,192 refreshes in 64 ms",
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
        BL=4,
        beats=8,
        CL=cl,
        CWL=cwl,
        tRCDRD=cl,
        tRCDWR=cl,
        tRP=cl,
        tRAS=ras,
        tRC=ras + cl,
        tCCD_S=4,
        tCCD_L=ccd_l,
        tRRD_S=max(4, ns(3.3 if rate <= 2400 else 2.5)),
        tRRD_L=max(4, ns(4.9)),
        tFAW=max(20, ns(faw_ns)),
        tWTR_S=max(2, ns(2.5)),
        tWTR_L=max(4, ns(7.5)),
        tWR=ns(15),
        tRTP=max(4, ns(7.5)),
        tRFCab=ns(350),
        tREFI=_down(7_800, clock),
        sources={
            "": standard,
            "tRTW": "CL + BL + 2 - CWL: a preamble of one cycle and one for the bus to turn",
            "tRRD_S": f"{standard}, pages of 1 KB",
            "tRRD_L": f"{standard}, pages of 1 KB",
            "tFAW": f"{standard}, pages of 1 KB",
            "tRFCab": "JESD79-4, tRFC1 of 8 Gb: 350 ns",
            "tREFI": "JESD79-4, up to 85 °C: 7.8 us",
        },
    )


def _hbm2() -> Timing:
    clock = Fraction(1_000 * _M)
    public = "JESD235 leaves it to the maker; Ramulator 2.1's HBM2 at 2 Gb/s has it"
    return Timing(
        name="hbm2",
        title="a pseudo-channel of HBM2 at 2 Gb/s a pin, 8 Gb a channel",
        clock_hz=clock,
        organisation=Organisation(
            width=64, rows=1 << 15, columns=1 << 7, banks=4, groups=4, pseudos=2
        ),
        BL=2,
        beats=4,
        CL=14,
        CWL=5,
        tRCDRD=14,
        tRCDWR=12,
        tRP=14,
        tRAS=34,
        tRC=48,
        tCCD_S=2,
        tCCD_L=4,
        tRRD_S=_up(4, clock),
        tRRD_L=_up(4, clock),
        tFAW=_up(15, clock),
        tWTR_S=6,
        tWTR_L=8,
        tWR=16,
        tRTP=5,
        tRFCab=_up(350, clock),
        tREFI=_down(3_900, clock),
        tRFCpb=_up(160, clock),
        tRREFD=_up(8, clock),
        act_cycles=2,
        row_bus=True,
        sources={
            "": public,
            "BL": "JESD235: a burst of 4 on both edges",
            "tCCD_S": "JESD235",
            "tCCD_L": "JESD235",
            "tRTW": "CL + BL + 2 - CWL: two cycles for the bus to turn",
            "tRFCab": "JESD235: 350 ns for 8 Gb a channel",
            "tRFCpb": "JESD235: 160 ns",
            "tRREFD": "JESD235: 8 ns",
            "tREFI": "JESD235: 3.9 us",
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
            *("CL", "CWL", "tRCDRD", "tRCDWR", "tRP", "tRAS", "tRC", "tRRD_S", "tRRD_L", "tFAW"),
            *("tWTR_S", "tWTR_L", "tWR", "tRTP", "tRFCpb", "tRREFD"),
        )
    }
    same = "the time in ns of the preset hbm2: makers do not publish figures of HBM2E"
    return base.with_(
        name="hbm2e",
        title="a pseudo-channel of HBM2E at 3.2 Gb/s a pin, 16 Gb a channel",
        clock_hz=clock,
        organisation=replace(base.organisation, rows=1 << 16),
        tRFCab=_up(450, clock),
        tREFI=_down(3_900, clock),
        **scaled,
        sources={
            **base.sources,
            "": same,
            "BL": "JESD235D: a burst of 4 on both edges",
            "tRFCab": "JESD235D: 450 ns above 8 Gb a channel",
        },
    )


def _hbm3() -> Timing:
    clock = Fraction(1_600 * _M)
    public = "JESD238 leaves it to the maker; Ramulator 2.1's HBM3 at 6.4 Gb/s has it"
    return Timing(
        name="hbm3",
        title="a pseudo-channel of HBM3 at 6.4 Gb/s a pin, 8 Gb a channel",
        clock_hz=clock,
        organisation=Organisation(
            width=32, rows=1 << 15, columns=1 << 8, banks=4, groups=4, pseudos=2
        ),
        BL=2,
        beats=8,
        CL=20,
        CWL=10,
        tRCDRD=31,
        tRCDWR=15,
        tRP=26,
        tRAS=45,
        tRC=72,
        tCCD_S=2,
        tCCD_L=4,
        tRRD_S=4,
        tRRD_L=5,
        tFAW=24,
        tWTR_S=7,
        tWTR_L=10,
        tRTW=20,
        tWR=33,
        tRTP=9,
        tRFCab=_up(350, clock),
        tREFI=_down(3_900, clock),
        tRFCpb=_up(200, clock),
        tRREFD=max(3, _up(8, clock)),
        tPPD=2,
        act_cycles=2,
        row_bus=True,
        sources={
            "": public,
            "BL": "JESD238: a burst of 8 on both edges of a strobe of twice the clock",
            "tCCD_S": "JESD238",
            "tCCD_L": "JESD238",
            "tRFCab": "JESD238: 350 ns for 8 Gb a channel",
            "tRFCpb": "JESD238: 200 ns for 8 Gb a channel",
            "tRREFD": "JESD238: 8 ns, three cycles at least",
            "tREFI": "JESD238: 3.9 us",
            "tPPD": "JESD238",
            "act_cycles": "JESD238: one and a half cycles on the row bus, taken as two",
            "row_bus": "JESD238: rows and columns have buses of their own",
        },
    )


def _pimba() -> Timing:
    clock = Fraction(1_512 * _M)
    paper, code = "Pimba (MICRO 2025), table 1", "Pimba's public simulator (d9ab7e2)"
    printed = ("tRP", "tRAS", "tCCD_S", "tCCD_L", "tWR", "tRTP", "tREFI", "tFAW")
    return Timing(
        name="pimba",
        title="a pseudo-channel of HBM2E as Pimba's simulator has it, 8 Gb a channel, 1.512 GHz",
        clock_hz=clock,
        organisation=Organisation(
            width=64, rows=1 << 15, columns=1 << 7, banks=4, groups=4, pseudos=2
        ),
        BL=2,
        beats=4,
        CL=14,
        CWL=4,
        tRCDRD=14,
        tRCDWR=14,
        tRP=14,
        tRAS=34,
        tRC=48,
        tCCD_S=2,
        tCCD_L=4,
        tRRD_S=4,
        tRRD_L=6,
        tFAW=30,
        tWTR_S=6,
        tWTR_L=8,
        tRTW=3,
        tWR=16,
        tRTP=6,
        tRFCab=350,
        tREFI=3_900,
        tRFCpb=160,
        tRREFD=8,
        row_bus=True,
        sources={
            "": code,
            **dict.fromkeys(printed, paper),
            "tRTP": f"{paper}: tRTP_L; tRTP_S, 4, is not used",
            "tRFCab": f"{code}: 350 cycles for 8 Gb, which it never charges",
            "tRFCpb": "the preset hbm2: neither paper nor simulator refreshes single banks",
            "act_cycles": "neither paper nor simulator charges the second cycle of ACT",
            "row_bus": "JESD235: rows and columns have buses of their own",
        },
    )


_ALL = (
    _sdr(),
    _ddr4(2400, 16, 12, "R", 21, 6),
    _ddr4(3200, 22, 16, "AA", 21, 8),
    _hbm2(),
    _hbm2e(),
    _hbm3(),
    _pimba(),
)
#: every preset by its name
PRESETS: Mapping[str, Timing] = {timing.name: timing for timing in _ALL}


def preset(name: str) -> Timing:
    """Return the preset of that name, capitals aside. Raises KeyError with the names there are."""
    try:
        return PRESETS[name.lower()]
    except KeyError:
        raise KeyError(f"there is no DRAM {name!r}; there are {', '.join(PRESETS)}") from None
