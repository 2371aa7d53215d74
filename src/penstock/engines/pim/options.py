"""The engine's own options."""

from collections.abc import Sequence

import click

from penstock.dsl.core.diagnostics import KernelError, Span, error
from penstock.engines.options import FILL, INPUTS, TABLE, Count, Option
from penstock.models.pim.config import Design
from penstock.models.pim.timing import NAMES

#: number formats of units, the default first
FORMATS = ("mx8", "float16")

#: schedules by name: (sets of bank groups, whether COMP is bank-local)
SCHEDULES = {"together": (1, False), "halves": (2, False), "quarters": (4, True)}

_DIMS = tuple(option for option in TABLE if option.name == "dims")
_MANY = Count(1, 1 << 16)
_RUN = (
    Option("tokens", Count(1, 1 << 20), "N", "Steps of the recurrence.  [default: 4]"),
    Option("first", Count(0, 1 << 40), "N", "Number of the first token.  [default: 0]"),
    *(
        Option(name, _MANY, "N", text, plans=True)
        for name, text in (
            ("batch", "Requests.  [default: 1]"),
            ("heads", "Heads of each.  [default: 2]"),
            ("kv_heads", "Caches that heads share, of attention.  [default: one each]"),
        )
    ),
)
#: options of the device: what each may be, and what help says
_KINDS: dict[str, tuple[Sequence[str], str]] = {
    "schedule": (tuple(SCHEDULES), "All banks together (as published), or bank groups staggered.  [default: together]"),
    "unit": ([design.label for design in Design], "How units and banks go together.  [default: pimba]"),
    "rounding": (("nearest", "stochastic"), "Of the new state.  [default: stochastic in mx8]"),
    "refresh": (("none", "window", "all-bank", "per-bank"), "How refresh is placed and charged.  [default: none]"),
    "dram": (NAMES, "Timing of the banks, or the FPGA's own block RAM.  [default: pimba]"),
}  # fmt: skip
_BANKS = "Banks of the device, a power of two.  [default: as many as fit]"
_DEVICE = (
    *(
        Option(n, click.Choice(list(of)), None, text, plans=True, forces=n == "schedule")
        for n, (of, text) in _KINDS.items()
    ),
    Option("banks", Count(2, 64), "N", _BANKS, plans=True, forces=True),
)
OPTIONS = dict.fromkeys(
    ("check", "compile", "model", "simulate", "build"), (*_DIMS, *_RUN, *_DEVICE, FILL, *INPUTS)
)


def misfit(option: str, message: str, hint: str = "") -> KernelError:
    """Return the error (E464) of an option that does not go with the rest; without a hint it may be left out."""
    return error("E464", message, Span.whole(f"--{option}"), hint=hint or f"leave --{option} out")
