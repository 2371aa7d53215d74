"""Whether a part holds what was chosen, and at which clock, for every engine and command: a part that is nearly full has a slower one
(`models.derating`), for which a plan is chosen anew.

Planners raise E601 themselves where no candidate fits (`dsl.analytics.unplanned`, `dsl.qr.plan`, passes of `omap` and `pim`). What does fit is looked
for in `penstock.passes.compiling`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from penstock.boards.clocks import REACH, chosen_clock
from penstock.dsl.core.diagnostics import Diagnostic, Span, error
from penstock.models.derating import derated, fullest
from penstock.models.resources import AIM, FILL
from penstock.models.target import ASSUMED, Clock, Target
from penstock.passes.forms import Designed, Form, Origin

if TYPE_CHECKING:
    from penstock.engines.base import Design

#: times that a slower clock may ask for another plan
_PLANS = 3
Taken = TypeVar("Taken", bound=Form)
Chosen = TypeVar("Chosen", bound=Form)


def feasible(
    form: Taken, choose: Callable[[Taken], Chosen], design: Callable[[Chosen], Designed]
) -> Chosen:
    """Return what `choose` makes of a form, if its target holds the `design` of that.

    The target of what is returned has the clock that so full a part may have. Where that is slower for it, there is the warning W605.

    Raises KernelError (E601) where the design does not fit.
    """

    def judged(part: Target) -> tuple[Chosen, Design]:
        chosen = choose(replace(form, part=part))
        built = design(chosen).design
        _check_fits(form.origin, built, part)
        return chosen, built

    part = slower = form.part
    chosen, built = judged(part)
    for _ in range(_PLANS if built.refused is None else 0):
        clock = _clock(built, part)
        if clock.mhz >= slower.clock.mhz:
            break
        # a memory's own clock stays as it is: its cycles, and so the plan, may be others
        slower = replace(part, clock=clock)
        chosen, built = judged(slower)
    if slower.clock.evidence == ASSUMED and slower is not part:
        return chosen.warned(_nearly_full(form.origin, built, part))
    return chosen


def check_bus(design: Design, bus: int | None) -> None:
    """Raise KernelError (E622) where `--bus` asks for a width that none of a design's memory ports has."""
    if bus is None or design.refused is not None:
        return
    widths = sorted({port.data_bytes for port in design.bus_ports})
    if bus not in widths:
        sizes = " and ".join(map(str, widths))
        what = f"{design.name} has no memory port of {bus} bytes on {design.target.name}: its ports have {sizes}"
        hint = f"write --bus {' or '.join(map(str, widths))}, or leave it out"
        raise error("E622", what, Span.whole("--bus"), hint=hint)


def _clock(design: Design, part: Target) -> Clock:
    """Return the clock of a part that holds a design: of placements where there are some of its family and grade, else by how full it is."""
    if part.board is not None and (part.family, part.board.speed) in REACH:
        mhz = chosen_clock(part, design.format, design.resources.lut, design.clocks)
        return replace(part.clock, mhz=min(mhz, part.clock.mhz))
    if part.clock.evidence == "placed":
        return part.clock
    name, share = fullest(design.resources, part)
    source = f"{part.clock.mhz:g} MHz, less for {share:.0%} of {name.upper()}"
    return Clock(mhz=derated(part.clock.mhz, share), evidence=ASSUMED, source=source)


def _check_fits(kernel: Origin, design: Design, part: Target) -> None:
    """Raise KernelError (E601) where the part has too little for a design; nothing is built of one that is refused."""
    if design.refused is not None or (short := design.resources.fits(part)) is None:
        return
    need, have = getattr(design.resources, short), getattr(part, short)
    most = f", of which {FILL:.0%} can be filled" if need <= have else ""
    message = (
        f"{kernel.title} {kernel.name!r} does not fit on {part.name}: "
        f"it needs {need:,} {short.upper()}, the part has {have:,}{most}"
    )
    hint = "a smaller size, a narrower format (--format) or a larger target (--target) takes less"
    raise error("E601", message, kernel.name_span, hint=hint, source=kernel.source)


def _nearly_full(kernel: Origin, design: Design, part: Target) -> Diagnostic:
    name, share = fullest(design.resources, part)
    return Diagnostic(
        "W605",
        f"{kernel.title} {kernel.name!r} takes {share:.0%} of the {name.upper()} of {part.name}: "
        f"times are for {design.target.clock_mhz:.0f} MHz, assumed, not for {part.clock_mhz:g}",
        kernel.name_span,
        hint=f"planners aim at {AIM:.0%}; a larger target keeps its clock",
        severity="warning",
    )
