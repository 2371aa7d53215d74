"""Compiling: the passes of a kernel's engine, one after the other."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, get_type_hints

from penstock.boards.catalogue import targets
from penstock.dsl.core.diagnostics import KernelError
from penstock.passes.forms import Designed, Request

if TYPE_CHECKING:
    from penstock.dsl.core.kernel import AnyKernel
    from penstock.engines.base import Design, Engine, Given
    from penstock.models.target import Target

#: what no shell reads, and no address of a server
_WORD = re.compile(r"(?!.*//)[\w@%+=:,./-]+", re.ASCII)


@dataclass(frozen=True)
class Pass:
    """One pass: a function from one form to the next, whose docstring is its contract."""

    run: Callable[[Any], Any]

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def contract(self) -> str:
        return inspect.getdoc(self.run) or ""

    @property
    def gives(self) -> type[Any]:
        """The type of the form that it gives."""
        return get_type_hints(self.run)["return"]


def emit(form: Designed) -> str:
    """Write the design in its shell as Verilog.

    Takes a design that has hardware; the text that it gives has the top module `penstock`, and is the same for the same plan.

    Before: `design=AnalyticsDesign(plan=AnalyticsPlan(threads=4, …))`
    After: `module penstock (clk, rst, …); …`
    """
    return form.design.verilog


def passes_of(engine: Engine) -> tuple[Pass, ...]:
    """Return the passes from a kernel of an engine to Verilog: the engine's own, then `emit`."""
    return tuple(map(Pass, (*engine.passes, emit)))


class Stopped(Exception):
    """Raised by a `watch` that wants no further pass."""


def compiled(
    engine: Engine,
    kernel: AnyKernel,
    part: Target,
    args: Given,
    *,
    search: bool = True,
    quick: bool = False,
    watch: Callable[[str, Any], None] = lambda name, form: None,
) -> Design:
    """Return the design of a kernel: what the engine's passes make of it, one after the other.

    `search`: look for what does fit where the target does not hold it, for the hint; `quick`: as of `Request`; `watch`: sees the name of each pass and the
    form that it gives. What was found doubtful is in the design, and the kernel has it too.

    Raises KernelError, SourceError, as the passes do; what `watch` raises.
    """
    form: Any = Request(kernel, part, args, quick)
    try:
        for step in engine.passes:
            form = step(form)
            watch(step.__name__, form)
    except KernelError as problem:
        if problem.diagnostic.code != "E601" or not search:
            raise
        diagnostic = problem.diagnostic
        hint = "; ".join([diagnostic.hint, *_alternatives(engine, kernel, part, args)])
        raise KernelError(replace(diagnostic, hint=hint), problem.source or kernel.source) from None
    kernel.warnings = list(form.warnings)
    warned = tuple(dict.fromkeys(form.warnings))
    facts = {"source": kernel.source or "", "asked": _typed(engine, args), "warned": warned}
    design = replace(form.design, **facts)
    if not search:
        return design
    design = replace(design, elsewhere=partial(_holds, engine, kernel, args))
    if design.refused is None:
        return design
    others = partial(_alternatives, engine, kernel, part, args, larger=False)
    return replace(design, alternatives=others)


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
        design = compiled(engine, copy(kernel), part, args, search=False, quick=True)
        if not simulated and design.own_ports >= part.ports:
            return False
        if run is None or design.refused is not None:
            return design.refused is None
        return design.workload(run).device_bytes() <= part.memory.bytes
    except (KernelError, SourceError, Conflict):
        return False
