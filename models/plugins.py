"""Plug-ins: what installed distributions offer under a group of entry points, and why some of it is left out.

What a distribution gets wrong breaks nothing that does not need it. In Python each plug-in that is left out is warned of
once; the command line names it whatever the command, and so does each diagnostic that it may explain.
"""

from __future__ import annotations

import warnings

TYPE_CHECKING = False  # little is imported before Ctrl-C is seen to
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.metadata import EntryPoint
    from typing import Any

#: names of the module `penstock` that no plug-in may offer; it enters its own
RESERVED: set[str] = set()
_LEFT: dict[str, list[str]] = {}
_OFFERS: dict[str, list[Offer]] = {}
_WARNED: set[str] = set()
_LOADING: list[tuple[str, str]] = []


class Unusable(Exception):
    """Why an entry point's offer cannot be used, in the words that the user reads."""


class Offer:
    """One entry point. `kind`: what it is, in words; `place`: its "module:attribute"; `distribution`: name and version; `why`: the
    reason why it is left out, "" where it is not."""

    def __init__(self, kind: str, point: EntryPoint, why: str) -> None:
        self.kind, self.why = kind, why
        self.name, self.place = point.name, point.value
        self.distribution = "" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def load(group: str, kind: str, accept: Callable[[EntryPoint, Any], None]) -> None:
    """Hand what the group's entry points offer to `accept`, by name.

    `accept` may raise anything, `Unusable` with the reason alone. A plug-in that asks for its own group while it is imported is
    not loaded again.
    """
    nested = group in (at for at, _ in _LOADING)
    points, out = _points(group)
    offers: list[Offer] = []
    for point in sorted(points, key=lambda p: p.name):
        if (group, point.name) in _LOADING:
            continue
        _LOADING.append((group, point.name))
        why = ""
        try:
            accept(point, point.load())
        except (Exception, SystemExit) as problem:  # whatever a package does when it is imported
            why = " ".join(str(problem).split())[:400]
            if not isinstance(problem, Unusable):
                why = f"{type(problem).__name__}: {why}".rstrip(": ")
            out.append(f"the installed {kind} {point.name} is left out: {why}")
        finally:
            _LOADING.pop()
        offers.append(Offer(kind, point, why))
    if not nested:
        _LEFT[group], _OFFERS[group] = out, offers
        for left in [one for one in out if one not in _WARNED]:
            _WARNED.add(left)  # once, also where warnings are errors
            warnings.warn(left, stacklevel=2)


def _points(group: str) -> tuple[list[EntryPoint], list[str]]:
    """Return the group's entry points, and what is to be said of distributions whose list of them cannot be read."""
    from importlib.metadata import distributions, entry_points

    try:
        return list(entry_points(group=group)), []
    except Exception:  # one of them cannot be read: each by itself, the first of a name as above
        points, out, seen = [], [], set()
    for each in distributions():
        name = each.name or str(getattr(each, "_path", "without a name"))
        try:
            points += [] if name in seen else each.entry_points.select(group=group)
        except Exception as problem:
            why = f"its entry_points.txt cannot be read: {type(problem).__name__}: {problem}"
            out.append(f"the installed distribution {name} is left out: {why}")
        seen.add(name)
    return points, out


def offers() -> list[Offer]:
    """Return what distributions offer, of the groups loaded so far, in a fixed order."""
    return [offer for _, group in sorted(_OFFERS.items()) for offer in group]


def left_out() -> list[str]:
    """Return what is to be said of the plug-ins left out, of the groups loaded so far, in a fixed order."""
    return list(dict.fromkeys(left for _, group in sorted(_LEFT.items()) for left in group))


def absent() -> str:
    """Return what a hint about an unknown word adds where plug-ins are left out."""
    return "".join(f"; {left}" for left in left_out())
