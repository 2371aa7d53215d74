"""When an `AccessPort` delivers: exact cycles, composed of what its parts do.

Cycle 0 is the one in which `start` reaches the page sequencer. All constants follow from the hardware:

* sequencer: the first command is offered in cycle 1, one a cycle while credits last, the page after a `free` in cycle t from t + 1 on
* reader: a command accepted in cycle c has its (first) AR in c + 1; `Reader` in `models.memory.bursts` has the rules
* walker: a page whose last word comes in cycle t starts in t + 1, or in the cycle after the walker's last page ended; from there on
  `machine.Machine` counts. A loop start that leads to a tuple, the end of the page or an error waits until a slot is free.
* tuple buffer: what is issued in cycle t can be collected from t + 4 + depth of the converters on; a slot collected in cycle t is free in t + 1
* collector: what it takes up in cycle u is offered in u + 1; it takes up the next beat in the cycle in which the last one is accepted. A
  page's end takes it one cycle, without anything to offer unless it is the epoch's last. An error is signalled in u + 1.
* page buffers: freed in cycle t, `free` in t + 1 at the earliest, in page order, one a cycle
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..memory.bursts import COMMANDS, burst_count
from ..memory.timing import ReadPort
from .config import PortConfig, WalkConfig
from .machine import Event, Machine
from .program import generate
from .table import _CHUNK, classify

__all__ = ["Collector", "Costs", "PortModel", "analyse"]

_KINDS = {"tuple": 0, "null": 1, "end": 2, "error": 3}


@dataclass
class Costs:
    """What walking some pages costs: for each page its events as (kind, wait, issue) with kinds as numbers.

    Pages that look alike share a list. `errors` holds the error of a page by its index.
    """

    pages: list[list[tuple[int, int, int]]] = field(default_factory=list)
    errors: dict[int, Event] = field(default_factory=dict)
    tuples: int = 0

    def every(self, step: int, first: int = 0) -> Costs:
        """The costs of pages first, first + step, …: one port's share of a striped table."""
        pages = self.pages[first::step]
        errors = {(k - first) // step: event for k, event in self.errors.items() if k % step == first % step}
        return Costs(pages, errors, sum(event[0] == 0 for page in pages for event in page))


def analyse(config: PortConfig, walk: WalkConfig, pages: NDArray[np.uint8]) -> Costs:
    """Find the costs of all pages. Regular pages with equally many tuples cost the same, so one of each is walked."""
    machine = Machine(config, generate(walk), deliver=False)
    costs = Costs()
    known: dict[tuple[int, tuple[tuple[int, int], ...]], list[tuple[int, int, int]]] = {}
    for first in range(0, len(pages), _CHUNK):
        chunk = np.ascontiguousarray(pages[first:first + _CHUNK])
        found = classify(walk, chunk)
        shape = tuple(sorted(found.places.items()))
        for k, (regular, count) in enumerate(zip(found.pages.tolist(), found.counts.tolist(), strict=True)):
            events = known.get((count, shape)) if regular else None
            if events is None:
                walked = machine.walk(chunk[k])
                events = [(_KINDS[e.kind], e.wait, e.issue) for e in walked.events]
                if walked.events[-1].kind == "error":
                    costs.errors[first + k] = walked.events[-1]
                if regular:
                    known[count, shape] = events
            costs.pages.append(events)
            costs.tuples += count if regular else sum(event[0] == 0 for event in events)
    return costs


class Collector:
    """Walkers, tuple buffers and collector of one port, given when pages have arrived.

    Parameters
    ----------
    config, costs
        The port and its pages.
    arrival
        Gives the cycle of the last word of the k-th page (counted over epochs); called in order, after `free` says when the buffer
        of page k - credits was freed.
    """

    def __init__(self, config: PortConfig, costs: Costs, arrival: Callable[[int], int]) -> None:
        self.config, self.costs, self.arrival = config, costs, arrival
        self.pipe = 4 + config.depth
        self.count = len(costs.pages)
        self.free: list[int] = []               # pulses on `free`, by page
        self._page = 0                          # page being collected, over epochs
        self._left = self.count                 # pages left in this epoch
        self._events: list[tuple[int, int, int]] = []
        self._at = 0
        self._go = 0                            # first cycle in which the collector can take something up
        self._start = 0                         # the collected page's last loop start
        # of each walker: first cycle in which it can start a page; cycles in which its latest `slots` slots are free again
        self._idle = [0] * config.walkers
        self._slots = [deque([0] * config.slots) for _ in range(config.walkers)]

    def _open(self) -> None:
        """Begin with the next page."""
        walker = self._page % self.config.walkers
        self._walker = walker
        self._room = self._slots[walker]
        self._events = self.costs.pages[self._page % self.count]
        self._at = 0
        self._start = max(self._idle[walker], self.arrival(self._page) + 1)

    def pull(self, ready: int, accept: Callable[[int], int] | None = None) -> tuple[int, str]:
        """Take the next tuple, epoch end or error.

        Parameters
        ----------
        ready
            First cycle in which the consumer takes a tuple's first beat, or the token. It takes the tuple's other beats when they come.
        accept
            Instead of `ready`, for any consumer: gives the first cycle from its argument on in which `o.ready` is high.

        Returns
        -------
        tuple
            The cycle of that transfer (of an error: in which it is signalled), and "tuple", "end" or "error".
        """
        while True:
            if self._at == len(self._events):
                self._open()
            kind, wait, issue = self._events[self._at]
            self._at += 1
            start = self._start + wait
            free = self._room[0]                # the slot that this event takes
            if free > start:
                start = free
            self._start = start
            if kind == 1:
                continue
            self._room.popleft()
            take = start + issue + self.pipe
            if self._go > take:
                take = self._go
            if kind == 0:
                if accept is not None:
                    return self._transfer(take, accept), "tuple"
                beats = self.config.beats
                first = take + 1 if take >= ready else ready
                self._go = first + beats - 1
                self._room.append(take + 1 if beats == 1 else first + beats - 1)
                return first, "tuple"
            if kind == 3:
                self._at -= 1                   # nothing follows
                self._room.appendleft(free)
                return take + 1, "error"
            self._room.append(take + 1)
            self._end(start)
            self._left -= 1
            if not self._left:
                self._left = self.count
                self._go = accept(take + 1) if accept is not None else max(take + 1, ready)
                return self._go, "end"
            self._go = take + 1

    def _transfer(self, take: int, accept: Callable[[int], int]) -> int:
        first = moved = accept(take + 1)
        for _ in range(self.config.beats - 1):
            take = moved
            moved = accept(moved + 1)
        self._room.append(take + 1)
        self._go = moved
        return first

    def _end(self, cycle: int) -> None:
        """The page ends in this cycle."""
        self.free.append(max(cycle + 1, self.free[-1] + 1 if self.free else 0))
        self._idle[self._walker] = cycle + 1
        self._page += 1


class PortModel(Collector):
    """An access port with its sequencer and reader on one memory port.

    Parameters
    ----------
    config, costs
        The port and its pages (at least one).
    memory
        The memory's read port. It serves nothing else from the start on.
    epochs
        How often the pages are read.
    base, stride
        Address of the first page and bytes from one to the next (0: `page_size`); they matter where bursts end.
    """

    def __init__(self, config: PortConfig, costs: Costs, memory: ReadPort, epochs: int, *, base: int = 0, stride: int = 0,
                 commands: int = COMMANDS) -> None:
        self.memory, self.epochs, self.base, self.stride, self.commands = memory, epochs, base, stride or config.page_size, commands
        self._command = 0                       # first cycle that can offer the next command
        self._issue = 0                         # first cycle that can accept it
        self._ends: list[int] = []              # last words of all pages asked for
        self._runs: list[int] = []              # by page: equal pages from it on
        super().__init__(config, costs, self._fetch)

    def _fetch(self, page: int) -> int:
        """Ask for page `page`; return the cycle of its last word."""
        while len(self._ends) <= page:
            k = len(self._ends)
            offered = max(self._command, 1)
            if k >= self.config.credits:
                offered = max(offered, self.free[k - self.config.credits] + 1)
            taken = max(offered, self._issue)
            if k >= self.commands:
                taken = max(taken, self._ends[k - self.commands] + 1)
            words = self.config.words_per_page
            self._command = taken + 1
            self._issue = taken + burst_count(self.base + k % self.count * self.stride, words, self.config.bus_bytes)
            self._ends.append(self.memory.read(taken + 1, words)[1])
        return self._ends[page]

    # runs of equal pages repeat themselves: what a caller needs to leap over them

    @property
    def page(self) -> int:
        """The page being collected, counted over epochs."""
        return self._page

    def alike(self) -> int:
        """How many pages from this one on, up to the end of the epoch, cost the same as it."""
        place = self._page % self.count
        if not self._runs:
            runs = [1] * self.count
            for k in range(self.count - 2, -1, -1):
                if self.costs.pages[k] is self.costs.pages[k + 1]:
                    runs[k] = runs[k + 1] + 1
            self._runs = runs
        return self._runs[place]

    def state(self, base: int) -> tuple[int, ...]:
        """Everything that the future depends on besides the pages themselves, times relative to cycle `base`.

        Two equal states lead to the same deliveries, as much later as their bases are apart, as long as the pages are alike.
        """
        recent = self._ends[-max(self.commands, self.config.credits):]
        freed = self.free[-self.config.credits:]
        slots = [time for room in self._slots for time in room]
        return (self._at, len(self._events), len(self._ends) - self._page, len(self.free) - self._page, self._page % self.config.walkers,
                self.memory.idle_from - base, *(time - base for time in
                (self._command, self._issue, self._go, self._start, *self._idle, *recent, *freed, *slots)))

    def leap(self, pages: int, cycles: int) -> None:
        """Go on as if `pages` more pages (a multiple of the walkers) had been delivered, everything `cycles` later."""
        shift = lambda times: [time + cycles for time in times]
        self._command, self._issue, self._go, self._start = shift((self._command, self._issue, self._go, self._start))
        self._idle = shift(self._idle)
        self._slots = [deque(shift(room)) for room in self._slots]
        self._ends = [0] * pages + shift(self._ends)
        self.free = [0] * pages + shift(self.free)
        self._page += pages
        self._left -= pages
        if self._at < len(self._events):
            self._room = self._slots[self._walker]
        self.memory.delay(cycles)
