"""The engine's own options."""

from __future__ import annotations

import click

from penstock.models.pim.config import Design
from penstock.models.pim.timing import NAMES
from penstock.options import FILL, INPUTS, TABLE, Count, Option

__all__ = ["FORMATS", "OPTIONS", "SCHEDULES"]

#: number formats of units, the default first
FORMATS = ("mx8", "float16")

#: schedules by name: (sets of bank groups, whether COMP is bank-local)
SCHEDULES = {"together": (1, False), "halves": (2, False), "quarters": (4, True)}

_DIMS = tuple(option for option in TABLE if option.name == "dims")
_RUN = (
    Option("--tokens", "tokens", Count(1, 1 << 20), "N", "Steps of the recurrence.  [default: 4]"),
    Option("--first", "first", Count(0, 1 << 40), "N", "Number of the first token.  [default: 0]"),
    Option("--batch", "batch", Count(1, 1 << 16), "N", "Requests.  [default: 1]", plans=True),
    Option("--heads", "heads", Count(1, 1 << 16), "N", "Heads of each.  [default: 2]", plans=True),
    Option(
        "--kv-heads",
        "kv_heads",
        Count(1, 1 << 16),
        "N",
        "Caches that heads share, of attention.  [default: one each]",
        plans=True,
    ),
)
_DEVICE = tuple(
    Option(f"--{name}", name, kind, metavar, text, plans=True, forces=name in ("banks", "schedule"))
    for name, kind, metavar, text in (
        (
            "schedule",
            click.Choice(list(SCHEDULES)),
            None,
            "All banks together (as published), or bank groups staggered.  [default: together]",
        ),
        (
            "unit",
            click.Choice([design.label for design in Design]),
            None,
            "How units and banks go together.  [default: pimba]",
        ),
        (
            "rounding",
            click.Choice(["nearest", "stochastic"]),
            None,
            "Of the new state.  [default: stochastic in mx8]",
        ),
        (
            "refresh",
            click.Choice(["none", "window", "all-bank", "per-bank"]),
            None,
            "How refresh is placed and charged.  [default: none]",
        ),
        (
            "dram",
            click.Choice(list(NAMES)),
            None,
            "Timing of the banks, or the FPGA's own block RAM.  [default: pimba]",
        ),
        (
            "banks",
            Count(2, 64),
            "N",
            "Banks of the device, a power of two.  [default: as many as fit]",
        ),
    )
)
OPTIONS = dict.fromkeys(
    ("check", "compile", "model", "simulate", "build"), (*_DIMS, *_RUN, *_DEVICE, FILL, *INPUTS)
)
