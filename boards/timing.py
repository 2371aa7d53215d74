"""What a placer's timing report says of the slowest path, in words: where it goes, what it is made of, and what would shorten it."""

import re
from dataclasses import dataclass
from typing import Any

#: ns from the clock to a cell's output above which the cell is a memory or a multiplier, not a flip-flop
_SLOW_START = 2.0
#: what synthesis and packing add to a signal's name
_ADDED = re.compile(
    r"(\$\d+)?_(TRELLIS|LUT4|CCU2C|PFUMX|L6MUX|SB_|DFF|ALU|CARRY|MUX2|WIDEFN|OXIDE|FD1P).*$"
)


@dataclass(frozen=True)
class Timing:
    """What a timing report says of the clock that is shortest of what is asked of it."""

    fmax_mhz: float | None  #: None where the report has none
    path: str = ""  #: critical path of that clock
    advice: str = ""  #: what would make it shorter, "" if not known
    asked_mhz: float = 0.0  #: 0 if not known

    @property
    def share(self) -> float:
        """What is reached, of what is asked."""
        return (self.fmax_mhz or 0.0) / (self.asked_mhz or 1.0)


def timing(report: dict[str, Any]) -> Timing:
    """Return what nextpnr's report (`--report`) says of the clock that is shortest of what is asked of it."""
    clocks = report.get("fmax", {})
    if not clocks:
        return Timing(None)
    asked = lambda name: clocks[name].get("constraint", 0.0)
    slowest = min(clocks, key=lambda name: clocks[name]["achieved"] / (asked(name) or 1.0))
    fmax = clocks[slowest]["achieved"]
    for entry in report.get("critical_paths", []):
        if slowest in entry.get("from", "") and slowest in entry.get("to", ""):
            return Timing(fmax, *_words(entry["path"]), asked(slowest))
    return Timing(fmax, asked_mhz=asked(slowest))


def _words(steps: list[dict[str, Any]]) -> tuple[str, str]:
    first, last = (_name(step) for step in (steps[0], steps[-1]))
    sums = {
        kind: sum(step.get("delay", 0.0) for step in steps if step.get("type") == kind)
        for kind in ("clk-to-q", "logic", "routing", "setup")
    }
    total, cells = sum(sums.values()), sum(step.get("type") == "logic" for step in steps)
    start = sums["clk-to-q"]
    slow = start > _SLOW_START
    parts = f"{start:.1f} ns out of {'a memory or multiplier' if slow else 'a register'}, {sums['logic']:.1f} ns logic, {sums['routing']:.1f} ns routing"
    path = f"{first} to {last}, {cells} cell{'s' * (cells != 1)}, {total:.1f} ns ({parts})"
    if slow and start > total / 4 and cells > 1:
        return path, f"a register behind {first}"
    past = 0.0
    middle = next(
        (_name(step) for step in steps if (past := past + step.get("delay", 0.0)) >= total / 2),
        last,
    )
    if cells <= 1:
        return path, f"more placements, which bring {first} and {last} together"
    if sums["routing"] > 2 * (total - sums["routing"]):
        return path, f"more placements (most of it is routing), or a register near {middle}"
    return path, f"a register near {middle}"


def _name(step: dict[str, Any]) -> str:
    return _ADDED.sub("", step.get("to", {}).get("cell", "?"))
