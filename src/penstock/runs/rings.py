"""Pages of a run that come into an engine's rings: how, where a target's link is known, and what a machine is told of them.

How they come is an estimate, which a simulation keeps to the cycle.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from penstock.models.ring import Arrivals, Line, Ring
from penstock.models.target import Target
from penstock.sim.machine import Feed, Metered
from penstock.targets import link_of

#: the counter of cycles in which an engine waits for pages
WAITS = "waits_for_pages"

#: cycles that a host's write of a register takes, at most, and the fewest in which a page comes
_TURN, _LEAST = 4, 8


def lines(
    target: Target,
    slots: int,
    page_size: int,
    pages: int,
    ports: int,
    epochs: int,
    link_text: str | None = None,
) -> list[Line]:
    """Return how the pages of each port come: over the target's link, or that of `--link`, of which each port has its part; as fast as can be where
    none is known.

    Parameters: `slots`: of each port's ring; 0: the table lies in memory whole, and nothing comes; `pages`: in an epoch, dealt to the ports in turn.
    """
    if not slots:
        return []
    link = link_of(target, link_text)
    clock_hz, page, begins = round(target.clock.mhz * 10**6), Fraction(0), 0
    if link is not None:
        rate = link.pushing(page_size, clock_hz, target.bus_bytes, slots).bytes_per_s
        page, begins = page_size / rate * clock_hz, ceil(link.begins(clock_hz, ports))
    interval, turn = max(_LEAST, ceil(page * ports)), _TURN * ports
    times = {"interval": interval, "turn": turn, "begins": begins}
    return [
        Line(slots, len(range(q, pages, ports)) * epochs, phase=_TURN * q, **times)
        for q in range(ports)
    ]


def least(coming: Sequence[Arrivals]) -> dict[str, int]:
    """Return the term of bounds: cycles in which the pages come, were there always room for them; {} where none come so."""
    cycles = [line.total * line.interval for line in coming if isinstance(line, Line)]
    return {"link": max(cycles)} if cycles else {}


def waited(coming: Sequence[Arrivals]) -> dict[str, int]:
    """Return the counter `WAITS` of a run that is over: of the port that waited longest for pages on their line; {} where none come so."""
    waits = [line.waited for line in coming if isinstance(line, Line)]
    return {WAITS: max(waits)} if waits else {}


def bring(
    machine: Metered,
    coming: Sequence[Line],
    parts: Sequence[NDArray[np.uint8]],
    places: Sequence[int],
) -> tuple[dict[str, int], list[Feed]]:
    """Write each port's pages to memory, or have them come as `lines` says, into its ring there; return the registers and the feeds of the run."""
    registers: dict[str, int] = {}
    feeds: list[Feed] = []
    for q, (part, at) in enumerate(zip(parts, places, strict=True)):
        content = np.ascontiguousarray(part)
        if not coming:
            machine.write(at, content)
            continue
        registers[Ring(q).ready] = 0
        if len(part):
            machine.reserve(at, coming[q].slots * part.shape[1])
            feeds.append(Feed(Ring(q), content, at, coming[q]))
    return registers, feeds
