"""Plug-ins: what installed distributions offer under a group of entry points, and why some of it is left out.

What a distribution gets wrong breaks nothing that does not need it. In Python each plug-in that is left out is warned of
once; the command line names it whatever the command, and so does each diagnostic that it may explain.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

__all__ = ["RESERVED", "LeftOut", "Unusable", "absent", "left_out", "load"]

#: names of the module `penstock` that no plug-in may offer; it enters its own
RESERVED: set[str] = set()
_LEFT: dict[str, list[LeftOut]] = {}
_WARNED: set[LeftOut] = set()
_LOADING: list[tuple[str, str]] = []


class Unusable(Exception):
    """Why an entry point's offer cannot be used, in the words that the user reads."""


@dataclass(frozen=True)
class LeftOut:
    """A plug-in that cannot be used: what it is ("engine"), its entry point's name, and why."""

    kind: str
    name: str
    why: str

    def __str__(self) -> str:
        return f"the installed {self.kind} {self.name} is left out: {self.why}"


def load(group: str, kind: str, accept: Callable[[EntryPoint, Any], None]) -> dict[str, str]:
    """Hand what the group's entry points offer to `accept`, by name; return why some are left out, by name.

    `accept` may raise anything, `Unusable` with the reason alone. A plug-in that asks for its own group while it is imported is
    not loaded again.
    """
    nested = group in (at for at, _ in _LOADING)
    out: dict[str, str] = {}
    for point in sorted(entry_points(group=group), key=lambda p: p.name):
        if (group, point.name) in _LOADING:
            continue
        _LOADING.append((group, point.name))
        try:
            accept(point, point.load())
        except (Exception, SystemExit) as problem:  # whatever a package does when it is imported
            why = " ".join(str(problem).split())[:400]
            kept = isinstance(problem, Unusable)
            out[point.name] = why if kept else f"{type(problem).__name__}: {why}".rstrip(": ")
        finally:
            _LOADING.pop()
    if not nested:
        _LEFT[group] = [LeftOut(kind, name, why) for name, why in out.items()]
        for left in _LEFT[group]:
            if left not in _WARNED:
                _WARNED.add(left)  # once, also where warnings are errors
                warnings.warn(str(left), stacklevel=2)
    return out


def left_out() -> list[LeftOut]:
    """Return the plug-ins that were left out, of the groups loaded so far, in a fixed order."""
    return [left for _, group in sorted(_LEFT.items()) for left in group]


def absent() -> str:
    """Return what a hint about an unknown word adds where plug-ins are left out."""
    return "".join(f"; {left}" for left in left_out())
