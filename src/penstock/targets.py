"""Targets and the timing of their memory ports, by what a user calls them."""

from __future__ import annotations

from penstock.boards.catalogue import boards
from penstock.dsl.core.diagnostics import Span, error
from penstock.dsl.core.hints import closest
from penstock.models.memory import FixedLatency, Memory, parse_memory
from penstock.models.plugins import absent
from penstock.models.target import TARGETS, Target

__all__ = ["target_named", "timing_of"]

boards()  # every board is a target


def target_named(name: str | Target) -> Target:
    """Return the target of that name, or the one that is given. Raises KernelError (E602)."""
    if isinstance(name, Target):
        return name
    if name not in TARGETS:
        hint = closest(name.lower(), TARGETS) or f"known are {', '.join(sorted(TARGETS))}"
        hint += absent()
        raise error("E602", f"there is no target {name!r}", Span.whole("--target"), hint=hint)
    return TARGETS[name]


def timing_of(memory: str | Memory | None, part: Target) -> Memory:
    """Return the timing of a part's memory ports, its own where none is given. Raises KernelError
    (E604)."""
    if memory is None:
        memory = part.memory
    if memory == "dram":
        if not part.dram:
            others = ", ".join(name for name, other in TARGETS.items() if other.dram)
            what = f"{part.name} has no DRAM of its own"
            hint = f"name one, as in --memory ddr4-2400; with DRAM of their own are {others}"
            raise error("E604", what, Span.whole("--memory"), hint=hint)
        memory = part.dram
    try:
        timing = parse_memory(memory, part.clock_mhz) if isinstance(memory, str) else memory
    except ValueError as problem:
        what, _, hint = str(problem).partition("; ")
        raise error(
            "E604",
            what,
            Span.whole("--memory"),
            hint=hint or f"as in --memory {part.memory}, which is what {part.name} has",
        ) from None
    if not isinstance(timing, FixedLatency):
        return timing
    if timing.bytes_per_cycle > part.bus_bytes:
        wider = [
            name for name, other in TARGETS.items() if other.bus_bytes >= timing.bytes_per_cycle
        ]
        hint = f"write bytes={part.bus_bytes}" + (
            f", or choose a target with wider ports: {', '.join(sorted(wider))}" if wider else ""
        )
        what = f"a memory port of {part.name} is {part.bus_bytes} bytes wide; it cannot carry {timing.bytes_per_cycle} bytes a cycle"
        raise error("E604", what, Span.whole("--memory"), hint=hint)
    return timing
