"""Whether what was planned can be built: judged once, for every engine and command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from penstock.boards.catalogue import targets
from penstock.boards.clocks import REACH, chosen_clock
from penstock.dsl.core.diagnostics import Diagnostic, KernelError, Span, error
from penstock.models.feasible import derated, fullest
from penstock.models.resources import AIM, FILL
from penstock.models.target import ASSUMED, Clock, Target

if TYPE_CHECKING:
    from penstock.dsl.core.kernel import AnyKernel
    from penstock.engines.base import Design, Engine, Given

#: what no shell reads, and no address of a server
_WORD = re.compile(r"(?!.*//)[\w@%+=:,./-]+", re.ASCII)
#: times that a slower clock may ask for another plan
_PLANS = 3


def feasible(
    engine: Engine, kernel: AnyKernel, part: Target, args: Given, *, search: bool = True
) -> Design:
    """Return the design of a kernel, if its target holds it.

    The design's target has the clock that so full a part may have. Where that is slower for it, the kernel has the warning W605.
    `search`: look for what does fit, for the hint.

    Raises KernelError (E601) where the design does not fit, with what does; otherwise as `Engine.compile`.
    """
    try:
        design, slower = _judged(engine, kernel, part, args), part
        for _ in range(_PLANS if design.refused is None else 0):
            clock = _clock(design, part)
            if clock.mhz >= slower.clock.mhz:
                break
            # a memory's own clock stays as it is: its cycles, and so the plan, may be others
            slower = replace(part, clock=clock)
            design = _judged(engine, kernel, slower, args)
        if search:
            design = replace(design, elsewhere=partial(_holds, engine, kernel, args))
        if design.refused is not None and search:
            others = partial(_alternatives, engine, kernel, part, args, larger=False)
            return replace(design, alternatives=others)
    except KernelError as problem:
        if problem.diagnostic.code != "E601" or not search:
            raise
        diagnostic = problem.diagnostic
        hint = "; ".join([diagnostic.hint, *_alternatives(engine, kernel, part, args)])
        raise KernelError(replace(diagnostic, hint=hint), problem.source or kernel.source) from None
    if slower.clock.evidence == ASSUMED and slower is not part:
        kernel.warnings = [*kernel.warnings, _nearly_full(kernel, design, part)]
    return design


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


def _judged(
    engine: Engine, kernel: AnyKernel, part: Target, args: Given, *, whichever: bool = False
) -> Design:
    """Return the design, or `whichever` is found first. Raises KernelError (E601) where the part has too little."""
    compiled = engine.compile_any if whichever else engine.compile
    design = compiled(kernel, part, args)
    design = replace(design, asked=_typed(engine, args))
    if design.refused is not None:  # nothing is built
        return design
    if (short := design.resources.fits(part)) is not None:
        need, have = getattr(design.resources, short), getattr(part, short)
        most = f", of which {FILL:.0%} can be filled" if need <= have else ""
        message = (
            f"{kernel.title} {kernel.name!r} does not fit on {part.name}: "
            f"it needs {need:,} {short.upper()}, the part has {have:,}{most}"
        )
        hint = (
            "a smaller size, a narrower format (--format) or a larger target (--target) takes less"
        )
        raise error("E601", message, kernel.name_span, hint=hint, source=kernel.source)
    return design


def _typed(engine: Engine, args: Given) -> str:
    """Return what was given as it is typed, for who compiles the same again; "" where a shell would read some of it otherwise."""
    words: list[str] = []
    shared = {"format": getattr(args.format, "name", args.format), "memory": args.memory}
    for name, value in (shared | {"data": args.source}).items():
        words += [f"--{name}", value] if isinstance(value, str) else []
    for option in engine.options.get("compile", ()):
        value = args.option(option.name)
        pairs = value.items() if option.repeated and value else ()
        for key, one in pairs:
            words += [option.flag, f"{key}={','.join(one) if isinstance(one, tuple) else one}"]
        if not option.repeated and value is not None:
            words += [option.flag] if option.flagged else [option.flag, str(value)]
    return " ".join(words) if all(map(_WORD.fullmatch, words)) else ""


def _nearly_full(kernel: AnyKernel, design: Design, part: Target) -> Diagnostic:
    name, share = fullest(design.resources, part)
    return Diagnostic(
        "W605",
        f"{kernel.title} {kernel.name!r} takes {share:.0%} of the {name.upper()} of {part.name}: "
        f"times are for {design.target.clock_mhz:.0f} MHz, assumed, not for {part.clock_mhz:g}",
        kernel.name_span,
        hint=f"planners aim at {AIM:.0%}; a larger target keeps its clock",
        severity="warning",
    )


def _alternatives(
    engine: Engine, kernel: AnyKernel, part: Target, args: Given, *, larger: bool = True
) -> Iterator[str]:
    """Yield in words what fits; each was planned and judged. `larger`: say also that no larger target holds it."""
    forced = {
        option.name: option.flag
        for option in engine.options.get("compile", ())
        if option.forces and args.options.get(option.name) is not None
    }
    if "choices" in args.options:
        forced["choices"] = "choices"
    for names in dict.fromkeys([*((name,) for name in forced), tuple(forced)]):
        left = {name: value for name, value in args.options.items() if name not in names}
        if names and _fits(engine, kernel, part, replace(args, options=left)):
            yield f"without {' and '.join(forced[name] for name in names)} it fits"
            return
    if largest := engine.largest(kernel, part, args):
        yield largest
        return
    others = sorted((t for t in targets().values() if t.lut > part.lut), key=lambda t: t.lut)
    kept = {name: value for name, value in args.options.items() if name not in forced}
    ways = {"": args, f"without {' and '.join(forced.values())} ": replace(args, options=kept)}
    for how, options in list(ways.items())[: 1 + bool(forced)]:
        # where neither of the two largest holds it, none does
        if not any(_fits(engine, kernel, other, options) for other in others[-2:]):
            continue
        # a run that is known has to fit in its memory as well
        known = options.rows is not None or options.data is not None
        run = options if known else None
        for other in others:
            if _holds(engine, kernel, options, run, other):
                yield f"{how}it fits on --target {other.name}"
                return
    if larger and others:
        yield "no larger target that is known holds it either"


def _fits(engine: Engine, kernel: AnyKernel, part: Target, args: Given) -> bool:
    return _holds(engine, kernel, args, None, part, simulated=True)


def _holds(
    engine: Engine,
    kernel: AnyKernel,
    args: Given,
    run: Given | None,
    part: Target,
    *,
    simulated: bool = False,
) -> bool:
    """Return whether a part holds a design, and its memory a run of it where there is one. `simulated`: it may lack
    ports of the design, which is one of simulation alone then."""
    from penstock.errors import Conflict
    from penstock.host.sources import SourceError

    try:
        # compiling leaves warnings on a kernel
        design = _judged(engine, copy(kernel), part, args, whichever=True)
        if not simulated and design.own_ports >= part.ports:
            return False
        if run is None or design.refused is not None:
            return design.refused is None
        return design.workload(run).device_bytes() <= part.memory.bytes
    except (KernelError, SourceError, Conflict):
        return False
